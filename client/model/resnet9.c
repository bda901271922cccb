/* ResNet9 (D. Page, "How to Train Your ResNet", 2018): names, shapes and initial weights of its PyTorch form. */
#include <stdio.h>

#include "client/model/sources.h"

enum { LAST_POOL = 4, TOTAL_STRIDE = 32 };
static const int channels[] = {64, 128, 256, 512}; /* prep, layer1, layer2, layer3 */
static const float logit_scale = 0.125f;

static const char *named(char name[SL_NAME_MAX], const char *prefix, const char *what)
{
	snprintf(name, SL_NAME_MAX, "%s_%s", prefix, what);
	return name;
}

/* `prefix`_conv, _bn and _relu. */
static int conv_bn_relu(struct sl_build *b, const char *prefix, int x, int in_c, int out_c)
{
	char name[SL_NAME_MAX];

	x = sl_build_conv_from(b, named(name, prefix, "conv"), x,
			       (struct sl_build_window){.out_c = out_c, .k = 3, .pad = 1}, sl_init_as_torch(in_c * 9));
	x = sl_build_bn(b, named(name, prefix, "bn"), x);
	return sl_build_act(b, named(name, prefix, "relu"), x, SL_ACT_RELU);
}

/* The unit `layer`: a convolution and a pool that halves the image. */
static int halve(struct sl_build *b, const char *layer, int x, int in_c, int out_c)
{
	char name[SL_NAME_MAX];

	sl_build_unit(b, layer);
	x = conv_bn_relu(b, layer, x, in_c, out_c);
	return sl_build_pool(b, named(name, layer, "pool"), x, SL_OP_MAXPOOL,
			     (struct sl_pool_attr){.k = 2, .stride = 2});
}

/* The unit `unit`: x + block(block(x)). */
static int residual(struct sl_build *b, const char *unit, int x, int c)
{
	char name[SL_NAME_MAX];
	int y;

	sl_build_unit(b, unit);
	y = conv_bn_relu(b, named(name, unit, "res1"), x, c, c);
	y = conv_bn_relu(b, named(name, unit, "res2"), y, c, c);
	return sl_build_add(b, named(name, unit, "add"), x, y);
}

void sl_source_resnet9(struct sl_build *b, const struct sl_model_spec *spec)
{
	int c[4], x;

	/* Other sizes leave more than one position for the classifier, whose weight then has another shape. */
	if (spec->image / TOTAL_STRIDE != 1 || sl_model_image_w(spec) / TOTAL_STRIDE != 1) {
		sl_build_refuse(b, "image is %dx%d; resnet9 takes heights and widths of %d to %d pixels", spec->image,
				sl_model_image_w(spec), TOTAL_STRIDE, 2 * TOTAL_STRIDE - 1);
		return;
	}
	for (int i = 0; i < 4; i++)
		c[i] = sl_source_channels(channels[i], spec->width);
	sl_build_unit(b, "prep");
	x = conv_bn_relu(b, "prep", SL_BUILD_INPUT, 3, c[0]);
	x = halve(b, "layer1", x, c[0], c[1]);
	x = residual(b, "layer1_residual", x, c[1]);
	x = halve(b, "layer2", x, c[1], c[2]);
	x = halve(b, "layer3", x, c[2], c[3]);
	x = residual(b, "layer3_residual", x, c[3]);
	sl_build_unit(b, "pool");
	x = sl_build_pool(b, "pool", x, SL_OP_MAXPOOL, (struct sl_pool_attr){.k = LAST_POOL, .stride = LAST_POOL});
	x = sl_build_flatten(b, "flatten", x);
	sl_build_unit(b, "linear");
	x = sl_build_linear(b, "linear", x, spec->classes, false, sl_init_as_torch(c[3]));
	x = sl_build_scale(b, "classifier", x, logit_scale);
	sl_build_loss(b, "loss", x);
}
