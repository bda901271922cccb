/* The convolution algorithms of this folder; conv.c picks one. */
#ifndef SL_CPU_CONV_H
#define SL_CPU_CONV_H

#include "kernels/cpu/bn.h"

struct sl_conv_dims {
	int64_t n, h, w, c;      /* input */
	int64_t out_h, out_w, o; /* output */
	int kh, kw, stride, pad, dilation;
	/* SL_PRE_WINDOW: x and dx are those of this WINDOW, volumes of `slices` slices of C / taps channels, and not
	 * its output, volumes of n_out slices. Else NULL, 1, 1 and 1. */
	const struct sl_window_attr *window;
	int taps;
	int64_t slices, n_out;
};

/* Dimensions for `rows` images. window: the WINDOW in front that is read in place, or NULL. */
struct sl_conv_dims sl_conv_dims_of(const struct sl_op *op, const struct sl_op *window, int64_t rows);

/* The image of x that output image n reads as part i of its channels. -1: none, they are zeros. */
static inline int64_t sl_conv_slice(const struct sl_conv_dims *d, int64_t n, int i)
{
	const struct sl_window_attr *a = d->window;
	int64_t at;

	if (a == NULL)
		return n;
	at = n % d->n_out * a->stride - a->pad + (int64_t)i * a->dilation;
	return at < 0 || at >= d->slices ? -1 : n / d->n_out * d->slices + at;
}

/* The output image that reads image n of x as part i of its channels. -1: none. */
static inline int64_t sl_conv_slice_back(const struct sl_conv_dims *d, int64_t n, int i)
{
	const struct sl_window_attr *a = d->window;
	int64_t at;

	if (a == NULL)
		return n;
	at = n % d->slices + a->pad - (int64_t)i * a->dilation;
	return at < 0 || at % a->stride || at / a->stride >= d->n_out ? -1 : n / d->slices * d->n_out + at / a->stride;
}

/* The output rows of all images, cut into bands of about equal height (at most 28 rows). No band spans
 * two images. */
struct sl_bands {
	int64_t out_h, rows, per_image, all;
};

struct sl_band {
	int64_t n, from, to; /* output rows [from, to) of image n */
};

static inline struct sl_bands sl_bands_of(const struct sl_conv_dims *d)
{
	enum { MOST_ROWS = 28 };
	int64_t rows = sl_cpu_blocks(d->out_h, sl_cpu_blocks(d->out_h, MOST_ROWS));
	int64_t per_image = sl_cpu_blocks(d->out_h, rows);

	return (struct sl_bands){d->out_h, rows, per_image, d->n * per_image};
}

static inline struct sl_band sl_band_at(const struct sl_bands *b, int64_t index)
{
	int64_t from = index % b->per_image * b->rows;

	return (struct sl_band){index / b->per_image, from, sl_cpu_min(b->out_h, from + b->rows)};
}

/* One call. dx NULL: not wanted; `add`: dx +=. dw, dbias: added to; NULL: not wanted. */
struct sl_conv_call {
	struct sl_backend *be;
	const struct sl_op *op;
	struct sl_conv_dims d;
	const float *x, *w, *bias, *dy;
	const float *out; /* backward with `post`: what forward wrote to y */
	float *y, *dx, *dw, *dbias;
	bool add;
	bool training;
	const struct sl_op_call *pre, *post; /* see backend.h: the parts of these ops that are done here too */
	void *saved;
	float *workspace;
};

/* Whether `pre` is a batchnorm. Otherwise `pre`, if there is one, is an activation. */
static inline bool sl_conv_has_bn_pre(const struct sl_conv_call *call)
{
	return call->pre != NULL && call->pre->op->kind == SL_OP_BATCHNORM;
}

/* Coefficients of the batchnorms in front (pre) and behind (post), and a part for each block of work. */
struct sl_conv_bn {
	struct sl_cpu_bn pre, post;
	enum sl_act act_pre, act_post;
	float *parts;
	int64_t stride; /* floats of a part */
};

int64_t sl_conv_bn_floats(const struct sl_conv_dims *d, int64_t blocks);
struct sl_conv_bn sl_conv_bn_open(const struct sl_conv_call *call, bool backward, float *memory);
/* Merges the blocks' parts: after forward the statistics of y, after backward the sums of `pre`. */
void sl_conv_bn_finish(const struct sl_conv_call *call, const struct sl_conv_bn *bn, int64_t blocks, bool backward);

static inline bool sl_conv_is_pointwise(const struct sl_conv_attr *a)
{
	return a->kh == 1 && a->kw == 1 && a->stride == 1 && a->pad == 0 && a->groups == 1;
}

struct sl_conv_kernel {
	size_t (*workspace_bytes)(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window);
	void (*forward)(const struct sl_conv_call *call);
	void (*backward)(const struct sl_conv_call *call);
};

/* The algorithm for a convolution. */
const struct sl_conv_kernel *sl_conv_kernel_of(const struct sl_op *op);

extern const struct sl_conv_kernel sl_conv_gemm;  /* dense, any kernel size: products over blocks of output pixels */
extern const struct sl_conv_kernel sl_conv_rows;  /* dense, kernel larger than 1×1: row by row */
extern const struct sl_conv_kernel sl_conv_wino;  /* dense 3×3, pad 1, stride 1 or 2, many channels: Winograd */
extern const struct sl_conv_kernel sl_conv_dw3;   /* depthwise 3×3, pad 1, stride 1 or 2 */
extern const struct sl_conv_kernel sl_conv_dw;    /* depthwise, any window that is not far larger than the image */
extern const struct sl_conv_kernel sl_conv_group; /* groups of several channels, and all other depthwise windows */
bool sl_conv_dw_takes(const struct sl_op *op);
bool sl_conv_group_takes(const struct sl_op *op);
bool sl_conv_rows_takes(const struct sl_op *op);
bool sl_conv_wino_takes(const struct sl_op *op);
/* Multiplications of a forward pass, for `rows` images. */
double sl_conv_wino_products(const struct sl_op *op, int64_t rows);
/* SL_POST_WHOLE of backend.h: y and out are the outputs of the batchnorm behind, and there is no dx. */
extern const struct sl_conv_kernel sl_conv_stem;
bool sl_conv_stem_takes(const struct sl_op *op);
size_t sl_conv_stem_saved_bytes(const struct sl_op *op);

#endif
