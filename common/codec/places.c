#include "common/codec/places.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/frame.h"

static const uint32_t gaps_flag = 0x80000000u;
enum { BLOCK_WORDS = SL_CODEC_BLOCK / 64, AHEAD = 1024 };

static void close_set(struct sl_place_set *set)
{
	free(set->bitmap);
	free(set->count);
	free(set->offset);
}

static bool open_set(struct sl_place_set *set, int64_t most)
{
	size_t blocks = (size_t)sl_codec_blocks(most);

	set->bitmap = calloc(blocks * BLOCK_WORDS, sizeof *set->bitmap);
	set->count = calloc(blocks, sizeof *set->count);
	set->offset = calloc(blocks, sizeof *set->offset);
	return set->bitmap != NULL && set->count != NULL && set->offset != NULL;
}

enum sl_err sl_places_keep(struct sl_places *p, int slots, struct sl_fail *fail)
{
	struct sl_place_set *more;

	if (slots <= p->slots)
		return SL_OK;
	more = realloc(p->set, (size_t)slots * sizeof *more);
	if (more == NULL)
		goto fail;
	p->set = more;
	while (p->slots < slots) {
		memset(&p->set[p->slots], 0, sizeof *more);
		if (!open_set(&p->set[p->slots++], p->most))
			goto fail;
	}
	return SL_OK;
fail:
	return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for the places of %d slots", slots);
}

void sl_places_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sl_place_set *set = NULL;
	const struct sl_places *p = NULL;
	int64_t blocks = sl_codec_blocks(sl_shape_count(&env->most.shape));
	int64_t slots = pairing == SL_CODEC_KEEPS ? env->slots : 1;

	sl_need(&need->host, slots + 1, sizeof *set); /* + 1: while the array grows */
	sl_need(&need->host, slots * blocks, BLOCK_WORDS * sizeof *set->bitmap + sizeof *set->count);
	sl_need(&need->host, slots * blocks, sizeof *set->offset);
	sl_need(&need->host, blocks, SL_PLACES_BLOCK_BYTES + sizeof *p->coded_bytes);
	sl_need(&need->host, sl_stage_threads(env), 2 * SL_PLACES_SCRATCH * sizeof *p->scratch);
}

enum sl_err sl_places_open(struct sl_places *p, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = (size_t)sl_stage_threads(env);
	int64_t n = sl_shape_count(&env->most.shape);
	size_t blocks = (size_t)sl_codec_blocks(n);

	*p = (struct sl_places){.loops = env->loops, .pool = env->pool, .most = n};
	p->coded = malloc(blocks * SL_PLACES_BLOCK_BYTES);
	p->coded_bytes = calloc(blocks, sizeof *p->coded_bytes);
	p->scratch = malloc(threads * 2 * SL_PLACES_SCRATCH * sizeof *p->scratch);
	if (p->coded == NULL || p->coded_bytes == NULL || p->scratch == NULL) {
		sl_places_close(p);
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for the places of %lld elements",
				   (long long)n);
	}
	return sl_places_keep(p, 1, fail);
}

void sl_places_close(struct sl_places *p)
{
	for (int s = 0; s < p->slots; s++)
		close_set(&p->set[s]);
	free(p->set);
	free(p->coded);
	free(p->coded_bytes);
	free(p->scratch);
	*p = (struct sl_places){0};
}

size_t sl_places_bound(int64_t n)
{
	return (size_t)(sl_codec_blocks(n) * 4 + (n + 7) / 8);
}

void sl_places_sum(struct sl_place_set *set)
{
	set->total = 0;
	for (int64_t b = 0; b < sl_codec_blocks(set->n); b++) {
		set->offset[b] = set->total;
		set->total += set->count[b];
	}
}

static int width_of(uint32_t any)
{
	return any == 0 ? 0 : 32 - __builtin_clz(any);
}

/* Codes the gaps of one block, in groups that share a width. Returns the bytes, or 0 if they would not be below
 * `less_than`. */
static size_t code_gaps(const struct sl_codec_loops *loops, const uint16_t *place, uint16_t *gap, int64_t count,
			uint8_t *out, size_t less_than)
{
	size_t bytes = 0;

	gap[0] = place[0];
	for (int64_t i = 1; i < count; i++)
		gap[i] = (uint16_t)(place[i] - place[i - 1] - 1);
	for (int64_t first = 0; first < count; first += SL_PLACES_GROUP) {
		int64_t n = count - first < SL_PLACES_GROUP ? count - first : SL_PLACES_GROUP;
		uint32_t any = 0;
		int width;

		for (int64_t i = 0; i < n; i++)
			any |= gap[first + i];
		width = width_of(any);
		if (bytes + 1 + (size_t)sl_packed_bytes(n, width) >= less_than)
			return 0;
		out[bytes++] = (uint8_t)width;
		if (width != 0)
			loops->pack(gap + first, n, width, out + bytes);
		bytes += (size_t)sl_packed_bytes(n, width);
	}
	return bytes;
}

