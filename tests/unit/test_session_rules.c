/* The session against a peer that does not keep to the rules: parts, commits, epochs, credit, silence. Every fault is
 * one change to a frame that is accepted without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/session_rig.h"

static struct rig rig;

static const struct rig_conf conf = {.batch = 61, .rows = 16, .part_bytes = 4096, .window_bytes = 1 << 20, .seed = 1};

static void open_ready(void)
{
	rig_open(&rig, &conf);
	rig_shake_hands(&rig);
}

static void done(enum rig_who who, enum sl_task task, int chunk)
{
	struct rig_fifo *f = &rig.side[who].task[task];

	assert_true(f->count > 0 && f->first == chunk);
	f->first++;
	f->count--;
	assert_int_equal(
		rig_event(&rig, who, &(struct sl_event){.kind = SL_EV_TASK_DONE, .task = task, .chunk = chunk}), SL_OK);
}

static void give(enum rig_who to, enum sl_part_what what)
{
	struct sl_frame f = rig_part(&rig, to, what, 1000);

	assert_int_equal(rig_frame(&rig, to, &f), SL_OK);
}

/* A step of which the server has computed chunk 0 forward and received chunk 1. */
static void step_under_way(void)
{
	open_ready();
	rig_begin_step(&rig, 61);
	give(RIG_SERVER, SL_PART_HEAD_ACT);
	give(RIG_SERVER, SL_PART_HEAD_ACT);
	done(RIG_SERVER, SL_TASK_MID_FWD, 0);
	for (int chunk = 0; chunk < 4; chunk++)
		done(RIG_CLIENT, SL_TASK_HEAD_FWD, chunk);
}

/* And the client has computed the tail of chunk 0. */
static void tail_under_way(void)
{
	step_under_way();
	give(RIG_CLIENT, SL_PART_MID_ACT);
	done(RIG_CLIENT, SL_TASK_TAIL, 0);
}

typedef void change_fn(struct sl_frame *f);

static void nothing(struct sl_frame *f)
{
	(void)f;
}

static void offset_ahead(struct sl_frame *f)
{
	f->u.part.offset = 1;
	f->u.part.total++;
}

static void offset_far(struct sl_frame *f)
{
	f->u.part.offset = UINT64_MAX;
}

static void overrun(struct sl_frame *f)
{
	f->u.part.total = f->payload.len - 1;
}

static void total_none(struct sl_frame *f)
{
	f->u.part.total = 0;
}

static void total_huge(struct sl_frame *f)
{
	f->u.part.total = UINT64_MAX;
}

static void total_over(struct sl_frame *f)
{
	f->u.part.total = rig_run_bytes((enum sl_part_what)f->u.part.what) + 1;
}

static void empty(struct sl_frame *f)
{
	f->payload.len = 0;
}

static void chunk_ahead(struct sl_frame *f)
{
	f->u.part.chunk++;
}

static void chunk_again(struct sl_frame *f)
{
	f->u.part.chunk--;
}

static void chunk_none(struct sl_frame *f)
{
	f->u.part.chunk = 4;
}

static void chunk_negative(struct sl_frame *f)
{
	f->u.part.chunk = UINT32_MAX;
}

static void rows_less(struct sl_frame *f)
{
	f->u.part.rows--;
}

static void batch_other(struct sl_frame *f)
{
	f->u.part.batch_rows = 60;
}

static void step_other(struct sl_frame *f)
{
	f->u.part.step++;
}

static void phase_other(struct sl_frame *f)
{
	f->u.part.training = !f->u.part.training;
}

static void weights(struct sl_frame *f)
{
	f->u.part.what = SL_PART_WEIGHTS; /* such as would be whole */
	f->payload.len = f->u.part.total = rig_run_bytes(SL_PART_WEIGHTS);
}

static void kind_own(struct sl_frame *f)
{
	f->u.part.what = SL_PART_MID_ACT;
}

static void kind_own_of_client(struct sl_frame *f)
{
	f->u.part.what = SL_PART_HEAD_ACT;
}

static void kind_unknown(struct sl_frame *f)
{
	f->u.part.what = SL_PART_WHAT_COUNT;
}

struct fault {
	change_fn *change;
	enum sl_err code;
};

