/* Readers of nodes that slide a window over images, or change the size of images. Signals are images of height 1. */
#include <string.h>

#include "client/model/onnx_tokens.h"
#include "client/model/onnx_windows.h"

/* A window's numbers along height and width. */
struct window {
	int k[2], stride[2], dilation[2], before[2], after[2];
};

static bool is_word(const Onnx__Attribute *a, const char *word)
{
	return a && sl_onnx_is_word(a->s, word);
}

/* auto_pad: SAME_UPPER, torch's padding="same", makes the output as large as the input. */
static void pad_by_itself(struct sl_onnx_import *im, struct window *w)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, "auto_pad", SL_ONNX_ATTR_STRING);

	if (!a || is_word(a, "NOTSET") || is_word(a, "VALID"))
		return;
	if (!is_word(a, "SAME_UPPER") || w->stride[0] != 1 || w->stride[1] != 1 || w->k[1] < 1 ||
	    (int64_t)w->k[0] * w->dilation[0] > SL_ONNX_MOST || (int64_t)w->k[1] * w->dilation[1] > SL_ONNX_MOST)
		sl_onnx_refuse(im,
			       "auto_pad %.*s is not read here, only SAME_UPPER with a stride of 1; export with pads",
			       (int)(a->s.len < 20 ? a->s.len : 20), a->s.data ? (const char *)a->s.data : "");
	for (int i = im->flat; i < 2 && !im->b->err; i++) {
		w->before[i] = w->dilation[i] * (w->k[i] - 1) / 2;
		w->after[i] = w->dilation[i] * (w->k[i] - 1) - w->before[i];
	}
}

/* Reads an attribute with a number for height and one for width; `pads` has two of each, the latter in `second`. What
 * is missing is `standard`, also the height of a signal. */
static void sides(struct sl_onnx_import *im, const char *name, int least, int standard, int *first, int *second)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, name, SL_ONNX_ATTR_INTS);
	const bool pads = strcmp(name, "pads") == 0;
	const size_t n = im->flat ? 1 : 2;

	first[0] = first[1] = standard;
	if (pads)
		second[0] = second[1] = standard;
	if (!a)
		return;
	if (a->n_ints != (pads ? 2 * n : n)) {
		sl_onnx_refuse(im, "%s has %zu numbers, where an image's have %zu", name, a->n_ints, pads ? 2 * n : n);
		return;
	}
	for (size_t i = 0; i < a->n_ints; i++) {
		if (a->ints[i] < least || a->ints[i] > SL_ONNX_MOST) {
			sl_onnx_refuse(im, "%s: %lld is not in %d … %d", name, (long long)a->ints[i], least,
				       SL_ONNX_MOST);
			return;
		}
		*(i < n ? &first[im->flat ? 1 : i] : &second[im->flat ? 1 : i - n]) = (int)a->ints[i];
	}
}

static struct window read_window(struct sl_onnx_import *im, int border)
{
	struct window w;

	sides(im, "kernel_shape", 1, 0, w.k, NULL);
	sides(im, "strides", 1, 1, w.stride, NULL);
	sides(im, "dilations", 1, 1, w.dilation, NULL);
	sides(im, "pads", 0, 0, w.before, w.after);
	pad_by_itself(im, &w);
	for (int i = 0; i < 2; i++) {
		w.before[i] += border;
		w.after[i] += border;
	}
	return w;
}

/* Makes an axis of x `size` long: from element −before on, or scaled, as `mode` says. */
static int resize(struct sl_onnx_import *im, int x, int axis, int64_t before, int64_t size, enum sl_resample mode)
{
	const struct sl_shape s = im->b->err ? sl_shape1(1) : sl_build_shape(im->b, x);

	if (im->b->err || (before == 0 && size == s.dim[axis]))
		return x;
	if (size < 1 || size > SL_ONNX_MOST || s.dim[axis] > SL_ONNX_MOST || before > SL_ONNX_MOST ||
	    before < -SL_ONNX_MOST) {
		sl_onnx_refuse(im, "it makes images of no size, or of one that is too large");
		return -1;
	}
	return sl_build_resample(im->b, im->name, x,
				 (struct sl_resample_attr){.axis = axis,
							   .size = (int)size,
							   .mode = mode,
							   .before = before > 0 ? (int)before : 0,
							   .first = before < 0 ? (int)-before : 0,
							   .step = 1,
							   .window = 1});
}

