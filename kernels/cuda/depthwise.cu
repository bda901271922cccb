// Depthwise convolution, NHWC. The 3×3 of stride 1 and 2 with padding 1 (all that MobileNets have) walks down
// a column with its window in registers. Every input is loaded once for each column that reads it;
// neighbours' loads hit L1. The next row is loaded before the present one is used: registers allow few
// threads, so each keeps more loads in flight. Backward computes dx and dW in one walk, because both need the
// same window of dout around x. All other convolutions use the plain kernels at the end.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_forward = 256;
constexpr int threads_backward = 128;
constexpr int target_blocks = 528; // of backward: each leaves one partial sum of dW

struct Geometry {
	int n, h, w, c, ho, wo;
	int strip, strips; // strip: rows of a walk (output rows in forward; input rows, or pairs of them at stride 2,
			   // in backward)
};

// Long walks load less, and backward's leave fewer partial sums; short walks fill the device.
int strip_of(int64_t columns, int64_t rows, int shortest, int64_t threads)
{
	int strip = 16;

	while (strip > shortest && columns * ceil_div(rows, strip) < threads)
		strip /= 2;
	return strip;
}

template <int V, class T> __device__ __forceinline__ Vec<V> load_if(bool inside, const T *p)
{
	return inside ? load<V>(p) : zeros<V>();
}

template <int V> __device__ __forceinline__ void multiply_add(Vec<V> &sum, const Vec<V> &a, const Vec<V> &b)
{
#pragma unroll
	for (int i = 0; i < V; i++)
		sum.v[i] = fmaf(a.v[i], b.v[i], sum.v[i]);
}

template <int V, int STRIDE, class T>
__global__ void __launch_bounds__(threads_forward, 2)
	forward3_kernel(T *__restrict__ out, const T *__restrict__ x, const float *__restrict__ weight,
			const float *__restrict__ bias, Geometry g)
{
	const int vectors = g.c / V;
	const int id = blockIdx.x * threads_forward + threadIdx.x;
	const int channel = id % vectors * V, wo = id / vectors;
	const int first = blockIdx.y * g.strip, end = min(first + g.strip, g.ho);
	const int wi = wo * STRIDE - 1;
	Vec<V> k[9], win[3][3], b = zeros<V>();

	if (wo >= g.wo)
		return;
	x += (int64_t)blockIdx.z * g.h * g.w * g.c + channel;
	out += (int64_t)blockIdx.z * g.ho * g.wo * g.c + (int64_t)wo * g.c + channel;
#pragma unroll
	for (int i = 0; i < 9; i++)
#pragma unroll
		for (int e = 0; e < V; e++)
			k[i].v[e] = weight[i * g.c + channel + e];
	if (bias)
#pragma unroll
		for (int e = 0; e < V; e++)
			b.v[e] = bias[channel + e];

	const auto row = [&](Vec<V>(&to)[3], int h) {
#pragma unroll
		for (int i = 0; i < 3; i++)
			to[i] = load_if<V>(h >= 0 && h < g.h && wi + i >= 0 && wi + i < g.w,
					   x + ((int64_t)h * g.w + wi + i) * g.c);
	};
#pragma unroll
	for (int r = 0; r < 3; r++)
		row(win[r], first * STRIDE - 1 + r);
	for (int ho = first; ho < end; ho++) {
		Vec<V> next[STRIDE][3], sum = b;

		if (ho + 1 < end)
#pragma unroll
			for (int r = 0; r < STRIDE; r++)
				row(next[r], (ho + 1) * STRIDE + 2 - STRIDE + r);
#pragma unroll
		for (int i = 0; i < 9; i++)
			multiply_add(sum, win[i / 3][i % 3], k[i]);
		store<V>(out + (int64_t)ho * g.wo * g.c, sum);
#pragma unroll
		for (int i = 0; i < 3; i++) {
#pragma unroll
			for (int r = 0; r < 3 - STRIDE; r++)
				win[r][i] = win[r + STRIDE][i];
#pragma unroll
			for (int r = 0; r < STRIDE; r++)
				win[3 - STRIDE + r][i] = next[r][i];
		}
	}
}

