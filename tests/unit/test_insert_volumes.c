/* Inserts at cuts where volumes cross: a convolution in all three directions, and back, against plain loops. What a
 * slice has reaches the slices within the kernel alone, and no row beyond the border of its slice. Also how many slices
 * a value has, by the nodes next to it. */
#include <math.h>

#include "client/model/insert.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "tests/ref/ref.h"
#include "tests/support/unit.h"

enum { D = 5, H = 4, W = 6, C = 3, VOXELS = D * H * W };

struct built {
	struct sl_graph graph;
	struct sl_model model;
	struct sl_insert insert;
	struct sl_plan *plan;
	struct sl_fail fail;
};

/* A middle that is the insert, and with `back` what undoes it. */
static enum sl_err build(struct built *b, const char *text, int slices, bool back)
{
	const struct sl_plan_spec spec = {.batch = 1, .chunks = 1};
	struct sl_build build = {.graph = &b->graph, .model = &b->model, .insert = true, .fail = &b->fail};
	int value = 0;
	enum sl_err err = sl_insert_parse(&b->insert, "insert.head", text, &b->fail);

	if (!err)
		err = sl_graph_add_input(&b->graph, "head_act", SL_F32, SL_PER_ROW, sl_shape4(1, D * H, W, C), 1, NULL,
					 &b->fail);
	b->insert.slices = slices;
	if (!err)
		value = sl_insert_build(&b->insert, &build, value);
	if (!err && back)
		value = sl_insert_restore(&b->insert, &build, value);
	err = err ? err : build.err;
	if (!err)
		err = sl_graph_add_output(&b->graph, "mid_act", value, NULL, &b->fail);
	return err ? err : sl_plan_open_part(&b->plan, &spec, SL_MIDDLE, &b->graph, &b->fail);
}

static void close_built(struct built *b)
{
	sl_plan_close(b->plan);
	sl_graph_close(&b->graph);
	sl_graph_close(&b->model.graph);
	free(b->model.file);
}

static float number(int64_t i, int salt)
{
	return (float)((i * 37 + salt * 11) % 61 - 30) / 16;
}

/* Runs the plan on `x`, with weights by their place. Returns the output, and the weights if `weights` is not NULL. */
static float *run(const struct built *b, const float *x, float **weights)
{
	const struct sl_exec_call call = {.dims = sl_dims_rows(1)};
	const struct sl_plan_segment *s = &b->plan->segment[SL_MIDDLE];
	float *range = calloc((size_t)s->weight_count + 1, sizeof *range), *out;
	struct sl_backend be;
	struct sl_exec *exec;
	struct sl_tensor t;
	struct sl_fail fail;

	for (int64_t i = 0; i < s->weight_count; i++)
		range[i] = number(i, 5);
	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	assert_int_equal(sl_exec_open(&exec, b->plan, SL_MIDDLE, &be, &fail), SL_OK);
	assert_int_equal(sl_exec_set_weights(exec, range), SL_OK);
	t = sl_exec_input(exec, 0, 1);
	memcpy(t.data, x, VOXELS * C * sizeof *x);
	assert_int_equal(sl_exec_forward(exec, &call, NULL), SL_OK);
	t = sl_exec_output(exec, 0, 1);
	out = malloc((size_t)sl_shape_count(&t.shape) * sizeof *out);
	memcpy(out, t.data, (size_t)sl_shape_count(&t.shape) * sizeof *out);
	sl_exec_close(exec);
	be.ops->close(&be);
	if (weights)
		*weights = range;
	else
		free(range);
	return out;
}

static const float *param(const struct built *b, const float *range, const char *name)
{
	const struct sl_plan_segment *s = &b->plan->segment[SL_MIDDLE];

	for (int i = 0; i < s->n_param; i++)
		if (strcmp(s->graph.param[s->param[i].graph_param].name, name) == 0)
			return range + s->param[i].offset;
	fail_msg("no %s", name);
	return NULL;
}

struct conv {
	int k, s, p, o;
	int dim[3]; /* of the output */
};

static int made(int n, const struct conv *c)
{
	return (n + 2 * c->p - c->k) / c->s + 1;
}

/* Calls `at` for each pair of an output's and an input's voxel that the kernel joins, with the place in it. */
static void each_pair(const struct conv *c, void (*at)(void *arg, int64_t out, int64_t in, int d, int h, int w),
		      void *arg)
{
	for (int e = 0; e < c->dim[0] * c->dim[1] * c->dim[2]; e++)
		for (int i = 0; i < c->k * c->k * c->k; i++) {
			const int kd = i / c->k / c->k, kh = i / c->k % c->k, kw = i % c->k;
			const int d = e / c->dim[2] / c->dim[1] * c->s - c->p + kd;
			const int h = e / c->dim[2] % c->dim[1] * c->s - c->p + kh,
				  w = e % c->dim[2] * c->s - c->p + kw;

			if (d >= 0 && d < D && h >= 0 && h < H && w >= 0 && w < W)
				at(arg, e, (d * H + h) * W + w, kd, kh, kw);
		}
}

