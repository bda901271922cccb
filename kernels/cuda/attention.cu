// Multi-head attention of packed rows. A block computes a tile of the queries (or of the keys) of one row and head, and
// a warp 16 of them, against 32 keys (or queries) in shared memory. Scores are recomputed whenever they are needed, so
// no S × S matrix is in memory. No atomics: every sum is computed by one thread, or by four, in a fixed order.
//
// In fp32, products are fp32. Else they are in TF32, which holds values of 16 bits exactly. Probabilities and gradients
// of scores are fp32. With bf16 they are rounded to TF32; else they are split into two TF32 numbers, as are rotated q
// and k.
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/rows.cuh"

#include <type_traits>

namespace
{

constexpr int SIDE = 64;                  // tokens of a tile, and features of a tile of the output
constexpr int EACH = 4;                   // keys for which one call gives random numbers
constexpr int DOWN = 16;                  // tokens of a warp
constexpr int THREADS = 32 * SIDE / DOWN; // of a block
constexpr int ACROSS = 32;                // tokens in shared memory
constexpr int GROUPS = ACROSS / 8;        // of 8 tokens, a product's width
constexpr int DEEP = 64;                  // features in shared memory, and of a warp's tokens in registers
constexpr int STEPS = DEEP / 8;           // of 8 features, a product's depth
constexpr int STRIDE = DEEP + 4;          // floats of a row in shared memory, against bank conflicts

// Tokens [first, stop) of a row that has `length` tokens and begins with token `from`.
struct Tile {
	int64_t row, from;
	int first, stop, length;
};

// Row r begins with tile begin[r] / SIDE + r. So each row has enough tiles, and its last one may be empty.
__device__ Tile tile_of(const cu_attention &a, int64_t i)
{
	Tile t;

	if (a.each || !a.rows.begin) {
		const int64_t each = a.each ? a.each : 1, tiles = (each + SIDE - 1) / SIDE;

		t.row = i / tiles;
		t.from = t.row * each;
		t.length = (int)each;
		t.first = (int)(i % tiles) * SIDE;
	} else {
		const uint32_t *begin = a.rows.begin;

		t.row = last_row(a.rows, [=](int64_t r) { return begin[r] / SIDE + r <= i; });
		t.from = begin[t.row];
		t.length = (int)(begin[t.row + 1] - t.from);
		t.first = (int)(i - (t.from / SIDE + t.row)) * SIDE;
	}
	t.stop = t.first + SIDE < t.length ? t.first + SIDE : t.length;
	return t;
}

// Tokens of a tensor of `heads` heads: x is the first one's features of one head.
template <class T> struct Tokens {
	const T *x;
	int stride; // from a token to the next
	int count, d;
};

// Up to SIDE tokens of the row, from its token `first` on.
template <class T>
__device__ Tokens<T> tokens_of(const void *x, const cu_attention &a, const Tile &row, int heads, int head, int first)
{
	const int count = row.length - first < SIDE ? row.length - first : SIDE;

	return {(const T *)x + ((row.from + first) * heads + head) * a.d, heads * a.d, count, a.d};
}

// Dropout's factors of a query's probabilities for EACH keys from `key` on: 0, or 1/(1 - p).
__device__ Vec<EACH> kept(const cu_attention &a, const Tile &at, int head, int query, int key)
{
	const int64_t quads = (a.most + 3) / 4; // of a query
	Vec<EACH> out = {{1.f, 1.f, 1.f, 1.f}};

	if (a.p != 0.f) {
		cu_philox now = a.key;
		uint32_t word[EACH];

		if (a.step)
			now.step = *a.step;
		philox_quad(&now, (uint32_t)(((at.row * a.heads + head) * quads * 4 + query) * quads + key / EACH),
			    word);
#pragma unroll
		for (int j = 0; j < EACH; j++)
			out.v[j] = (float)(word[j] >> 8) * 0x1p-24f >= a.p ? 1.f / (1.f - a.p) : 0.f;
	}
	return out;
}

// Whether a query sees a key of its row.
__device__ bool sees(const cu_attention &a, const Tile &at, int query, int key)
{
	return key < at.length && query < at.length && (!a.causal || key <= query);
}

struct alignas(16) Shared {
	float x[ACROSS][STRIDE], y[ACROSS][STRIDE];
};

// A thread has tokens `down` and down + 1 of a tile, and of the tokens in shared memory those that across() names.
struct Lane {
	int g, t, down;
};

__device__ Lane lane()
{
	const int g = threadIdx.x % 32 / 4;

	return {g, (int)threadIdx.x % 4, (int)threadIdx.x / 32 * DOWN + 2 * g};
}

// The token of element c (0 or 1) of group n. A thread has four tokens in a row of each 16, as random numbers come.
__device__ __forceinline__ int across(const Lane &me, int n, int c)
{
	return n / 2 * 16 + 4 * me.t + n % 2 * 2 + c;
}

// Where shared memory has token i, so that across() holds.
__device__ __forceinline__ int place_of(int i)
{
	return i / 16 * 16 + i % 4 / 2 * 8 + i % 16 / 4 * 2 + i % 2;
}

// How products of an op that stores T take factors: as fp32, or split if they are computed or of type X in memory.
template <class T> constexpr bool exact = CU_NO_TF32 || std::is_same<T, float>::value;
template <class T> constexpr bool splits_computed = !std::is_same<T, bf16>::value;
template <class X> constexpr bool splits = std::is_same<X, float>::value;

// to[place_of(i)][c] = feature `at` + c of token i; 0 where there is none.
template <class X> __device__ void fill(float (*to)[STRIDE], const Tokens<X> &from, int at)
{
	const bool quads = from.d % 4 == 0 && (uintptr_t)from.x % sizeof(Pack<4, X>) == 0;

#pragma unroll 2
	for (int e = threadIdx.x; e < ACROSS * DEEP / 4; e += THREADS) {
		const int c = e % (DEEP / 4) * 4, i = e / (DEEP / 4);
		const X *x = from.x + (int64_t)i * from.stride + at + c;
		Vec<4> v = zeros<4>();

		if (i < from.count && quads && at + c < from.d)
			v = load<4>(x);
		else if (i < from.count)
			for (int k = 0; k < 4 && at + c + k < from.d; k++)
				v.v[k] = value(x[k]);
		store<4>(&to[place_of(i)][c], v);
	}
}

// A warp's tokens of a tile: DEEP features from `at` on.
struct Side {
	float x[STEPS][4];
	int at = -1;
};

template <class X> __device__ void hold(Side &side, const Tokens<X> &from, int at)
{
	const Lane me = lane();

	if (side.at == at)
		return;
	side.at = at;
#pragma unroll
	for (int s = 0; s < STEPS; s++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int token = me.down + i % 2, c = at + 8 * s + me.t + i / 2 * 4;

			side.x[s][i] = token < from.count && c < from.d
					       ? value(from.x[(int64_t)token * from.stride + c])
					       : 0.f;
		}
}

// w += the products of the warp's tokens with those in shared memory. `deep`: features that are left.
template <class T, class X>
__device__ __forceinline__ void add_dots(float (&w)[GROUPS][4], const Side &side, const float (*y)[STRIDE], int deep)
{
	const Lane me = lane();
	float rows[2][8];

#pragma unroll
	for (int s = 0; s < STEPS; s++) {
		if (8 * s >= deep)
			break;
		if (exact<T>)
			gather_rows(rows, side.x[s]);
#pragma unroll
		for (int n = 0; n < GROUPS; n++) {
			const float *at = &y[8 * n + me.g][8 * s + me.t], b[2] = {at[0], at[4]};

			if (!exact<T>)
				add_product<splits<X>, splits<X>>(w[n], side.x[s], b);
#pragma unroll
			for (int c = 0; exact<T> && c < 4; c++) { // column c / 2, a half of the features
				const Vec<4> v = load<4>(&y[8 * n + 2 * me.t + c / 2][8 * s + c % 2 * 4]);

#pragma unroll
				for (int k = 0; k < 8; k++)
					w[n][k / 4 * 2 + c / 2] += rows[k / 4][c % 2 * 4 + k % 4] * v.v[k % 4];
			}
		}
	}
}

// acc += the sum over the tokens in shared memory of w times their features.
template <class T, class X>
__device__ __forceinline__ void add_sums(float (&acc)[STEPS][4], const float (&w)[GROUPS][4], const float (*y)[STRIDE],
					 int deep)
{
	const Lane me = lane();
	float rows[2][8];

#pragma unroll
	for (int n = 0; n < GROUPS; n++) {
		// the product's tokens t and t + 4 are 2t and 2t + 1 of the group, so that no value changes threads
		const float c[4] = {w[n][0], w[n][2], w[n][1], w[n][3]};
		float a[4];

#pragma unroll
		for (int i = 0; i < 4; i++)
			a[i] = splits_computed<T> ? c[i] : rounded_tf32(c[i]);
		if (exact<T>)
			gather_rows(rows, c);
#pragma unroll
		for (int s = 0; s < STEPS; s++) {
			if (8 * s >= deep)
				break;
			const float *at = &y[8 * n + 2 * me.t][8 * s + me.g], b[2] = {at[0], at[STRIDE]};

			if (!exact<T>)
				add_product<splits_computed<T>, splits<X>>(acc[s], a, b);
#pragma unroll
			for (int k = 0; exact<T> && k < 8; k++) {
				const Vec<2> v = load<2>(&y[8 * n + k % 4 * 2 + k / 4][8 * s + 2 * me.t]);

#pragma unroll
				for (int i = 0; i < 4; i++)
					acc[s][i] += rows[i / 2][k] * v.v[i % 2];
			}
		}
	}
}

__device__ __forceinline__ void clear(float (&w)[GROUPS][4])
{
#pragma unroll
	for (int n = 0; n < GROUPS; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			w[n][i] = 0.f;
}

// Writes, or adds, the features from `column` on of this thread's tokens of a tile.
template <class T>
__device__ void put(T *to, bool add, const float (&acc)[STEPS][4], const cu_attention &a, const Tile &p, int heads,
		    int head, int column)
{
	const Lane me = lane();

#pragma unroll
	for (int s = 0; s < STEPS; s++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int token = p.first + me.down + i / 2, c = column + 8 * s + 2 * me.t + i % 2;
			T *at = to + ((p.from + token) * heads + head) * a.d + c;

			if (token < p.length && c < a.d)
				*at = rounded<T>(add ? value(*at) + acc[s][i] : acc[s][i]);
		}
}

// The sum, or the maximum, of the values of the four threads that have a query. All of them get it.
__device__ float sum_across(float v)
{
	v += __shfl_xor_sync(~0u, v, 1);
	return v + __shfl_xor_sync(~0u, v, 2);
}

__device__ float most_across(float v)
{
	for (int step = 1; step <= 2; step *= 2) {
		const float other = __shfl_xor_sync(~0u, v, step);

		v = other > v ? other : v;
	}
	return v;
}

// The scores of query `down` + r with the keys from `tile` on become e^(score - top) after dropout. top and sum are
// what they were for the keys before; returns by how much the earlier sums shrink.
__device__ __forceinline__ float soften(float (&w)[GROUPS][4], int r, float &top, float &sum, const cu_attention &a,
					const Tile &p, int head, int tile)
{
	const Lane me = lane();
	const int query = p.first + me.down + r;
	const float scale = 1.f / sqrtf((float)a.d);
	float most = top, part = 0.f;

#pragma unroll
	for (int n = 0; n < GROUPS; n++)
#pragma unroll
		for (int c = 0; c < 2; c++)
			if (sees(a, p, query, tile + across(me, n, c)) && w[n][2 * r + c] > most)
				most = w[n][2 * r + c];
	most = most_across(most);
	const float less = most == top ? 1.f : expf((top - most) * scale);

#pragma unroll
	for (int n = 0; n < GROUPS; n += 2) {
		const int key = tile + across(me, n, 0);
		const Vec<EACH> keep = kept(a, p, head, query, key);

#pragma unroll
		for (int k = 0; k < EACH; k++) {
			float &e = w[n + k / 2][2 * r + k % 2];

			e = sees(a, p, query, key + k) ? expf((e - most) * scale) : 0.f;
			part += e;
			e *= keep.v[k];
		}
	}
	top = most;
	sum = sum * less + sum_across(part);
	return less;
}

// T: type of the op's inputs and output; Q: type of q and k. blockIdx.y: a head and SIDE features of its output.
template <class T, class Q>
__global__ void __launch_bounds__(THREADS) forward_kernel(T *__restrict__ out, cu_attention a, int columns)
{
	__shared__ Shared shared;
	const Tile p = tile_of(a, blockIdx.x);
	const int head = blockIdx.y / columns, column = blockIdx.y % columns * DEEP, of = head / (a.heads / a.kv);
	const Lane me = lane();
	float top[2] = {-INFINITY, -INFINITY}, sum[2] = {}, acc[STEPS][4] = {};
	Side q;

	if (p.first >= p.length)
		return;
	for (int tile = 0; tile < (a.causal ? p.stop : p.length); tile += ACROSS) {
		float w[GROUPS][4];

		clear(w);
		for (int at = 0; at < a.d; at += DEEP) {
			__syncthreads();
			fill(shared.x, tokens_of<Q>(a.k, a, p, a.kv, of, tile), at);
			if (at == 0)
				fill(shared.y, tokens_of<T>(a.v, a, p, a.kv, of, tile), column);
			hold(q, tokens_of<Q>(a.q, a, p, a.heads, head, p.first), at);
			__syncthreads();
			add_dots<T, Q>(w, q, shared.x, a.d - at);
		}
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float less = soften(w, r, top[r], sum[r], a, p, head, tile);

#pragma unroll
			for (int s = 0; s < STEPS; s++) {
				acc[s][2 * r] *= less;
				acc[s][2 * r + 1] *= less;
			}
		}
		add_sums<T, T>(acc, w, shared.y, a.d - column);
	}
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int query = p.first + me.down + r;
		float *stat = a.stat + 2 * ((p.from + query) * a.heads + head);

		if (query < p.length && me.t == 0 && column == 0) {
			stat[0] = top[r];
			stat[1] = 1.f / sum[r];
		}
#pragma unroll
		for (int s = 0; s < STEPS; s++) {
			acc[s][2 * r] *= 1.f / sum[r];
			acc[s][2 * r + 1] *= 1.f / sum[r];
		}
	}
	put(stored(out), false, acc, a, p, a.heads, head, column);
}

