/* The cost of each kind of op, from the loops of kernels/cpu, for forward; backward takes at most twice as long. Prices
 * are upper bounds for one thread with AVX2 or better: tests/suite/test_op_price.c searches for the op that takes
 * longest compared with its price. A piece is the work between two points where a kernel yields: a step of
 * sl_pool_run_long, or a block. */
#include "server/trunk/cost.h"

#include <math.h>

#include "common/base/pieces.h"

struct work {
	double all, piece; /* ns */
};

typedef struct work price_fn(const struct sl_op *op, double rows);

static const double mac_ns = 0.1, copy_ns = 0.5, element_ns = 2, smooth_ns = 4, weight_ns = 4, call_ns = 20,
		    loss_ns = 10, touch_ns = 0.25, task_ns = 1000;
enum {
	LANES = 32,      /* fewest columns of a matrix product's tile */
	BLOCK = 1 << 15, /* elements of a block */
	SPANS = 64,      /* partial sums of a reduction */
	STEP_ROWS = 512, /* rows of a matrix product's step */
	BAND_ROWS = 28,  /* rows of an image's band */
	WIDE = 1 << 15,  /* columns of a matrix product's step */
	STRIP = 16,      /* channels of a strip */
	STRIP_SPARE = 8, /* columns that a kernel may read beyond its outputs */
};

/* The elements of a row (or token) in the op's largest tensor. */
static double row_of(const struct sl_op *op)
{
	double n = (double)sl_shape_row(&op->out_shape);

	for (int i = 0; i < op->n_in; i++)
		n = fmax(n, (double)sl_shape_row(&op->in_shape[i]));
	return n;
}

static double features_of(const struct sl_shape *s)
{
	return (double)s->dim[s->ndim - 1];
}

/* `ns` for each element, in pieces of `piece` elements; adding up partial sums also counts as part of a piece. */
static struct work elements(const struct sl_op *op, double rows, double ns, double piece)
{
	const double n = rows * row_of(op);

	return (struct work){n * ns, (fmin(n, piece) + n / SPANS) * ns};
}

static struct work plain(const struct sl_op *op, double rows)
{
	return elements(op, rows, element_ns, BLOCK);
}

static struct work smooth(const struct sl_op *op, double rows)
{
	return elements(op, rows, smooth_ns, BLOCK);
}

/* The time of an element, with its share of a call that handles n elements. */
static double called(double ns, double n)
{
	return ns + call_ns / n;
}

/* A piece holds at least one pixel with all its channels. */
static struct work channels(const struct sl_op *op, double rows)
{
	return elements(op, rows, called(element_ns, features_of(&op->out_shape)), fmax(BLOCK, row_of(op)));
}

/* A piece holds at least all tokens of a row. */
static struct work tokens(const struct sl_op *op, double rows)
{
	return elements(op, rows, element_ns, fmax(BLOCK, op->most * row_of(op)));
}

static struct work norm(const struct sl_op *op, double rows)
{
	const double f = (double)sl_op_normed(op);

	return elements(op, rows, called(smooth_ns, f / 4), fmax(BLOCK, SPANS * f));
}

/* The last pass, over the losses of pixels or rows, is one piece. */
static struct work xent(const struct sl_op *op, double rows)
{
	enum { ANSWER_NS = 30 };
	const double k = features_of(&op->in_shape[0]), answers = rows * row_of(op) / k * ANSWER_NS;
	const struct work w = elements(op, rows, loss_ns, fmax(8 * BLOCK, k));

	return (struct work){w.all + answers, w.piece + answers};
}

/* Losses of numbers do not yield. */
static struct work serial(const struct sl_op *op, double rows)
{
	enum { ROW_NS = 30 };
	const struct work w = elements(op, rows, loss_ns, rows * row_of(op));

	return (struct work){w.all + rows * ROW_NS, w.piece + rows * ROW_NS};
}

static struct work add(struct work a, struct work b)
{
	return (struct work){a.all + b.all, fmax(a.piece, b.piece)};
}

static struct work gather(const struct sl_op *op, double rows)
{
	enum { TOKENS = 1024, TOKEN_NS = 5 };
	const struct work copies =
		elements(op, rows, element_ns, fmax(SL_PIECE_BYTES / sizeof(float), TOKENS * row_of(op)));

	return add(copies, (struct work){rows * TOKEN_NS, TOKENS * TOKEN_NS});
}

/* Transposes rows of [F, S] to tokens or back: writes have a stride of a row. */
static struct work transpose(const struct sl_op *op, double rows)
{
	return elements(op, rows, smooth_ns, fmax(BLOCK, SPANS * fmax(features_of(&op->in_shape[0]), op->most)));
}

/* A matrix product, [rows, depth] × [depth, columns], in steps of `step` rows. */
static struct work product(double rows, double step, double depth, double columns)
{
	const double row = depth * fmax(columns, LANES) * mac_ns;
	const double piece = fmin(depth, WIDE) * fmin(fmax(columns, LANES), WIDE) * mac_ns;

	return (struct work){rows * row, fmin(rows, step) * piece};
}

