/* A decoder: what an attacker trains to give pictures back from the activations that cross. Its layers are the
 * network's own ops: a batch norm, a transposed convolution for each halving of the picture (k 4, stride 2, 32
 * channels, batch norm, ReLU), three 3 × 3 convolutions, mean squares against the pixels. Of vectors it is one linear
 * layer. Adam, its rate falling to 0 along a cosine; the batches are drawn from the seed. */
#ifndef SL_CLIENT_LEAK_DECODER_H
#define SL_CLIENT_LEAK_DECODER_H

#include "common/exec/exec.h"

struct sl_decoder;

struct sl_decoder_spec {
	struct sl_shape act;   /* [1, h, w, c] or [1, d], of one sample */
	struct sl_shape image; /* [1, H, W, C] */
	uint64_t seed;
	int steps;
};

/* `be` is borrowed. CONFIG: no decoder for such a shape. */
enum sl_err sl_decoder_open(struct sl_decoder **out, const struct sl_decoder_spec *spec, struct sl_backend *be,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_decoder_close(struct sl_decoder *decoder); /* NULL is fine */

/* One step, number `step` from 0, on rows of act [n, …] and image [n, …] that the seed draws; *loss: mean squares. */
enum sl_err sl_decoder_step(struct sl_decoder *decoder, const float *act, const float *image, int64_t n, int step,
			    double *loss) SL_MUST_CHECK;
/* image [n, …] from act [n, …], within [0, 1]. */
enum sl_err sl_decoder_apply(struct sl_decoder *decoder, const float *act, int64_t n, float *image) SL_MUST_CHECK;

#endif
