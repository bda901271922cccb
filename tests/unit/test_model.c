/* Built-in networks: shapes, parameters and names, shape inference, and initial values. */

#include <math.h>

#include "client/model/source.h"
#include "common/conf/conf.h"
#include "tests/support/unit.h"

static const struct sl_model_spec imagenet = {
	.name = "mobilenet_v2", .width = 1.0, .classes = 1000, .image = 224, .dropout = 0.2};

static struct sl_model *open_model(const struct sl_model_spec *spec)
{
	struct sl_model *model = NULL;
	struct sl_fail fail = {0};

	if (sl_model_open(&model, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return model;
}

static struct sl_op find_op(const struct sl_model *m, const char *name)
{
	for (int i = 0; i < m->graph.n_node; i++)
		if (!strcmp(m->graph.node[i].name, name))
			return sl_graph_op(&m->graph, i);
	fail_msg("no op %s", name);
	return (struct sl_op){.kind = SL_OP_COUNT};
}

static struct sl_shape shape_of(const struct sl_model *m, const char *op)
{
	return find_op(m, op).out_shape;
}

static const struct sl_param *find_param(const struct sl_model *m, const char *name)
{
	for (int i = 0; i < m->graph.n_param; i++)
		if (!strcmp(m->graph.param[i].name, name))
			return &m->graph.param[i];
	fail_msg("no parameter %s", name);
	return NULL;
}

static const struct sl_file_param *find_file(const struct sl_model *m, const char *name)
{
	return &m->file[find_param(m, name)->stream];
}

static void assert_shape(const struct sl_shape *s, int ndim, const int64_t *dim)
{
	assert_int_equal(s->ndim, ndim);
	for (int i = 0; i < ndim; i++)
		assert_int_equal(s->dim[i], dim[i]);
}

/* torchvision counts 3,504,872 trainable parameters. Its batch norms have 17,056 channels in all. */
static void mobilenet_v2_is_torchvisions(void **state)
{
	struct sl_model *m = open_model(&imagenet);
	int64_t trainable = 0, running = 0;

	for (int i = 0; i < m->graph.n_param; i++) {
		int64_t n = sl_shape_count(&m->graph.param[i].shape);

		assert_int_equal(n, sl_shape_count(&m->file[i].shape));
		*(m->graph.param[i].role == SL_LEARNS ? &trainable : &running) += n;
	}
	assert_int_equal(trainable, 3504872);
	assert_int_equal(running, 2 * 17056);
	assert_int_equal(m->graph.n_param, 52 * 5 + 2);
	assert_int_equal(m->n_unit, 20);
	assert_string_equal(m->unit[0].name, "features.0");
	assert_string_equal(m->unit[18].name, "features.18");
	assert_string_equal(m->unit[19].name, "classifier");
	assert_int_equal(m->unit[0].end_node, 3);
	assert_int_equal(m->unit[19].end_node, m->graph.n_node);
	assert_int_equal(m->graph.n_node - m->unit[19].first_node, 5);
	assert_string_equal(m->graph.node[m->graph.n_node - 1].name, "classifier.loss");
	for (int i = 0; i < m->graph.n_node; i++) {
		assert_int_equal(m->graph.node[i].stream, i);
		assert_int_equal(m->graph.node[i].out, i + 2);
	}
	assert_int_equal(m->graph.n_value, m->graph.n_node + 2);
	sl_model_close(m);
}

static void mobilenet_v2_names_and_shapes(void **state)
{
	struct sl_model *m = open_model(&imagenet);

	assert_shape(&find_param(m, "features.0.0.weight")->shape, 4, (int64_t[]){32, 3, 3, 3});
	assert_shape(&find_param(m, "features.1.conv.0.0.weight")->shape, 3, (int64_t[]){3, 3, 32});
	assert_shape(&find_file(m, "features.1.conv.0.0.weight")->shape, 4, (int64_t[]){32, 1, 3, 3});
	assert_shape(&find_file(m, "features.1.conv.1.weight")->shape, 4, (int64_t[]){16, 32, 1, 1});
	assert_shape(&find_param(m, "features.17.conv.3.running_var")->shape, 1, (int64_t[]){320});
	assert_shape(&find_param(m, "features.18.0.weight")->shape, 4, (int64_t[]){1280, 1, 1, 320});
	assert_shape(&find_param(m, "classifier.1.weight")->shape, 2, (int64_t[]){1000, 1280});
	assert_int_equal(find_param(m, "features.18.1.running_mean")->role, SL_STATISTIC);
	assert_shape(&(struct sl_shape[]){shape_of(m, "features.0.1")}[0], 4, (int64_t[]){1, 112, 112, 32});
	assert_shape(&(struct sl_shape[]){shape_of(m, "features.3.add")}[0], 4, (int64_t[]){1, 56, 56, 24});
	assert_shape(&(struct sl_shape[]){shape_of(m, "features.18.2")}[0], 4, (int64_t[]){1, 7, 7, 1280});
	assert_shape(&(struct sl_shape[]){shape_of(m, "classifier.flatten")}[0], 2, (int64_t[]){1, 1280});
	assert_shape(&(struct sl_shape[]){shape_of(m, "classifier.loss")}[0], 1, (int64_t[]){1});
	/* The sum adds the input of the block to its output. */
	const struct sl_op add = find_op(m, "features.3.add");
	assert_int_equal(add.in[0], find_op(m, "features.2.conv.3").out);
	assert_int_equal(add.in[1], find_op(m, "features.3.conv.3").out);
	int adds = 0;
	for (int i = 0; i < m->graph.n_node; i++)
		adds += m->graph.node[i].kind == SL_OP_ADD;
	assert_int_equal(adds, 10);
	sl_model_close(m);
}

static int64_t node_macs(const struct sl_model *m, int i, int64_t rows)
{
	struct sl_op op = sl_graph_op(&m->graph, i);

	return sl_op_macs(&op, rows);
}

/* Published MACs: 7.45e8, 1.93e10, 8.19e7 and 2.01e10 at batch 64 and 224²; the head ends after features.0.1. */
static void macs_are_the_published_ones(void **state)
{
	struct sl_model *m = open_model(&imagenet);
	int64_t head = 0, middle = 0, tail = 0;

	for (int i = 0; i < m->graph.n_node; i++) {
		int64_t macs = node_macs(m, i, 64);

		*(i < 2 ? &head : i < m->unit[19].first_node ? &middle : &tail) += macs;
	}
	assert_string_equal(m->graph.node[1].name, "features.0.1");
	assert_int_equal(head, 693633024 + 51380224);
	assert_int_equal(tail, 64 * 1280 * 1000);
	assert_int_equal((head + 500000) / 1000000, 745);
	assert_int_equal((middle + 50000000) / 100000000, 193);
	assert_int_equal((tail + 50000) / 100000, 819);
	assert_int_equal((head + middle + tail + 50000000) / 100000000, 201);
	sl_model_close(m);
}

static void cifar_stem_has_a_total_stride_of_8(void **state)
{
	struct sl_model *m = open_model(&(struct sl_model_spec){
		.name = "mobilenet_v2", .width = 1.0, .classes = 10, .image = 32, .cifar_stem = true});

	assert_shape(&(struct sl_shape[]){shape_of(m, "features.0.2")}[0], 4, (int64_t[]){1, 32, 32, 32});
	assert_shape(&(struct sl_shape[]){shape_of(m, "features.3.add")}[0], 4, (int64_t[]){1, 32, 32, 24});
	assert_shape(&(struct sl_shape[]){shape_of(m, "features.4.conv.3")}[0], 4, (int64_t[]){1, 16, 16, 32});
	assert_shape(&(struct sl_shape[]){shape_of(m, "features.18.2")}[0], 4, (int64_t[]){1, 4, 4, 1280});
	sl_model_close(m);
	m = open_model(&(struct sl_model_spec){.name = "mobilenet_v2", .width = 1.0, .classes = 10, .image = 32});
	assert_shape(&(struct sl_shape[]){shape_of(m, "features.18.2")}[0], 4, (int64_t[]){1, 1, 1, 1280});
	sl_model_close(m);
}

/* torchvision's numbers of channels: _make_divisible(c × width, 8), of which the last is never below 1280. */
static void width_rounds_as_torchvision(void **state)
{
	static const struct {
		double width;
		int stem, f7, f14, f17, last;
	} want[] = {
		{0.25, 8, 16, 40, 80, 1280},    {0.1, 8, 8, 16, 32, 1280},     {0.35, 16, 24, 56, 112, 1280},
		{0.75, 24, 48, 120, 240, 1280}, {1.4, 48, 88, 224, 448, 1792},
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct sl_model *m = open_model(&(struct sl_model_spec){
			.name = "mobilenet_v2", .width = want[i].width, .classes = 10, .image = 32});

		assert_int_equal(find_op(m, "features.0.0").u.conv.out_c, want[i].stem);
		assert_int_equal(find_op(m, "features.7.conv.2").u.conv.out_c, want[i].f7);
		assert_int_equal(find_op(m, "features.14.conv.2").u.conv.out_c, want[i].f14);
		assert_int_equal(find_op(m, "features.17.conv.2").u.conv.out_c, want[i].f17);
		assert_int_equal(find_op(m, "features.18.0").u.conv.out_c, want[i].last);
		sl_model_close(m);
	}
}

static void resnet9_is_its_upstreams(void **state)
{
	struct sl_model *m = open_model(&(struct sl_model_spec){
		.name = "resnet9", .width = 1.0, .classes = 10, .image = 32, .cifar_stem = true, .dropout = 0.2});
	int64_t trainable = 0;

	for (int i = 0; i < m->graph.n_param; i++)
		trainable += m->graph.param[i].role == SL_LEARNS ? sl_shape_count(&m->graph.param[i].shape) : 0;
	assert_int_equal(trainable, 6573120);
	assert_int_equal(m->n_unit, 8);
	assert_string_equal(m->unit[2].name, "layer1_residual");
	assert_string_equal(m->unit[7].name, "linear");
	assert_shape(&find_file(m, "layer1_residual_res1_conv.weight")->shape, 4, (int64_t[]){128, 128, 3, 3});
	assert_shape(&find_param(m, "layer3_residual_res2_bn.running_var")->shape, 1, (int64_t[]){512});
	assert_shape(&find_param(m, "linear.weight")->shape, 2, (int64_t[]){10, 512});
	assert_shape(&(struct sl_shape[]){shape_of(m, "pool")}[0], 4, (int64_t[]){1, 1, 1, 512});
	assert_float_equal(find_op(m, "classifier").u.scale.by, 0.125f, 0);
	sl_model_close(m);
}

/* torch.nn.Conv2d and Linear start from U(±1 / sqrt(fan_in)): bounds, mean 0 and the variance bound² / 3. */
static void resnet9_starts_as_pytorch_does(void **state)
{
	struct sl_model *m = open_model(&(struct sl_model_spec){
		.name = "resnet9", .width = 0.5, .classes = 10, .image = 32, .cifar_stem = true});

	for (int i = 0; i < m->graph.n_param; i++) {
		const struct sl_param *p = &m->graph.param[i];
		const struct sl_file_param *f = &m->file[i];
		int64_t n = sl_shape_count(&p->shape);
		int64_t fan_in = f->shape.ndim == 4 ? f->shape.dim[1] * 9 : f->shape.dim[1];
		double bound = 1 / sqrt((double)fan_in), sum = 0, square = 0, most = 0;
		float *x;

		if (f->shape.ndim < 2)
			continue;
		x = malloc((size_t)n * sizeof *x);
		sl_param_init(p, 3, x);
		for (int64_t k = 0; k < n; k++) {
			sum += x[k];
			square += (double)x[k] * x[k];
			most = fmax(most, fabs((double)x[k]));
		}
		assert_true(most <= bound * (1 + 1e-6) && most > 0.98 * bound);
		assert_true(fabs(sum / (double)n) < 4 * bound / sqrt(3.0 * (double)n));
		assert_true(fabs(square / (double)n / (bound * bound / 3) - 1) < 4 * sqrt(0.8 / (double)n));
		free(x);
	}
	sl_model_close(m);
}

static int64_t learners(const struct sl_model *m)
{
	int64_t n = 0;

	for (int i = 0; i < m->graph.n_param; i++)
		n += m->graph.param[i].role == SL_LEARNS ? sl_shape_count(&m->graph.param[i].shape) : 0;
	return n;
}

/* Counts are those of torchvision's state_dicts (1000 classes, 224²). */
static void torchvisions_networks(void **state)
{
	static const struct {
		const char *name;
		int64_t parameters;
		int units;
	} want[] = {{"resnet18", 11689512, 10},
		    {"resnet34", 21797672, 18},
		    {"resnet50", 25557032, 18},
		    {"resnext50_32x4d", 25028904, 18},
		    {"vgg16", 138357544, 14}};

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_model_spec spec = {.width = 1, .classes = 1000, .image = 224};
		struct sl_model *m;

		snprintf(spec.name, sizeof spec.name, "%s", want[i].name);
		m = open_model(&spec);
		assert_int_equal(learners(m), want[i].parameters);
		assert_int_equal(m->n_unit, want[i].units);
		sl_model_close(m);
	}
}

/* The parameter count of pytorch-cifar. The pool of both variants takes only the upper-left 4×4 positions. */
static void mobilenets_of_other_forms(void **state)
{
	struct sl_model_spec spec = {.name = "mobilenet_v2_relu", .width = 1, .classes = 10, .image = 32};
	struct sl_fail fail;
	struct sl_model *m = open_model(&spec);

	assert_int_equal(learners(m), 2296922);
	assert_shape(&find_file(m, "layers.1.shortcut.0.weight")->shape, 4, (int64_t[]){24, 16, 1, 1});
	sl_model_close(m);
	for (int image = 24; image <= 64; image += 8) {
		spec.image = image;
		if (image < 32 || image > 56) {
			assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
			continue;
		}
		m = open_model(&spec);
		assert_shape(&(struct sl_shape[]){shape_of(m, "pool")}[0], 4, (int64_t[]){1, 1, 1, 1280});
		sl_model_close(m);
	}
	strcpy(spec.name, "mobilenet_v2_pool4");
	spec.image = 224;
	m = open_model(&spec);
	assert_shape(&(struct sl_shape[]){shape_of(m, "classifier.relu")}[0], 4, (int64_t[]){1, 7, 7, 1280});
	assert_shape(&(struct sl_shape[]){shape_of(m, "classifier.pool")}[0], 4, (int64_t[]){1, 1, 1, 1280});
	assert_non_null(find_param(m, "features.18.0.weight"));
	sl_model_close(m);
	spec.image = 96; /* features of 3×3 are too few for the pool */
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
}

/* torchvision's zero_init_residual: the last batch norm of each block starts as zero, and no other. */
static void blocks_that_begin_as_nothing(void **state)
{
	static const struct {
		const char *name, *last;
		int blocks;
	} want[] = {{"resnet18", ".bn2.weight", 8}, {"resnet34", ".bn2.weight", 16}, {"resnet50", ".bn3.weight", 16}};

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_model_spec spec = {.width = 0.25, .classes = 10, .image = 64, .init_bn0 = true};
		struct sl_model *m;
		int zeros = 0;

		snprintf(spec.name, sizeof spec.name, "%s", want[i].name);
		m = open_model(&spec);
		for (int k = 0; k < m->graph.n_param; k++) {
			const struct sl_param *p = &m->graph.param[k];
			const char *last = strstr(p->name, want[i].last);
			const bool is_last = strncmp(p->name, "layer", 5) == 0 && last && !last[strlen(want[i].last)];
			float value[2048];

			if (p->shape.ndim != 1 || !strstr(p->name, "bn") || !strstr(p->name, ".weight"))
				continue;
			sl_param_init(p, 1, value);
			for (int64_t at = 0; at < p->shape.dim[0]; at++)
				assert_true(value[at] == (is_last ? 0.0f : 1.0f));
			zeros += is_last;
		}
		assert_int_equal(zeros, want[i].blocks);
		sl_model_close(m);
	}
}