struct sums {
	const struct conv *c;
	const float *x, *weight;
	double *y;
};

/* weight [O, KH, KW, K·C], whose channel i·C + c is that of slice i */
static void forward_at(void *arg, int64_t out, int64_t in, int d, int h, int w)
{
	const struct sums *s = arg;
	const int k = s->c->k;

	for (int o = 0; o < s->c->o; o++)
		for (int c = 0; c < C; c++)
			s->y[out * s->c->o + o] +=
				(double)s->x[in * C + c] * (double)s->weight[((o * k + h) * k + w) * k * C + d * C + c];
}

/* The way back: weight [O, KH, KW, K·C], and bias [K·C] for each place along the depth. */
static void back_at(void *arg, int64_t out, int64_t in, int d, int h, int w)
{
	const struct sums *s = arg;
	const int k = s->c->k;

	for (int o = 0; o < s->c->o; o++)
		for (int c = 0; c < C; c++)
			s->y[in * C + c] += (double)s->x[out * s->c->o + o] *
					    (double)s->weight[((o * k + h) * k + w) * k * C + d * C + c];
}

/* Adds the bias [K·C] of each part that a slice of the restored volume gets. */
static void add_biases(const struct conv *c, const float *bias, double *y)
{
	for (int o = 0; o < c->dim[0]; o++)
		for (int i = 0; i < c->k; i++) {
			const int d = o * c->s - c->p + i;

			for (int e = 0; d >= 0 && d < D && e < H * W * C; e++)
				y[(int64_t)d * H * W * C + e] += (double)bias[i * C + e % C];
		}
}

static void near_all(const float *got, const double *want, int64_t n, const char *what)
{
	for (int64_t i = 0; i < n; i++)
		if (!(fabs((double)got[i] - want[i]) <= 1e-5 * (1 + fabs(want[i]))))
			fail_msg("%s: number %lld is %.9g, not %.9g", what, (long long)i, (double)got[i], want[i]);
}

static void compare(const char *text, struct conv c)
{
	float x[VOXELS * C], *y, *z, *mid, *weights;
	const float *bias;
	struct built way = {.plan = NULL}, both = {.plan = NULL};
	double *want, back[VOXELS * C] = {0};
	int64_t n;

	c.dim[0] = made(D, &c);
	c.dim[1] = made(H, &c);
	c.dim[2] = made(W, &c);
	n = (int64_t)c.dim[0] * c.dim[1] * c.dim[2];
	for (int i = 0; i < VOXELS * C; i++)
		x[i] = number(i, 1);
	if (build(&way, text, D, false) || build(&both, text, D, true))
		fail_msg("%s: %s%s", text, way.fail.text, both.fail.text);
	y = run(&way, x, &weights);
	want = calloc((size_t)(n * c.o), sizeof *want);
	bias = param(&way, weights, "insert.head.0.bias");
	for (int64_t i = 0; i < n * c.o; i++)
		want[i] = (double)bias[i % c.o];
	each_pair(&c, forward_at, &(struct sums){&c, x, param(&way, weights, "insert.head.0.weight"), want});
	near_all(y, want, n * c.o, text);
	free(weights);
	free(y);
	z = run(&both, x, &weights);
	bias = param(&both, weights, "insert.head.0.bias");
	for (int64_t i = 0; i < n * c.o; i++)
		want[i] = (double)bias[i % c.o];
	each_pair(&c, forward_at, &(struct sums){&c, x, param(&both, weights, "insert.head.0.weight"), want});
	mid = calloc((size_t)(n * c.o), sizeof *mid);
	for (int64_t i = 0; i < n * c.o; i++)
		mid[i] = (float)want[i];
	add_biases(&c, param(&both, weights, "insert.head.restore.0.bias"), back);
	each_pair(&c, back_at, &(struct sums){&c, mid, param(&both, weights, "insert.head.restore.0.weight"), back});
	free(mid);
	near_all(z, back, VOXELS * C, "the way back");
	free(weights);
	free(want);
	free(z);
	close_built(&way);
	close_built(&both);
}

static void all_directions(void **state)
{
	compare("conv:4,k=2,s=2", (struct conv){.k = 2, .s = 2, .p = 0, .o = 4});
	compare("conv:2,k=3,s=2,p=1", (struct conv){.k = 3, .s = 2, .p = 1, .o = 2});
	compare("conv:2,k=3,p=1", (struct conv){.k = 3, .s = 1, .p = 1, .o = 2});
	compare("conv:5,k=2", (struct conv){.k = 2, .s = 1, .p = 0, .o = 5});
}

