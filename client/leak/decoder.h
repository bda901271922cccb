/* A decoder: what an attacker trains to give pictures back from the activations that cross. Its layers are the
 * network's own ops: a batch norm, a transposed convolution for each halving of the picture (k 4, stride 2, 32
 * channels, batch norm, ReLU), three 3 × 3 convolutions, mean squares against the pixels. Of vectors it is a batch
 * norm and one linear layer, which says a picture or a class. Adam, its rate falling to 0 along a cosine; the batches
 * are drawn from the seed. */
#ifndef SL_CLIENT_LEAK_DECODER_H
#define SL_CLIENT_LEAK_DECODER_H

#include "common/exec/exec.h"

struct sl_decoder;

struct sl_decoder_spec {
	struct sl_shape act;   /* [1, h, w, c] or [1, d], of one sample */
	struct sl_shape image; /* [1, H, W, C] */
	int classes;           /* of vectors: which class they are of is wanted. 0: the picture */
	uint64_t seed;
	int steps;
};

/* `be` is borrowed. CONFIG: no decoder for such a shape. */
enum sl_err sl_decoder_open(struct sl_decoder **out, const struct sl_decoder_spec *spec, struct sl_backend *be,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_decoder_close(struct sl_decoder *decoder); /* NULL is fine */

/* One step, number `step` from 0, on rows of act [n, …] and of what is wanted that the seed draws: float image [n, …],
 * or int32_t label [n]. *loss: mean squares, or cross-entropy. */
enum sl_err sl_decoder_step(struct sl_decoder *decoder, const float *act, const void *wanted, int64_t n, int step,
			    double *loss) SL_MUST_CHECK;
/* From act [n, …]: image [n, …], within [0, 1]; or the logits [n, classes]. */
enum sl_err sl_decoder_apply(struct sl_decoder *decoder, const float *act, int64_t n, float *said) SL_MUST_CHECK;

#endif
