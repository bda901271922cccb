// Rows of a table for ids that are numbers.
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/lookup.h"

namespace
{

template <class T> __device__ int64_t row_at(const cu_ids &ids, int64_t i)
{
	const float x = value(((const T *)ids.id)[i]);

	return x >= 0 && x < (float)ids.rows ? (int64_t)x : -1;
}

// V = 4 requires features in multiples of 4.
template <class T> struct Lookup {
	T *out;
	const float *weight;
	cu_ids ids;

	template <int V> __device__ void run(int64_t e) const
	{
		const int64_t row = row_at<T>(ids, e / ids.f);
		Vec<V> x;

		if (row >= 0)
			x = load<V>(weight + row * ids.f + e % ids.f);
		else
#pragma unroll
			for (int k = 0; k < V; k++)
				x.v[k] = NAN;
		store<V>(out + e, x);
	}
};

// The first of the ids of a row adds for all of them.
template <class T> struct LookupBack {
	float *grad;
	const T *dout;
	cu_ids ids;

	template <int V> __device__ void run(int64_t e) const
	{
		const int64_t at = e / ids.f, k = e % ids.f, row = row_at<T>(ids, at);
		bool first = row >= 0;

		for (int64_t t = 0; t < at && first; t++)
			first = row_at<T>(ids, t) != row;
		if (!first)
			return;
		Vec<V> sum = load<V>(grad + row * ids.f + k);
		for (int64_t t = at; t < ids.n; t++) {
			if (row_at<T>(ids, t) != row)
				continue;
			const Vec<V> x = load<V>(dout + t * ids.f + k);
#pragma unroll
			for (int i = 0; i < V; i++)
				sum.v[i] += x.v[i];
		}
		store<V>(grad + row * ids.f + k, sum);
	}
};

} // namespace

cudaError_t cu_lookup_forward(cudaStream_t s, enum cu_type type, void *out, const float *weight,
			      const struct cu_ids *ids)
{
	const bool vectors = ids->f % 4 == 0 && aligned16(out) && aligned16(weight);

#define CALL(T) return each(s, Lookup<T>{(T *)out, weight, *ids}, ids->n * ids->f, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}

cudaError_t cu_lookup_backward(cudaStream_t s, enum cu_type type, float *grad, const void *dout,
			       const struct cu_ids *ids)
{
	const bool vectors = ids->f % 4 == 0 && aligned16(grad) && aligned16(dout);

#define CALL(T) return each(s, LookupBack<T>{grad, (const T *)dout, *ids}, ids->n * ids->f, vectors)
	CU_SWITCH_TYPE(type, CALL);
#undef CALL
}
