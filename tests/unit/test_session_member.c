/* The session of a group's member: welcomed and committed when its group says so, and left out of a
 * step at any moment. */

#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

static struct rig rig;

static struct rig_side *client(void)
{
	return &rig.side[RIG_CLIENT];
}

static struct rig_side *server(void)
{
	return &rig.side[RIG_SERVER];
}

static double group_lr = -1; /* of a step that is decided; -1: the member's own */

static void tell(enum sl_event_kind kind, uint64_t next_step)
{
	const struct sl_event ev = {
		.kind = kind, .next_step = next_step, .made = 5, .branch = 9, .mean = rig.conf.ends, .lr = group_lr};

	assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
}

/* A member has sent Hello, and its group has not answered yet. */
static void open_group(uint64_t seed, bool ends, bool comes)
{
	const struct rig_conf conf = {.batch = 64,
				      .rows = 16,
				      .part_bytes = 4096,
				      .window_bytes = 16384,
				      .next_step = 12,
				      .seed = seed,
				      .shared = true,
				      .ends = ends,
				      .comes = comes};

	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	rig_settle(&rig);
	assert_int_equal(server()->joining, 1);
	assert_int_equal(client()->s.state, SL_SESSION_HELLO);
}

static void open_hello(uint64_t seed, bool ends)
{
	open_group(seed, ends, false);
}

static void open_coming(uint64_t seed)
{
	open_group(seed, true, true);
}

static void open_sharing(uint64_t seed, bool ends)
{
	open_hello(seed, ends);
	tell(SL_EV_JOINED, 12);
	rig_settle(&rig);
	assert_int_equal(client()->s.state, SL_SESSION_READY);
	assert_int_equal(client()->s.made, 5);
	assert_int_equal(client()->s.branch, 9);
}

static void open_member(uint64_t seed)
{
	open_sharing(seed, false);
}

/* A newcomer to a group that went on without it gets the state after one step, and continues with a later one. */
static void a_newcomer_begins_where_its_group_is(void **state)
{
	struct sl_event ev = {.kind = SL_EV_JOINED, .next_step = 12, .first_step = 40, .made = 5, .branch = 9};

	for (uint64_t seed = 0; seed < 20; seed++) {
		open_hello(seed, false);
		assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
		rig_settle(&rig);
		assert_int_equal(client()->s.state, SL_SESSION_READY);
		assert_int_equal(client()->s.held_step, 12);
		assert_int_equal(client()->s.next_step, 40);
		assert_int_equal(server()->s.next_step, 40);
		assert_int_equal(client()->s.kept_step, 12);
	}
}

/* A newcomer also gets the heads and tails of the others, if the group shares them. */
static void a_newcomer_gets_heads_and_tails(void **state)
{
	struct sl_event ev = {.kind = SL_EV_JOINED, .next_step = 12, .first_step = 40, .ends = true};
	struct sl_frame f;

	for (uint64_t seed = 0; seed < 20; seed++) {
		open_coming(seed);
		assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
		assert_int_equal(client()->ready, 0);
		rig_settle(&rig);
		assert_int_equal(client()->s.state, SL_SESSION_READY);
		assert_int_equal(client()->whole[SL_PART_ENDS], 1);
		assert_true(sl_session_has_ends(&client()->s));
		assert_int_equal(client()->s.next_step, 40);
		rig_begin_step(&rig, 61);
		rig_settle(&rig);
		assert_int_equal(server()->prepared, 1);
	}
	f = rig_part(&rig, RIG_CLIENT, SL_PART_ENDS, 4096); /* when it has them already */
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	open_sharing(1, true);
	rig_begin_step(&rig, 61);
	f = rig_part(&rig, RIG_SERVER, SL_PART_ENDS, 4096); /* in a group whose members never change */
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
}

/* A member that is asked at any moment of a step hands over its state from before or after that
 * step: all of it, or a hash. */
static void a_member_is_asked_at_any_moment(void **state)
{
	const struct sl_event ask[2] = {{.kind = SL_EV_ASK}, {.kind = SL_EV_ASK, .whole = true}};
	int before = 0, behind = 0;

	for (uint64_t seed = 0; seed < 60; seed++)
		for (int turns = 0; turns < 1000; turns += 40) {
			const bool whole = seed % 2;

			open_coming(seed);
			tell(SL_EV_JOINED, 12);
			rig_settle(&rig);
			rig_begin_step(&rig, 61);
			for (int i = 0; i < turns && rig_turn(&rig); i++)
				;
			if (server()->prepared && seed % 3)
				tell(SL_EV_DECIDED, 0);
			for (uint64_t i = 0; i < seed; i++)
				(void)rig_turn(&rig);
			assert_int_equal(rig_event(&rig, RIG_SERVER, &ask[whole]), SL_OK);
			rig_settle(&rig);
			assert_int_equal(server()->given, 1);
			assert_int_equal(server()->stored[SL_PART_ENDS], whole ? 20000 : SL_WIRE_ENDS_HASH);
			before += server()->s.gift_step == 12;
			behind += server()->s.gift_step == 13;
			if (server()->s.state == SL_SESSION_COMMIT)
				tell(SL_EV_DECIDED, 0);
			rig_settle(&rig);
			assert_int_equal(client()->stepped, 1);
		}
	assert_true(before > 100 && behind > 100);
	assert_int_equal(before + behind, 60 * 25);
}

