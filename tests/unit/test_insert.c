/* Learned inserts: their spelling, what they splice into a model, the published rates and MACs, and
 * a training step through them. */

#include <math.h>

#include "tests/support/local_run.h"
#include "tests/support/unit.h"

static void spelt(const char *text, const char *canonical)
{
	char out[SL_INSERT_TEXT];
	struct sl_fail fail;

	if (sl_insert_advance(text, false, 0, out, &fail) != SL_OK)
		fail_msg("%s: %s", text, fail.text);
	assert_string_equal(out, canonical);
}

static void refused(const char *text)
{
	char out[SL_INSERT_TEXT] = "untouched";
	struct sl_fail fail;

	if (sl_insert_advance(text, false, 0, out, &fail) != SL_ERR_CONFIG)
		fail_msg("\"%s\" was taken", text);
	assert_string_equal(out, "untouched");
}

static void texts(void **state)
{
	spelt("", "");
	spelt("conv:20,k=3,s=3", "conv:20,k=3,s=3");
	spelt("conv:20,s=3,k=3,p=0", "conv:20,k=3,s=3");
	spelt("conv:320,k=1,s=1", "conv:320");
	spelt("conv:007", "conv:7");
	spelt("conv:32,k=4,s=4+conv:20", "conv:32,k=4,s=4+conv:20");
	spelt("conv:8,k=3,p=1+linear:4+conv:3+linear:2", "conv:8,k=3,p=1+linear:4+conv:3+linear:2");
	spelt("none", "");
	spelt("decaylinear:rate=0.90,times=9,every=300", "decaylinear:rate=0.9,every=300,times=9");
	spelt("decaylinear:rate=1,every=1,times=64,from=0,l1=0", "decaylinear:rate=1,every=1,times=64");
	spelt("conv:4+decaylinear:rate=0.83,every=500,times=5,l1=1e-4,from=1000",
	      "conv:4+decaylinear:rate=0.83,every=500,times=5,l1=0.0001,from=1000");
	spelt("decaylinear:rate=0.9,every=300,times=9,from=9999", "decaylinear:rate=0.9,every=300,times=9,from=2700");
	spelt("conv:4+linear:8,tokens=20", "conv:4+linear:8,tokens=20");
	spelt("linear:8,tokens=0", "linear:8");
	refused("linear:8,tokens=65536");
	refused("linear:8,tokens=4+linear:2");
	spelt("decaylinear:rate2=0.95,rate=0.9,every=300,times=9,l1=1e-4",
	      "decaylinear:rate=0.9,every=300,times=9,l1=0.0001,rate2=0.95");
	refused("decaylinear:rate=0.9,every=300,times=9,rate2=1.5");
	refused("none+conv:3");
	refused("decaylinear");
	refused("decaylinear:");
	refused("decaylinear:0.9");
	refused("decaylinear:rate=0.9,every=300");
	refused("decaylinear:rate=0.9,times=9");
	refused("decaylinear:every=300,times=9");
	refused("decaylinear:rate=0,every=300,times=9");
	refused("decaylinear:rate=1.01,every=300,times=9");
	refused("decaylinear:rate=-0.5,every=300,times=9");
	refused("decaylinear:rate=nan,every=300,times=9");
	refused("decaylinear:rate=0x1,every=300,times=9");
	refused("decaylinear:rate=0.9,every=0,times=9");
	refused("decaylinear:rate=0.9,every=300,times=65");
	refused("decaylinear:rate=0.9,every=300,times=0");
	refused("decaylinear:rate=0.9,every=300,times=9,l1=-1");
	refused("decaylinear:rate=0.9,every=300,times=9,rate=0.9");
	refused("decaylinear:rate=0.9,every=300,times=9,");
	refused("decaylinear:rate=0.9,every=300,times=9+conv:3");
	refused("conv");
	refused("conv:");
	refused("conv:0");
	refused("conv:-1");
	refused("conv:1048577");
	refused("conv:99999999999999999999");
	refused("conv:20,");
	refused("conv:20,k=");
	refused("conv:20,s=3,k=,k=3");
	refused("conv:20,k=3,k=3");
	refused("conv:20,q=3");
	refused("conv:20,k=0");
	refused("conv:20,s=0");
	refused("conv:20,k=3,p=3"); /* a window could lie in the padding alone */
	refused("conv:20 ");
	refused(" conv:20");
	refused("conv:20+");
	refused("+conv:20");
	refused("conv:20++conv:3");
	spelt("bottleneck:83", "conv:32,k=8,s=8+conv:16");
	refused("bottleneck");
	refused("bottleneck:84");
	refused("bottleneck:58+conv:3");
	refused("linear:8,k=3");
	refused("pool:2");
	refused("conv:1+conv:2+conv:3+conv:4+conv:5");
}

