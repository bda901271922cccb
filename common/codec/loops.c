/* The table of portable loops; coefficients of affine codes; statistics; randomness. */
#include "common/codec/loops.h"

#include <float.h>

#include "common/codec/loops_c.h"

const struct sl_codec_loops sl_codec_loops_c = {
	.name = "portable",
	.minmax = sl_c_minmax,
	.minmax_cols = sl_c_minmax_cols,
	.sum_squares = sl_c_sum_squares,
	.quantize = sl_c_quantize,
	.dequantize = sl_c_dequantize,
	.quantize_cols = sl_c_quantize_cols,
	.dequantize_cols = sl_c_dequantize_cols,
	.levels = sl_c_levels,
	.unlevels = sl_c_unlevels,
	.bucket_stats = sl_c_bucket_stats,
	.bucketize = sl_c_bucketize,
	.unbucketize = sl_c_unbucketize,
	.pack = sl_c_pack,
	.unpack = sl_c_unpack,
	.to_f16 = sl_c_to_f16,
	.to_bf16 = sl_c_to_bf16,
	.from_f16 = sl_c_from_f16,
	.from_bf16 = sl_c_from_bf16,
	.random16 = sl_c_random16,
	.draw = sl_c_draw,
	.random32 = sl_c_random32,
	.scan = sl_c_scan,
	.mark = sl_c_mark,
	.gather = sl_c_gather,
	.expand = sl_c_expand,
	.places = sl_c_places,
	.collect = sl_c_collect,
	.mul_xt = sl_c_mul_xt,
	.mul_x = sl_c_mul_x,
	.outer = sl_c_outer,
};

/* Ranges below this are moved up by 2^64, so that levels / range stays finite; values are then below 2^-40. */
static const double small_range = 0x1p-64;

struct sl_affine sl_affine_of(float min, float max, int levels)
{
	double range = (double)max - (double)min, pre = 1;

	if (range == 0)
		return (struct sl_affine){.pre = 1, .lo = min, .post = 1, .max = max};
	if (range > FLT_MAX)
		pre = 0.5;
	else if (range < small_range)
		pre = 0x1p64;
	return (struct sl_affine){.pre = (float)pre,
				  .lo = (float)(min * pre),
				  .inv = (float)(levels / (range * pre)),
				  .step = (float)(range * pre / levels),
				  .post = (float)(1 / pre),
				  .max = max};
}

struct sl_affine sl_affine_of_scale(float scale, int q)
{
	struct sl_affine a = sl_affine_of(0, scale, q);

	a.lo = 0;
	return a;
}

enum { LANES = 16 };

void sl_c_minmax(const float *x, int64_t n, struct sl_range *io)
{
	float lo[LANES], hi[LANES];
	uint32_t top[LANES];
	int64_t i = 0;

	for (int j = 0; j < LANES; j++) {
		lo[j] = io->min;
		hi[j] = io->max;
		top[j] = io->top;
	}
	for (; i + LANES <= n; i += LANES) {
		for (int j = 0; j < LANES; j++) {
			float v = x[i + j];
			uint32_t m = sl_magnitude(v);

			lo[j] = v < lo[j] ? v : lo[j];
			hi[j] = v > hi[j] ? v : hi[j];
			top[j] = m > top[j] ? m : top[j];
		}
	}
	for (int j = 0; i < n; i++, j++) {
		float v = x[i];
		uint32_t m = sl_magnitude(v);

		lo[j] = v < lo[j] ? v : lo[j];
		hi[j] = v > hi[j] ? v : hi[j];
		top[j] = m > top[j] ? m : top[j];
	}
	for (int j = 0; j < LANES; j++) {
		io->min = lo[j] < io->min ? lo[j] : io->min;
		io->max = hi[j] > io->max ? hi[j] : io->max;
		io->top = top[j] > io->top ? top[j] : io->top;
	}
	/* -0 and +0 compare equal: which one was met first must not show */
	io->min += 0.0f;
	io->max += 0.0f;
}

uint32_t sl_c_minmax_cols(const float *x, int64_t rows, int64_t c, float *lo, float *hi)
{
	uint32_t top = 0;

	for (int64_t r = 0; r < rows; r++) {
		for (int64_t j = 0; j < c; j++) {
			float v = x[r * c + j];
			uint32_t m = sl_magnitude(v);

			lo[j] = v < lo[j] ? v : lo[j];
			hi[j] = v > hi[j] ? v : hi[j];
			top = m > top ? m : top;
		}
	}
	for (int64_t j = 0; j < c; j++) {
		lo[j] += 0.0f;
		hi[j] += 0.0f;
	}
	return top;
}

double sl_c_sum_squares(const float *x, int64_t n, uint32_t *top)
{
	double sum[LANES] = {0};
	uint32_t most = *top;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		for (int j = 0; j < LANES; j++) {
			double v = x[i + j];
			uint32_t m = sl_magnitude(x[i + j]);

			sum[j] += v * v;
			most = m > most ? m : most;
		}
	}
	for (int j = 0; i < n; i++, j++) {
		double v = x[i];
		uint32_t m = sl_magnitude(x[i]);

		sum[j] += v * v;
		most = m > most ? m : most;
	}
	*top = most;
	for (int width = LANES / 2; width > 0; width /= 2) {
		for (int j = 0; j < width; j++)
			sum[j] += sum[j + width];
	}
	return sum[0];
}

void sl_c_random32(const struct sl_rng_key *key, uint64_t first, int64_t n, uint32_t *out)
{
	for (int64_t i = 0; i < n; i += 4) {
		uint32_t word[4];

		sl_rng_quad(key, (uint32_t)((first + (uint64_t)i) / 4), word);
		for (int j = 0; j < 4 && i + j < n; j++)
			out[i + j] = word[j];
	}
}

void sl_c_random16(const struct sl_rng_key *key, uint64_t first, int64_t n, uint16_t *out)
{
	for (int64_t i = 0; i < n; i += 8) {
		uint32_t word[4];

		sl_rng_quad(key, (uint32_t)((first + (uint64_t)i) / 8), word);
		for (int j = 0; j < 8 && i + j < n; j++)
			out[i + j] = (uint16_t)(word[j / 2] >> 16 * (j % 2));
	}
}