static void names_and_forms_of_resnet(void **state)
{
	struct sl_model_spec spec = {.name = "resnet50", .width = 1, .classes = 10, .image = 32, .cifar_stem = true};
	struct sl_model *m = open_model(&spec);

	assert_shape(&find_file(m, "conv1.weight")->shape, 4, (int64_t[]){64, 3, 3, 3});
	assert_shape(&find_file(m, "layer2.0.downsample.0.weight")->shape, 4, (int64_t[]){512, 256, 1, 1});
	assert_shape(&find_param(m, "layer4.2.bn3.running_var")->shape, 1, (int64_t[]){2048});
	assert_shape(&find_param(m, "fc.weight")->shape, 2, (int64_t[]){10, 2048});
	assert_shape(&(struct sl_shape[]){shape_of(m, "layer4.2.relu")}[0], 4, (int64_t[]){1, 4, 4, 2048});
	sl_model_close(m);
	spec.cifar_stem = false;
	m = open_model(&spec);
	assert_shape(&find_file(m, "conv1.weight")->shape, 4, (int64_t[]){64, 3, 7, 7});
	assert_shape(&(struct sl_shape[]){shape_of(m, "layer1.0.relu")}[0], 4, (int64_t[]){1, 8, 8, 256});
	sl_model_close(m);
}