static struct sl_split_spec spec_of(int image, const char *head, const char *tail)
{
	struct sl_split_spec spec = {
		.model = {"mobilenet_v2", 1.0, 1000, image, false, 0.2, 0, 0, 0, 0},
		.cut = {"1:-1", "features.0.1", "classifier"},
		.plan.batch = 64,
		.plan.chunks = 4,
		.plan.seed = 7,
	};

	strcpy(spec.insert_head, head);
	strcpy(spec.insert_tail, tail);
	return spec;
}

static struct sl_plan *open_plan(const struct sl_split_spec *spec)
{
	struct sl_plan *plan = NULL;
	struct sl_fail fail;

	if (plan_open(&plan, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}

static double macs(const struct sl_plan *plan, enum sl_segment which)
{
	return (double)(plan->segment[which].macs * plan->spec.batch);
}

static double rate(const struct sl_plan *plan)
{
	struct sl_shape head = sl_plan_cut_shape(plan, false, 1), mid = sl_plan_cut_shape(plan, true, 1);

	return (double)(sl_shape_count(&head) + sl_shape_count(&mid)) /
	       (double)(sl_plan_plain_count(plan, false) + sl_plan_plain_count(plan, true));
}

/* Equal to three significant digits: the published table has no more. */
static void assert_digits(double got, double want)
{
	assert_true(fabs(got / want - 1) < 0.005);
}

static void assert_row(const char *head, const char *tail, double want_rate, double part1, double part2, double part3)
{
	struct sl_split_spec spec = spec_of(224, head, tail);
	struct sl_plan *plan = open_plan(&spec);

	assert_true(fabs(rate(plan) - want_rate) < 0.0005);
	assert_digits(macs(plan, SL_HEAD), part1);
	assert_digits(macs(plan, SL_MIDDLE), part2);
	assert_digits(macs(plan, SL_TAIL), part3);
	sl_plan_close(plan);
}

/* docs/results/inserts.md. The MACs of "type 2" are those of the insert of rate 0.097. */
static void published_rows(void **state)
{
	assert_row("", "", 1.0, 7.45e8, 1.93e10, 8.19e7);
	assert_row("conv:20,k=3,s=3", "conv:360", 0.0970, 1.25e9, 2.53e10, 1.53e9);
	assert_row("conv:32,k=4,s=4+conv:20", "conv:380+conv:40", 0.0380, 1.60e9, 3.40e10, 1.65e9);
}

static void rates_by_elements(void **state)
{
	static const struct {
		const char *head, *tail;
		double rate;
	} row[] = {
		{"conv:20,k=4,s=4", "conv:320", 0.0676},
		{"conv:32,k=4,s=4", "conv:320", 0.0878},
		{"conv:20,k=3,s=3", "conv:320", 0.0928},
		{"bottleneck:58", "bottleneck:58", 1 / 57.76},
		{"bottleneck:83", "bottleneck:83", 1 / 83.09},
		{"bottleneck:153", "bottleneck:153", 1 / 152.77},
		{"linear:16", "linear:640", 0.5},
		{"decaylinear:rate=0.9,every=300,times=9", "decaylinear:rate=0.9,every=300,times=9", 1},
		{"decaylinear:rate=0.5,every=3,times=2,from=3", "none", 0.56758},
	};

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		struct sl_split_spec spec = spec_of(224, row[i].head, row[i].tail);
		struct sl_plan *plan = open_plan(&spec);

		assert_true(fabs(rate(plan) - row[i].rate) < 0.00006);
		sl_plan_close(plan);
	}
}

static const struct sl_op *find_op(const struct sl_plan *plan, const char *name)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		for (int i = 0; i < plan->segment[which].n_op; i++)
			if (!strcmp(plan->segment[which].op[i].op.name, name))
				return &plan->segment[which].op[i].op;
	fail_msg("no op %s", name);
	return NULL;
}