// One walk of dx and dW down the input column(s) of (image, column, strip); acc[kh·3+kw] += x · dout.
template <int V, class T> struct Walk {
	const Geometry &g;
	T *dx;
	const T *dout, *x; // either of dx and x may be null if only the other is needed
	bool add;

	// dx[h,w] = Σ dout[h+1-kh, w+1-kw] · weight[kh,kw], and x[h,w] is multiplied with the same nine
	// values for dW.
	__device__ __forceinline__ void stride1(Vec<V> (&acc)[9], const Vec<V> (&k)[9], int column, int strip) const
	{
		const int first = strip * g.strip, end = min(first + g.strip, g.h);
		Vec<V> win[3][3], next[3], xv, next_x; // window: dout rows h-1, h, h+1 and columns w-1, w, w+1
		const auto row = [&](Vec<V>(&to)[3], int h) {
#pragma unroll
			for (int i = 0; i < 3; i++)
				to[i] = load_if<V>(h >= 0 && h < g.ho && column - 1 + i >= 0 && column - 1 + i < g.wo,
						   dout + ((int64_t)h * g.wo + column - 1 + i) * g.c);
		};

		row(win[0], first - 1);
		row(win[1], first);
		row(win[2], first + 1);
		xv = load_if<V>(x, x + ((int64_t)first * g.w + column) * g.c);
		for (int h = first; h < end; h++) {
			const int64_t at = ((int64_t)h * g.w + column) * g.c;
			Vec<V> d = zeros<V>();

			if (h + 1 < end) {
				row(next, h + 2);
				next_x = load_if<V>(x, x + at + (int64_t)g.w * g.c);
			}
#pragma unroll
			for (int i = 0; i < 9; i++) {
				multiply_add(d, win[2 - i / 3][2 - i % 3], k[i]);
				multiply_add(acc[i], win[2 - i / 3][2 - i % 3], xv);
			}
			if (dx)
				put<V>(dx + at, d, add);
#pragma unroll
			for (int i = 0; i < 3; i++) {
				win[0][i] = win[1][i];
				win[1][i] = win[2][i];
				win[2][i] = next[i];
			}
			xv = next_x;
		}
	}

	// A tile of 2×2 inputs meets dout[i … i+1, j … j+1]: an even row has kh = 1 of dout row i only, an
	// odd one kh = 2 of row i and kh = 0 of row i+1; columns alike.
	__device__ __forceinline__ void stride2(Vec<V> (&acc)[9], const Vec<V> (&k)[9], int column, int strip) const
	{
		const int first = strip * g.strip, end = min(first + g.strip, g.ho);
		Vec<V> win[2][2], next[2], xv[4], next_x[4];
		const auto row = [&](Vec<V>(&to)[2], int i) {
#pragma unroll
			for (int q = 0; q < 2; q++)
				to[q] = load_if<V>(i < g.ho && column + q < g.wo,
						   dout + ((int64_t)i * g.wo + column + q) * g.c);
		};
		const auto tile = [&](Vec<V>(&to)[4], int i) {
#pragma unroll
			for (int t = 0; t < 4; t++) {
				const int h = 2 * i + t / 2, w = 2 * column + t % 2;

				to[t] = load_if<V>(x && h < g.h && w < g.w, x + ((int64_t)h * g.w + w) * g.c);
			}
		};

		row(win[0], first);
		row(win[1], first + 1);
		tile(xv, first);
		for (int i = first; i < end; i++) {
			if (i + 1 < end) {
				row(next, i + 2);
				tile(next_x, i + 1);
			}
#pragma unroll
			for (int t = 0; t < 4; t++) {
				const int odd_h = t / 2, odd_w = t % 2, h = 2 * i + odd_h, w = 2 * column + odd_w;
				Vec<V> d = zeros<V>();

#pragma unroll
				for (int p = 0; p <= odd_h; p++)
#pragma unroll
					for (int q = 0; q <= odd_w; q++) {
						const int kh = odd_h ? 2 - 2 * p : 1, kw = odd_w ? 2 - 2 * q : 1;

						multiply_add(d, win[p][q], k[kh * 3 + kw]);
						multiply_add(acc[kh * 3 + kw], win[p][q], xv[t]);
					}
				if (dx && h < g.h && w < g.w)
					put<V>(dx + ((int64_t)h * g.w + w) * g.c, d, add);
			}
#pragma unroll
			for (int q = 0; q < 2; q++) {
				win[0][q] = win[1][q];
				win[1][q] = next[q];
			}
#pragma unroll
			for (int t = 0; t < 4; t++)
				xv[t] = next_x[t];
		}
	}
};

