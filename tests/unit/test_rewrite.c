/* Which ops of a part become exec nodes of their own, and which are merged with their neighbours,
 * for a backend whose convolutions support what `can` says. */

#include "common/exec/rewrite.h"
#include "tests/support/unit.h"

enum { MOST = 8 };

static struct {
	bool norm, act, stats, whole, half, logits, window, sum;
} can;

static bool takes(const struct sl_op *op, struct sl_exec_form form)
{
	if (op->kind == SL_OP_BATCHNORM)
		return can.half;
	if (op->kind == SL_OP_XENT)
		return can.logits;
	if (form.pre == SL_PRE_WINDOW)
		return can.window;
	if (op->kind == SL_OP_ADD)
		return can.sum;
	return (form.pre == SL_PRE_NONE || (form.pre == SL_PRE_NORM ? can.norm : can.act)) &&
	       (form.post == SL_POST_NONE || (form.post == SL_POST_STATS ? can.stats : can.whole));
}

static const struct sl_kernel kernel = {.takes = takes}, plain;
static const struct sl_backend_ops ops = {.name = "test",
					  .kernel = {[SL_OP_CONV2D] = &kernel,
						     [SL_OP_BATCHNORM] = &kernel,
						     [SL_OP_ACT] = &plain,
						     [SL_OP_ADD] = &kernel,
						     [SL_OP_XENT] = &kernel,
						     [SL_OP_WINDOW] = &plain}};

struct part {
	struct sl_segment_op op[MOST];
	struct sl_plan_segment s;
	struct sl_exec_node node[MOST];
	int n;
};

/* A chain: op i reads value i and writes value i + 1. */
static struct part chain_of(int n, const enum sl_op_kind *kinds)
{
	struct part p = {.s = {.n_op = n, .in_value = 0, .out_value = n}};

	for (int i = 0; i < n; i++)
		p.op[i] = (struct sl_segment_op){.op = {.kind = kinds[i], .n_in = 1, .in = {i}, .out = i + 1},
						 .learns = true,
						 .backward = true,
						 .din_want = {true}};
	return p;
}

static void rewrite(struct part *p)
{
	const struct sl_backend be = {.ops = &ops};
	struct sl_field out = {.value = p->s.out_value};

	p->s.graph = (struct sl_graph){.out = &out, .n_out = 1, .n_value = MOST + 1};
	p->s.op = p->op;
	assert_int_equal(sl_rewrite(p->node, &p->n, &p->s, &be), SL_OK);
}

static void expect_node(const struct sl_exec_node *n, int op, int in, int out, int dout, int din)
{
	assert_int_equal(n->op, op);
	assert_int_equal(n->in[0], in);
	assert_int_equal(n->out, out);
	assert_int_equal(n->dout, dout);
	assert_int_equal(n->din[0], din);
	assert_int_equal(n->in[1], -1);
	assert_int_equal(n->din[1], -1);
}

static const enum sl_op_kind three[] = {SL_OP_CONV2D, SL_OP_BATCHNORM, SL_OP_CONV2D};

static void nothing_is_taken_that_a_kernel_does_not_take(void **state)
{
	struct part p = chain_of(3, three);

	memset(&can, 0, sizeof can);
	rewrite(&p);
	assert_int_equal(p.n, 3);
	for (int i = 0; i < 3; i++) {
		expect_node(&p.node[i], i, i, i + 1, i + 1, i);
		assert_true(p.node[i].keeps_in == 1 && !p.node[i].keeps_out);
		assert_true(p.node[i].pre == -1 && p.node[i].post == -1);
	}
	can.norm = can.stats = true; /* but the batch norm cannot be split into halves */
	rewrite(&p);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.node[0].form.post, SL_POST_NONE);
	assert_int_equal(p.node[2].form.pre, SL_PRE_NONE);
}

static void a_batchnorm_is_split_between_two_convolutions(void **state)
{
	struct part p = chain_of(3, three);

	memset(&can, 0, sizeof can);
	can.norm = can.stats = can.half = true;
	rewrite(&p);
	assert_int_equal(p.n, 2);
	expect_node(&p.node[0], 0, 0, 1, 2, 0);
	assert_true(p.node[0].form.post == SL_POST_STATS && p.node[0].post == 1 && p.node[0].keeps_out);
	expect_node(&p.node[1], 2, 1, 3, 3, 2);
	assert_true(p.node[1].form.pre == SL_PRE_NORM && p.node[1].pre == 1);
}