static void assert_shape(const struct sl_op *op, int64_t h, int64_t w, int64_t c)
{
	const int64_t want[] = {h, w, c};

	assert_memory_equal(op->out_shape.dim + 1, want, sizeof want);
}

/* In every part each value is made by one node, before it is read. The output of a part is the input of the next. */
static void assert_sound(const struct sl_plan *plan)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_graph *g = &plan->segment[which].graph, *before = &plan->segment[which - 1].graph;

		for (int i = 0; i < g->n_node; i++) {
			assert_int_equal(g->node[i].out, g->n_in + i);
			for (int k = 0; k < g->node[i].n_in; k++)
				assert_in_range(g->link[g->node[i].in + k], 0, g->node[i].out - 1);
		}
		if (which == SL_HEAD)
			continue;
		assert_string_equal(g->in[0].name, before->out[0].name);
		assert_true(
			sl_shape_equal(&g->value[g->in[0].value].shape, &before->value[before->out[0].value].shape));
	}
}

static int count_nodes(const struct sl_plan *plan)
{
	return plan->segment[0].graph.n_node + plan->segment[1].graph.n_node + plan->segment[2].graph.n_node;
}

static void the_splice(void **state)
{
	struct sl_split_spec spec = spec_of(224, "conv:24,k=5,s=3,p=1+conv:6,k=2,s=2", "linear:16+conv:320"), bare;
	struct sl_plan *plan = open_plan(&spec), *plain;
	const struct sl_model *m = plan->model;
	const struct sl_plan_segment *mid = &plan->segment[SL_MIDDLE], *tail = &plan->segment[SL_TAIL];

	bare = spec_of(224, "", "");
	plain = open_plan(&bare);
	assert_sound(plan);
	assert_int_equal(count_nodes(plan), count_nodes(plain) + 8);
	/* 112 → (112 + 2 - 5) / 3 + 1 = 37, one column left over; 37 → 18, one left over again */
	assert_shape(find_op(plan, "insert.head.0"), 37, 37, 24);
	assert_shape(find_op(plan, "insert.head.1"), 18, 18, 6);
	assert_shape(find_op(plan, "insert.head.restore.1"), 37, 37, 24);
	assert_shape(find_op(plan, "insert.head.restore.0"), 112, 112, 32);
	assert_shape(find_op(plan, "insert.tail.0"), 7, 7, 16);
	assert_shape(find_op(plan, "insert.tail.1"), 7, 7, 320);
	assert_shape(find_op(plan, "insert.tail.restore.1"), 7, 7, 16);
	assert_shape(find_op(plan, "insert.tail.restore.0"), 7, 7, 1280);
	assert_int_equal(find_op(plan, "insert.head.restore.0")->kind, SL_OP_CONVT2D);
	assert_int_equal(find_op(plan, "insert.tail.restore.1")->kind, SL_OP_CONV2D);
	/* the part that each op is in, and its place there */
	assert_string_equal(plan->segment[SL_HEAD].op[plan->segment[SL_HEAD].n_op - 1].op.name, "insert.head.1");
	assert_string_equal(mid->op[0].op.name, "insert.head.restore.1");
	assert_string_equal(mid->op[1].op.name, "insert.head.restore.0");
	assert_string_equal(mid->op[2].op.name, "features.0.2");
	assert_int_equal(mid->op[2].op.in[0], mid->op[1].op.out);
	assert_string_equal(mid->op[mid->n_op - 1].op.name, "insert.tail.1");
	assert_string_equal(tail->op[0].op.name, "insert.tail.restore.1");
	assert_string_equal(tail->op[2].op.name, "classifier.pool");
	assert_string_equal(plan->cut.text, plain->cut.text);
	assert_int_equal(sl_plan_plain_count(plan, false), 112 * 112 * 32);
	assert_int_equal(sl_plan_plain_count(plan, true), 7 * 7 * 1280);
	/* the model's own ops and parameters are as before */
	assert_int_equal(m->n_plain, plain->model->graph.n_param);
	for (int i = 0; i < m->n_plain; i++)
		assert_string_equal(m->graph.param[i].name, plain->model->graph.param[i].name);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		for (int i = 0; i < plain->segment[which].n_op; i++) {
			const struct sl_op *op = &plain->segment[which].op[i].op;

			assert_int_equal(find_op(plan, op->name)->stream, op->stream);
		}
	for (int i = 0; i < m->graph.n_param; i++) {
		assert_int_equal(m->graph.param[i].stream, i);
		assert_int_equal(m->file[i].optional, i >= m->n_plain);
	}
	assert_memory_not_equal(plan->hash, plain->hash, sizeof plan->hash);
	sl_plan_close(plain);
	sl_plan_close(plan);
}

