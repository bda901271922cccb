/* topk and threshold: places are kept on the device, for each slot if a gradient is paired with them. */
#include <stdlib.h>

#include "kernels/cuda/codec_index.h"
#include "kernels/cuda/codec_stage.h"

enum { BIN_WORDS = CU_SELECT_PASSES * CU_SELECT_BINS };
enum { VALUE };                                 /* the only argument of either stage */
enum { SIDE_BLOCK_BYTES = 4 + CU_BLOCK_BYTES }; /* a bitmap and its entry; gaps are sent only if they are shorter */

struct place_set {
	int64_t n, total; /* n = 0: never set; total < 0: not collected yet */
	uint32_t *bitmap, *offset;
};

struct keeper {
	struct cu_stage stage;
	struct keeper *pair; /* the activation's keeper, whose places a gradient uses; NULL: none */
	bool threshold;
	int slots;
	struct place_set *set; /* [slots]; one if places are not kept for a gradient */
	struct place_set *now; /* the set of the running call */
	/* used only if `pair` is NULL */
	int64_t most, blocks;
	uint32_t *words; /* above, equal, quota, entry, size [blocks] each, then the bins */
	struct cu_selection *selection;
	struct cu_place_coding coding;
	struct cu_index index;
};

enum { ABOVE, EQUAL, QUOTA, ENTRY, SIZE, WORD_ARRAYS };

static uint32_t *words_of(const struct keeper *k, int which)
{
	return k->words + which * k->blocks;
}

static enum sl_err open_set(struct keeper *k, struct place_set *set, struct sl_fail *fail)
{
	enum sl_err err = cu_stage_alloc(&k->stage, (size_t)k->blocks * CU_BLOCK_WORDS * sizeof *set->bitmap,
					 (void **)&set->bitmap, fail);

	return err ? err
		   : cu_stage_alloc(&k->stage, (size_t)k->blocks * sizeof *set->offset, (void **)&set->offset, fail);
}

static enum sl_err keep(void *state, struct sl_fail *fail)
{
	struct keeper *k = state;
	int slots = k->stage.env.slots;
	struct place_set *more;
	enum sl_err err = SL_OK;

	if (slots <= k->slots)
		return SL_OK;
	more = realloc(k->set, (size_t)slots * sizeof *more);
	if (more == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for the places of %d slots", slots);
	k->set = more;
	while (!err && k->slots < slots) {
		k->set[k->slots] = (struct place_set){0};
		err = open_set(k, &k->set[k->slots++], fail);
	}
	return err;
}

static void close_keeper(void *state)
{
	struct keeper *k = state;

	for (int i = 0; i < k->slots; i++) {
		cu_stage_free(&k->stage, k->set[i].bitmap);
		cu_stage_free(&k->stage, k->set[i].offset);
	}
	free(k->set);
	cu_stage_free(&k->stage, k->words);
	cu_stage_free(&k->stage, k->selection);
	cu_stage_free(&k->stage, k->coding.place);
	cu_stage_free(&k->stage, k->coding.coded);
	cu_stage_free(&k->stage, k->coding.side);
	cu_index_close(&k->index, &k->stage);
	cu_stage_close(&k->stage);
	free(k);
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	int64_t n = sl_shape_count(&env->most.shape), blocks = sl_codec_blocks(n);
	int64_t slots = pairing == SL_CODEC_KEEPS ? env->slots : 1;
	const struct keeper *k = NULL;

	cu_stage_memory(env, sizeof *k, need);
	if (pairing == SL_CODEC_PAIRED)
		return;
	sl_need(&need->host, slots + 1, sizeof *k->set); /* + 1: for realloc, while the array grows */
	sl_need(&need->device, slots * blocks, CU_BLOCK_WORDS * sizeof *k->set->bitmap + sizeof *k->set->offset);
	sl_need(&need->device, WORD_ARRAYS * blocks + BIN_WORDS, sizeof *k->words);
	sl_need(&need->device, 1, sizeof *k->selection);
	sl_need(&need->device, blocks, CU_BLOCK * sizeof *k->coding.place + CU_BLOCK_BYTES + SIDE_BLOCK_BYTES);
	cu_index_memory(env, n, need);
}

static enum sl_err open_coding(struct keeper *k, struct sl_fail *fail)
{
	struct cu_stage *s = &k->stage;
	size_t blocks = (size_t)k->blocks;
	enum sl_err err =
		cu_stage_alloc(s, (WORD_ARRAYS * blocks + BIN_WORDS) * sizeof *k->words, (void **)&k->words, fail);