static void a_half_stays_where_one_side_alone_takes_the_other(void **state)
{
	struct part p = chain_of(3, three);

	memset(&can, 0, sizeof can);
	can.stats = can.half = true;
	rewrite(&p);
	assert_int_equal(p.n, 3);
	expect_node(&p.node[0], 0, 0, 1, 2, 0);
	assert_int_equal(p.node[1].form.half, SL_HALF_APPLY);
	expect_node(&p.node[1], 1, 1, 2, 2, -1);
	can.stats = false;
	can.norm = true;
	rewrite(&p);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.node[1].form.half, SL_HALF_STATS);
	expect_node(&p.node[1], 1, 1, -1, 2, 1);
	expect_node(&p.node[2], 2, 1, 3, 3, 2);
}

/* WHOLE needs a convolution whose input gradient is not wanted. */
static void a_convolution_takes_its_batchnorm_whole(void **state)
{
	struct part p = chain_of(3, three);

	memset(&can, 0, sizeof can);
	can.norm = can.stats = can.whole = can.half = true;
	rewrite(&p);
	assert_int_equal(p.node[0].form.post, SL_POST_STATS);
	p.op[0].din_want[0] = false;
	rewrite(&p);
	assert_int_equal(p.n, 2);
	assert_int_equal(p.node[0].form.post, SL_POST_WHOLE);
	expect_node(&p.node[0], 0, 0, 2, 2, -1);
	expect_node(&p.node[1], 2, 2, 3, 3, 2);
	assert_int_equal(p.node[1].form.pre, SL_PRE_NONE);
}

static void an_activation_goes_into_the_convolution_behind(void **state)
{
	static const enum sl_op_kind two[] = {SL_OP_ACT, SL_OP_CONV2D};
	struct part p = chain_of(2, two);

	memset(&can, 0, sizeof can);
	can.act = true;
	rewrite(&p);
	assert_int_equal(p.n, 1);
	expect_node(&p.node[0], 1, 0, 2, 2, 0);
	assert_true(p.node[0].form.pre == SL_PRE_ACT && p.node[0].pre == 0);
	p.op[0].din_want[0] = false; /* the gradient at the activation's input is not wanted either */
	rewrite(&p);
	expect_node(&p.node[0], 1, 0, 2, 2, -1);
	p.op[0].din_want[0] = p.op[0].din_add[0] = true; /* a gradient that passes it cannot be added */
	rewrite(&p);
	assert_int_equal(p.n, 2);
	assert_true(p.node[0].din_add[0]);
}

static void what_others_see_stays_in_memory(void **state)
{
	static const enum sl_op_kind four[] = {SL_OP_CONV2D, SL_OP_BATCHNORM, SL_OP_CONV2D, SL_OP_ADD};
	struct part p = chain_of(3, three);

	memset(&can, 0, sizeof can);
	can.norm = can.act = can.stats = can.whole = can.half = true;
	p.op[2].narrows = true; /* the shape of its output changes */
	rewrite(&p);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.node[1].form.half, SL_HALF_APPLY);
	p.op[2].narrows = false;
	p.s.out_value = 2; /* the value leaves the part */
	rewrite(&p);
	assert_int_equal(p.n, 3);
	p = chain_of(4, four); /* the value has a second reader */
	p.op[3].op.n_in = 2;
	p.op[3].op.in[1] = 2;
	rewrite(&p);
	assert_int_equal(p.n, 4);
	assert_int_equal(p.node[2].form.pre, SL_PRE_NONE);
	assert_int_equal(p.node[3].in[1], 2);
}

