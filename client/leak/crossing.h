/* What crosses, as the server has it: tensors behind the real codec, of samples of the test set. Head, middle and tail
 * are computed in training mode, chunk by chunk, as --local does, with a learning rate of 0. */
#ifndef SL_CLIENT_LEAK_CROSSING_H
#define SL_CLIENT_LEAK_CROSSING_H

#include "client/run/setup.h"

/* Samples and what crossed of them, row by row. */
struct sl_crossed {
	int64_t n;
	struct sl_shape head, mid, picture;   /* of one sample */
	float *head_act, *mid_act, *mid_grad; /* mid_grad NULL: it does not cross; mid_… NULL: not kept */
	float *image;                         /* [n, h, w, c] pixels in [0, 1] */
	int32_t *label;
};

void sl_crossed_close(struct sl_crossed *c); /* idempotent; a zeroed one is fine */

/* What two parts of the test set make cross, with setup->weights. Of `victim` everything is kept. Of `aux` head_act and
 * the pictures are kept. They have as many samples as `victims` and `aux_rows` say; a smaller test set is divided in
 * that ratio. victim NULL: that part is passed over. CONFIG: the network does not read pictures. */
enum sl_err sl_crossing_collect(struct sl_setup *setup, int64_t victims, int64_t aux_rows, struct sl_crossed *victim,
				struct sl_crossed *aux, struct sl_fail *fail) SL_MUST_CHECK;

#endif
