/* The portable loops by name, for tables that take some of them and for the last elements of a faster one. */
#ifndef SL_CODEC_LOOPS_C_H
#define SL_CODEC_LOOPS_C_H

#include "common/codec/loops.h"

void sl_c_minmax(const float *x, int64_t n, struct sl_range *io);
uint32_t sl_c_minmax_cols(const float *x, int64_t rows, int64_t c, float *lo, float *hi);
double sl_c_sum_squares(const float *x, int64_t n, uint32_t *top);
void sl_c_quantize(const float *x, int64_t n, const struct sl_affine *a, const uint16_t *rnd, uint16_t most,
		   uint16_t *code);
void sl_c_dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x);
void sl_c_quantize_cols(const float *x, int64_t n, const float *a, int64_t stride, const uint16_t *rnd, uint16_t most,
			uint16_t *code);
void sl_c_dequantize_cols(const uint16_t *code, int64_t n, const float *a, int64_t stride, float *x);
void sl_c_levels(const float *x, int64_t n, const struct sl_affine *a, const uint16_t *rnd, int bits, uint16_t q,
		 uint16_t *code);
void sl_c_unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x);
void sl_c_bucket_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io);
void sl_c_bucketize(const float *x, int64_t n, const struct sl_buckets *b, uint16_t *code);
void sl_c_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x);
void sl_c_pack(const uint16_t *code, int64_t n, int bits, uint8_t *out);
void sl_c_unpack(const uint8_t *in, int64_t n, int bits, uint16_t *code);
uint32_t sl_c_to_f16(const float *x, int64_t n, uint8_t *out);
uint32_t sl_c_to_bf16(const float *x, int64_t n, uint8_t *out);
void sl_c_from_f16(const uint8_t *in, int64_t n, float *x);
void sl_c_from_bf16(const uint8_t *in, int64_t n, float *x);
void sl_c_random16(const struct sl_rng_key *key, uint64_t first, int64_t n, uint16_t *out);
void sl_c_draw(uint64_t at, uint64_t step, const uint32_t *word, int64_t n, uint32_t wrap, uint32_t *place);
void sl_c_random32(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out);
int64_t sl_c_scan(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap, int64_t *n_cand,
		  int64_t *equal, uint32_t *top);
int64_t sl_c_mark(const float *x, int64_t n, uint32_t least, uint64_t *bitmap, uint32_t *top);
int64_t sl_c_gather(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top);
int64_t sl_c_expand(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x);
int64_t sl_c_places(const uint64_t *bitmap, int64_t n, uint16_t *out);
void sl_c_collect(const uint8_t *flag, int64_t n, uint64_t *bitmap);
void sl_c_mul_xt(const float *x, int64_t m, int64_t c, const float *q, int r, float *p);
void sl_c_mul_x(const float *x, int64_t m, int64_t c, const float *p, int r, float *q);
void sl_c_outer(const float *a, const float *b, int64_t m, int64_t c, int r, float *x);

/* Pattern of a float, without the sign. */
static inline uint32_t sl_magnitude(float x)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &x, sizeof bits);
	return bits & 0x7fffffffu;
}

#endif
