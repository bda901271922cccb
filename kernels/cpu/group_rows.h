/* Copies of a bundle's rows for conv_group.c. */
#ifndef SL_CPU_GROUP_ROWS_H
#define SL_CPU_GROUP_ROWS_H

#include "kernels/cpu/simd.h"

/* Rows of an image [h, w, all]. */
struct sl_group_image {
	const float *from;
	int64_t h, w, all;
};

/* Some rows of a bundle's channels, [rows, wide, channels], from pixel (top, left) on. */
struct sl_group_rows {
	float *to;
	int64_t top, left, rows, wide, channels;
	const struct sl_cpu_simd *simd;
	const int32_t *lanes; /* NULL: in the tensor's order */
	int64_t present;      /* channels that the tensor has; in an incomplete bundle the others are 0 */
};

/* With zeros around the image. Writes up to a register behind the last pixel. */
void sl_group_copy_rows(const struct sl_group_rows *r, const struct sl_group_image *x);

#endif
