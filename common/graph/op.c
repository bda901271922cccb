#include "common/graph/op.h"

#include <math.h>

static enum sl_err misfit(const struct sl_op *op, struct sl_fail *fail, const char *wants)
{
	char text[SL_SHAPE_TEXT];

	return sl_fail_set(fail, SL_ERR_CONFIG, "%s (%s): takes %s, not %s", op->name, sl_op_kind_name(op->kind), wants,
			   sl_shape_text(&op->in_shape[0], text));
}

/* Number of positions of a window of length k along an axis of `size`, with `pad` on both sides; 0: none fits. */
static int64_t window_positions(int64_t size, int64_t k, int64_t stride, int64_t pad)
{
	return size + 2 * pad < k ? 0 : (size + 2 * pad - k) / stride + 1;
}

static enum sl_err infer_windows(struct sl_op *op, int kh, int kw, int stride, int pad, int64_t out_c,
				 struct sl_fail *fail)
{
	const int64_t *d = op->in_shape[0].dim;

	if (kh < 1 || kw < 1 || stride < 1 || pad < 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (%s): window %dx%d, stride %d, padding %d is none",
				   op->name, sl_op_kind_name(op->kind), kh, kw, stride, pad);
	int64_t h = window_positions(d[1], kh, stride, pad), w = window_positions(d[2], kw, stride, pad);
	if (h < 1 || w < 1)
		return misfit(op, fail, "an image no smaller than its window");
	op->out_shape = sl_shape4(d[0], h, w, out_c);
	return SL_OK;
}

enum { MOST_SPREAD = 1 << 24 }; /* pixels that a dilated window spans in one direction */
enum { MOST_WINDOW = 1 << 15 }; /* side of a pool's window: its pixels can be counted in an int */

static enum sl_err infer_conv(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_conv_attr *a = &op->u.conv;

	if (a->in_c < 1 || a->out_c < 1)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (conv2d): %d to %d channels", op->name, a->in_c, a->out_c);
	if (a->groups < 1 || a->in_c % a->groups || a->out_c % a->groups)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (conv2d): %d groups of %d to %d channels; groups divide both numbers", op->name,
				   a->groups, a->in_c, a->out_c);
	if (!a->dilation)
		op->u.conv.dilation = 1;
	if (a->dilation < 1 || a->kh > MOST_SPREAD / a->dilation || a->kw > MOST_SPREAD / a->dilation)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (conv2d): a window of %dx%d with dilation %d is none",
				   op->name, a->kh, a->kw, a->dilation);
	if (op->in_shape[0].ndim != 4 || op->in_shape[0].dim[3] != a->in_c)
		return misfit(op, fail, "[N,H,W,I] with its input channels");
	if (a->kh < 1 || a->kw < 1)
		return infer_windows(op, a->kh, a->kw, a->stride, a->pad, a->out_c, fail);
	return infer_windows(op, (a->kh - 1) * a->dilation + 1, (a->kw - 1) * a->dilation + 1, a->stride, a->pad,
			     a->out_c, fail);
}

static enum sl_err infer_convt(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_convt_attr *a = &op->u.convt;
	const int64_t *d = op->in_shape[0].dim;

	if (a->in_c < 1 || a->out_c < 1)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (convt2d): %d to %d channels", op->name, a->in_c, a->out_c);
	if (!a->groups)
		op->u.convt.groups = 1;
	if (a->groups < 1 || a->in_c % a->groups || a->out_c % a->groups)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (convt2d): %d groups of %d to %d channels; groups divide both numbers", op->name,
				   a->groups, a->in_c, a->out_c);
	if (op->in_shape[0].ndim != 4 || d[3] != a->in_c)
		return misfit(op, fail, "[N,H,W,I] with its input channels");
	if (a->kh < 1 || a->kw < 1 || a->stride < 1 || a->pad < 0 || a->out_pad_h < 0 || a->out_pad_w < 0 ||
	    a->out_pad_h >= a->stride || a->out_pad_w >= a->stride)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (convt2d): window %dx%d, stride %d, padding %d, output padding %dx%d is none",
				   op->name, a->kh, a->kw, a->stride, a->pad, a->out_pad_h, a->out_pad_w);
	int64_t h = (d[1] - 1) * a->stride - 2 * a->pad + a->kh + a->out_pad_h;
	int64_t w = (d[2] - 1) * a->stride - 2 * a->pad + a->kw + a->out_pad_w;
	if (h < 1 || w < 1)
		return misfit(op, fail, "an image larger than its padding takes away");
	op->out_shape = sl_shape4(d[0], h, w, a->out_c);
	return SL_OK;
}

