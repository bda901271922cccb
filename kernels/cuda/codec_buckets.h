/* sortquant: codec_edges.cu finds the edges of its buckets; codec_buckets.cu counts between them and codes. */
#ifndef SL_KERNELS_CUDA_CODEC_BUCKETS_H
#define SL_KERNELS_CUDA_CODEC_BUCKETS_H

#include "kernels/cuda/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	CU_BUCKETS = 16,
	CU_SAMPLE = 65536,                 /* = SL_SAMPLE, asserted in codec_sortquant.c */
	CU_BUCKET_TRIES = 4,               /* rounds with edges from the sample */
	CU_BUCKET_EXACT = CU_BUCKET_TRIES, /* the last round: exact edges, from all of x */
	CU_BUCKET_ROUNDS = CU_BUCKET_EXACT + 1,
	CU_DIGITS = 4, /* digits of a key */
	CU_DIGIT_VALUES = 256
};
struct cu_bucket_round {
	uint32_t settled;          /* not 0: the edges of an earlier round are good enough, and this round is skipped */
	uint32_t ties;             /* not 0: elements equal to an edge may be counted on either side of it */
	uint32_t rank[CU_BUCKETS]; /* rank of edge k ≥ 1 in the sample or in x, 0 for the least */
	/* Ordered bits of edge k ≥ 1 at 3k - 2; in the first round, its neighbours in the sample are at
	 * 3k - 3 and 3k - 1. */
	uint32_t picked[3 * CU_BUCKETS];
	/* Indexed by the number of edges ≤ x: elements; those equal to an edge; ordered bits of the largest
	 * (0: none). */
	uint32_t count[CU_BUCKETS], equal[CU_BUCKETS], most[CU_BUCKETS];
};
struct cu_bucket_search { /* in device memory; each call starts anew */
	struct cu_bucket_round round[CU_BUCKET_ROUNDS];
	uint32_t key[CU_SAMPLE]; /* the portable codec's sample, as ordered bits */
	/* last round: counts by digit, edge and the digit's value; digits of each edge so far; its rank among
	 * keys with them */
	uint32_t bins[CU_DIGITS][CU_BUCKETS * CU_DIGIT_VALUES];
	uint32_t prefix[CU_DIGITS][CU_BUCKETS], rank[CU_DIGITS][CU_BUCKETS];
	float table[CU_BUCKETS][6]; /* coefficients (struct affine) */
};
struct cu_buckets {
	int count, code_bits, bits; /* 2^s, b, b + s of sortquant's arguments s and b */
	bool stochastic;
	int64_t n;
	struct cu_philox key; /* used if stochastic */
	const uint32_t *said;
	uint8_t *payload; /* floats {min, max} of every bucket (min of bucket k ≥ 1 is edge k); then the packed codes;
			   * then CU_CODE_PAD bytes */
};
size_t cu_buckets_bytes(const struct cu_buckets *b); /* of the payload, without the padding */
cudaError_t cu_bucket_sample(cudaStream_t s, struct cu_bucket_search *to, const struct cu_buckets *b, const float *x);
/* For round 0 … CU_BUCKET_TRIES - 1, after the measure of the round before. Skips the round if that was good
 * enough; otherwise takes edges from the sample, at ranks corrected by the counts. */
cudaError_t cu_bucket_pick(cudaStream_t s, struct cu_bucket_search *to, const struct cu_buckets *b, int round);
/* The same for round CU_BUCKET_EXACT: the edges are exact quantiles of x. */
cudaError_t cu_bucket_exact(cudaStream_t s, struct cu_bucket_search *to, uint32_t *status, const struct cu_buckets *b,
			    const float *x);
/* Fills round[round].count, equal, most; writes the head of the payload and `table`, which a later round writes again.
 * LOW, NONFINITE. */
cudaError_t cu_bucket_measure(cudaStream_t s, struct cu_bucket_search *to, uint32_t *status, const struct cu_buckets *b,
			      const float *x, int round);
/* After all rounds. */
cudaError_t cu_bucket_encode(cudaStream_t s, const struct cu_bucket_search *from, const struct cu_buckets *b,
			     const float *x);
cudaError_t cu_bucket_decode(cudaStream_t s, float *x, const struct cu_buckets *b);

#ifdef __cplusplus
}
#endif

#endif