static const struct fault faults[] = {
	{nothing, SL_OK},
	{offset_ahead, SL_ERR_PROTOCOL},
	{offset_far, SL_ERR_PROTOCOL},
	{overrun, SL_ERR_PROTOCOL},
	{total_none, SL_ERR_LIMIT},
	{total_huge, SL_ERR_LIMIT},
	{total_over, SL_ERR_LIMIT},
	{empty, SL_ERR_PROTOCOL},
	{chunk_ahead, SL_ERR_PROTOCOL},
	{chunk_again, SL_ERR_PROTOCOL},
	{chunk_none, SL_ERR_PROTOCOL},
	{chunk_negative, SL_ERR_PROTOCOL},
	{rows_less, SL_ERR_PROTOCOL},
	{batch_other, SL_ERR_PROTOCOL},
	{step_other, SL_ERR_PROTOCOL},
	{phase_other, SL_ERR_PROTOCOL},
	{weights, SL_ERR_PROTOCOL},
	{kind_unknown, SL_ERR_PROTOCOL},
};

static void try_fault(void (*prepare)(void), enum rig_who to, enum sl_part_what what, const struct fault *fault)
{
	struct rig_side *side = &rig.side[to];
	struct sl_frame f;
	uint64_t stored = 0;

	prepare();
	for (int i = 0; i < SL_PART_WHAT_COUNT; i++)
		stored += side->stored[i];
	f = rig_part(&rig, to, what, 1000);
	fault->change(&f);
	assert_int_equal(rig_frame(&rig, to, &f), fault->code);
	assert_int_equal(side->failed, fault->code != SL_OK);
	assert_int_equal(side->s.state == SL_SESSION_CLOSED, fault->code != SL_OK);
	for (int i = 0; i < SL_PART_WHAT_COUNT; i++)
		stored -= side->stored[i];
	assert_true(stored == (fault->code == SL_OK ? (uint64_t)-1000 : 0));
}

static void try_faults(void (*prepare)(void), enum rig_who to, enum sl_part_what what)
{
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		try_fault(prepare, to, what, &faults[i]);
}

static void parts_that_break_a_rule_end_the_session(void **state)
{
	(void)state;
	try_faults(step_under_way, RIG_SERVER, SL_PART_HEAD_ACT);
	try_faults(step_under_way, RIG_SERVER, SL_PART_MID_GRAD);
	try_fault(step_under_way, RIG_SERVER, SL_PART_HEAD_ACT, &(struct fault){kind_own, SL_ERR_PROTOCOL});
	try_faults(step_under_way, RIG_CLIENT, SL_PART_MID_ACT);
	try_faults(tail_under_way, RIG_CLIENT, SL_PART_HEAD_GRAD);
	try_fault(tail_under_way, RIG_CLIENT, SL_PART_MID_ACT, &(struct fault){kind_own_of_client, SL_ERR_PROTOCOL});
}

static void begin_nothing(void)
{
	open_ready();
	rig_begin_step(&rig, 61);
}

static void batch_over(struct sl_frame *f)
{
	f->u.part.batch_rows = 62;
}

static void batch_none(struct sl_frame *f)
{
	f->u.part.batch_rows = 0;
}

static void kind_grad(struct sl_frame *f)
{
	f->u.part.what = SL_PART_MID_GRAD;
}

static void a_pass_begins_with_its_first_part_only(void **state)
{
	static const struct fault of_first[] = {
		{nothing, SL_OK},
		{offset_ahead, SL_ERR_PROTOCOL},
		{chunk_ahead, SL_ERR_PROTOCOL},
		{step_other, SL_ERR_PROTOCOL},
		{batch_over, SL_ERR_LIMIT},
		{batch_none, SL_ERR_LIMIT},
		{rows_less, SL_ERR_PROTOCOL},
		{total_over, SL_ERR_LIMIT},
		{kind_grad, SL_ERR_PROTOCOL},
		{weights, SL_ERR_PROTOCOL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof of_first / sizeof of_first[0]; i++)
		try_fault(begin_nothing, RIG_SERVER, SL_PART_HEAD_ACT, &of_first[i]);
}

static void a_run_keeps_its_total(void **state)
{
	struct sl_frame f;

	(void)state;
	for (int change = 0; change < 2; change++) {
		step_under_way();
		f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
		f.u.part.total = 3000;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		f.u.part.offset = 1000;
		f.u.part.total += (uint64_t)change;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), change ? SL_ERR_PROTOCOL : SL_OK);
	}
	/* a part that was seen already */
	step_under_way();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.total = 3000;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
}