static void what_was_not_asked_for_is_refused(void **state)
{
	struct sl_frame f, fetch = {.kind = SL_FRAME_FETCH};

	open_coming(1);
	tell(SL_EV_JOINED, 12);
	rig_settle(&rig);
	f = rig_part(&rig, RIG_SERVER, SL_PART_ENDS, SL_WIRE_ENDS_HASH);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	open_coming(1); /* asked twice */
	tell(SL_EV_JOINED, 12);
	rig_settle(&rig);
	fetch.epoch = client()->s.epoch;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &fetch), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &fetch), SL_ERR_PROTOCOL);
	open_sharing(1, true); /* in a group whose members never change */
	fetch.epoch = client()->s.epoch;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &fetch), SL_ERR_PROTOCOL);
	open_coming(1); /* before the Welcome */
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &fetch), SL_ERR_PROTOCOL);
}

static void a_group_says_when(void **state)
{
	for (uint64_t seed = 0; seed < 80; seed++) {
		open_sharing(seed, seed % 2);
		for (int i = 1; i <= 3; i++) {
			double own;

			rig_begin_step(&rig, 61);
			rig_settle(&rig);
			assert_int_equal(server()->prepared, i);
			assert_int_equal(server()->tasks[SL_TASK_COMMIT], 0);
			assert_int_equal(client()->s.state, SL_SESSION_COMMIT);
			assert_int_equal(server()->whole[SL_PART_END_GRAD], seed % 2 ? i : 0);
			own = client()->s.lr;
			group_lr = i == 2 ? own / 4 : -1;
			tell(SL_EV_DECIDED, 0);
			group_lr = -1;
			rig_settle(&rig);
			assert_true(own > 0 && client()->s.lr == (i == 2 ? own / 4 : own));
			assert_int_equal(client()->whole[SL_PART_END_MEAN], seed % 2 ? i : 0);
			assert_int_equal(client()->stepped, i);
			assert_int_equal(client()->s.next_step, 12 + (uint64_t)i);
		}
	}
}

/* A member that falls silent is lost, even before it is welcomed. */
static void who_waits_is_heard(void **state)
{
	open_member(1);
	rig_open(&rig, &(struct rig_conf){.batch = 64,
					  .rows = 16,
					  .part_bytes = 4096,
					  .window_bytes = 16384,
					  .next_step = 12,
					  .shared = true});
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	rig_settle(&rig);
	rig.now_ms += 900;
	assert_int_equal(rig_event(&rig, RIG_SERVER, &(struct sl_event){.kind = SL_EV_TICK}), SL_OK);
	rig.now_ms += 200;
	assert_int_equal(rig_event(&rig, RIG_SERVER, &(struct sl_event){.kind = SL_EV_TICK}), SL_ERR_PEER_LOST);
}

/* However far its step is, a late member abandons it. The step counts as done once the client says
 * so, and the next one is accepted. */
static void a_member_is_late_at_any_moment(void **state)
{
	int before_commit = 0, behind_it = 0;

	for (uint64_t seed = 0; seed < 30; seed++)
		for (int turns = 0; turns < 480; turns += 24) {
			open_sharing(seed, seed % 2);
			rig_begin_step(&rig, 61);
			for (int i = 0; i < turns; i++)
				rig_turn(&rig);
			before_commit += client()->s.state == SL_SESSION_STEP;
			behind_it += client()->s.state == SL_SESSION_COMMIT;
			tell(SL_EV_LATE, 13);
			rig_settle(&rig);
			assert_int_equal(client()->s.state, SL_SESSION_ABANDON);
			assert_int_equal(client()->abandoned, 1);
			assert_true(client()->s.late);
			assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_SKIP}), SL_OK);
			rig_settle(&rig);
			assert_true(sl_session_skips(&server()->s));
			tell(SL_EV_DECIDED, 0);
			rig_settle(&rig);
			assert_int_equal(client()->stepped, 1);
			rig_begin_step(&rig, 45);
			rig_settle(&rig);
			assert_int_equal(server()->s.state, SL_SESSION_COMMIT);
			tell(SL_EV_DECIDED, 0);
			rig_settle(&rig);
			assert_int_equal(client()->stepped, 2);
			assert_false(client()->s.late);
		}
	assert_true(before_commit > 50 && behind_it > 50);
}