/* A linear layer after a flattened image: files have the channels first, even with a dropout in between. */
static void flattened_images_in_files(void **state)
{
	struct sl_model_spec spec = {.name = "alexnet1", .width = 1, .classes = 10, .image = 32, .dropout = 0.5};
	struct sl_model *m = open_model(&spec);
	struct sl_fail fail;

	assert_int_equal(find_file(m, "classifier.1.weight")->layout, SL_LAYOUT_HWC_FROM_CHW);
	assert_int_equal(find_file(m, "classifier.1.weight")->channels, 256);
	assert_shape(&find_file(m, "classifier.1.weight")->shape, 2, (int64_t[]){4096, 1024});
	assert_int_equal(find_file(m, "classifier.4.weight")->layout, SL_LAYOUT_SAME);
	sl_model_close(m);
	spec.image = 31;
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "image is 31x31; alexnet1 takes heights and widths of 32 pixels and more");
}

static void resnet9_refuses_other_images(void **state)
{
	struct sl_model_spec spec = {
		.name = "resnet9", .width = 1.0, .classes = 10, .image = 64, .cifar_stem = true, .image_w = 32};
	struct sl_model *m = NULL;
	struct sl_fail fail;

	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "image is 64x32; resnet9 takes heights and widths of 32 to 63 pixels");
	spec.image = 31;
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	spec.image = 32;
	spec.image_w = 64;
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	spec.image_w = 40;
	spec.image = 63;
	sl_model_close(open_model(&spec));
}

