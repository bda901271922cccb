/* In what numbers a segment is computed. Weights, their gradients, moments, batch statistics and what crosses a cut
 * are fp32 in all of them; sums are, too.
 *
 * FP32    as it is
 * TF32    products of matrices and convolutions round their factors to 10 bits of mantissa
 * BF16    activations and their gradients are stored, and weights multiplied, in bfloat16: fp32's range, 8 bits
 * FP16    the same in IEEE half: 11 bits, but a range of 6e-8 to 65504: the loss is scaled (loss_scale.h)
 * BF16_FACTORS  products with weights that are held in 16 bits (plan.h) round their factors to bfloat16; all else as
 *               it is. A CPU's alone. What is below 2^-126 counts as 0 there
 */
#ifndef SL_GRAPH_PRECISION_H
#define SL_GRAPH_PRECISION_H

#include "common/graph/tensor.h"

enum sl_precision {
	SL_PRECISION_FP32,
	SL_PRECISION_TF32,
	SL_PRECISION_BF16,
	SL_PRECISION_FP16,
	SL_PRECISION_BF16_FACTORS,
	SL_PRECISION_COUNT
};

static inline const char *sl_precision_name(enum sl_precision p)
{
	static const char *const name[SL_PRECISION_COUNT] = {"fp32", "tf32", "bf16", "fp16", "bf16_factors"};

	return (unsigned)p < SL_PRECISION_COUNT ? name[p] : "?";
}

/* Of activations and of the weights that are multiplied. */
static inline enum sl_dtype sl_precision_dtype(enum sl_precision p)
{
	return p == SL_PRECISION_BF16 ? SL_BF16 : p == SL_PRECISION_FP16 ? SL_F16 : SL_F32;
}

static inline bool sl_precision_mixed(enum sl_precision p)
{
	return sl_precision_dtype(p) != SL_F32;
}

#endif
