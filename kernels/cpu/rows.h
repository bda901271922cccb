/* The input rows of a dense convolution, padded by zeros: a worker keeps those that its output row reads. In such a row
 * the values under KW taps lie side by side, stride·C floats on for the next output. */
#ifndef SL_CPU_ROWS_H
#define SL_CPU_ROWS_H

#include "kernels/cpu/conv.h"

enum { SL_ROWS_MOST = 16 }; /* KH at most */

struct sl_rows {
	const struct sl_cpu_simd *simd;
	const struct sl_conv_dims *d;
	const float *x, *image;
	float *memory;              /* KH + 1 rows: row h of the image in slot h mod KH, zeros in the last */
	int64_t held[SL_ROWS_MOST]; /* row in each slot, −1 none */
	const float *plus;          /* [W·C] added to each row, where there is no padding; NULL: nothing is */
};

/* Floats of one padded row, with a register more than is in it; of all of a worker. */
static inline int64_t sl_rows_stride(const struct sl_conv_dims *d)
{
	return sl_cpu_line((d->w + 2 * d->pad) * d->c + 16);
}

static inline int64_t sl_rows_floats(const struct sl_conv_dims *d)
{
	return (d->kh + 1) * sl_rows_stride(d);
}

/* `memory`: sl_rows_floats. Then an image, then its output rows in ascending order. */
struct sl_rows sl_rows_open(const struct sl_cpu_simd *simd, const struct sl_conv_dims *d, const float *x,
			    float *memory);
void sl_rows_image(struct sl_rows *r, int64_t n);
/* seg[0, KH): the rows that output row o reads, until the next call. */
void sl_rows_of(struct sl_rows *r, int64_t o, const float *seg[SL_ROWS_MOST]);

#endif