static void gradients_wait_for_their_activations(void **state)
{
	struct sl_frame f;

	(void)state;
	step_under_way(); /* forward of chunk 0 is done, of chunk 1 is not */
	give(RIG_SERVER, SL_PART_MID_GRAD);
	f = rig_part(&rig, RIG_SERVER, SL_PART_MID_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	tail_under_way();
	give(RIG_CLIENT, SL_PART_HEAD_GRAD);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_HEAD_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	begin_nothing(); /* the client has sent nothing yet */
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.what = SL_PART_MID_ACT;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_CLIENT].fail.text, "before it can exist"));
	open_ready();
	rig_begin_eval(&rig, 0, 61);
	give(RIG_SERVER, SL_PART_HEAD_ACT);
	done(RIG_SERVER, SL_TASK_MID_FWD, 0);
	f = rig_part(&rig, RIG_SERVER, SL_PART_MID_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
}

static void there_is_no_chunk_behind_the_last(void **state)
{
	struct sl_frame f;

	(void)state;
	begin_nothing();
	for (int chunk = 0; chunk < 4; chunk++)
		give(RIG_SERVER, SL_PART_HEAD_ACT);
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	assert_int_equal(f.u.part.chunk, 4);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_SERVER].fail.text, "chunk 4"));
}

/* While weights are fetched, a part of the pass that is over would fit its lane again. */
static void a_fetch_takes_weights_alone(void **state)
{
	struct sl_frame f;

	(void)state;
	open_ready();
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	rig_begin_fetch(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_MID_ACT, 1000);
	assert_int_equal(f.u.part.chunk, 0);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
}

/* ---- commit */

/* The server has computed all of a step of one chunk, unless `early`. */
static void before_commit(bool early)
{
	open_ready();
	rig_begin_step(&rig, 16);
	give(RIG_SERVER, SL_PART_HEAD_ACT);
	done(RIG_SERVER, SL_TASK_MID_FWD, 0);
	give(RIG_SERVER, SL_PART_MID_GRAD);
	if (!early)
		done(RIG_SERVER, SL_TASK_MID_BWD, 0);
}

static void try_commit(struct sl_commit c, bool early, enum sl_err code)
{
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT, .epoch = 7, .u.commit = c};

	before_commit(early);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), code);
	assert_int_equal(rig.side[RIG_SERVER].tasks[SL_TASK_COMMIT], code == SL_OK);
	assert_int_equal(rig.side[RIG_SERVER].s.next_step, 0);
	if (code != SL_OK)
		return;
	assert_true(rig.side[RIG_SERVER].s.lr == c.lr);
	done(RIG_SERVER, SL_TASK_COMMIT, 0);
	assert_int_equal(rig.side[RIG_SERVER].s.next_step, 1);
}

static void a_commit_must_be_of_the_whole_step(void **state)
{
	(void)state;
	try_commit((struct sl_commit){0, 1, 0.1, false, false, {0}}, false, SL_OK);
	try_commit((struct sl_commit){0, 1, 0, false, false, {0}}, false, SL_OK);
	try_commit((struct sl_commit){0, 1, 0.1, false, false, {0}}, true, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, 0.1, false, true, {0}}, false, SL_ERR_PROTOCOL); /* was not abandoned */
	try_commit((struct sl_commit){1, 1, 0.1, false, false, {0}}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 2, 0.1, false, false, {0}}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, -0.1, false, false, {0}}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, 1e6, false, false, {0}}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, (double)__builtin_nanf(""), false, false, {0}}, false, SL_ERR_PROTOCOL);
}

static void a_step_is_committed_once(void **state)
{
	struct sl_frame f = {.kind = SL_FRAME_COMMITTED, .epoch = 7};

	(void)state;
	for (int other = 0; other < 2; other++) {
		open_ready();
		rig.side[RIG_CLIENT].s.state = SL_SESSION_COMMIT;
		f.u.committed.step = (uint64_t)other;
		assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), other ? SL_ERR_PROTOCOL : SL_OK);
	}
	f.u.committed.step = 0;
	open_ready();
	rig.side[RIG_CLIENT].s.state = SL_SESSION_COMMIT;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	assert_int_equal(rig.side[RIG_CLIENT].tasks[SL_TASK_COMMIT], 1);
}