/* A residual block's end: convolution, batchnorm, addition, activation. The addition's other input is value 5. */
static void a_sum_takes_its_neighbours(void **state)
{
	static const enum sl_op_kind four[] = {SL_OP_CONV2D, SL_OP_BATCHNORM, SL_OP_ADD, SL_OP_ACT};
	struct part p = chain_of(4, four);

	memset(&can, 0, sizeof can);
	can.stats = can.half = can.sum = true;
	p.op[2].op.n_in = 2;
	p.op[2].op.in[1] = 5;
	p.op[2].din_want[1] = p.op[2].din_add[1] = true;
	rewrite(&p);
	assert_int_equal(p.n, 2);
	assert_true(p.node[0].form.post == SL_POST_STATS && p.node[0].dout == 2);
	assert_true(p.node[1].form.pre == SL_PRE_NORM && p.node[1].pre == 1);
	assert_true(p.node[1].form.post == SL_POST_ACT && p.node[1].post == 3);
	assert_true(p.node[1].in[0] == 1 && p.node[1].in[1] == 5 && p.node[1].out == 4 && p.node[1].dout == 4);
	assert_true(p.node[1].din[0] == 2 && p.node[1].din[1] == 5 && !p.node[1].din_add[0] && p.node[1].din_add[1]);
	assert_true(p.node[1].keeps_in == 1 && p.node[1].keeps_out);
	p.op[1].op.u.bn.act = SL_ACT_RELU; /* it cannot apply a batchnorm with an activation */
	rewrite(&p);
	assert_int_equal(p.n, 3);
	assert_true(p.node[1].form.half == SL_HALF_APPLY && p.node[2].form.pre == SL_PRE_NONE);
	assert_true(p.node[2].in[0] == 2 && p.node[2].keeps_in == 0 && p.node[2].keeps_out);
	p.op[1].op.u.bn.act = SL_ACT_NONE;
	p.op[2].op.in[0] = 5; /* nor to its other input */
	p.op[2].op.in[1] = 2;
	rewrite(&p);
	assert_int_equal(p.n, 3);
	p.op[2].narrows = true;
	rewrite(&p);
	assert_int_equal(p.n, 4);
	p.op[2].narrows = false;
	p.s.out_value = 3; /* the sum leaves the part */
	rewrite(&p);
	assert_int_equal(p.n, 4);
	assert_true(p.node[2].form.post == SL_POST_NONE && p.node[3].op == 3);
}

/* An op that needs no backward pass merges only with others that need none. Its node reads no gradient. */
static void what_has_no_backward_joins_its_like_alone(void **state)
{
	struct part p = chain_of(3, three);

	memset(&can, 0, sizeof can);
	can.norm = can.stats = can.half = true;
	p.op[0].backward = p.op[0].din_want[0] = p.op[1].din_want[0] = false;
	rewrite(&p);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.node[0].form.post, SL_POST_NONE);
	assert_int_equal(p.node[1].form.half, SL_HALF_STATS);
	p.op[1].backward = p.op[2].din_want[0] = false; /* now neither of the first two has a backward pass */
	rewrite(&p);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.node[0].form.post, SL_POST_STATS);
	expect_node(&p.node[0], 0, 0, 1, -1, -1);
	assert_true(!p.node[0].keeps_in && !p.node[0].keeps_out);
	assert_int_equal(p.node[1].form.half, SL_HALF_APPLY);
	expect_node(&p.node[1], 1, 1, 2, -1, -1);
	assert_int_equal(p.node[2].form.pre, SL_PRE_NONE);
	expect_node(&p.node[2], 2, 2, 3, 3, -1);
}

/* A frozen convolution needs only its weights for the gradient of its input. It keeps its input
 * only if it recomputes the op before or after it. */
static void a_frozen_convolution_keeps_no_input(void **state)
{
	struct part p = chain_of(3, three);

	memset(&can, 0, sizeof can);
	p.op[0].learns = p.op[1].learns = p.op[2].learns = false;
	rewrite(&p);
	assert_true(!p.node[0].keeps_in && p.node[1].keeps_in == 1 && !p.node[2].keeps_in);
	can.norm = can.half = true;
	rewrite(&p);
	assert_int_equal(p.node[2].form.pre, SL_PRE_NORM);
	assert_true(!p.node[0].keeps_in && p.node[2].keeps_in == 1);
	memset(&can, 0, sizeof can);
	can.stats = can.half = can.whole = true;
	p.op[0].din_want[0] = false;
	rewrite(&p);
	assert_int_equal(p.node[0].form.post, SL_POST_WHOLE);
	assert_true(p.node[0].keeps_in == 1);
}

