/* The portable loop of downsample's interpolation; see body_stats.h. */
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