static enum sl_err infer_pool(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_pool_attr *a = &op->u.pool;
	const int64_t *d = op->in_shape[0].dim;

	if (op->in_shape[0].ndim != 4)
		return misfit(op, fail, "[N,H,W,C]");
	if (a->k == 0) {
		op->out_shape = sl_shape4(d[0], 1, 1, d[3]);
		return SL_OK;
	}
	if (a->k > MOST_WINDOW)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (%s): a window of %dx%d is too large: %d is the most",
				   op->name, sl_op_kind_name(op->kind), a->k, a->k, MOST_WINDOW);
	if (a->pad > a->k / 2) /* a window could lie entirely in the padding */
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (%s): padding %d is more than half of the window %d",
				   op->name, sl_op_kind_name(op->kind), a->pad, a->k);
	return infer_windows(op, a->k, a->k, a->stride, a->pad, d[3], fail);
}

static enum sl_err infer_pair(struct sl_op *op, struct sl_fail *fail)
{
	if (op->n_in != 2 || !sl_shape_equal(&op->in_shape[0], &op->in_shape[1]))
		return misfit(op, fail, "two inputs of one shape");
	op->out_shape = op->in_shape[0];
	return SL_OK;
}

static enum sl_err infer_gate(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_shape *x = &op->in_shape[0], *by = &op->in_shape[1];

	const int last = x->ndim - 1;
	bool fits = op->n_in == 2 && last >= 2 && by->ndim == x->ndim && by->dim[0] == x->dim[0] &&
		    by->dim[last] == x->dim[last];

	for (int i = 1; fits && i < last; i++)
		fits = by->dim[i] == 1;
	if (!fits)
		return misfit(op, fail, "[N,H,W,C] and [N,1,1,C], or [N,S,F] and [N,1,F]");
	op->out_shape = *x;
	return SL_OK;
}

static enum sl_err infer_concat(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_shape *a = &op->in_shape[0], *b = &op->in_shape[1];

	const int axis = op->u.concat.axis ? op->u.concat.axis : a->ndim - 1;
	bool fits = op->n_in == 2 && a->ndim >= 2 && b->ndim == a->ndim && axis < a->ndim;

	for (int i = 0; fits && i < a->ndim; i++)
		fits = i == axis || a->dim[i] == b->dim[i];
	if (!fits)
		return misfit(op, fail, "two inputs of one size but for the axis along which they are joined");
	op->out_shape = *a;
	op->out_shape.dim[axis] += b->dim[axis];
	return SL_OK;
}

static enum sl_err infer_linear(struct sl_op *op, struct sl_fail *fail)
{
	const int64_t in_f = op->u.linear.in_f, out_f = op->u.linear.out_f;
	int last = op->in_shape[0].ndim - 1;

	if (in_f < 1 || out_f < 1)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (%s): %lld to %lld features", op->name,
				   sl_op_kind_name(op->kind), (long long)in_f, (long long)out_f);
	if (last < 1 || last > 2 || op->in_shape[0].dim[last] != in_f)
		return misfit(op, fail, "[N,F] or [N,S,F] with its input features");
	op->out_shape = op->in_shape[0];
	op->out_shape.dim[last] = out_f;
	return SL_OK;
}

