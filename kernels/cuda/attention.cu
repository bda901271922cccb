// Multi-head attention of packed rows. A block computes a tile of the queries (or of the keys) of one row and head. It
// brings the row's keys (or queries) into shared memory, tile by tile. Scores are recomputed whenever they are needed,
// so no S × S matrix is in memory. No atomics: every sum is computed by one thread, or by the lanes of half a warp, in
// a fixed order.
#include "kernels/cuda/rows.cuh"

namespace
{

constexpr int SIDE = 64;                 // tokens of a tile, and features of a tile of the output
constexpr int DEEP = 32;                 // features (or tokens) in shared memory at a time
constexpr int EACH = 4;                  // a thread computes EACH × EACH elements of a tile
constexpr int ACROSS = SIDE / EACH;      // threads beside each other in a tile: half a warp
constexpr int THREADS = ACROSS * ACROSS; // of a block
constexpr int STRIDE = SIDE + 4;         // floats of a row in shared memory, against bank conflicts
constexpr int turn_threads = 128;

struct alignas(16) Shared {
	float x[DEEP][STRIDE], y[DEEP][STRIDE], weight[SIDE][STRIDE];
};

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

// to[c][i] = feature `at` + c of token i; 0 where there is none.
template <class T> __device__ void load_columns(float (*to)[STRIDE], const Tokens<T> &from, int at)
{
#pragma unroll 2
	for (int e = threadIdx.x; e < SIDE * DEEP; e += THREADS) {
		const int c = e % DEEP, i = e / DEEP;

		to[c][i] = i < from.count && at + c < from.d ? value(from.x[i * from.stride + at + c]) : 0.f;
	}
}

// to[i][c] = feature `column` + c of token `at` + i; 0 where there is none.
template <class T> __device__ void load_rows(float (*to)[STRIDE], const Tokens<T> &from, int at, int column)
{
#pragma unroll 2
	for (int e = threadIdx.x; e < SIDE * DEEP; e += THREADS) {
		const int c = e % SIDE, i = e / SIDE;

		to[i][c] = at + i < from.count && column + c < from.d
				   ? value(from.x[(at + i) * from.stride + column + c])
				   : 0.f;
	}
}

// Where this thread's elements of a tile begin.
struct Mine {
	int across, down;
};

__device__ Mine mine()
{
	return {(int)threadIdx.x % ACROSS * EACH, (int)threadIdx.x / ACROSS * EACH};
}

// acc[i][j] += the sum over DEEP rows of a[.][i] · b[.][j], for this thread's i and j.
__device__ __forceinline__ void add_products(float (&acc)[EACH][EACH], const float (*a)[STRIDE],
					     const float (*b)[STRIDE])
{
	const Mine m = mine();

#pragma unroll 2
	for (int c = 0; c < DEEP; c++) {
		const Vec<EACH> u = load<EACH>(&a[c][m.down]), v = load<EACH>(&b[c][m.across]);

#pragma unroll
		for (int i = 0; i < EACH; i++)
#pragma unroll
			for (int j = 0; j < EACH; j++)
				acc[i][j] += u.v[i] * v.v[j];
	}
}

// out[i][j] = the product of token i of x with token j of y.
template <class X, class Y>
__device__ void dots(float (&out)[EACH][EACH], Shared &s, const Tokens<X> &x, const Tokens<Y> &y)
{
#pragma unroll
	for (int i = 0; i < EACH; i++)
#pragma unroll
		for (int j = 0; j < EACH; j++)
			out[i][j] = 0.f;
	for (int at = 0; at < x.d; at += DEEP) {
		__syncthreads();
		load_columns(s.x, x, at);
		load_columns(s.y, y, at);
		__syncthreads();
		add_products(out, s.x, s.y);
	}
}

// Shares the elements of the tile: s.weight[j][i] = w[i][j].
__device__ void share(Shared &s, const float (&w)[EACH][EACH])
{
	const Mine m = mine();

#pragma unroll
	for (int j = 0; j < EACH; j++) {
		Vec<EACH> column;
#pragma unroll
		for (int i = 0; i < EACH; i++)
			column.v[i] = w[i][j];
		store<EACH>(&s.weight[m.across + j][m.down], column);
	}
}

// acc[i][c] += the sum over the tokens t of s.weight[t][i] · feature `column` + c of token t.
template <class T> __device__ void gather(float (&acc)[EACH][EACH], Shared &s, const Tokens<T> &of, int column)
{
	for (int at = 0; at < of.count; at += DEEP) {
		__syncthreads();
		load_rows(s.x, of, at, column);
		__syncthreads();
		add_products(acc, s.weight + at, s.x);
	}
}

// The sum, or the maximum, of the values of half a warp. All of its threads get it.
__device__ float sum_across(float v)
{
	for (int step = ACROSS / 2; step > 0; step /= 2)
		v += __shfl_xor_sync(~0u, v, step);
	return v;
}

__device__ float most_across(float v)
{
	for (int step = ACROSS / 2; step > 0; step /= 2) {
		const float other = __shfl_xor_sync(~0u, v, step);

		v = other > v ? other : v;
	}
	return v;
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
	return key < at.length && query < at.length && (!a.causal || key <= query) &&
	       (a.window == 0 || (query - key < a.window && key - query < a.window));
}

// A score q·k behind the cap, divided by `scale`. Inline its tanh would take more registers than a thread has.
__device__ __attribute__((noinline)) float bent(const cu_attention &a, float score, float scale)
{
	return a.cap / scale * tanhf(score * scale / a.cap);
}

// The features of EACH tokens of a row from `token` on, and EACH `columns` of one head: to = or += acc.
template <class T>
__device__ void put(T *to, bool add, const float (&acc)[EACH][EACH], const cu_attention &a, const Tile &row, int heads,
		    int head, int token, int column)
{
	to += (row.from * heads + head) * a.d;
	for (int i = 0; i < EACH && token + i < row.length; i++)
		for (int j = 0; j < EACH && column + j < a.d; j++) {
			T *at = to + (int64_t)(token + i) * heads * a.d + column + j;

			*at = rounded<T>(add ? value(*at) + acc[i][j] : acc[i][j]);
		}
}

// One row of a tile of scores becomes e^(score - top), and sum its share of the softmax's sum; both belong to a query,
// with what was summed before. Returns by how much the earlier sums shrink.
template <bool CAPPED>
__device__ float soften(float (&score)[EACH], float &top, float &sum, const cu_attention &a, const Tile &at, int query,
			int key)
{
	const float scale = 1.f / sqrtf((float)a.d);
	float most = top, part = 0.f;

	if (CAPPED)
#pragma unroll
		for (int j = 0; j < EACH; j++)
			score[j] = bent(a, score[j], scale);
#pragma unroll
	for (int j = 0; j < EACH; j++)
		if (sees(a, at, query, key + j) && score[j] > most)
			most = score[j];
	most = most_across(most);
	const float less = most == top ? 1.f : expf((top - most) * scale);

#pragma unroll
	for (int j = 0; j < EACH; j++) {
		score[j] = sees(a, at, query, key + j) ? expf((score[j] - most) * scale) : 0.f;
		part += score[j];
	}
	top = most;
	sum = sum * less + sum_across(part);
	return less;
}

// T: type of the op's inputs and output; Q: type of q and k. blockIdx.y: a head and SIDE features of its output.
template <class T, class Q, bool CAPPED>
__global__ void __launch_bounds__(THREADS, 2) forward_kernel(T *__restrict__ out, cu_attention a, int columns)
{
	__shared__ Shared shared;
	const Tile p = tile_of(a, blockIdx.x);
	const int head = blockIdx.y / columns, column = blockIdx.y % columns * SIDE, of = head / (a.heads / a.kv);
	const Mine m = mine();
	float top[EACH], sum[EACH], acc[EACH][EACH] = {};

	if (p.first >= p.length)
		return;
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		top[i] = -INFINITY;
		sum[i] = 0.f;
	}
	for (int tile = 0; tile < (a.causal ? p.stop : p.length); tile += SIDE) {
		float w[EACH][EACH];

		dots(w, shared, tokens_of<Q>(a.q, a, p, a.heads, head, p.first),
		     tokens_of<Q>(a.k, a, p, a.kv, of, tile));
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			const int query = p.first + m.down + i, key = tile + m.across;
			const float less = soften<CAPPED>(w[i], top[i], sum[i], a, p, query, key);
			const Vec<EACH> keep = kept(a, p, head, query, key);

#pragma unroll
			for (int j = 0; j < EACH; j++) {
				w[i][j] *= keep.v[j];
				acc[i][j] *= less;
			}
		}
		share(shared, w);
		gather(acc, shared, tokens_of<T>(a.v, a, p, a.kv, of, tile), column);
	}
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		const int query = p.first + m.down + i;
		float *stat = a.stat + 2 * ((p.from + query) * a.heads + head);

		if (query < p.length && m.across == 0 && column == 0) {
			stat[0] = top[i];
			stat[1] = 1.f / sum[i];
		}
