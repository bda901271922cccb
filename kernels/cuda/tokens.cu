// Ops on tokens; one thread per element of the output (a gather: no atomics).
#include "kernels/cuda/rows.cuh"

namespace
{

constexpr int threads_per_block = 256;

template <class T> __global__ void forward_kernel(T *__restrict__ out, const T *__restrict__ x, cu_rows r)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < r.rows * r.f;
	     i += (int64_t)gridDim.x * blockDim.x)
		out[i] = x[first_of(r, i / r.f) * r.f + i % r.f];
}

template <class T> __global__ void backward_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout, cu_rows r)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < r.tokens * r.f;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const int64_t token = i / r.f, row = row_of(r, token);
		const bool first = first_of(r, row) == token;

		if (!add)
			dx[i] = first ? dout[row * r.f + i % r.f] : rounded<T>(0.f);
		else if (first)
			dx[i] = rounded<T>(value(dx[i]) + value(dout[row * r.f + i % r.f]));
	}
}

template <class T> __global__ void gather_kernel(T *__restrict__ out, const T *__restrict__ x, cu_chosen c)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.n * c.f;
	     i += (int64_t)gridDim.x * blockDim.x)
		out[i] = x[(int64_t)c.place[i / c.f] * c.f + i % c.f];
}

// A tile goes through shared memory, so that both sides are accessed along their rows. The additional column
// keeps the transposed reads in different banks.
constexpr int tile = 32, tile_rows = threads_per_block / tile;

template <class T>
__global__ void transpose_kernel(T *__restrict__ out, bool add, const T *__restrict__ x, int64_t rows, int64_t columns,
				 int64_t tiles)
{
	__shared__ float held[tile][tile + 1];
	const int64_t down = (rows + tile - 1) / tile, across = (columns + tile - 1) / tile;
	const int lane = (int)threadIdx.x % tile, first = (int)threadIdx.x / tile;

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
		const int64_t at = t / (down * across) * rows * columns;
		const int64_t row = t / across % down * tile, column = t % across * tile;

		for (int i = first; i < tile; i += tile_rows)
			if (row + i < rows && column + lane < columns)
				held[i][lane] = value(x[at + (row + i) * columns + column + lane]);
		__syncthreads();
		for (int i = first; i < tile; i += tile_rows)
			if (column + i < columns && row + lane < rows) {
				T *to = &out[at + (column + i) * rows + row + lane];

				*to = rounded<T>(add ? value(*to) + held[lane][i] : held[lane][i]);
			}
		__syncthreads();
	}
}

// The index of a token among the chosen ones; -1: it is not chosen.
__device__ int64_t among(const cu_chosen &c, int64_t token)
{
	int64_t low = 0, high = c.n;

	while (low < high) {
		const int64_t middle = low + (high - low) / 2;

		if ((int64_t)c.place[middle] < token)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c.n && (int64_t)c.place[low] == token ? low : -1;
}

template <class T>
__global__ void gather_back_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout, cu_chosen c)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.tokens * c.f;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const int64_t at = among(c, i / c.f);

		if (!add)
			dx[i] = at >= 0 ? dout[at * c.f + i % c.f] : rounded<T>(0.f);
		else if (at >= 0)
			dx[i] = rounded<T>(value(dx[i]) + value(dout[at * c.f + i % c.f]));
	}
}

__device__ int64_t looked_up(const cu_lookup &l, int64_t token)
{
	int64_t first, marks = 0;

	if (!l.position && !l.segment)
		return l.id[token];
	first = first_of(l.rows, row_of(l.rows, token));
	if (l.position)
		return l.first + token - first;
	for (int64_t t = first; t < token; t++)
		marks += l.id[t] == l.mark;
	return marks < l.table ? marks : l.table - 1;
}

template <class T> __global__ void embedding_kernel(T *__restrict__ out, const float *__restrict__ weight, cu_lookup l)
{
	const int64_t f = l.rows.f;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < l.rows.tokens * f;
	     i += (int64_t)gridDim.x * blockDim.x)
		out[i] = rounded<T>(weight[looked_up(l, i / f) * f + i % f]);
}

// Several tokens may look up one row of the table. The first of them adds for all, in the order of the
// tokens.
template <class T>
__global__ void embedding_back_kernel(float *__restrict__ grad, const T *__restrict__ dout, cu_lookup l)
{
	const int64_t f = l.rows.f;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < l.rows.tokens * f;
	     i += (int64_t)gridDim.x * blockDim.x) {
		const int64_t token = i / f, k = i % f, row = looked_up(l, token);
		bool first = true;
		float sum;

		for (int64_t t = 0; t < token && first; t++)
			first = looked_up(l, t) != row;
		if (!first)
			continue;
		sum = grad[row * f + k];
		for (int64_t t = token; t < l.rows.tokens; t++)
			if (looked_up(l, t) == row)
				sum += value(dout[t * f + k]);
		grad[row * f + k] = sum;
	}
}

int blocks_of(int64_t count)
{
	const int64_t blocks = (count + threads_per_block - 1) / threads_per_block;

	return (int)(blocks < 65535 ? blocks : 65535);
}

} // namespace

cudaError_t cu_select_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_rows *r)
{
#define CALL(T) CU_RUN(forward_kernel<T>, blocks_of(r->rows * r->f), threads_per_block, s, (T *)out, (const T *)x, *r)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_select_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
			       const struct cu_rows *r)
{
#define CALL(T) \
	CU_RUN(backward_kernel<T>, blocks_of(r->tokens * r->f), threads_per_block, s, (T *)dx, add, (const T *)dout, *r)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_transpose(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, int64_t n, int64_t rows,
			 int64_t columns)
{
	const int64_t tiles = n * ((rows + tile - 1) / tile) * ((columns + tile - 1) / tile);

#define CALL(T)                                                                                               \
	CU_RUN(transpose_kernel<T>, blocks_of(tiles *threads_per_block), threads_per_block, s, (T *)out, add, \
	       (const T *)x, rows, columns, tiles)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_gather_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_chosen *c)
{
#define CALL(T) CU_RUN(gather_kernel<T>, blocks_of(c->n * c->f), threads_per_block, s, (T *)out, (const T *)x, *c)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_gather_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
			       const struct cu_chosen *c)
{
#define CALL(T)                                                                                        \
	CU_RUN(gather_back_kernel<T>, blocks_of(c->tokens * c->f), threads_per_block, s, (T *)dx, add, \
	       (const T *)dout, *c)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_embedding_forward(cudaStream_t s, enum cu_type type, void *out, const float *weight,
				 const struct cu_lookup *l)
{
#define CALL(T) \
	CU_RUN(embedding_kernel<T>, blocks_of(l->rows.tokens * l->rows.f), threads_per_block, s, (T *)out, weight, *l)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_embedding_backward(cudaStream_t s, enum cu_type type, float *grad, const void *dout,
				  const struct cu_lookup *l)
{
#define CALL(T)                                                                                             \
	CU_RUN(embedding_back_kernel<T>, blocks_of(l->rows.tokens * l->rows.f), threads_per_block, s, grad, \
	       (const T *)dout, *l)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}
