// The first token of a row, and the row of a token.
#ifndef SL_KERNELS_CUDA_ROWS_CUH
#define SL_KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/device.cuh"

namespace
{

__device__ inline int64_t first_of(const cu_rows &r, int64_t row)
{
	return r.begin ? (int64_t)r.begin[row] : row;
}

// The row that this token belongs to.
__device__ inline int64_t row_of(const cu_rows &r, int64_t token)
{
	int64_t low = 0, high = r.rows;

	if (!r.begin)
		return token;
	while (high - low > 1) {
		const int64_t middle = low + (high - low) / 2;

		if ((int64_t)r.begin[middle] <= token)
			low = middle;
		else
			high = middle;
	}
	return low;
}

} // namespace

#endif
