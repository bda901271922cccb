/* codec_lowrank.cu: X [M, C] of every sample, A [r, M] and B [r, C]. Samples' factors are `stride` floats apart. */
#ifndef SL_KERNELS_CUDA_CODEC_LOWRANK_H
#define SL_KERNELS_CUDA_CODEC_LOWRANK_H

#include "kernels/cuda/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cu_factors {
	int64_t samples, m, c;
	int r;
	const float *x; /* [samples][M, C] */
	float *a, *b;   /* of the first sample */
	int64_t stride;
};
/* Start of every sample: element j < count of A (or B) is uniform in [-1, 1), from word j of the stream. In
 * the first `rows` samples, each row of `current` [rows][r][count / r] that is not all zero is used instead. */
cudaError_t cu_factors_start(cudaStream_t s, const struct cu_factors *f, bool a, const struct cu_philox *key,
			     const float *current, int64_t rows);
/* B = Xᵀ·A and A = X·B. Sums run in ascending order of m, of c; each product is rounded before it is added. */
cudaError_t cu_factors_b(cudaStream_t s, const struct cu_factors *f);
cudaError_t cu_factors_a(cudaStream_t s, const struct cu_factors *f);
/* Orthonormalises the rows of A (or B): modified Gram-Schmidt in double. A row that depends on the others
 * becomes zero. NONFINITE. */
cudaError_t cu_factors_orthonormal(cudaStream_t s, uint32_t *status, const struct cu_factors *f, bool a);
cudaError_t cu_factors_check(cudaStream_t s, uint32_t *status, const struct cu_factors *f, bool a); /* NONFINITE */
cudaError_t cu_factors_keep(cudaStream_t s, float *pending, const struct cu_factors *f, bool a);
cudaError_t cu_factors_balance(cudaStream_t s, const struct cu_factors *f); /* moves powers of two between A and B */
cudaError_t cu_factors_product(cudaStream_t s, float *x, const struct cu_factors *f); /* X = Aᵀ·B, f->x not used */

#ifdef __cplusplus
}
#endif

#endif
