/* What all files of the backend share: the device of a thread, and the verdict on a call's status. */
#include "common/base/log.h"
#include "kernels/cuda/codec_stage.h"
#include "kernels/cuda/cuda.h"

static _Thread_local int bound_device = -1;

cudaError_t cu_choose_device(int device)
{
	cudaError_t status = bound_device == device ? cudaSuccess : cudaSetDevice(device);

	bound_device = status == cudaSuccess ? device : -1;
	return status;
}

enum sl_err cu_bind(struct cuda *cu)
{
	return cu_check(cu, cu_choose_device(cu->options.device), "choosing the device");
}

enum sl_err cu_enter(struct sl_backend *be, struct cuda **out)
{
	struct cuda *cu = be->impl;
	enum sl_err err = atomic_load_explicit(&cu->failed, memory_order_relaxed) ? SL_ERR_DEVICE : cu_bind(cu);

	if (!err)
		*out = cu;
	return err;
}

/* An error of a kernel or of the device persists in the context, and every later call returns it. An error of
 * a single call (such as a grid that no device can run) does not persist. */
static bool stays(const struct cuda *cu)
{
	cudaError_t status;

	cudaGetLastError();
	status = cudaStreamQuery(cu->stream);
	cudaGetLastError(); /* "not ready" is stored as the last error, too */
	return status != cudaSuccess && status != cudaErrorNotReady;
}

enum sl_err cu_check(struct cuda *cu, cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return SL_OK;
	if (status == cudaErrorMemoryAllocation) {
		cudaGetLastError(); /* clears the stored error: otherwise the next launch's check would return it */
		return SL_ERR_NOMEM;
	}
	/* a pass that cannot be recorded is computed without a graph; a fault of the device will show there */
	if (cu->graphs.recording) {
		cudaGetLastError();
		return SL_ERR_DEVICE;
	}
	/* After a persistent error the process must restart: log one line, not one per call. */
	if (!stays(cu) || !atomic_exchange(&cu->failed, 1))
		sl_log(SL_LOG_ERROR, "cuda-error", "device %d, %s: %s", cu->options.device, what,
		       cudaGetErrorString(status));
	return SL_ERR_DEVICE;
}

enum sl_err cu_codec_streams(struct sl_backend *be, struct cu_streams *out)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	if (!err)
		*out = (struct cu_streams){cu->stream, cu->in ? cu->in : cu->stream, cu->out ? cu->out : cu->stream};
	return err;
}

enum sl_err cu_codec_check(struct sl_backend *be, cudaError_t status)
{
	return cu_check(be->impl, status, "coding");
}

struct cu_window cu_window_of(const struct sl_shape *in, const struct sl_shape *out, int kh, int kw, int stride,
			      int pad)
{
	return (struct cu_window){.n = in->dim[0],
				  .h = in->dim[1],
				  .w = in->dim[2],
				  .c = in->dim[3],
				  .ho = out->dim[1],
				  .wo = out->dim[2],
				  .kh = kh,
				  .kw = kw,
				  .stride = stride,
				  .pad = pad};
}
