// Batch normalisation over the rows of [M, C], and the column sums that biases need. One reduction skeleton:
// every block sums its rows in registers and shared memory and leaves one partial sum per column. The block
// that finishes last adds the partial sums of its columns in block order, in double, and computes the
// results.
// Sums go over the rows upwards, and the pass behind them downwards: it begins with rows that the L2 still has.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_per_block = 512;
constexpr int target_blocks = 264; // two waves of one block per multiprocessor on the largest devices of today
constexpr int min_rows_per_thread = 4;

struct Plan {
	Columns g;
	int blocks;    // along the rows
	int64_t piece; // rows that a block sums at a time; the blocks go over the tensor side by side
};

Plan plan_of(int64_t m, int64_t c, int v, int batch)
{
	Plan p;
	int64_t blocks;

	// narrow tiles: the last block of each has few partial sums to add, and tiles do so in parallel
	p.g = columns_of(c, v, threads_per_block, v == 4 ? 16 : 32);
	blocks = target_blocks / p.g.tiles > 1 ? target_blocks / p.g.tiles : 1;
	if (blocks > ceil_div(m, (int64_t)p.g.ys * min_rows_per_thread))
		blocks = ceil_div(m, (int64_t)p.g.ys * min_rows_per_thread);
	p.piece = ceil_div(m, blocks * ceil_div(m, blocks * p.g.ys * batch));
	p.blocks = (int)(blocks < ceil_div(m, p.piece) ? blocks : ceil_div(m, p.piece));
	return p;
}

constexpr int partials = 12; // partial sums that a thread of the last block has in flight together

// Op: SUMS sums per column. A thread has the loads of BATCH rows in flight together, also of its last rows.
// begin(channel) loads the channel's coefficients. fetch(inside, at) reads V elements at offset `at` if that is inside.
// add(sum, item) adds them. finish(channel, sums) runs once per channel.
template <int V, class Op>
__global__ void __launch_bounds__(threads_per_block, 2)
	columns_kernel(Op op, int64_t m, int c, int64_t piece, float *partial, unsigned *counter)
{
	constexpr int S = Op::SUMS, rows = Op::BATCH;
	__shared__ float part[S * threads_per_block * V];
	__shared__ double total[S][threads_per_block];
	__shared__ bool last;
	const int lanes = blockDim.x, ys = blockDim.y, lane = threadIdx.x, y = threadIdx.y;
	const int tile = blockIdx.y, width = lanes * V, channel = (tile * lanes + lane) * V;
	const int thread = y * lanes + lane, threads = lanes * ys;
	float sum[S][V];

#pragma unroll
	for (int k = 0; k < S; k++)
#pragma unroll
		for (int i = 0; i < V; i++)
			sum[k][i] = 0.f;
	if (channel < c) {
		op.template begin<V>(channel);
		for (int64_t begin = blockIdx.x * piece; begin < m; begin += gridDim.x * piece) {
			const int64_t row = begin + y, end = begin + piece < m ? begin + piece : m;
			typename Op::template Item<V> item[rows];

#pragma unroll
			for (int i = 0; i < rows; i++)
				item[i] = op.template fetch<V>(row + i * ys < end, (row + i * ys) * c + channel);
#pragma unroll
			for (int i = 0; i < rows; i++)
				if (row + i * ys < end)
					op.template add<V>(sum, item[i]);
		}
	}
#pragma unroll
	for (int k = 0; k < S; k++)
#pragma unroll
		for (int i = 0; i < V; i++)
			part[(k * ys + y) * width + lane * V + i] = sum[k][i];
	for (int half = ys; half > 1;) {
		const int n = half;

		half = (half + 1) / 2;
		__syncthreads();
		for (int k = 0; k < S; k++)
			if (y + half < n)
				for (int i = 0; i < V; i++)
					part[(k * ys + y) * width + lane * V + i] +=
						part[(k * ys + y + half) * width + lane * V + i];
	}
	__syncthreads();

	const int items = S * width;
	float *mine = partial + (int64_t)tile * gridDim.x * items;
	for (int item = thread; item < items; item += threads)
		mine[(int64_t)blockIdx.x * items + item] = part[(item / width) * ys * width + item % width];
	__threadfence();
	__syncthreads();
	if (thread == 0)
		last = atomicAdd(&counter[tile], 1u) == gridDim.x - 1;
	__syncthreads();
	if (!last)
		return;

	__threadfence();
	// width ≤ 64 columns, threads > 480: several groups of threads share the partial sums of a column
	const int groups = threads / width, group = thread / width, column = thread % width;
	double sums[S] = {};

	for (int b = group; group < groups && b < (int)gridDim.x; b += groups * partials) {
		float one[partials][S];

#pragma unroll
		for (int i = 0; i < partials; i++)
#pragma unroll
			for (int k = 0; k < S; k++)
				one[i][k] =
					b + i * groups < (int)gridDim.x
						? __ldcg(&mine[(int64_t)(b + i * groups) * items + k * width + column])
						: 0.f;
#pragma unroll
		for (int i = 0; i < partials; i++)
#pragma unroll
			for (int k = 0; k < S; k++)
				sums[k] += one[i][k];
	}
#pragma unroll
	for (int k = 0; k < S; k++)
		total[k][thread] = sums[k];
	__syncthreads();
	for (int g = 1; group == 0 && g < groups; g++)
#pragma unroll
		for (int k = 0; k < S; k++)
			sums[k] += total[k][g * width + column];
	if (group == 0 && tile * width + column < c)
		op.finish(tile * width + column, sums);
	if (thread == 0)
		atomicExch(&counter[tile],
			   0u); // for the next launch; it orders nothing, and races with no other atomic
}

