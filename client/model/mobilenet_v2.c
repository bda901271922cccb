/* MobileNetV2 (Sandler et al., CVPR 2018) with torchvision's names, channels and strides. */
#include <stdio.h>

#include "client/model/sources.h"

enum { ROUND_TO = 8, STEM_C = 32, LAST_C = 1280, POOL = 4 };

struct stage {
	int expand, c, repeat, stride; /* t, c, n, s of the paper's table 2 */
};

static const struct stage stages[] = {
	{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
};
enum { N_STAGES = sizeof(stages) / sizeof(stages[0]), FIRST_STRIDED_STAGE = 1 };

/* torchvision's _make_divisible: to the nearest multiple of 8, but never more than 10 % down. */
static int make_divisible(double c)
{
	int rounded = (int)(c + ROUND_TO / 2.0) / ROUND_TO * ROUND_TO;

	if (rounded < ROUND_TO)
		rounded = ROUND_TO;
	return rounded < 0.9 * c ? rounded + ROUND_TO : rounded;
}

/* A convolution without bias, `prefix`.`conv_name`, and a batch norm, `prefix`.`bn_name`. */
static int conv_bn(struct sl_build *b, const char *prefix, const char *conv_name, const char *bn_name, int x,
		   struct sl_build_window w)
{
	char name[2 * SL_NAME_MAX];

	w.pad = (w.k - 1) / 2;
	snprintf(name, sizeof(name), "%s.%s", prefix, conv_name);
	x = sl_build_conv(b, name, x, w);
	snprintf(name, sizeof(name), "%s.%s", prefix, bn_name);
	return sl_build_bn(b, name, x);
}

/* torchvision's Conv2dNormActivation: `prefix`.0, .1 and .2. */
static int conv_bn_relu6(struct sl_build *b, const char *prefix, int x, struct sl_build_window w)
{
	char name[2 * SL_NAME_MAX];

	x = conv_bn(b, prefix, "0", "1", x, w);
	snprintf(name, sizeof(name), "%s.2", prefix);
	return sl_build_act(b, name, x, SL_ACT_RELU6);
}

/* torchvision's InvertedResidual: [expand 1×1,] depthwise 3×3, project 1×1, and the sum where shapes allow it. */
static int inverted_residual(struct sl_build *b, const char *unit, int x, int in_c, int out_c, int expand, int stride)
{
	const int block_in = x;
	char prefix[SL_NAME_MAX], conv[16], bn[16];
	int at = 0;

	if (expand != 1) {
		snprintf(prefix, sizeof(prefix), "%s.conv.%d", unit, at++);
		x = conv_bn_relu6(b, prefix, x, (struct sl_build_window){.out_c = in_c * expand, .k = 1});
	}
	snprintf(prefix, sizeof(prefix), "%s.conv.%d", unit, at++);
	x = conv_bn_relu6(b, prefix, x, (struct sl_build_window){.k = 3, .stride = stride, .depthwise = true});
	snprintf(conv, sizeof(conv), "conv.%d", at);
	snprintf(bn, sizeof(bn), "conv.%d", at + 1);
	x = conv_bn(b, unit, conv, bn, x, (struct sl_build_window){.out_c = out_c, .k = 1});
	if (stride != 1 || in_c != out_c)
		return x;
	snprintf(prefix, sizeof(prefix), "%s.add", unit);
	return sl_build_add(b, prefix, block_in, x);
}

static int features(struct sl_build *b, const struct sl_model_spec *spec, int last_c)
{
	char unit[32];
	int index = 0, in_c = make_divisible(STEM_C * spec->width);

	sl_build_unit(b, "features.0");
	int x = conv_bn_relu6(b, "features.0", SL_BUILD_INPUT,
			      (struct sl_build_window){.out_c = in_c, .k = 3, .stride = spec->cifar_stem ? 1 : 2});
	for (int s = 0; s < N_STAGES; s++) {
		const int out_c = make_divisible(stages[s].c * spec->width);

		for (int i = 0; i < stages[s].repeat; i++) {
			int stride = i == 0 ? stages[s].stride : 1;

			if (spec->cifar_stem && s == FIRST_STRIDED_STAGE)
				stride = 1;
			snprintf(unit, sizeof(unit), "features.%d", ++index);
			sl_build_unit(b, unit);
			x = inverted_residual(b, unit, x, in_c, out_c, stages[s].expand, stride);
			in_c = out_c;
		}
	}
	snprintf(unit, sizeof(unit), "features.%d", ++index);
	sl_build_unit(b, unit);
	return conv_bn_relu6(b, unit, x, (struct sl_build_window){.out_c = last_c, .k = 1});
}

static void build(struct sl_build *b, const struct sl_model_spec *spec, int pool)
{
	const int last_c = make_divisible(LAST_C * (spec->width > 1.0 ? spec->width : 1.0));
	int x = features(b, spec, last_c);

	sl_build_unit(b, "classifier");
	if (pool)
		x = sl_build_act(b, "classifier.relu", x, SL_ACT_RELU);
	x = sl_build_pool(b, "classifier.pool", x, SL_OP_AVGPOOL, (struct sl_pool_attr){.k = pool, .stride = pool});
	x = sl_build_flatten(b, "classifier.flatten", x);
	x = sl_build_dropout(b, "classifier.0", x, (float)spec->dropout);
	x = sl_build_linear(b, "classifier.1", x, spec->classes, true, sl_init_normal(0.01f));
	sl_build_loss(b, "classifier.loss", x);
}

void sl_source_mobilenet_v2(struct sl_build *b, const struct sl_model_spec *spec)
{
	build(b, spec, 0);
}

/* Its tail begins with a ReLU, since a codec may leave values below 0, and averages by avg_pool2d(4). Of a last plane
 * of 7×7, at 224², that takes the upper-left 4×4 positions. */
void sl_source_mobilenet_v2_pool4(struct sl_build *b, const struct sl_model_spec *spec)
{
	const int stride = spec->cifar_stem ? 8 : 32, side[] = {spec->image, sl_model_image_w(spec)};

	for (int i = 0; i < 2; i++)
		if ((side[i] + stride - 1) / stride < POOL || (side[i] + stride - 1) / stride >= 2 * POOL)
			sl_build_refuse(
				b, "image is %dx%d; mobilenet_v2_pool4 takes heights and widths of %d to %d pixels",
				side[0], side[1], (POOL - 1) * stride + 1, (2 * POOL - 1) * stride);
	build(b, spec, POOL);
}
