/* The portable loops over places, and low-rank products; see body_stats.h. */
#include <string.h>

#include "common/codec/loops_c.h"

BODY int64_t NAME(scan)(const float *x, int64_t n, uint32_t lo, uint32_t hi, uint32_t *cand, int64_t cap,
			int64_t *n_cand, int64_t *equal, uint32_t *top)
{
	int64_t above = 0, found = 0, same = 0;
	uint32_t most = *top;

	for (int64_t i = 0; i < n; i++) {
		uint32_t m = sl_magnitude(x[i]);

		most = m > most ? m : most;
		above += m >= hi;
		same += m == lo;
		if (m > lo && m < hi) {
			if (found < cap)
				cand[found] = m;
			found++;
		}
	}
	*n_cand = found;
	*equal = same;
	*top = most;
	return above;
}

BODY int64_t NAME(mark)(const float *x, int64_t n, uint32_t least, uint64_t *bitmap, uint32_t *top)
{
	int64_t count = 0;
	uint32_t most = *top;

	for (int64_t i = 0; i < n; i += 64) {
		int64_t width = n - i < 64 ? n - i : 64;
		uint64_t word = 0;

		for (int64_t j = 0; j < width; j++) {
			uint32_t m = sl_magnitude(x[i + j]);

			most = m > most ? m : most;
			word |= (uint64_t)(m >= least) << j;
		}
		bitmap[i / 64] = word;
		count += __builtin_popcountll(word);
	}
	*top = most;
	return count;
}

BODY int64_t NAME(gather)(const float *x, int64_t n, const uint64_t *bitmap, sl_f32u *y, uint32_t *top)
{
	struct sl_range range = {0, 0, *top};
	int64_t count = 0;

	NAME(minmax)(x, n, &range);
	*top = range.top;

	for (int64_t i = 0; i < n; i += 64) {
		for (uint64_t word = bitmap[i / 64]; word != 0; word &= word - 1)
			y[count++] = x[i + __builtin_ctzll(word)];
	}
	return count;
}

BODY int64_t NAME(expand)(const sl_f32u *y, int64_t n, const uint64_t *bitmap, float *x)
{
	int64_t count = 0;

	memset(x, 0, (size_t)n * sizeof *x);
	for (int64_t i = 0; i < n; i += 64) {
		for (uint64_t word = bitmap[i / 64]; word != 0; word &= word - 1)
			x[i + __builtin_ctzll(word)] = y[count++];
	}
	return count;
}

BODY int64_t NAME(places)(const uint64_t *bitmap, int64_t n, uint16_t *out)
{
	int64_t count = 0;

	for (int64_t i = 0; i < n; i += 64) {
		for (uint64_t word = bitmap[i / 64]; word != 0; word &= word - 1)
			out[count++] = (uint16_t)(i + __builtin_ctzll(word));
	}
	return count;
}

BODY void NAME(collect)(const uint8_t *flag, int64_t n, uint64_t *bitmap)
{
	for (int64_t i = 0; i < n; i += 64) {
		uint64_t word = 0;

		for (int j = 0; j < 64; j += 8) {
			uint64_t eight;

			memcpy(&eight, flag + i + j, sizeof eight);
			/* byte k of the factor moves flag k to bit 56 + k */
			word |= (eight * 0x0102040810204080u >> 56) << j;
		}
		bitmap[i / 64] = word;
	}
}

BODY void NAME(draw)(uint64_t at, uint64_t step, const uint32_t *word, int64_t n, uint32_t wrap, uint32_t *place)
{
	uint32_t start = (uint32_t)(at >> 32);

	for (int64_t j = 0; j < n; j++) {
		uint32_t next = (uint32_t)((at += step) >> 32);
		uint32_t p = start + (uint32_t)((uint64_t)word[j] * (next - start) >> 32);

		place[j] = p >= wrap ? p - wrap : p;
		start = next;
	}
}

BODY void NAME(mul_xt)(const float *x, int64_t m, int64_t c, const float *q, int r, float *p)
{
	memset(p, 0, (size_t)(r * c) * sizeof *p);
	for (int64_t i = 0; i < m; i++) {
		for (int j = 0; j < r; j++) {
			float w = q[j * m + i];

			for (int64_t k = 0; k < c; k++)
				p[j * c + k] += x[i * c + k] * w;
		}
	}
}

BODY void NAME(mul_x)(const float *x, int64_t m, int64_t c, const float *p, int r, float *q)
{
	for (int64_t i = 0; i < m; i++) {
		for (int j = 0; j < r; j++) {
			float sum = 0;

			for (int64_t k = 0; k < c; k++)
				sum += x[i * c + k] * p[j * c + k];
			q[j * m + i] = sum;
		}
	}
}

BODY void NAME(outer)(const float *a, const float *b, int64_t m, int64_t c, int r, float *x)
{
	for (int64_t i = 0; i < m; i++) {
		float *row = x + i * c;

		for (int64_t k = 0; k < c; k++)
			row[k] = a[i] * b[k];
		for (int j = 1; j < r; j++) {
			float w = a[j * m + i];

			for (int64_t k = 0; k < c; k++)
				row[k] += w * b[j * c + k];
		}
	}
}