// Block: lanes × ys threads of one channel tile; its items are (image, strip, group of ys columns). partial:
// [tile][block][9][lanes·V].
template <int V, int STRIDE, class T>
__global__ void __launch_bounds__(threads_backward, 4)
	backward3_kernel(T *__restrict__ dx, bool add, float *__restrict__ partial, const T *__restrict__ dout,
			 const T *__restrict__ x, const float *__restrict__ weight, Geometry g)
{
	__shared__ __align__(16) float part[threads_backward * V]; // accessed as vectors
	const int lanes = blockDim.x, ys = blockDim.y, lane = threadIdx.x, y = threadIdx.y;
	const int width = lanes * V, channel = (blockIdx.y * lanes + lane) * V;
	const int columns = STRIDE == 1 ? g.w : g.wo, column_groups = (columns + ys - 1) / ys;
	const int items = g.n * g.strips * column_groups;
	Vec<V> acc[9], k[9];

#pragma unroll
	for (int i = 0; i < 9; i++)
		acc[i] = zeros<V>();
	if (channel < g.c) {
#pragma unroll
		for (int i = 0; i < 9; i++)
#pragma unroll
			for (int e = 0; e < V; e++)
				k[i].v[e] = weight[i * g.c + channel + e];
		for (int item = blockIdx.x; item < items; item += gridDim.x) {
			const int column = item % column_groups * ys + y, rest = item / column_groups;
			const int image = rest / g.strips, strip = rest % g.strips;
			const int64_t in_at = (int64_t)image * g.h * g.w * g.c + channel;
			const Walk<V, T> walk = {g, dx ? dx + in_at : nullptr,
						 dout + (int64_t)image * g.ho * g.wo * g.c + channel,
						 x ? x + in_at : nullptr, add};

			if (column >= columns)
				continue;
			if (STRIDE == 1)
				walk.stride1(acc, k, column, strip);
			else
				walk.stride2(acc, k, column, strip);
		}
	}
	if (!partial)
		return;
	partial += ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * 9 * width;
#pragma unroll
	for (int i = 0; i < 9; i++) {
		__syncthreads();
		store<V>(&part[y * width + lane * V], acc[i]);
		__syncthreads();
		for (int at = y * lanes + lane; at < width; at += lanes * ys) {
			float sum = 0;

			for (int r = 0; r < ys; r++)
				sum += part[r * width + at];
			partial[i * width + at] = sum;
		}
	}
}

// dweight [9, C] += Σ over blocks of partial [tiles][blocks][9][width]; a block sums 32 columns, 8 threads
// each.
__global__ void __launch_bounds__(256)
	gather_kernel(float *dweight, const float *__restrict__ partial, int blocks, int width, int tiles, int c)
{
	__shared__ double part[8][33];
	const int per_tile = 9 * width, lane = threadIdx.x, y = threadIdx.y;
	const int id = blockIdx.x * 32 + lane, tile = id / per_tile, item = id % per_tile;
	double sum = 0;

	if (tile < tiles) {
		const float *p = partial + (int64_t)tile * blocks * per_tile + item;
#pragma unroll 8
		for (int b = y; b < blocks; b += 8)
			sum += p[(int64_t)b * per_tile];
	}
	part[y][lane] = sum;
	__syncthreads();
	if (y == 0 && tile < tiles) {
		const int channel = tile * width + item % width;

		for (int r = 1; r < 8; r++)
			sum += part[r][lane];
		if (channel < c)
			dweight[item / width * c + channel] += (float)sum;
	}
}

// ---- any window ----