	if (!err)
		err = cu_stage_alloc(s, sizeof *k->selection, (void **)&k->selection, fail);
	if (!err)
		err = cu_stage_alloc(s, blocks * CU_BLOCK * sizeof *k->coding.place, (void **)&k->coding.place, fail);
	if (!err)
		err = cu_stage_alloc(s, blocks * CU_BLOCK_BYTES, (void **)&k->coding.coded, fail);
	if (!err)
		err = cu_stage_alloc(s, blocks * SIDE_BLOCK_BYTES, (void **)&k->coding.side, fail);
	if (!err)
		err = cu_index_open(&k->index, s, k->most, fail);
	if (err)
		return err;
	k->coding.entry = words_of(k, ENTRY);
	k->coding.size = words_of(k, SIZE);
	if (k->threshold) {
		union {
			float v;
			uint32_t bits;
		} least = {.v = (float)s->env.arg[VALUE]};
		const struct cu_selection all = {.least = least.bits, .ties = UINT32_MAX};

		err = s->env.be->ops->upload(s->env.be, k->selection, &all, sizeof all);
		if (err)
			return sl_fail_set(fail, err, "the device has failed");
	}
	return SL_OK;
}

static enum sl_err open_keeper(void **state, const struct sl_stage_env *env, bool threshold, struct sl_fail *fail)
{
	struct keeper *k = calloc(1, sizeof *k);
	enum sl_err err;

	if (k == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	k->pair = env->pair;
	k->threshold = threshold;
	k->most = sl_shape_count(&env->most.shape);
	k->blocks = sl_codec_blocks(k->most);
	err = cu_stage_open(&k->stage, env, fail);
	if (!err && k->pair == NULL) {
		k->set = calloc(1, sizeof *k->set);
		err = k->set == NULL ? sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory") : SL_OK;
		if (!err) {
			k->slots = 1;
			err = open_set(k, k->set, fail);
		}
		if (!err)
			err = open_coding(k, fail);
	}
	if (err) {
		close_keeper(k);
		return err;
	}
	*state = k;
	return SL_OK;
}

static enum sl_err open_topk(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_keeper(state, env, false, fail);
}

static enum sl_err open_threshold(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	return open_keeper(state, env, true, fail);
}

static struct place_set *set_of(struct keeper *k, int slot)
{
	struct keeper *owner = k->pair != NULL ? k->pair : k;

	return &owner->set[owner->slots > 1 ? slot : 0];
}

/* ---- encoding */

static enum sl_err forward_paired(struct keeper *k, int slot, const float *x, int64_t n, float *y, struct sl_extent *ys)
{
	struct cu_stage *s = &k->stage;
	cudaError_t queued;
	enum sl_err err;

	if (k->now->n != n || n == 0 || k->now->total < 0)
		return SL_ERR_BUG;
	*ys = sl_extent_flat(k->now->total);
	err = cu_stage_begin(s);
	if (err)
		return err;
	queued = cu_gather(s->stream, y, s->status, x, k->now->bitmap, k->now->offset, n);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, slot, NULL, NULL, 0, false);
	return cu_stage_queued(s, queued);
}

static cudaError_t queue_forward(struct keeper *k, const float *x, int64_t n, float *y)
{
	struct cu_stage *s = &k->stage;
	uint32_t *bitmap = k->now->bitmap;
	const struct cu_shares shares = {words_of(k, ABOVE), words_of(k, EQUAL), k->now->offset, words_of(k, QUOTA)};
	/* the list shares memory with the places, which are written later */
	const struct cu_search search = {.sel = k->selection,
					 .bins = words_of(k, WORD_ARRAYS),
					 .list = (struct cu_listed *)(void *)k->coding.place,
					 .room = (uint32_t)(k->blocks * CU_BLOCK * (int64_t)sizeof *k->coding.place /
							    (int64_t)sizeof(struct cu_listed))};
	cudaError_t queued;

	if (k->threshold)
		queued = cu_mark(s->stream, bitmap, &shares, s->status, x, k->selection, n);
	else
		queued = cu_select(s->stream, &search, bitmap, &shares, s->status, x, n,
				   sl_codec_kept(s->env.arg[VALUE], n));
	if (queued == cudaSuccess)
		queued = cu_keep(s->stream, &k->coding, s->status, bitmap, &shares, k->selection, x, y, n);
	return queued;
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct keeper *k = state;
	struct cu_stage *s = &k->stage;
	int64_t n = sl_shape_count(&xs->shape);
	cudaError_t queued;
	enum sl_err err;

	k->now = set_of(k, call->slot);
	if (k->pair != NULL)
		return forward_paired(k, call->slot, x, n, (float *)(void *)y, ys);
	k->now->n = 0;
	if (n == 0) {
		k->now->total = 0;
		*ys = sl_extent_flat(0);
		return SL_OK;
	}
	err = cu_stage_begin(s);
	if (err)
		return err;
	queued = queue_forward(k, x, n, (float *)(void *)y);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, side->data, k->coding.side, side->cap, true);
	err = cu_stage_queued(s, queued);
	if (err)
		return err;
	k->now->n = n;
	k->now->total = k->threshold ? -1 : sl_codec_kept(s->env.arg[VALUE], n);
	*ys = sl_extent_flat(k->threshold ? n : k->now->total);
	return SL_OK;
}