/* Returns the padding if it is the same on all sides. Otherwise pads *x by nodes of its own, and returns 0. */
static int pad_in_front(struct sl_onnx_import *im, int *x, struct window *w, enum sl_resample mode)
{
	if (w->before[0] == w->before[1] && w->before[0] == w->after[0] && w->before[0] == w->after[1])
		return w->before[0];
	for (int i = 0; i < 2 && !im->b->err; i++) {
		const struct sl_shape s = sl_build_shape(im->b, *x);

		*x = resize(im, *x, 1 + i, w->before[i], s.dim[1 + i] + w->before[i] + w->after[i], mode);
	}
	return 0;
}

/* Takes every stride-th pixel along each axis. */
static int skip(struct sl_onnx_import *im, int x, const int stride[2])
{
	for (int i = 0; i < 2 && !im->b->err; i++) {
		const struct sl_shape s = sl_build_shape(im->b, x);

		if (stride[i] > 1)
			x = sl_build_resample(
				im->b, im->name, x,
				(struct sl_resample_attr){.axis = 1 + i,
							  .size = (int)((s.dim[1 + i] - 1) / stride[i] + 1),
							  .step = stride[i],
							  .window = 1});
	}
	return x;
}

/* ---- convolutions */

void sl_onnx_read_conv(struct sl_onnx_import *im)
{
	int border, x = sl_onnx_padded_in(im, &border), pad, dilation;
	bool even;
	const int before = im->n_param;
	struct window w = read_window(im, border);
	const int64_t groups = sl_onnx_attr_int(im, "group", 1), in_c = im->b->err ? 1 : sl_onnx_last_of(im, x);
	const Onnx__Tensor *weight = sl_onnx_param_in(im, 1, im->flat ? 3 : 4), *bias;
	char text[SL_ONNX_DIMS_TEXT];
	int64_t kh, kw;

	if (!weight)
		return;
	kh = im->flat ? 1 : weight->dims[2];
	kw = weight->dims[im->flat ? 2 : 3];
	if ((w.k[1] && w.k[1] != kw) || (w.k[0] && w.k[0] != kh)) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s, which is not its kernel_shape", weight->name,
			       sl_onnx_dims_text(weight, text));
		return;
	}
	if (groups < 1 || groups > SL_ONNX_MOST || in_c % groups || weight->dims[0] % groups ||
	    weight->dims[1] != in_c / groups) {
		sl_onnx_refuse(im, "its weight '%.96s' is %s, which does not fit %lld channels in %lld groups",
			       weight->name, sl_onnx_dims_text(weight, text), (long long)in_c, (long long)groups);
		return;
	}
	bias = im->node->n_input > 2 && im->node->input[2][0] ? sl_onnx_param_in(im, 2, 1) : NULL;
	if (im->b->err || (bias && !sl_onnx_vector_of(im, bias, weight->dims[0])))
		return;
	dilation = kh == 1 ? w.dilation[1] : w.dilation[0];
	if (dilation != w.dilation[1] && kw > 1)
		sl_onnx_refuse(im, "dilations: %d and %d; dilation is the same in both directions here", w.dilation[0],
			       w.dilation[1]);
	pad = pad_in_front(im, &x, &w, SL_RESAMPLE_CUT);
	even = w.stride[0] == w.stride[1] || im->flat;
	if (im->b->err)
		return;
	sl_onnx_use_params(im, before);
	x = sl_build_conv_from(im->b, im->name, x,
			       (struct sl_build_window){.out_c = (int)weight->dims[0],
							.k = (int)kh,
							.kw = (int)kw,
							.flat = im->flat,
							.stride = even ? w.stride[1] : 1,
							.pad = pad,
							.dilation = dilation,
							.groups = (int)groups,
							.bias = bias},
			       (struct sl_init){SL_INIT_ZERO, 0});
	im->b->param_name = NULL;
	sl_onnx_out(im, even ? x : skip(im, x, w.stride));
}

