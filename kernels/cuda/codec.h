/* Codecs on the device: the kernels as C functions that queue work (the rules of launch.h hold), and what the
 * stages share.
 *
 * The kernels, codec_*.cu, use only what C and CUDA C++ have in common, so that tests/support/cuda_sim can
 * run them on a CPU. They are built without contraction (-fmad=false): every float is rounded as the portable
 * loops round it, and payloads are the same bytes.
 *
 * A "block" is SL_CODEC_BLOCK elements, as in common/codec; kernels on places have one block of threads for
 * each. A bitmap has CU_BLOCK_WORDS words of 32 bits for a block, the lowest bit first. Names in capitals
 * behind a function, such as NONFINITE, are the words of cu_status that it reports. */
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
	CU_GAPS = 256, /* gaps that share one bit width: SL_PLACES_GROUP */
	CU_F32_INF_BITS = 0x7f800000,
	CU_SELECT_BINS = 2048,
	CU_SELECT_PASSES = 3,
	CU_CODE_PAD = 8 /* spare bytes behind packed codes: kernels access whole words */
};

/* The results that kernels report, as words of device memory. They are zero before a call; the host reads them at its
 * end. */
enum cu_status {
	CU_STATUS_NONFINITE, /* largest magnitude seen, as |bits|; NaN or Inf if ≥ CU_F32_INF_BITS. Smaller ones need
			      * not be reported */
	CU_STATUS_BAD,       /* not 0: the payload is invalid */
	CU_STATUS_LOW,       /* ~ordered bits of the least value; see `ordered` in codec_codes.h */
	CU_STATUS_HIGH,      /* ordered bits of the largest value */
	CU_STATUS_BYTES,     /* length of coded places, or of a payload whose length only the device knows */
	CU_STATUS_KEPT,      /* number of places kept */
	CU_STATUS_DONE,      /* blocks of a kernel that have ended, while it runs (is_last_block in codec_grid.h) */
	CU_STATUS_AFFINE,    /* the coefficients of codes with one scale: six floats (struct affine) */
	CU_STATUS_WORDS = CU_STATUS_AFFINE + 6
};

/* `said`, below: a word of device memory with the number of elements, at most `n`, if only the device knows
 * it. NULL: there are `n`. Only encoders get one; they then report BYTES. */

/* ---- codec_half.cu: IEEE half, bfloat16 ---- */
cudaError_t cu_to_half(cudaStream_t s, uint16_t *out, uint32_t *status, const float *x, bool bf16, int64_t n,
		       const uint32_t *said);
cudaError_t cu_from_half(cudaStream_t s, float *x, const uint16_t *in, bool bf16, int64_t n, const uint32_t *said);
/* out = x */
cudaError_t cu_copy_said(cudaStream_t s, float *out, uint32_t *status, const float *x, int64_t n, const uint32_t *said);
cudaError_t cu_check_finite(cudaStream_t s, uint32_t *status, const float *x, int64_t n);
/* Copies *bytes bytes (a word of device memory), at most `most`, from device memory to `host`; both begin at
 * a multiple of 8. `host` is page-locked: the device writes to it. Few blocks, so that it runs beside kernels
 * that compute. */
cudaError_t cu_carry(cudaStream_t s, void *host, const void *from, const uint32_t *bytes, int64_t most);
cudaError_t cu_combine(cudaStream_t s, float *out, const float *a, const float *b, float sign, int64_t n);

/* ---- codec_levels.cu: affine codes and levels, one scale for the tensor ---- */
enum cu_code_kind { CU_CODE_NEAREST, CU_CODE_STOCHASTIC, CU_CODE_LEVELS };
struct cu_codes {
	enum cu_code_kind kind;
	bool dither;   /* of a STOCHASTIC code: decoding takes it off, by the same key */
	int bits;      /* of a code in the payload, including the sign of a level */
	uint32_t most; /* largest code or level */
	uint32_t mask; /* of the bits of a code that hold it or its level */
	int64_t n;     /* elements, ≥ 1 */
	const uint32_t *said;
	struct cu_philox key; /* unused for NEAREST */
	uint8_t *payload;     /* floats {min, max} or, for LEVELS, {scale}; then the packed codes; then CU_CODE_PAD
			       * spare bytes */
};
size_t cu_codes_bytes(const struct cu_codes *c); /* of the payload, without the padding */
/* Writes the head of the payload, and AFFINE. partial [blocks]: sums of squares in the order of
 * sl_codec_loops.sum_squares; NULL: the scale is the largest magnitude. LOW, HIGH, NONFINITE. */
cudaError_t cu_codes_measure(cudaStream_t s, const struct cu_codes *c, double *partial, uint32_t *status,
			     const float *x);
/* `squared`: measure had a `partial`. */
cudaError_t cu_codes_encode(cudaStream_t s, const struct cu_codes *c, bool squared, const uint32_t *status,
			    const float *x);
cudaError_t cu_codes_check(cudaStream_t s, uint32_t *status,
			   const struct cu_codes *c); /* BAD: a level is above `most` */