#pragma unroll
		for (int j = 0; j < EACH; j++)
			acc[i][j] *= 1.f / sum[i];
	}
	put(out, false, acc, a, p, a.heads, head, p.first + m.down, column + m.across);
}

// For queries and keys: the probability, and the product of its value after dropout with dout·v.
struct Pairs {
	float p[EACH][EACH], along[EACH][EACH];
};

// The pairs of a tile of queries and one of keys. BY_KEY: element [i][j] is of key i and query j, and the probabilities
// after dropout are shared; else of query i and key j. `sloped`: both numbers are multiplied by the cap's derivative.
template <bool BY_KEY, bool CAPPED, class T, class Q>
__device__ void pair_up(Pairs &to, Shared &s, const cu_attention &a, const Tile &at, int head, int query, int key,
			const T *dout, bool sloped)
{
	const int of = head / (a.heads / a.kv);
	const Mine m = mine();
	const float scale = 1.f / sqrtf((float)a.d), *stat = a.stat + 2 * (at.from * a.heads + head);
	float weight[EACH][EACH];

	if (BY_KEY) {
		dots(to.p, s, tokens_of<Q>(a.k, a, at, a.kv, of, key), tokens_of<Q>(a.q, a, at, a.heads, head, query));
		dots(to.along, s, tokens_of<T>(a.v, a, at, a.kv, of, key),
		     tokens_of<T>(dout, a, at, a.heads, head, query));
	} else {
		dots(to.p, s, tokens_of<Q>(a.q, a, at, a.heads, head, query), tokens_of<Q>(a.k, a, at, a.kv, of, key));
		dots(to.along, s, tokens_of<T>(dout, a, at, a.heads, head, query),
		     tokens_of<T>(a.v, a, at, a.kv, of, key));
	}
#pragma unroll
	for (int n = 0; n < EACH; n++) { // a query of this thread, and its keys
		const int own = query + (BY_KEY ? m.across : m.down) + n, first = key + (BY_KEY ? m.down : m.across);
		const float top = own < at.length ? stat[(int64_t)2 * a.heads * own] : 0.f;
		const float inv = own < at.length ? stat[(int64_t)2 * a.heads * own + 1] : 0.f;
		const Vec<EACH> keep = kept(a, at, head, own, first);

#pragma unroll
		for (int k = 0; k < EACH; k++) {
			const int i = BY_KEY ? k : n, j = BY_KEY ? n : k;
			const float score = CAPPED ? bent(a, to.p[i][j], scale) : to.p[i][j];
			const float p = sees(a, at, own, first + k) ? expf((score - top) * scale) * inv : 0.f;
			const float t = CAPPED && sloped ? score * scale / a.cap : 0.f, slope = 1.f - t * t;

			weight[i][j] = p * keep.v[k];
			to.along[i][j] *= weight[i][j] * slope;
			to.p[i][j] = p * slope;
		}
	}
	if (BY_KEY)
		share(s, weight);
}