/* ---- epochs */

static void older_epochs_are_dropped_and_counted(void **state)
{
	struct sl_frame f;

	(void)state;
	step_under_way();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.epoch = 6;
	f.u.part.chunk = 99; /* not even looked at */
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		assert_int_equal(rig.side[RIG_SERVER].s.counts.stale_frames, i);
	}
	f = (struct sl_frame){.kind = SL_FRAME_REFUSE, .epoch = 6, .u.refuse = {SL_ERR_BUSY, "full"}};
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	assert_int_equal(rig.side[RIG_SERVER].s.counts.stale_frames, 4);
	assert_int_equal(rig.side[RIG_SERVER].s.state, SL_SESSION_STEP);
	give(RIG_SERVER, SL_PART_HEAD_ACT);
}

static void newer_epochs_are_refused(void **state)
{
	struct sl_frame f;

	(void)state;
	step_under_way();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.epoch = 8;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_SERVER].fail.text, "epoch 8 in epoch 7"));
}

/* Who says it knows no session on this connection, and so no epoch either. */
static void a_refusal_of_no_epoch_counts(void **state)
{
	const struct sl_frame f = {.kind = SL_FRAME_REFUSE, .u.refuse = {SL_ERR_BUSY, "all sessions are taken"}};

	(void)state;
	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_BUSY);
	assert_int_equal(rig.side[RIG_CLIENT].failed, 1);
	assert_string_equal(rig.side[RIG_CLIENT].fail.text, "the server refused: all sessions are taken");
	assert_int_equal(rig.side[RIG_SERVER].in.count, 1); /* Hello: a REFUSE is not answered by another */
}

/* ---- credit */

/* A part of a run of 2,000 bytes to the server, which has granted `granted` of this run then. */
static void credit_after(uint64_t offset, uint64_t len, uint64_t granted)
{
	struct sl_frame f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, len);

	f.u.part.total = 2000;
	f.u.part.offset = offset;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	assert_int_equal(rig.side[RIG_SERVER].granted, 2000 + granted);
	assert_int_equal(rig.side[RIG_SERVER].s.consumed_bytes, offset + len - granted);
}

/* A quarter of the window at a time, and what is left at the end of a run. */
static void credit_is_counted(void **state)
{
	(void)state;
	step_under_way();
	assert_int_equal(rig.side[RIG_SERVER].granted, 2000);
	rig.side[RIG_SERVER].s.window_bytes = 1000 * 4;
	rig.side[RIG_SERVER].s.hello.part_bytes = 1000;
	credit_after(0, 999, 0);
	credit_after(999, 1, 1000);
	credit_after(1000, 900, 1000);
	credit_after(1900, 100, 2000);
}

static void try_credit(uint64_t bytes, enum sl_err code)
{
	const struct sl_frame f = {.kind = SL_FRAME_CREDIT, .epoch = 7, .u.credit = {bytes}};

	for (int who = 0; who < 2; who++) {
		open_ready();
		assert_int_equal(rig_frame(&rig, (enum rig_who)who, &f), code);
	}
}

static void credit_beyond_the_window_is_refused(void **state)
{
	const struct sl_frame f = {.kind = SL_FRAME_CREDIT, .epoch = 7, .u.credit = {1}};

	(void)state;
	try_credit(1, SL_OK);
	try_credit(1 << 20, SL_OK);
	try_credit((1 << 20) + 1, SL_ERR_PROTOCOL);
	try_credit(UINT64_MAX, SL_ERR_PROTOCOL);
	try_credit(0, SL_ERR_PROTOCOL);
	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL); /* nothing granted yet */
}

/* ---- liveness */

static enum sl_err tick(enum rig_who who, uint64_t after_ms)
{
	rig.now_ms += after_ms;
	return rig_event(&rig, who, &(struct sl_event){.kind = SL_EV_TICK});
}

