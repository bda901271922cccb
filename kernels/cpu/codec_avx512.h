/* AVX-512 versions of the codecs' loops (common/codec/loops.h), by name for their table. */
#ifndef SL_CPU_CODEC_AVX512_H
#define SL_CPU_CODEC_AVX512_H

#include "common/codec/loops_c.h"

/* Products are not fused with sums: the portable loops cannot. */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#include <immintrin.h>

void sl_avx512_minmax(const float *x, int64_t n, struct sl_range *io);
uint32_t sl_avx512_minmax_cols(const float *x, int64_t rows, int64_t c, float *lo, float *hi);
double sl_avx512_sum_squares(const float *x, int64_t n, uint32_t *top);
void sl_avx512_quantize(const float *x, int64_t n, const struct sl_affine *a, const uint16_t *rnd, uint16_t most,
			uint16_t *code);
void sl_avx512_dequantize(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x);
void sl_avx512_quantize_cols(const float *x, int64_t n, const float *a, int64_t stride, const uint16_t *rnd,
			     uint16_t most, uint16_t *code);
void sl_avx512_dequantize_cols(const uint16_t *code, int64_t n, const float *a, int64_t stride, float *x);
void sl_avx512_levels(const float *x, int64_t n, const struct sl_affine *a, const uint16_t *rnd, int bits, uint16_t q,
		      uint16_t *code);
void sl_avx512_unlevels(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x);
void sl_avx512_bucket_stats(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io);
void sl_avx512_bucketize(const float *x, int64_t n, const struct sl_buckets *b, uint16_t *code);
void sl_avx512_unbucketize(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x);
void sl_avx512_pack(const uint16_t *code, int64_t n, int bits, uint8_t *out);
void sl_avx512_unpack(const uint8_t *in, int64_t n, int bits, uint16_t *code);
uint32_t sl_avx512_to_f16(const float *x, int64_t n, uint8_t *out);
uint32_t sl_avx512_to_bf16(const float *x, int64_t n, uint8_t *out);
void sl_avx512_from_f16(const uint8_t *in, int64_t n, float *x);
void sl_avx512_from_bf16(const uint8_t *in, int64_t n, float *x);
void sl_avx512_random16(const struct sl_rng_key *key, uint64_t first, int64_t n, uint16_t *out);
void sl_avx512_draw(uint64_t at, uint64_t step, const uint32_t *word, int64_t n, uint32_t wrap, uint32_t *place);
void sl_avx512_random32(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out);
int64_t sl_avx512_scan(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap,
		       int64_t *n_cand, int64_t *equal, uint32_t *top);
int64_t sl_avx512_mark(const float *x, int64_t n, uint32_t least, uint64_t *bitmap, uint32_t *top);
int64_t sl_avx512_gather(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top);
int64_t sl_avx512_expand(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x);
int64_t sl_avx512_places(const uint64_t *bitmap, int64_t n, uint16_t *out);
void sl_avx512_collect(const uint8_t *flag, int64_t n, uint64_t *bitmap);
void sl_avx512_mul_xt(const float *x, int64_t m, int64_t c, const float *q, int r, float *p);
void sl_avx512_mul_x(const float *x, int64_t m, int64_t c, const float *p, int r, float *q);
void sl_avx512_outer(const float *a, const float *b, int64_t m, int64_t c, int r, float *x);

/* Asks for the line 4 KiB further on: passes that do little per element are otherwise held up by memory (the first
 * product of lowrank takes a third of the time with it). Beyond the end it has no effect. A macro, because gcc takes a
 * function that does nothing else for one without effect and leaves it out. */
#define ask_ahead(x) _mm_prefetch((const char *)(x) + 4096, _MM_HINT_T0)

/* Pattern without the sign. */
static inline __m512i magnitude16(__m512 x)
{
	return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

#endif