void sl_onnx_read_convt(struct sl_onnx_import *im)
{
	const int x = sl_onnx_image_in(im), before = im->n_param;
	const struct window w = read_window(im, 0);
	const Onnx__Tensor *weight = sl_onnx_param_in(im, 1, 4), *bias;
	int more[2], size[2];
	struct sl_shape s;

	sl_onnx_must_be(im, "group", 1, 1);
	sides(im, "output_padding", 0, 0, more, NULL);
	if (!weight || im->b->err)
		return;
	s = sl_build_shape(im->b, x);
	bias = im->node->n_input > 2 && im->node->input[2][0] ? sl_onnx_param_in(im, 2, 1) : NULL;
	if (im->flat || weight->dims[0] != s.dim[3] || weight->dims[2] != weight->dims[3] ||
	    w.stride[0] != w.stride[1] || w.dilation[0] != 1 || w.dilation[1] != 1 || w.before[0] != w.before[1] ||
	    w.before[0] != w.after[0] || w.before[0] != w.after[1] || (w.k[0] && w.k[0] != weight->dims[2]) ||
	    (w.k[1] && w.k[1] != weight->dims[3]) || more[0] >= w.stride[0] || more[1] >= w.stride[0] ||
	    weight->dims[2] > 1 << 12 || (int64_t)s.dim[1] * w.stride[0] > SL_ONNX_MOST ||
	    (int64_t)s.dim[2] * w.stride[0] > SL_ONNX_MOST)
		sl_onnx_refuse(im, "of transposed convolutions those of images are read, with square windows, without "
				   "dilation");
	if (im->b->err || (bias && !sl_onnx_vector_of(im, bias, weight->dims[1])))
		return;
	for (int i = 0; i < 2; i++)
		size[i] = (int)((s.dim[1 + i] - 1) * w.stride[0] - 2 * w.before[0] + weight->dims[2] + more[i]);
	if (size[0] < 1 || size[1] < 1)
		sl_onnx_refuse(im, "it makes images of no size");
	sl_onnx_use_params(im, before);
	sl_onnx_out(im, sl_build_convt(im->b, im->name, x,
				       (struct sl_build_window){.out_c = (int)weight->dims[1],
								.k = (int)weight->dims[2],
								.stride = w.stride[0],
								.pad = w.before[0],
								.bias = bias},
				       size[0], size[1], (struct sl_init){SL_INIT_ZERO, 0}));
}

/* ---- pools */

static bool is_square(const struct window *w)
{
	return w->k[0] == w->k[1] && w->stride[0] == w->stride[1];
}

/* ceil_mode adds windows that reach over the end of the image. For a maximum the padding there grows to cover them; for
 * a mean they are refused. */
static void add_ceil(struct sl_onnx_import *im, int x, struct window *w, bool max)
{
	const struct sl_shape s = im->b->err ? sl_shape4(1, 1, 1, 1) : sl_build_shape(im->b, x);

	if (im->b->err || !sl_onnx_attr_int(im, "ceil_mode", 0))
		return;
	for (int i = im->flat; i < 2; i++) {
		const int64_t room = s.dim[1 + i] + w->before[i] + w->after[i] - w->k[i];
		const int64_t left = room < 0 ? 0 : room % w->stride[i];

		if (!left || (room / w->stride[i] + 1) * w->stride[i] >= s.dim[1 + i] + w->before[i])
			continue;
		if (!max) {
			sl_onnx_refuse(
				im,
				"ceil_mode adds a window beyond the border of an image of %lldx%lld, which is not "
				"read; take another size of images, or ceil_mode=False",
				(long long)s.dim[1], (long long)s.dim[2]);
			return;
		}
		w->after[i] += w->stride[i] - (int)left;
	}
}

