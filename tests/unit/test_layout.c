/* Layout: which value owns each line of memory at each point of a step. No two values that are live
 * at once share a line. */
#include <math.h>
#include <time.h>

#include "common/base/arena.h"
#include "common/base/rng.h"
#include "common/exec/exec.h"
#include "common/exec/layout.h"
#include "common/exec/leases.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

struct shadow {
	const struct sl_plan *plan;
	const struct sl_plan_segment *s;
	struct sl_exec_node *node;
	int n_node;
	struct sl_layout layout;
	int *slot[2], *scratch; /* the owner of each line of SL_ARENA_ALIGN bytes; 0: none */
	int written;
};

static int owner_of(const struct shadow *sh, int chunk, int value, bool grad)
{
	return 1 + (chunk * sh->s->graph.n_value + value) * 2 + grad;
}

static int *lines(const struct shadow *sh, const struct sl_place *place, int chunk, size_t bytes)
{
	size_t end = place->offset + sl_align(bytes);

	assert_int_equal(place->offset % SL_ARENA_ALIGN, 0);
	assert_int_not_equal(place->region, SL_REGION_NONE);
	assert_true(end <= (place->region == SL_REGION_SLOT ? sh->layout.slot_bytes : sh->layout.scratch_bytes));
	return (place->region == SL_REGION_SLOT ? sh->slot[chunk] : sh->scratch) + place->offset / SL_ARENA_ALIGN;
}

static void write_value(struct shadow *sh, int chunk, int value, bool grad, const struct sl_shape *shape)
{
	const struct sl_place *place = grad ? &sh->layout.grad[value] : &sh->layout.value[value];
	int *line = lines(sh, place, chunk, small_plan_bytes(shape));

	for (size_t i = 0; i < sl_align(small_plan_bytes(shape)) / SL_ARENA_ALIGN; i++)
		line[i] = owner_of(sh, chunk, value, grad);
	sh->written++;
}

static void read_value(struct shadow *sh, int chunk, int value, bool grad, const struct sl_shape *shape)
{
	const struct sl_place *place = grad ? &sh->layout.grad[value] : &sh->layout.value[value];
	const int *line = lines(sh, place, chunk, small_plan_bytes(shape));

	for (size_t i = 0; i < sl_align(small_plan_bytes(shape)) / SL_ARENA_ALIGN; i++)
		if (line[i] != owner_of(sh, chunk, value, grad))
			fail_msg("%s: the %s of value %d of chunk %d was overwritten", sl_segment_name(sh->s->which),
				 grad ? "gradient" : "content", value, chunk);
}

static bool is_there(const struct shadow *sh, int chunk, int value, const struct sl_shape *shape)
{
	return *lines(sh, &sh->layout.grad[value], chunk, small_plan_bytes(shape)) == owner_of(sh, chunk, value, true);
}

static const struct sl_op *op_of(const struct shadow *sh, const struct sl_exec_node *n)
{
	return &sh->s->op[n->op].op;
}

static void shadow_forward(struct shadow *sh, int chunk)
{
	write_value(sh, chunk, sh->s->in_value, false, &sh->s->in_shape);
	for (int i = 0; i < sh->n_node; i++) {
		const struct sl_exec_node *n = &sh->node[i];
		const struct sl_op *op = op_of(sh, n);

		if (n->out >= 0)
			write_value(sh, chunk, n->out, false, &op->out_shape);
		for (int k = 0; k < op->n_in; k++) /* an op's output must not overwrite its inputs */
			read_value(sh, chunk, n->in[k], false, &op->in_shape[k]);
	}
	read_value(sh, chunk, sh->s->out_value, false, &sh->s->out_shape);
}

static void shadow_backward_node(struct shadow *sh, int chunk, const struct sl_exec_node *n)
{
	const struct sl_op *op = op_of(sh, n);

	for (int k = 0; k < op->n_in; k++) {
		if (n->din[k] < 0)
			continue;
		/* a gradient is added exactly if a later reader of the value has written it already */
		assert_int_equal(n->din_add[k], is_there(sh, chunk, n->din[k], &op->in_shape[k]));
		if (n->din_add[k])
			read_value(sh, chunk, n->din[k], true, &op->in_shape[k]);
		write_value(sh, chunk, n->din[k], true, &op->in_shape[k]);
	}
	for (int k = 0; k < op->n_in && k < n->keeps_in; k++)
		read_value(sh, chunk, n->in[k], false, &op->in_shape[k]);
	if (n->keeps_out)
		read_value(sh, chunk, n->out, false, &op->out_shape);
	if (n->dout >= 0)
		read_value(sh, chunk, n->dout, true, &op->out_shape);
}

