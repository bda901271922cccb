/* Runs of consecutive elements that share a scale: the whole tensor, a sample, a block, a bucket. */
#ifndef SL_CODEC_GROUPS_H
#define SL_CODEC_GROUPS_H

#include <stdatomic.h>

#include "common/codec/stage.h"

struct sl_group_stat {
	struct sl_range range;
	double squares;
};

struct sl_groups {
	int64_t n, size, count;     /* elements; elements of a group, the last may have fewer; groups */
	const struct sl_extent *by; /* if not NULL, a group is a sample of this ragged tensor, and size is 0 */
	struct sl_group_stat *stat; /* [most groups] */
	struct sl_group_stat *partial;
};

/* The number of groups of `size` elements; 0: one group. n = 0 gives one empty group, or none if size > 0. */
static inline int64_t sl_groups_count(int64_t n, int64_t size)
{
	return size == 0 ? 1 : (n + size - 1) / size;
}

void sl_groups_memory(int64_t n, int64_t most, struct sl_memory *need);
/* Memory for tensors of at most n elements in at most `most` groups. NOMEM. */
enum sl_err sl_groups_open(struct sl_groups *g, int64_t n, int64_t most, struct sl_fail *fail);
void sl_groups_close(struct sl_groups *g);

static inline void sl_groups_set(struct sl_groups *g, int64_t n, int64_t size)
{
	g->n = n;
	g->size = size == 0 ? n : size;
	g->count = sl_groups_count(n, size);
	g->by = NULL;
}

/* Makes each sample of a ragged tensor a group. `e` must stay valid until the groups are set again. */
static inline void sl_groups_set_samples(struct sl_groups *g, const struct sl_extent *e)
{
	g->n = sl_shape_count(&e->shape);
	g->size = 0;
	g->count = e->rows;
	g->by = e;
}

/* Fills stat[]: with `squares` the sum of squares and range.top, else the range. NONFINITE. */
enum sl_err sl_groups_measure(struct sl_groups *g, const struct sl_codec_loops *loops, struct sl_pool *pool,
			      const float *x, bool squares);

/* Whether every group lies within one block of the pool. Then the thread of a block measures a few tiles just before
 * it codes them, while they are in its first cache. So the tensor is read from memory once, and no scale is computed
 * serially. */
static inline bool sl_groups_within_blocks(const struct sl_groups *g)
{
	return g->size > 0 && g->size <= SL_CODEC_BLOCK && SL_CODEC_BLOCK % g->size == 0;
}

/* Elements that are measured at once, if sl_groups_within_blocks: whole tiles, whole groups. */
static inline int64_t sl_groups_stretch(const struct sl_groups *g)
{
	return g->size > SL_CODEC_TILE ? g->size : SL_CODEC_TILE;
}

/* Fills stat[] of groups first … stop-1. False: NaN or Inf. Several threads may call it at once. */
bool sl_groups_measure_some(struct sl_groups *g, const struct sl_codec_loops *loops, const float *x, bool squares,
			    int64_t first, int64_t stop);

/* The group of element `at`. */
static inline int64_t sl_groups_find(const struct sl_groups *g, int64_t at)
{
	return g->by == NULL ? at / g->size : sl_extent_find(g->by, at / sl_shape_row(&g->by->shape));
}

/* Elements from `at` to the end of its group, or to `stop`. */
static inline int64_t sl_groups_run(const struct sl_groups *g, int64_t at, int64_t stop)
{
	int64_t end = g->by == NULL ? (at / g->size + 1) * g->size : sl_extent_at(g->by, sl_groups_find(g, at) + 1);

	return (end < stop ? end : stop) - at;
}

/* A quantizer whose payload begins with a head for each group, a range or a scale, from which the group's
 * coefficients follow. Codes come after all heads, tile after tile. Such a quantizer's state begins with this
 * struct. */
struct sl_tiled {
	const struct sl_tiled_kind *kind;
	struct sl_stage_env env;
	struct sl_groups groups;
	bool squares; /* passed to sl_groups_measure */
	/* of the running call */
	int64_t heads;
	bool within; /* sl_groups_within_blocks: heads are coded with the blocks, not before */
	atomic_bool bad;
	struct sl_rng_key key;
	const float *x;
	float *y;
	uint8_t *heads_out, *out;
	const uint8_t *heads_in, *in;
};

struct sl_tiled_kind {
	size_t head_bytes;
	/* write: heads of groups first … stop-1, which are measured, to the payload; read: from it. Both set the
	 * coefficients. */
	void (*write)(struct sl_tiled *t, int64_t first, int64_t stop);
	void (*read)(struct sl_tiled *t, int64_t first, int64_t stop);
	/* Code or decode elements first … stop-1, a tile at most; `code` and `rnd` have room for a tile. */
	void (*encode)(const struct sl_tiled *t, int64_t first, int64_t stop, uint16_t *code, uint32_t *rnd);
	void (*decode)(const struct sl_tiled *t, int64_t first, int64_t stop, uint16_t *code);
};

/* The caller has set kind, groups, heads and within. `measured`: so are all groups. The payload takes `bytes`.
 * NONFINITE. */
enum sl_err sl_tiled_encode(struct sl_tiled *t, const struct sl_codec_call *call, const float *x, bool measured,
			    struct sl_buf *out, size_t bytes);
/* The same fields are set. Whether each of the codes behind the heads of the payload, of `width` bits, has at most
 * `most` in the bits of `mask`. */
bool sl_tiled_check(struct sl_tiled *t, struct sl_bytes in, int width, uint16_t mask, uint16_t most);
/* The same fields are set, and the payload has been checked. */
void sl_tiled_decode(struct sl_tiled *t, struct sl_bytes in, float *x);
/* Calls fn for 0 … count-1, piece by piece, on this thread; a worker's job gives way between pieces. */
void sl_tiled_in_pieces(struct sl_tiled *t, int64_t count, void (*fn)(struct sl_tiled *t, int64_t first, int64_t stop));
/* The end of the block of elements that begins with `first`. */
static inline int64_t sl_tiled_block_end(const struct sl_tiled *t, int64_t first)
{
	return first + SL_CODEC_BLOCK < t->groups.n ? first + SL_CODEC_BLOCK : t->groups.n;
}

#endif