template <class T, class Q, bool CAPPED>
__global__ void __launch_bounds__(THREADS, 2)
	dq_kernel(Q *__restrict__ dq, bool add, const T *__restrict__ dout, cu_attention a, int columns)
{
	__shared__ Shared shared;
	const Tile p = tile_of(a, blockIdx.x);
	const int head = blockIdx.y / columns, column = blockIdx.y % columns * SIDE, of = head / (a.heads / a.kv);
	const int stop = a.causal ? p.stop : p.length;
	const Mine m = mine();
	const float scale = 1.f / sqrtf((float)a.d);
	float delta[EACH] = {}, acc[EACH][EACH] = {};
	Pairs pairs;

	if (p.first >= p.length)
		return;
	for (int tile = 0; tile < stop; tile += SIDE) {
		pair_up<false, CAPPED, T, Q>(pairs, shared, a, p, head, p.first, tile, dout, false);
#pragma unroll
		for (int i = 0; i < EACH; i++)
#pragma unroll
			for (int j = 0; j < EACH; j++)
				delta[i] += pairs.along[i][j];
	}
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		delta[i] = sum_across(delta[i]);
		if (m.across == 0 && column == 0 && p.first + m.down + i < p.length)
			a.delta[(p.from + p.first + m.down + i) * a.heads + head] = delta[i];
	}
	for (int tile = 0; dq && tile < stop; tile += SIDE) {
		if (stop > SIDE || CAPPED) // else the pairs of the only tile are still there
			pair_up<false, CAPPED, T, Q>(pairs, shared, a, p, head, p.first, tile, dout, true);
#pragma unroll
		for (int i = 0; i < EACH; i++)
#pragma unroll
			for (int j = 0; j < EACH; j++)
				pairs.along[i][j] = (pairs.along[i][j] - pairs.p[i][j] * delta[i]) * scale;
		share(shared, pairs.along);
		gather(acc, shared, tokens_of<Q>(a.k, a, p, a.kv, of, tile), column);
	}
	if (dq)
		put(dq, add, acc, a, p, a.heads, head, p.first + m.down, column + m.across);
}