/* `refused`: a word of device memory; if it is not 0, x is left unchanged. May be NULL. */
cudaError_t cu_codes_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_codes *c);

/* ---- codec_groups.cu: the same with a scale for every group ---- */
enum { CU_GROUP_SMALL = 1024 }; /* largest group that is measured by 16 threads */
struct cu_grouped {
	struct cu_codes codes;      /* its payload: all heads, then the packed codes */
	bool channels;              /* element i is in group i % count; else in group i / size, size ≤ n */
	int64_t size, count, parts; /* parts: blocks of CU_BLOCK elements in a group */
	uint32_t *low, *high;       /* [count]: ordered bits of the extremes; for LEVELS high is the largest |bits| */
	double *partial; /* [count · parts], sums of squares; NULL: ranges, or the scale is the largest magnitude */
	float *table;    /* [count][6]: coefficients (struct affine) */
};
size_t cu_groups_bytes(const struct cu_grouped *g);
cudaError_t cu_groups_measure(cudaStream_t s, const struct cu_grouped *g, uint32_t *status,
			      const float *x); /* NONFINITE */
cudaError_t cu_groups_heads(cudaStream_t s, const struct cu_grouped *g, uint32_t *status);
cudaError_t cu_groups_coefficients(cudaStream_t s, const struct cu_grouped *g); /* from the heads */
cudaError_t cu_groups_encode(cudaStream_t s, const struct cu_grouped *g, const float *x);
cudaError_t cu_groups_check(cudaStream_t s, uint32_t *status,
			    const struct cu_grouped *g); /* BAD: a level is above `most` */
cudaError_t cu_groups_decode(cudaStream_t s, float *x, const uint32_t *refused, const struct cu_grouped *g);

/* ---- codec_select.cu: the exact k-th largest magnitude, and a bitmap of what is kept ---- */
struct cu_known { /* first bits of the wanted key; its rank, from 1 for the largest, among keys with that prefix;
		   * their number */
	uint32_t prefix, rank, inside;
};
struct cu_selection {   /* in device memory */
	uint32_t least; /* |bits| of the k-th largest */
	uint32_t ties;  /* of the elements equal to `least` so many are kept, the first ones */
	/* while selecting. The sample's estimate: low ≤ k-th < high. Elements ≥ high; elements in the list */
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
	uint32_t room; /* capacity of the list; it changes no result */
};
struct cu_shares { /* [blocks] each: elements above and equal to sel->least; kept before the block; ties kept of it */
	uint32_t *above, *equal, *offset, *quota;
};
/* Finds the k-th largest magnitude, 1 ≤ k ≤ n, and the blocks' shares. bitmap marks |bits| ≥ sel->least. NONFINITE,
 * KEPT. */
cudaError_t cu_select(cudaStream_t s, const struct cu_search *search, uint32_t *bitmap, const struct cu_shares *to,
		      uint32_t *status, const float *x, int64_t n, int64_t k);
/* The same for a known sel->least. */
cudaError_t cu_mark(cudaStream_t s, uint32_t *bitmap, const struct cu_shares *to, uint32_t *status, const float *x,
		    const struct cu_selection *sel, int64_t n);

/* ---- codec_places.cu ---- */
/* y = the marked elements in order. NONFINITE, for all elements, marked or not. */
cudaError_t cu_gather(cudaStream_t s, float *y, uint32_t *status, const float *x, const uint32_t *bitmap,
		      const uint32_t *offset, int64_t n);
/* `refused` as in cu_codes_decode. */
cudaError_t cu_expand(cudaStream_t s, float *x, const float *y, const uint32_t *bitmap, const uint32_t *offset,
		      const uint32_t *refused, int64_t n);
/* Clears the marks of ties beyond their block's quota, gathers the marked elements to y, and codes the bitmap to the
 * side bytes of places. Scratch: place [blocks][CU_BLOCK], coded [blocks][CU_BLOCK_BYTES], entry, size [blocks].
 * BYTES: the length of `side`. */
struct cu_place_coding {
	uint16_t *place;
	uint8_t *coded;
	uint32_t *entry, *size;
	uint8_t *side;
};
cudaError_t cu_keep(cudaStream_t s, const struct cu_place_coding *p, uint32_t *status, uint32_t *bitmap,
		    const struct cu_shares *shares, const struct cu_selection *sel, const float *x, float *y,
		    int64_t n);
/* Decodes side bytes to a bitmap. The index has for every block its entry (count; top bit: coded as gaps),
 * its offset behind the table and its first group; for every group of gaps the offset of its width. The host
 * has checked that all these offsets are inside the side bytes. BAD: a place is beyond its block, or the
 * number of places or a spare bit is wrong; even then a block has no more marks than its entry says. */
struct cu_place_index {
	const uint32_t *entry, *at, *group, *group_at;
};
cudaError_t cu_places_read(cudaStream_t s, uint32_t *bitmap, uint32_t *status, const uint8_t *coded,
			   const struct cu_place_index *index, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
