#include "common/codec/groups.h"

#include <stdlib.h>

#include "common/base/pool.h"
#include "common/base/worker.h"

struct measure {
	struct sl_groups *g;
	const struct sl_codec_loops *loops;
	const float *x;
	bool squares;
	int64_t blocks; /* in a group, if groups are larger than SL_CODEC_BLOCK */
	int64_t groups; /* in a block, if groups are smaller */
};

void sl_groups_memory(int64_t n, int64_t most, struct sl_memory *need)
{
	sl_need(&need->host, sl_codec_blocks(n) + 2 * most + 2, sizeof(struct sl_group_stat));
}

enum sl_err sl_groups_open(struct sl_groups *g, int64_t n, int64_t most, struct sl_fail *fail)
{
	*g = (struct sl_groups){0};
	g->stat = calloc((size_t)most + 1, sizeof *g->stat);
	g->partial = calloc((size_t)(sl_codec_blocks(n) + most + 1), sizeof *g->partial);
	if (g->stat == NULL || g->partial == NULL) {
		sl_groups_close(g);
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for %lld groups", (long long)most);
	}
	return SL_OK;
}

void sl_groups_close(struct sl_groups *g)
{
	free(g->stat);
	free(g->partial);
	*g = (struct sl_groups){0};
}

static int64_t end_of(const struct sl_groups *g, int64_t group)
{
	int64_t stop = (group + 1) * g->size;

	return stop < g->n ? stop : g->n;
}

static void measure_run(const struct sl_codec_loops *loops, const float *x, bool squares, int64_t first, int64_t stop,
			struct sl_group_stat *out)
{
	*out = (struct sl_group_stat){SL_RANGE_EMPTY, 0};
	if (squares)
		out->squares = loops->sum_squares(x + first, stop - first, &out->range.top);
	else
		loops->minmax(x + first, stop - first, &out->range);
}

bool sl_groups_measure_some(struct sl_groups *g, const struct sl_codec_loops *loops, const float *x, bool squares,
			    int64_t first, int64_t stop)
{
	bool finite = true;

	for (int64_t group = first; group < stop; group++) {
		measure_run(loops, x, squares, group * g->size, end_of(g, group), &g->stat[group]);
		finite = finite && g->stat[group].range.top < SL_F32_INF_BITS;
	}
	return finite;
}

static void measure_part(void *arg, int64_t block, int worker)
{
	const struct measure *m = arg;
	int64_t group = block / m->blocks;
	int64_t first = group * m->g->size + block % m->blocks * SL_CODEC_BLOCK;
	int64_t stop = first + SL_CODEC_BLOCK, end = end_of(m->g, group);

	if (stop > end)
		stop = end;
	measure_run(m->loops, m->x, m->squares, first, stop, &m->g->partial[block]);
}

static void measure_groups(void *arg, int64_t block, int worker)
{
	const struct measure *m = arg;
	int64_t first = block * m->groups, stop = first + m->groups;

	/* the caller finds NaN and Inf in stat[] */
	sl_groups_measure_some(m->g, m->loops, m->x, m->squares, first, stop < m->g->count ? stop : m->g->count);
}

/* Joins the `blocks` partial results of a group, from p on, in their order: the sum does not depend on who computed
 * them. */
static void join(struct sl_group_stat *s, const struct sl_group_stat *p, int64_t blocks)
{
	*s = *p++;
	for (; --blocks > 0; p++) {
		s->squares += p->squares;
		s->range.min = p->range.min < s->range.min ? p->range.min : s->range.min;
		s->range.max = p->range.max > s->range.max ? p->range.max : s->range.max;
		s->range.top = p->range.top > s->range.top ? p->range.top : s->range.top;
	}
}

/* Measures the part of each sample that lies in a block. The next part is in the next block or of the next group, so
 * block + group is a unique index. */
static void measure_parts(void *arg, int64_t block, int worker)
{
	const struct measure *m = arg;
	int64_t at = block * SL_CODEC_BLOCK, stop = at + SL_CODEC_BLOCK < m->g->n ? at + SL_CODEC_BLOCK : m->g->n, run;

	for (; at < stop; at += run) {
		int64_t group = sl_groups_find(m->g, at);

		run = sl_groups_run(m->g, at, stop);
		measure_run(m->loops, m->x, m->squares, at, at + run, &m->g->partial[block + group]);
	}
}

static void measure_samples(struct measure *m, struct sl_pool *pool)
{
	const struct sl_groups *g = m->g;

	sl_pool_run(pool, sl_codec_blocks(g->n), measure_parts, m);
	for (int64_t group = 0; group < g->count; group++) {
		int64_t first = sl_extent_at(g->by, group) / SL_CODEC_BLOCK;
		int64_t last = (sl_extent_at(g->by, group + 1) - 1) / SL_CODEC_BLOCK;

		join(&g->stat[group], &g->partial[first + group], last - first + 1);
	}
}