/* A client may not abandon after its COMMIT. The group may still go on without it while the worker
 * decodes what came with the COMMIT. */
static void who_has_committed_abandons_nothing(void **state)
{
	struct sl_frame f = {.kind = SL_FRAME_ABANDON};

	open_sharing(3, true);
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	assert_int_equal(server()->s.state, SL_SESSION_COMMIT);
	tell(SL_EV_LATE, 13);
	assert_int_equal(server()->s.state, SL_SESSION_ABANDON);
	f.epoch = server()->s.epoch;
	f.u.abandon.step = server()->s.number;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
}

/* Parts of shared heads and tails at a wrong time are refused. */
static void ends_out_of_place_are_refused(void **state)
{
	struct sl_frame f;

	open_sharing(1, true); /* before the backward pass */
	rig_begin_step(&rig, 61);
	for (int i = 0; i < 3; i++)
		rig_turn(&rig);
	f = rig_part(&rig, RIG_SERVER, SL_PART_END_GRAD, 100);
	f.u.part.step = 12;
	f.u.part.training = true;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	open_sharing(1, true); /* sent twice */
	rig_begin_step(&rig, 61);
	while (!sl_session_told(&server()->s))
		assert_true(rig_turn(&rig));
	f = rig_part(&rig, RIG_SERVER, SL_PART_END_GRAD, 100);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	open_member(1); /* in a group that does not share them */
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_END_MEAN, 100);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	for (int mean = 0; mean < 2; mean++) { /* COMMITTED announces a mean that is not due, or none */
		open_sharing(1, !mean);
		rig_begin_step(&rig, 61);
		rig_settle(&rig);
		f = (struct sl_frame){.kind = SL_FRAME_COMMITTED, .epoch = client()->s.epoch};
		f.u.committed = (struct sl_committed){.step = 12, .mean = mean};
		assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	}
	open_sharing(1, true); /* a mean during the forward pass, in place of mid_act */
	rig_begin_step(&rig, 61);
	while (!client()->s.done[SL_TASK_HEAD_FWD])
		assert_true(rig_turn(&rig));
	assert_int_equal(client()->s.state, SL_SESSION_STEP);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_END_MEAN, 100);
	f.u.part.step = 12;
	f.u.part.training = true;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	open_sharing(1, true); /* longer than a mean can be */
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_END_MEAN, 100);
	f.u.part.total = rig_run_bytes(SL_PART_END_MEAN) + 1;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_LIMIT);
}

/* A member that comes back is told for each missed step that it is done, until it has caught up with the group. */
static void a_member_catches_up(void **state)
{
	open_member(3);
	tell(SL_EV_LATE, 15);
	for (uint64_t step = 12; step < 17; step++) {
		rig_begin_step(&rig, 61);
		rig_settle(&rig);
		if (step < 15) {
			assert_true(client()->s.late);
			assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_SKIP}), SL_OK);
			rig_settle(&rig);
		}
		assert_int_equal(sl_session_skips(&client()->s), step < 15);
		tell(SL_EV_DECIDED, 0);
		rig_settle(&rig);
		assert_int_equal(client()->s.next_step, step + 1);
	}
}

static void pass(void)
{
	const struct sl_event ev = {.kind = SL_EV_PASS, .number = client()->s.next_step, .lr = 0.1};

	assert_int_equal(rig_event(&rig, RIG_CLIENT, &ev), SL_OK);
}

/* A member passes on the steps of others: it computes nothing, and the group says when they are done. */
static void steps_of_others_are_passed(void **state)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		open_member(seed);
		for (uint64_t step = 12; step < 20; step++) {
			const bool own = step % 3 == 0;

			if (own)
				rig_begin_step(&rig, 61);
			else
				pass();
			rig_settle(&rig);
			assert_int_equal(server()->s.state, SL_SESSION_COMMIT);
			assert_int_equal(sl_session_skips(&server()->s), !own);
			assert_int_equal(server()->s.commit == SL_COMMIT_PASSES, !own);
			assert_int_equal(server()->s.number, step);
			assert_true(server()->s.lr == 0.1);
			tell(SL_EV_DECIDED, 0);
			rig_settle(&rig);
			assert_int_equal(client()->s.next_step, step + 1);
			assert_int_equal(client()->s.state, SL_SESSION_READY);
		}
	}
}

