/* The three ways of a convolution in this room; conv.c picks one. */
#ifndef SL_CPU_CONV_H
#define SL_CPU_CONV_H

#include "kernels/cpu/impl.h"

struct sl_conv_dims {
	int64_t n, h, w, c;      /* input */
	int64_t out_h, out_w, o; /* output */
	int kh, kw, stride, pad;
};

/* Of `rows` images. */
struct sl_conv_dims sl_conv_dims_of(const struct sl_op *op, int64_t rows);

/* One call: dx NULL where it is not wanted, `add` for dx +=; dw, dbias NULL or added to. */
struct sl_conv_call {
	struct sl_backend *be;
	const struct sl_op *op;
	struct sl_conv_dims d;
	const float *x, *w, *bias, *dy;
	float *y, *dx, *dw, *dbias;
	bool add;
	float *workspace;
};

struct sl_conv_kernel {
	size_t (*workspace_bytes)(struct sl_backend *be, const struct sl_op *op);
	void (*forward)(const struct sl_conv_call *call);
	void (*backward)(const struct sl_conv_call *call);
};

extern const struct sl_conv_kernel sl_conv_gemm; /* dense, any kernel: products over blocks of output pixels */
extern const struct sl_conv_kernel sl_conv_dw3;  /* depthwise 3×3, pad 1, stride 1 or 2 */
extern const struct sl_conv_kernel sl_conv_dw;   /* depthwise, anything */

#endif
