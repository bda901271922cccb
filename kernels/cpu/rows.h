/* The input rows of a dense convolution, padded with zeros: each worker keeps copies of the rows that
 * its output row reads. The slices of a window that is read in place stand side by side in their channels. In such a
 * row the values under KW taps are contiguous; the next output begins stride·C floats further. */
#ifndef SL_CPU_ROWS_H
#define SL_CPU_ROWS_H

#include "kernels/cpu/conv.h"

enum { SL_ROWS_MOST = 16 }; /* largest KH */

struct sl_rows {
	const struct sl_cpu_simd *simd;
	const struct sl_conv_dims *d;
	const float *x;
	int64_t n;                  /* the output image */
	float *memory;              /* KH + 1 rows: row h of the image is in slot h mod KH; the last row
				     * is all zeros */
	int64_t held[SL_ROWS_MOST]; /* row in each slot, −1: none */
	const float *plus;          /* [W·C], added to each row; only without padding. NULL: nothing is added */
};

/* Floats of one padded row, which has room for a register more; below, floats of all rows of a worker. */
static inline int64_t sl_rows_stride(const struct sl_conv_dims *d)
{
	return sl_cpu_line((d->w + 2 * d->pad) * d->c + 16);
}

static inline int64_t sl_rows_floats(const struct sl_conv_dims *d)
{
	return (d->kh + 1) * sl_rows_stride(d);
}

/* `memory`: sl_rows_floats. Then call sl_rows_image for an image, then sl_rows_of for its output rows,
 * ascending. */
struct sl_rows sl_rows_open(const struct sl_cpu_simd *simd, const struct sl_conv_dims *d, const float *x,
			    float *memory);
void sl_rows_image(struct sl_rows *r, int64_t n);
/* seg[0, KH): the input rows of output row o; valid until the next call. */
void sl_rows_of(struct sl_rows *r, int64_t o, const float *seg[SL_ROWS_MOST]);

#endif
