/* Places: the indices of the elements of a tensor that a stage keeps. In memory they are a bitmap, one for each slot
 * if a gradient is paired with the activation. On the wire each block of SL_CODEC_BLOCK elements is the smaller of a
 * bitmap and packed gaps; docs/CODECS.md has the bytes. */
#ifndef SL_CODEC_PLACES_H
#define SL_CODEC_PLACES_H

#include "common/codec/stage.h"

/* The places of one tensor. */
struct sl_place_set {
	int64_t n, total; /* elements; those that are kept. n = 0: not valid */
	uint64_t *bitmap; /* [⌈n/64⌉] */
	uint32_t *count;  /* [blocks] */
	int64_t *offset;  /* [blocks]: elements that earlier blocks keep */
};

struct sl_places {
	const struct sl_codec_loops *loops;
	struct sl_pool *pool;
	int64_t most; /* elements */
	int slots;
	struct sl_place_set *set; /* [slots], or one without sl_places_keep */
	uint8_t *coded;           /* [blocks][SL_PLACES_BLOCK_BYTES] */
	uint32_t *coded_bytes;    /* [blocks]; top bit: packed gaps */
	uint16_t *scratch;        /* [threads][2][SL_PLACES_SCRATCH] */
};

enum {
	SL_PLACES_BLOCK_BYTES = SL_CODEC_BLOCK / 8,
	SL_PLACES_SCRATCH = SL_CODEC_BLOCK + 64,
	SL_PLACES_GROUP = 256 /* gaps that share a width */
};

/* Adds the memory of sl_places_open and, for SL_CODEC_KEEPS, of sl_places_keep. */
void sl_places_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need);
enum sl_err sl_places_open(struct sl_places *p, const struct sl_stage_env *env, struct sl_fail *fail);
void sl_places_close(struct sl_places *p);
/* Keeps one set for each slot from now on. */
enum sl_err sl_places_keep(struct sl_places *p, int slots, struct sl_fail *fail);
static inline struct sl_place_set *sl_places_slot(struct sl_places *p, int slot)
{
	return &p->set[p->slots > 1 ? slot : 0];
}

size_t sl_places_bound(int64_t n);

/* Computes offset[] and total from count[]. */
void sl_places_sum(struct sl_place_set *set);
/* Codes the places of one block, whose bitmap and count are set. A pool's function may call it. */
void sl_places_code(struct sl_places *p, const struct sl_place_set *set, int64_t block, int worker);
/* Appends the table and the blocks, which are all coded, to *side. */
enum sl_err sl_places_write(struct sl_places *p, const struct sl_place_set *set, struct sl_buf *side);
/* Fills *set from side bytes for n elements of which `total` are kept. PAYLOAD; then the set is not valid. */
enum sl_err sl_places_read(struct sl_places *p, struct sl_place_set *set, struct sl_bytes side, int64_t n,
			   int64_t total, struct sl_fail *fail);

/* Copies the values at the places of x to y. NONFINITE if any element of x is not finite. */
enum sl_err sl_places_gather(const struct sl_places *p, const struct sl_place_set *set, const float *x, sl_f32u *y);
/* Writes y to the places in x, and zeros elsewhere. With env->front, also undoes that transform: x is then its
 * input. */
void sl_places_expand(const struct sl_places *p, const struct sl_place_set *set, const sl_f32u *y,
		      const struct sl_stage_env *env, float *x);

/* What stages that keep places have in common. It is the first member of their state, so that `keeper` may point to
 * either. */
struct sl_keeper {
	struct sl_stage_env env;
	struct sl_places places;  /* used if `pair` is NULL */
	struct sl_keeper *pair;   /* the activation's keeper, whose places are used, or NULL */
	struct sl_place_set *set; /* of the running call */
};

size_t sl_keeper_bound(const double *arg, bool paired, const struct sl_extent *in);
void sl_keeper_memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need);
enum sl_err sl_keeper_open(struct sl_keeper *k, const struct sl_stage_env *env, struct sl_fail *fail);
void sl_keeper_close(void *keeper);
enum sl_err sl_keeper_keep(void *keeper, struct sl_fail *fail);
/* `forward` of a paired gradient: gathers its values. BUG if its activation was not coded in this slot. */
enum sl_err sl_keeper_forward(struct sl_keeper *k, const struct sl_codec_call *call, const float *x, int64_t n,
			      sl_f32u *y, struct sl_extent *ys);
enum sl_err sl_keeper_parse(void *keeper, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			    const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail);
enum sl_err sl_keeper_inverse(void *keeper, const struct sl_codec_call *call, const sl_f32u *y,
			      const struct sl_extent *ys, float *x, const struct sl_extent *xs);

static inline int64_t sl_block_length(int64_t n, int64_t block)
{
	int64_t left = n - block * SL_CODEC_BLOCK;

	return left < SL_CODEC_BLOCK ? left : SL_CODEC_BLOCK;
}

#endif