static enum sl_err infer_attention(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_attention_attr *a = &op->u.attention;
	const struct sl_shape *q = &op->in_shape[0], *k = &op->in_shape[1];
	const int kv = sl_attention_kv(a);
	int64_t d;

	if (a->heads < 1 || kv < 1 || a->heads % kv)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (attention): %d heads do not share %d of keys and values",
				   op->name, a->heads, kv);
	if (!(a->p >= 0.0f && a->p < 1.0f))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (attention): p is %g; it must lie in [0, 1)", op->name,
				   (double)a->p);
	if (op->n_in != 3 || q->ndim != (a->each ? 3 : 2) || q->dim[q->ndim - 1] % a->heads)
		return misfit(op, fail, "tokens [F], or rows of them [S,F], a multiple of its heads");
	d = q->dim[q->ndim - 1] / a->heads;
	if (k->ndim != q->ndim || k->dim[1] != (a->each ? q->dim[1] : kv * d) || k->dim[k->ndim - 1] != kv * d ||
	    !sl_shape_equal(k, &op->in_shape[2]))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (attention): keys and values are not tokens [%lld] both",
				   op->name, (long long)(kv * d));
	if (a->rope > 0 && (d % 2 || a->each || a->rope_part % 2 || a->rope_part > d))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (attention): rotary positions of %lld of %lld features per head", op->name,
				   (long long)sl_rope_features(a, d), (long long)d);
	if (a->rope_high > 0 && !(a->rope_low < a->rope_high && a->rope_old > 0 && a->rope_factor > 0))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (attention): rotary positions are scaled from %g to %g turns in %d tokens",
				   op->name, (double)a->rope_low, (double)a->rope_high, a->rope_old);
	op->out_shape = *q;
	return SL_OK;
}

double sl_rope_frequency(const struct sl_attention_attr *a, int64_t c, int64_t d)
{
	const double f = pow((double)a->rope, -2 * (double)c / (double)d), factor = (double)a->rope_factor;
	const double low = (double)a->rope_low, high = (double)a->rope_high, turns = a->rope_old * f / (2 * M_PI);
	const double share = (turns - low) / (high - low);

	if (factor == 0 || (high > 0 && turns > high))
		return f;
	if (high == 0 || turns < low)
		return f / factor;
	return f * ((1 - share) / factor + share);
}

static enum sl_err infer_transpose(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_transpose_attr *a = &op->u.transpose;
	const struct sl_shape *in = &op->in_shape[0];

	if (a->tokens) {
		if (in->ndim != 2 || a->most)
			return misfit(op, fail, "tokens [F], and no other most than theirs");
		op->out_shape = sl_shape3(in->dim[0], in->dim[1], a->tokens);
		return SL_OK;
	}
	if (in->ndim != 3 || in->dim[2] > UINT16_MAX || (a->most && a->most < in->dim[2]))
		return misfit(op, fail, "rows [F,S] with S tokens at most");
	op->out_shape = sl_shape2(in->dim[0], in->dim[1]);
	return SL_OK;
}

/* *left /= by; false: `by` is no divisor of it. */
static bool divide(int64_t *left, int64_t by)
{
	if (by < 1 || *left % by)
		return false;
	*left /= by;
	return true;
}

static enum sl_err infer_permute(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_permute_attr *a = &op->u.permute;
	const struct sl_shape *in = &op->in_shape[0];
	int64_t row = sl_shape_row(in), left = row;

	if (in->ndim < 2 || !divide(&left, a->outer) || !divide(&left, a->b) || !divide(&left, a->c) ||
	    (a->w && !a->h) || (a->h && !divide(&row, a->h)) || (a->w && !divide(&row, a->w)))
		return misfit(op, fail, "rows that its numbers divide");
	op->out_shape = !a->h   ? sl_shape2(in->dim[0], row)
			: !a->w ? sl_shape3(in->dim[0], a->h, row)
				: sl_shape4(in->dim[0], a->h, a->w, row);
	return SL_OK;
}

