/* The portable loops of cells; see body_stats.h. */
#include <string.h>

#include "common/codec/loops_c.h"

BODY void NAME(average_cells)(const float *restrict x, int64_t lines, int64_t w, int64_t f, int64_t c,
			      float *restrict mean)
{
	for (int64_t at = 0; at < w; at += f, mean += c) {
		const int64_t width = w - at < f ? w - at : f;
		const float share = 1.0f / (float)(lines * width);

		memset(mean, 0, (size_t)c * sizeof *mean);
		for (int64_t i = 0; i < lines; i++) {
			for (int64_t j = at; j < at + width; j++) {
				for (int64_t k = 0; k < c; k++)
					mean[k] += x[(i * w + j) * c + k];
			}
		}
		for (int64_t k = 0; k < c; k++)
			mean[k] *= share;
	}
}

BODY uint32_t NAME(subtract_cells)(const float *restrict x, const uint8_t *restrict mean, int64_t w, int64_t f,
				   int64_t c, sl_f32u *restrict y)
{
	uint32_t top = 0;

	for (int64_t j = 0; j < w; j++) {
		const uint8_t *m = mean + 2 * (j / f * c);

		for (int64_t k = 0; k < c; k++) {
			float left = x[j * c + k] - sl_bf16_at(m, k);
			uint32_t bits = sl_magnitude(left);

			y[j * c + k] = left;
			top = bits > top ? bits : top;
		}
	}
	return top;
}

BODY void NAME(add_cells)(const sl_f32u *restrict y, const uint8_t *restrict mean, int64_t from, int64_t to, int64_t f,
			  int64_t c, float *restrict x)
{
	for (int64_t j = from; j < to; j++) {
		const uint8_t *m = mean + 2 * (j / f * c);

		for (int64_t k = 0; k < c; k++)
			x[(j - from) * c + k] = y[(j - from) * c + k] + sl_bf16_at(m, k);
	}
}
