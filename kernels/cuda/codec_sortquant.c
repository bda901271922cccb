/* sortquant: the device finds the edges as the portable codec does (codec_edges.cu). The host queues all
 * rounds; those that are not needed do nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/select.h"
#include "kernels/cuda/codec_buckets.h"
#include "kernels/cuda/codec_stage.h"

_Static_assert((int)CU_SAMPLE == (int)SL_SAMPLE, "the sample is the portable codec's");

enum { BITS, SPLIT, ROUND };

struct sortquant {
	struct cu_stage stage;
	struct cu_buckets buckets;
	struct cu_bucket_search *search; /* device */
};

static void close_sortquant(void *state)
{
	struct sortquant *q = state;

	cu_stage_free(&q->stage, q->search);
	cu_stage_free(&q->stage, q->buckets.payload);
	cu_stage_close(&q->stage);
	free(q);
}

static struct cu_buckets buckets_of(const struct sl_stage_env *env)
{
	int bits = (int)env->arg[BITS], split = (int)env->arg[SPLIT];

	return (struct cu_buckets){
		.count = 1 << split,
		.code_bits = bits,
		.bits = bits + split,
		.stochastic = env->arg[ROUND] != 0,
		.n = sl_shape_count(&env->most.shape),
	};
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct cu_buckets buckets = buckets_of(env);
	const struct sortquant *q = NULL;

	cu_stage_memory(env, sizeof *q, need);
	sl_need(&need->device, 1, sizeof *q->search);
	sl_need(&need->device, 1, cu_buckets_bytes(&buckets) + CU_CODE_PAD);
}

static enum sl_err open_sortquant(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct sortquant *q = calloc(1, sizeof *q);
	struct cu_stage *s;
	enum sl_err err;

	if (q == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "sortquant: no memory");
	s = &q->stage;
	q->buckets = buckets_of(env);
	err = cu_stage_open(s, env, fail);
	if (!err)
		err = cu_stage_alloc(s, sizeof *q->search, (void **)&q->search, fail);
	if (!err)
		err = cu_stage_alloc(s, cu_buckets_bytes(&q->buckets) + CU_CODE_PAD, (void **)&q->buckets.payload,
				     fail);
	if (err) {
		close_sortquant(q);
		return err;
	}
	*state = q;
	return SL_OK;
}

/* ---- encoding */

static cudaError_t queue_codes(struct sortquant *q, const float *x)
{
	const struct cu_buckets *b = &q->buckets;
	struct cu_stage *s = &q->stage;
	cudaError_t queued = cu_bucket_sample(s->stream, q->search, b, x);

	for (int round = 0; round < CU_BUCKET_ROUNDS && queued == cudaSuccess; round++) {
		queued = round == CU_BUCKET_EXACT ? cu_bucket_exact(s->stream, q->search, s->status, b, x)
						  : cu_bucket_pick(s->stream, q->search, b, round);
		if (queued == cudaSuccess)
			queued = cu_bucket_measure(s->stream, q->search, s->status, b, x, round);
	}
	if (queued == cudaSuccess)
		queued = cu_bucket_encode(s->stream, q->search, b, x);
	return queued;
}

static enum sl_err queue_encode(void *state, const struct sl_codec_call *call, const float *x,
				const struct sl_extent *xs, const uint32_t *count, bool finite, struct sl_buf *out)
{
	struct sortquant *q = state;
	struct cu_buckets *b = &q->buckets;
	struct cu_stage *s = &q->stage;
	const struct sl_rng_key key = sl_codec_key(s->env.seed, s->env.dir, call, SL_STAGE_QUANTIZER);
	cudaError_t queued;
	enum sl_err err;
	size_t bytes;

	(void)finite; /* the ranges that are measured show NaN and Inf */
	b->key = cu_philox_of(&key);
	b->n = sl_shape_count(&xs->shape);
	b->said = count;
	bytes = cu_buckets_bytes(b);
	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	out->len += bytes;
	if (b->n == 0) {
		memset(out->data + out->len - bytes, 0, bytes);
		return SL_OK;
	}
	err = cu_stage_begin(s);
	if (err)
		return err;
	queued = queue_codes(q, x);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, out->data + out->len - bytes, b->payload, bytes, count != NULL);
	return cu_stage_queued(s, queued);
}

/* ---- decoding */

static enum sl_err check_bytes(const struct cu_buckets *b, struct sl_bytes in, struct sl_fail *fail)
{
	int used = (int)(b->n * b->bits % 8);

	if (in.len != cu_buckets_bytes(b))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: %zu bytes, expected %zu", in.len,
				   cu_buckets_bytes(b));
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: bits are set behind the last code");
	for (int k = 0; k < b->count; k++) {
		float range[2];

		memcpy(range, in.data + (size_t)k * sizeof range, sizeof range);
		if (!isfinite(range[0]) || !isfinite(range[1]) || range[0] > range[1])
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: range %g to %g of bucket %d",
					   (double)range[0], (double)range[1], k);
	}
	return SL_OK;
}

/* Every code is valid in some bucket, so the host can check everything that may be wrong. */
static enum sl_err queue_decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				const struct sl_extent *xs, struct sl_fail *fail)
{
	struct sortquant *q = state;
	struct cu_buckets *b = &q->buckets;
	struct cu_stage *s = &q->stage;
	cudaError_t queued;
	enum sl_err err;

	b->n = sl_shape_count(&xs->shape);
	b->said = NULL;
	err = check_bytes(b, in, fail);
	if (err || b->n == 0)
		return err;
	err = cu_stage_enter(s);
	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, b->payload, in.data, in.len);
	if (queued == cudaSuccess)
		queued = cu_bucket_decode(s->stream, x, b);
	if (queued == cudaSuccess)
		queued = cu_stage_take(s, call->slot, false);
	return cu_stage_said(cu_stage_queued(s, queued), fail);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *of, struct sl_fail *fail)
{
	struct sortquant *q = state;

	return cu_stage_said(cu_stage_collect(&q->stage, call->slot, of), fail);
}

static enum sl_err echo(void *state, float *x, const struct sl_extent *xs)
{
	struct sortquant *q = state;

	if (q->buckets.n == 0)
		return SL_OK;
	return cu_stage_queued(&q->stage, cu_bucket_decode(q->stage.stream, x, &q->buckets));
}

const struct sl_codec_stage cu_stage_sortquant = {.id = SL_STAGE_ID_SORTQUANT,
						  .memory = memory,
						  .open = open_sortquant,
						  .close = close_sortquant,
						  .queue_encode = queue_encode,
						  .queue_decode = queue_decode,
						  .collect = collect,
						  .echo = echo};
