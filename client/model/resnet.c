/* ResNet-18, -34 and -50 (He et al., CVPR 2016) and ResNeXt-50 32x4d (Xie et al., CVPR 2017). Names and initial weights
 * are torchvision's, and so is a bottleneck's stride in the middle convolution. The CIFAR form has a stem of one
 * 3×3 convolution of stride 1 and no pool behind it. */
#include <stdio.h>

#include "client/model/sources.h"

enum { STEM_C = 64, STAGES = 4, EXPANSION = 4 };

struct resnet {
	int blocks[STAGES];
	bool bottleneck;
	int groups, group_c; /* ResNeXt: of the 3×3 convolutions, and a group's channels at 64; 0: none */
};

/* `unit`.conv`n` and `unit`.bn`n`; `quiet`: the batch norm's weight starts at 0. */
static int conv_bn_from(struct sl_build *b, const char *unit, const char *n, int x, struct sl_build_window w,
			bool quiet)
{
	char name[2 * SL_NAME_MAX];

	w.pad = (w.k - 1) / 2;
	snprintf(name, sizeof name, "%s%sconv%s", unit, *unit ? "." : "", n);
	x = sl_build_conv(b, name, x, w);
	snprintf(name, sizeof name, "%s%sbn%s", unit, *unit ? "." : "", n);
	return sl_build_bn_from(b, name, x, quiet ? SL_INIT_ZERO : SL_INIT_ONE);
}

static int conv_bn(struct sl_build *b, const char *unit, const char *n, int x, struct sl_build_window w)
{
	return conv_bn_from(b, unit, n, x, w, false);
}

static int relu(struct sl_build *b, const char *unit, const char *n, int x)
{
	char name[2 * SL_NAME_MAX];

	snprintf(name, sizeof name, "%s%srelu%s", unit, *unit ? "." : "", n);
	return sl_build_act(b, name, x, SL_ACT_RELU);
}

/* The value that is added at a block's end: its input, or a 1×1 convolution of it if the shape changes. */
static int shortcut(struct sl_build *b, const char *unit, int x, int out_c, int stride)
{
	const struct sl_shape shape = sl_build_shape(b, x);
	char name[2 * SL_NAME_MAX];

	if (stride == 1 && shape.dim[shape.ndim - 1] == out_c)
		return x;
	snprintf(name, sizeof name, "%s.downsample.0", unit);
	x = sl_build_conv(b, name, x, (struct sl_build_window){.out_c = out_c, .k = 1, .stride = stride});
	snprintf(name, sizeof name, "%s.downsample.1", unit);
	return sl_build_bn(b, name, x);
}

/* The channels of each group in a stage of c channels. */
static int group_channels(const struct resnet *net, int c)
{
	const int n = c * net->group_c / STEM_C;

	return n < 1 ? 1 : n;
}

/* `quiet`: the block's branch gives zeros at first, so that the block passes on its input (init_bn0). */
static int block(struct sl_build *b, const char *unit, int x, const struct resnet *net, int c, int stride, bool quiet)
{
	const bool bottleneck = net->bottleneck;
	const int out_c = bottleneck ? EXPANSION * c : c, groups = net->groups;
	char name[2 * SL_NAME_MAX];
	int y = x;

	sl_build_unit(b, unit);
	c = groups ? groups * group_channels(net, c) : c;
	if (bottleneck)
		y = relu(b, unit, "1", conv_bn(b, unit, "1", y, (struct sl_build_window){.out_c = c, .k = 1}));
	y = conv_bn(b, unit, bottleneck ? "2" : "1", y,
		    (struct sl_build_window){.out_c = c, .k = 3, .stride = stride, .groups = groups});
	y = relu(b, unit, bottleneck ? "2" : "1", y);
	y = conv_bn_from(b, unit, bottleneck ? "3" : "2", y,
			 (struct sl_build_window){.out_c = out_c, .k = bottleneck ? 1 : 3}, quiet);
	x = shortcut(b, unit, x, out_c, stride);
	snprintf(name, sizeof name, "%s.add", unit);
	return relu(b, unit, "", sl_build_add(b, name, y, x));
}

static int stem(struct sl_build *b, const struct sl_model_spec *spec)
{
	const int c = sl_source_channels(STEM_C, spec->width);
	int x;

	sl_build_unit(b, "conv1");
	if (spec->cifar_stem)
		return relu(b, "", "",
			    conv_bn(b, "", "1", SL_BUILD_INPUT, (struct sl_build_window){.out_c = c, .k = 3}));
	x = conv_bn(b, "", "1", SL_BUILD_INPUT, (struct sl_build_window){.out_c = c, .k = 7, .stride = 2});
	return sl_build_pool(b, "maxpool", relu(b, "", "", x), SL_OP_MAXPOOL,
			     (struct sl_pool_attr){.k = 3, .stride = 2, .pad = 1});
}

static void build(struct sl_build *b, const struct sl_model_spec *spec, const struct resnet *net)
{
	char unit[32];
	int x = stem(b, spec);

	for (int s = 0; s < STAGES; s++) {
		for (int i = 0; i < net->blocks[s]; i++) {
			snprintf(unit, sizeof unit, "layer%d.%d", s + 1, i);
			x = block(b, unit, x, net, sl_source_channels(STEM_C << s, spec->width), s && !i ? 2 : 1,
				  spec->init_bn0);
		}
	}
	sl_build_unit(b, "fc");
	x = sl_build_pool(b, "avgpool", x, SL_OP_AVGPOOL, (struct sl_pool_attr){0});
	x = sl_build_flatten(b, "flatten", x);
	x = sl_build_linear_as_torch(b, "fc", x, spec->classes);
	sl_build_loss(b, "loss", x);
}

void sl_source_resnet18(struct sl_build *b, const struct sl_model_spec *spec)
{
	build(b, spec, &(struct resnet){{2, 2, 2, 2}, false, 0, 0});
}

void sl_source_resnext50_32x4d(struct sl_build *b, const struct sl_model_spec *spec)
{
	build(b, spec, &(struct resnet){{3, 4, 6, 3}, true, 32, 4});
}

void sl_source_resnet34(struct sl_build *b, const struct sl_model_spec *spec)
{
	build(b, spec, &(struct resnet){{3, 4, 6, 3}, false, 0, 0});
}

void sl_source_resnet50(struct sl_build *b, const struct sl_model_spec *spec)
{
	build(b, spec, &(struct resnet){{3, 4, 6, 3}, true, 0, 0});
}