/* The maxima of windows that stand side by side: first those of rows, then those of columns. Rows and columns that are
 * left over count nowhere. */
static void tiled_maxima(struct sl_onnx_import *im, int x, const struct window *w)
{
	struct sl_shape s = sl_build_shape(im->b, x);
	struct sl_onnx_view view;

	for (int i = 0; i < 2; i++) {
		s.dim[1 + i] /= w->k[i];
		x = resize(im, x, 1 + i, 0, s.dim[1 + i] * w->k[i], SL_RESAMPLE_CUT);
	}
	for (int i = 0; i < 2 && !im->b->err; i++) {
		const struct sl_permute_attr k_in_front = {
			.outer = 1, .b = (int)(i ? s.dim[1] * s.dim[2] : s.dim[1]), .c = w->k[i], .h = w->k[i], .w = 1};

		if (w->k[i] == 1)
			continue;
		x = sl_build_permute(im->b, im->name, x, k_in_front);
		x = sl_build_pool(im->b, im->name, x, SL_OP_MAXPOOL, (struct sl_pool_attr){0});
		x = sl_build_flatten(im->b, im->name, x);
	}
	view = sl_onnx_view_of(im, &s);
	sl_onnx_out_view(im, x, &view);
}

/* Whether windows stand side by side, without padding. */
static bool is_tiled(const struct window *w)
{
	bool tiled = true;

	for (int i = 0; i < 2; i++)
		tiled &= w->k[i] == w->stride[i] && !w->before[i] && !w->after[i];
	return tiled;
}

void sl_onnx_read_maxpool(struct sl_onnx_import *im)
{
	int x = sl_onnx_image_in(im), pad;
	struct window w = read_window(im, 0);
	struct sl_shape s;

	sl_onnx_must_be(im, "storage_order", 0, 0);
	if (!im->b->err && (w.k[1] < 1 || w.dilation[0] != 1 || w.dilation[1] != 1))
		sl_onnx_refuse(im, w.k[1] < 1 ? "it has no kernel_shape" : "dilation of pools is not read");
	add_ceil(im, x, &w, true);
	if (im->b->err)
		return;
	if (im->flat) { /* square windows over copies of the one row have the same maxima */
		x = resize(im, x, 1, 0, w.k[1], SL_RESAMPLE_EDGE);
		w.k[0] = w.k[1];
		w.stride[0] = w.stride[1];
		if (w.before[1] || w.after[1])
			w.before[0] = -1; /* marks padding of the width alone */
	}
	if (!is_square(&w) && is_tiled(&w)) {
		tiled_maxima(im, x, &w);
		return;
	}
	if (!is_square(&w))
		sl_onnx_refuse(im, "kernel_shape: %d and %d; an oblong maximum has a stride of its size and no padding",
			       w.k[0], w.k[1]);
	if (im->flat && w.before[0] < 0) {
		s = sl_build_shape(im->b, x);
		x = resize(im, x, 2, w.before[1], s.dim[2] + w.before[1] + w.after[1], SL_RESAMPLE_EDGE);
		w = (struct window){.k = {w.k[0], w.k[1]}, .stride = {w.stride[0], w.stride[1]}};
	}
	pad = pad_in_front(im, &x, &w, SL_RESAMPLE_EDGE);
	if (im->b->err)
		return;
	sl_onnx_out(im, w.k[0] == 1 && w.stride[0] == 1 && !pad
				? x
				: sl_build_pool(im->b, im->name, x, SL_OP_MAXPOOL,
						(struct sl_pool_attr){.k = w.k[0], .stride = w.stride[0], .pad = pad}));
}