template <class T, class Q, bool CAPPED>
__global__ void __launch_bounds__(THREADS, 2) dkv_kernel(Q *__restrict__ dk, bool add_k, T *__restrict__ dv, bool add_v,
							 const T *__restrict__ dout, cu_attention a, int columns)
{
	__shared__ Shared shared;
	const Tile p = tile_of(a, blockIdx.x);
	const int of = blockIdx.y / columns, column = blockIdx.y % columns * SIDE, group = a.heads / a.kv;
	const Mine m = mine();
	const float scale = 1.f / sqrtf((float)a.d);
	float acc_k[EACH][EACH] = {}, acc_v[EACH][EACH] = {};

	if (p.first >= p.length)
		return;
	for (int head = of * group; head < (of + 1) * group; head++)
		for (int tile = a.causal ? p.first : 0; tile < p.length; tile += SIDE) {
			Pairs pairs;

			pair_up<true, CAPPED, T, Q>(pairs, shared, a, p, head, tile, p.first, dout, true);
#pragma unroll
			for (int j = 0; j < EACH; j++) {
				const int query = tile + m.across + j;
				const float delta = query < p.length ? a.delta[(p.from + query) * a.heads + head] : 0.f;

#pragma unroll
				for (int i = 0; i < EACH; i++)
					pairs.along[i][j] = (pairs.along[i][j] - pairs.p[i][j] * delta) * scale;
			}
			gather(acc_v, shared, tokens_of<T>(dout, a, p, a.heads, head, tile), column);
			__syncthreads(); // all have read the weights
			share(shared, pairs.along);
			gather(acc_k, shared, tokens_of<Q>(a.q, a, p, a.heads, head, tile), column);
		}
	if (dk)
		put(dk, add_k, acc_k, a, p, a.kv, of, p.first + m.down, column + m.across);
	if (dv)
		put(dv, add_v, acc_v, a, p, a.kv, of, p.first + m.down, column + m.across);
}

// The same as sl_rope_frequency.
__device__ double frequency_of(const cu_rope &r, int c, int d)
{
	const double f = pow((double)r.theta, -2. * (double)c / d), turns = r.old * f / (2. * M_PI);
	const double share = (turns - (double)r.low) / ((double)r.high - (double)r.low);

	if (r.factor == 0.f || (r.high > 0.f && turns > (double)r.high))
		return f;
	if (r.high == 0.f || turns < (double)r.low)
		return f / (double)r.factor;
	return f * ((1. - share) / (double)r.factor + share);
}