/* A member may pass on a step that the group has already done without it. It is not reported as late. */
static void a_pass_may_come_late(void **state)
{
	open_member(4);
	tell(SL_EV_LATE, 15);
	for (uint64_t step = 12; step < 16; step++) {
		pass();
		rig_settle(&rig);
		assert_false(client()->s.late);
		assert_int_equal(server()->s.state, SL_SESSION_COMMIT);
		tell(SL_EV_DECIDED, 0);
		rig_settle(&rig);
		assert_int_equal(client()->s.next_step, step + 1);
	}
}

static void a_pass_out_of_place_is_refused(void **state)
{
	const struct sl_event ev = {.kind = SL_EV_PASS, .number = 11};
	const struct rig_conf alone = {
		.batch = 64, .rows = 16, .part_bytes = 4096, .window_bytes = 16384, .next_step = 12};

	open_member(5);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &ev), SL_ERR_MISMATCH);
	rig_open(&rig, &alone);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	rig_settle(&rig);
	pass();
	rig_settle(&rig);
	assert_int_equal(server()->s.state, SL_SESSION_CLOSED); /* this client is in no group */
}

static enum sl_err tell_record(const char *text, bool more)
{
	const struct sl_event ev = {.kind = SL_EV_TELL, .text = text, .more = more};

	assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
	rig_settle(&rig);
	return client()->fail.code;
}

/* At any moment of a step the server may say who took part in the steps so far. */
static void a_record_comes_at_any_moment(void **state)
{
	for (uint64_t seed = 0; seed < 20; seed++)
		for (int turns = 0; turns < 480; turns += 48) {
			const struct sl_event ev = {.kind = SL_EV_TELL, .text = "{}"};

			open_sharing(seed, seed % 2);
			rig_begin_step(&rig, 61);
			for (int i = 0; i < turns; i++)
				rig_turn(&rig);
			assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
			rig_settle(&rig);
			assert_int_equal(client()->recorded, 1);
			tell(SL_EV_DECIDED, 0);
			rig_settle(&rig);
			assert_int_equal(client()->stepped, 1);
		}
}

/* So may a report cross, either way. */
static void a_report_comes_at_any_moment(void **state)
{
	const struct sl_wire_report report = {.text = "{}"};
	const struct sl_event ev = {.kind = SL_EV_SAY, .report = &report};

	for (uint64_t seed = 0; seed < 20; seed++)
		for (int turns = 0; turns < 480; turns += 48) {
			open_sharing(seed, seed % 2);
			rig_begin_step(&rig, 61);
			for (int i = 0; i < turns; i++)
				rig_turn(&rig);
			assert_int_equal(rig_event(&rig, RIG_CLIENT, &ev), SL_OK);
			assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
			rig_settle(&rig);
			assert_int_equal(client()->reported + server()->reported, 2);
			tell(SL_EV_DECIDED, 0);
			rig_settle(&rig);
			assert_int_equal(client()->stepped, 1);
		}
}

/* Pieces make one record, which has a largest size. The next record begins anew. */
static void a_record_is_bounded(void **state)
{
	enum { PIECES = (256 << 10) / SL_WIRE_RECORD };
	static char piece[SL_WIRE_RECORD + 1];

	memset(piece, 'x', SL_WIRE_RECORD);
	open_member(1);
	for (int again = 0; again < 2; again++)
		for (int i = 1; i <= PIECES; i++)
			assert_int_equal(tell_record(piece, i < PIECES), SL_OK);
	assert_int_equal(client()->recorded, 2 * PIECES);
	for (int i = 0; i < PIECES; i++)
		assert_int_equal(tell_record(piece, true), SL_OK);
	assert_int_equal(tell_record("x", false), SL_ERR_LIMIT);
	assert_int_equal(client()->s.state, SL_SESSION_CLOSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_newcomer_begins_where_its_group_is),
		cmocka_unit_test(a_newcomer_gets_heads_and_tails),
		cmocka_unit_test(a_member_is_asked_at_any_moment),
		cmocka_unit_test(what_was_not_asked_for_is_refused),
		cmocka_unit_test(a_group_says_when),
		cmocka_unit_test(who_waits_is_heard),
		cmocka_unit_test(a_member_is_late_at_any_moment),
		cmocka_unit_test(who_has_committed_abandons_nothing),
		cmocka_unit_test(ends_out_of_place_are_refused),
		cmocka_unit_test(a_member_catches_up),
		cmocka_unit_test(steps_of_others_are_passed),
		cmocka_unit_test(a_pass_may_come_late),
		cmocka_unit_test(a_pass_out_of_place_is_refused),
		cmocka_unit_test(a_record_comes_at_any_moment),
		cmocka_unit_test(a_report_comes_at_any_moment),
		cmocka_unit_test(a_record_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