template <class Op>
cudaError_t reduce(cudaStream_t s, Op op, int64_t m, int64_t c, bool vectors, void *workspace, unsigned *counter)
{
	const Plan p = plan_of(m, c, vectors ? 4 : 1, Op::BATCH);
	const dim3 grid(p.blocks, p.g.tiles), block(p.g.lanes, p.g.ys);

	if (p.g.tiles > CU_COUNTERS)
		return cudaErrorInvalidValue;
	if (vectors)
		CU_RUN((columns_kernel<4, Op>), grid, block, s, op, m, (int)c, p.piece, (float *)workspace, counter);
	else
		CU_RUN((columns_kernel<1, Op>), grid, block, s, op, m, (int)c, p.piece, (float *)workspace, counter);
	return cudaGetLastError();
}

// Sums are relative to the first row of x, an estimate of the mean, so that the squares do not cancel.
template <class T> struct Statistics {
	static constexpr int SUMS = 2, BATCH = 16 / sizeof(T);
	const T *x;
	float *mean, *invstd, *var;
	double per_row;
	float eps;
	float shift[4];

	template <int V> __device__ void begin(int channel)
	{
#pragma unroll
		for (int i = 0; i < V; i++)
			shift[i] = value(x[channel + i]);
	}
	template <int V> using Item = Raw<V, T>;
	template <int V> __device__ Raw<V, T> fetch(bool inside, int64_t at) const
	{
		return fetched<V>(inside, x + at);
	}
	template <int V> __device__ void add(float (&sum)[SUMS][V], const Raw<V, T> &a) const
	{
#pragma unroll
		for (int i = 0; i < V; i++) {
			const float d = a[i] - shift[i];
			sum[0][i] += d;
			sum[1][i] = fmaf(d, d, sum[1][i]);
		}
	}
	__device__ void finish(int channel, const double *sum) const
	{
		const double d = sum[0] * per_row;
		const float v = (float)fmax(sum[1] * per_row - d * d, 0.);

		mean[channel] = (float)(value(x[channel]) + d);
		var[channel] = v;
		invstd[channel] = 1.f / sqrtf(v + eps);
	}
};

template <class T, int ACT> struct GradientSums {
	static constexpr int SUMS = 2, BATCH = 12 / sizeof(T);
	const T *x, *dout;
	const float *mean, *invstd, *weight, *bias;
	float *dweight, *dbias, *coef;
	double per_row;
	int c;
	float mu[4], a[4], b[4];

	template <int V> __device__ void begin(int channel)
	{
#pragma unroll
		for (int i = 0; i < V; i++) {
			mu[i] = mean[channel + i];
			a[i] = weight[channel + i] * invstd[channel + i];
			b[i] = bias[channel + i];
		}
	}
	template <int V> struct Item {
		Raw<V, T> x, g;
	};
	template <int V> __device__ Item<V> fetch(bool inside, int64_t at) const
	{
		return {fetched<V>(inside, x + at), fetched<V>(inside, dout + at)};
	}
	template <int V> __device__ void add(float (&sum)[SUMS][V], const Item<V> &item) const
	{
#pragma unroll
		for (int i = 0; i < V; i++) {
			const float d = item.x[i] - mu[i];
			const float g = passes<ACT>(fmaf(d, a[i], b[i])) ? item.g[i] : 0.f;
			sum[0][i] += g;
			sum[1][i] = fmaf(g, d, sum[1][i]);
		}
	}
	__device__ void finish(int channel, const double *sum) const
	{
		const double is = invstd[channel];

		if (dweight)
			dweight[channel] += (float)(sum[1] * is);
		if (dbias)
			dbias[channel] += (float)sum[0];
		coef[channel] = (float)(sum[0] * per_row);
		coef[c + channel] = (float)(sum[1] * per_row * is * is);
	}
};