template <class T>
__global__ void forward_kernel(T *__restrict__ out, const T *__restrict__ x, const float *__restrict__ weight,
			       const float *__restrict__ bias, cu_window g)
{
	const int64_t count = g.n * g.ho * g.wo * g.c, stride = (int64_t)gridDim.x * blockDim.x;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
		const int64_t c = i % g.c, wo = i / g.c % g.wo, ho = i / (g.c * g.wo) % g.ho,
			      n = i / (g.c * g.wo * g.ho);
		float sum = bias ? bias[c] : 0.f;

		for (int kh = 0; kh < g.kh; kh++)
			for (int kw = 0; kw < g.kw; kw++) {
				const int64_t h = ho * g.stride - g.pad + kh, w = wo * g.stride - g.pad + kw;

				if (h >= 0 && h < g.h && w >= 0 && w < g.w)
					sum = fmaf(value(x[((n * g.h + h) * g.w + w) * g.c + c]),
						   weight[(kh * g.kw + kw) * g.c + c], sum);
			}
		out[i] = rounded<T>(sum);
	}
}

template <class T>
__global__ void data_kernel(T *__restrict__ dx, bool add, const T *__restrict__ dout, const float *__restrict__ weight,
			    cu_window g)
{
	const int64_t count = g.n * g.h * g.w * g.c, stride = (int64_t)gridDim.x * blockDim.x;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
		const int64_t c = i % g.c, w = i / g.c % g.w, h = i / (g.c * g.w) % g.h, n = i / (g.c * g.w * g.h);
		float sum = 0;

		for (int kh = 0; kh < g.kh; kh++)
			for (int kw = 0; kw < g.kw; kw++) {
				const int64_t a = h + g.pad - kh, b = w + g.pad - kw;

				if (a >= 0 && b >= 0 && a % g.stride == 0 && b % g.stride == 0 && a / g.stride < g.ho &&
				    b / g.stride < g.wo)
					sum = fmaf(value(dout[((n * g.ho + a / g.stride) * g.wo + b / g.stride) * g.c +
							      c]),
						   weight[(kh * g.kw + kw) * g.c + c], sum);
			}
		dx[i] = rounded<T>(add ? value(dx[i]) + sum : sum);
	}
}

// Block: 32 channels × 16 rows of one window place, over all of M.
template <class T>
__global__ void __launch_bounds__(512)
	weight_kernel(float *dweight, const T *__restrict__ dout, const T *__restrict__ x, cu_window g)
{
	__shared__ double part[16][33];
	const int lane = threadIdx.x, y = threadIdx.y, kh = blockIdx.y / g.kw, kw = blockIdx.y % g.kw;
	const int64_t c = (int64_t)blockIdx.x * 32 + lane, rows = g.n * g.ho * g.wo;
	double sum = 0;

	for (int64_t m = y; m < rows && c < g.c; m += 16) {
		const int64_t wo = m % g.wo, ho = m / g.wo % g.ho, n = m / (g.wo * g.ho);
		const int64_t h = ho * g.stride - g.pad + kh, w = wo * g.stride - g.pad + kw;

		if (h >= 0 && h < g.h && w >= 0 && w < g.w)
			sum += (double)value(x[((n * g.h + h) * g.w + w) * g.c + c]) * value(dout[m * g.c + c]);
	}
	part[y][lane] = sum;
	__syncthreads();
	if (y == 0 && c < g.c) {
		for (int r = 1; r < 16; r++)
			sum += part[r][lane];
		dweight[blockIdx.y * g.c + c] += (float)sum;
	}
}

bool is_3x3(const struct cu_window *win)
{
	return win->kh == 3 && win->kw == 3 && win->pad == 1 && (win->stride == 1 || win->stride == 2) &&
	       win->c % 4 == 0 && win->n <= 65535;
}

Geometry geometry_of(const struct cu_window *win)
{
	return {(int)win->n, (int)win->h, (int)win->w, (int)win->c, (int)win->ho, (int)win->wo, 0, 0};
}

unsigned flat_blocks(int64_t count)
{
	const int64_t blocks = ceil_div(count, 256);

	return (unsigned)(blocks < 65535 ? blocks : 65535);
}

constexpr int backward_vector = 2;

int backward_blocks(const Columns &t)
{
	return target_blocks / t.tiles > 1 ? target_blocks / t.tiles : 1;
}

} // namespace