static bool learns(const struct sl_plan *plan, enum sl_segment which)
{
	return plan->segment[which].trainable_count > 0;
}

static bool refuses(struct sl_split_spec spec, const char *key)
{
	struct sl_plan *plan = NULL;
	struct sl_fail fail = {0};

	return plan_open(&plan, &spec, &fail) == SL_ERR_CONFIG && strcmp(fail.key, key) == 0;
}

/* train.loss "restore": the loss compares what an insert restores with the activation. The insert
 * then lies in the middle, after the ops that make the activation, and it alone learns. The model
 * keeps the parameters of the whole network, for its file. */
static void restoring(void **state)
{
	const struct sl_split_spec bare = spec_of(32, "", "");
	struct sl_plan *plain = open_plan(&bare);

	for (int tail = 0; tail < 2; tail++) {
		struct sl_split_spec spec = spec_of(32, "conv:20,k=3,s=3", "conv:320");
		struct sl_plan *plan;
		const struct sl_plan_segment *mid;

		spec.loss = tail ? SL_LOSS_RESTORE_TAIL : SL_LOSS_RESTORE_HEAD;
		plan = open_plan(&spec);
		mid = &plan->segment[SL_MIDDLE];
		assert_sound(plan);
		assert_false(learns(plan, SL_HEAD) || learns(plan, SL_TAIL));
		for (int i = 0; i < mid->n_param; i++) {
			const struct sl_param *p = &mid->graph.param[mid->param[i].graph_param];

			assert_int_equal(p->role == SL_LEARNS, strncmp(p->name, "insert.", 7) == 0);
		}
		assert_int_equal(mid->n_op, 4 + (tail ? plain->segment[SL_MIDDLE].n_op : 0));
		assert_int_equal(plan->segment[SL_TAIL].n_op, 2);
		assert_int_equal(plan->segment[SL_TAIL].op[1].op.kind, SL_OP_MSE);
		assert_int_equal(plan->model->graph.n_param, plan->model->n_plain + 4);
		assert_int_equal(sl_plan_plain_count(plan, true), tail ? 1280 : 16 * 16 * 32);
		sl_plan_close(plan);
		strcpy(tail ? spec.insert_tail : spec.insert_head, "");
		assert_true(refuses(spec, "train.loss"));
		strcpy(tail ? spec.insert_tail : spec.insert_head, "decaylinear:rate=0.9,every=1,times=2");
		assert_true(refuses(spec, tail ? "insert.tail" : "insert.head"));
	}
	sl_plan_close(plain);
}

static void plan_refuses(const char *head, const char *tail, const char *says)
{
	struct sl_split_spec spec = spec_of(32, head, tail);
	struct sl_plan *plan = NULL;
	struct sl_fail fail = {0};

	assert_int_equal(plan_open(&plan, &spec, &fail), SL_ERR_CONFIG);
	assert_null(plan);
	if (!strstr(fail.text, says))
		fail_msg("\"%s\" does not say \"%s\"", fail.text, says);
}

