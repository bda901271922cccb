/* Whole steps of the executor, recorded once and then launched (kernels/cuda/graph.c), without a GPU. A
 * CPU backend stands in: while "recording", its kernel calls are put on a tape, which a launch plays. */

#include "common/exec/exec.h"
#include "common/weights/weights.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/graph.h"
#include "tests/support/plan_open.h"
#include "tests/support/unit.h"

static struct cu_graphs graphs;

enum { TAPES = 128, CALLS = 256, BATCH = 8, CHUNKS = 3, SEED = 21 };

struct call {
	enum sl_pass_kind kind;
	struct sl_op_call call;
};

struct tape {
	int calls;
	struct call call[CALLS];
};

static struct {
	const struct sl_backend_ops *plain;
	struct sl_backend *be;
	struct tape tape[TAPES];
	int tapes, launches, refuse;
} player;

static enum sl_err push(enum sl_pass_kind kind, const struct sl_op_call *call)
{
	struct tape *t = &player.tape[player.tapes - 1];

	assert_true(t->calls < CALLS);
	t->call[t->calls++] = (struct call){.kind = kind, .call = *call};
	if (call->op->kind == SL_OP_DROPOUT && call->training)
		assert_true(cu_graphs_take_step(&graphs));
	return SL_OK;
}

static enum sl_err plainly(enum sl_pass_kind kind, const struct sl_op_call *call)
{
	const struct sl_kernel *k = player.plain->kernel[call->op->kind];

	return (kind == SL_PASS_COMMIT ? k->commit : kind == SL_PASS_FORWARD ? k->forward : k->backward)(call);
}

static enum sl_err tape_forward(const struct sl_op_call *call)
{
	return (graphs.recording == NULL ? plainly : push)(SL_PASS_FORWARD, call);
}

static enum sl_err tape_backward(const struct sl_op_call *call)
{
	return (graphs.recording == NULL ? plainly : push)(SL_PASS_BACKWARD, call);
}

static enum sl_err tape_commit(const struct sl_op_call *call)
{
	return (graphs.recording == NULL ? plainly : push)(SL_PASS_COMMIT, call);
}

static enum sl_err play(const struct call *c, const uint64_t *step)
{
	struct sl_op_call call = c->call;

	if (step != NULL && call.op->kind == SL_OP_DROPOUT)
		call.rng.step = *step;
	return plainly(c->kind, &call);
}

static enum sl_err tape_record(void *arg)
{
	(void)arg;
	assert_true(player.tapes < TAPES);
	player.tape[player.tapes++].calls = 0;
	return SL_OK;
}

static enum sl_err tape_finish(void *arg, bool keep, void **graph)
{
	(void)arg;
	if (!keep || (player.refuse != 0 && player.tapes % player.refuse == 0))
		return SL_ERR_DEVICE;
	*graph = &player.tape[player.tapes - 1];
	return SL_OK;
}

static enum sl_err tape_launch(void *arg, void *graph, const uint64_t *step)
{
	const struct tape *t = graph;
	enum sl_err err = SL_OK;

	(void)arg;
	player.launches++;
	for (int i = 0; i < t->calls && err == SL_OK; i++)
		err = play(&t->call[i], step);
	return err;
}

static void tape_drop(void *arg, void *graph)
{
	(void)arg;
	((struct tape *)graph)->calls = 0;
}

static const struct cu_graph_runtime tape_runtime = {tape_record, tape_finish, tape_launch, tape_drop};

static enum sl_err pass_begin(struct sl_backend *be, const struct sl_pass *pass, enum sl_pass_way *way)
{
	(void)be;
	return cu_graphs_begin(&graphs, pass, way);
}

static enum sl_err pass_end(struct sl_backend *be, enum sl_err recorded, enum sl_pass_way *way)
{
	(void)be;
	return cu_graphs_end(&graphs, recorded, way);
}

static void pass_forget(struct sl_backend *be, const void *owner)
{
	(void)be;
	cu_graphs_forget(&graphs, owner);
}

/* ---- whole steps */

struct outcome {
	int64_t count;
	float *weights;
	uint64_t seen; /* hash of all outputs and all gradients of the input */
};

static void look(struct outcome *o, const struct sl_tensor *t)
{
	const uint8_t *bytes = t->data;

	for (size_t i = 0; i < (size_t)sl_shape_count(&t->shape) * sizeof(float); i++)
		o->seen = (o->seen ^ bytes[i]) * 0x100000001b3u;
}

static void fill(const struct sl_tensor *t, uint64_t step)
{
	const struct sl_rng_key key = {.seed = SEED, .step = step, .tensor = SL_RNG_TEST};
	float *x = t->data;

	for (int64_t i = 0; i < sl_shape_count(&t->shape); i++)
		x[i] = sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 0.5f;
}

static void load(struct sl_exec *exec, const struct sl_plan *plan, int64_t count)
{
	const struct sl_plan_segment *s = sl_exec_segment(exec);
	float *weights = calloc((size_t)count, sizeof *weights);

	assert_non_null(weights);
	for (int i = 0; i < s->n_param; i++)
		sl_param_init(&plan->model->graph.param[s->param[i].model_param], SEED, weights + s->param[i].offset);
	assert_int_equal(sl_exec_set_weights(exec, weights), SL_OK);
	free(weights);
}

static void forward(struct outcome *o, struct sl_exec *exec, const struct sl_exec_call *call)
{
	struct sl_tensor t = sl_exec_input(exec, call->slot, call->dims.rows);

	fill(&t, call->step * 100 + (uint64_t)call->slot);
	assert_int_equal(sl_exec_forward(exec, call, NULL), SL_OK);
	t = sl_exec_output(exec, call->slot, call->dims.rows);
	look(o, &t);
}