size_t cu_depthwise_bytes(const struct cu_window *win)
{
	if (!is_3x3(win))
		return 0;

	const Columns t = columns_of(win->c, backward_vector, threads_backward, 64);

	return (size_t)t.tiles * backward_blocks(t) * 9 * t.lanes * backward_vector * sizeof(float);
}

template <class T>
static void launch_forward(cudaStream_t s, T *out, const T *x, const float *weight, const float *bias,
			   const struct cu_window *win)
{
	if (!is_3x3(win) || !aligned16(out) || !aligned16(x)) {
		CU_RUN((forward_kernel<T>), flat_blocks(win->n * win->ho * win->wo * win->c), 256, s, out, x, weight,
		       bias, *win);
		return;
	}

	Geometry g = geometry_of(win);
	const int64_t columns = win->wo * (win->c / 4);

	g.strip = strip_of(columns * win->n, win->ho, 2, 1 << 17);
	g.strips = (int)ceil_div(win->ho, g.strip);
	const dim3 grid((unsigned)ceil_div(columns, threads_forward), g.strips, g.n);
	if (win->stride == 1)
		CU_RUN((forward3_kernel<4, 1, T>), grid, threads_forward, s, out, x, weight, bias, g);
	else
		CU_RUN((forward3_kernel<4, 2, T>), grid, threads_forward, s, out, x, weight, bias, g);
}

cudaError_t cu_depthwise_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const float *weight,
				 const float *bias, const struct cu_window *win)
{
#define CALL(T) launch_forward(s, (T *)out, (const T *)x, weight, bias, win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}

template <class T>
static void launch_plain_backward(cudaStream_t s, T *dx, bool add, float *dweight, const T *dout, const T *x,
				  const float *weight, const struct cu_window *win)
{
	const dim3 grid((unsigned)ceil_div(win->c, 32), win->kh * win->kw), block(32, 16);

	if (dx)
		CU_RUN((data_kernel<T>), flat_blocks(win->n * win->h * win->w * win->c), 256, s, dx, add, dout, weight,
		       *win);
	if (dweight)
		CU_RUN((weight_kernel<T>), grid, block, s, dweight, dout, x, *win);
}

template <class T>
static void launch_backward(cudaStream_t s, T *dx, bool add, float *dweight, const T *dout, const T *x,
			    const float *weight, void *workspace, const struct cu_window *win)
{
	constexpr int V = backward_vector;

	if (!is_3x3(win) || !aligned16(dx) || !aligned16(dout) || !aligned16(x)) {
		launch_plain_backward(s, dx, add, dweight, dout, x, weight, win);
		return;
	}

	Geometry g = geometry_of(win);
	const Columns t = columns_of(win->c, V, threads_backward, 64);
	const dim3 block(t.lanes, t.ys), lines(32, 8);
	const int64_t columns = win->stride == 1 ? win->w : win->wo, rows = win->stride == 1 ? win->h : win->ho;

	g.strip = strip_of(columns * (win->c / V) * win->n, rows, 8, 1 << 14);
	g.strips = (int)ceil_div(rows, g.strip);
	const int64_t items = (int64_t)g.n * g.strips * ceil_div(columns, t.ys);
	const int blocks = (int)(items < backward_blocks(t) ? items : backward_blocks(t));
	float *partial = dweight ? (float *)workspace : nullptr;
	const dim3 grid(blocks, t.tiles);
	if (win->stride == 1)
		CU_RUN((backward3_kernel<V, 1, T>), grid, block, s, dx, add, partial, dout, x, weight, g);
	else
		CU_RUN((backward3_kernel<V, 2, T>), grid, block, s, dx, add, partial, dout, x, weight, g);
	if (dweight)
		CU_RUN(gather_kernel, (unsigned)ceil_div((int64_t)t.tiles * 9 * t.lanes * V, 32), lines, s, dweight,
		       partial, blocks, t.lanes * V, t.tiles, g.c);
}

cudaError_t cu_depthwise_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dweight,
				  const void *dout, const void *x, const float *weight, void *workspace,
				  const struct cu_window *win)
{
#define CALL(T) launch_backward(s, (T *)dx, add, dweight, (const T *)dout, (const T *)x, weight, workspace, win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
	return cudaGetLastError();
}
