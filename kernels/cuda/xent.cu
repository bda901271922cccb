// Softmax cross-entropy: a block per row, then one block that adds the rows in a fixed order.
#include "kernels/cuda/device.cuh"

namespace
{

constexpr int threads_per_block = 128;

struct Labels {
	int32_t v[CU_LABELS_PER_LAUNCH];
};

__global__ void labels_kernel(int32_t *labels, Labels host, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		labels[i] = host.v[i];
}

__device__ bool is_ignored(const cu_xent_rule &rule, int32_t label)
{
	return rule.ignores && label == rule.ignored;
}

__global__ void __launch_bounds__(threads_per_block)
	rows_kernel(float *__restrict__ probability, double *row_loss, int32_t *row_correct,
		    const float *__restrict__ logits, const int32_t *labels, cu_xent_rule rule, int64_t k)
{
	__shared__ float best[threads_per_block];
	__shared__ int64_t where[threads_per_block];
	__shared__ double part[threads_per_block];
	const int t = threadIdx.x;
	const int64_t row = blockIdx.x;
	const float *x = logits + row * k;
	float top = -INFINITY;
	int64_t top_at = k;
	double sum = 0, all = 0;

	for (int64_t i = t; i < k; i += threads_per_block)
		if (x[i] > top || top_at == k) {
			top = x[i];
			top_at = i;
		}
	best[t] = top;
	where[t] = top_at;
	for (int half = threads_per_block / 2; half > 0; half /= 2) {
		__syncthreads();
		// of equal logits the first one wins, as in row-major order
		if (t < half &&
		    (best[t + half] > best[t] || (best[t + half] == best[t] && where[t + half] < where[t]))) {
			best[t] = best[t + half];
			where[t] = where[t + half];
		}
	}
	__syncthreads();
	top = best[0];
	top_at = where[0];
	for (int64_t i = t; i < k; i += threads_per_block)
		sum += exp((double)x[i] - top);
	part[t] = sum;
	for (int half = threads_per_block / 2; half > 0; half /= 2) {
		__syncthreads();
		if (t < half)
			part[t] += part[t + half];
	}
	__syncthreads();
	sum = part[0];
	for (int64_t i = t; i < k; i += threads_per_block)
		probability[row * k + i] = (float)(exp((double)x[i] - top) / sum);
	if (rule.smoothing > 0) {
		__syncthreads(); // all threads have read part[0]
		for (int64_t i = t; i < k; i += threads_per_block)
			all += (double)x[i] - top;
		part[t] = all;
		for (int half = threads_per_block / 2; half > 0; half /= 2) {
			__syncthreads();
			if (t < half)
				part[t] += part[t + half];
		}
	}
	if (t == 0 && is_ignored(rule, labels[row])) {
		row_loss[row] = 0;
		row_correct[row] = 0;
	} else if (t == 0) {
		const double share = rule.other ? rule.share[row] : 1;
		double at_target = share * ((double)x[labels[row]] - top);

		if (rule.other)
			at_target += (1 - share) * ((double)x[rule.other[row]] - top);
		row_loss[row] = log(sum) - at_target;
		if (rule.smoothing > 0)
			row_loss[row] += rule.smoothing * (at_target - part[0] / k);
		row_correct[row] = top_at == labels[row];
	}
}

__global__ void __launch_bounds__(threads_per_block)
	total_kernel(cu_xent_result *result, const double *row_loss, const int32_t *row_correct, int64_t n)
{
	__shared__ double loss[threads_per_block];
	__shared__ int64_t correct[threads_per_block];
	const int t = threadIdx.x;

	loss[t] = 0;
	correct[t] = 0;
	for (int64_t i = t; i < n; i += threads_per_block) {
		loss[t] += row_loss[i];
		correct[t] += row_correct[i];
	}
	for (int half = threads_per_block / 2; half > 0; half /= 2) {
		__syncthreads();
		if (t < half) {
			loss[t] += loss[t + half];
			correct[t] += correct[t + half];
		}
	}
	if (t == 0) {
		result->loss_sum = loss[0];
		result->correct = correct[0];
	}
}

__global__ void backward_kernel(float *__restrict__ dlogits, bool add, const float *__restrict__ probability,
				const int32_t *labels, cu_xent_rule rule, float scale, int64_t count, int64_t k)
{
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	const int32_t label = labels[i / k];
	const float rest = 1.f - rule.smoothing, share = rule.other ? rule.share[i / k] : 1.f;
	float target = (i % k == label ? rest * share : 0.f) + rule.smoothing / k;

	if (rule.other && i % k == rule.other[i / k])
		target += rest * (1.f - share);
	const float d = is_ignored(rule, label) ? 0.f : scale * (probability[i] - target);
	dlogits[i] = add ? dlogits[i] + d : d;
}

} // namespace

cudaError_t cu_labels_store(cudaStream_t s, int32_t *labels, const int32_t *host, int64_t n)
{
	for (int64_t first = 0; first < n; first += CU_LABELS_PER_LAUNCH) {
		const int64_t most = CU_LABELS_PER_LAUNCH;
		const int count = (int)(n - first < most ? n - first : most);
		Labels args = {};

		for (int i = 0; i < count; i++)
			args.v[i] = host[first + i];
		CU_RUN(labels_kernel, CU_LABELS_PER_LAUNCH / 128, 128, s, labels + first, args, count);
	}
	return cudaGetLastError();
}

cudaError_t cu_xent_forward(cudaStream_t s, struct cu_xent_result *result, float *probability, double *row_loss,
			    int32_t *row_correct, const float *logits, const int32_t *labels, struct cu_xent_rule rule,
			    int64_t n, int64_t k)
{
	CU_RUN(rows_kernel, (unsigned)n, threads_per_block, s, probability, row_loss, row_correct, logits, labels, rule,
	       k);
	return cu_loss_total(s, result, row_loss, row_correct, n);
}

cudaError_t cu_loss_total(cudaStream_t s, struct cu_xent_result *result, const double *row_loss,
			  const int32_t *row_correct, int64_t n)
{
	CU_RUN(total_kernel, 1, threads_per_block, s, result, row_loss, row_correct, n);
	return cudaGetLastError();
}

cudaError_t cu_xent_backward(cudaStream_t s, float *dlogits, bool add, const float *probability, const int32_t *labels,
			     struct cu_xent_rule rule, float scale, int64_t n, int64_t k)
{
	CU_RUN(backward_kernel, (unsigned)ceil_div(n * k, 256), 256, s, dlogits, add, probability, labels, rule, scale,
	       n * k, k);
	return cudaGetLastError();
}