/* Height and width are halved independently. */
static void images_need_not_be_square(void **state)
{
	struct sl_model *m = open_model(&(struct sl_model_spec){
		.name = "mobilenet_v2", .width = 1.0, .classes = 10, .image = 40, .dropout = 0.2, .image_w = 56});
	const struct sl_op first = sl_graph_op(&m->graph, 0);

	assert_int_equal(first.in_shape[0].dim[1], 40);
	assert_int_equal(first.in_shape[0].dim[2], 56);
	assert_int_equal(first.out_shape.dim[1], 20);
	assert_int_equal(first.out_shape.dim[2], 28);
	sl_model_close(m);
}

static void wrong_specs_are_refused(void **state)
{
	struct sl_model_spec spec;
	struct sl_model *m = NULL;
	struct sl_fail fail;

	spec = imagenet;
	strcpy(spec.name, "mobilenet_v3");
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "mobilenet_v2"));
	spec = imagenet;
	spec.classes = 1;
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	assert_null(m);
}

/* The largest model that a config can ask for still fits the counters, or is refused. */
static void the_largest_spec_does_not_overflow(void **state)
{
	struct sl_model *m = NULL;
	struct sl_fail fail;
	enum sl_err err = sl_model_open(&m,
					&(struct sl_model_spec){.name = "mobilenet_v2",
								.width = 8,
								.classes = 100000,
								.image = SL_CONF_MAX_IMAGE,
								.cifar_stem = true,
								.dropout = 0.2},
					&fail);

	assert_int_equal(err, SL_ERR_CONFIG);
	assert_null(m);
}

