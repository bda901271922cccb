/* MobileNetV2 as it is usually trained from scratch on CIFAR: pytorch-cifar's names and shapes, and torch's initial
 * weights. The activation is ReLU. The stem and the second stage have stride 1, and the first block has its 1×1
 * expansion, though by 1. A block of stride 1 that changes the channels has a shortcut of a 1×1 convolution and a batch
 * norm. avg_pool2d(4) takes the upper-left 4×4 positions of a last plane of 4×4 to 7×7. */
#include <stdio.h>

#include "client/model/sources.h"

enum { STEM_C = 32, LAST_C = 1280, LAST_POOL = 4, TOTAL_STRIDE = 8 };

static const struct stage {
	int expand, c, repeat, stride;
} stages[] = {
	{1, 16, 1, 1}, {6, 24, 2, 1}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
};
enum { N_STAGES = sizeof stages / sizeof stages[0] };

static int channels_of(const struct sl_build *b, int x)
{
	return (int)sl_build_shape(b, x).dim[3];
}

/* A convolution without bias and a batch norm, called `conv` and `bn` behind `unit`. */
static int conv_bn(struct sl_build *b, const char *unit, const char *conv, const char *bn, int x,
		   struct sl_build_window w)
{
	const int64_t terms = (int64_t)w.k * w.k * (w.depthwise || x < 0 ? 1 : channels_of(b, x));
	char name[2 * SL_NAME_MAX];

	w.pad = (w.k - 1) / 2;
	snprintf(name, sizeof name, "%s%s", unit, conv);
	x = sl_build_conv_from(b, name, x, w, sl_init_as_torch(terms));
	snprintf(name, sizeof name, "%s%s", unit, bn);
	return sl_build_bn(b, name, x);
}

static int relu(struct sl_build *b, const char *unit, const char *relu, int x)
{
	char name[2 * SL_NAME_MAX];

	snprintf(name, sizeof name, "%s%s", unit, relu);
	return sl_build_act(b, name, x, SL_ACT_RELU);
}

/* `prefix`: the unit's name and a dot. */
static int block(struct sl_build *b, const char *prefix, int x, int in_c, int out_c, int expand, int stride)
{
	char name[2 * SL_NAME_MAX];
	int y = conv_bn(b, prefix, "conv1", "bn1", x, (struct sl_build_window){.out_c = expand * in_c, .k = 1});

	y = relu(b, prefix, "relu1", y);
	y = conv_bn(b, prefix, "conv2", "bn2", y,
		    (struct sl_build_window){.k = 3, .stride = stride, .depthwise = true});
	y = relu(b, prefix, "relu2", y);
	y = conv_bn(b, prefix, "conv3", "bn3", y, (struct sl_build_window){.out_c = out_c, .k = 1});
	if (stride != 1)
		return y;
	if (in_c != out_c)
		x = conv_bn(b, prefix, "shortcut.0", "shortcut.1", x, (struct sl_build_window){.out_c = out_c, .k = 1});
	snprintf(name, sizeof name, "%sadd", prefix);
	return sl_build_add(b, name, y, x);
}

static int blocks(struct sl_build *b, const struct sl_model_spec *spec, int x, int in_c)
{
	char unit[32], prefix[34];
	int index = 0;

	for (int s = 0; s < N_STAGES; s++) {
		const int out_c = sl_source_channels(stages[s].c, spec->width);

		for (int i = 0; i < stages[s].repeat; i++) {
			snprintf(unit, sizeof unit, "layers.%d", index++);
			snprintf(prefix, sizeof prefix, "%s.", unit);
			sl_build_unit(b, unit);
			x = block(b, prefix, x, in_c, out_c, stages[s].expand, i ? 1 : stages[s].stride);
			in_c = out_c;
		}
	}
	return x;
}

void sl_source_mobilenet_v2_relu(struct sl_build *b, const struct sl_model_spec *spec)
{
	const int least = LAST_POOL * TOTAL_STRIDE, side[] = {spec->image, sl_model_image_w(spec)};
	const int stem_c = sl_source_channels(STEM_C, spec->width);
	int x;

	for (int i = 0; i < 2; i++)
		if (side[i] < least || side[i] > 2 * least - TOTAL_STRIDE)
			sl_build_refuse(b,
					"image is %dx%d; mobilenet_v2_relu takes heights and widths of %d to %d pixels",
					side[0], side[1], least, 2 * least - TOTAL_STRIDE);
	sl_build_unit(b, "conv1");
	x = conv_bn(b, "", "conv1", "bn1", SL_BUILD_INPUT, (struct sl_build_window){.out_c = stem_c, .k = 3});
	x = blocks(b, spec, relu(b, "", "relu1", x), stem_c);
	sl_build_unit(b, "conv2");
	x = conv_bn(b, "", "conv2", "bn2", x,
		    (struct sl_build_window){.out_c = sl_source_channels(LAST_C, spec->width), .k = 1});
	x = relu(b, "", "relu2", x);
	sl_build_unit(b, "linear");
	x = sl_build_pool(b, "pool", x, SL_OP_AVGPOOL, (struct sl_pool_attr){.k = LAST_POOL, .stride = LAST_POOL});
	x = sl_build_flatten(b, "flatten", x);
	x = sl_build_linear_as_torch(b, "linear", x, spec->classes);
	sl_build_loss(b, "loss", x);
}
