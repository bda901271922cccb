#include "kernels/cpu/group_rows.h"

#include <string.h>

#include "kernels/cpu/impl.h"

/* Copies n pixels' channels, side by side. */
static void copy_pixels(const struct sl_group_rows *r, float *to, const float *from, int64_t n, int64_t all)
{
	enum { EIGHT = 8 }; /* a copy of constant size needs no call, which takes longer than a narrow pixel's copy */
	const int64_t channels = r->channels;

	if (r->lanes != NULL) {
		r->simd->group_mix(to, channels, from, all, r->lanes, (int)r->present, n);
		return;
	}
	for (; n > 0; n--, to += channels, from += all) {
		int64_t c = 0;

		for (; c + EIGHT <= channels; c += EIGHT)
			memcpy(to + c, from + c, EIGHT * sizeof *to);
		if (c < channels)
			memcpy(to + c, from + c, (size_t)(channels - c) * sizeof *to);
	}
}

void sl_group_copy_rows(const struct sl_group_rows *r, const struct sl_group_image *x)
{
	const int64_t row = r->wide * r->channels, begin = sl_cpu_min(r->wide, sl_cpu_max(0, -r->left));
	const int64_t end = sl_cpu_max(begin, sl_cpu_min(r->wide, x->w - r->left));
	float *to = r->to;

	for (int64_t h = r->top; h < r->top + r->rows; h++, to += row) {
		if (h < 0 || h >= x->h) {
			memset(to, 0, (size_t)row * sizeof *to);
			continue;
		}
		memset(to, 0, (size_t)(begin * r->channels) * sizeof *to);
		copy_pixels(r, to + begin * r->channels, x->from + (h * x->w + r->left + begin) * x->all, end - begin,
			    x->all);
		memset(to + end * r->channels, 0, (size_t)((r->wide - end) * r->channels) * sizeof *to);
	}
}
