// Rotary positions: turns pairs of features of queries and keys by their token's place.
#include "kernels/cuda/rows.cuh"

namespace
{

constexpr int turn_threads = 128;

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