enum sl_err sl_groups_measure(struct sl_groups *g, const struct sl_codec_loops *loops, struct sl_pool *pool,
			      const float *x, bool squares)
{
	struct measure m = {.g = g, .loops = loops, .x = x, .squares = squares};

	if (g->n == 0) {
		g->stat[0] = (struct sl_group_stat){0};
		return SL_OK;
	}
	if (g->by != NULL) {
		measure_samples(&m, pool);
	} else if (g->size >= SL_CODEC_BLOCK) {
		/* the last group may be far smaller: `partial` has no room for blocks that it does not have */
		int64_t last = g->count - 1, in_last = sl_codec_blocks(g->n - last * g->size);

		m.blocks = sl_codec_blocks(g->size);
		sl_pool_run(pool, last * m.blocks + in_last, measure_part, &m);
		for (int64_t group = 0; group < g->count; group++)
			join(&g->stat[group], &g->partial[group * m.blocks], group < last ? m.blocks : in_last);
	} else {
		m.groups = SL_CODEC_BLOCK / g->size;
		sl_pool_run(pool, (g->count + m.groups - 1) / m.groups, measure_groups, &m);
	}
	for (int64_t group = 0; group < g->count; group++) {
		if (group % SL_CODEC_BLOCK == 0)
			sl_worker_turn();
		if (g->stat[group].range.top >= SL_F32_INF_BITS)
			return SL_ERR_NONFINITE;
	}
	return SL_OK;
}

/* Measures the groups of the stretch that begins with element `first`, and writes their heads. False: NaN or Inf. */
static bool write_stretch(struct sl_tiled *t, int64_t first)
{
	const int64_t group = first / t->groups.size, more = sl_groups_stretch(&t->groups) / t->groups.size;
	const int64_t stop = group + more < t->groups.count ? group + more : t->groups.count;

	if (!sl_groups_measure_some(&t->groups, t->env.loops, t->x, t->squares, group, stop))
		return false;
	t->kind->write(t, group, stop);
	return true;
}

static void encode_block(void *arg, int64_t block, int worker)
{
	struct sl_tiled *t = arg;
	int64_t first = block * SL_CODEC_BLOCK, stop = sl_tiled_block_end(t, first), end;
	uint16_t code[SL_CODEC_TILE];
	uint32_t rnd[SL_CODEC_TILE];

	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		if (t->within && first % sl_groups_stretch(&t->groups) == 0 && !write_stretch(t, first)) {
			atomic_store_explicit(&t->bad, true, memory_order_relaxed);
			return;
		}
		t->kind->encode(t, first, end, code, rnd);
	}
}

static void decode_block(void *arg, int64_t block, int worker)
{
	struct sl_tiled *t = arg;
	int64_t first = block * SL_CODEC_BLOCK, stop = sl_tiled_block_end(t, first), end;
	uint16_t code[SL_CODEC_TILE];

	if (t->within)
		t->kind->read(t, first / t->groups.size, sl_groups_count(stop, t->groups.size));
	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		t->kind->decode(t, first, end, code);
	}
	sl_codec_settle(t->env.loops);
}

void sl_tiled_in_pieces(struct sl_tiled *t, int64_t count, void (*fn)(struct sl_tiled *t, int64_t first, int64_t stop))
{
	for (int64_t at = 0; at < count; at += SL_CODEC_BLOCK) {
		sl_worker_turn();
		fn(t, at, count - at < SL_CODEC_BLOCK ? count : at + SL_CODEC_BLOCK);
	}
}

enum sl_err sl_tiled_encode(struct sl_tiled *t, const struct sl_codec_call *call, const float *x, bool measured,
			    struct sl_buf *out, size_t bytes)
{
	enum sl_err err;

	t->x = x;
	t->key = sl_codec_key(t->env.seed, t->env.dir, call, SL_STAGE_QUANTIZER);
	t->heads_out = out->data + out->len;
	t->out = t->heads_out + (size_t)t->heads * t->kind->head_bytes;
	t->bad = false;
	if (!t->within) {
		err = measured ? SL_OK : sl_groups_measure(&t->groups, t->env.loops, t->env.pool, x, t->squares);
		if (err)
			return err;
		sl_tiled_in_pieces(t, t->heads, t->kind->write);
	}
	sl_pool_run(t->env.pool, sl_codec_blocks(t->groups.n), encode_block, t);
	if (t->bad)
		return SL_ERR_NONFINITE;
	out->len += bytes;
	return SL_OK;
}

struct check {
	struct sl_tiled *t;
	int width;
	uint16_t mask, most;
};

static void check_block(void *arg, int64_t block, int worker)
{
	const struct check *c = arg;
	struct sl_tiled *t = c->t;
	int64_t first = block * SL_CODEC_BLOCK, stop = sl_tiled_block_end(t, first), end;
	uint16_t code[SL_CODEC_TILE], most = 0;

	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		t->env.loops->unpack(t->in + first * c->width / 8, end - first, c->width, code);
		for (int64_t i = 0; i < end - first; i++)
			most = (code[i] & c->mask) > most ? code[i] & c->mask : most;
	}
	if (most > c->most)
		atomic_store_explicit(&t->bad, true, memory_order_relaxed);
}

bool sl_tiled_check(struct sl_tiled *t, struct sl_bytes in, int width, uint16_t mask, uint16_t most)
{
	struct check c = {t, width, mask, most};

	t->in = in.data + (size_t)t->heads * t->kind->head_bytes;
	t->bad = false;
	if (most != mask)
		sl_pool_run(t->env.pool, sl_codec_blocks(t->groups.n), check_block, &c);
	return !t->bad;
}

void sl_tiled_decode(struct sl_tiled *t, struct sl_bytes in, float *x)
{
	t->heads_in = in.data;
	t->in = in.data + (size_t)t->heads * t->kind->head_bytes;
	t->y = x;
	if (!t->within)
		sl_tiled_in_pieces(t, t->heads, t->kind->read);
	sl_pool_run(t->env.pool, sl_codec_blocks(t->groups.n), decode_block, t);
}
