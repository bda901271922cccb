/* The portable loops of downsample's interpolation and hadamard's butterflies; see body_stats.h. */
#include "common/codec/loops_c.h"

BODY void NAME(interpolate)(const float *restrict top, const float *restrict low, const struct sl_tap *row,
			    const struct sl_tap *cols, int64_t w, int64_t c, float *restrict to)
{
	for (int64_t j = 0; j < w; j++) {
		const struct sl_tap *s = &cols[j];
		const float *a = top + s->at * c, *b = top + s->next * c, *e = low + s->at * c, *g = low + s->next * c;
		const float wa = row->near * s->near, wb = row->near * s->far, we = row->far * s->near,
			    wg = row->far * s->far;

		for (int64_t k = 0; k < c; k++)
			to[j * c + k] = (wa * a[k] + wb * b[k]) + (we * e[k] + wg * g[k]);
	}
}

/* The distances 1, 2 and 4 at once, on eight elements. */
static inline void NAME(butterflies8)(float *x)
{
	float a[8], b[8];

	for (int j = 0; j < 4; j++) {
		a[2 * j] = x[2 * j] + x[2 * j + 1];
		a[2 * j + 1] = x[2 * j] - x[2 * j + 1];
	}
	for (int j = 0; j < 8; j++)
		b[j] = j & 2 ? a[j - 2] - a[j] : a[j] + a[j + 2];
	for (int j = 0; j < 4; j++) {
		x[j] = b[j] + b[j + 4];
		x[j + 4] = b[j] - b[j + 4];
	}
}

BODY void NAME(butterflies)(float *x, int64_t n)
{
	for (int64_t i = 0; i + 8 <= n; i += 8)
		NAME(butterflies8)(x + i);
	for (int64_t d = n < 8 ? 1 : 8; d < n; d *= 2)
		for (int64_t i = 0; i < n; i += 2 * d)
			for (int64_t j = i; j < i + d; j++) {
				const float low = x[j], high = x[j + d];

				x[j] = low + high;
				x[j + d] = low - high;
			}
}