static enum sl_err infer(struct sl_op *op)
{
	struct sl_fail fail;
	enum sl_err err;

	strcpy(op->name, "x");
	op->n_in = op->kind == SL_OP_ATTENTION ? 3 : sl_op_row(op->kind).n_in == 2 && !sl_op_is_loss(op->kind) ? 2 : 1;
	fail.text[0] = 0;
	err = sl_op_infer_shape(op, &fail);
	assert_int_equal(err != SL_OK, fail.text[0] != 0);
	return err;
}

#define ATTEND(q, k, v)                                           \
	{                                                         \
		sl_shape2(1, q), sl_shape2(1, k), sl_shape2(1, v) \
	}

static void shapes_of_single_ops(void **state)
{
	struct sl_op pool = {.kind = SL_OP_MAXPOOL, .in_shape = {sl_shape4(2, 7, 5, 3)}, .u.pool = {3, 2, 1}};
	struct sl_op plane = {.kind = SL_OP_AVGPOOL, .in_shape = {sl_shape4(2, 7, 5, 3)}};
	struct sl_op conv = {
		.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(2, 7, 6, 3)}, .u.conv = {3, 4, 3, 2, 2, 0, 1, false, 1}};

	struct sl_op attention = {
		.kind = SL_OP_ATTENTION, .in_shape = ATTEND(8, 4, 4), .u.attention = {.heads = 4, .kv = 2}, .most = 5};
	struct sl_op norm = {.kind = SL_OP_LAYERNORM, .in_shape = {sl_shape3(2, 5, 6)}};

	assert_int_equal(infer(&attention), SL_OK);
	assert_shape(&attention.out_shape, 2, (int64_t[]){1, 8});
	assert_int_equal(sl_op_macs(&attention, 3), 3 * 2 * 8 * 5);
	assert_int_equal(infer(&norm), SL_OK);
	assert_shape(&norm.out_shape, 3, (int64_t[]){2, 5, 6});
	assert_int_equal(sl_op_macs(&norm, 2), 2 * 2 * 5 * 6);
	assert_int_equal(infer(&pool), SL_OK);
	assert_shape(&pool.out_shape, 4, (int64_t[]){2, 4, 3, 3});
	assert_int_equal(infer(&plane), SL_OK);
	assert_shape(&plane.out_shape, 4, (int64_t[]){2, 1, 1, 3});
	assert_int_equal(infer(&conv), SL_OK);
	assert_shape(&conv.out_shape, 4, (int64_t[]){2, 3, 3, 4});
	assert_int_equal(sl_op_macs(&conv, 2), 2 * 3 * 3 * 4 * 3 * 2 * 3);
}

