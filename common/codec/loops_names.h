/* Declares the functions of a table of loops (loops.h) as NAME(x), which the including file defines. */
void NAME(minmax)(const float *x, int64_t n, struct sl_range *io);
uint32_t NAME(minmax_cols)(const float *x, int64_t rows, int64_t c, float *lo, float *hi);
double NAME(sum_squares)(const float *x, int64_t n, uint32_t *top);
void NAME(quantize)(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, uint16_t most,
		    uint16_t *code);
void NAME(dequantize)(const uint16_t *code, int64_t n, const struct sl_affine *a, float *x);
void NAME(quantize_cols)(const float *x, int64_t n, const float *a, int64_t stride, const uint32_t *rnd, uint16_t most,
			 uint16_t *code);
void NAME(dequantize_cols)(const uint16_t *code, int64_t n, const float *a, int64_t stride, float *x);
void NAME(levels)(const float *x, int64_t n, const struct sl_affine *a, const uint32_t *rnd, int bits, uint16_t q,
		  uint16_t *code);
void NAME(unlevels)(const uint16_t *code, int64_t n, const struct sl_affine *a, int bits, float *x);
void NAME(bucket_stats)(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io);
void NAME(bucketize)(const float *x, int64_t n, const struct sl_buckets *b, const uint32_t *rnd, uint16_t *code);
void NAME(unbucketize)(const uint16_t *code, int64_t n, const struct sl_buckets *b, float *x);
void NAME(pack)(const uint16_t *code, int64_t n, int bits, uint8_t *out);
void NAME(unpack)(const uint8_t *in, int64_t n, int bits, uint16_t *code);
uint32_t NAME(to_f16)(const float *x, int64_t n, uint8_t *out);
uint32_t NAME(to_bf16)(const float *x, int64_t n, uint8_t *out);
void NAME(from_f16)(const uint8_t *in, int64_t n, float *x);
void NAME(from_bf16)(const uint8_t *in, int64_t n, float *x);
void NAME(random_halves)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out);
void NAME(draw)(uint64_t at, uint64_t step, const uint32_t *word, int64_t n, uint32_t wrap, uint32_t *place);
void NAME(random32)(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out);
int64_t NAME(scan)(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap, int64_t *n_cand,
		   int64_t *equal, uint32_t *top);
int64_t NAME(mark)(const float *x, int64_t n, uint32_t least, uint64_t *bitmap, uint32_t *top);
int64_t NAME(gather)(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top);
int64_t NAME(expand)(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x);
int64_t NAME(places)(const uint64_t *bitmap, int64_t n, uint16_t *out);
void NAME(collect)(const uint8_t *flag, int64_t n, uint64_t *bitmap);
void NAME(mul_xt)(const float *x, int64_t m, int64_t c, const float *q, int r, float *p);
void NAME(mul_x)(const float *x, int64_t m, int64_t c, const float *p, int r, float *q);
void NAME(outer)(const float *a, const float *b, int64_t m, int64_t c, int r, float *x);
void NAME(interpolate)(const float *restrict top, const float *restrict low, const struct sl_tap *row,
		       const struct sl_tap *cols, int64_t w, int64_t c, float *restrict to);
void NAME(butterflies)(float *x, int64_t n);
void NAME(average_cells)(const float *restrict x, int64_t lines, int64_t w, int64_t f, int64_t c, float *restrict mean);
uint32_t NAME(subtract_cells)(const float *restrict x, const uint8_t *restrict mean, int64_t w, int64_t f, int64_t c,
			      sl_f32u *restrict y);
void NAME(add_cells)(const sl_f32u *restrict y, const uint8_t *restrict mean, int64_t from, int64_t to, int64_t f,
		     int64_t c, float *restrict x);
