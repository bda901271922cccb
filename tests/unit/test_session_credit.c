/* What each side may expect of the other: credit for what it sends, and a sign of life in time. */

#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

static struct rig rig;

static const struct rig_conf conf = {.batch = 61, .rows = 16, .part_bytes = 4096, .window_bytes = 1 << 20, .seed = 1};

/* ---- credit */

/* Gives the server a part of a run of 2,000 bytes. Then it must have granted `granted` bytes for this run. */
static void credit_after(uint64_t offset, uint64_t len, uint64_t granted)
{
	struct sl_frame f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, len);

	f.u.part.total = 2000;
	f.u.part.offset = offset;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	assert_int_equal(rig.side[RIG_SERVER].granted, 2000 + granted);
	assert_int_equal(rig.side[RIG_SERVER].s.consumed_bytes, offset + len - granted);
}

/* Credit is granted for a quarter of the window at a time, and for the rest at the end of a run. */
static void credit_is_counted(void **state)
{
	rig_step_under_way(&rig, &conf);
	assert_int_equal(rig.side[RIG_SERVER].granted, 2000);
	rig.side[RIG_SERVER].s.window_bytes = 1000 * 4;
	rig.side[RIG_SERVER].s.hello.part_bytes = 1000;
	credit_after(0, 999, 0);
	credit_after(999, 1, 1000);
	credit_after(1000, 900, 1000);
	credit_after(1900, 100, 2000);
}

/* With a window of one part, any credit held back would leave no room for the next full part. */
static void a_narrow_window_holds_nothing_back(void **state)
{
	rig_step_under_way(&rig, &conf);
	rig.side[RIG_SERVER].s.window_bytes = 1000;
	rig.side[RIG_SERVER].s.hello.part_bytes = 1000;
	credit_after(0, 100, 100);
	credit_after(100, 1000, 1100);
}

static void try_credit(uint64_t bytes, enum sl_err code)
{
	const struct sl_frame f = {.kind = SL_FRAME_CREDIT, .epoch = 7, .u.credit = {bytes}};

	for (int who = 0; who < 2; who++) {
		rig_open_ready(&rig, &conf);
		assert_int_equal(rig_frame(&rig, (enum rig_who)who, &f), code);
	}
}

static void credit_beyond_the_window_is_refused(void **state)
{
	const struct sl_frame f = {.kind = SL_FRAME_CREDIT, .epoch = 7, .u.credit = {1}};

	try_credit(1, SL_OK);
	try_credit(1 << 20, SL_OK);
	try_credit((1 << 20) + 1, SL_ERR_PROTOCOL);
	try_credit(UINT64_MAX, SL_ERR_PROTOCOL);
	try_credit(0, SL_ERR_PROTOCOL);
	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL); /* nothing has been granted yet */
}

/* ---- liveness */

static uint64_t worked(void)
{
	return rig.side[RIG_SERVER].s.counts.worked;
}

/* Progress for link.stall_s: frames that a peer can send for ever do not count, and a part counts only by its bytes. */
static void crumbs_are_no_work(void **state)
{
	const struct sl_frame credit = {.kind = SL_FRAME_CREDIT, .epoch = 7, .u.credit = {1}};
	struct sl_frame f;
	uint64_t before;

	rig_step_under_way(&rig, &conf);
	rig.side[RIG_SERVER].s.hello.part_bytes = 4;
	before = worked();
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &credit), SL_OK);
	assert_true(worked() == before);
	for (uint64_t at = 0; at < 8; at++) {
		f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1);
		f.u.part.total = 2000;
		f.u.part.offset = at;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		assert_true(worked() == before + (at + 1) / 4);
	}
}

static enum sl_err tick(enum rig_who who, uint64_t after_ms)
{
	rig.now_ms += after_ms;
	return rig_event(&rig, who, &(struct sl_event){.kind = SL_EV_TICK});
}

static void silence_ends_a_session(void **state)
{
	for (int who = 0; who < 2; who++) {
		rig_open_ready(&rig, &conf);
		assert_int_equal(tick((enum rig_who)who, 1000), SL_OK);
		assert_int_equal(tick((enum rig_who)who, 1), SL_ERR_PEER_LOST);
		assert_non_null(strstr(rig.side[who].fail.text, "for 1001 ms (link.timeout_ms: 1000)"));
		assert_null(strstr(rig.side[who].fail.text, "did not run"));
		rig_open_ready(&rig, &conf);
		assert_int_equal(tick((enum rig_who)who, 1001),
				 SL_ERR_PEER_LOST); /* suspended: the peer is not to blame */
		assert_non_null(strstr(rig.side[who].fail.text, "this process did not run for 1001 ms"));
		rig_open_ready(&rig, &conf);
		rig.side[who].s.patience_ms = 0;
		assert_int_equal(tick((enum rig_who)who, 1u << 30), SL_OK);
	}
}