static void misfits_are_refused(void **state)
{
	struct sl_op bad[] = {
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 5)}, .u.conv = {4, 4, 1, 1, 1, 0, 1, false, 1}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.conv = {4, 4, 1, 1, 1, 0, 3, false, 1}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.conv = {4, 6, 1, 1, 1, 0, 4, false, 1}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.conv = {4, 4, 1, 1, 1, 0, -2, false, 1}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.conv = {4, 4, 3, 3, 1, 0, 1, false, -1}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.conv = {4, 4, 3, 3, 1, 0, 1, false, 2}},
		{.kind = SL_OP_CONV2D,
		 .in_shape = {sl_shape4(1, 4, 4, 4)},
		 .u.conv = {4, 4, 3, 3, 1, 0, 1, false, 0x7fffffff}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.conv = {4, 4, 1, 1, 1, 0, 0, false, 1}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 2, 4, 4)}, .u.conv = {4, 4, 3, 3, 1, 0, 1, false, 1}},
		{.kind = SL_OP_CONV2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.conv = {4, 4, 3, 3, 0, 1, 1, false, 1}},
		{.kind = SL_OP_CONVT2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.convt = {4, 4, 3, 3, 2, 0, 2, 0}},
		{.kind = SL_OP_CONVT2D, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.convt = {4, 4, 3, 3, 2, 0, 0, 2}},
		{.kind = SL_OP_BATCHNORM, .in_shape = {sl_shape4(1, 2, 2, 4)}, .u.bn = {5, 1e-5f, 0.1f, SL_ACT_NONE}},
		{.kind = SL_OP_MAXPOOL, .in_shape = {sl_shape4(1, 4, 4, 4)}, .u.pool = {2, 2, 2}},
		{.kind = SL_OP_AVGPOOL, .in_shape = {sl_shape2(1, 4)}},
		{.kind = SL_OP_ADD, .in_shape = {sl_shape4(1, 2, 2, 4), sl_shape4(1, 2, 2, 5)}},
		{.kind = SL_OP_MUL, .in_shape = {sl_shape2(1, 4), sl_shape2(1, 5)}},
		{.kind = SL_OP_GATE, .in_shape = {sl_shape4(1, 3, 3, 4), sl_shape4(1, 1, 1, 5)}},
		{.kind = SL_OP_GATE, .in_shape = {sl_shape4(1, 3, 3, 4), sl_shape4(1, 3, 3, 4)}},
		{.kind = SL_OP_GATE, .in_shape = {sl_shape2(1, 4), sl_shape2(1, 4)}},
		{.kind = SL_OP_CONCAT, .in_shape = {sl_shape4(1, 3, 3, 4), sl_shape4(1, 3, 2, 4)}},
		{.kind = SL_OP_CONCAT, .in_shape = {sl_shape2(1, 4), sl_shape3(1, 4, 4)}},
		{.kind = SL_OP_CONCAT, .in_shape = {sl_shape2(1, 4), sl_shape2(1, 4)}, .u.concat = {2}},
		{.kind = SL_OP_CONCAT, .in_shape = {sl_shape3(1, 4, 4), sl_shape3(1, 4, 5)}, .u.concat = {1}},
		{.kind = SL_OP_PERMUTE, .in_shape = {sl_shape2(1, 12)}, .u.permute = {2, 3, 4, 0, 0}},
		{.kind = SL_OP_PERMUTE, .in_shape = {sl_shape2(1, 12)}, .u.permute = {1, 0, 1, 0, 0}},
		{.kind = SL_OP_PERMUTE, .in_shape = {sl_shape2(1, 12)}, .u.permute = {1, 1, 1, 5, 0}},
		{.kind = SL_OP_PERMUTE, .in_shape = {sl_shape2(1, 12)}, .u.permute = {1, 1, 1, 0, 3}},
		{.kind = SL_OP_PERMUTE, .in_shape = {sl_shape2(1, 12)}, .u.permute = {INT_MAX, INT_MAX, INT_MAX, 0, 0}},
		{.kind = SL_OP_RESAMPLE, .in_shape = {sl_shape2(1, 4)}, .u.resample = {.axis = 2, .size = 3}},
		{.kind = SL_OP_RESAMPLE,
		 .in_shape = {sl_shape2(1, 4)},
		 .u.resample = {.axis = 1, .size = 8, .mode = SL_RESAMPLE_REFLECT, .before = 4, .step = 1}},
		{.kind = SL_OP_RESAMPLE,
		 .in_shape = {sl_shape2(1, 4)},
		 .u.resample = {.axis = 1, .size = 8, .mode = SL_RESAMPLE_REFLECT, .step = 1}},
		{.kind = SL_OP_RESAMPLE, .in_shape = {sl_shape2(1, 1 << 21)}, .u.resample = {.axis = 1, .size = 8}},
		{.kind = SL_OP_GROUPNORM, .in_shape = {sl_shape3(1, 4, 6)}, .u.groupnorm = {4, 1e-5f}},
		{.kind = SL_OP_GROUPNORM, .in_shape = {sl_shape2(1, 6)}, .u.groupnorm = {2, 1e-5f}},
		{.kind = SL_OP_ATTENTION,
		 .in_shape = {sl_shape3(1, 5, 4), sl_shape3(1, 6, 4), sl_shape3(1, 6, 4)},
		 .u.attention = {.heads = 2, .each = 5}},
		{.kind = SL_OP_ATTENTION,
		 .in_shape = {sl_shape3(1, 5, 4), sl_shape3(1, 5, 4), sl_shape3(1, 5, 4)},
		 .u.attention = {.heads = 2, .each = 5, .rope = 100}},
		{.kind = SL_OP_LAYERNORM, .in_shape = {sl_shape1(1)}},
		{.kind = SL_OP_ATTENTION, .in_shape = ATTEND(6, 6, 6), .u.attention = {.heads = 4}},
		{.kind = SL_OP_ATTENTION, .in_shape = ATTEND(6, 6, 6), .u.attention = {.heads = 3, .kv = 2}},
		{.kind = SL_OP_ATTENTION, .in_shape = ATTEND(6, 6, 6), .u.attention = {.heads = 6, .kv = 3}},
		{.kind = SL_OP_ATTENTION, .in_shape = ATTEND(6, 6, 4), .u.attention = {.heads = 3}},
		{.kind = SL_OP_ATTENTION, .in_shape = ATTEND(6, 6, 6), .u.attention = {.heads = 2, .rope = 10}},
		{.kind = SL_OP_ATTENTION, .in_shape = ATTEND(6, 6, 6), .u.attention = {.heads = 2, .p = 1}},
		{.kind = SL_OP_LINEAR, .in_shape = {sl_shape2(1, 4)}, .u.linear = {5, 2, true, false}},
		{.kind = SL_OP_DROPOUT, .in_shape = {sl_shape2(1, 4)}, .u.dropout = {1.0f}},
		{.kind = SL_OP_XENT, .in_shape = {sl_shape2(1, 4)}, .u.xent = {5}},
		{.kind = SL_OP_ACT},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(infer(&bad[i]), SL_ERR_CONFIG);
}

