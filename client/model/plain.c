/* Networks that are one chain of convolutions, for images of 32² and more. They are a published form of AlexNet, with
 * batch norms ("alexnet") and without ("alexnet1"), and VGG16, configuration D of Simonyan and Zisserman (ICLR 2015),
 * without batch norms.
 * Every convolution is 3×3 with padding 1 and a ReLU behind; every pool 2×2 with stride 2. Layers are counted as in
 * torch.nn.Sequential modules `features` and `classifier`, and start as torch starts them. */
#include <stdio.h>

#include "client/model/sources.h"

enum { POOL = -1 };

struct line {
	struct sl_build *b;
	double width;
	bool norms;
	int at; /* number of the next layer in `features` or `classifier` */
};

static const char *layer(struct line *l, const char *module, char name[SL_NAME_MAX])
{
	snprintf(name, SL_NAME_MAX, "%s.%d", module, l->at++);
	return name;
}

/* Begins a unit: this convolution and all layers up to the next one. */
static int conv(struct line *l, int x, int out_c, int stride)
{
	struct sl_build *b = l->b;
	const struct sl_shape in = sl_build_shape(b, x);
	const struct sl_init init = sl_init_as_torch(9 * in.dim[in.ndim - 1]);
	char name[SL_NAME_MAX];

	layer(l, "features", name);
	sl_build_unit(b, name);
	x = sl_build_conv_from(b, name, x,
			       (struct sl_build_window){.out_c = sl_source_channels(out_c, l->width),
							.k = 3,
							.stride = stride,
							.pad = 1,
							.bias = !l->norms,
							.bias_init = init},
			       init);
	if (l->norms)
		x = sl_build_bn(b, layer(l, "features", name), x);
	return sl_build_act(b, layer(l, "features", name), x, SL_ACT_RELU);
}

static int pool(struct line *l, int x)
{
	char name[SL_NAME_MAX];

	return sl_build_pool(l->b, layer(l, "features", name), x, SL_OP_MAXPOOL,
			     (struct sl_pool_attr){.k = 2, .stride = 2});
}

/* `what`: channels of the convolutions in order, POOL for a pool, 0 at the end. The first convolution has `stride`. */
static int features(struct line *l, const int *what, int stride)
{
	int x = SL_BUILD_INPUT;

	for (; *what; what++, stride = 1)
		x = *what == POOL ? pool(l, x) : conv(l, x, *what, stride);
	return x;
}

/* Flatten, two layers of `hidden` features, each with dropout in front (`early`) or behind, and the last layer. */
static void classifier(struct line *l, int x, const struct sl_model_spec *spec, int hidden, bool early)
{
	struct sl_build *b = l->b;
	char name[SL_NAME_MAX];

	l->at = 0;
	sl_build_unit(b, "classifier");
	x = sl_build_flatten(b, "flatten", x);
	for (int i = 0; i < 2; i++) {
		if (early)
			x = sl_build_dropout(b, layer(l, "classifier", name), x, (float)spec->dropout);
		x = sl_build_linear_as_torch(b, layer(l, "classifier", name), x, sl_source_channels(hidden, l->width));
		x = sl_build_act(b, layer(l, "classifier", name), x, SL_ACT_RELU);
		if (!early)
			x = sl_build_dropout(b, layer(l, "classifier", name), x, (float)spec->dropout);
	}
	x = sl_build_linear_as_torch(b, layer(l, "classifier", name), x, spec->classes);
	sl_build_loss(b, "loss", x);
}

static bool fits(struct sl_build *b, const struct sl_model_spec *spec)
{
	const int least = 32;

	if (spec->image < least || sl_model_image_w(spec) < least) {
		sl_build_refuse(b, "image is %dx%d; %s takes heights and widths of %d pixels and more", spec->image,
				sl_model_image_w(spec), spec->name, least);
		return false;
	}
	return true;
}

void sl_source_alexnet(struct sl_build *b, const struct sl_model_spec *spec)
{
	static const int what[] = {64, POOL, 192, POOL, 384, 256, 256, POOL, 0};
	struct line l = {b, spec->width, true, 0};
	int x;

	if (!fits(b, spec))
		return;
	x = features(&l, what, 2);
	sl_build_unit(b, "classifier");
	x = sl_build_pool(b, "pool", x, SL_OP_MAXPOOL, (struct sl_pool_attr){.k = 2, .stride = 2});
	x = sl_build_flatten(b, "flatten", x);
	x = sl_build_linear_as_torch(b, "classifier", x, spec->classes);
	x = sl_build_scale(b, "logits", x, 0.125f);
	sl_build_loss(b, "loss", x);
}

void sl_source_alexnet1(struct sl_build *b, const struct sl_model_spec *spec)
{
	static const int what[] = {64, POOL, 192, POOL, 384, 256, 256, POOL, 0};
	struct line l = {b, spec->width, false, 0};

	if (fits(b, spec))
		classifier(&l, features(&l, what, 2), spec, 4096, true);
}

void sl_source_vgg16(struct sl_build *b, const struct sl_model_spec *spec)
{
	static const int what[] = {64,  64,  POOL, 128,  128, POOL, 256, 256,  256, POOL,
				   512, 512, 512,  POOL, 512, 512,  512, POOL, 0};
	struct line l = {b, spec->width, false, 0};

	if (fits(b, spec))
		classifier(&l, features(&l, what, 1), spec, 4096, false);
}