/* A part on a slow link takes longer than the patience. A connection that comes back begins with fewer bytes. */
static void bytes_keep_a_session(void **state)
{
	struct sl_event ev = {.kind = SL_EV_TICK};

	for (int who = 0; who < 2; who++) {
		rig_open_ready(&rig, &conf);
		for (ev.number = 1; ev.number < 10; ev.number++) {
			rig.now_ms += 1001;
			assert_int_equal(rig_event(&rig, (enum rig_who)who, &ev), SL_OK);
		}
		ev.number = 3;
		rig.now_ms += 1000;
		assert_int_equal(rig_event(&rig, (enum rig_who)who, &ev), SL_OK);
		rig.now_ms++;
		assert_int_equal(rig_event(&rig, (enum rig_who)who, &ev), SL_ERR_PEER_LOST);
	}
}

/* While heartbeats come, neither side is lost. */
static void heartbeats_keep_a_session(void **state)
{
	uint64_t beats = 0;

	rig_open_ready(&rig, &conf);
	for (int i = 0; i < 400; i++) {
		int before = rig.side[RIG_SERVER].in.count;

		assert_int_equal(tick(RIG_CLIENT, 20), SL_OK);
		beats += (uint64_t)(rig.side[RIG_SERVER].in.count - before);
		rig.now_ms += 15; /* the heartbeat travels */
		rig_settle(&rig);
		assert_int_equal(tick(RIG_SERVER, 5), SL_OK);
		rig.now_ms += 15;
		rig_settle(&rig);
	}
	assert_in_range(beats, 400 * 55 / 110 - 1, 400 * 55 / 110 + 1);
}

static void older_epochs_are_no_sign_of_life(void **state)
{
	const struct sl_frame old = {.kind = SL_FRAME_HEARTBEAT, .epoch = 6};

	for (int who = 0; who < 2; who++) {
		rig_open_ready(&rig, &conf);
		rig.now_ms += 900;
		assert_int_equal(rig_frame(&rig, (enum rig_who)who, &old), SL_OK);
		assert_int_equal(tick((enum rig_who)who, 101), SL_ERR_PEER_LOST);
	}
}

/* A server that builds its plan tolerates the client's silence, and sends heartbeats itself. */
static void opening_may_take_its_time(void **state)
{
	struct sl_frame hello = {.kind = SL_FRAME_HELLO, .epoch = 7, .u.hello = rig_hello(&conf)};

	rig_open(&rig, &conf);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &hello), SL_OK);
	assert_int_equal(tick(RIG_SERVER, 5000), SL_OK);
	assert_int_equal(rig.side[RIG_CLIENT].in.count, 1);
	assert_int_equal(rig.side[RIG_CLIENT].inbox[0].kind, SL_FRAME_HEARTBEAT);
	rig_done(&rig, RIG_SERVER, SL_TASK_ADMIT, 0);
	rig_done(&rig, RIG_SERVER, SL_TASK_OPEN, 0);
	assert_int_equal(tick(RIG_SERVER, 1000), SL_OK);
	assert_int_equal(tick(RIG_SERVER, 1), SL_ERR_PEER_LOST);
}

static void a_session_can_be_ended_from_outside(void **state)
{
	const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "head_act of chunk 1: NaN"};
	struct sl_outbox out;

	rig_open_ready(&rig, &conf);
	sl_session_fail(&rig.side[RIG_SERVER].s, &why, rig.now_ms, &out);
	assert_int_equal(out.n_action, 2);
	assert_int_equal(out.action[0].kind, SL_ACTION_SEND);
	assert_int_equal(out.frame[0].kind, SL_FRAME_REFUSE);
	assert_int_equal(out.frame[0].epoch, 7);
	assert_int_equal(out.frame[0].u.refuse.code, SL_ERR_NONFINITE);
	assert_string_equal(out.frame[0].u.refuse.text, why.text);
	assert_int_equal(out.action[1].kind, SL_ACTION_FAIL);
	assert_int_equal(rig.side[RIG_SERVER].s.ended_in, SL_SESSION_READY);
	sl_session_fail(&rig.side[RIG_SERVER].s, &why, rig.now_ms, &out);
	assert_int_equal(out.n_action, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credit_is_counted),
		cmocka_unit_test(a_narrow_window_holds_nothing_back),
		cmocka_unit_test(credit_beyond_the_window_is_refused),
		cmocka_unit_test(crumbs_are_no_work),
		cmocka_unit_test(silence_ends_a_session),
		cmocka_unit_test(bytes_keep_a_session),
		cmocka_unit_test(heartbeats_keep_a_session),
		cmocka_unit_test(older_epochs_are_no_sign_of_life),
		cmocka_unit_test(opening_may_take_its_time),
		cmocka_unit_test(a_session_can_be_ended_from_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