static void shadow_backward(struct shadow *sh, int chunk)
{
	if (sh->s->which != SL_TAIL)
		write_value(sh, chunk, sh->s->out_value, true, &sh->s->out_shape);
	for (int i = sh->n_node - 1; i >= 0; i--)
		shadow_backward_node(sh, chunk, &sh->node[i]);
	if (sh->s->which != SL_HEAD)
		read_value(sh, chunk, sh->s->in_value, true, &sh->s->in_shape);
}

static void open_shadow(struct shadow *sh, const struct sl_plan *plan, enum sl_segment which,
			const struct sl_backend *be)
{
	const struct sl_plan_segment *s = &plan->segment[which];
	struct sl_op_sizes *sizes = calloc((size_t)s->n_op, sizeof *sizes);

	for (int i = 0; i < s->n_op; i++)
		sizes[i] = (struct sl_op_sizes){.workspace_bytes = (size_t)(7 * i % 50), .saved_bytes = (size_t)i};
	*sh = (struct shadow){.plan = plan, .s = s, .node = calloc((size_t)s->n_op, sizeof *sh->node)};
	assert_int_equal(sl_rewrite(sh->node, &sh->n_node, s, be), SL_OK);
	assert_int_equal(sl_layout_open(&sh->layout, s, sh->node, sh->n_node, sizes), SL_OK);
	for (int i = 0; i + 1 < s->n_op; i++)
		assert_true(sh->layout.saved_offset[i] + sizes[i].saved_bytes <= sh->layout.saved_offset[i + 1]);
	for (int i = 0; i < s->n_op; i++)
		assert_true(sizes[i].workspace_bytes <= sh->layout.workspace_bytes);
	free(sizes);
	for (int chunk = 0; chunk < 2; chunk++)
		sh->slot[chunk] = calloc(sh->layout.slot_bytes / SL_ARENA_ALIGN + 1, sizeof(int));
	sh->scratch = calloc(sh->layout.scratch_bytes / SL_ARENA_ALIGN + 1, sizeof(int));
}

static void close_shadow(struct shadow *sh)
{
	for (int chunk = 0; chunk < 2; chunk++)
		free(sh->slot[chunk]);
	free(sh->scratch);
	free(sh->node);
	sl_layout_close(&sh->layout);
}

/* Replays head and middle as 1F1B interleaves two chunks, and the tail chunk by chunk. */
static void replay_lifetimes(const struct sl_backend *be, const char *cut, int *absorbed)
{
	struct sl_plan *plan = small_plan_open(cut, 2);

	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		struct shadow sh;

		open_shadow(&sh, plan, (enum sl_segment)which, be);
		shadow_forward(&sh, 0);
		if (which == SL_TAIL)
			shadow_backward(&sh, 0);
		shadow_forward(&sh, 1);
		if (which != SL_TAIL)
			shadow_backward(&sh, 0);
		shadow_backward(&sh, 1);
		if (which != SL_HEAD) /* the gradient that goes back over the link */
			read_value(&sh, 0, sh.s->in_value, true, &sh.s->in_shape);
		*absorbed += sh.s->n_op - sh.n_node;
		assert_true(sh.written > 2 * sh.s->n_op);
		close_shadow(&sh);
	}
	sl_plan_close(plan);
}

static void no_two_live_values_share_memory(void **state)
{
	static const char *const cut[] = {"1:-1", "2:-2", "1:-2", "2:-1", "5:-4", "18:-1"};
	struct sl_backend ref, cpu;
	int absorbed = 0;

	assert_int_equal(sl_ref_backend_open(&ref, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&cpu, NULL, NULL), SL_OK);
	for (size_t c = 0; c < sizeof cut / sizeof cut[0]; c++)
		replay_lifetimes(&ref, cut[c], &absorbed);
	assert_int_equal(absorbed, 0);
	for (size_t c = 0; c < sizeof cut / sizeof cut[0]; c++)
		replay_lifetimes(&cpu, cut[c], &absorbed);
	assert_true(absorbed > 6 * 20); /* two ops in each of the blocks */
	ref.ops->close(&ref);
	cpu.ops->close(&cpu);
}

