/* Memory, transfers, fences, and the backend's table. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "kernels/cuda/codec_stage.h"
#include "kernels/cuda/cuda.h"

static enum sl_err cu_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	void *ptr = NULL;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	err = cu_check(cu, cudaMalloc(&ptr, bytes ? bytes : 1), "allocating");
	if (err)
		return sl_fail_set(fail, err, "%zu bytes of memory refused by device %d", bytes, cu->options.device);
	err = cu_check(cu, cudaMemsetAsync(ptr, 0, bytes, cu->stream), "clearing memory");
	if (err) {
		cudaFree(ptr);
		return sl_fail_set(fail, err, "device %d failed to clear memory", cu->options.device);
	}
	*out = ptr;
	return SL_OK;
}

static void cu_free(struct sl_backend *be, void *ptr)
{
	struct cuda *cu;

	if (ptr && !cu_enter(be, &cu))
		cudaFree(ptr); /* cudaFree waits for the work that uses it */
}

/* *all: without the backend's own workspace. The driver does not report how much it reserves for this
 * process. */
static enum sl_err cu_free_bytes(struct sl_backend *be, uint64_t *left, uint64_t *all)
{
	size_t now = 0, most = 0;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (!err)
		err = cu_check(cu, cudaMemGetInfo(&now, &most), "looking for free memory");
	if (err)
		return err;
	*left = now;
	*all = most > CU_BLAS_WORKSPACE ? most - CU_BLAS_WORKSPACE : 0;
	return SL_OK;
}

static enum sl_err cu_host_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	void *ptr = NULL;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	err = cu_check(cu, cudaHostAlloc(&ptr, bytes ? bytes : 1, cudaHostAllocDefault), "locking host memory");
	if (err)
		return sl_fail_set(fail, err, "%zu bytes of host memory cannot be locked for device %d", bytes,
				   cu->options.device);
	memset(ptr, 0, bytes);
	*out = ptr;
	return SL_OK;
}

static void cu_host_free(struct sl_backend *be, void *ptr)
{
	struct cuda *cu;

	if (ptr && !cu_enter(be, &cu))
		cudaFreeHost(ptr);
}

static enum sl_err copy(struct sl_backend *be, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (!err)
		err = cu_check(cu, cudaMemcpyAsync(dst, src, bytes, kind, cu->stream), "copying");
	if (!err)
		err = cu_check(cu, cudaStreamSynchronize(cu->stream), "copying");
	return err;
}

static enum sl_err cu_upload(struct sl_backend *be, void *dst, const void *host_src, size_t bytes)
{
	return copy(be, dst, host_src, bytes, cudaMemcpyHostToDevice);
}

static enum sl_err cu_download(struct sl_backend *be, void *host_dst, const void *src, size_t bytes)
{
	return copy(be, host_dst, src, bytes, cudaMemcpyDeviceToHost);
}

static enum sl_err cu_zero(struct sl_backend *be, void *dst, size_t bytes)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	return err ? err : cu_check(cu, cudaMemsetAsync(dst, 0, bytes, cu->stream), "clearing memory");
}

static enum sl_err cu_finite(struct sl_backend *be, const float *x, int64_t count, bool *finite)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);
	cudaError_t status;

	*finite = true;
	if (err || count == 0)
		return err;
	status = cudaMemsetAsync(cu->finite, 0, sizeof(*cu->finite), cu->stream);
	if (!status)
		status = cu_check_finite(cu->stream, cu->finite, x, count);
	if (!status)
		status = cudaMemcpyAsync(cu->finite_seen, cu->finite, sizeof(*cu->finite), cudaMemcpyDeviceToHost,
					 cu->stream);
	if (!status)
		status = cudaStreamSynchronize(cu->stream);
	err = cu_check(cu, status, "looking for NaN and Inf");
	*finite = err || *cu->finite_seen < CU_F32_INF_BITS;
	return err;
}

static enum sl_err combine(struct sl_backend *be, float *out, const float *a, const float *b, float sign, int64_t count)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	return err || count == 0 ? err : cu_check(cu, cu_combine(cu->stream, out, a, b, sign, count), "adding up");
}

static enum sl_err add(struct sl_backend *be, float *sum, const float *x, int64_t count)
{
	return combine(be, sum, sum, x, 1, count);
}

/* Runs on the waiter's thread. After the device has failed, a host function on the stream would not be
 * called; waiting for an event returns even then, so that no caller waits for ever. */
