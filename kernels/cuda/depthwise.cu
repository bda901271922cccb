// Depthwise convolution, NHWC. The 3×3 of stride 1 and 2 with padding 1 (all that MobileNets have) walks down
// a column with its window in registers. Every input is loaded once for each column that reads it;
// neighbours' loads hit L1. Registers allow few threads, so each keeps loads in flight: the next row is loaded
// before the present one is used, and the rows after it are fetched into the L2. Backward computes dx and dW in
// one walk, because both need the same window of dout around x. All other windows use the plain kernels of
// grouped.cu.
// The 3×3 may do the work of a batch norm or activation in front (cu_front): it applies it to x as it reads it, and
// backward sums the gradients of the norm's parameters.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_forward = 256;
constexpr int threads_backward = 256;
constexpr int target_blocks = 264; // of backward: each leaves one partial sum of dW
constexpr int fetched_ahead = 3;   // rows of a walk between a load and the fetch into the L2

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

template <int V> __device__ __forceinline__ void multiply_add(Vec<V> &sum, const Vec<V> &a, const Vec<V> &b)
{
#pragma unroll
	for (int i = 0; i < V; i++)
		sum.v[i] = fmaf(a.v[i], b.v[i], sum.v[i]);
}

template <int N, int V, class T> __device__ __forceinline__ void take(Vec<V> (&to)[N], const Raw<V, T> (&from)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		to[i] = values<V>(from[i]);
}

// A batch norm with its activation, for V channels of a thread. Without one (ON false) x is taken as it is.
template <int V, bool ON> struct Norm {
	Vec<V> mean, scale, shift;
	float low, high; // the activation's bounds; NaN: it has none
	bool alone;      // the activation has no norm

	__device__ __forceinline__ Norm(const cu_front &f, int channel)
	{
		if (!ON)
			return;
		low = f.act == CU_ACT_NONE ? NAN : 0.f;
		high = f.act == CU_ACT_RELU6 ? 6.f : NAN;
		alone = !f.mean;
#pragma unroll
		for (int i = 0; i < V; i++) {
			mean.v[i] = alone ? 0.f : f.mean[channel + i];
			scale.v[i] = alone ? 1.f : f.weight[channel + i] * f.invstd[channel + i];
			shift.v[i] = alone ? 0.f : f.bias[channel + i];
		}
	}
	// The convolution's input at a place of x; padding is 0.
	template <class T> __device__ __forceinline__ Vec<V> operator()(bool inside, const Raw<V, T> &x) const
	{
		Vec<V> y = values<V>(x);

#pragma unroll
		for (int i = 0; ON && i < V; i++) {
			const float z = fmaf(y.v[i] - mean.v[i], scale.v[i], shift.v[i]);

			y.v[i] = !inside ? 0.f : z < low ? low : z > high ? high : z; // NaN passes
		}
		return y;
	}
	// Sums the masked gradient, and its product with x − mean, from the gradient d of the norm's output. An
	// activation alone gets the masked gradient.
	template <class T>
	__device__ __forceinline__ void sum(Vec<V> &gradient, Vec<V> &product, Vec<V> &d, const Raw<V, T> &x) const
	{
#pragma unroll
		for (int i = 0; i < V; i++) {
			const float e = x[i] - mean.v[i], z = fmaf(e, scale.v[i], shift.v[i]);
			const float g = z <= low || z >= high ? 0.f : d.v[i];

			gradient.v[i] += g;
			product.v[i] = fmaf(g, e, product.v[i]);
			d.v[i] = alone ? g : d.v[i];
		}
	}
};

