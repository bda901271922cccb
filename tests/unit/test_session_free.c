/* Free steps: any number of calls of any number of rows, gradients in any order, the norm on
 * request, and what is refused. */

#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

static struct rig rig;

/* room for 8 chunks of 16 rows */
static const struct rig_conf conf = {
	.batch = 128, .rows = 16, .part_bytes = 4096, .window_bytes = 1 << 20, .seed = 1, .free_calls = true};

static struct rig_side *client(void)
{
	return &rig.side[RIG_CLIENT];
}

static struct rig_side *server(void)
{
	return &rig.side[RIG_SERVER];
}

/* Opens a step with a call of 61 rows: chunks 0 to 3. */
static void open_step(uint64_t seed, bool no_head_grad)
{
	struct rig_conf c = conf;

	c.seed = seed;
	c.no_head_grad = no_head_grad;
	rig_open(&rig, &c);
	rig_shake_hands(&rig);
	rig_begin_step(&rig, 61);
}

static enum sl_err say(enum sl_event_kind kind)
{
	return rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = kind, .lr = 0.5, .grad_scale = 0.25});
}

static enum sl_err more(int chunk, uint64_t rows)
{
	return rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_MORE, .chunk = chunk, .batch_rows = rows});
}

static enum sl_err grads(int chunk, int chunks)
{
	return rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_GRADS, .chunk = chunk, .chunks = chunks});
}

static void applies(int backs)
{
	assert_int_equal(say(SL_EV_APPLY), SL_OK);
	rig_settle(&rig);
	assert_int_equal(client()->stepped, 1);
	assert_int_equal(server()->tasks[SL_TASK_MID_BWD], backs);
	assert_int_equal(server()->s.next_step, client()->s.next_step);
	assert_true(server()->s.lr == 0.5 && server()->s.grad_scale == 0.25);
}

static void a_call_goes_no_further_than_its_caller_says(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		open_step(seed, seed % 2);
		rig_settle(&rig);
		assert_int_equal(client()->tasks[SL_TASK_TAIL], 4);
		assert_int_equal(client()->tasks[SL_TASK_GRAD], 0);
		assert_int_equal(server()->whole[SL_PART_MID_GRAD], 0);
		assert_int_equal(grads(0, 4), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->tasks[SL_TASK_HEAD_BWD], seed % 2 ? 0 : 4);
		assert_int_equal(client()->s.state, SL_SESSION_STEP);
		applies(4);
	}
}

/* Calls of 61, 5 and 33 rows; gradients of the last, then of the first, and none of the second. */
static void calls_come_and_go_in_any_order(void **state)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		open_step(seed, seed % 3 == 0);
		for (uint64_t i = 0; i < seed; i++)
			(void)rig_turn(&rig);
		assert_int_equal(more(4, 5), SL_OK);
		assert_int_equal(more(5, 33), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->tasks[SL_TASK_TAIL], 8);
		assert_int_equal(server()->s.rows_of[3], 13);
		assert_int_equal(server()->s.rows_of[4], 5);
		assert_int_equal(server()->s.rows_of[7], 1);
		assert_int_equal(grads(5, 3), SL_OK);
		for (uint64_t i = 0; i < seed % 7; i++)
			(void)rig_turn(&rig);
		assert_int_equal(grads(0, 4), SL_OK);
		applies(7);
		rig_begin_step(&rig, 20); /* the next step starts without any of that */
		rig_settle(&rig);
		assert_int_equal(server()->s.chunks, 2);
		assert_int_equal(grads(0, 2), SL_OK);
		assert_int_equal(say(SL_EV_APPLY), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->stepped, 2);
	}
}

static void the_norm_comes_once_its_gradients_are_there(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		open_step(seed, seed % 2);
		rig_settle(&rig);
		assert_int_equal(say(SL_EV_ASK_NORM), SL_ERR_BUG); /* there is no gradient */
		open_step(seed, seed % 2);
		rig_settle(&rig);
		assert_int_equal(grads(1, 2), SL_OK);
		assert_int_equal(say(SL_EV_ASK_NORM), SL_OK);
		rig_settle(&rig);
		assert_true(client()->s.squares[1] == 16);
		assert_int_equal(grads(0, 1), SL_OK);
		assert_int_equal(say(SL_EV_ASK_NORM), SL_OK);
		assert_int_equal(server()->tasks[SL_TASK_NORM], 1);
		applies(3);
		assert_int_equal(server()->tasks[SL_TASK_NORM], 2);
	}
}

