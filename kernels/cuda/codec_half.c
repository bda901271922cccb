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

static void none_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	(void)pairing;
	cu_stage_memory(env, sizeof(struct half), need);
}

static void half_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	(void)pairing;
	cu_stage_memory(env, sizeof(struct half), need);
	sl_need(&need->device, sl_shape_count(&env->shape), 2);
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

static size_t value_bytes(const struct half *h, int64_t n)
{
	return (size_t)n * (h->staging != NULL ? sizeof *h->staging : sizeof(float));
}

static enum sl_err queue_encode(void *state, const struct sl_codec_call *call, const float *x,
				const struct sl_shape *xs, bool finite, struct sl_buf *out)
{
	struct half *h = state;
	struct cu_stage *s = &h->stage;
	int64_t n = sl_shape_count(xs);
	size_t bytes = value_bytes(h, n);
	cudaError_t queued = cudaSuccess;
	enum sl_err err;

	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	if (n == 0)
		return SL_OK;
	err = cu_stage_begin(s);
	if (err != SL_OK)
		return err;
	if (h->staging != NULL)
		queued = cu_to_half(s->stream, h->staging, s->status, x, h->bf16, n);
	else if (finite)
		queued = cu_check_finite(s->stream, s->status, x, n);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, out->data + out->len,
				       h->staging != NULL ? (const void *)h->staging : x, bytes);
	out->len += bytes;
	return cu_codec_check(s->env.be, queued);
}

static enum sl_err queue_decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				const struct sl_shape *xs, struct sl_fail *fail)
{
	struct half *h = state;
	struct cu_stage *s = &h->stage;
	int64_t n = sl_shape_count(xs);
	cudaError_t queued;
	enum sl_err err;

	if (in.len != value_bytes(h, n))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "values: %zu bytes, expected %zu", in.len, value_bytes(h, n));
	if (n == 0)
		return SL_OK;
	err = cu_stage_begin(s);
	if (err != SL_OK)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, h->staging != NULL ? (void *)h->staging : x, in.data, in.len);
	if (queued == cudaSuccess && h->staging != NULL)
		queued = cu_from_half(s->stream, x, h->staging, h->bf16, n);
	if (queued == cudaSuccess)
		queued = cu_stage_take(s, call->slot, false);
	return cu_stage_said(cu_codec_check(s->env.be, queued), fail);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_fail *fail)
{
	struct half *h = state;

	return cu_stage_said(cu_stage_collect(&h->stage, call->slot), fail);
}

const struct sl_codec_stage cu_stage_none = {.id = SL_STAGE_ID_NONE,
					     .memory = none_memory,
					     .open = open_none,
					     .close = close_half,
					     .queue_encode = queue_encode,
					     .queue_decode = queue_decode,
					     .collect = collect};
const struct sl_codec_stage cu_stage_f16 = {.id = SL_STAGE_ID_F16,
					    .memory = half_memory,
					    .open = open_f16,
					    .close = close_half,
					    .queue_encode = queue_encode,
					    .queue_decode = queue_decode,
					    .collect = collect};
const struct sl_codec_stage cu_stage_bf16 = {.id = SL_STAGE_ID_BF16,
					     .memory = half_memory,
					     .open = open_bf16,
					     .close = close_half,
					     .queue_encode = queue_encode,
					     .queue_decode = queue_decode,
					     .collect = collect};