/* A mean over height, then one over width. */
static int mean_by_axis(struct sl_onnx_import *im, int x, const struct window *w)
{
	for (int i = im->flat; i < 2 && !im->b->err; i++) {
		const struct sl_shape s = sl_build_shape(im->b, x);
		const int64_t room = s.dim[1 + i] + w->before[i] + w->after[i] - w->k[i];

		if (w->k[i] == 1 && w->stride[i] == 1)
			continue;
		if (room < 0 || s.dim[1 + i] > SL_ONNX_MOST)
			sl_onnx_refuse(im, "its window is larger than the image");
		else
			x = sl_build_resample(im->b, im->name, x,
					      (struct sl_resample_attr){.axis = 1 + i,
									.size = (int)(room / w->stride[i] + 1),
									.mode = SL_RESAMPLE_MEAN,
									.before = w->before[i],
									.step = w->stride[i],
									.window = w->k[i]});
	}
	return x;
}

void sl_onnx_read_avgpool(struct sl_onnx_import *im)
{
	int border, x = sl_onnx_padded_in(im, &border);
	struct window w = read_window(im, 0);
	bool same;

	if (w.before[0] || w.before[1] || w.after[0] || w.after[1])
		sl_onnx_must_be(im, "count_include_pad", 0, 1);
	for (int i = im->flat; i < 2; i++) {
		w.before[i] += border;
		w.after[i] += border;
	}
	if (!im->b->err && w.k[1] < 1)
		sl_onnx_refuse(im, "it has no kernel_shape");
	add_ceil(im, x, &w, false);
	same = is_square(&w) && !im->flat && w.before[0] == w.before[1] && w.before[0] == w.after[0] &&
	       w.before[0] == w.after[1];
	if (im->b->err)
		return;
	if (same && w.k[0] == 1 && w.stride[0] == 1 && !w.before[0])
		sl_onnx_out(im, x);
	else if (same)
		sl_onnx_out(im, sl_build_pool(
					im->b, im->name, x, SL_OP_AVGPOOL,
					(struct sl_pool_attr){.k = w.k[0], .stride = w.stride[0], .pad = w.before[0]}));
	else
		sl_onnx_out(im, mean_by_axis(im, x, &w));
}

/* ---- borders and other sizes */

/* Zeros of the same width all around an image become padding of the one convolution or mean that reads it. Other
 * borders become nodes. */
/* Whether input 2, the border's value, is 0 or left out. It may be an initializer, though none that learns. */
static bool pads_zeros(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = im->node->n_input > 2 ? sl_onnx_in(im, 2) : NULL;
	float by = 0;

	if (v && v->constant && v->constant->data_type == SL_ONNX_FLOAT && sl_onnx_count(v->constant) == 1)
		sl_onnx_read_f32(v->constant, &by);
	else if (v && !sl_onnx_scalar_in(im, 2, &by))
		return false;
	return by == 0;
}