static void fence_wait(struct sl_job *job)
{
	struct cu_fence *fence = (struct cu_fence *)job;
	struct cuda *cu = fence->cu;
	enum sl_err err = cu_bind(cu);
	unsigned at = atomic_load_explicit(&cu->results_delivered, memory_order_relaxed);

	if (!err)
		err = cu_check(cu, cudaEventSynchronize(fence->event), "waiting");
	if (err) /* results are lost, and no one else reports it */
		atomic_store(&cu->failed, 1);
	for (; at != fence->results; at++) {
		const struct cu_result *to = &cu->result_to[at % CU_RESULTS];

		if (err)
			continue;
		*to->loss_sum = cu->result[at % CU_RESULTS].loss_sum;
		*to->correct = cu->result[at % CU_RESULTS].correct;
	}
	atomic_store_explicit(&cu->results_delivered, at, memory_order_release);
	fence->done(fence->arg);
}

static void fence_recycle(struct sl_job *job)
{
	((struct cu_fence *)job)->pending = false;
}

/* Records `event` behind all queued work. Uploads of payloads need nothing here: `stream` waits for them
 * already. */
static cudaError_t record_all(struct cuda *cu, cudaEvent_t event)
{
	cudaError_t status = cudaSuccess;

	if (cu->out) {
		status = cudaEventRecord(cu->tail, cu->stream);
		if (!status)
			status = cudaStreamWaitEvent(cu->out, cu->tail, 0);
	}
	return status ? status : cudaEventRecord(event, cu->out ? cu->out : cu->stream);
}

static enum sl_err cu_fence_queue(struct sl_backend *be, void (*done)(void *arg), void *arg)
{
	struct cu_fence *fence = NULL;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (err)
		return err;
	sl_worker_drain(cu->waiter);
	for (int i = 0; i < CU_FENCES && !fence; i++)
		if (!cu->fence[i].pending)
			fence = &cu->fence[i];
	if (!fence)
		return SL_ERR_LIMIT;
	err = cu_check(cu, record_all(cu, fence->event), "recording an event");
	if (err)
		return err;
	fence->pending = true;
	fence->results = cu->results;
	fence->done = done;
	fence->arg = arg;
	sl_worker_post(cu->waiter, &fence->job);
	return SL_OK;
}

static enum sl_err mark_open(struct sl_backend *be, void **mark)
{
	cudaEvent_t event = NULL;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (!err)
		err = cu_check(cu, cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "creating an event");
	*mark = event;
	return err;
}

static enum sl_err mark_now(struct sl_backend *be, void *mark)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	return err ? err : cu_check(cu, cudaEventRecord(mark, cu->stream), "recording an event");
}

static enum sl_err between(struct sl_backend *be, const void *from, const void *to, double *seconds)
{
	cudaEvent_t first = (void *)(uintptr_t)from, last = (void *)(uintptr_t)to;
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);
	float ms = 0;

	if (!err)
		err = cu_check(cu, cudaEventSynchronize(last), "waiting");
	if (!err)
		err = cu_check(cu, cudaEventElapsedTime(&ms, first, last), "measuring");
	*seconds = (double)ms / 1000;
	return err;
}

static void mark_close(struct sl_backend *be, void *mark)
{
	struct cuda *cu;

	if (mark && !cu_enter(be, &cu))
		cudaEventDestroy(mark);
}

static bool cu_failed(const struct sl_backend *be)
{
	const struct cuda *cu = be->impl;

	return atomic_load_explicit(&cu->failed, memory_order_relaxed);
}

static void close_streams(struct cuda *cu)
{
	if (cu->tail)
		cudaEventDestroy(cu->tail);
	if (cu->in)
		cudaStreamDestroy(cu->in);
	if (cu->out)
		cudaStreamDestroy(cu->out);
	if (cu->stream)
		cudaStreamDestroy(cu->stream);
}

static void cu_close(struct sl_backend *be)
{
	struct cuda *cu = be->impl;

	if (!cu)
		return;
	if (!cu_bind(cu) && cu->stream)
		cudaDeviceSynchronize();
	sl_worker_close(cu->waiter);
	cu_graphs_close(&cu->graphs);
	dnn_close(cu->dnn);
	cu_gemm_close(cu);
	if (cu->blas)
		cublasLtDestroy(cu->blas);
	cudaFree(cu->blas_workspace);
	cudaFree(cu->counters);
	cudaFree(cu->step);
	cudaFree(cu->finite);
	cudaFreeHost(cu->finite_seen);
	cudaFreeHost(cu->result);
	for (int i = 0; i < CU_FENCES; i++)
		if (cu->fence[i].event)
			cudaEventDestroy(cu->fence[i].event);
	close_streams(cu);
	free(cu);
	*be = (struct sl_backend){0};
}

