/* The kernels of lookup.cu. C and CUDA. */
#ifndef SL_KERNELS_CUDA_LOOKUP_H
#define SL_KERNELS_CUDA_LOOKUP_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ids [n], numbers of the type of the op, in a table [rows, f]. */
struct cu_ids {
	const void *id;
	int64_t n, rows, f;
};
/* out [n, f] = rows of weight; NaN for a number that is no row. */
cudaError_t cu_lookup_forward(cudaStream_t s, enum cu_type type, void *out, const float *weight,
			      const struct cu_ids *ids);
/* grad += the rows of dout [n, f]; ids of the same row add in their order. */
cudaError_t cu_lookup_backward(cudaStream_t s, enum cu_type type, float *grad, const void *dout,
			       const struct cu_ids *ids);

#ifdef __cplusplus
}
#endif

#endif