template <class T> struct Sum {
	static constexpr int SUMS = 1, BATCH = 16 / sizeof(T);
	const T *x;
	float *out;

	template <int V> __device__ void begin(int)
	{
	}
	template <int V> using Item = Raw<V, T>;
	template <int V> __device__ Raw<V, T> fetch(bool inside, int64_t at) const
	{
		return fetched<V>(inside, x + at);
	}
	template <int V> __device__ void add(float (&sum)[SUMS][V], const Raw<V, T> &a) const
	{
#pragma unroll
		for (int i = 0; i < V; i++)
			sum[0][i] += a[i];
	}
	__device__ void finish(int channel, const double *sum) const
	{
		out[channel] += (float)sum[0];
	}
};

constexpr int walkers = 256; // threads of a block of the kernels below
constexpr int walked = 4;    // rows whose loads each of them has in flight together

// A thread keeps the coefficients of its channels in registers and walks down the rows.
template <int V, class T, int ACT>
__global__ void apply_kernel(T *__restrict__ out, const T *__restrict__ x, const float *mean, const float *invstd,
			     const float *weight, const float *bias, int64_t m, int64_t pieces, int c)
{
	const int channel = (blockIdx.y * blockDim.x + threadIdx.x) * V;
	float mu[V], a[V], b[V];

	if (channel >= c)
		return;
#pragma unroll
	for (int i = 0; i < V; i++) {
		mu[i] = mean[channel + i];
		a[i] = weight[channel + i] * invstd[channel + i];
		b[i] = bias[channel + i];
	}
	const int64_t stride = blockDim.y;
	for (int64_t piece = pieces - 1 - blockIdx.x; piece >= 0; piece -= gridDim.x) {
		const int64_t row = piece * walked * stride + threadIdx.y;
		Raw<V, T> raw[walked];

#pragma unroll
		for (int r = 0; r < walked; r++)
			raw[r] = fetched<V>(row + r * stride < m, x + (row + r * stride) * c + channel);
#pragma unroll
		for (int r = 0; r < walked; r++) {
			Vec<V> xv = values<V>(raw[r]);
#pragma unroll
			for (int i = 0; i < V; i++)
				xv.v[i] = activate<ACT>(fmaf(xv.v[i] - mu[i], a[i], b[i]));
			if (row + r * stride < m)
				store<V>(out + (row + r * stride) * c + channel, xv);
		}
	}
}

template <int V, class T, int ACT, bool BATCH>
__global__ void __launch_bounds__(walkers)
	dx_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout, const T *__restrict__ x, const float *mean,
		  const float *invstd, const float *weight, const float *bias, const float *coef, int64_t m,
		  int64_t pieces, int c)
{
	const int channel = (blockIdx.y * blockDim.x + threadIdx.x) * V;
	float mu[V], a[V], b[V], k0[V], k1[V];

	if (channel >= c)
		return;
#pragma unroll
	for (int i = 0; i < V; i++) {
		mu[i] = mean[channel + i];
		a[i] = weight[channel + i] * invstd[channel + i];
		b[i] = bias[channel + i];
		k0[i] = BATCH ? coef[channel + i] : 0.f;
		k1[i] = BATCH ? coef[c + channel + i] : 0.f;
	}
	const int64_t stride = blockDim.y;
	for (int64_t piece = pieces - 1 - blockIdx.x; piece >= 0; piece -= gridDim.x) {
		const int64_t row = piece * walked * stride + threadIdx.y;
		Raw<V, T> raw_x[walked], raw_g[walked];

#pragma unroll
		for (int r = 0; r < walked; r++) {
			raw_x[r] = fetched<V>(row + r * stride < m, x + (row + r * stride) * c + channel);
			raw_g[r] = fetched<V>(row + r * stride < m, dout + (row + r * stride) * c + channel);
		}
#pragma unroll
		for (int r = 0; r < walked; r++) {
			Vec<V> d;
#pragma unroll
			for (int i = 0; i < V; i++) {
				const float e = raw_x[r][i] - mu[i];
				const float g = passes<ACT>(fmaf(e, a[i], b[i])) ? raw_g[r][i] : 0.f;
				d.v[i] = a[i] * (g - k0[i] - e * k1[i]);
			}
			if (row + r * stride < m)
				put<V>(dx + (row + r * stride) * c + channel, d, add);
		}
	}
}