void sl_places_code(struct sl_places *p, const struct sl_place_set *set, int64_t block, int worker)
{
	int64_t len = sl_block_length(set->n, block), count = set->count[block];
	const uint64_t *bitmap = set->bitmap + block * BLOCK_WORDS;
	uint16_t *place = p->scratch + (size_t)worker * 2 * SL_PLACES_SCRATCH;
	uint8_t *out = p->coded + block * SL_PLACES_BLOCK_BYTES;
	size_t bitmap_bytes = (size_t)(len + 7) / 8, bytes = 0;

	p->coded_bytes[block] = gaps_flag;
	if (count == 0)
		return;
	/* gaps are taken only if they are smaller than the bitmap */
	p->loops->places(bitmap, len, place);
	bytes = code_gaps(p->loops, place, place + SL_PLACES_SCRATCH, count, out, bitmap_bytes);
	if (bytes != 0) {
		p->coded_bytes[block] = (uint32_t)bytes | gaps_flag;
		return;
	}
	memcpy(out, bitmap, bitmap_bytes);
	p->coded_bytes[block] = (uint32_t)bitmap_bytes;
}

enum sl_err sl_places_write(struct sl_places *p, const struct sl_place_set *set, struct sl_buf *side)
{
	int64_t blocks = sl_codec_blocks(set->n);
	enum sl_err err = SL_OK;

	for (int64_t b = 0; !err && b < blocks; b++) {
		uint32_t entry = set->count[b] | (p->coded_bytes[b] & gaps_flag);

		err = sl_buf_put(side, &entry, sizeof entry);
	}
	for (int64_t b = 0; !err && b < blocks; b++)
		err = sl_buf_put(side, p->coded + b * SL_PLACES_BLOCK_BYTES, p->coded_bytes[b] & ~gaps_flag);
	return err;
}

/* ---- reading */

struct reading {
	struct sl_places *p;
	struct sl_place_set *set;
	const uint8_t *blocks; /* after the table */
	const uint8_t *table;
	uint32_t *at; /* offset of every block */
	atomic_bool bad;
};

/* Bytes of a block's gaps, found by reading the width of each group in turn. -1: they pass the end, or a width is
 * wrong. */
static int64_t gaps_bytes(const uint8_t *in, size_t len, int64_t count)
{
	size_t at = 0;

	for (int64_t first = 0; first < count; first += SL_PLACES_GROUP) {
		int64_t n = count - first < SL_PLACES_GROUP ? count - first : SL_PLACES_GROUP;

		if (at >= len || in[at] > 16)
			return -1;
		/* the next width's address depends on this one: prefetch the widths to come */
		for (size_t ahead = AHEAD; ahead < AHEAD + 4 * 64; ahead += 64)
			__builtin_prefetch(in + at + ahead);
		at += 1 + (size_t)sl_packed_bytes(n, in[at]);
	}
	return at <= len ? (int64_t)at : -1;
}

static bool read_bitmap(uint64_t *bitmap, const uint8_t *in, int64_t len, int64_t count)
{
	int64_t words = (len + 63) / 64, found = 0;

	bitmap[words - 1] = 0;
	memcpy(bitmap, in, (size_t)(len + 7) / 8);
	for (int64_t w = 0; w < words; w++)
		found += __builtin_popcountll(bitmap[w]);
	/* no bit may be set behind the last element */
	return found == count && (len % 64 == 0 || bitmap[words - 1] >> len % 64 == 0);
}

static bool read_gaps(const struct sl_codec_loops *loops, uint64_t *bitmap, const uint8_t *in, int64_t len,
		      int64_t count, uint16_t *gap)
{
	uint8_t *flag = (uint8_t *)(gap + SL_PLACES_SCRATCH);
	int64_t place = -1;

	/* flags as bytes first: to set bits of a word, each store would have to wait for the one before */
	memset(flag, 0, (size_t)(len + 63) / 64 * 64);
	for (int64_t first = 0; first < count; first += SL_PLACES_GROUP) {
		int64_t n = count - first < SL_PLACES_GROUP ? count - first : SL_PLACES_GROUP, last = place + n;
		int width = *in++;

		if (width == 0)
			memset(gap, 0, (size_t)n * sizeof *gap);
		else
			loops->unpack(in, n, width, gap);
		in += sl_packed_bytes(n, width);
		if (n * width % 8 != 0 && in[-1] >> n * width % 8 != 0)
			return false;
		for (int64_t i = 0; i < n; i++)
			last += gap[i];
		if (last >= len)
			return false;
		for (int64_t i = 0; i < n; i++) {
			place += gap[i] + 1;
			flag[place] = 1;
		}
	}
	loops->collect(flag, len, bitmap);
	return true;
}