// Of the backward pass: for the warp's tokens (x, y) and those in shared memory (u, v), w = x·u and along = y·v. The
// features from `column` on come last, so that they remain in shared memory.
template <class T, class Q>
__device__ __forceinline__ void pair_up(float (&w)[GROUPS][4], float (&along)[GROUPS][4], Shared &s, Side &side_x,
					Side &side_y, const Tokens<Q> &x, const Tokens<T> &y, const Tokens<Q> &u,
					const Tokens<T> &v, int column, int columns)
{
	clear(w);
	clear(along);
	for (int i = 1; i <= columns; i++) {
		const int at = (column + i * DEEP) % (columns * DEEP);

		__syncthreads();
		fill(s.x, u, at);
		fill(s.y, v, at);
		hold(side_x, x, at);
		hold(side_y, y, at);
		__syncthreads();
		add_dots<T, Q>(w, side_x, s.x, x.d - at);
		add_dots<T, T>(along, side_y, s.y, x.d - at);
	}
}

template <class T, class Q>
__global__ void __launch_bounds__(THREADS)
	dq_kernel(Q *__restrict__ dq, bool add, const T *__restrict__ dout, cu_attention a, int columns)
{
	__shared__ Shared shared;
	const Tile p = tile_of(a, blockIdx.x);
	const int head = blockIdx.y / columns, column = blockIdx.y % columns * DEEP, of = head / (a.heads / a.kv);
	const int stop = a.causal ? p.stop : p.length;
	const Lane me = lane();
	const float scale = 1.f / sqrtf((float)a.d), *stat = a.stat + 2 * (p.from * a.heads + head);
	float delta[2] = {}, acc[STEPS][4] = {};
	Side q, g;
	float w[GROUPS][4], along[GROUPS][4];

	if (p.first >= p.length)
		return;
	for (int pass = 0; pass < (dq ? 2 : 1); pass++) { // the first one computes delta
		for (int tile = 0; tile < stop; tile += ACROSS) {
			if (pass == 0 || stop > ACROSS) // else the only tile's are still there
				pair_up<T, Q>(w, along, shared, q, g, tokens_of<Q>(a.q, a, p, a.heads, head, p.first),
					      tokens_of<T>(dout, a, p, a.heads, head, p.first),
					      tokens_of<Q>(a.k, a, p, a.kv, of, tile),
					      tokens_of<T>(a.v, a, p, a.kv, of, tile), column, columns);
#pragma unroll
			for (int r = 0; r < 2; r++) {
				const int query = p.first + me.down + r;
				const float top = query < p.length ? stat[(int64_t)2 * a.heads * query] : 0.f;
				const float inv = query < p.length ? stat[(int64_t)2 * a.heads * query + 1] : 0.f;

#pragma unroll
				for (int n = 0; n < GROUPS; n += 2) {
					const int key = tile + across(me, n, 0);
					const Vec<EACH> keep = kept(a, p, head, query, key);

#pragma unroll
					for (int k = 0; k < EACH; k++) {
						float &e = w[n + k / 2][2 * r + k % 2];
						const float prob = sees(a, p, query, key + k)
									   ? expf((e - top) * scale) * inv
									   : 0.f;
						const float part = along[n + k / 2][2 * r + k % 2] * (prob * keep.v[k]);

						if (pass == 0)
							delta[r] += part;
						else
							e = (part - prob * delta[r]) * scale;
					}
				}
			}
			if (pass == 1)
				add_sums<T, Q>(acc, w, shared.x, a.d - column);
		}
#pragma unroll
		for (int r = 0; r < 2 && pass == 0; r++) {
			const int query = p.first + me.down + r;

			delta[r] = sum_across(delta[r]);
			if (me.t == 0 && column == 0 && query < p.length)
				a.delta[(p.from + query) * a.heads + head] = delta[r];
		}
	}
	if (dq)
		put(stored(dq), add, acc, a, p, a.heads, head, column);
}

