/* The outer loops of sortquant: they choose among the loops over whole registers, and leave the
 * remaining elements to the portable code. For a file of one SIMD level, which defines
 *   NAME(x)                                  names of the functions
 *   STATS_AT_ONCE, CODES_AT_ONCE             elements per step of those loops, powers of two
 *   tile_stats(x, n, b, io, ties)            n ≤ SL_CODEC_TILE, a multiple of STATS_AT_ONCE
 *   bucketize(x, n, b, rnd, code, count, scaled)  n a multiple of CODES_AT_ONCE; not `scaled`: every `pre` is 1
 * The last arguments, from `ties` and `count` on, are constants. */
void NAME(bucket_stats)(const float *x, int64_t n, const struct sl_buckets *b, struct sl_bucket_stats *io)
{
	int64_t whole = n & ~(int64_t)(STATS_AT_ONCE - 1);

	for (int64_t i = 0; i < whole; i += SL_CODEC_TILE) {
		int64_t some = whole - i < SL_CODEC_TILE ? whole - i : SL_CODEC_TILE;

		NAME(minmax)(x + i, some, &io->range);
		if (b->ties)
			tile_stats(x + i, some, b, io, true);
		else
			tile_stats(x + i, some, b, io, false);
	}
	sl_c_bucket_stats(x + whole, n - whole, b, io);
}

INLINE void bucketize_any(const float *x, int64_t n, const struct sl_buckets *b, const uint32_t *rnd, uint16_t *code,
			  bool scaled)
{
	switch (b->count) {
	case 2:
		bucketize(x, n, b, rnd, code, 2, scaled);
		break;
	case 4:
		bucketize(x, n, b, rnd, code, 4, scaled);
		break;
	case 8:
		bucketize(x, n, b, rnd, code, 8, scaled);
		break;
	default:
		bucketize(x, n, b, rnd, code, 16, scaled);
		break;
	}
}

void NAME(bucketize)(const float *x, int64_t n, const struct sl_buckets *b, const uint32_t *rnd, uint16_t *code)
{
	int64_t whole = n & ~(int64_t)(CODES_AT_ONCE - 1);
	bool scaled = false;

	for (int k = 0; k < b->count; k++)
		scaled = scaled || b->pre[k] != 1;
	if (scaled)
		bucketize_any(x, whole, b, rnd, code, true);
	else
		bucketize_any(x, whole, b, rnd, code, false);
	sl_c_bucketize(x + whole, n - whole, b, rnd == NULL ? NULL : rnd + whole, code + whole);
}
