// Multi-head attention of packed rows. A block computes one token of one head. Its threads first share the
// keys (or queries) of a tile, and then the features. Scores are recomputed whenever they are needed, so no S
// × S matrix is in memory. No atomics: every sum is computed by one thread, in a fixed order.
#include "kernels/cuda/rows.cuh"

namespace
{

constexpr int threads_per_block = 128; // also keys of a tile

// The token that a block works on.
struct Place {
	int64_t token, row, from, to; // its row has tokens [from, to)
};

__device__ Place place_of(const cu_attention &a, int64_t token)
{
	Place p;

	p.token = token;
	p.row = a.each ? token / a.each : row_of(a.rows, token);
	p.from = a.each ? p.row * a.each : first_of(a.rows, p.row);
	p.to = a.each ? p.from + a.each : a.rows.begin ? (int64_t)a.rows.begin[p.row + 1] : p.from + 1;
	return p;
}

// Combines the values of all threads of the block in a fixed order (MOST: their maximum; otherwise their
// sum). All threads get the result.
template <bool MOST> __device__ float combine(float v, float *part)
{
	const int t = threadIdx.x;
	float all;

	part[t] = v;
	for (int half = threads_per_block / 2; half > 0; half /= 2) {
		__syncthreads();
		if (t < half) {
			const float other = part[t + half];

			part[t] = !MOST ? part[t] + other : other > part[t] ? other : part[t];
		}
	}
	__syncthreads();
	all = part[0];
	__syncthreads(); // `part` is used again
	return all;
}

template <class A, class B> __device__ float dot(const A *a, const B *b, int d)
{
	float sum = 0.f;

	for (int c = 0; c < d; c++)
		sum += value(a[c]) * value(b[c]);
	return sum;
}

// Dropout's factor of a probability: 0, or 1/(1 - p).
__device__ float kept(const cu_attention &a, const Place &at, int head, int64_t query, int64_t key)
{
	const int64_t most = (a.most + 3) / 4 * 4;
	const int64_t i = ((at.row * a.heads + head) * most + (query - at.from)) * most + (key - at.from);
	cu_philox now = a.key;
	uint32_t word[4];

	if (a.p == 0.f)
		return 1.f;
	if (a.step)
		now.step = *a.step;
	philox_quad(&now, (uint32_t)(i >> 2), word);
	return (float)(word[i & 3] >> 8) * 0x1p-24f >= a.p ? 1.f / (1.f - a.p) : 0.f;
}

// The features of token `token`, head `head`, in a tensor of `heads` heads.
template <class T> __device__ const T *at(const void *x, const cu_attention &a, int heads, int64_t token, int head)
{
	return (const T *)x + (token * heads + head) * a.d;
}

// T: type of the op's inputs and output; Q: type of q and k.
template <class T, class Q>
__global__ void __launch_bounds__(threads_per_block) forward_kernel(T *__restrict__ out, cu_attention a)
{
	__shared__ float part[threads_per_block];
	const Place p = place_of(a, blockIdx.x);
	const int head = blockIdx.y, shared = head / (a.heads / a.kv), t = threadIdx.x;
	const int64_t stop = a.causal ? p.token + 1 : p.to;
	const float scale = 1.f / sqrtf((float)a.d);
	const Q *q = at<Q>(a.q, a, a.heads, p.token, head);
	float top = -INFINITY, sum = 0.f;

	for (int64_t j = p.from + t; j < stop; j += threads_per_block) {
		const float s = dot(q, at<Q>(a.k, a, a.kv, j, shared), a.d);

		top = s > top ? s : top;
	}
	top = combine<true>(top, part);
	for (int64_t j = p.from + t; j < stop; j += threads_per_block)
		sum += expf((dot(q, at<Q>(a.k, a, a.kv, j, shared), a.d) - top) * scale);
	const float inv = 1.f / combine<false>(sum, part);

	if (t == 0) {
		a.stat[2 * (p.token * a.heads + head)] = top;
		a.stat[2 * (p.token * a.heads + head) + 1] = inv;
	}
	for (int first = 0; first < a.d; first += threads_per_block) { // a single iteration, except for heads wider
								       // than a block
		const int c = first + t;
		float total = 0.f;

		for (int64_t tile = p.from; tile < stop; tile += threads_per_block) {
			const int64_t j = tile + t;
			const int64_t count = stop - tile < threads_per_block ? stop - tile : threads_per_block;

			if (j < stop)
				part[t] = expf((dot(q, at<Q>(a.k, a, a.kv, j, shared), a.d) - top) * scale) * inv *
					  kept(a, p, head, p.token, j);
			__syncthreads();
			for (int64_t k = 0; k < count && c < a.d; k++)
				total += part[k] * value(at<T>(a.v, a, a.kv, tile + k, shared)[c]);
			__syncthreads();
		}
		if (c < a.d)
			out[(p.token * a.heads + head) * a.d + c] = rounded<T>(total);
	}
}

// For a query and a key: the probability, its value after dropout, and the product of that with dout·v.
struct Pair {
	float p, kept, along;
};

template <class T, class Q>
__device__ Pair pair_of(const cu_attention &a, const Place &p, int head, int64_t query, int64_t key, const T *dout)
{
	const int shared = head / (a.heads / a.kv);
	const float *stat = a.stat + 2 * (query * a.heads + head);
	const float s = dot(at<Q>(a.q, a, a.heads, query, head), at<Q>(a.k, a, a.kv, key, shared), a.d);
	Pair pair;

	pair.p = expf((s - stat[0]) * (1.f / sqrtf((float)a.d))) * stat[1];
	pair.kept = pair.p * kept(a, p, head, query, key);
	pair.along = pair.kept * dot(at<T>(dout, a, a.heads, query, head), at<T>(a.v, a, a.kv, key, shared), a.d);
	return pair;
}

template <class T, class Q>
__global__ void __launch_bounds__(threads_per_block)
	dq_kernel(Q *__restrict__ dq, bool add, const T *__restrict__ dout, cu_attention a)
{
	__shared__ float part[threads_per_block];
	const Place p = place_of(a, blockIdx.x);
	const int head = blockIdx.y, shared = head / (a.heads / a.kv), t = threadIdx.x;
	const int64_t stop = a.causal ? p.token + 1 : p.to;
	const float scale = 1.f / sqrtf((float)a.d);
	float delta = 0.f;

	for (int64_t j = p.from + t; j < stop; j += threads_per_block)
		delta += pair_of<T, Q>(a, p, head, p.token, j, dout).along;
	delta = combine<false>(delta, part);
	if (t == 0)
		a.delta[p.token * a.heads + head] = delta;
	for (int first = 0; dq && first < a.d; first += threads_per_block) {
		const int c = first + t;
		float total = 0.f;

		for (int64_t tile = p.from; tile < stop; tile += threads_per_block) {
			const int64_t count = stop - tile < threads_per_block ? stop - tile : threads_per_block;

			if (tile + t < stop) {
				const Pair pair = pair_of<T, Q>(a, p, head, p.token, tile + t, dout);

				part[t] = (pair.along - pair.p * delta) * scale;
			}
			__syncthreads();
			for (int64_t k = 0; k < count && c < a.d; k++)
				total += part[k] * value(at<Q>(a.k, a, a.kv, tile + k, shared)[c]);
			__syncthreads();
		}
		if (c < a.d) {
			Q *to = dq + (p.token * a.heads + head) * a.d + c;

			*to = rounded<Q>(add ? value(*to) + total : total);
		}
	}
}

template <class T, class Q>
__global__ void __launch_bounds__(threads_per_block) dkv_kernel(Q *__restrict__ dk, bool add_k, T *__restrict__ dv,
								bool add_v, const T *__restrict__ dout, cu_attention a)
{
	__shared__ float score[threads_per_block], weight[threads_per_block];
	const Place p = place_of(a, blockIdx.x);
	const int shared = blockIdx.y, group = a.heads / a.kv, t = threadIdx.x;
	const int64_t start = a.causal ? p.token : p.from;
	const float scale = 1.f / sqrtf((float)a.d);

	for (int first = 0; first < a.d; first += threads_per_block) {
		const int c = first + t;
		float total_k = 0.f, total_v = 0.f;

		for (int head = shared * group; head < (shared + 1) * group; head++)
			for (int64_t tile = start; tile < p.to; tile += threads_per_block) {
				const int64_t i = tile + t;
				const int64_t count = p.to - tile < threads_per_block ? p.to - tile : threads_per_block;

				if (i < p.to) {
					const Pair pair = pair_of<T, Q>(a, p, head, i, p.token, dout);

					score[t] = (pair.along - pair.p * a.delta[i * a.heads + head]) * scale;
					weight[t] = pair.kept;
				}
				__syncthreads();
				for (int64_t k = 0; k < count && c < a.d; k++) {
					total_k += score[k] * value(at<Q>(a.q, a, a.heads, tile + k, head)[c]);
					total_v += weight[k] * value(at<T>(dout, a, a.heads, tile + k, head)[c]);
				}
				__syncthreads();
			}
		if (c < a.d && dk) {
			Q *to = dk + (p.token * a.kv + shared) * a.d + c;

			*to = rounded<Q>(add_k ? value(*to) + total_k : total_k);
		}
		if (c < a.d && dv) {
			T *to = dv + (p.token * a.kv + shared) * a.d + c;

			*to = rounded<T>(add_v ? value(*to) + total_v : total_v);
		}
	}
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

// One thread per pair of features. The angle is large in long rows, so it is computed in double.
template <class TO, class FROM>
__global__ void turn_kernel(TO *__restrict__ out, bool add, const FROM *__restrict__ x, cu_rows r, int heads, int d,
			    cu_rope rope, bool back)
{
	const int half = d / 2;
	const int64_t n = r.tokens * heads * half;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
		const int64_t token = i / half / heads, first = i / half * d + i % half;
		const double angle =
			(double)(token - first_of(r, row_of(r, token))) * frequency_of(rope, (int)(i % half), d);
		const float cosine = (float)cos(angle), sine = (float)(back ? -sin(angle) : sin(angle));
		const float u = value(x[first]), v = value(x[first + half]);
		const float a = u * cosine - v * sine, b = u * sine + v * cosine;

		out[first] = rounded<TO>(add ? value(out[first]) + a : a);
		out[first + half] = rounded<TO>(add ? value(out[first + half]) + b : b);
	}
}

} // namespace

