/* Codecs on the device: the kernels as C functions that queue (the rules of launch.h hold), and what the stages share.
 *
 * The kernels, codec_*.cu, keep to what C and CUDA C++ have in common, so that tests/support/cuda_sim can run them on
 * a CPU. They are built without contraction (-fmad=false): every float is rounded as the portable loops round it, and
 * payloads are the same bytes.
 *
 * "Block": SL_CODEC_BLOCK elements, as in common/codec; one block of threads each where places are concerned. A bitmap
 * has CU_BLOCK_WORDS words of 32 bits a block, the lowest bit first. */
#ifndef SL_KERNELS_CUDA_CODEC_H
#define SL_KERNELS_CUDA_CODEC_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	CU_BLOCK = 65536, /* = SL_CODEC_BLOCK, asserted in codec_stage.c */
	CU_BLOCK_WORDS = CU_BLOCK / 32,
	CU_BLOCK_BYTES = CU_BLOCK / 8,
	CU_GAPS = 256, /* that share a width: SL_PLACES_GROUP */
	CU_F32_INF_BITS = 0x7f800000,
	CU_SELECT_BINS = 2048,
	CU_SELECT_PASSES = 3,
	CU_CODE_PAD = 8 /* bytes behind packed codes that are read or written whole */
};

/* What kernels report, as words of device memory that are zero before a call; the host reads them at its end. */
enum cu_status {
	CU_STATUS_NONFINITE, /* ≥ CU_F32_INF_BITS: |bits| of the largest magnitude seen, at least where it is such */
	CU_STATUS_BAD,       /* a payload that is not one */
	CU_STATUS_LOW,       /* ~ordered bits of the least value; see codec_levels.cu */
	CU_STATUS_HIGH,      /* ordered bits of the largest */
	CU_STATUS_BYTES,     /* of coded places, or of a payload of which only the device knows how long it is */
	CU_STATUS_KEPT,      /* places */
	CU_STATUS_WORDS = 8
};

/* How many elements there are, where only the device knows it: `said`, a word of its memory, at most `n` of them. NULL:
 * `n`. Of an encoder alone; it then says BYTES. */

/* ---- codec_half.cu: IEEE half, bfloat16 ---- */
cudaError_t cu_to_half(cudaStream_t s, uint16_t *out, uint32_t *status, const float *x, bool bf16, int64_t n,
		       const uint32_t *said);
cudaError_t cu_from_half(cudaStream_t s, float *x, const uint16_t *in, bool bf16, int64_t n, const uint32_t *said);
/* out = x, of so many elements */
cudaError_t cu_copy_said(cudaStream_t s, float *out, uint32_t *status, const float *x, int64_t n, const uint32_t *said);
cudaError_t cu_check_finite(cudaStream_t s, uint32_t *status, const float *x, int64_t n);
/* host = from, of `bytes` of device memory so many bytes, `most` at most; both begin at a multiple of 8. `host` is
 * locked, and the device writes to it. Few blocks: it runs beside kernels that compute. */
cudaError_t cu_carry(cudaStream_t s, void *host, const void *from, const uint32_t *bytes, int64_t most);
cudaError_t cu_combine(cudaStream_t s, float *out, const float *a, const float *b, float sign, int64_t n);

/* ---- codec_levels.cu: affine codes and levels, one scale for all ---- */
enum cu_code_kind { CU_CODE_NEAREST, CU_CODE_STOCHASTIC, CU_CODE_LEVELS };
struct cu_codes {
	enum cu_code_kind kind;
	int bits;      /* of a code, with the sign of a level */
	uint32_t most; /* code or level */
	int64_t n;     /* elements, ≥ 1 */
	const uint32_t *said;
	struct cu_philox key; /* but for NEAREST */
	uint8_t *payload;     /* floats {min, max} or, for LEVELS, {scale}; then the packed codes; CU_CODE_PAD more */
};
size_t cu_codes_bytes(const struct cu_codes *c); /* of the payload, without the padding */
cudaError_t cu_range(cudaStream_t s, uint32_t *status, const struct cu_codes *c,
		     const float *x); /* LOW, HIGH, NONFINITE */
