/* quant (per tensor), qsgd and terngrad (one bucket), with the portable stages' payloads. codec_groups.c has
 * the options that need a scale for every group; if it is not offered, the host runs those. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/codec_stage.h"

/* Indices of arguments, as in common/codec/quant.c and levels.c. */
enum { QUANT_BITS, QUANT_PER, QUANT_BLOCK, QUANT_ROUND, QUANT_CHANGE, QUANT_EVAL, QUANT_PACKED };
enum { ROUND_NEAREST, ROUND_STOCHASTIC, ROUND_DITHER };
enum { QSGD_Q, QSGD_BUCKET, QSGD_NORM };

struct levels {
	struct cu_stage stage;
	struct cu_codes codes;
	double *partial; /* [blocks] if the scale is a 2-norm, else NULL */
};

static void close_levels(void *state)
{
	struct levels *l = state;

	cu_stage_free(&l->stage, l->codes.payload);
	cu_stage_free(&l->stage, l->partial);
	cu_stage_close(&l->stage);
	free(l);
}

static void need_codes(const struct sl_stage_env *env, struct cu_codes codes, bool norm, struct sl_memory *need)
{
	const struct levels *l = NULL;

	codes.n = sl_shape_count(&env->most.shape);
	cu_stage_memory(env, sizeof *l, need);
	sl_need(&need->device, 1, cu_codes_bytes(&codes) + CU_CODE_PAD);
	if (norm)
		sl_need(&need->device, sl_codec_blocks(codes.n), sizeof *l->partial);
}

static enum sl_err open_codes(void **state, const struct sl_stage_env *env, const struct cu_codes *codes, bool norm,
			      struct sl_fail *fail)
{
	struct levels *l = calloc(1, sizeof *l);
	enum sl_err err;

	if (l == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	l->codes = *codes;
	l->codes.n = sl_shape_count(&env->most.shape);
	err = cu_stage_open(&l->stage, env, fail);
	if (!err)
		err = cu_stage_alloc(&l->stage, cu_codes_bytes(&l->codes) + CU_CODE_PAD, (void **)&l->codes.payload,
				     fail);
	if (!err && norm)
		err = cu_stage_alloc(&l->stage, (size_t)sl_codec_blocks(l->codes.n) * sizeof *l->partial,
				     (void **)&l->partial, fail);
	if (err) {
		close_levels(l);
		return err;
	}
	*state = l;
	return SL_OK;
}

struct cu_codes cu_quant_codes(const double *arg)
{
	const int bits = (int)arg[QUANT_BITS], width = sl_code_width(bits, arg[QUANT_PACKED] != 0);

	return (struct cu_codes){.kind = arg[QUANT_ROUND] == ROUND_NEAREST ? CU_CODE_NEAREST : CU_CODE_STOCHASTIC,
				 .dither = arg[QUANT_ROUND] == ROUND_DITHER,
				 .bits = width,
				 .most = (1u << bits) - 1,
				 .mask = (1u << width) - 1};
}

static void quant_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	need_codes(env, cu_quant_codes(env->arg), false, need);
}

static enum sl_err open_quant(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const struct cu_codes codes = cu_quant_codes(env->arg);

	return open_codes(state, env, &codes, false, fail);
}

struct cu_codes cu_level_codes(uint32_t q)
{
	const int bits = 32 - __builtin_clz(q);

	return (struct cu_codes){.kind = CU_CODE_LEVELS, .bits = bits + 1, .most = q, .mask = (1u << bits) - 1};
}

static void qsgd_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	need_codes(env, cu_level_codes((uint32_t)env->arg[QSGD_Q]), env->arg[QSGD_NORM] == 0, need);
}

static enum sl_err open_qsgd(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const struct cu_codes codes = cu_level_codes((uint32_t)env->arg[QSGD_Q]);

	return open_codes(state, env, &codes, env->arg[QSGD_NORM] == 0, fail);
}

static void tern_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	need_codes(env, cu_level_codes(1), false, need);
}

static enum sl_err open_tern(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const struct cu_codes codes = cu_level_codes(1);

	return open_codes(state, env, &codes, false, fail);
}

static cudaError_t queue_codes(struct levels *l, const float *x)
{
	struct cu_stage *s = &l->stage;
	cudaError_t queued = cu_codes_measure(s->stream, &l->codes, l->partial, s->status, x);

	if (queued == cudaSuccess)
		queued = cu_codes_encode(s->stream, &l->codes, l->partial != NULL, s->status, x);
	return queued;
}