static struct work linear(const struct sl_op *op, double rows)
{
	const double in = op->u.linear.in_f, out = op->u.linear.out_f;
	const double n = rows * (double)sl_shape_row(&op->in_shape[0]) / in;
	struct work w = product(n, STEP_ROWS, in, fmax(out, LANES));

	w.all += n * ((in + out) * element_ns + call_ns) + in * out * element_ns;
	w.piece = fmin(w.piece, 1e8 * mac_ns) + n * (in + out) / SPANS * element_ns;
	return w;
}

/* A convolution as a matrix product: the taps of a window are copied into a row of it (im2col); with one channel in and
 * out they are multiplied in place. Weights are packed, and their gradients unpacked. Each image row, `wide` pixels,
 * reads all weights. */
static struct work windows(double pixels, double wide, double groups, double taps, double in, double out)
{
	const double depth = taps * in, weights = groups * depth * fmax(out, LANES);
	const double row = taps * call_ns + depth * (copy_ns + fmax(out, LANES) * (mac_ns + touch_ns / wide));
	const double step = fmax(fmin(STEP_ROWS, BLOCK / (depth + 1)), STEP_ROWS / 4);

	return (struct work){pixels * groups * row + weights * weight_ns,
			     fmin(pixels, fmax(depth < LANES ? BAND_ROWS * wide : wide, step)) * row +
				     weights * weight_ns};
}

/* The pixels that an image's bands of rows copy, of x for the output and of dy for the gradient of x: each band copies
 * what its windows reach, with zeros around. *wide: the columns of the wider ones. */
static double strips(const struct sl_op *op, double *wide)
{
	const struct sl_conv_attr *a = &op->u.conv;
	const double spare = sl_op_is_depthwise(op) ? STRIP_SPARE : 0;
	double all = *wide = 0;

	for (int back = 0; back < 2; back++) {
		const int64_t *to = (back ? &op->in_shape[0] : &op->out_shape)->dim;
		const double step = back ? 1 : a->stride, bands = ceil((double)to[1] / BAND_ROWS);
		const double columns = ((double)to[2] - 1 + spare) * step + (a->kw + spare) * a->dilation;

		all += (((double)to[1] - bands) * step + bands * a->kh * a->dilation) * columns;
		*wide = fmax(*wide, columns);
	}
	return all;
}

static struct work depthwise(double pixels, double taps, double c, double band)
{
	const double row = taps * (call_ns / 4 + c * copy_ns);

	return (struct work){pixels * row + SPANS * taps * c * copy_ns,
			     fmax(fmax(row, BLOCK * element_ns), fmin(pixels, band) * row)};
}

/* Depthwise kernels and those of groups compute dX for each pixel of x, whatever the stride. Those of groups also take
 * depthwise convolutions whose strips are far wider than the images (conv_dw.c). */
static struct work conv(const struct sl_op *op, double rows)
{
	const struct sl_conv_attr *a = &op->u.conv;
	const double in_w = (double)op->in_shape[0].dim[2], w = (double)op->out_shape.dim[2],
		     taps = (double)a->kh * a->kw;
	const double in = rows * (double)op->in_shape[0].dim[1] * in_w, out = rows * (double)op->out_shape.dim[1] * w;
	const int groups = a->groups, i = a->in_c / groups, o = a->out_c / groups;
	double wide, copied = rows * strips(op, &wide) * (fmax(a->in_c, a->out_c) + STRIP) * touch_ns;
	struct work copies = channels(op, rows);

	copies.all += copied;
	copies.piece += copied * BAND_ROWS / out * w;
	if (sl_op_is_depthwise(op) && wide <= 4 * (in_w + w) + 256)
		return add(depthwise((in + out) / 2, taps, a->in_c, BAND_ROWS * fmax(in_w, w)), copies);
	if (groups > 1)
		copies = add(copies, windows(in / 2, in_w, groups, taps, o, i));
	return add(windows(groups > 1 ? out / 2 : out, w, groups, taps, i, o), copies);
}

/* A transposed convolution: the adjoint of a convolution from its output to its input. */
static struct work convt(const struct sl_op *op, double rows)
{
	const struct sl_convt_attr *a = &op->u.convt;
	const double h = (double)op->in_shape[0].dim[1], w = (double)op->in_shape[0].dim[2];

	return add(
		windows(rows * h * w, w, a->groups, (double)a->kh * a->kw, a->out_c / a->groups, a->in_c / a->groups),
		channels(op, rows));
}

static struct work pool(const struct sl_op *op, double rows)
{
	const int64_t *in = op->in_shape[0].dim, *out = op->out_shape.dim;
	const double k = op->u.pool.k, h = (double)in[1], w = (double)in[2], c = (double)in[3];
	const double taps = k > 0 ? fmin(k, h) * fmin(k, w) : h * w;
	const double window = call_ns + taps * (call_ns / 2 + c * smooth_ns);

	return add((struct work){rows * (double)out[1] * (double)out[2] * window, fmax(window, BLOCK * smooth_ns)},
		   channels(op, rows));
}