template <int V, int STRIDE, bool NORM, class T>
__global__ void __launch_bounds__(threads_forward, 2)
	forward3_kernel(T *__restrict__ out, const T *__restrict__ x, const float *__restrict__ weight,
			const float *__restrict__ bias, Geometry g, cu_front front)
{
	const int vectors = g.c / V;
	const int id = blockIdx.x * threads_forward + threadIdx.x;
	const int channel = id % vectors * V, wo = id / vectors;
	const int first = blockIdx.y * g.strip, end = min(first + g.strip, g.ho);
	const int image = g.n - 1 - blockIdx.z; // the L2 still has x's last images
	const int wi = wo * STRIDE - 1;
	const bool in[3] = {wi >= 0, true, wi + 2 < g.w};
	Vec<V> k[9], win[3][3], b = zeros<V>();
	Raw<V, T> next[3][3];

	if (wo >= g.wo)
		return;
	const Norm<V, NORM> norm(front, channel);

	x += ((int64_t)image * g.h * g.w + wi) * g.c + channel;
	out += (int64_t)image * g.ho * g.wo * g.c + (int64_t)wo * g.c + channel;
#pragma unroll
	for (int i = 0; i < 9; i++)
#pragma unroll
		for (int e = 0; e < V; e++)
			k[i].v[e] = weight[i * g.c + channel + e];
	if (bias)
#pragma unroll
		for (int e = 0; e < V; e++)
			b.v[e] = bias[channel + e];

	const auto load_row = [&](Raw<V, T>(&to)[3], int h) {
#pragma unroll
		for (int i = 0; i < 3; i++)
			to[i] = fetched<V>(h >= 0 && h < g.h && in[i], x + (h * g.w + i) * g.c);
	};
	const auto take_row = [&](Vec<V>(&to)[3], const Raw<V, T>(&from)[3], int h) {
#pragma unroll
		for (int i = 0; i < 3; i++)
			to[i] = norm(h >= 0 && h < g.h && in[i], from[i]);
	};
	const auto fetch_row = [&](int h) {
		if (h < min(end * STRIDE + 1, g.h))
			cu_prefetch(x + (h * g.w + 1) * g.c);
	};
#pragma unroll
	for (int r = 0; r < 3; r++)
		load_row(next[r], first * STRIDE - 1 + r);
#pragma unroll
	for (int r = 0; r < fetched_ahead * STRIDE; r++)
		fetch_row(first * STRIDE + 2 + r);
#pragma unroll
	for (int r = 0; r < 3; r++)
		take_row(win[r], next[r], first * STRIDE - 1 + r);
#pragma unroll(4 - STRIDE)
	for (int ho = first; ho < end; ho++) {
		const int below = ho * STRIDE + 2; // the first row that the next window adds
		Vec<V> sum = b;

#pragma unroll
		for (int r = 0; r < STRIDE; r++) {
			load_row(next[r], ho + 1 < end ? below + r : -1);
			fetch_row(below + fetched_ahead * STRIDE + r);
		}
#pragma unroll
		for (int i = 0; i < 9; i++)
			multiply_add(sum, win[i / 3][i % 3], k[i]);
		store<V>(out + ho * g.wo * g.c, sum);
#pragma unroll
		for (int r = 0; r < 3 - STRIDE; r++)
#pragma unroll
			for (int i = 0; i < 3; i++)
				win[r][i] = win[r + STRIDE][i];
#pragma unroll
		for (int r = 0; r < STRIDE; r++)
			take_row(win[3 - STRIDE + r], next[r], below + r);
	}
}