/* The tail keeps per chunk only its input, the gradient of that input, and what kernels save. All
 * else is scratch, which is smaller than the sum of the values. */
static void the_tail_shares_scratch_between_chunks(void **state)
{
	struct sl_plan *plan = small_plan_open("5:-8", 2);
	const struct sl_plan_segment *s = &plan->segment[SL_TAIL];
	struct sl_backend ref;
	size_t all = 0;
	struct shadow sh;

	assert_int_equal(sl_ref_backend_open(&ref, NULL), SL_OK);
	open_shadow(&sh, plan, SL_TAIL, &ref);
	assert_int_equal(sh.layout.slot_bytes, 2 * sl_align(small_plan_bytes(&s->in_shape)));
	for (int i = 0; i < s->n_op; i++)
		all += 2 * sl_align(small_plan_bytes(&s->op[i].op.out_shape));
	assert_in_range(sh.layout.scratch_bytes, 1, all * 3 / 4);
	close_shadow(&sh);
	sl_plan_close(plan);
	ref.ops->close(&ref);
}

/* A tail that computes values again: those of its last stretch are still there. */
static void a_tail_computes_again(const struct sl_backend *be, const char *cut)
{
	struct sl_plan *plan = small_plan_open(cut, 2);
	struct sl_place *first;
	struct shadow sh;
	size_t scratch;
	int again = 0;

	open_shadow(&sh, plan, SL_TAIL, be);
	scratch = sh.layout.scratch_bytes;
	assert_int_equal(sl_layout_recompute(&sh.layout, sh.s, sh.node, sh.n_node, 1), SL_OK);
	assert_true(sh.layout.n_stretch > 1 && sh.layout.scratch_bytes < scratch);
	assert_int_equal(sh.layout.slot_bytes, 2 * sl_align(small_plan_bytes(&sh.s->in_shape)));
	shadow_forward(&sh, 0);
	first = sh.layout.value;
	sh.layout.value = sh.layout.again;
	for (int part = sh.layout.n_stretch - 1; part >= 0; part--) {
		const int from = sh.layout.stretch[part], to = sh.layout.stretch[part + 1];

		for (int i = from; i < to; i++) {
			const struct sl_op *op = op_of(&sh, &sh.node[i]);

			if (!sh.layout.repeats[i])
				continue;
			again++;
			write_value(&sh, 0, sh.node[i].out, false, &op->out_shape);
			for (int k = 0; k < op->n_in; k++)
				read_value(&sh, 0, sh.node[i].in[k], false, &op->in_shape[k]);
			assert_true(part < sh.layout.n_stretch - 1);
		}
		for (int i = to - 1; i >= from; i--)
			shadow_backward_node(&sh, 0, &sh.node[i]);
	}
	read_value(&sh, 0, sh.s->in_value, true, &sh.s->in_shape);
	assert_true(again > 0);
	sh.layout.value = first;
	close_shadow(&sh);
	sl_plan_close(plan);
}

static void tails_compute_again(void **state)
{
	struct sl_backend ref, cpu;

	assert_int_equal(sl_ref_backend_open(&ref, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&cpu, NULL, NULL), SL_OK);
	a_tail_computes_again(&ref, "1:-12");
	a_tail_computes_again(&cpu, "1:-12");
	a_tail_computes_again(&cpu, "1:-17");
	ref.ops->close(&ref);
	cpu.ops->close(&cpu);
}

/* Forward passes alone: no live value is overwritten, none has a gradient, and values that only backward would read
 * die. */
static void evaluations_keep_nothing_for_backward(void **state)
{
	struct sl_plan *plan = small_plan_open("5:-8", 2);
	struct sl_backend cpu;

	assert_int_equal(sl_cpu_backend_open(&cpu, NULL, NULL), SL_OK);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		struct shadow sh;
		size_t bytes, ends = 0;

		open_shadow(&sh, plan, (enum sl_segment)which, &cpu);
		bytes = sh.layout.slot_bytes + sh.layout.scratch_bytes;
		assert_int_equal(sl_layout_forward(&sh.layout, sh.s, sh.node, sh.n_node), SL_OK);
		assert_true(3 * (sh.layout.slot_bytes + sh.layout.scratch_bytes) < 2 * bytes);
		ends += sl_align(small_plan_bytes(&sh.s->in_shape));
		if (which != SL_TAIL)
			ends += sl_align(small_plan_bytes(&sh.s->out_shape));
		assert_int_equal(sh.layout.slot_bytes, ends);
		shadow_forward(&sh, 0);
		shadow_forward(&sh, 1);
		if (which != SL_TAIL)
			read_value(&sh, 0, sh.s->out_value, false, &sh.s->out_shape);
		for (int v = 0; v < sh.s->graph.n_value; v++)
			assert_int_equal(sh.layout.grad[v].region, SL_REGION_NONE);
		close_shadow(&sh);
	}
	sl_plan_close(plan);
	cpu.ops->close(&cpu);
}