static void inserts_that_do_not_fit(void **state)
{
	plan_refuses("conv:8,k=17", "", "insert.head: ");
	plan_refuses("", "conv:8,k=2", "insert.tail: ");
	plan_refuses("conv:8,k=x", "",
		     "insert.head: conv:C[,k=K][,s=S][,p=P] with sizes of 1 and more, and P below K, got 'x'");
	plan_refuses("conv:8,q=3", "", "insert.head: conv has no option 'q'");
	plan_refuses("", "conv:8,k=3,k=3", "insert.tail: 'k' is given twice for conv");
	plan_refuses("conf:8", "",
		     "insert.head: an insert is none, a preset such as bottleneck:58, or conv, linear and decaylinear "
		     "joined with '+'");
	plan_refuses("conv:1048576,k=16,s=16", "", "insert.head: ");
}

/* ---- training through inserts */

static void run_open(struct local_run *r, const char *head, const char *tail, int threads)
{
	local_run_open(r, &(struct local_run_conf){.head = head,
						   .tail = tail,
						   .form_cifar = true,
						   .dropout = 0.2,
						   .chunks = 3,
						   .threads = threads,
						   .optimizer = {.momentum = 0.9}});
}

/* The loss of the last of `steps` steps on the same images. */
static double train(struct local_run *r, int steps)
{
	double loss = (double)NAN;

	for (int step = 0; step < steps; step++)
		loss = local_run_step(r, (uint64_t)step, 0.01);
	return loss;
}

static double loss_after(const char *head, const char *tail, int threads, int steps)
{
	struct local_run r;
	double loss;

	run_open(&r, head, tail, threads);
	loss = train(&r, steps);
	local_run_close(&r);
	return loss;
}

/* A linear insert that keeps the width starts as the identity, bit for bit; one that narrows does not. */
static void linear_starts_as_the_identity(void **state)
{
	double plain = loss_after("", "", 1, 1);

	assert_true(loss_after("linear:8", "linear:1280", 1, 1) == plain);
	assert_true(loss_after("linear:4", "", 1, 1) != plain);
	assert_true(loss_after("", "linear:640", 1, 1) != plain);
}

static void inserts_learn(void **state)
{
	static const char head[] = "conv:6,k=3,s=3+conv:4", tail[] = "conv:64,k=2,s=2";
	double first = loss_after(head, tail, 2, 1);

	assert_true(loss_after(head, tail, 2, 30) < 0.1 * first);
	assert_true(loss_after(head, tail, 1, 3) == loss_after(head, tail, 2, 3));
}

/* Every parameter of an insert gets a gradient. */
static void every_parameter_moves(void **state)
{
	struct local_run r;
	const struct sl_model *m;
	float *before;
	int seen = 0;

	run_open(&r, "conv:6,k=3,s=3", "linear:16+conv:320", 1);
	m = r.plan->model;
	train(&r, 2);
	before = malloc((size_t)INT16_MAX * 4 * sizeof *before);
	assert_non_null(before);
	assert_int_equal(sl_local_get_weights(r.local, &r.weights), SL_OK);
	for (int i = 0; i < m->graph.n_param; i++) {
		int64_t n = sl_shape_count(&m->graph.param[i].shape), moved = 0;

		if (!m->file[i].optional)
			continue;
		assert_in_range(n, 1, INT16_MAX * 4);
		sl_param_init(&m->graph.param[i], r.plan->spec.seed, before);
		for (int64_t k = 0; k < n; k++)
			moved += before[k] != r.weights.value[i][k];
		assert_true(moved > n / 2);
		seen++;
	}
	assert_int_equal(seen, 4 + 6);
	free(before);
	local_run_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(published_rows),
		cmocka_unit_test(rates_by_elements),
		cmocka_unit_test(the_splice),
		cmocka_unit_test(restoring),
		cmocka_unit_test(inserts_that_do_not_fit),
		cmocka_unit_test(linear_starts_as_the_identity),
		cmocka_unit_test(inserts_learn),
		cmocka_unit_test(every_parameter_moves),
	};

	return cmocka_run_group_tests_name("insert", tests, NULL, NULL);
}