__global__ void running_kernel(float *mean, float *invstd, const float *running_mean, const float *running_var,
			       float eps, int c)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < c) {
		mean[i] = running_mean[i];
		invstd[i] = (float)(1. / sqrt((double)running_var[i] + (double)eps));
	}
}

__global__ void commit_kernel(float *running_mean, float *running_var, const float *mean, const float *var,
			      float momentum, float unbias, int c)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < c) {
		running_mean[i] = (1.f - momentum) * running_mean[i] + momentum * mean[i];
		running_var[i] = (1.f - momentum) * running_var[i] + momentum * (var[i] * unbias);
	}
}

int64_t pieces_of(const Columns &g, int64_t m) // each of `walked` rows of every thread of a block
{
	return ceil_div(m, (int64_t)g.ys * walked);
}

dim3 walk_grid(const Columns &g, int64_t m)
{
	const int64_t blocks = pieces_of(g, m), most = 4096 / g.tiles > 1 ? 4096 / g.tiles : 1;

	return dim3((unsigned)(blocks < most ? blocks : most), g.tiles);
}

} // namespace

size_t cu_columns_bytes(int64_t c)
{
	// blocks × tiles, each with 2 sums of at most 16 lanes × 4 channels; the scalar form has the most
	// tiles
	return (size_t)(target_blocks + ceil_div(c, 32)) * 2 * 64 * sizeof(float);
}

template <class T> static cudaError_t statistics(cudaStream_t s, const struct cu_bn *bn)
{
	Statistics<T> op = {};

	op.x = (const T *)bn->x;
	op.mean = bn->mean;
	op.invstd = bn->invstd;
	op.var = bn->var;
	op.per_row = 1. / (double)bn->m;
	op.eps = bn->eps;
	return reduce(s, op, bn->m, bn->c, bn->c % 4 == 0 && aligned16(bn->x), bn->workspace, bn->counter);
}

cudaError_t cu_bn_statistics(cudaStream_t s, const struct cu_bn *bn)
{
#define CALL(T) return statistics<T>(s, bn)
	CU_SWITCH_TYPE(bn->type, CALL);
#undef CALL
}

cudaError_t cu_bn_running(cudaStream_t s, const struct cu_bn *bn, const float *running_mean, const float *running_var)
{
	CU_RUN(running_kernel, (unsigned)ceil_div(bn->c, 128), 128, s, bn->mean, bn->invstd, running_mean, running_var,
	       bn->eps, (int)bn->c);
	return cudaGetLastError();
}

template <class T, int ACT> static void launch_apply(cudaStream_t s, T *out, const struct cu_bn *bn)
{
	const bool vectors = bn->c % 4 == 0 && aligned16(bn->x) && aligned16(out);
	const Columns g = columns_of(bn->c, vectors ? 4 : 1, walkers, 64);
	const dim3 grid = walk_grid(g, bn->m), block(g.lanes, g.ys);
	const T *x = (const T *)bn->x;

	if (vectors)
		CU_RUN((apply_kernel<4, T, ACT>), grid, block, s, out, x, bn->mean, bn->invstd, bn->weight, bn->bias,
		       bn->m, pieces_of(g, bn->m), (int)bn->c);
	else
		CU_RUN((apply_kernel<1, T, ACT>), grid, block, s, out, x, bn->mean, bn->invstd, bn->weight, bn->bias,
		       bn->m, pieces_of(g, bn->m), (int)bn->c);
}

template <class T> static void apply(cudaStream_t s, void *out, const struct cu_bn *bn)
{
#define CALL(ACT) launch_apply<T, ACT>(s, (T *)out, bn)
	CU_SWITCH_ACT(bn->act, CALL);
#undef CALL
}

cudaError_t cu_bn_apply(cudaStream_t s, void *out, const struct cu_bn *bn)
{
#define CALL(T) apply<T>(s, out, bn)
	CU_SWITCH_TYPE(bn->type, CALL);
#undef CALL
	return cudaGetLastError();
}