static enum sl_err infer_resample(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_resample_attr *a = &op->u.resample;
	const struct sl_shape *in = &op->in_shape[0];
	const int64_t n = a->axis < in->ndim ? in->dim[a->axis] : 0;

	if (n < 1 || n > 1 << 20)
		return misfit(op, fail, "an axis of numbers that it has");
	if (a->mode == SL_RESAMPLE_REFLECT &&
	    (a->first || a->step != 1 || a->before >= n || a->size - a->before > 2 * n - 1))
		return misfit(op, fail, "an axis longer than what it mirrors");
	op->out_shape = *in;
	op->out_shape.dim[a->axis] = a->size;
	return SL_OK;
}

static enum sl_err infer_same(struct sl_op *op, struct sl_fail *fail)
{
	op->out_shape = op->in_shape[0];
	return SL_OK;
}

static enum sl_err infer_batchnorm(struct sl_op *op, struct sl_fail *fail)
{
	if (op->in_shape[0].ndim != 4 || op->in_shape[0].dim[3] != op->u.bn.c)
		return misfit(op, fail, "[N,H,W,C] with its channels");
	return infer_same(op, fail);
}

static enum sl_err infer_features(struct sl_op *op, struct sl_fail *fail)
{
	return op->in_shape[0].ndim < 2 ? misfit(op, fail, "[N,F] or [N,S,F]") : infer_same(op, fail);
}

static enum sl_err infer_dropout(struct sl_op *op, struct sl_fail *fail)
{
	if (!(op->u.dropout.p >= 0.0f && op->u.dropout.p < 1.0f))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (dropout): p is %g; it must lie in [0, 1)", op->name,
				   (double)op->u.dropout.p);
	return infer_same(op, fail);
}

static enum sl_err infer_token(struct sl_op *op, struct sl_fail *fail)
{
	return op->in_shape[0].ndim != 2 ? misfit(op, fail, "tokens [F]") : infer_same(op, fail);
}

static enum sl_err infer_groupnorm(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_shape *in = &op->in_shape[0];

	if (in->ndim < 3 || op->u.groupnorm.groups < 1 || in->dim[in->ndim - 1] % op->u.groupnorm.groups)
		return misfit(op, fail, "[N,H,W,C] or [N,S,C], whose channels its groups divide");
	return infer_same(op, fail);
}

static enum sl_err infer_window(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_window_attr *a = &op->u.window;
	const struct sl_shape *in = &op->in_shape[0];
	const int64_t spread = (int64_t)(a->k - 1) * a->dilation + 1;
	const int64_t positions = window_positions(a->back ? a->back : op->slices, spread, a->stride, a->pad);
	const int64_t out = a->back ? a->back : positions;

	if (op->slices < 1 || in->ndim != 4 || in->dim[1] % op->slices)
		return misfit(op, fail, "[N,D·H,W,C], volumes of as many slices as it says");
	if (positions < 1)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (window): a depth of %d, padded by %d, is less than it spans, %lld", op->name,
				   a->back ? a->back : op->slices, a->pad, (long long)spread);
	if (a->back && (positions != op->slices || in->dim[3] % a->k))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (window): back to %d slices it takes %lld slices of a multiple of %d channels, "
				   "not %d of %lld",
				   op->name, a->back, (long long)positions, a->k, op->slices, (long long)in->dim[3]);
	op->out_shape = sl_shape4(in->dim[0], in->dim[1] / op->slices * out, in->dim[2],
				  a->back ? in->dim[3] / a->k : in->dim[3] * a->k);
	return SL_OK;
}

static enum sl_err infer_repeat(struct sl_op *op, struct sl_fail *fail)
{
	op->out_shape = (struct sl_shape){op->u.repeat.ndim + 1, {op->in_shape[0].dim[0]}};
	for (int i = 0; i < op->u.repeat.ndim; i++)
		op->out_shape.dim[i + 1] = op->u.repeat.dim[i];
	return SL_OK;
}