// Chooses T and Q.
#define SWITCH_TYPES(a, CALL)                                           \
	do {                                                            \
		if ((a)->type == CU_F32)                                \
			CALL(float, float);                             \
		else if ((a)->type == CU_BF16 && (a)->turned == CU_F32) \
			CALL(bf16, float);                              \
		else if ((a)->type == CU_BF16)                          \
			CALL(bf16, bf16);                               \
		else if ((a)->turned == CU_F32)                         \
			CALL(f16, float);                               \
		else                                                    \
			CALL(f16, f16);                                 \
	} while (0)

cudaError_t cu_attention_forward(cudaStream_t s, void *out, const struct cu_attention *a)
{
	const dim3 grid((unsigned)a->rows.tokens, (unsigned)a->heads);

#define CALL(T, Q) CU_RUN((forward_kernel<T, Q>), grid, threads_per_block, s, (T *)out, *a)
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_attention_dq(cudaStream_t s, void *dq, bool add, const void *dout, const struct cu_attention *a)
{
	const dim3 grid((unsigned)a->rows.tokens, (unsigned)a->heads);

#define CALL(T, Q) CU_RUN((dq_kernel<T, Q>), grid, threads_per_block, s, (Q *)dq, add, (const T *)dout, *a)
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_attention_dkv(cudaStream_t s, void *dk, bool add_k, void *dv, bool add_v, const void *dout,
			     const struct cu_attention *a)
{
	const dim3 grid((unsigned)a->rows.tokens, (unsigned)a->kv);

#define CALL(T, Q) \
	CU_RUN((dkv_kernel<T, Q>), grid, threads_per_block, s, (Q *)dk, add_k, (T *)dv, add_v, (const T *)dout, *a)
	SWITCH_TYPES(a, CALL);
#undef CALL
	return cudaGetLastError();
}

cudaError_t cu_turn(cudaStream_t s, void *out, enum cu_type to, bool add, const void *x, enum cu_type from,
		    const struct cu_rows *r, int heads, int d, struct cu_rope rope, bool back)
{
	const int64_t all = ceil_div(r->tokens * heads * (d / 2), threads_per_block);
	const unsigned blocks = (unsigned)(all < 65535 ? all : 65535);

	if (to != CU_F32 && from != CU_F32)
		return cudaErrorInvalidValue;
#define TO(T)                                                                                                        \
	CU_RUN((turn_kernel<T, float>), blocks, threads_per_block, s, (T *)out, add, (const float *)x, *r, heads, d, \
	       rope, back)
#define FROM(T)                                                                                                      \
	CU_RUN((turn_kernel<float, T>), blocks, threads_per_block, s, (float *)out, add, (const T *)x, *r, heads, d, \
	       rope, back)
	if (from == CU_F32)
		CU_SWITCH_TYPE(to, TO);
	else
		CU_SWITCH_TYPE(from, FROM);
#undef TO
#undef FROM
	return cudaGetLastError();
}