// One walk of dx and dW down the input column(s) of (image, column, strip); acc[kh·3+kw] += x · dout. With a norm
// acc[9] and acc[10] are its sums.
template <int V, bool NORM, class T> struct Walk {
	static constexpr int SUMS = NORM ? 11 : 9;
	const Geometry &g;
	const Norm<V, NORM> &norm;
	T *dx;
	const T *dout, *x; // either of dx and x may be null if only the other is needed
	bool add;

	__device__ __forceinline__ void finish(Vec<V> (&acc)[SUMS], int at, Vec<V> d, const Raw<V, T> &xv) const
	{
		if (add) {
			const Vec<V> old = load<V>(dx + at);
#pragma unroll
			for (int i = 0; i < V; i++)
				d.v[i] += old.v[i];
		}
		if (NORM)
			norm.sum(acc[SUMS - 2], acc[SUMS - 1], d, xv);
		store<V>(dx + at, d);
	}

	// dx[h,w] = Σ dout[h+1-kh, w+1-kw] · weight[kh,kw], and x[h,w] is multiplied with the same nine
	// values for dW.
	__device__ __forceinline__ void stride1(Vec<V> (&acc)[SUMS], const Vec<V> (&k)[9], int column, int strip) const
	{
		const int first = strip * g.strip, end = min(first + g.strip, g.h);
		const bool in[3] = {column > 0, true, column + 1 < g.w};
		Vec<V> win[3][3]; // dout's rows h-1, h, h+1 and columns w-1, w, w+1
		Raw<V, T> next[3][3], xv, next_x;
		const auto load_row = [&](Raw<V, T>(&to)[3], int h) {
#pragma unroll
			for (int i = 0; i < 3; i++)
				to[i] = fetched<V>(h >= 0 && h < g.h && in[i], dout + (h * g.w + column - 1 + i) * g.c);
		};
		const auto fetch_row = [&](int h) {
			const int at = (h * g.w + column) * g.c;

			if (h < end) {
				cu_prefetch(dout + at);
				cu_prefetch(x ? x + at : dout);
			}
		};

#pragma unroll
		for (int r = 0; r < 3; r++)
			load_row(next[r], first - 1 + r);
		xv = fetched<V>(x, x + (first * g.w + column) * g.c);
#pragma unroll
		for (int r = 0; r < fetched_ahead; r++)
			fetch_row(first + 2 + r);
#pragma unroll
		for (int r = 0; r < 3; r++)
			take(win[r], next[r]);
#pragma unroll 3
		for (int h = first; h < end; h++) {
			const int at = (h * g.w + column) * g.c;
			Vec<V> d = zeros<V>();

			load_row(next[0], h + 1 < end ? h + 2 : -1);
			next_x = fetched<V>(x && h + 1 < end, x + at + g.w * g.c);
			fetch_row(h + 2 + fetched_ahead);

			const Vec<V> y = norm(true, xv);
#pragma unroll
			for (int i = 0; i < 9; i++) {
				multiply_add(d, win[2 - i / 3][2 - i % 3], k[i]);
				multiply_add(acc[i], win[2 - i / 3][2 - i % 3], y);
			}
			if (dx)
				finish(acc, at, d, xv);
#pragma unroll
			for (int i = 0; i < 3; i++) {
				win[0][i] = win[1][i];
				win[1][i] = win[2][i];
			}
			take(win[2], next[0]);
			xv = next_x;
		}
	}

	// A tile of 2×2 inputs meets dout[i … i+1, j … j+1]: an even row has kh = 1 of dout row i only, an
	// odd one kh = 2 of row i and kh = 0 of row i+1; columns alike.
	__device__ __forceinline__ void stride2(Vec<V> (&acc)[SUMS], const Vec<V> (&k)[9], int column, int strip) const
	{
		const int first = strip * g.strip, end = min(first + g.strip, g.ho);
		Vec<V> win[2][2];
		Raw<V, T> next[2][2], xv[4], next_x[4];
		const auto load_row = [&](Raw<V, T>(&to)[2], int i) {
#pragma unroll
			for (int q = 0; q < 2; q++)
				to[q] = fetched<V>(i < g.ho && column + q < g.wo, dout + (i * g.wo + column + q) * g.c);
		};
		const auto tile = [&](Raw<V, T>(&to)[4], int i) {
#pragma unroll
			for (int t = 0; t < 4; t++) {
				const int h = 2 * i + t / 2, w = 2 * column + t % 2;

				to[t] = fetched<V>(x && h < g.h && w < g.w, x + (h * g.w + w) * g.c);
			}
		};
		const auto fetch_row = [&](int i) {
			if (i >= end)
				return;
			cu_prefetch(dout + (i * g.wo + column) * g.c);
#pragma unroll
			for (int t = 0; t < 4 && x; t++)
				if (2 * i + t / 2 < g.h)
					cu_prefetch(x + ((2 * i + t / 2) * g.w + 2 * column + t % 2) * g.c);
		};

		load_row(next[0], first);
		load_row(next[1], first + 1);
		tile(xv, first);
#pragma unroll
		for (int r = 0; r < fetched_ahead - 1; r++)
			fetch_row(first + 1 + r);
		take(win[0], next[0]);
		take(win[1], next[1]);
#pragma unroll 2
		for (int i = first; i < end; i++) {
			load_row(next[0], i + 1 < end ? i + 2 : g.ho);
			tile(next_x, i + 1 < end ? i + 1 : g.h);
			fetch_row(i + fetched_ahead);
#pragma unroll
			for (int t = 0; t < 4; t++) {
				const int odd_h = t / 2, odd_w = t % 2, h = 2 * i + odd_h, w = 2 * column + odd_w;
				const bool inside = h < g.h && w < g.w;
				const Vec<V> y = norm(inside, xv[t]);
				Vec<V> d = zeros<V>();

#pragma unroll
				for (int p = 0; p <= odd_h; p++)
#pragma unroll
					for (int q = 0; q <= odd_w; q++) {
						const int kh = odd_h ? 2 - 2 * p : 1, kw = odd_w ? 2 - 2 * q : 1;

						multiply_add(d, win[p][q], k[kh * 3 + kw]);
						multiply_add(acc[kh * 3 + kw], win[p][q], y);
					}
				if (dx && inside)
					finish(acc, (h * g.w + w) * g.c, d, xv[t]);
			}
#pragma unroll
			for (int q = 0; q < 2; q++)
				win[0][q] = win[1][q];
			take(win[1], next[0]);
#pragma unroll
			for (int t = 0; t < 4; t++)
				xv[t] = next_x[t];
		}
	}
};