static const uint32_t *count(const void *state)
{
	const struct keeper *k = state;

	return k->pair == NULL && k->now->n != 0 ? k->stage.status + CU_STATUS_KEPT : NULL;
}

static int64_t counted(const void *state, const struct sl_codec_call *call)
{
	const struct keeper *k = state;

	return cu_stage_seen(&k->stage, call->slot)[CU_STATUS_KEPT];
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *side, struct sl_fail *fail)
{
	struct keeper *k = state;
	enum sl_err err = cu_stage_collect(&k->stage, call->slot, side);

	if (!err && side != NULL && k->threshold && k->pair == NULL)
		set_of(k, call->slot)->total = counted(state, call);
	if (err && k->pair == NULL)
		set_of(k, call->slot)->n = 0;
	if (err == SL_ERR_PAYLOAD)
		return sl_fail_set(fail, err, "places: one lies beyond its block, or their number is wrong");
	return cu_stage_said(err, fail);
}

/* ---- decoding */

static enum sl_err read_places(struct keeper *k, int slot, struct sl_bytes side, int64_t n, struct sl_fail *fail)
{
	struct cu_stage *s = &k->stage;
	enum sl_err err = cu_stage_begin(s);
	struct cu_place_index index;
	cudaError_t queued;

	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, k->coding.side, side.data, side.len);
	if (queued == cudaSuccess)
		queued = cu_index_bring(&k->index, s, slot, k->now->offset, &index);
	if (queued == cudaSuccess)
		queued = cu_places_read(s->stream, k->now->bitmap, s->status, k->coding.side + 4 * sl_codec_blocks(n),
					&index, n);
	if (queued == cudaSuccess)
		queued = cu_stage_take(s, slot, true);
	return cu_stage_said(cu_stage_queued(s, queued), fail);
}

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	struct keeper *k = state;
	int64_t n = sl_shape_count(&xs->shape);
	enum sl_err err;

	if (!k->threshold && count != sl_codec_kept(k->stage.env.arg[VALUE], n))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "topk: %lld values, expected %lld", (long long)count,
				   (long long)sl_codec_kept(k->stage.env.arg[VALUE], n));
	k->now = set_of(k, call->slot);
	*ys = sl_extent_flat(count);
	if (k->pair != NULL) {
		if (side.len != 0 || k->now->n != n || k->now->total != count)
			return sl_fail_set(fail, SL_ERR_PAYLOAD,
					   "%zu bytes of places, %lld values; the activation kept %lld of %lld",
					   side.len, (long long)count, (long long)k->now->total, (long long)k->now->n);
		return SL_OK;
	}
	k->now->n = 0;
	if (side.len > (size_t)k->blocks * SIDE_BLOCK_BYTES)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: %zu bytes, %lld at most", side.len,
				   (long long)k->blocks * SIDE_BLOCK_BYTES);
	err = cu_index_read(&k->index, &k->stage, call->slot, side, n, count, fail);
	if (!err && n > 0)
		err = read_places(k, call->slot, side, n, fail);
	if (err)
		return err;
	k->now->n = n;
	k->now->total = count;
	return SL_OK;
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct keeper *k = state;
	struct cu_stage *s = &k->stage;
	int64_t n = sl_shape_count(&xs->shape);
	enum sl_err err;

	if (n == 0)
		return SL_OK;
	err = cu_stage_enter(s);
	/* the status is still that of parse, or of forward */
	return err ? err
		   : cu_stage_queued(s, cu_expand(s->stream, x, (const float *)(const void *)y, k->now->bitmap,
						  k->now->offset, s->status + CU_STATUS_BAD, n));
}

const struct sl_codec_stage cu_stage_topk = {.id = SL_STAGE_ID_TOPK,
					     .memory = memory,
					     .open = open_topk,
					     .close = close_keeper,
					     .keep = keep,
					     .forward = forward,
					     .parse = parse,
					     .inverse = inverse,
					     .collect = collect};
const struct sl_codec_stage cu_stage_threshold = {.id = SL_STAGE_ID_THRESHOLD,
						  .memory = memory,
						  .open = open_threshold,
						  .close = close_keeper,
						  .keep = keep,
						  .forward = forward,
						  .parse = parse,
						  .inverse = inverse,
						  .collect = collect,
						  .count = count,
						  .counted = counted};
