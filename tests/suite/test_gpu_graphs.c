/* Recorded passes (kernels/cuda/graph.c) without a GPU: the bookkeeping, with fake callbacks.
 * test_gpu_tape.c tests whole steps. */
#include <pthread.h>

#include "kernels/cuda/graph.h"
#include "tests/support/unit.h"

struct fake {
	enum sl_err record, finish, launch; /* the results that they return */
	int records, keeps, throws, launches, drops, last;
	bool had_step;
	uint64_t step;
};

static enum sl_err fake_record(void *arg)
{
	struct fake *f = arg;

	f->records++;
	return f->record;
}

static enum sl_err fake_finish(void *arg, bool keep, void **graph)
{
	struct fake *f = arg;

	if (!keep || f->finish != SL_OK) {
		f->throws++;
		return f->finish;
	}
	*graph = (void *)(uintptr_t)(1000 + ++f->keeps);
	return SL_OK;
}

static enum sl_err fake_launch(void *arg, void *graph, const uint64_t *step)
{
	struct fake *f = arg;

	f->launches++;
	f->last = (int)((uintptr_t)graph - 1000);
	f->had_step = step != NULL;
	f->step = step != NULL ? *step : 0;
	return f->launch;
}

static void fake_drop(void *arg, void *graph)
{
	struct fake *f = arg;

	assert_in_range((uintptr_t)graph, 1001, 1000 + (uintptr_t)f->keeps);
	f->drops++;
}

static const struct cu_graph_runtime fake_runtime = {fake_record, fake_finish, fake_launch, fake_drop};

static struct cu_graphs graphs;
static const int one_owner, other_owner;
static const struct sl_pass pass0 = {
	.owner = &one_owner, .kind = SL_PASS_FORWARD, .training = true, .rows = 8, .width_in = 5, .width_out = 7};

static enum sl_pass_way begin(const struct sl_pass *pass)
{
	enum sl_pass_way way = SL_PASS_DONE;

	assert_int_equal(cu_graphs_begin(&graphs, pass, &way), SL_OK);
	return way;
}

static enum sl_pass_way end(enum sl_err recorded)
{
	enum sl_pass_way way = SL_PASS_RECORD;

	assert_int_equal(cu_graphs_end(&graphs, recorded, &way), SL_OK);
	return way;
}

static void first_plain_then_recorded_then_launched(void **state)
{
	struct sl_pass pass = pass0;
	struct fake f = {0};

	cu_graphs_open(&graphs, &fake_runtime, &f);
	assert_int_equal(begin(&pass), SL_PASS_PLAIN);
	assert_int_equal(f.records, 0);
	assert_int_equal(begin(&pass), SL_PASS_RECORD);
	assert_int_equal(f.records, 1);
	assert_int_equal(f.launches, 0);
	assert_int_equal(end(SL_OK), SL_PASS_DONE);
	assert_int_equal(f.launches, 1);
	assert_false(f.had_step);
	for (int i = 0; i < 3; i++) {
		pass.step++;
		assert_int_equal(begin(&pass), SL_PASS_DONE);
	}
	assert_int_equal(f.launches, 4);
	assert_int_equal(f.records, 1);
	cu_graphs_close(&graphs);
	assert_int_equal(f.drops, 1);
}

/* A change of anything in the key makes another pass; a new step does not. */
static void every_part_of_the_key_counts(void **state)
{
	struct sl_pass pass[8];
	struct fake f = {0};

	for (int i = 0; i < 8; i++)
		pass[i] = pass0;
	pass[1].owner = &other_owner;
	pass[2].kind = SL_PASS_BACKWARD;
	pass[3].slot = 1;
	pass[4].training = false;
	pass[5].rows = 7;
	pass[6].width_in = 4;
	pass[7].width_out = 6;
	cu_graphs_open(&graphs, &fake_runtime, &f);
	for (int i = 0; i < 8; i++)
		assert_int_equal(begin(&pass[i]), SL_PASS_PLAIN);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(begin(&pass[i]), SL_PASS_RECORD);
		assert_int_equal(end(SL_OK), SL_PASS_DONE);
	}
	for (int i = 7; i >= 0; i--) {
		pass[i].step = 99;
		assert_int_equal(begin(&pass[i]), SL_PASS_DONE);
		assert_int_equal(f.last, i + 1);
	}
	/* one owner's passes are forgotten and start again; the other's stay */
	cu_graphs_forget(&graphs, &one_owner);
	assert_int_equal(begin(&pass[1]), SL_PASS_DONE);
	assert_int_equal(f.drops, 7);
	assert_int_equal(f.last, 2);
	assert_int_equal(begin(&pass[0]), SL_PASS_PLAIN);
	assert_int_equal(begin(&pass[0]), SL_PASS_RECORD);
	assert_int_equal(end(SL_OK), SL_PASS_DONE);
	cu_graphs_close(&graphs);
	assert_int_equal(f.drops, 9);
}

static void *forget_other(void *arg)
{
	cu_graphs_forget(&graphs, arg);
	return NULL;
}

