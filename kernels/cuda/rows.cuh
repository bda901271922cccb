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

// The last row for which holds(row) is true. It is true for row 0, and for all rows before one for which it is.
template <class F> __device__ int64_t last_row(const cu_rows &r, F holds)
{
	int64_t low = 0, high = r.rows;

	while (high - low > 1) {
		const int64_t middle = low + (high - low) / 2;

		if (holds(middle))
			low = middle;
		else
			high = middle;
	}
	return low;
}

// The row that this token belongs to.
__device__ inline int64_t row_of(const cu_rows &r, int64_t token)
{
	return r.begin ? last_row(r, [=](int64_t row) { return (int64_t)r.begin[row] <= token; }) : token;
}

} // namespace

#endif
