/* What crosses, as the server has it: tensors behind the real codec, of samples of the test set. Head, middle and tail
 * are computed in training mode, chunk by chunk, as --local does, with a learning rate of 0. */
#ifndef SL_CLIENT_LEAK_CROSSING_H
#define SL_CLIENT_LEAK_CROSSING_H

#include "client/run/setup.h"

/* Samples and what crossed of them, row by row. Of texts a row is a token; those at a text's ends do not count, which
 * tokenizers put there. */
struct sl_crossed {
	int64_t n, most;                      /* rows, and for how many there is memory */
	struct sl_shape head, mid, picture;   /* of one sample */
	float *head_act, *mid_act, *mid_grad; /* mid_grad NULL: it does not cross; mid_… NULL: not kept */
	float *image;   /* [n, h, w, c] pixels in [0, 1]; or the token's row of the table of words */
	int32_t *label; /* or the token */
};

void sl_crossed_close(struct sl_crossed *c); /* idempotent; a zeroed one is fine */

/* The table of words in setup->weights, of the network's `vocab` tokens by *features; NULL: it reads no texts. */
const float *sl_crossing_words(const struct sl_setup *setup, int64_t *features);

/* What two parts of the test set make cross, with setup->weights. Of `victim` everything is kept, of texts head_act
 * alone. Of `aux` head_act and the pictures are kept. They have as many rows as `victims` and `aux_rows` say; a smaller
 * test set is divided in that ratio. victim NULL: that part is passed over. CONFIG: the network reads neither pictures
 * nor texts, or what crosses of a text has no row for each token. */
enum sl_err sl_crossing_collect(struct sl_setup *setup, int64_t victims, int64_t aux_rows, struct sl_crossed *victim,
				struct sl_crossed *aux, struct sl_fail *fail) SL_MUST_CHECK;

#endif