/* The thread that forgets must not call the runtime: it would wait for a stream that is recording. */
static void another_thread_forgets_beside_a_recording(void **state)
{
	struct sl_pass others = pass0;
	struct fake f = {0};
	pthread_t thread;

	others.owner = &other_owner;
	cu_graphs_open(&graphs, &fake_runtime, &f);
	assert_int_equal(begin(&others), SL_PASS_PLAIN);
	assert_int_equal(begin(&others), SL_PASS_RECORD);
	assert_int_equal(end(SL_OK), SL_PASS_DONE);
	assert_int_equal(begin(&pass0), SL_PASS_PLAIN);
	assert_int_equal(begin(&pass0), SL_PASS_RECORD);
	assert_int_equal(pthread_create(&thread, NULL, forget_other, (void *)(uintptr_t)&other_owner), 0);
	for (int i = 0; i < 1000; i++)
		cu_graphs_take_step(&graphs);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(f.drops, 0);
	assert_int_equal(end(SL_OK), SL_PASS_DONE);
	/* a new owner at the same address does not get the old one's passes */
	assert_int_equal(begin(&others), SL_PASS_PLAIN);
	assert_int_equal(f.drops, 1);
	assert_int_equal(begin(&pass0), SL_PASS_DONE);
	cu_graphs_close(&graphs);
	assert_int_equal(f.drops, 2);
}

static void the_step_goes_to_passes_that_take_it(void **state)
{
	struct sl_pass pass = pass0;
	struct fake f = {0};

	cu_graphs_open(&graphs, &fake_runtime, &f);
	assert_false(cu_graphs_take_step(&graphs));
	pass.step = 4;
	assert_int_equal(begin(&pass), SL_PASS_PLAIN);
	assert_false(cu_graphs_take_step(&graphs));
	pass.step = 5;
	assert_int_equal(begin(&pass), SL_PASS_RECORD);
	assert_true(cu_graphs_take_step(&graphs));
	assert_int_equal(end(SL_OK), SL_PASS_DONE);
	assert_true(f.had_step && f.step == 5);
	pass.step = 6;
	assert_int_equal(begin(&pass), SL_PASS_DONE);
	assert_true(f.had_step && f.step == 6);
	cu_graphs_close(&graphs);
}

static void what_cannot_be_recorded_stays_plain(void **state)
{
	static const struct fake faults[] = {{.record = SL_ERR_DEVICE}, {.finish = SL_ERR_DEVICE}, {0}};

	for (int i = 0; i < 3; i++) {
		struct sl_pass other = pass0;
		struct fake f = faults[i];

		cu_graphs_open(&graphs, &fake_runtime, &f);
		assert_int_equal(begin(&pass0), SL_PASS_PLAIN);
		if (i == 0) {
			assert_int_equal(begin(&pass0), SL_PASS_PLAIN);
		} else {
			assert_int_equal(begin(&pass0), SL_PASS_RECORD);
			assert_int_equal(end(i == 2 ? SL_ERR_DEVICE : SL_OK), SL_PASS_PLAIN);
			assert_int_equal(f.throws, 1);
		}
		assert_true(graphs.complained);
		assert_null(graphs.recording);
		for (int again = 0; again < 3; again++)
			assert_int_equal(begin(&pass0), SL_PASS_PLAIN);
		assert_int_equal(f.records, 1);
		assert_int_equal(f.launches, 0);
		/* another pass is still tried */
		f = (struct fake){0};
		other.slot = 3;
		assert_int_equal(begin(&other), SL_PASS_PLAIN);
		assert_int_equal(begin(&other), SL_PASS_RECORD);
		assert_int_equal(end(SL_OK), SL_PASS_DONE);
		cu_graphs_close(&graphs);
		assert_int_equal(f.drops, 1);
	}
}

static void faults_of_a_launch_are_told(void **state)
{
	struct fake f = {.launch = SL_ERR_DEVICE};
	enum sl_pass_way way;

	cu_graphs_open(&graphs, &fake_runtime, &f);
	assert_int_equal(begin(&pass0), SL_PASS_PLAIN);
	assert_int_equal(begin(&pass0), SL_PASS_RECORD);
	/* no nested recording */
	assert_int_equal(cu_graphs_begin(&graphs, &pass0, &way), SL_ERR_BUG);
	assert_int_equal(cu_graphs_end(&graphs, SL_OK, &way), SL_ERR_DEVICE);
	assert_int_equal(cu_graphs_begin(&graphs, &pass0, &way), SL_ERR_DEVICE);
	assert_int_equal(cu_graphs_end(&graphs, SL_OK, &way), SL_ERR_BUG);
	cu_graphs_close(&graphs);
}

static void beyond_the_last_place_passes_are_plain(void **state)
{
	struct sl_pass pass = pass0;
	struct fake f = {0};

	cu_graphs_open(&graphs, NULL, NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(begin(&pass), SL_PASS_PLAIN);
	cu_graphs_open(&graphs, &fake_runtime, &f);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < CU_GRAPHS + 2; i++) {
			pass.slot = i;
			if (round == 0 || i >= CU_GRAPHS) {
				assert_int_equal(begin(&pass), SL_PASS_PLAIN);
			} else {
				assert_int_equal(begin(&pass), SL_PASS_RECORD);
				assert_int_equal(end(SL_OK), SL_PASS_DONE);
			}
		}
	cu_graphs_forget(&graphs, &one_owner);
	assert_int_equal(begin(&pass), SL_PASS_PLAIN);
	assert_int_equal(f.drops, CU_GRAPHS);
	assert_int_equal(begin(&pass), SL_PASS_RECORD);
	assert_int_equal(end(SL_OK), SL_PASS_DONE);
	cu_graphs_close(&graphs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_plain_then_recorded_then_launched),
		cmocka_unit_test(every_part_of_the_key_counts),
		cmocka_unit_test(another_thread_forgets_beside_a_recording),
		cmocka_unit_test(the_step_goes_to_passes_that_take_it),
		cmocka_unit_test(what_cannot_be_recorded_stays_plain),
		cmocka_unit_test(faults_of_a_launch_are_told),
		cmocka_unit_test(beyond_the_last_place_passes_are_plain),
	};

	return cmocka_run_group_tests_name("gpu graphs", tests, NULL, NULL);
}