/* partial [blocks]: sums of squares in the order of sl_codec_loops.sum_squares; and NONFINITE */
cudaError_t cu_squares(cudaStream_t s, double *partial, uint32_t *status, const struct cu_codes *c, const float *x);
/* The head of the payload from what was measured. partial NULL: the largest magnitude is the scale. */
cudaError_t cu_codes_head(cudaStream_t s, const struct cu_codes *c, const double *partial, uint32_t *status);
cudaError_t cu_codes_encode(cudaStream_t s, const struct cu_codes *c, const float *x);
cudaError_t cu_codes_check(cudaStream_t s, uint32_t *status, const struct cu_codes *c); /* no level above `most` */
/* `refused`: a word of device memory; x is left alone where it is not 0. May be NULL. */
cudaError_t cu_codes_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_codes *c);

/* ---- codec_groups.cu: the same with a scale for every group ---- */
enum { CU_GROUP_SMALL = 1024 }; /* elements of a group that one thread measures */
struct cu_grouped {
	struct cu_codes codes;      /* its payload: all heads, then the packed codes */
	bool channels;              /* group i % count; else i / size, size ≤ n */
	int64_t size, count, parts; /* parts: of CU_BLOCK elements in a group */
	uint32_t *low, *high;       /* [count]: ordered bits, or the largest magnitude's */
	double *partial; /* [count · parts], squares; NULL: the scale is the largest magnitude, or it is no level */
	float *table;    /* [count][6]: coefficients */
};
size_t cu_groups_bytes(const struct cu_grouped *g);
cudaError_t cu_groups_measure(cudaStream_t s, const struct cu_grouped *g, uint32_t *status,
			      const float *x); /* NONFINITE
						*/
cudaError_t cu_groups_heads(cudaStream_t s, const struct cu_grouped *g, uint32_t *status);
cudaError_t cu_groups_coefficients(cudaStream_t s, const struct cu_grouped *g); /* from the heads */
cudaError_t cu_groups_encode(cudaStream_t s, const struct cu_grouped *g, const float *x);
cudaError_t cu_groups_check(cudaStream_t s, uint32_t *status, const struct cu_grouped *g); /* no level above `most` */
cudaError_t cu_groups_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_grouped *g);

/* ---- codec_select.cu: the exact k-th largest magnitude, and the marks of what is kept ---- */
struct cu_known { /* the first bits of a key, the wanted one's rank among those that begin so, 1 the largest; how many
		   */
	uint32_t prefix, rank, inside;
};
struct cu_selection {   /* in device memory */
	uint32_t least; /* |bits| of the k-th largest */
	uint32_t ties;  /* of the elements equal to it so many are kept, the first ones */
	/* while selecting: the sample says low ≤ k-th < high; elements from high on; elements listed */
	uint32_t low, high, sure, listed;
	struct cu_known known[CU_SELECT_PASSES];
};
struct cu_listed {
	uint32_t place, magnitude;
};
struct cu_search { /* all in device memory; bins [CU_SELECT_PASSES][CU_SELECT_BINS] */
	struct cu_selection *sel;
	uint32_t *bins;
	struct cu_listed *list;
	uint32_t room; /* of the list; how much there is changes no result */
};
/* 1 ≤ k ≤ n. bitmap: |bits| ≥ sel->least; above, equal [blocks]: how many are above it, and, where it is not 0, equal
 * to it. NONFINITE. */
cudaError_t cu_select(cudaStream_t s, const struct cu_search *search, uint32_t *bitmap, uint32_t *above,
		      uint32_t *equal, uint32_t *status, const float *x, int64_t n, int64_t k);
/* The same marks and counts for a sel->least that is known. NONFINITE. */
cudaError_t cu_mark(cudaStream_t s, uint32_t *bitmap, uint32_t *above, uint32_t *equal, uint32_t *status,
		    const float *x, const struct cu_selection *sel, int64_t n);
