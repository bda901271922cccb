/* none, f16, bf16: a copy, or a conversion between the tensor and its staging memory. */
#include <stdlib.h>

#include "kernels/cuda/codec_stage.h"

struct half {
	struct cu_stage stage;
	bool half, bf16;
	void *staging;        /* values as they are sent; NULL: the tensor itself */
	const uint32_t *said; /* of the last call (codec.h) */
};

static void close_half(void *state)
{
	struct half *h = state;

	cu_stage_free(&h->stage, h->staging);
	cu_stage_close(&h->stage);
	free(h);
}

static size_t value_bytes(const struct half *h, int64_t n)
{
	return (size_t)n * (h->half ? sizeof(uint16_t) : sizeof(float));
}

static void none_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	cu_stage_memory(env, sizeof(struct half), need);
	if (env->scratch)
		sl_need(&need->device, sl_shape_count(&env->most.shape), sizeof(float));
}

static void half_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	cu_stage_memory(env, sizeof(struct half), need);
	sl_need(&need->device, sl_shape_count(&env->most.shape), sizeof(uint16_t));
}

static enum sl_err open_as(void **state, const struct sl_stage_env *env, bool half, bool bf16, struct sl_fail *fail)
{
	struct half *h = calloc(1, sizeof *h);
	enum sl_err err;

	if (h == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	h->half = half;
	h->bf16 = bf16;
	err = cu_stage_open(&h->stage, env, fail);
	if (!err && (half || env->scratch))
		err = cu_stage_alloc(&h->stage, value_bytes(h, sl_shape_count(&env->most.shape)), &h->staging, fail);
	if (err) {
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

static cudaError_t unstage(struct half *h, float *x, int64_t n)
{
	if (h->half)
		return cu_from_half(h->stage.stream, x, h->staging, h->bf16, n, h->said);
	return cudaMemcpyAsync(x, h->staging, value_bytes(h, n), cudaMemcpyDeviceToDevice, h->stage.stream);
}

static enum sl_err queue_encode(void *state, const struct sl_codec_call *call, const float *x,
				const struct sl_extent *xs, const uint32_t *count, bool finite, struct sl_buf *out)
{
	struct half *h = state;
	struct cu_stage *s = &h->stage;
	int64_t n = sl_shape_count(&xs->shape);
	size_t bytes = value_bytes(h, n);
	cudaError_t queued = cudaSuccess;
	enum sl_err err;

	h->said = count;
	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	if (n == 0)
		return SL_OK;
	err = cu_stage_begin(s);
	if (err)
		return err;
	if (h->half)
		queued = cu_to_half(s->stream, h->staging, s->status, x, h->bf16, n, count);
	else if (finite)
		queued = cu_check_finite(s->stream, s->status, x, n);
	if (queued == cudaSuccess && !h->half && count != NULL)
		queued = cu_copy_said(s->stream, h->staging, s->status, x, n, count);
	else if (queued == cudaSuccess && !h->half && h->staging != NULL)
		queued = cudaMemcpyAsync(h->staging, x, bytes, cudaMemcpyDeviceToDevice, s->stream);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, out->data + out->len, h->staging != NULL ? h->staging : x, bytes,
				       count != NULL);
	out->len += bytes;
	return cu_stage_queued(s, queued);
}

static enum sl_err queue_decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				const struct sl_extent *xs, struct sl_fail *fail)
{
	struct half *h = state;
	struct cu_stage *s = &h->stage;
	int64_t n = sl_shape_count(&xs->shape);
	cudaError_t queued;
	enum sl_err err;

	h->said = NULL;
	if (in.len != value_bytes(h, n))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "values: %zu bytes, expected %zu", in.len, value_bytes(h, n));
	if (n == 0)
		return SL_OK;
	err = cu_stage_enter(s);
	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, h->staging != NULL ? h->staging : x, in.data, in.len);
	if (queued == cudaSuccess && h->staging != NULL)
		queued = unstage(h, x, n);
	if (queued == cudaSuccess)
		queued = cu_stage_take(s, call->slot, false);
	return cu_stage_said(cu_stage_queued(s, queued), fail);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *of, struct sl_fail *fail)
{
	struct half *h = state;

	return cu_stage_said(cu_stage_collect(&h->stage, call->slot, of), fail);
}

static enum sl_err echo(void *state, float *x, const struct sl_extent *xs)
{
	struct half *h = state;
	int64_t n = sl_shape_count(&xs->shape);

	return n == 0 ? SL_OK : cu_stage_queued(&h->stage, unstage(h, x, n));
}

const struct sl_codec_stage cu_stage_none = {.id = SL_STAGE_ID_NONE,
					     .memory = none_memory,
					     .open = open_none,
					     .close = close_half,
					     .queue_encode = queue_encode,
					     .queue_decode = queue_decode,
					     .collect = collect,
					     .echo = echo};
const struct sl_codec_stage cu_stage_f16 = {.id = SL_STAGE_ID_F16,
					    .memory = half_memory,
					    .open = open_f16,
					    .close = close_half,
					    .queue_encode = queue_encode,
					    .queue_decode = queue_decode,
					    .collect = collect,
					    .echo = echo};
const struct sl_codec_stage cu_stage_bf16 = {.id = SL_STAGE_ID_BF16,
					     .memory = half_memory,
					     .open = open_bf16,
					     .close = close_half,
					     .queue_encode = queue_encode,
					     .queue_decode = queue_decode,
					     .collect = collect,
					     .echo = echo};