static void read_block(void *arg, int64_t block, int worker)
{
	struct reading *r = arg;
	int64_t len = sl_block_length(r->set->n, block), count = r->set->count[block];
	uint64_t *bitmap = r->set->bitmap + block * BLOCK_WORDS;
	const uint8_t *in = r->blocks + r->at[block];
	uint16_t *gap = r->p->scratch + (size_t)worker * 2 * SL_PLACES_SCRATCH;
	bool good;

	if (sl_get_u32(r->table + 4 * block) & gaps_flag)
		good = read_gaps(r->p->loops, bitmap, in, len, count, gap);
	else
		good = read_bitmap(bitmap, in, len, count);
	if (!good)
		atomic_store_explicit(&r->bad, true, memory_order_relaxed);
}

enum sl_err sl_places_read(struct sl_places *p, struct sl_place_set *set, struct sl_bytes side, int64_t n,
			   int64_t total, struct sl_fail *fail)
{
	struct reading r = {.p = p, .set = set, .at = p->coded_bytes};
	int64_t blocks = sl_codec_blocks(n);
	struct sl_bytes table;
	size_t at = 0;

	set->n = 0;
	if (sl_bytes_take(&side, (size_t)blocks * 4, &table) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: %zu bytes do not hold the table of %lld blocks",
				   side.len, (long long)blocks);
	set->total = 0;
	for (int64_t b = 0; b < blocks; b++) {
		uint32_t entry = sl_get_u32(table.data + 4 * b), count = entry & ~gaps_flag;
		int64_t len = sl_block_length(n, b), bytes = (len + 7) / 8;

		if (count > len)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: %u kept of %lld", count, (long long)len);
		if (entry & gaps_flag)
			bytes = gaps_bytes(side.data + at, side.len - at, count);
		if (bytes < 0 || (size_t)bytes > side.len - at)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: block %lld passes the end", (long long)b);
		set->count[b] = count;
		set->offset[b] = set->total;
		set->total += count;
		r.at[b] = (uint32_t)at;
		at += (size_t)bytes;
	}
	if (at != side.len || set->total != total)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: %zu bytes and %lld places, declared %zu and %lld", at,
				   (long long)set->total, side.len, (long long)total);
	r.table = table.data;
	r.blocks = side.data;
	set->n = n;
	sl_pool_run(p->pool, blocks, read_block, &r);
	if (r.bad) {
		set->n = 0;
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: one lies beyond its block, or their number is wrong");
	}
	return SL_OK;
}

/* ---- values */

struct gathering {
	const struct sl_places *p;
	const struct sl_place_set *set;
	const float *x;
	sl_f32u *y;
	atomic_bool nonfinite;
};

static void gather_block(void *arg, int64_t block, int worker)
{
	struct gathering *g = arg;
	uint32_t top = 0;

	g->p->loops->gather(g->x + block * SL_CODEC_BLOCK, sl_block_length(g->set->n, block),
			    g->set->bitmap + block * BLOCK_WORDS, g->y + g->set->offset[block], &top);
	if (top >= SL_F32_INF_BITS)
		atomic_store_explicit(&g->nonfinite, true, memory_order_relaxed);
}

enum sl_err sl_places_gather(const struct sl_places *p, const struct sl_place_set *set, const float *x, sl_f32u *y)
{
	struct gathering g = {.p = p, .set = set, .x = x, .y = y};

	sl_pool_run(p->pool, sl_codec_blocks(set->n), gather_block, &g);
	return g.nonfinite ? SL_ERR_NONFINITE : SL_OK;
}

struct expanding {
	const struct sl_places *p;
	const struct sl_place_set *set;
	const struct sl_stage_env *env;
	const sl_f32u *y;
	float *x;
};

static void expand_block(void *arg, int64_t block, int worker)
{
	const struct expanding *e = arg;

	e->p->loops->expand(e->y + e->set->offset[block], sl_block_length(e->set->n, block),
			    e->set->bitmap + block * BLOCK_WORDS, e->x + block * SL_CODEC_BLOCK);
}

/* Expands a tile at a time, so that the stage in front reads it from the first cache. */
static void expand_for_front(void *arg, int64_t block, int worker)
{
	const struct expanding *e = arg;
	const struct sl_codec_loops *loops = sl_codec_storing(e->p->loops);
	int64_t first = block * SL_CODEC_BLOCK, stop = first + sl_block_length(e->set->n, block);
	const sl_f32u *y = e->y + e->set->offset[block];
	float tile[SL_CODEC_TILE];

	for (int64_t n; first < stop; first += n) {
		n = stop - first < SL_CODEC_TILE ? stop - first : SL_CODEC_TILE;
		y += loops->expand(y, n, e->set->bitmap + first / 64, tile);
		e->env->front->restore_run(e->env->front_state, tile, first, n, e->x + first);
	}
	sl_codec_settle(e->p->loops);
}

void sl_places_expand(const struct sl_places *p, const struct sl_place_set *set, const sl_f32u *y,
		      const struct sl_stage_env *env, float *x)
{
	struct expanding e = {.p = p, .set = set, .env = env, .y = y, .x = x};

	sl_pool_run(p->pool, sl_codec_blocks(set->n), env->front != NULL ? expand_for_front : expand_block, &e);
}