// Block: lanes × ys threads of one channel tile; its items are (image, strip, group of ys columns). partial:
// [tile][block][9][lanes·V], with a norm [11].
template <int V, int STRIDE, bool NORM, class T>
__global__ void __launch_bounds__(threads_backward, 2)
	backward3_kernel(T *__restrict__ dx, bool add, float *__restrict__ partial, const T *__restrict__ dout,
			 const T *__restrict__ x, const float *__restrict__ weight, Geometry g, cu_front front)
{
	constexpr int SUMS = Walk<V, NORM, T>::SUMS;
	__shared__ __align__(16) float part[SUMS * threads_backward * V]; // accessed as vectors
	const int lanes = blockDim.x, ys = blockDim.y, lane = threadIdx.x, y = threadIdx.y;
	const int width = lanes * V, channel = (blockIdx.y * lanes + lane) * V;
	const int columns = STRIDE == 1 ? g.w : g.wo, column_groups = (columns + ys - 1) / ys;
	const int items = g.n * g.strips * column_groups;
	Vec<V> acc[SUMS], k[9];

#pragma unroll
	for (int i = 0; i < SUMS; i++)
		acc[i] = zeros<V>();
	if (channel < g.c) {
		const Norm<V, NORM> norm(front, channel);

#pragma unroll
		for (int i = 0; i < 9; i++)
#pragma unroll
			for (int e = 0; e < V; e++)
				k[i].v[e] = weight[i * g.c + channel + e];
		for (int item = blockIdx.x; item < items; item += gridDim.x) {
			const int column = item % column_groups * ys + y, rest = item / column_groups;
			const int image = rest / g.strips, strip = rest % g.strips;
			const int64_t in_at = (int64_t)image * g.h * g.w * g.c + channel;
			const Walk<V, NORM, T> walk = {g,
						       norm,
						       dx ? dx + in_at : nullptr,
						       dout + (int64_t)image * g.ho * g.wo * g.c + channel,
						       x ? x + in_at : nullptr,
						       add};

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
	partial += ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * SUMS * width;
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		store<V>(&part[(i * ys + y) * width + lane * V], acc[i]);
	__syncthreads();
	for (int at = y * lanes + lane; at < SUMS * width; at += lanes * ys) {
		float sum = 0;

		for (int r = 0; r < ys; r++)
			sum += part[(at / width * ys + r) * width + at % width];
		partial[at] = sum;
	}
}

constexpr int gather_ys = 16;

// Sums partial [tiles][blocks][sums][width] over the blocks; a block of threads sums 32 columns, gather_ys threads
// each. Sums 0 … 8 are added to dweight [9, C]; 9 and 10 are those of the norm in front.
__global__ void __launch_bounds__(32 * gather_ys)
	gather_kernel(float *dweight, const float *__restrict__ partial, int blocks, int width, int tiles, int c,
		      int sums, cu_front front, double per_row)
{
	__shared__ double part[gather_ys][33];
	const int per_tile = sums * width, lane = threadIdx.x, y = threadIdx.y;
	const int id = blockIdx.x * 32 + lane, tile = id / per_tile, item = id % per_tile;
	double sum = 0;

	if (tile < tiles) {
		const float *p = partial + (int64_t)tile * blocks * per_tile + item;
#pragma unroll 8
		for (int b = y; b < blocks; b += gather_ys)
			sum += p[(int64_t)b * per_tile];
	}
	part[y][lane] = sum;
	__syncthreads();
	if (y > 0 || tile >= tiles)
		return;

	const int channel = tile * width + item % width, which = item / width;

	for (int r = 1; r < gather_ys; r++)
		sum += part[r][lane];
	if (channel >= c)
		return;
	if (which < 9) {
		if (dweight)
			dweight[which * c + channel] += (float)sum;
		return;
	}
	if (!front.coef)
		return;

	const double by = which == 10 ? front.invstd[channel] : 1.;
	float *grad = which == 10 ? front.dweight : front.dbias;

	if (grad)
		grad[channel] += (float)(sum * by);
	front.coef[(which - 9) * c + channel] = (float)(sum * per_row * by * by);
}

bool is_3x3(const struct cu_window *win) // what the fast kernels take
{
	return win->kh == 3 && win->kw == 3 && win->pad == 1 && (win->stride == 1 || win->stride == 2) &&
	       win->c % 4 == 0 && win->n <= 65535 && win->h * win->w * win->c <= INT32_MAX;
}

Geometry geometry_of(const struct cu_window *win)
{
	return {(int)win->n, (int)win->h, (int)win->w, (int)win->c, (int)win->ho, (int)win->wo, 0, 0};
}

cu_conv_groups any_window(const struct cu_window *win)
{
	return {*win, win->c, (int)win->c, 1, true};
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

	return (size_t)t.tiles * backward_blocks(t) * 11 * t.lanes * backward_vector * sizeof(float);
}

// Calls CALL with the template arguments STRIDE and NORM.
#define SWITCH_FORM(stride, front, CALL)        \
	do {                                    \
		if ((front) && (stride) == 1) { \
			CALL(1, true);          \
		} else if (front) {             \
			CALL(2, true);          \
		} else if ((stride) == 1) {     \
			CALL(1, false);         \
		} else {                        \
			CALL(2, false);         \
		}                               \
	} while (0)

template <class T>
static cudaError_t launch_forward(cudaStream_t s, T *out, const T *x, const float *weight, const float *bias,
				  const struct cu_front *front, const struct cu_window *win)
{
	constexpr int V = 8 / sizeof(T);
	const cu_front in_front = front ? *front : cu_front{};
	Geometry g = geometry_of(win);

	g.strip = strip_of(win->wo * win->c * (int64_t)sizeof(T) / 8 * win->n, win->ho, 2, 1 << 17);
	g.strips = (int)ceil_div(win->ho, g.strip);
	const dim3 grid((unsigned)ceil_div((int64_t)g.wo * (g.c / V), threads_forward), g.strips, g.n);
#define CALL(STRIDE, NORM) \
	CU_RUN((forward3_kernel<V, STRIDE, NORM, T>), grid, threads_forward, s, out, x, weight, bias, g, in_front)
	SWITCH_FORM(win->stride, front, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_depthwise_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const float *weight,
				 const float *bias, const struct cu_front *front, const struct cu_window *win)
{
	const cu_conv_groups any = any_window(win);

	if (!is_3x3(win) || !aligned16(out) || !aligned16(x))
		return front ? cudaErrorInvalidValue : cu_grouped_forward(s, type, out, x, weight, bias, &any);
#define CALL(T) return launch_forward(s, (T *)out, (const T *)x, weight, bias, front, win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

template <class T>
static cudaError_t launch_backward(cudaStream_t s, T *dx, bool add, float *dweight, const T *dout, const T *x,
				   const float *weight, const struct cu_front *front, void *workspace,
				   const struct cu_window *win)
{
	constexpr int V = backward_vector;
	const cu_front in_front = front ? *front : cu_front{};

	Geometry g = geometry_of(win);
	const Columns t = columns_of(win->c, V, threads_backward, 64);
	const int64_t columns = win->stride == 1 ? win->w : win->wo, rows = win->stride == 1 ? win->h : win->ho;

	g.strip = strip_of(columns * (win->c / V) * win->n, rows, 8, 1 << 16);
	g.strips = (int)ceil_div(rows, g.strip);
	const int64_t items = (int64_t)g.n * g.strips * ceil_div(columns, t.ys);
	const int blocks = (int)(items < backward_blocks(t) ? items : backward_blocks(t));
	const int sums = front ? 11 : 9;
	float *partial = dweight || front ? (float *)workspace : nullptr;
	const dim3 grid(blocks, t.tiles), block(t.lanes, t.ys);
#define CALL(STRIDE, NORM) \
	CU_RUN((backward3_kernel<V, STRIDE, NORM, T>), grid, block, s, dx, add, partial, dout, x, weight, g, in_front)
	SWITCH_FORM(win->stride, front, CALL);
#undef CALL
	if (partial)
		CU_RUN(gather_kernel, (unsigned)ceil_div((int64_t)t.tiles * sums * t.lanes * V, 32),
		       dim3(32, gather_ys), s, dweight, partial, blocks, t.lanes * V, t.tiles, g.c, sums, in_front,
		       1. / (double)(win->n * win->h * win->w));
	return cudaGetLastError();
}

cudaError_t cu_depthwise_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dweight,
				  const void *dout, const void *x, const float *weight, const struct cu_front *front,
				  void *workspace, const struct cu_window *win)
{
	const cu_conv_groups any = any_window(win);

	if (!is_3x3(win) || !aligned16(dx) || !aligned16(dout) || !aligned16(x))
		return front ? cudaErrorInvalidValue
			     : cu_grouped_backward(s, type, dx, add, dweight, dout, x, weight, &any);
#define CALL(T) \
	return launch_backward(s, (T *)dx, add, dweight, (const T *)dout, (const T *)x, weight, front, workspace, win)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
