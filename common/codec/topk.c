/* topk:r — keeps the k = round(r·n) elements of largest magnitude (at least one), ties by lowest index; the others
 * become zero. A gradient that is paired with its activation is kept at the same places.
 *
 * Side bytes: the places (docs/CODECS.md); none if the places are the activation's. */

#include "common/base/pool.h"
#include "common/codec/loops_c.h"
#include "common/codec/places.h"
#include "common/codec/select.h"

enum { RATIO };

static const struct sl_arg args[] = {
	{.key = "ratio", .type = SL_ARG_REAL, .positional = true, .required = true, .least = 0, .most = 1},
	{0},
};

struct topk {
	struct sl_keeper keeper;
	struct sl_select *select; /* NULL if paired */
	/* of the running call */
	struct sl_selection selection;
	const float *x;
	sl_f32u *y;
};

static void shape(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	*out = sl_extent_flat(sl_codec_kept(arg[RATIO], sl_shape_count(&in->shape)));
}

static void close_topk(void *state)
{
	struct topk *t = state;

	sl_keeper_close(&t->keeper);
	sl_select_close(t->select);
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	sl_keeper_memory(env, pairing, need);
	if (pairing != SL_CODEC_PAIRED)
		sl_select_memory(env, need);
}

static enum sl_err open_topk(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct topk *t = *state;
	enum sl_err err = sl_keeper_open(&t->keeper, env, fail);

	return err || env->pair != NULL ? err : sl_select_open(&t->select, env, fail);
}

/* Sets how many elements each block keeps: those above the k-th largest, and of those equal to it the first ones,
 * until there are k. */
static void share_ties(struct topk *t, int64_t k)
{
	int64_t blocks = sl_codec_blocks(t->keeper.set->n);

	for (int64_t b = 0; b < blocks; b++)
		k -= t->selection.above[b];
	for (int64_t b = 0; b < blocks; b++) {
		int64_t ties = t->selection.equal[b] < k ? t->selection.equal[b] : k;

		t->keeper.set->count[b] = (uint32_t)(t->selection.above[b] + ties);
		k -= ties;
	}
}

/* Clears the marks of ties after the first `quota`. */
static void drop_ties(const struct topk *t, const float *x, int64_t n, uint64_t *bitmap, int64_t quota)
{
	for (int64_t i = 0; i < n; i++) {
		if (sl_magnitude(x[i]) == t->selection.least && quota-- <= 0)
			bitmap[i / 64] &= ~((uint64_t)1 << i % 64);
	}
}

static void keep_block(void *arg, int64_t block, int worker)
{
	struct topk *t = arg;
	const struct sl_codec_loops *loops = t->keeper.env.loops;
	const float *x = t->x + block * SL_CODEC_BLOCK;
	int64_t len = sl_block_length(t->keeper.set->n, block);
	int64_t ties = t->keeper.set->count[block] - t->selection.above[block];
	uint64_t *bitmap = t->keeper.set->bitmap + block * (SL_CODEC_BLOCK / 64);
	sl_f32u *y = t->y + t->keeper.set->offset[block];
	uint32_t top = 0;

	if (ties > 0 && ties < t->selection.equal[block]) {
		loops->mark(x, len, t->selection.least, bitmap, &top);
		drop_ties(t, x, len, bitmap, ties);
		loops->gather(x, len, bitmap, y, &top);
	} else {
		uint32_t least = t->selection.least + (ties == 0);

		for (int64_t at = 0; at < len; at += SL_CODEC_TILE) {
			int64_t n = len - at < SL_CODEC_TILE ? len - at : SL_CODEC_TILE;

			loops->mark(x + at, n, least, bitmap + at / 64, &top);
			y += loops->gather(x + at, n, bitmap + at / 64, y, &top);
		}
	}
	sl_places_code(&t->keeper.places, t->keeper.set, block, worker);
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct topk *t = state;
	struct sl_keeper *keeper = &t->keeper;
	int64_t n = sl_shape_count(&xs->shape), k = sl_codec_kept(keeper->env.arg[RATIO], n);
	enum sl_err err;

	if (keeper->pair != NULL)
		return sl_keeper_forward(keeper, call, x, n, y, ys);
	keeper->set = sl_places_slot(&keeper->places, call->slot);
	keeper->set->n = 0;
	err = n ? sl_select_run(t->select, x, n, k, &t->selection) : SL_OK;
	if (err)
		return err;
	keeper->set->n = n;
	share_ties(t, k);
	sl_places_sum(keeper->set);
	t->x = x;
	t->y = y;
	sl_pool_run(keeper->env.pool, sl_codec_blocks(n), keep_block, t);
	*ys = sl_extent_flat(k);
	return sl_places_write(&keeper->places, keeper->set, side);
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	struct topk *t = state;
	int64_t k = sl_codec_kept(t->keeper.env.arg[RATIO], sl_shape_count(&xs->shape));

	if (count != k)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "topk: %lld values, expected %lld", (long long)count,
				   (long long)k);
	return sl_keeper_parse(&t->keeper, call, side, count, xs, ys, fail);
}

const struct sl_codec_stage sl_stage_topk = {
	.id = SL_STAGE_ID_TOPK,
	.kind = SL_STAGE_TRANSFORM,
	.pairs = true,
	.finishes = true,
	.name = "topk",
	.usage = "topk:r with 0 < r ≤ 1, the share of elements that is kept",
	.args = args,
	.shape = shape,
	.bound = sl_keeper_bound,
	.size = sizeof(struct topk),
	.memory = memory,
	.open = open_topk,
	.close = close_topk,
	.keep = sl_keeper_keep,
	.forward = forward,
	.parse = parse,
	.inverse = sl_keeper_inverse,
};