void sl_onnx_read_pad(struct sl_onnx_import *im)
{
	const Onnx__Attribute *mode = sl_onnx_attr(im, "mode", SL_ONNX_ATTR_STRING);
	struct sl_onnx_value *v = sl_onnx_in(im, 0), same;
	const bool zeros = !mode || is_word(mode, "constant");
	const enum sl_resample how = is_word(mode, "reflect") ? SL_RESAMPLE_REFLECT
				     : is_word(mode, "edge")  ? SL_RESAMPLE_EDGE
							      : SL_RESAMPLE_CUT;
	int64_t pad[SL_ONNX_INTS];
	int x, n;

	if (!zeros && how == SL_RESAMPLE_CUT)
		sl_onnx_refuse(im, "its mode is not constant, reflect or edge");
	if (zeros && !pads_zeros(im))
		sl_onnx_refuse(im, "its value is not 0: of borders zeros are read");
	if ((x = sl_onnx_image_in(im)) < 0)
		return;
	n = im->flat ? 3 : 4;
	if (sl_onnx_ints_in(im, 1, pad) != 2 * n) {
		sl_onnx_refuse(im, "its pads are no %d constants", 2 * n);
		return;
	}
	if (zeros && n == 4 && !pad[0] && !pad[1] && !pad[4] && !pad[5] && pad[2] >= 0 && pad[2] <= SL_ONNX_MOST &&
	    pad[3] == pad[2] && pad[6] == pad[2] && pad[7] == pad[2] && v->n_readers == 1) {
		const struct sl_onnx_value *out = sl_onnx_find(im, im->node->output[0]);
		const char *reader = out && out->n_readers == 1 ? im->onnx->graph->node[out->reader[0]]->op_type : "";

		if (strcmp(reader, "Conv") == 0 || strcmp(reader, "AveragePool") == 0) {
			same = *v;
			same.pad = (int)pad[2];
			sl_onnx_out_same(im, &same);
			return;
		}
	}
	if (pad[0] || pad[n])
		sl_onnx_refuse(im, "it pads the batch");
	for (int i = 1; i < n && !im->b->err; i++) {
		const int axis = i == 1 ? 3 : n == 3 ? 2 : i - 1;
		const struct sl_shape s = sl_build_shape(im->b, x);

		if (pad[i] > SL_ONNX_MOST || pad[i] < -SL_ONNX_MOST || pad[n + i] > SL_ONNX_MOST ||
		    pad[n + i] < -SL_ONNX_MOST)
			sl_onnx_refuse(im, "its pads are too large");
		else
			x = resize(im, x, axis, pad[i], s.dim[axis] + pad[i] + pad[n + i], how);
	}
	sl_onnx_out(im, x);
}

void sl_onnx_read_resize(struct sl_onnx_import *im)
{
	const Onnx__Attribute *mode = sl_onnx_attr(im, "mode", SL_ONNX_ATTR_STRING);
	const Onnx__Attribute *where = sl_onnx_attr(im, "coordinate_transformation_mode", SL_ONNX_ATTR_STRING);
	const Onnx__Attribute *nearest = sl_onnx_attr(im, "nearest_mode", SL_ONNX_ATTR_STRING);
	const bool linear = is_word(mode, "linear"), sizes = im->node->n_input > 3 && im->node->input[3][0];
	int x = sl_onnx_image_in(im);
	int64_t to[SL_ONNX_INTS];
	enum sl_resample how = SL_RESAMPLE_LINEAR;
	int n;

	if (im->b->err)
		return;
	if (linear && is_word(where, "align_corners"))
		how = SL_RESAMPLE_ALIGNED;
	else if ((!mode || is_word(mode, "nearest")) && is_word(where, "asymmetric") && is_word(nearest, "floor"))
		how = SL_RESAMPLE_NEAREST;
	else if (!linear || (where && !is_word(where, "half_pixel") && !is_word(where, "pytorch_half_pixel"))) {
		sl_onnx_refuse(im, "of torch's upsampling nearest and bilinear are read");
		return;
	}
	n = sl_onnx_ints_in(im, sizes ? 3 : 2, to);
	if (n < 0 && !sizes)
		n = sl_onnx_scales_in(im, 2, to, SL_ONNX_INTS);
	if (im->flat || n != 4) {
		sl_onnx_refuse(im, "its sizes are no constants, or its scale is no whole number");
		return;
	}
	for (int i = 0; i < 2 && !im->b->err; i++) {
		const struct sl_shape s = sl_build_shape(im->b, x);

		if (to[0] != (sizes ? im->batch : 1) || to[1] != (sizes ? s.dim[3] : 1))
			sl_onnx_refuse(im, "it changes other sizes than an image's height and width");
		else if (to[2 + i] < 1 || to[2 + i] > SL_ONNX_MOST)
			sl_onnx_refuse(im, "it makes images of no size, or of one that is too large");
		else
			x = resize(im, x, 1 + i, 0, sizes ? to[2 + i] : to[2 + i] * s.dim[1 + i], how);
	}
	sl_onnx_out(im, x);
}