static enum sl_err infer_embedding(struct sl_op *op, struct sl_fail *fail)
{
	if (op->in_shape[0].ndim != 1)
		return misfit(op, fail, "ids []");
	op->out_shape = sl_shape2(op->in_shape[0].dim[0], op->u.embedding.features);
	return SL_OK;
}

static enum sl_err infer_lookup(struct sl_op *op, struct sl_fail *fail)
{
	if (op->in_shape[0].ndim != 2)
		return misfit(op, fail, "ids [K]");
	if (op->u.lookup.rows > SL_LOOKUP_MOST)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s (lookup): the table has %d rows, where %d are the most",
				   op->name, op->u.lookup.rows, SL_LOOKUP_MOST);
	op->out_shape = sl_shape3(op->in_shape[0].dim[0], op->in_shape[0].dim[1], op->u.lookup.features);
	return SL_OK;
}

static enum sl_err infer_flatten(struct sl_op *op, struct sl_fail *fail)
{
	op->out_shape = sl_shape2(op->in_shape[0].dim[0], sl_shape_row(&op->in_shape[0]));
	return SL_OK;
}

static enum sl_err infer_xent(struct sl_op *op, struct sl_fail *fail)
{
	const struct sl_shape *in = &op->in_shape[0];

	if (in->ndim < 2 || in->dim[in->ndim - 1] != op->u.xent.classes)
		return misfit(op, fail, "logits [N,K] or [N,H,W,K] with a column per class");
	if (op->u.xent.classes <= sl_xent_first(op->u.xent.fn))
		return misfit(op, fail, "logits of two classes or more for Dice without the first");
	op->out_shape = sl_shape1(1);
	return SL_OK;
}

static enum sl_err infer_mse(struct sl_op *op, struct sl_fail *fail)
{
	if (op->in_shape[0].ndim != 2)
		return misfit(op, fail, "[N,K]");
	op->out_shape = sl_shape1(1);
	return SL_OK;
}

static int64_t macs_none(const struct sl_op *op)
{
	return 0;
}

static int64_t macs_norm(const struct sl_op *op)
{
	return 2;
}

static int64_t macs_windows(const struct sl_op *op)
{
	return (int64_t)op->u.conv.kh * op->u.conv.kw * (op->u.conv.in_c / op->u.conv.groups);
}

/* A whole window for each element of the output, as the published tables of `splitc flops` count. A kernel multiplies
 * stride² times less. */
static int64_t macs_transposed(const struct sl_op *op)
{
	return (int64_t)op->u.convt.kh * op->u.convt.kw * (op->u.convt.in_c / op->u.convt.groups);
}

static int64_t macs_linear(const struct sl_op *op)
{
	return op->u.linear.in_f;
}

/* A row is a token, in a row of `most` tokens; masked pairs count, too. */
static int64_t macs_attention(const struct sl_op *op)
{
	return 2 * op->most;
}

static const struct {
	enum sl_err (*shape)(struct sl_op *op, struct sl_fail *fail);
	int64_t (*macs)(const struct sl_op *op); /* for an element of the output */
} rules[SL_OP_COUNT] = {
#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) \
	{infer_##shape, macs_##macs},
#include "common/graph/ops.def"
};

enum sl_err sl_op_infer_shape(struct sl_op *op, struct sl_fail *fail)
{
	if (op->in_shape[0].ndim < 1)
		return misfit(op, fail, "an input");
	if ((unsigned)op->kind >= SL_OP_COUNT)
		return sl_fail_set(fail, SL_ERR_BUG, "%s: no op of kind %d", op->name, (int)op->kind);
	return rules[op->kind].shape(op, fail);
}

int64_t sl_op_macs(const struct sl_op *op, int64_t rows)
{
	return rows * sl_op_parts(op) * sl_shape_row(&op->out_shape) * rules[op->kind].macs(op);
}