/* The first failure of a builder is the one reported, and later calls do nothing. */
static void a_builder_keeps_its_first_failure(void **state)
{
	struct sl_build b;
	struct sl_fail fail;
	struct sl_model *m = NULL;

	assert_int_equal(sl_build_open(&b, "x", sl_shape4(1, 8, 8, 3), &sl_learn_tasks[0], 10, &fail), SL_OK);
	sl_build_unit(&b, "u");
	int x = sl_build_conv(&b, "first", SL_BUILD_INPUT, (struct sl_build_window){.out_c = 8, .k = 9});
	assert_int_equal(x, -1);
	assert_int_equal(sl_build_bn(&b, "second", x), -1);
	sl_build_unit(&b, "v");
	assert_int_equal(sl_build_finish(&b, &m), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "first"));
	assert_null(m);
	assert_int_equal(sl_build_open(&b, "x", sl_shape4(1, 8, 8, 3), &sl_learn_tasks[0], 10, &fail), SL_OK);
	sl_build_unit(&b, "u");
	sl_build_unit(&b, "empty");
	sl_build_act(&b, "a", 0, SL_ACT_RELU);
	assert_int_equal(sl_build_finish(&b, &m), SL_ERR_BUG);
	assert_null(m);
}

static void moments(const float *x, int64_t n, double *mean, double *std)
{
	double s = 0, q = 0;

	for (int64_t i = 0; i < n; i++) {
		s += x[i];
		q += (double)x[i] * x[i];
	}
	*mean = s / (double)n;
	*std = sqrt(q / (double)n - *mean * *mean);
}