static void what_comes_out_of_turn_is_refused(void **state)
{
	static const struct rig_conf whole = {
		.batch = 61, .rows = 16, .part_bytes = 4096, .window_bytes = 1 << 20, .seed = 1};
	struct sl_frame f;

	open_step(1, false);
	assert_int_equal(grads(0, 4), SL_ERR_BUG); /* before the activations came */
	open_step(1, false);
	rig_settle(&rig);
	assert_int_equal(say(SL_EV_APPLY), SL_ERR_BUG); /* without a gradient */
	open_step(1, false);
	rig_settle(&rig);
	assert_int_equal(grads(1, 1), SL_OK);
	assert_int_equal(grads(0, 2), SL_ERR_BUG); /* the same chunk twice */
	open_step(1, false);
	rig_settle(&rig);
	assert_int_equal(grads(0, 4), SL_OK);
	assert_int_equal(say(SL_EV_APPLY), SL_OK);
	assert_int_equal(more(4, 1), SL_ERR_BUG);
	open_step(1, false);
	assert_int_equal(more(4, 70), SL_ERR_BUG); /* five chunks, with room for four */
	/* the server's gradient comes before the client sent what it is computed from */
	open_step(1, false);
	rig_settle(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_HEAD_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(client()->fail.text, "before it can exist"));
	/* the client's steps are not free */
	rig_step_under_way(&rig, &whole);
	assert_int_equal(grads(0, 1), SL_ERR_BUG);
	rig_step_under_way(&rig, &whole);
	assert_int_equal(more(4, 1), SL_ERR_BUG);
}

static void refuses_frame(struct sl_frame f, const char *text)
{
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	if (!strstr(server()->fail.text, text))
		fail_msg("\"%s\" does not say \"%s\"", server()->fail.text, text);
}

static struct sl_frame commit_of(uint32_t chunks)
{
	return (struct sl_frame){
		.kind = SL_FRAME_COMMIT,
		.epoch = 7,
		.u.commit = {.step = client()->s.number, .chunks = chunks, .lr = 0.1, .grad_scale = 1}};
}

static struct sl_frame grad_of(uint32_t chunk)
{
	struct sl_frame f = rig_part(&rig, RIG_SERVER, SL_PART_MID_GRAD, 1000);

	f.u.part.chunk = chunk;
	f.u.part.rows = client()->s.rows_of[chunk % 4];
	return f;
}

static void forward_all(void)
{
	open_step(1, false);
	rig_settle(&rig);
}

/* Chunk 0 has its gradient. Refused: another one, one of a chunk that does not exist, a run of
 * parts of two chunks, and commits that do not match. */
static void a_server_counts_chunks(void **state)
{
	struct sl_frame f;

	forward_all();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.rows = 17;
	refuses_frame(f, "where chunk 4 is next");
	forward_all();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.chunk = 5;
	f.u.part.rows = 1;
	refuses_frame(f, "where chunk 4 is next");
	forward_all();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.batch_rows = 61;
	refuses_frame(f, "(61 rows)");
	forward_all();
	refuses_frame(grad_of(4), "before it can exist");
	forward_all();
	f = grad_of(2);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	refuses_frame(grad_of(2), "where none is to come");
	forward_all();
	f = grad_of(2);
	f.u.part.total = 2000;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	refuses_frame(grad_of(1), "where none is to come");
	for (uint32_t chunks = 0; chunks < 6; chunks += 5) {
		forward_all();
		refuses_frame(commit_of(chunks), "commit of step");
	}
	forward_all();
	refuses_frame(commit_of(2), "after 0 of 4 chunks"); /* head_grad crosses, and the client did not wait for it */
	forward_all();
	refuses_frame((struct sl_frame){.kind = SL_FRAME_NORM, .epoch = 7, .u.norm = {client()->s.number, 5}},
		      "Norm frame");
	forward_all();
	refuses_frame((struct sl_frame){.kind = SL_FRAME_NORM, .epoch = 7, .u.norm = {client()->s.number, 0.0 / 0.0}},
		      "Norm frame");
}

/* COMMIT may overtake gradients that are on their way. After it only these may come. */
static void a_commit_bounds_what_comes(void **state)
{
	struct sl_frame f;

	for (int what = 0; what < 2; what++) {
		open_step(1, true);
		rig_settle(&rig);
		f = commit_of(1);
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		if (what) {
			refuses_frame(rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000), "where chunk 4 is next");
			continue;
		}
		f = grad_of(3);
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		refuses_frame(grad_of(1), "where none is to come");
	}
}

static void a_step_can_be_dropped_at_any_time(void **state)
{
	struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "dropped"};

	for (int turns = 0; turns < 80; turns++) {
		open_step((uint64_t)turns + 1, false);
		for (int i = 0; i < turns; i++)
			(void)rig_turn(&rig);
		if (client()->s.done[SL_TASK_TAIL] >= 2) {
			assert_int_equal(grads(0, 2), SL_OK);
			assert_int_equal(say(SL_EV_ASK_NORM), SL_OK);
		}
		for (int i = 0; i < turns % 9; i++)
			(void)rig_turn(&rig);
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_NONFINITE, .why = &why}),
				 SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->abandoned, 1);
		assert_int_equal(say(SL_EV_SKIP), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->stepped, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_goes_no_further_than_its_caller_says),
		cmocka_unit_test(calls_come_and_go_in_any_order),
		cmocka_unit_test(the_norm_comes_once_its_gradients_are_there),
		cmocka_unit_test(what_comes_out_of_turn_is_refused),
		cmocka_unit_test(a_server_counts_chunks),
		cmocka_unit_test(a_commit_bounds_what_comes),
		cmocka_unit_test(a_step_can_be_dropped_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
