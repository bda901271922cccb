/* The precision in which a segment is computed. Weights, their gradients, moments, batch statistics and the tensors
 * that cross a cut are always fp32. Sums are accumulated in fp32, too.
 *
 * FP32    no rounding
 * TF32    products of matrices and convolutions round their factors to 10 bits of mantissa
 * BF16    activations and their gradients are stored, and weights multiplied, in bfloat16: fp32's range, 8 bits
 * FP16    the same in IEEE half: 11 bits, but a range of 6e-8 to 65504: the loss is scaled (loss_scale.h)
 * BF16_FACTORS  products with weights that are held in 16 bits (plan.h) round their factors to bfloat16, in which
 *               magnitudes below 2^-126 become 0. All else is as in FP32. Only the CPU backend has it
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

/* The type of activations, and of the weights in products. */
static inline enum sl_dtype sl_precision_dtype(enum sl_precision p)
{
	return p == SL_PRECISION_BF16 ? SL_BF16 : p == SL_PRECISION_FP16 ? SL_F16 : SL_F32;
}

static inline bool sl_precision_mixed(enum sl_precision p)
{
	return sl_precision_dtype(p) != SL_F32;
}

#endif