static void silence_ends_a_session(void **state)
{
	(void)state;
	for (int who = 0; who < 2; who++) {
		open_ready();
		assert_int_equal(tick((enum rig_who)who, 1000), SL_OK);
		assert_int_equal(tick((enum rig_who)who, 1), SL_ERR_PEER_LOST);
		assert_non_null(strstr(rig.side[who].fail.text, "for 1001 ms (limit 1000 ms)"));
		open_ready();
		rig.side[who].s.patience_ms = 0;
		assert_int_equal(tick((enum rig_who)who, 1u << 30), SL_OK);
	}
}

/* As long as heartbeats come, nobody is lost; and they say how far away the other side is. */
static void heartbeats_keep_a_session(void **state)
{
	uint64_t beats = 0;

	(void)state;
	open_ready();
	for (int i = 0; i < 400; i++) {
		int before = rig.side[RIG_SERVER].in.count;

		assert_int_equal(tick(RIG_CLIENT, 20), SL_OK);
		beats += (uint64_t)(rig.side[RIG_SERVER].in.count - before);
		rig.now_ms += 15; /* on the way */
		rig_settle(&rig);
		assert_int_equal(tick(RIG_SERVER, 5), SL_OK);
		rig.now_ms += 15;
		rig_settle(&rig);
	}
	assert_in_range(beats, 400 * 55 / 110 - 1, 400 * 55 / 110 + 1);
	assert_true(rig.side[RIG_CLIENT].s.rtt_ms >= 30 && rig.side[RIG_CLIENT].s.rtt_ms <= 35);
}

/* A server that builds its plan does not hold the client's silence against it, and says that it is alive. */
static void opening_may_take_its_time(void **state)
{
	struct sl_frame hello = {.kind = SL_FRAME_HELLO, .epoch = 7, .u.hello = rig_hello(&conf)};

	(void)state;
	rig_open(&rig, &conf);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &hello), SL_OK);
	assert_int_equal(tick(RIG_SERVER, 5000), SL_OK);
	assert_int_equal(rig.side[RIG_CLIENT].in.count, 1);
	assert_int_equal(rig.side[RIG_CLIENT].inbox[0].kind, SL_FRAME_HEARTBEAT);
	done(RIG_SERVER, SL_TASK_OPEN, 0);
	assert_int_equal(tick(RIG_SERVER, 1000), SL_OK);
	assert_int_equal(tick(RIG_SERVER, 1), SL_ERR_PEER_LOST);
}

static void a_session_can_be_ended_from_outside(void **state)
{
	const struct sl_fail why = {SL_ERR_NONFINITE, "head_act of chunk 1: NaN"};
	struct sl_outbox out;

	(void)state;
	open_ready();
	sl_session_fail(&rig.side[RIG_SERVER].s, &why, rig.now_ms, &out);
	assert_int_equal(out.n_action, 2);
	assert_int_equal(out.action[0].kind, SL_ACTION_SEND);
	assert_int_equal(out.frame[0].kind, SL_FRAME_REFUSE);
	assert_int_equal(out.frame[0].epoch, 7);
	assert_int_equal(out.frame[0].u.refuse.code, SL_ERR_NONFINITE);
	assert_string_equal(out.frame[0].u.refuse.text, why.text);
	assert_int_equal(out.action[1].kind, SL_ACTION_FAIL);
	sl_session_fail(&rig.side[RIG_SERVER].s, &why, rig.now_ms, &out);
	assert_int_equal(out.n_action, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_that_break_a_rule_end_the_session),
		cmocka_unit_test(a_pass_begins_with_its_first_part_only),
		cmocka_unit_test(a_run_keeps_its_total),
		cmocka_unit_test(gradients_wait_for_their_activations),
		cmocka_unit_test(there_is_no_chunk_behind_the_last),
		cmocka_unit_test(a_fetch_takes_weights_alone),
		cmocka_unit_test(a_commit_must_be_of_the_whole_step),
		cmocka_unit_test(a_step_is_committed_once),
		cmocka_unit_test(older_epochs_are_dropped_and_counted),
		cmocka_unit_test(newer_epochs_are_refused),
		cmocka_unit_test(a_refusal_of_no_epoch_counts),
		cmocka_unit_test(credit_is_counted),
		cmocka_unit_test(credit_beyond_the_window_is_refused),
		cmocka_unit_test(silence_ends_a_session),
		cmocka_unit_test(heartbeats_keep_a_session),
		cmocka_unit_test(opening_may_take_its_time),
		cmocka_unit_test(a_session_can_be_ended_from_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
