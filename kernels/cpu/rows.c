#include "kernels/cpu/rows.h"

#include <string.h>

struct sl_rows sl_rows_open(const struct sl_cpu_simd *simd, const struct sl_conv_dims *d, const float *x, float *memory)
{
	struct sl_rows r = {.simd = simd, .d = d, .x = x, .memory = memory};

	memset(memory, 0, (size_t)sl_rows_floats(d) * sizeof(float));
	return r;
}

void sl_rows_image(struct sl_rows *r, int64_t n)
{
	r->n = n;
	for (int i = 0; i < r->d->kh; i++)
		r->held[i] = -1;
}

/* Copies row h of the slices of a window. */
static void window_row(const struct sl_rows *r, float *to, int64_t h)
{
	const struct sl_conv_dims *d = r->d;
	const int64_t c = d->c / d->taps;

	for (int i = 0; i < d->taps; i++, to += c) {
		const int64_t n = sl_conv_slice(d, r->n, i);
		const float *from = r->x + (n * d->h + h) * d->w * c;

		for (int64_t px = 0; px < d->w; px++)
			for (int64_t k = 0; k < c; k++)
				to[px * d->c + k] = n < 0 ? 0 : from[px * c + k];
	}
}

void sl_rows_of(struct sl_rows *r, int64_t o, const float *seg[SL_ROWS_MOST])
{
	const struct sl_conv_dims *d = r->d;
	const float *image = r->x + r->n * d->h * d->w * d->c;
	int64_t stride = sl_rows_stride(d);

	for (int i = 0; i < d->kh; i++) {
		int64_t h = o * d->stride - d->pad + i, slot = h % d->kh;

		if (h < 0 || h >= d->h) {
			seg[i] = r->memory + d->kh * stride;
			continue;
		}
		seg[i] = r->memory + slot * stride;
		if (r->held[slot] != h && d->window != NULL)
			window_row(r, r->memory + slot * stride + d->pad * d->c, h);
		else if (r->held[slot] != h && r->plus != NULL)
			r->simd->sum(r->memory + slot * stride, image + h * d->w * d->c, r->plus, d->w * d->c);
		else if (r->held[slot] != h)
			r->simd->copy_row(r->memory + slot * stride + d->pad * d->c, image + h * d->w * d->c,
					  d->w * d->c);
		r->held[slot] = h;
	}
}