/* A score takes two products, an exponential, with dropout a random number, and with a cap a tanh. Keys and values are
 * packed for each row and head. */
static struct work attention(const struct sl_op *op, double rows)
{
	enum { QUERIES = 56, MANY = 2048 };
	const struct sl_attention_attr *a = &op->u.attention;
	const double keys = op->most, all = rows * (a->each ? a->each : 1), d = features_of(&op->out_shape) / a->heads;
	const double elements = (a->p > 0 ? 3 : 1) + (a->cap > 0 ? 2 : 0);
	const double score = 2 * fmax(d, 2 * LANES) * mac_ns + elements * element_ns;
	const double queries = fmin(op->most >= MANY ? QUERIES / 2 : QUERIES, keys);
	const struct work copies = tokens(op, rows);

	return add((struct work){all * a->heads * (keys * score + task_ns / keys) + 2 * copies.all,
				 queries * keys * score + keys * d * smooth_ns},
		   (struct work){0, copies.piece});
}

static struct work embedding(const struct sl_op *op, double rows)
{
	struct work w = tokens(op, rows);

	w.all += rows * call_ns;
	w.piece += op->most * call_ns;
	return w;
}

/* Writes have a stride, which costs most if the contiguous runs (`inner`) are short. */
static struct work permute(const struct sl_op *op, double rows)
{
	const struct sl_permute_attr *a = &op->u.permute;
	const double inner = row_of(op) / ((double)a->outer * a->b * a->c);

	return elements(op, rows, called(smooth_ns, inner), fmax(BLOCK, inner * fmax(a->b, a->c)));
}

/* Each output along the axis is a weighted sum of inputs along it. The dimensions inside the axis are done in strips;
 * small strips several at a time. */
static struct work resample(const struct sl_op *op, double rows)
{
	enum { STRIP = 256, STEPS = 64, SMALL = STRIP / 8 };
	const struct sl_resample_attr *a = &op->u.resample;
	const double n = (double)op->in_shape[0].dim[a->axis], m = a->size;
	const double inner = (double)sl_op_inner(&op->out_shape, a->axis + 1), strip = fmin(inner, STRIP);
	const double taps = a->mode == SL_RESAMPLE_AREA   ? n / m + 2
			    : a->mode == SL_RESAMPLE_MEAN ? fmin(a->window, n)
							  : 2;
	const double number = 2 * call_ns + taps * (call_ns + strip * element_ns), clear = n * (call_ns + strip);
	const double tasks = rows * (double)sl_shape_row(&op->out_shape) / m / strip;

	const double steps = STEPS * STRIP / fmax(strip, SMALL);

	if (sl_op_is_run(op))
		return plain(op, rows);
	return (struct work){tasks * (m * number + clear), steps * number + fmax(clear, steps * (call_ns + strip))};
}

/* Pixels of a slice are copied, or added up, in as many runs as the window has parts. */
static struct work window(const struct sl_op *op, double rows)
{
	const struct sl_window_attr *a = &op->u.window;
	const double c = fmin(features_of(&op->in_shape[0]), features_of(&op->out_shape));
	const double in = op->slices, out = in / (double)op->in_shape[0].dim[1] * (double)op->out_shape.dim[1];
	const double runs = rows * fmax(in, out) * a->k * call_ns;
	struct work w = elements(op, rows, called(element_ns, c), fmax(BLOCK, a->k * c));

	w.all += runs;
	w.piece += fmin(runs, BLOCK / c * call_ns);
	return w;
}

/* All passes over a small row are one piece; a large one is divided into blocks of pixels. */
static struct work groupnorm(const struct sl_op *op, double rows)
{
	const double c = features_of(&op->out_shape);

	return elements(op, rows, called(2 * smooth_ns, c), fmin(row_of(op), fmax(8 * BLOCK, c)));
}

static price_fn *const price_of[SL_OP_COUNT] = {
#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) price,
#include "common/graph/ops.def"
};

struct sl_cost sl_op_start_cost(const struct sl_op *op, int64_t row_tokens)
{
	enum { TURN_NS = 100, TURNS = 4096 };
	const double turns = fmin((double)row_tokens, op->most) * features_of(&op->out_shape) / 2;

	if (op->kind != SL_OP_ATTENTION || !(op->u.attention.rope > 0))
		return (struct sl_cost){0};
	return (struct sl_cost){turns / op->u.attention.heads * TURN_NS * 1e-9, TURNS * TURN_NS * 1e-9};
}

bool sl_op_has_price(enum sl_op_kind kind)
{
	return price_of[kind] != NULL;
}

struct sl_cost sl_op_cost(const struct sl_op *op, double products)
{
	static const double op_ns = 20000;
	struct work w;

	if ((unsigned)op->kind >= SL_OP_COUNT || !price_of[op->kind])
		return (struct sl_cost){INFINITY, INFINITY}; /* above every limit */
	w = price_of[op->kind](op, (double)op->in_shape[0].dim[0]);

	return (struct sl_cost){(products * w.all + op_ns) * 1e-9, (products * w.piece + op_ns) * 1e-9};
}