static enum sl_err queue_encode(void *state, const struct sl_codec_call *call, const float *x,
				const struct sl_extent *xs, const uint32_t *count, bool finite, struct sl_buf *out)
{
	struct levels *l = state;
	struct sl_rng_key key = sl_codec_key(l->stage.env.seed, l->stage.env.dir, call, SL_STAGE_QUANTIZER);
	cudaError_t queued;
	enum sl_err err;
	size_t bytes;

	(void)finite; /* the range or scale that is measured shows NaN and Inf */
	l->codes.n = sl_shape_count(&xs->shape);
	l->codes.said = count;
	l->codes.key = cu_philox_of(&key);
	bytes = cu_codes_bytes(&l->codes);
	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	out->len += bytes;
	if (l->codes.n == 0) {
		memset(out->data + out->len - bytes, 0, bytes);
		return SL_OK;
	}
	err = cu_stage_begin(&l->stage);
	if (err)
		return err;
	queued = queue_codes(l, x);
	if (queued == cudaSuccess)
		queued = cu_stage_send(&l->stage, call->slot, out->data + out->len - bytes, l->codes.payload, bytes,
				       count != NULL);
	return cu_stage_queued(&l->stage, queued);
}

static enum sl_err check_head(const struct cu_codes *c, const uint8_t *in, struct sl_fail *fail)
{
	float head[2];

	if (c->kind == CU_CODE_LEVELS) {
		memcpy(head, in, sizeof head[0]);
		if (!isfinite(head[0]) || signbit(head[0]))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: scale %g", (double)head[0]);
		return SL_OK;
	}
	memcpy(head, in, sizeof head);
	if (!isfinite(head[0]) || !isfinite(head[1]) || head[0] > head[1])
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: range %g to %g", (double)head[0], (double)head[1]);
	return SL_OK;
}

enum sl_err cu_codes_check_size(const struct cu_codes *c, size_t bytes, struct sl_bytes in, struct sl_fail *fail)
{
	int used = (int)(c->n * c->bits % 8);

	if (in.len != bytes)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "codes: %zu bytes, expected %zu", in.len, bytes);
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "codes: bits are set behind the last one");
	return SL_OK;
}

bool cu_codes_may_be_bad(const struct cu_codes *c)
{
	return c->most != c->mask;
}

enum sl_err cu_codes_collect(struct cu_stage *s, const struct cu_codes *c, int slot, struct sl_buf *of,
			     struct sl_fail *fail)
{
	enum sl_err err = cu_stage_collect(s, slot, of);

	if (err == SL_ERR_PAYLOAD)
		return sl_fail_set(fail, err, "%s above %u",
				   c->kind == CU_CODE_LEVELS ? "levels: one is" : "quant: a code is", c->most);
	return cu_stage_said(err, fail);
}

static enum sl_err queue_decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				const struct sl_extent *xs, struct sl_fail *fail)
{
	struct levels *l = state;
	struct cu_stage *s = &l->stage;
	const struct sl_rng_key key = sl_codec_key(s->env.seed, s->env.dir, call, SL_STAGE_QUANTIZER);
	const uint32_t *refused = cu_codes_may_be_bad(&l->codes) ? s->status + CU_STATUS_BAD : NULL;
	cudaError_t queued;
	enum sl_err err;

	l->codes.n = sl_shape_count(&xs->shape);
	l->codes.said = NULL;
	l->codes.key = cu_philox_of(&key);
	err = cu_codes_check_size(&l->codes, cu_codes_bytes(&l->codes), in, fail);
	if (!err)
		err = check_head(&l->codes, in.data, fail);
	if (err || l->codes.n == 0)
		return err;
	err = refused != NULL ? cu_stage_begin(s) : cu_stage_enter(s);
	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, l->codes.payload, in.data, in.len);
	if (queued == cudaSuccess && refused != NULL)
		queued = cu_codes_check(s->stream, s->status, &l->codes);
	if (queued == cudaSuccess)
		queued = cu_codes_decode(s->stream, x, refused, &l->codes);
	if (queued == cudaSuccess)
		queued = cu_stage_take(s, call->slot, refused != NULL);
	return cu_stage_said(cu_stage_queued(s, queued), fail);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *of, struct sl_fail *fail)
{
	struct levels *l = state;

	return cu_codes_collect(&l->stage, &l->codes, call->slot, of, fail);
}

static enum sl_err echo(void *state, float *x, const struct sl_extent *xs)
{
	struct levels *l = state;

	if (l->codes.n == 0)
		return SL_OK;
	return cu_stage_queued(&l->stage, cu_codes_decode(l->stage.stream, x, NULL, &l->codes));
}

const struct sl_codec_stage cu_stage_quant = {.id = SL_STAGE_ID_QUANT,
					      .memory = quant_memory,
					      .open = open_quant,
					      .close = close_levels,
					      .queue_encode = queue_encode,
					      .queue_decode = queue_decode,
					      .collect = collect,
					      .echo = echo};
const struct sl_codec_stage cu_stage_qsgd = {.id = SL_STAGE_ID_QSGD,
					     .memory = qsgd_memory,
					     .open = open_qsgd,
					     .close = close_levels,
					     .queue_encode = queue_encode,
					     .queue_decode = queue_decode,
					     .collect = collect,
					     .echo = echo};
const struct sl_codec_stage cu_stage_terngrad = {.id = SL_STAGE_ID_TERNGRAD,
						 .memory = tern_memory,
						 .open = open_tern,
						 .close = close_levels,
						 .queue_encode = queue_encode,
						 .queue_decode = queue_decode,
						 .collect = collect,
						 .echo = echo};