static void step(struct outcome *o, struct sl_exec *exec, const struct sl_plan *plan, int number)
{
	/* the last batch of an epoch is smaller */
	const int batch = number % 3 == 2 ? BATCH - 1 : BATCH;
	int64_t rows[CHUNKS];

	assert_int_equal(sl_exec_begin(exec), SL_OK);
	for (int c = 0; c < CHUNKS; c++) {
		rows[c] = sl_plan_chunk_rows(plan, batch, c);
		forward(o, exec,
			&(struct sl_exec_call){.slot = c,
					       .chunk = c,
					       .dims = sl_dims_rows(rows[c]),
					       .step = (uint64_t)number,
					       .training = true});
	}
	for (int c = 0; c < CHUNKS; c++) {
		const struct sl_exec_call call = {.slot = c,
						  .chunk = c,
						  .dims = sl_dims_rows(rows[c]),
						  .step = (uint64_t)number,
						  .training = true};
		struct sl_tensor t = sl_exec_dout(exec, c, rows[c]);

		fill(&t, (uint64_t)number * 100 + 50 + (uint64_t)c);
		assert_int_equal(sl_exec_backward(exec, &call, NULL), SL_OK);
		t = sl_exec_din(exec, c, rows[c]);
		look(o, &t);
	}
	assert_int_equal(sl_exec_commit(exec, 0.05 / (number + 1), rows, CHUNKS), SL_OK);
	forward(o, exec,
		&(struct sl_exec_call){
			.slot = 0, .chunk = 0, .dims = sl_dims_rows(number % 2 ? 2 : 1), .step = (uint64_t)number});
}

static struct outcome train(bool recorded, int refuse, bool narrows)
{
	static struct sl_kernel kernel[SL_OP_COUNT];
	struct sl_split_spec spec = {.model = {.name = "mobilenet_v2",
					       .width = 0.25,
					       .classes = 10,
					       .image = 32,
					       .cifar_stem = true,
					       .dropout = 0.2},
				     .cut = {.head_end = "features.0.1", .tail_begin = "classifier.1"},
				     .plan.batch = BATCH,
				     .plan.chunks = CHUNKS,
				     .plan.seed = SEED,
				     .plan.optimizer = {.momentum = 0.9, .nesterov = true}};
	struct outcome o = {.seen = 14695981039346656037u};
	struct sl_backend_ops ops;
	struct sl_backend be;
	struct sl_fail fail;
	struct sl_plan *plan;
	struct sl_exec *exec;

	assert_int_equal(sl_cpu_backend_open(&be, NULL, &fail), SL_OK);
	player.plain = be.ops;
	player.be = &be;
	player.tapes = player.launches = 0;
	player.refuse = refuse;
	ops = *be.ops;
	for (int i = 0; i < SL_OP_COUNT; i++) {
		if (ops.kernel[i] == NULL)
			continue;
		kernel[i] = *ops.kernel[i];
		kernel[i].takes = NULL; /* calls of two fused ops point to each other, which the tape cannot copy */
		ops.kernel[i] = &kernel[i];
		if (!recorded)
			continue;
		kernel[i].forward = tape_forward;
		kernel[i].backward = tape_backward;
		kernel[i].commit = kernel[i].commit != NULL ? tape_commit : NULL;
	}
	if (recorded) {
		cu_graphs_open(&graphs, &tape_runtime, NULL);
		ops.pass_begin = pass_begin;
		ops.pass_end = pass_end;
		ops.pass_forget = pass_forget;
	}
	be.ops = &ops;
	if (narrows)
		snprintf(spec.insert_tail, sizeof spec.insert_tail, "decaylinear:rate=0.7,every=4,times=2");
	if (plan_open(&plan, &spec, &fail) || sl_exec_open(&exec, plan, SL_MIDDLE, &be, &fail))
		fail_msg("%s", fail.text);
	o.count = sl_exec_segment(exec)->weight_count;
	load(exec, plan, o.count);
	for (int i = 0; i < (narrows ? 12 : 5); i++) {
		step(&o, exec, plan, i);
		assert_int_equal(sl_exec_set_done(exec, (uint64_t)i + 1), SL_OK);
	}
	o.weights = malloc((size_t)o.count * sizeof *o.weights);
	assert_int_equal(sl_exec_get_weights(exec, o.weights), SL_OK);
	sl_exec_close(exec);
	sl_plan_close(plan);
	for (int i = 0; recorded && i < CU_GRAPHS; i++)
		assert_true(graphs.graph[i].owner == NULL || graphs.graph[i].forgotten);
	be.ops->close(&be);
	return o;
}

static void recorded_steps_are_the_plain_ones(void **state)
{
	struct outcome plain = train(false, 0, false);

	for (int refuse = 0; refuse < 3; refuse++) {
		struct outcome o = train(true, refuse, false);

		assert_true(refuse == 1 ? player.launches == 0 : player.launches > 10);
		assert_true(o.seen == plain.seen);
		assert_memory_equal(o.weights, plain.weights, (size_t)o.count * sizeof *o.weights);
		free(o.weights);
	}
	free(plain.weights);
}

/* Passes with another width of the insert are other passes. */
static void a_decaying_insert_is_recorded_at_every_width(void **state)
{
	struct outcome plain = train(false, 0, true), o = train(true, 0, true);

	assert_true(player.launches > 3 * 3 * CHUNKS);
	assert_true(o.seen == plain.seen);
	assert_memory_equal(o.weights, plain.weights, (size_t)o.count * sizeof *o.weights);
	free(o.weights);
	free(plain.weights);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_steps_are_the_plain_ones),
		cmocka_unit_test(a_decaying_insert_is_recorded_at_every_width),
	};

	return cmocka_run_group_tests_name("gpu tape", tests, NULL, NULL);
}