template <class T, class Q>
__global__ void __launch_bounds__(THREADS) dkv_kernel(Q *__restrict__ dk, bool add_k, T *__restrict__ dv, bool add_v,
						      const T *__restrict__ dout, cu_attention a, int columns)
{
	__shared__ Shared shared;
	const Tile p = tile_of(a, blockIdx.x);
	const int of = blockIdx.y / columns, column = blockIdx.y % columns * DEEP, group = a.heads / a.kv;
	const Lane me = lane();
	const int key = p.first + me.down;
	const float scale = 1.f / sqrtf((float)a.d);
	float acc_k[STEPS][4] = {}, acc_v[STEPS][4] = {};
	Side k, v;

	if (p.first >= p.length)
		return;
	for (int head = of * group; head < (of + 1) * group; head++)
		for (int tile = a.causal ? p.first : 0; tile < p.length; tile += ACROSS) {
			float w[GROUPS][4], along[GROUPS][4];

			pair_up<T, Q>(w, along, shared, k, v, tokens_of<Q>(a.k, a, p, a.kv, of, p.first),
				      tokens_of<T>(a.v, a, p, a.kv, of, p.first),
				      tokens_of<Q>(a.q, a, p, a.heads, head, tile),
				      tokens_of<T>(dout, a, p, a.heads, head, tile), column, columns);
#pragma unroll
			for (int n = 0; n < GROUPS; n++)
#pragma unroll
				for (int c = 0; c < 2; c++) {
					const int query = tile + across(me, n, c);
					const int64_t at = (p.from + query) * a.heads + head;
					const bool there = query < p.length;
					const float top = there ? a.stat[2 * at] : 0.f,
						    inv = there ? a.stat[2 * at + 1] : 0.f;
					const float delta = there ? a.delta[at] : 0.f;
					const Vec<EACH> keep = kept(a, p, head, query, key);

#pragma unroll
					for (int r = 0; r < 2; r++) {
						float &e = w[n][2 * r + c], &ds = along[n][2 * r + c];
						const float prob = sees(a, p, query, key + r)
									   ? expf((e - top) * scale) * inv
									   : 0.f;

						e = prob * (key % EACH ? keep.v[2 + r] : keep.v[r]);
						ds = (ds * e - prob * delta) * scale;
					}
				}
			add_sums<T, T>(acc_v, w, shared.y, a.d - column);
			add_sums<T, Q>(acc_k, along, shared.x, a.d - column);
		}
	if (dk)
		put(stored(dk), add_k, acc_k, a, p, a.kv, of, column);
	if (dv)
		put(stored(dv), add_v, acc_v, a, p, a.kv, of, column);
}

} // namespace

