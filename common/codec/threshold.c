/* threshold:v — keeps the elements with |x| ≥ v; the others become zero. How many remain depends on the tensor. A
 * gradient that is paired with its activation is kept at the same places. adaptive:r — the same with v = r·max|x| of
 * each tensor.
 *
 * Side bytes: the places (docs/CODECS.md); none if the places are the activation's. */
#include <float.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/loops_c.h"
#include "common/codec/places.h"

enum { VALUE };

static const struct sl_arg args[] = {
	{.key = "value", .type = SL_ARG_REAL, .positional = true, .required = true, .least = 0, .most = FLT_MAX},
	{0},
};

static const struct sl_arg adaptive_args[] = {
	{.key = "ratio", .type = SL_ARG_REAL, .positional = true, .required = true, .least = 0, .most = 1},
	{0},
};

struct threshold {
	struct sl_keeper keeper;
	uint32_t least; /* |bits| of v */
	bool adaptive;  /* then `least` is the running call's */
	/* of the running call */
	const float *x;
	sl_f32u *y;
	atomic_bool nonfinite;
	_Atomic uint32_t top; /* the largest |bits| */
};

static void shape(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	*out = sl_extent_flat(sl_shape_count(&in->shape));
}

static enum sl_err open_kind(void **state, const struct sl_stage_env *env, bool adaptive, struct sl_fail *fail)
{
	struct threshold *t = *state;

	t->least = sl_magnitude((float)env->arg[VALUE]);
	t->adaptive = adaptive;
	return sl_keeper_open(&t->keeper, env, fail);
}

static enum sl_err open_threshold(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_kind(state, env, false, fail);
}

static enum sl_err open_adaptive(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_kind(state, env, true, fail);
}

static void raise_top(struct threshold *t, uint32_t top)
{
	uint32_t was = atomic_load_explicit(&t->top, memory_order_relaxed);

	while (top > was && !atomic_compare_exchange_weak(&t->top, &was, top))
		;
}

static void mark_block(void *arg, int64_t block, int worker)
{
	struct threshold *t = arg;
	struct sl_place_set *set = t->keeper.set;
	uint32_t top = 0;

	set->count[block] =
		(uint32_t)t->keeper.env.loops->mark(t->x + block * SL_CODEC_BLOCK, sl_block_length(set->n, block),
						    t->least, set->bitmap + block * (SL_CODEC_BLOCK / 64), &top);
	if (top >= SL_F32_INF_BITS)
		atomic_store_explicit(&t->nonfinite, true, memory_order_relaxed);
	raise_top(t, top);
}

/* The least |bits| that adaptive keeps. It is never 0, so that zeros are not kept. */
static uint32_t share_of_top(const struct threshold *t)
{
	const uint32_t bits = atomic_load(&t->top);
	float top;

	memcpy(&top, &bits, sizeof top);
	top = (float)(t->keeper.env.arg[VALUE] * (double)top);
	return sl_magnitude(top) ? sl_magnitude(top) : 1;
}

static void gather_block(void *arg, int64_t block, int worker)
{
	const struct threshold *t = arg;
	struct sl_keeper *k = arg;
	uint32_t top = 0;

	k->env.loops->gather(t->x + block * SL_CODEC_BLOCK, sl_block_length(k->set->n, block),
			     k->set->bitmap + block * (SL_CODEC_BLOCK / 64), t->y + k->set->offset[block], &top);
	sl_places_code(&k->places, k->set, block, worker);
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct threshold *t = state;
	struct sl_keeper *k = &t->keeper;
	int64_t n = sl_shape_count(&xs->shape);

	if (k->pair != NULL)
		return sl_keeper_forward(k, call, x, n, y, ys);
	k->set = sl_places_slot(&k->places, call->slot);
	k->set->n = n;
	t->x = x;
	t->y = y;
	t->nonfinite = false;
	atomic_store(&t->top, 0);
	sl_pool_run(k->env.pool, sl_codec_blocks(n), mark_block, t);
	if (t->adaptive && !t->nonfinite) { /* the first pass only found the largest magnitude */
		t->least = share_of_top(t);
		sl_pool_run(k->env.pool, sl_codec_blocks(n), mark_block, t);
	}
	if (t->nonfinite) {
		k->set->n = 0;
		return SL_ERR_NONFINITE;
	}
	sl_places_sum(k->set);
	sl_pool_run(k->env.pool, sl_codec_blocks(n), gather_block, t);
	*ys = sl_extent_flat(k->set->total);
	return sl_places_write(&k->places, k->set, side);
}

const struct sl_codec_stage sl_stage_threshold = {
	.id = SL_STAGE_ID_THRESHOLD,
	.kind = SL_STAGE_TRANSFORM,
	.pairs = true,
	.finishes = true,
	.variable = true,
	.name = "threshold",
	.usage = "threshold:v with v > 0, the least magnitude that is kept",
	.args = args,
	.shape = shape,
	.bound = sl_keeper_bound,
	.size = sizeof(struct threshold),
	.memory = sl_keeper_memory,
	.open = open_threshold,
	.close = sl_keeper_close,
	.keep = sl_keeper_keep,
	.forward = forward,
	.parse = sl_keeper_parse,
	.inverse = sl_keeper_inverse,
};

const struct sl_codec_stage sl_stage_adaptive = {
	.id = SL_STAGE_ID_ADAPTIVE,
	.kind = SL_STAGE_TRANSFORM,
	.pairs = true,
	.finishes = true,
	.variable = true,
	.name = "adaptive",
	.usage = "adaptive:r with 0 < r ≤ 1, the share of the largest magnitude from which on elements are kept",
	.args = adaptive_args,
	.shape = shape,
	.bound = sl_keeper_bound,
	.size = sizeof(struct threshold),
	.memory = sl_keeper_memory,
	.open = open_adaptive,
	.close = sl_keeper_close,
	.keep = sl_keeper_keep,
	.forward = forward,
	.parse = sl_keeper_parse,
	.inverse = sl_keeper_inverse,
};