static void initialisation_is_torchvisions_and_seeded(void **state)
{
	struct sl_model *m = open_model(&imagenet);
	enum { MOST = 1280 * 1000 };
	float *x = malloc(MOST * sizeof(*x)), *y = malloc(MOST * sizeof(*y));

	assert_non_null(x);
	assert_non_null(y);
	for (int i = 0; i < m->graph.n_param; i++) {
		const struct sl_param *p = &m->graph.param[i];
		const struct sl_file_param *f = &m->file[i];
		int64_t n = sl_shape_count(&p->shape);
		double mean, std, want = 0;

		sl_param_init(p, 7, x);
		moments(x, n, &mean, &std);
		if (f->shape.ndim == 4) /* PyTorch's fan_out: O·KH·KW, not divided by the groups */
			want = sqrt(2.0 / (double)(f->shape.dim[0] * f->shape.dim[2] * f->shape.dim[3]));
		else if (f->shape.ndim == 2)
			want = 0.01;
		assert_true(fabs(std - want) <= 4 * want / sqrt(2.0 * (double)n) + 1e-12);
		if (want > 0)
			assert_true(fabs(mean) <= 4.5 * want / sqrt((double)n));
		else
			assert_true(mean == (strstr(p->name, ".running_var") ||
							     (strstr(p->name, ".weight") && f->shape.ndim == 1)
						     ? 1.0
						     : 0.0));
		sl_param_init(p, 7, y);
		assert_memory_equal(x, y, (size_t)n * sizeof(*x));
		sl_param_init(p, 8, y);
		if (want > 0)
			assert_memory_not_equal(x, y, (size_t)n * sizeof(*x));
	}
	free(x);
	free(y);
	sl_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mobilenet_v2_is_torchvisions),
		cmocka_unit_test(mobilenet_v2_names_and_shapes),
		cmocka_unit_test(resnet9_is_its_upstreams),
		cmocka_unit_test(resnet9_starts_as_pytorch_does),
		cmocka_unit_test(resnet9_refuses_other_images),
		cmocka_unit_test(torchvisions_networks),
		cmocka_unit_test(mobilenets_of_other_forms),
		cmocka_unit_test(blocks_that_begin_as_nothing),
		cmocka_unit_test(names_and_forms_of_resnet),
		cmocka_unit_test(flattened_images_in_files),
		cmocka_unit_test(macs_are_the_published_ones),
		cmocka_unit_test(cifar_stem_has_a_total_stride_of_8),
		cmocka_unit_test(width_rounds_as_torchvision),
		cmocka_unit_test(images_need_not_be_square),
		cmocka_unit_test(wrong_specs_are_refused),
		cmocka_unit_test(the_largest_spec_does_not_overflow),
		cmocka_unit_test(shapes_of_single_ops),
		cmocka_unit_test(misfits_are_refused),
		cmocka_unit_test(a_builder_keeps_its_first_failure),
		cmocka_unit_test(initialisation_is_torchvisions_and_seeded),
	};

	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