static unsigned columns_of(const struct cu_attention *a)
{
	return (unsigned)ceil_div(a->d, SIDE);
}

// Blocks of a kernel: tiles of all rows, times heads with their features.
static dim3 grid_of(const struct cu_attention *a, int heads)
{
	const int64_t tiles = a->each         ? a->rows.rows * ceil_div(a->each, SIDE)
			      : a->rows.begin ? a->rows.tokens / SIDE + a->rows.rows
					      : a->rows.tokens;

	return dim3((unsigned)tiles, (unsigned)heads * columns_of(a));
}

// Chooses T and Q. Rotated q and k of bf16 are rounded to TF32.
#define SWITCH_TYPES(a, CALL)                                  \
	do {                                                   \
		if ((a)->type == CU_F32 && !(a)->tf32)         \
			CALL(float, float);                    \
		else if ((a)->type == CU_F32 && (a)->rotated)  \
			CALL(tf32, float);                     \
		else if ((a)->type == CU_F32)                  \
			CALL(tf32, tf32);                      \
		else if ((a)->type == CU_BF16 && (a)->rotated) \
			CALL(bf16, tf32);                      \
		else if ((a)->type == CU_BF16)                 \
			CALL(bf16, bf16);                      \
		else if ((a)->rotated)                         \
			CALL(f16, float);                      \
		else                                           \
			CALL(f16, f16);                        \
	} while (0)

cudaError_t cu_attention_forward(cudaStream_t s, void *out, const struct cu_attention *a)
{
#define CALL(T, Q) CU_RUN((forward_kernel<T, Q>), grid_of(a, a->heads), THREADS, s, (T *)out, *a, (int)columns_of(a))
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_attention_dq(cudaStream_t s, void *dq, bool add, const void *dout, const struct cu_attention *a)
{
#define CALL(T, Q)                                                                                     \
	CU_RUN((dq_kernel<T, Q>), grid_of(a, a->heads), THREADS, s, (Q *)dq, add, (const T *)dout, *a, \
	       (int)columns_of(a))
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_attention_dkv(cudaStream_t s, void *dk, bool add_k, void *dv, bool add_v, const void *dout,
			     const struct cu_attention *a)
{
#define CALL(T, Q)                                                                                                     \
	CU_RUN((dkv_kernel<T, Q>), grid_of(a, a->kv), THREADS, s, (Q *)dk, add_k, (T *)dv, add_v, (const T *)dout, *a, \
	       (int)columns_of(a))
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}
