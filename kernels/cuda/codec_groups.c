/* quant with block=, per=sample, per=channel; qsgd and terngrad with bucket=. Without these options, the
 * stages of codec_levels.c do the work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/codec_stage.h"

/* Indices of arguments, as in common/codec/quant.c and levels.c. */
enum { QUANT_BITS, QUANT_PER, QUANT_BLOCK };
enum { PER_TENSOR, PER_SAMPLE, PER_CHANNEL };
enum { QSGD_Q, QSGD_BUCKET, QSGD_NORM };
enum { TERN_BUCKET };
enum { COEFFICIENTS = 6 };

extern const struct sl_codec_stage cu_stage_quant, cu_stage_qsgd, cu_stage_terngrad;

struct grouped {
	const struct sl_codec_stage *plain; /* one scale for the tensor: that stage, and its state */
	void *state;
	struct cu_stage stage;
	struct cu_grouped groups;
	int64_t size; /* block= or bucket=; 0: a row of the tensor */
	bool norm;    /* scales are 2-norms */
};

static void close_grouped(void *state)
{
	struct grouped *g = state;

	if (g->plain != NULL && g->state != NULL)
		g->plain->close(g->state);
	cu_stage_free(&g->stage, g->groups.codes.payload);
	cu_stage_free(&g->stage, g->groups.low);
	cu_stage_free(&g->stage, g->groups.high);
	cu_stage_free(&g->stage, g->groups.partial);
	cu_stage_free(&g->stage, g->groups.table);
	cu_stage_close(&g->stage);
	free(g);
}

/* Sets the groups of a tensor of this shape. */
static void set_groups(struct grouped *g, const struct sl_shape *s)
{
	struct cu_grouped *to = &g->groups;

	to->codes.n = sl_shape_count(s);
	to->size = g->size != 0 ? g->size : sl_shape_row(s);
	to->count = to->channels ? s->dim[s->ndim - 1] : (to->codes.n + to->size - 1) / to->size;
	to->parts = sl_codec_blocks(to->size);
}

static enum sl_err open_memory(struct grouped *g, struct sl_fail *fail)
{
	struct cu_grouped *to = &g->groups;
	struct cu_stage *s = &g->stage;
	size_t count = (size_t)to->count;
	enum sl_err err = cu_stage_alloc(s, cu_groups_bytes(to) + CU_CODE_PAD, (void **)&to->codes.payload, fail);

	if (!err)
		err = cu_stage_alloc(s, count * sizeof *to->low, (void **)&to->low, fail);
	if (!err)
		err = cu_stage_alloc(s, count * sizeof *to->high, (void **)&to->high, fail);
	if (!err && g->norm)
		err = cu_stage_alloc(s, count * (size_t)to->parts * sizeof *to->partial, (void **)&to->partial, fail);
	if (!err)
		err = cu_stage_alloc(s, count * COEFFICIENTS * sizeof *to->table, (void **)&to->table, fail);
	return err;
}

static void memory_of(const struct sl_stage_env *env, struct grouped how, struct sl_memory *need)
{
	const struct cu_grouped *to = &how.groups;

	if (how.plain != NULL) {
		sl_need(&need->host, 1, sizeof how);
		how.plain->memory(env, SL_CODEC_ALONE, need);
		return;
	}
	set_groups(&how, &env->most.shape);
	cu_stage_memory(env, sizeof how, need);
	sl_need(&need->device, 1, cu_groups_bytes(to) + CU_CODE_PAD);
	sl_need(&need->device, to->count, sizeof *to->low + sizeof *to->high + COEFFICIENTS * sizeof *to->table);
	if (how.norm)
		sl_need(&need->device, to->count * to->parts, sizeof *to->partial);
}

static enum sl_err open_grouped(void **state, const struct sl_stage_env *env, struct grouped how, struct sl_fail *fail)
{
	struct grouped *g = calloc(1, sizeof *g);
	enum sl_err err;