static cudaError_t open_streams(struct cuda *cu)
{
	cudaError_t status = cudaStreamCreateWithFlags(&cu->stream, cudaStreamNonBlocking);

	if (!cu->options.overlap || status)
		return status;
	status = cudaStreamCreateWithFlags(&cu->in, cudaStreamNonBlocking);
	if (!status)
		status = cudaStreamCreateWithFlags(&cu->out, cudaStreamNonBlocking);
	if (!status)
		status = cudaEventCreateWithFlags(&cu->tail, cudaEventDisableTiming);
	return status;
}

static enum sl_err open_parts(struct cuda *cu, struct sl_fail *fail)
{
	const int device = cu->options.device;
	cudaError_t status = open_streams(cu);

	for (int i = 0; i < CU_FENCES && !status; i++) {
		cu->fence[i].cu = cu;
		cu->fence[i].job = (struct sl_job){.run = fence_wait, .done = fence_recycle};
		status = cudaEventCreateWithFlags(&cu->fence[i].event, cudaEventDisableTiming | cudaEventBlockingSync);
	}
	if (!status)
		status = cudaMalloc(&cu->blas_workspace, CU_BLAS_WORKSPACE);
	if (!status)
		status = cudaMalloc((void **)&cu->counters, CU_COUNTERS * sizeof(*cu->counters));
	if (!status)
		status = cudaMemsetAsync(cu->counters, 0, CU_COUNTERS * sizeof(*cu->counters), cu->stream);
	if (!status)
		status = cudaMalloc((void **)&cu->step, sizeof(*cu->step));
	if (!status)
		status = cudaMalloc((void **)&cu->finite, sizeof(*cu->finite));
	if (!status)
		status = cudaHostAlloc((void **)&cu->finite_seen, sizeof(*cu->finite_seen), cudaHostAllocDefault);
	if (!status)
		status = cudaHostAlloc((void **)&cu->result, CU_RESULTS * sizeof(*cu->result), cudaHostAllocDefault);
	if (status)
		return sl_fail_set(fail, SL_ERR_DEVICE, "device %d: %s", device, cudaGetErrorString(status));
	if (cublasLtCreate(&cu->blas) != CUBLAS_STATUS_SUCCESS)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "device %d: cuBLAS does not start", device);
	return sl_worker_open(&cu->waiter, "cuda-fence", NULL, NULL, fail);
}

/* FP16 on all devices; TF32 and bfloat16 from Ampere on. */
static unsigned precisions_of(int device)
{
	const unsigned ampere = 1u << SL_PRECISION_TF32 | 1u << SL_PRECISION_BF16;
	int major = 0;

	if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess)
		return 0;
	return 1u << SL_PRECISION_FP16 | (major >= 8 ? ampere : 0);
}

enum sl_err cu_backend_open(struct sl_backend *be, const struct sl_module_options *options, struct sl_fail *fail)
{
	struct sl_backend opened = {.pool = be->pool};
	struct cuda *cu = calloc(1, sizeof(*cu));
	struct sl_fail no_dnn;
	enum sl_err err;

	if (!cu)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the CUDA backend");
	cu->options = *options;
	cu->ops = cu_backend_ops;
	cu->ops.precisions = precisions_of(options->device);
	cu->ops.ahead = options->overlap;
	if (options->graphs)
		cu_graph_ops(&cu->ops);
	cu_graphs_open(&cu->graphs, options->graphs ? &cu_graph_runtime : NULL, cu);
	opened.ops = &cu->ops;
	opened.impl = cu;
	err = open_parts(cu, fail);
	if (err)
		goto fail;
	if (dnn_open(&cu->dnn, cu->stream, &no_dnn))
		sl_log(SL_LOG_WARN, "cudnn-missing", "%s; dense convolutions run as im2col and cuBLAS", no_dnn.text);
	*be = opened;
	return SL_OK;
fail:
	cu_close(&opened);
	return err;
}

const struct sl_backend_ops cu_backend_ops = {
	.name = "cuda",
	.alloc = cu_alloc,
	.free_bytes = cu_free_bytes,
	.free = cu_free,
	.upload = cu_upload,
	.download = cu_download,
	.zero = cu_zero,
	.fence = cu_fence_queue,
	.host_alloc = cu_host_alloc,
	.host_free = cu_host_free,
	.codec_stages = cu_codec_stages,
	.mark_open = mark_open,
	.mark = mark_now,
	.between = between,
	.mark_close = mark_close,
	.finite = cu_finite,
	.combine = combine,
	.add = add,
	.update = cu_update_range,
	.convert = cu_convert_range,
	.kernel =
		{
#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) &cu_op_##kernel,
#include "common/graph/ops.def"
		},
	.failed = cu_failed,
	.close = cu_close,
};