/* count, offset, quota [blocks]: kept of a block; kept before it; ties kept. `equal` becomes right where sel->least is
 * 0. KEPT. */
cudaError_t cu_share(cudaStream_t s, uint32_t *count, uint32_t *offset, uint32_t *quota, uint32_t *status,
		     const uint32_t *above, uint32_t *equal, const struct cu_selection *sel, int64_t n);
/* Clears the marks of ties beyond the quota of their block. */
cudaError_t cu_drop_ties(cudaStream_t s, uint32_t *bitmap, const uint32_t *quota, const uint32_t *equal, const float *x,
			 const struct cu_selection *sel, int64_t n);

/* ---- codec_places.cu ---- */
/* y = the marked elements in order. `check`: NONFINITE of all elements, marked or not. */
cudaError_t cu_gather(cudaStream_t s, float *y, uint32_t *status, const float *x, const uint32_t *bitmap,
		      const uint32_t *offset, bool check, int64_t n);
/* `refused` as for cu_codes_decode. */
cudaError_t cu_expand(cudaStream_t s, float *x, const float *y, const uint32_t *bitmap, const uint32_t *offset,
		      const uint32_t *refused, int64_t n);
/* The side bytes of places: place [blocks][CU_BLOCK], coded [blocks][CU_BLOCK_BYTES], entry, size [blocks]: scratch.
 * BYTES: their number. */
struct cu_place_coding {
	uint16_t *place;
	uint8_t *coded;
	uint32_t *entry, *size;
	uint8_t *side;
};
cudaError_t cu_places_code(cudaStream_t s, const struct cu_place_coding *p, uint32_t *status, const uint32_t *bitmap,
			   int64_t n);
/* The bitmap from side bytes. For every block its entry (count, top bit: gaps), where it begins behind the table, and
 * the first of its groups; for every group of gaps where its width lies. All within the side bytes: the host has hopped
 * through them. BAD where a place is beyond its block, or the number of places or a spare bit is wrong; then, too, a
 * block has no more marks than its entry says. */
struct cu_place_index {
	const uint32_t *entry, *at, *group, *group_at;
};
cudaError_t cu_places_read(cudaStream_t s, uint32_t *bitmap, uint32_t *status, const uint8_t *coded,
			   const struct cu_place_index *index, int64_t n);

/* ---- codec_lowrank.cu: X [M, C] of every sample against A [r, M] and B [r, C], samples `stride` floats apart ---- */
struct cu_factors {
	int64_t samples, m, c;
	int r;
	const float *x; /* [samples][M, C] */
	float *a, *b;   /* the first sample's */
	int64_t stride;
};
/* to[j] = uniform in [-1, 1), words of the stream j < count: the start of every sample. Of the first
 * `rows` samples, each row of `current` [rows][r][count / r] that is not all zero stands in its place. */
cudaError_t cu_factors_start(cudaStream_t s, const struct cu_factors *f, bool a, const struct cu_philox *key,
			     const float *current, int64_t rows);
/* B = Xᵀ·A and A = X·B: sums in ascending order of m, of c, every product rounded before it is added */
cudaError_t cu_factors_b(cudaStream_t s, const struct cu_factors *f);
cudaError_t cu_factors_a(cudaStream_t s, const struct cu_factors *f);
/* Rows of A (or B), modified Gram-Schmidt in double; a row that the others span becomes zero. NONFINITE. */
cudaError_t cu_factors_orthonormal(cudaStream_t s, uint32_t *status, const struct cu_factors *f, bool a);
cudaError_t cu_factors_check(cudaStream_t s, uint32_t *status, const struct cu_factors *f, bool a); /* NONFINITE */
cudaError_t cu_factors_keep(cudaStream_t s, float *pending, const struct cu_factors *f, bool a);
cudaError_t cu_factors_balance(cudaStream_t s, const struct cu_factors *f); /* powers of two between A and B */
cudaError_t cu_factors_product(cudaStream_t s, float *x, const struct cu_factors *f); /* X = Aᵀ·B, f->x not used */

