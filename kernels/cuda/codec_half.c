/* none, f16, bf16: a copy, or a conversion between the tensor and a copy. */
#include <stdlib.h>

#include "kernels/cuda/codec_stage.h"

struct half {
	struct cu_stage stage;
	uint16_t *staging; /* NULL: none */
	bool bf16;
};

static void close_half(void *state)
{
	struct half *h = state;

	cu_stage_free(&h->stage, h->staging);
	cu_stage_close(&h->stage);
	free(h);
}

static enum sl_err open_as(void **state, const struct sl_stage_env *env, bool half, bool bf16, struct sl_fail *fail)
{
	struct half *h = calloc(1, sizeof *h);
	enum sl_err err;

	if (h == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	h->bf16 = bf16;
	err = cu_stage_open(&h->stage, env, fail);
	if (err == SL_OK && half)
		err = cu_stage_alloc(&h->stage, (size_t)sl_shape_count(&env->shape) * 2, (void **)&h->staging, fail);
	if (err != SL_OK) {
		close_half(h);
		return err;
	}
	*state = h;
	return SL_OK;
}

static enum sl_err open_none(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_as(state, env, false, false, fail);
}

static enum sl_err open_f16(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_as(state, env, true, false, fail);
}

static enum sl_err open_bf16(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_as(state, env, true, true, fail);
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_shape *xs,
			  struct sl_buf *out)
{
	struct half *h = state;
	int64_t n = sl_shape_count(xs);
	size_t bytes = (size_t)n * (h->staging != NULL ? 2 : 4);
	cudaError_t queued = cudaSuccess;
	enum sl_err err;

	(void)call;
	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	if (n == 0)
		return SL_OK;
	err = cu_stage_begin(&h->stage);
	if (err != SL_OK)
		return err;
	if (h->staging != NULL)
		queued = cu_to_half(h->stage.stream, h->staging, h->stage.status, x, h->bf16, n);
	if (queued == cudaSuccess)
		queued = cu_stage_download(&h->stage, out->data + out->len,
					   h->staging != NULL ? (const void *)h->staging : x, bytes);
	err = cu_stage_end(&h->stage, queued);
	if (err == SL_OK)
		out->len += bytes;
	return err;
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_shape *xs, struct sl_fail *fail)
{
	struct half *h = state;
	int64_t n = sl_shape_count(xs);
	size_t bytes = (size_t)n * (h->staging != NULL ? 2 : 4);
	cudaError_t queued;
	enum sl_err err;

	(void)call;
	if (in.len != bytes)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "values: %zu bytes, expected %zu", in.len, bytes);
	if (n == 0)
		return SL_OK;
	err = cu_stage_begin(&h->stage);
	if (err == SL_OK) {
		queued = cu_stage_upload(&h->stage, h->staging != NULL ? (void *)h->staging : x, in.data, bytes);
		if (queued == cudaSuccess && h->staging != NULL)
			queued = cu_from_half(h->stage.stream, x, h->staging, h->bf16, n);
		err = cu_stage_end(&h->stage, queued);
	}
	return err == SL_OK ? SL_OK : sl_fail_set(fail, err, "the device failed to restore values");
}

const struct sl_codec_stage cu_stage_none = {
	.id = SL_STAGE_ID_NONE, .open = open_none, .close = close_half, .encode = encode, .decode = decode};
const struct sl_codec_stage cu_stage_f16 = {
	.id = SL_STAGE_ID_F16, .open = open_f16, .close = close_half, .encode = encode, .decode = decode};
const struct sl_codec_stage cu_stage_bf16 = {
	.id = SL_STAGE_ID_BF16, .open = open_bf16, .close = close_half, .encode = encode, .decode = decode};
