/* A decoder: the network that an attacker trains to reconstruct inputs from the activations that cross. For
 * activations [h, w, c] it has a batch norm, transposed convolutions, and three 3 × 3 convolutions. There is a
 * transposed convolution for each halving of the picture: k 4, stride 2, 32 channels, batch norm, ReLU. The loss is the
 * mean squared error of the pixels. For activations [d] it is a batch norm and one linear layer, which predicts a
 * picture or a class. For rows of a table a hidden layer of 128 features with ReLU stands before that layer. The
 * optimizer is Adam with a cosine schedule down to 0. Batches are drawn from the seed. */
#ifndef SL_CLIENT_LEAK_DECODER_H
#define SL_CLIENT_LEAK_DECODER_H

#include "common/exec/exec.h"

struct sl_decoder;

struct sl_decoder_spec {
	struct sl_shape act;   /* [1, h, w, c] or [1, d], of one sample */
	struct sl_shape image; /* [1, H, W, C] */
	int classes;           /* with act [1, d]: predict one of so many classes. 0: reconstruct the picture */
	bool table;            /* reconstruct a row of a table, with any values: image is [1, features] */
	uint64_t seed;
	int steps;
};

/* `be` is borrowed. CONFIG: there is no decoder for such a shape. */
enum sl_err sl_decoder_open(struct sl_decoder **out, const struct sl_decoder_spec *spec, struct sl_backend *be,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_decoder_close(struct sl_decoder *decoder); /* NULL is fine */

/* Trains one step, number `step` from 0, on rows drawn by the seed from act [n, …] and from their targets `wanted`:
 * float image [n, …] in [0, 1], or int32_t label [n]. *loss: mean squared error, or cross-entropy. */
enum sl_err sl_decoder_step(struct sl_decoder *decoder, const float *act, const void *wanted, int64_t n, int step,
			    double *loss) SL_MUST_CHECK;
/* Decodes act [n, …] into said: images [n, …], clamped to [0, 1] (NaN stays); rows of a table; or logits [n, classes].
 */
enum sl_err sl_decoder_apply(struct sl_decoder *decoder, const float *act, int64_t n, float *said) SL_MUST_CHECK;

#endif