// One thread per pair of features, of which those behind the rotated ones are copied. The angle is large in long rows,
// so it is computed in double.
template <class TO, class FROM>
__global__ void turn_kernel(TO *__restrict__ out, bool add, const FROM *__restrict__ x, cu_rows r, int heads, int d,
			    cu_rope rope, bool back)
{
	const int half = d / 2, turned = rope.part / 2;
	const int64_t n = r.tokens * heads * half;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
		const int c = (int)(i % half);
		const bool turns = c < turned;
		const int64_t token = i / half / heads, first = i / half * d + (turns ? c : turned + c);
		const int64_t second = first + (turns ? turned : half - turned);
		const double angle =
			turns ? (double)(token - first_of(r, row_of(r, token))) * frequency_of(rope, c, rope.part) : 0.;
		const double gain = turns ? (double)rope.gain : 1., sign = back ? -gain : gain;
		const float cosine = (float)(gain * cos(angle)), sine = (float)(sign * sin(angle));
		const float u = value(x[first]), v = value(x[second]);
		const float a = u * cosine - v * sine, b = u * sine + v * cosine;

		out[first] = rounded<TO>(add ? value(out[first]) + a : a);
		out[second] = rounded<TO>(add ? value(out[second]) + b : b);
	}
}

} // namespace

// Chooses T, Q and CAPPED.
#define SWITCH_TYPES(a, CALL)                   \
	do {                                    \
		if ((a)->cap > 0.f)             \
			SWITCH(a, CALL, true);  \
		else                            \
			SWITCH(a, CALL, false); \
	} while (0)
#define SWITCH(a, CALL, CAPPED)                                         \
	do {                                                            \
		if ((a)->type == CU_F32)                                \
			CALL(float, float, CAPPED);                     \
		else if ((a)->type == CU_BF16 && (a)->turned == CU_F32) \
			CALL(bf16, float, CAPPED);                      \
		else if ((a)->type == CU_BF16)                          \
			CALL(bf16, bf16, CAPPED);                       \
		else if ((a)->turned == CU_F32)                         \
			CALL(f16, float, CAPPED);                       \
		else                                                    \
			CALL(f16, f16, CAPPED);                         \
	} while (0)

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

cudaError_t cu_attention_forward(cudaStream_t s, void *out, const struct cu_attention *a)
{
#define CALL(T, Q, CAPPED) \
	CU_RUN((forward_kernel<T, Q, CAPPED>), grid_of(a, a->heads), THREADS, s, (T *)out, *a, (int)columns_of(a))
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_attention_dq(cudaStream_t s, void *dq, bool add, const void *dout, const struct cu_attention *a)
{
#define CALL(T, Q, CAPPED)                                                                                     \
	CU_RUN((dq_kernel<T, Q, CAPPED>), grid_of(a, a->heads), THREADS, s, (Q *)dq, add, (const T *)dout, *a, \
	       (int)columns_of(a))
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_attention_dkv(cudaStream_t s, void *dk, bool add_k, void *dv, bool add_v, const void *dout,
			     const struct cu_attention *a)
{
#define CALL(T, Q, CAPPED)                                                                                \
	CU_RUN((dkv_kernel<T, Q, CAPPED>), grid_of(a, a->kv), THREADS, s, (Q *)dk, add_k, (T *)dv, add_v, \
	       (const T *)dout, *a, (int)columns_of(a))
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_turn(cudaStream_t s, void *out, enum cu_type to, bool add, const void *x, enum cu_type from,
		    const struct cu_rows *r, int heads, int d, struct cu_rope rope, bool back)
{
	const int64_t all = ceil_div(r->tokens * heads * (d / 2), turn_threads);
	const unsigned blocks = (unsigned)(all < 65535 ? all : 65535);

	if (to != CU_F32 && from != CU_F32)
		return cudaErrorInvalidValue;
#define TO(T)                                                                                                         \
	CU_RUN((turn_kernel<T, float>), blocks, turn_threads, s, (T *)out, add, (const float *)x, *r, heads, d, rope, \
	       back)
#define FROM(T)                                                                                                       \
	CU_RUN((turn_kernel<float, T>), blocks, turn_threads, s, (float *)out, add, (const T *)x, *r, heads, d, rope, \
	       back)
	if (from == CU_F32)
		CU_SWITCH_TYPE(to, TO);
	else
		CU_SWITCH_TYPE(from, FROM);
#undef TO
#undef FROM
	return cudaGetLastError();
}
