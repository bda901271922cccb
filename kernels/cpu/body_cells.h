/* Means of cells, and values minus these means, for a file of one SIMD level. That file defines
 * NAME(x), the names of the functions; vec, ivec and LANES come from codec_vec_avx2.h or its
 * counterpart. With STREAMS defined, the constant `stream` chooses stores that bypass the cache.
 * Channels beyond a multiple of LANES are taken one by one. */
#include <string.h>

/* One cell: `width` positions of `lines` lines, w apart. */
INLINE void average_cell(const float *x, int64_t lines, int64_t w, int64_t width, int64_t c, float *mean)
{
	const float share = 1.0f / (float)(lines * width);
	int64_t k = 0;

	for (; k + LANES <= c; k += LANES) {
		vec sum = vec_set1(0);

		for (int64_t i = 0; i < lines; i++) {
			for (int64_t j = 0; j < width; j++) {
				/* the next band, into L2: L1 holds this band, which is read again */
				__builtin_prefetch(x + ((lines + i) * w + j) * c + k, 0, 2);
				sum = vec_add(sum, vec_load(x + (i * w + j) * c + k));
			}
		}
		vec_store(mean + k, vec_mul(sum, vec_set1(share)));
	}
	for (; k < c; k++) {
		float sum = 0;

		for (int64_t i = 0; i < lines; i++) {
			for (int64_t j = 0; j < width; j++)
				sum += x[(i * w + j) * c + k];
		}
		mean[k] = sum * share;
	}
}

void NAME(average_cells)(const float *restrict x, int64_t lines, int64_t w, int64_t f, int64_t c, float *restrict mean)
{
	for (int64_t at = 0; at < w; at += f, mean += c) {
		int64_t width = w - at < f ? w - at : f;

		/* constant sizes for the usual cell, so that its loops unroll */
		if (lines == 2 && width == 2)
			average_cell(x + at * c, 2, w, 2, c, mean);
		else
			average_cell(x + at * c, lines, w, width, c, mean);
	}
}

/* `width` positions of one cell. `stream` is a constant; if it is true, c is a multiple of LANES. */
INLINE ivec subtract_cell(ivec top, uint32_t *rest, const float *x, const uint8_t *mean, int64_t width, int64_t c,
			  float *y, bool stream)
{
	int64_t k = 0;

	for (; k + LANES <= c; k += LANES) {
		const vec v = vec_of_bf16(mean + 2 * k);

		for (int64_t j = 0; j < width; j++) {
			vec left = vec_sub(vec_load(x + j * c + k), v);

			top = ivec_max(top, vec_magnitude(left));
			vec_put(y + j * c + k, left, stream);
		}
	}
	for (; !stream && k < c; k++) {
		for (int64_t j = 0; j < width; j++) {
			float left = x[j * c + k] - sl_bf16_at(mean, k);
			uint32_t bits = sl_magnitude(left);

			memcpy(y + j * c + k, &left, sizeof left);
			*rest = bits > *rest ? bits : *rest;
		}
	}
	return top;
}

INLINE uint32_t subtract_line(const float *x, const uint8_t *mean, int64_t w, int64_t f, int64_t c, float *y,
			      bool stream)
{
	uint32_t rest = 0, most;
	ivec top = ivec_zero();

	for (int64_t at = 0; at < w; at += f, mean += 2 * c) {
		int64_t width = w - at < f ? w - at : f;

		if (width == 2)
			top = subtract_cell(top, &rest, x + at * c, mean, 2, c, y + at * c, stream);
		else
			top = subtract_cell(top, &rest, x + at * c, mean, width, c, y + at * c, stream);
	}
	most = ivec_most(top);
	return most > rest ? most : rest;
}

uint32_t NAME(subtract_cells)(const float *restrict x, const uint8_t *restrict mean, int64_t w, int64_t f, int64_t c,
			      sl_f32u *restrict y)
{
	return subtract_line(x, mean, w, f, c, (void *)y, false);
}

#ifdef STREAMS
uint32_t NAME(stream_subtract_cells)(const float *restrict x, const uint8_t *restrict mean, int64_t w, int64_t f,
				     int64_t c, sl_f32u *restrict y)
{
	if (can_stream((void *)y) && c % LANES == 0)
		return subtract_line(x, mean, w, f, c, (void *)y, true);
	return subtract_line(x, mean, w, f, c, (void *)y, false);
}
#endif

INLINE void add_cell(const float *y, const uint8_t *mean, int64_t width, int64_t c, float *x, bool stream)
{
	int64_t k = 0;

	for (; k + LANES <= c; k += LANES) {
		const vec v = vec_of_bf16(mean + 2 * k);

		for (int64_t j = 0; j < width; j++) {
			vec_put(x + j * c + k, vec_add(vec_load(y + j * c + k), v), stream);
		}
	}
	for (; !stream && k < c; k++) {
		for (int64_t j = 0; j < width; j++) {
			float v;

			memcpy(&v, y + j * c + k, sizeof v);
			x[j * c + k] = v + sl_bf16_at(mean, k);
		}
	}
}

INLINE void add_line(const float *y, const uint8_t *mean, int64_t from, int64_t to, int64_t f, int64_t c, float *x,
		     bool stream)
{
	int64_t end = (from / f + 1) * f;

	mean += 2 * (from / f * c);
	for (int64_t width; from < to; from += width, end += f, mean += 2 * c, y += width * c, x += width * c) {
		width = end < to ? end - from : to - from;
		if (width == 2)
			add_cell(y, mean, 2, c, x, stream);
		else
			add_cell(y, mean, width, c, x, stream);
	}
}

void NAME(add_cells)(const sl_f32u *restrict y, const uint8_t *restrict mean, int64_t from, int64_t to, int64_t f,
		     int64_t c, float *restrict x)
{
	add_line((const void *)y, mean, from, to, f, c, x, false);
}

#ifdef STREAMS
void NAME(stream_add_cells)(const sl_f32u *restrict y, const uint8_t *restrict mean, int64_t from, int64_t to,
			    int64_t f, int64_t c, float *restrict x)
{
	if (can_stream(x) && c % LANES == 0)
		add_line((const void *)y, mean, from, to, f, c, x, true);
	else
		add_line((const void *)y, mean, from, to, f, c, x, false);
}
#endif