/* ---- offsets of leases */

enum { RANGES = 120, NODES = 4095, TRIES = 5 };

static bool meet(const struct sl_lease *a, const struct sl_lease *b)
{
	return a->birth <= b->death && b->birth <= a->death;
}

/* Leases 0 … i-1 leave room for lease i at offset `at`. A lower free offset would show at 0 or at
 * the end of another lease: only these need be tried. */
static bool fits(const struct sl_lease *all, int i, size_t at)
{
	for (int k = 0; k < i; k++)
		if (meet(&all[k], &all[i]) && at < all[k].offset + all[k].bytes && all[k].offset < at + all[i].bytes)
			return false;
	return true;
}

static void each_range_lies_as_low_as_it_can(void **state)
{
	const struct sl_rng_key key = {.seed = 7};
	static struct sl_lease all[RANGES];
	uint32_t word[4];

	for (uint32_t net = 0; net < 20; net++) {
		size_t bytes, most = 0;

		for (uint32_t i = 0; i < RANGES; i++) {
			sl_rng_quad(&key, net * RANGES + i, word);
			all[i] = (struct sl_lease){.bytes = 64 * (1 + word[0] % (1 + net * 3)),
						   .birth = (int)(word[1] % RANGES) - 1};
			all[i].death = all[i].birth + (int)(word[2] % (1 + net * net));
		}
		assert_int_equal(sl_leases_place(all, RANGES, &bytes), SL_OK);
		for (int i = 0; i < RANGES; i++) {
			assert_true(fits(all, i, all[i].offset));
			assert_false(all[i].offset && fits(all, i, 0));
			for (int k = 0; k < i; k++)
				assert_false(all[k].offset + all[k].bytes < all[i].offset &&
					     fits(all, i, all[k].offset + all[k].bytes));
			most = all[i].offset + all[i].bytes > most ? all[i].offset + all[i].bytes : most;
		}
		assert_true(bytes == most);
	}
}

/* Seconds of CPU time to place the values of a network of `nodes` nodes: the least of TRIES. With
 * live_long all values live at once. */
static double place_s(int nodes, bool live_long)
{
	struct sl_lease *all = calloc((size_t)nodes, sizeof *all);
	struct timespec from, to;
	double least = 1e9;
	size_t bytes;

	for (int try = 0; try < TRIES; try++) {
		for (int i = 0; i < nodes; i++)
			all[i] = (struct sl_lease){.bytes = 64 + 64 * (size_t)(i % 3),
						   .birth = i,
						   .death = live_long ? 2 * nodes - i : i + 1};
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		assert_int_equal(sl_leases_place(all, nodes, &bytes), SL_OK);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		least = fmin(least, (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9);
	}
	free(all);
	return least;
}

/* A client that nobody trusts chooses the network: four times as many nodes must take about four
 * times as long, not sixteen. The bound leaves a factor of two on either side, since other programs
 * may slow down one of the measurements. */
static void places_are_found_in_little_time(void **state)
{
	for (int live_long = 0; live_long < 2; live_long++) {
		const double few = place_s(NODES, live_long), many = place_s(4 * NODES, live_long);

		printf("%d nodes %.2f ms, %d nodes %.2f ms\n", NODES, few * 1e3, 4 * NODES, many * 1e3);
		assert_true(many < 8 * few);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_two_live_values_share_memory),
		cmocka_unit_test(the_tail_shares_scratch_between_chunks),
		cmocka_unit_test(tails_compute_again),
		cmocka_unit_test(evaluations_keep_nothing_for_backward),
		cmocka_unit_test(each_range_lies_as_low_as_it_can),
		cmocka_unit_test(places_are_found_in_little_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
