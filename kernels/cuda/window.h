/* The kernels of window.cu. C and CUDA. */
#ifndef SL_KERNELS_CUDA_WINDOW_H
#define SL_KERNELS_CUDA_WINDOW_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* See struct sl_window_attr. narrow [n, d, plane, c] and wide [n, out, plane, k, c]: volumes of d and of `out` slices.
 */
struct cu_slices {
	int64_t n, d, out, plane, c, k, stride, pad, dilation;
};
/* wide = or += the slices of each window, side by side; 0 for those outside. */
cudaError_t cu_window_spread(cudaStream_t s, enum cu_type type, void *wide, bool add, const void *narrow,
			     const struct cu_slices *w);
/* narrow = or += the sum of the parts that come from each slice. */
cudaError_t cu_window_collect(cudaStream_t s, enum cu_type type, void *narrow, bool add, const void *wide,
			      const struct cu_slices *w);

#ifdef __cplusplus
}
#endif

#endif