/* Layers behind each other: the second one sees the slices that the first one makes. */
static void two_layers(void **state)
{
	struct built b = {.plan = NULL};
	const struct sl_graph *g;

	assert_int_equal(build(&b, "conv:4,k=2,s=2+conv:2,k=2", D, true), SL_OK);
	g = &b.plan->segment[SL_MIDDLE].graph;
	assert_int_equal(g->n_node, 8);
	assert_int_equal(g->value[2].shape.dim[1], 2 * H / 2); /* 5 slices of 4 rows become 2 of 2 */
	assert_int_equal(g->value[4].shape.dim[1], 1);
	assert_int_equal(g->value[8].shape.dim[1], D * H);
	assert_int_equal(sl_model_slices(g, 2, D), 2);
	assert_int_equal(sl_model_slices(g, 4, D), 1);
	assert_int_equal(sl_model_slices(g, 8, D), D);
	assert_string_equal(g->node[0].name, "insert.head.0.window");
	assert_int_equal(b.model.file[0].layout, SL_LAYOUT_OHWI_FROM_OIDHW);
	close_built(&b);
}

/* A change in one slice shows in the slices whose window has it, and nowhere else. */
static void no_slice_reaches_another(void **state)
{
	struct built b = {.plan = NULL};
	float x[VOXELS * C] = {0}, *was, *is;

	assert_int_equal(build(&b, "conv:4,k=2,s=2", D, true), SL_OK);
	was = run(&b, x, NULL);
	for (int i = 0; i < H * W * C; i++)
		x[2 * H * W * C + i] = 1; /* slice 2 is in the second pair */
	is = run(&b, x, NULL);
	for (int d = 0; d < D; d++) {
		const int64_t at = (int64_t)d * H * W * C;
		const bool same = memcmp(is + at, was + at, H * W * C * sizeof *is) == 0;

		assert_int_equal(same, d != 2 && d != 3);
	}
	free(was);
	free(is);
	close_built(&b);
}

static void pictures_and_single_voxels_are_as_before(void **state)
{
	struct built b = {.plan = NULL}, v = {.plan = NULL}, unknown = {.plan = NULL};

	assert_int_equal(build(&b, "conv:4,k=2,s=2", 0, true), SL_OK);
	assert_int_equal(b.plan->segment[SL_MIDDLE].graph.n_node, 2);
	close_built(&b);
	assert_int_equal(build(&v, "conv:4", D, true), SL_OK);
	assert_int_equal(v.plan->segment[SL_MIDDLE].graph.n_node, 2);
	assert_int_equal(v.plan->segment[SL_MIDDLE].graph.node[0].slices, 0);
	close_built(&v);
	assert_int_equal(build(&unknown, "conv:4+linear:2", -1, true), SL_OK);
	close_built(&unknown);
	unknown = (struct built){.plan = NULL};
	assert_int_equal(build(&unknown, "conv:4,k=2,s=2", -1, true), SL_ERR_CONFIG);
	assert_non_null(strstr(unknown.fail.text, "need the number of slices at the cut"));
	close_built(&unknown);
	unknown = (struct built){.plan = NULL};
	assert_int_equal(build(&unknown, "conv:4,k=8", D, false), SL_ERR_CONFIG); /* more than there are slices */
	close_built(&unknown);
}

static void what_the_nodes_tell(void **state)
{
	static const char text[] = "graph 1\nin image f32 R[12,3,2]\nparam p [4,1,1,2] zero\nparam q [4,1,1,4] zero\n"
				   "node a act %0\n"                      /* 1: the input's 4 */
				   "node w window %1 slices=4 stride=2\n" /* 2: 2 slices */
				   "node r act %2\n"                      /* 3 */
				   "node c conv2d %3 &0 slices=2\n"       /* 4 */
				   "node g avgpool %4\n"                  /* 5: the mean of all voxels */
				   "node m gate %4 %5\n"                  /* 6 */
				   "node t permute %6 h=6 w=3\n"          /* 7: what was permuted says nothing, */
				   "node d conv2d %7 &1 slices=2\n"       /* 8: but who reads it does */
				   "out mid_act %8\n";
	static const int want[] = {4, 4, 2, 2, 2, 0, 2, 2, 2};
	struct sl_graph g;
	struct sl_fail fail;

	if (sl_graph_read(&g, text, sizeof text - 1, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int v = 0; v < 9; v++)
		if (sl_model_slices(&g, v, 4) != want[v])
			fail_msg("value %d has %d slices", v, sl_model_slices(&g, v, 4));
	assert_int_equal(sl_model_slices(&g, 4, 0), 0); /* a network of pictures */
	sl_graph_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_directions),           cmocka_unit_test(two_layers),
		cmocka_unit_test(no_slice_reaches_another), cmocka_unit_test(pictures_and_single_voxels_are_as_before),
		cmocka_unit_test(what_the_nodes_tell),
	};

	return cmocka_run_group_tests_name("insert volumes", tests, NULL, NULL);
}