/* ---- sortquant: codec_edges.cu, where its edges lie; codec_buckets.cu, what lies between them, codes ---- */
enum {
	CU_BUCKETS = 16,
	CU_SAMPLE = 65536,                 /* = SL_SAMPLE, asserted in codec_sortquant.c */
	CU_BUCKET_TRIES = 4,               /* rounds with edges from the sample */
	CU_BUCKET_EXACT = CU_BUCKET_TRIES, /* the last round: edges from all of x */
	CU_BUCKET_ROUNDS = CU_BUCKET_EXACT + 1,
	CU_DIGITS = 4, /* of a key */
	CU_DIGIT_VALUES = 256
};
struct cu_bucket_round {
	uint32_t settled;          /* the edges of a round before are good enough: this one is left out */
	uint32_t ties;             /* elements equal to an edge may stand on either side of it */
	uint32_t rank[CU_BUCKETS]; /* of the element that edge k ≥ 1 is, 0 the least, in the sample or in x */
	/* Ordered bits of edge k ≥ 1 at 3k - 2; in the first round, of its neighbours in the sample beside it. */
	uint32_t picked[3 * CU_BUCKETS];
	/* By the number of edges ≤ x: elements, those of them equal to an edge, ordered bits of the largest (0: none).
	 */
	uint32_t count[CU_BUCKETS], equal[CU_BUCKETS], most[CU_BUCKETS];
};
struct cu_bucket_search { /* in device memory; nothing in it outlives a call */
	struct cu_bucket_round round[CU_BUCKET_ROUNDS];
	uint32_t key[CU_SAMPLE]; /* ordered bits of the portable codec's sample */
	/* of the last round: by edge and digit what is counted; what digits before say of the edge, its rank therein */
	uint32_t bins[CU_DIGITS][CU_BUCKETS * CU_DIGIT_VALUES];
	uint32_t prefix[CU_DIGITS][CU_BUCKETS], rank[CU_DIGITS][CU_BUCKETS];
};
struct cu_buckets {
	int count, code_bits, bits; /* 2^s, b, b + s */
	bool stochastic;
	int64_t n;
	struct cu_philox key; /* where it is stochastic */
	const uint32_t *said;
	uint8_t *payload; /* floats {min, max} of every bucket, min of bucket k ≥ 1 being edge k; then the packed
			     codes; CU_CODE_PAD more */
};
size_t cu_buckets_bytes(const struct cu_buckets *b); /* of the payload, without the padding */
cudaError_t cu_bucket_sample(cudaStream_t s, struct cu_bucket_search *to, const struct cu_buckets *b, const float *x);
/* For round 0 … CU_BUCKET_TRIES - 1, behind the measure of the round before: nothing where that was good enough, or the
 * edges that the sample has at ranks moved by its counts. */
cudaError_t cu_bucket_pick(cudaStream_t s, struct cu_bucket_search *to, const struct cu_buckets *b, int round);
/* The same for round CU_BUCKET_EXACT: edges at their share of x. */
cudaError_t cu_bucket_exact(cudaStream_t s, struct cu_bucket_search *to, const struct cu_buckets *b, const float *x);
/* round[round].count … ; LOW, NONFINITE */
cudaError_t cu_bucket_measure(cudaStream_t s, struct cu_bucket_search *to, uint32_t *status, const struct cu_buckets *b,
			      const float *x, int round);
/* The head of the payload, behind all rounds. */
cudaError_t cu_bucket_ranges(cudaStream_t s, const struct cu_bucket_search *from, uint32_t *status,
			     const struct cu_buckets *b);
cudaError_t cu_bucket_encode(cudaStream_t s, const struct cu_buckets *b, const float *x);
cudaError_t cu_bucket_decode(cudaStream_t s, float *x, const struct cu_buckets *b);

#ifdef __cplusplus
}
#endif

#endif