	if (g == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	*g = how;
	if (g->plain != NULL) {
		err = g->plain->open(&g->state, env, fail);
	} else {
		set_groups(g, &env->most.shape);
		err = cu_stage_open(&g->stage, env, fail);
		if (!err)
			err = open_memory(g, fail);
	}
	if (err) {
		close_grouped(g);
		return err;
	}
	*state = g;
	return SL_OK;
}

static struct grouped quant_of(const double *arg)
{
	const int per = (int)arg[QUANT_PER];
	struct grouped how = {.size = (int64_t)arg[QUANT_BLOCK]};

	how.plain = per == PER_TENSOR && how.size == 0 ? &cu_stage_quant : NULL;
	how.groups.channels = per == PER_CHANNEL;
	how.groups.codes = cu_quant_codes(arg);
	return how;
}

static struct grouped levels_of(const struct sl_codec_stage *plain, uint32_t q, double bucket, bool norm)
{
	struct grouped how = {.plain = bucket == 0 ? plain : NULL, .size = (int64_t)bucket, .norm = norm};

	how.groups.codes = cu_level_codes(q);
	return how;
}

static struct grouped qsgd_of(const double *arg)
{
	return levels_of(&cu_stage_qsgd, (uint32_t)arg[QSGD_Q], arg[QSGD_BUCKET], arg[QSGD_NORM] == 0);
}

static struct grouped tern_of(const double *arg)
{
	return levels_of(&cu_stage_terngrad, 1, arg[TERN_BUCKET], false);
}

static void quant_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	memory_of(env, quant_of(env->arg), need);
}

static void qsgd_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	memory_of(env, qsgd_of(env->arg), need);
}

static void tern_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	memory_of(env, tern_of(env->arg), need);
}

static enum sl_err open_quant(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_grouped(state, env, quant_of(env->arg), fail);
}

static enum sl_err open_qsgd(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_grouped(state, env, qsgd_of(env->arg), fail);
}

static enum sl_err open_tern(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_grouped(state, env, tern_of(env->arg), fail);
}

static cudaError_t queue_codes(struct grouped *g, const float *x)
{
	struct cu_stage *s = &g->stage;
	cudaError_t queued = cu_groups_measure(s->stream, &g->groups, s->status, x);

	if (queued == cudaSuccess)
		queued = cu_groups_heads(s->stream, &g->groups, s->status);
	if (queued == cudaSuccess)
		queued = cu_groups_coefficients(s->stream, &g->groups);
	if (queued == cudaSuccess)
		queued = cu_groups_encode(s->stream, &g->groups, x);
	return queued;
}

static enum sl_err queue_encode(void *state, const struct sl_codec_call *call, const float *x,
				const struct sl_extent *xs, const uint32_t *count, bool finite, struct sl_buf *out)
{
	struct grouped *g = state;
	struct cu_stage *s = &g->stage;
	struct sl_rng_key key;
	cudaError_t queued;
	enum sl_err err;
	size_t bytes;

	if (g->plain != NULL)
		return g->plain->queue_encode(g->state, call, x, xs, count, finite, out);
	set_groups(g, &xs->shape);
	g->groups.codes.said = count;
	bytes = cu_groups_bytes(&g->groups);
	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	out->len += bytes;
	if (g->groups.codes.n == 0) {
		memset(out->data + out->len - bytes, 0, bytes);
		return SL_OK;
	}
	key = sl_codec_key(s->env.seed, s->env.dir, call, SL_STAGE_QUANTIZER);
	g->groups.codes.key = cu_philox_of(&key);
	err = cu_stage_begin(s);
	if (err)
		return err;
	queued = queue_codes(g, x);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, out->data + out->len - bytes, g->groups.codes.payload, bytes,
				       count != NULL);
	return cu_stage_queued(s, queued);
}

static enum sl_err check_heads(const struct cu_grouped *g, struct sl_bytes in, struct sl_fail *fail)
{
	bool levels = g->codes.kind == CU_CODE_LEVELS;