/* A loss computes its own logits, but only if there are many classes and nothing else reads the logits. */
static void a_loss_takes_the_layer_of_its_logits(void **state)
{
	static const enum sl_op_kind three_ops[] = {SL_OP_ADD, SL_OP_LINEAR, SL_OP_XENT};
	struct part p = chain_of(3, three_ops);

	memset(&can, 0, sizeof can);
	p.op[2].op.in_shape[0] = sl_shape2(1000, 128256);
	rewrite(&p);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.node[2].logits, -1);
	can.logits = true;
	rewrite(&p);
	assert_int_equal(p.n, 2);
	expect_node(&p.node[1], 2, 1, 3, -1, 1);
	assert_true(p.node[1].form.pre == SL_PRE_LINEAR && p.node[1].pre == 1 && p.node[1].keeps_in == 1);
	assert_true(p.node[1].logits == 2 && p.node[1].rows == (128 << 20) / 4 / 128256);
	p.op[1].learns = false; /* its input is read only for the gradient of the weight */
	rewrite(&p);
	assert_int_equal(p.node[1].keeps_in, 0);
	p.op[2].op.in_shape[0] = sl_shape2(3, 8193);
	rewrite(&p);
	assert_true(p.n == 2 && p.node[1].rows == 3);
	p.op[2].op.in_shape[0] = sl_shape2(1000, 8192);
	rewrite(&p);
	assert_int_equal(p.n, 3);
	p.op[2].op.in_shape[0] = sl_shape4(1000, 2, 2, 128256);
	rewrite(&p);
	assert_int_equal(p.n, 3);
	p.op[2].op.in_shape[0] = sl_shape2(1000, 128256);
	p.op[0].op.n_in = 2; /* a second reader */
	p.op[0].op.in[1] = 2;
	rewrite(&p);
	assert_int_equal(p.n, 3);
}

/* Volumes of 4 slices of 3 rows; the convolution sees 4 pictures. */
static void a_window_is_read_by_the_convolution_behind(void **state)
{
	static const enum sl_op_kind kinds[] = {SL_OP_WINDOW, SL_OP_CONV2D};
	struct part p = chain_of(2, kinds);

	p.op[0].op.slices = p.op[1].op.slices = 4;
	p.op[0].op.in_shape[0] = sl_shape4(1, 12, 5, 2);
	p.op[0].op.out_shape = sl_shape4(1, 12, 5, 6);
	p.op[1].op.in_shape[0] = sl_shape4(4, 3, 5, 6);
	p.op[0].din_add[0] = true;
	memset(&can, 0, sizeof can);
	rewrite(&p);
	assert_int_equal(p.n, 2);
	can.window = true;
	rewrite(&p);
	assert_int_equal(p.n, 1);
	expect_node(&p.node[0], 1, 0, 2, 2, 0);
	assert_true(p.node[0].form.pre == SL_PRE_WINDOW && p.node[0].form.window == &p.s.op[0].op);
	assert_true(p.node[0].pre == 0 && p.node[0].din_add[0] && p.node[0].keeps_in == 1);
	p.op[1].learns = false; /* a frozen one keeps nothing */
	rewrite(&p);
	assert_int_equal(p.node[0].keeps_in, 0);
	p.op[1].op.in_shape[0] = sl_shape4(6, 2, 5, 6); /* it sees other slices */
	rewrite(&p);
	assert_int_equal(p.n, 2);
	p.op[1].op.in_shape[0] = sl_shape4(4, 3, 5, 6);
	p.op[0].op.u.window.back = 4; /* a sum of slices */
	rewrite(&p);
	assert_int_equal(p.n, 2);
	p.op[0].op.u.window.back = 0;
	p.s.out_value = 1; /* others read the window */
	rewrite(&p);
	assert_int_equal(p.n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_taken_that_a_kernel_does_not_take),
		cmocka_unit_test(a_batchnorm_is_split_between_two_convolutions),
		cmocka_unit_test(a_half_stays_where_one_side_alone_takes_the_other),
		cmocka_unit_test(a_convolution_takes_its_batchnorm_whole),
		cmocka_unit_test(an_activation_goes_into_the_convolution_behind),
		cmocka_unit_test(what_others_see_stays_in_memory),
		cmocka_unit_test(a_sum_takes_its_neighbours),
		cmocka_unit_test(what_has_no_backward_joins_its_like_alone),
		cmocka_unit_test(a_frozen_convolution_keeps_no_input),
		cmocka_unit_test(a_loss_takes_the_layer_of_its_logits),
		cmocka_unit_test(a_window_is_read_by_the_convolution_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