template <class T, int ACT>
static cudaError_t launch_sums(cudaStream_t s, float *dweight, float *dbias, float *coef, const void *dout,
			       const struct cu_bn *bn)
{
	GradientSums<T, ACT> op = {};

	op.x = (const T *)bn->x;
	op.dout = (const T *)dout;
	op.mean = bn->mean;
	op.invstd = bn->invstd;
	op.weight = bn->weight;
	op.bias = bn->bias;
	op.dweight = dweight;
	op.dbias = dbias;
	op.coef = coef;
	op.per_row = 1. / (double)bn->m;
	op.c = (int)bn->c;
	return reduce(s, op, bn->m, bn->c, bn->c % 4 == 0 && aligned16(bn->x) && aligned16(dout), bn->workspace,
		      bn->counter);
}

template <class T>
static cudaError_t gradient_sums(cudaStream_t s, float *dweight, float *dbias, float *coef, const void *dout,
				 const struct cu_bn *bn)
{
#define CALL(ACT) return launch_sums<T, ACT>(s, dweight, dbias, coef, dout, bn)
	CU_SWITCH_ACT(bn->act, CALL);
#undef CALL
}

cudaError_t cu_bn_gradient_sums(cudaStream_t s, float *dweight, float *dbias, float *coef, const void *dout,
				const struct cu_bn *bn)
{
#define CALL(T) return gradient_sums<T>(s, dweight, dbias, coef, dout, bn)
	CU_SWITCH_TYPE(bn->type, CALL);
#undef CALL
}

template <int V, class T, int ACT>
static void launch_dx(cudaStream_t s, T *dx, bool add, const T *dout, const float *coef, const struct cu_bn *bn)
{
	const Columns g = columns_of(bn->c, V, walkers, 64);
	const dim3 grid = walk_grid(g, bn->m), block(g.lanes, g.ys);
	const T *x = (const T *)bn->x;

	if (coef)
		CU_RUN((dx_kernel<V, T, ACT, true>), grid, block, s, dx, add, dout, x, bn->mean, bn->invstd, bn->weight,
		       bn->bias, coef, bn->m, pieces_of(g, bn->m), (int)bn->c);
	else
		CU_RUN((dx_kernel<V, T, ACT, false>), grid, block, s, dx, add, dout, x, bn->mean, bn->invstd,
		       bn->weight, bn->bias, coef, bn->m, pieces_of(g, bn->m), (int)bn->c);
}

template <class T>
static void dx_of(cudaStream_t s, T *dx, bool add, const T *dout, const float *coef, const struct cu_bn *bn)
{
	const bool vectors = bn->c % 4 == 0 && aligned16(bn->x) && aligned16(dout) && aligned16(dx);

#define CALL(ACT)                                                 \
	if (vectors)                                              \
		launch_dx<4, T, ACT>(s, dx, add, dout, coef, bn); \
	else                                                      \
		launch_dx<1, T, ACT>(s, dx, add, dout, coef, bn)
	CU_SWITCH_ACT(bn->act, CALL);
#undef CALL
}

cudaError_t cu_bn_dx(cudaStream_t s, void *dx, bool add, const void *dout, const float *coef, const struct cu_bn *bn)
{
#define CALL(T) dx_of(s, (T *)dx, add, (const T *)dout, coef, bn)
	CU_SWITCH_TYPE(bn->type, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_bn_commit(cudaStream_t s, float *running_mean, float *running_var, const float *mean, const float *var,
			 float momentum, int64_t m, int64_t c)
{
	const float unbias = m > 1 ? (float)((double)m / (double)(m - 1)) : 1.f;

	CU_RUN(commit_kernel, (unsigned)ceil_div(c, 128), 128, s, running_mean, running_var, mean, var, momentum,
	       unbias, (int)c);
	return cudaGetLastError();
}

template <class T>
static cudaError_t column_sums(cudaStream_t s, float *sum_add, const void *x, int64_t m, int64_t c, void *workspace,
			       unsigned *counter)
{
	Sum<T> op = {};

	op.x = (const T *)x;
	op.out = sum_add;
	return reduce(s, op, m, c, c % 4 == 0 && aligned16(x), workspace, counter);
}

cudaError_t cu_column_sums(cudaStream_t s, float *sum_add, enum cu_type type, const void *x, int64_t m, int64_t c,
			   void *workspace, unsigned *counter)
{
#define CALL(T) return column_sums<T>(s, sum_add, x, m, c, workspace, counter)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