	for (int64_t i = 0; i < g->count; i++) {
		float head[2] = {0};

		memcpy(head, in.data + i * (levels ? 4 : 8), levels ? 4 : 8);
		if (levels && (!isfinite(head[0]) || signbit(head[0])))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "levels: scale %g of bucket %lld", (double)head[0],
					   (long long)i);
		if (!levels && (!isfinite(head[0]) || !isfinite(head[1]) || head[0] > head[1]))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: range %g to %g of group %lld", (double)head[0],
					   (double)head[1], (long long)i);
	}
	return SL_OK;
}

static enum sl_err queue_decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				const struct sl_extent *xs, struct sl_fail *fail)
{
	struct grouped *g = state;
	struct cu_stage *s = &g->stage;
	const struct cu_codes *c = &g->groups.codes;
	const uint32_t *refused;
	struct sl_rng_key key;
	cudaError_t queued;
	enum sl_err err;

	if (g->plain != NULL)
		return g->plain->queue_decode(g->state, call, in, x, xs, fail);
	refused = cu_codes_may_be_bad(c) ? s->status + CU_STATUS_BAD : NULL;
	set_groups(g, &xs->shape);
	g->groups.codes.said = NULL;
	key = sl_codec_key(s->env.seed, s->env.dir, call, SL_STAGE_QUANTIZER);
	g->groups.codes.key = cu_philox_of(&key);
	err = cu_codes_check_size(c, cu_groups_bytes(&g->groups), in, fail);
	if (!err)
		err = check_heads(&g->groups, in, fail);
	if (err || c->n == 0)
		return err;
	err = refused != NULL ? cu_stage_begin(s) : cu_stage_enter(s);
	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, c->payload, in.data, in.len);
	if (queued == cudaSuccess && refused != NULL)
		queued = cu_groups_check(s->stream, s->status, &g->groups);
	if (queued == cudaSuccess)
		queued = cu_groups_coefficients(s->stream, &g->groups);
	if (queued == cudaSuccess)
		queued = cu_groups_decode(s->stream, x, refused, &g->groups);
	if (queued == cudaSuccess)
		queued = cu_stage_take(s, call->slot, refused != NULL);
	return cu_stage_said(cu_stage_queued(s, queued), fail);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *of, struct sl_fail *fail)
{
	struct grouped *g = state;

	if (g->plain != NULL)
		return g->plain->collect(g->state, call, of, fail);
	return cu_codes_collect(&g->stage, &g->groups.codes, call->slot, of, fail);
}

static enum sl_err echo(void *state, float *x, const struct sl_extent *xs)
{
	struct grouped *g = state;

	if (g->plain != NULL)
		return g->plain->echo(g->state, x, xs);
	if (g->groups.codes.n == 0)
		return SL_OK;
	return cu_stage_queued(&g->stage, cu_groups_decode(g->stage.stream, x, NULL, &g->groups));
}

const struct sl_codec_stage cu_stage_quant_groups = {.id = SL_STAGE_ID_QUANT,
						     .memory = quant_memory,
						     .open = open_quant,
						     .close = close_grouped,
						     .queue_encode = queue_encode,
						     .queue_decode = queue_decode,
						     .collect = collect,
						     .echo = echo};
const struct sl_codec_stage cu_stage_qsgd_groups = {.id = SL_STAGE_ID_QSGD,
						    .memory = qsgd_memory,
						    .open = open_qsgd,
						    .close = close_grouped,
						    .queue_encode = queue_encode,
						    .queue_decode = queue_decode,
						    .collect = collect,
						    .echo = echo};
const struct sl_codec_stage cu_stage_terngrad_groups = {.id = SL_STAGE_ID_TERNGRAD,
							.memory = tern_memory,
							.open = open_tern,
							.close = close_grouped,
							.queue_encode = queue_encode,
							.queue_decode = queue_decode,
							.collect = collect,
							.echo = echo};
