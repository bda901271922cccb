#include "tests/support/gpu_codecs/sim.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/codec_stage.h"

enum sl_err cu_codec_streams(struct sl_backend *be, struct cu_streams *out)
{
	(void)be;
	*out = (struct cu_streams){0};
	return SL_OK;
}

enum sl_err cu_codec_check(struct sl_backend *be, cudaError_t status)
{
	(void)be;
	if (status == cudaErrorMemoryAllocation)
		return SL_ERR_NOMEM;
	return status == cudaSuccess ? SL_OK : SL_ERR_DEVICE;
}

static enum sl_err sim_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	(void)be;
	(void)fail;
	/* aligned as a device's memory, so that a warp's read begins at a sector */
	if (posix_memalign(out, 256, bytes ? bytes : 1) != 0)
		return SL_ERR_NOMEM;
	memset(*out, 0, bytes);
	return SL_OK;
}

static void sim_free(struct sl_backend *be, void *ptr)
{
	(void)be;
	free(ptr);
}

static enum sl_err sim_upload(struct sl_backend *be, void *dst, const void *host, size_t bytes)
{
	(void)be;
	memcpy(dst, host, bytes);
	return SL_OK;
}

static enum sl_err sim_download(struct sl_backend *be, void *host, const void *src, size_t bytes)
{
	(void)be;
	memcpy(host, src, bytes);
	return SL_OK;
}

static enum sl_err sim_zero(struct sl_backend *be, void *dst, size_t bytes)
{
	(void)be;
	memset(dst, 0, bytes);
	return SL_OK;
}

static enum sl_err sim_combine(struct sl_backend *be, float *out, const float *a, const float *b, float sign,
			       int64_t count)
{
	(void)be;
	return cu_combine(NULL, out, a, b, sign, count) == cudaSuccess ? SL_OK : SL_ERR_DEVICE;
}

#define SIM_OPS                                                                                                   \
	.name = "cuda-sim", .alloc = sim_alloc, .free = sim_free, .upload = sim_upload, .download = sim_download, \
	.zero = sim_zero, .combine = sim_combine, .host_alloc = sim_alloc, .host_free = sim_free,                 \
	.codec_stages = cu_codec_stages

static const struct sl_backend_ops sim_ops = {SIM_OPS}, sim_ops_ahead = {SIM_OPS, .ahead = true};
struct sl_backend sim_codec_backend = {.ops = &sim_ops}, sim_codec_backend_ahead = {.ops = &sim_ops_ahead};
