/* A group on a server with a quorum of two and share.least 0: eight honest members, and eight seats
 * for hostile ones. Whatever these do while they join and in their first step, the honest ones
 * compute the same bits as without them. However often members come and go, the group continues. */
#include <math.h>

#include "server/group/group_impl.h"
#include "server/host/host_impl.h"
#include "tests/support/host_member.h"
#include "tests/support/unit.h"

enum { MEMBERS = 16, HONEST = 8, STEPS = 3, SPOILED = 1 };

static const float SMALL = 1e-3f;

static struct host_member member[MEMBERS];
static int tests_run;

static uint8_t session_of(int k)
{
	return (uint8_t)(tests_run * MEMBERS + k);
}

static void come(int k, uint64_t epoch)
{
	host_member_call(&member[k], k, session_of(k), epoch);
}

static void welcomed(int k)
{
	host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
}

/* Ends a link as the transport would, or as a client that means to come back does (SL_ERR_BUSY). */
static void drop(int k, enum sl_err code)
{
	const struct sl_frame refuse = {.kind = SL_FRAME_REFUSE,
					.epoch = member[k].epoch,
					.u.refuse = {.code = (uint32_t)code, .text = "gone"}};

	host_rig_say(&member[k].c, &refuse);
}

static void leave(int k)
{
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = member[k].epoch};

	host_rig_say(&member[k].c, &bye);
}

static void part(int k, uint64_t step)
{
	host_member_compute(&member[k], step, HOST_GRAD, 1, SMALL);
	host_member_commit(&member[k], step, false);
}

/* The member's steps are committed, and it was not ended. `committed`: how many commits it was told of. */
static void is_done(int k, int committed)
{
	host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], committed);
	assert_int_equal(member[k].c.came[SL_FRAME_ABANDON] + member[k].c.came[SL_FRAME_REFUSE], 0);
}

static void honest_step(uint64_t step)
{
	for (int k = 0; k < HONEST; k++)
		part(k, step);
	for (int k = 0; k < HONEST; k++)
		is_done(k, (int)step + 1);
}

/* patience_s: after how long a member is late. A busy machine makes honest ones late, too. */
static void begin(int patience_s)
{
	tests_run++;
	host_group.patience_s = patience_s;
	snprintf(host_group.name, sizeof host_group.name, "g%d", tests_run);
	host_rig_open(2 * MEMBERS, 0);
	for (int k = 0; k < HONEST; k++)
		come(k, 1);
	for (int k = 0; k < HONEST; k++)
		welcomed(k);
	honest_step(0);
}

static void end(void)
{
	for (int k = 0; k < MEMBERS; k++)
		host_member_hang_up(&member[k]);
	host_rig_close();
}

/* The hash of the weights if no other member has come. */
static uint64_t alone(void)
{
	static uint64_t hash;

	if (hash)
		return hash;
	begin(60);
	for (uint64_t step = SPOILED; step < STEPS; step++)
		honest_step(step);
	hash = host_member_weights(&member[0]);
	end();
	return hash;
}

static void goes_on(void)
{
	for (uint64_t step = SPOILED; step < STEPS; step++)
		honest_step(step);
	for (int k = 0; k < HONEST; k++)
		assert_true(host_member_weights(&member[k]) == alone());
}

static void refused(int k, enum sl_err code, const char *phrase)
{
	const struct sl_refuse *r = &member[k].c.last[SL_FRAME_REFUSE].u.refuse;

	host_rig_await(&member[k].c.came[SL_FRAME_REFUSE], 1);
	if (r->code != (uint32_t)code || !strstr(r->text, phrase))
		fail_msg("member %d: %u, '%s', not '%s'", k, r->code, r->text, phrase);
}

static void abandoned(int k, const char *phrase)
{
	const struct sl_abandon *a = &member[k].c.last[SL_FRAME_ABANDON].u.abandon;

	host_rig_await(&member[k].c.came[SL_FRAME_ABANDON], 1);
	if (!strstr(a->text, phrase))
		fail_msg("member %d: '%s', not '%s'", k, a->text, phrase);
}

/* ---- how a join ends */

static void a_join_may_end_at_every_point(void **state)
{
	(void)alone();
	begin(1);
	host_rig_connect_raw(&member[8].c);
	member[8].up = true; /* it says nothing */
	host_rig_connect_raw(&member[9].c);
	member[9].up = member[9].c.mute = true;
	host_rig_say(&member[9].c, &member[0].c.hello); /* another client's Hello, for which it has no proof */
	come(10, 1);
	come(11, 1);
	host_rig_await(&member[11].c.came[SL_FRAME_CHALLENGE], 1);
	drop(11, SL_ERR_UNAVAILABLE);
	for (int k = 12; k < MEMBERS; k++)
		come(k, 1);
	for (int k = 12; k < MEMBERS; k++)
		welcomed(k);
	drop(12, SL_ERR_UNAVAILABLE);
	drop(13, SL_ERR_BUSY); /* as a client that means to come back */
	leave(14);
	host_member_hang_up(&member[15]);
	host_member_hang_up(&member[10]);
	goes_on();
	end();
}

static void a_first_step_may_end_at_every_point(void **state)
{
	(void)alone();
	for (int polite = 0; polite < 2; polite++) {
		begin(1);
		for (int k = HONEST; k < HONEST + HOST_STAGES; k++)
			come(k, 1);
		for (int k = HONEST; k < HONEST + HOST_STAGES; k++) {
			welcomed(k);
			host_member_compute(&member[k], SPOILED, (enum host_stage)(k - HONEST), 1, SMALL);
		}
		for (int k = HONEST; k < HONEST + HOST_STAGES; k++)
			if (polite)
				leave(k);
			else
				drop(k, SL_ERR_UNAVAILABLE);
		goes_on();
		end();
	}
}

/* ---- what newcomers send */

static void send_rows(int k, uint32_t rows)
{
	struct sl_frame f = {
		.kind = SL_FRAME_PART,
		.epoch = 1,
		.u.part = {
			.what = SL_PART_HEAD_ACT, .training = true, .step = SPOILED, .rows = rows, .batch_rows = rows}};
	uint8_t few[64] = {0};

	f.u.part.total = 16 + member[k].act_bytes;
	host_rig_say_part(&member[k].c, &f, (struct sl_bytes){few, sizeof few});
}

static void hostile_newcomers_are_left_out(void **state)
{
	struct sl_frame other_lr = {
		.kind = SL_FRAME_COMMIT, .epoch = 1, .u.commit = {.step = SPOILED, .chunks = 1, .lr = 7}};

	(void)alone();
	begin(1);
	for (int k = HONEST; k < MEMBERS; k++)
		come(k, 1);
	for (int k = HONEST; k < MEMBERS; k++)
		welcomed(k);
	host_member_compute(&member[8], SPOILED, HOST_GRAD, NAN, SMALL);
	host_member_compute(&member[9], SPOILED, HOST_GRAD, 1, INFINITY);
	host_member_compute(&member[10], SPOILED, HOST_GRAD, 1, 1e12f);
	host_member_commit(&member[10], SPOILED, false);
	send_rows(11, 100 * HOST_MEMBER_ROWS);
	host_member_send(&member[12], SL_PART_HEAD_ACT, SPOILED + 7, 1, false);
	host_member_send(&member[13], SL_PART_HEAD_ACT, SPOILED - 1, 1, false);
	host_member_commit(&member[14], SPOILED, false); /* it has not begun this step */
	host_member_compute(&member[15], SPOILED, HOST_GRAD, 1, SMALL);
	host_rig_say(&member[15].c, &other_lr);
	abandoned(8, "NaN");
	abandoned(9, "Inf");
	abandoned(10, "share.member_norm");
	refused(11, SL_ERR_LIMIT, "rows");
	refused(12, SL_ERR_PROTOCOL, "step 8 begun where 1 is next");
	refused(13, SL_ERR_PROTOCOL, "step 0 begun where 1 is next");
	refused(14, SL_ERR_PROTOCOL, "no step is under way");
	honest_step(SPOILED);
	refused(15, SL_ERR_MISMATCH, "the learning rate of step 1 is");
	for (uint64_t step = SPOILED + 1; step < STEPS; step++)
		honest_step(step);
	assert_true(host_member_weights(&member[0]) == alone());
	end();
}

/* Newcomers that join, and then do nothing or only a part of the step. */
static void silent_newcomers_are_waited_for_once(void **state)
{
	(void)alone();
	begin(1);
	for (int k = HONEST; k < HONEST + 3; k++)
		come(k, 1);
	for (int k = HONEST; k < HONEST + 3; k++)
		welcomed(k);
	host_member_compute(&member[9], SPOILED, HOST_GRAD, 1, SMALL);
	host_member_compute(&member[10], SPOILED, HOST_ACT, 1, SMALL);
	goes_on();
	assert_true(member[9].c.last[SL_FRAME_ABANDON].u.abandon.late);
	end();
}

/* The device failed in a step, and a Fetch comes behind it before the sessions have heard: nobody gets these weights.
 */
static void a_step_in_part_is_given_to_nobody(void **state)
{
	const struct sl_frame fetch = {.kind = SL_FRAME_FETCH, .epoch = 1};
	int had;

	begin(60);
	had = member[0].c.came[SL_FRAME_PART];
	host_rig.host->groups->first->trunk.state = SL_TRUNK_TORN; /* all wait, and the worker is idle */
	host_rig_say(&member[0].c, &fetch);
	refused(0, SL_ERR_BUSY, "a step was applied in part");
	assert_int_equal(member[0].c.came[SL_FRAME_PART], had);
	end();
}

/* ---- what newcomers ask for */

static void call_holding(int k, const uint64_t *held, int n)
{
	host_member_call_with(&member[k], k, session_of(k), 1, held, n);
}

static void forged_hellos_change_nothing(void **state)
{
	static const uint64_t ahead[] = {SPOILED + 40, 0}, last[] = {UINT64_MAX, 0};
	const struct host_group was = host_group;
	struct host_member *m = &member[11];

	(void)alone();
	begin(1);
	call_holding(8, ahead, 2);
	call_holding(9, last, 2);
	host_member_call(m, 3, session_of(11), 1); /* the number of another member */
	for (int k = 8; k < 10; k++) {             /* steps that the group has not done count as nothing */
		welcomed(k);
		assert_true(member[k].c.last[SL_FRAME_WELCOME].u.welcome.begin == SPOILED);
		assert_true(member[k].c.last[SL_FRAME_WELCOME].u.welcome.next_step == 0);
	}
	refused(11, SL_ERR_BUSY, "another client is member 3");
	host_group.least = 0.5;
	call_holding(12, (uint64_t[]){0}, 1);
	refused(12, SL_ERR_MISMATCH, "the group g");
	host_group = was;
	snprintf(host_group.name, sizeof host_group.name, "g%d", tests_run);
	goes_on();
	end();
}

/* ---- again and again */

static uint64_t memory(void)
{
	return atomic_load(&host_rig.host->memory.used);
}

/* Each newcomer waits until it is let in, so that it was a member. */
static void many_come_and_go(void **state)
{
	uint64_t used = 0, epoch = 1;

	(void)alone();
	begin(1);
	for (int i = 0; i < 20; i++) {
		for (int k = HONEST; k < HONEST + 3; k++)
			come(k, epoch);
		epoch++;
		for (int k = HONEST; k < HONEST + 3; k++)
			welcomed(k);
		drop(8, SL_ERR_BUSY);
		leave(9);
		drop(10, SL_ERR_UNAVAILABLE);
		for (int k = HONEST; k < HONEST + 3; k++)
			host_member_hang_up(&member[k]);
		while (host_rig.host->closing || (used && memory() > used))
			host_rig_turn();
		if (!used)
			used = memory();
	}
	goes_on();
	end();
}

/* ---- with a store */

static void begin_stored(void)
{
	host_rig_make_store();
	host_group.checkpoints = true;
	begin(60);
}

static void end_stored(void)
{
	end();
	host_group.checkpoints = false;
	host_rig_remove_store();
}

/* Runs a step after which the honest members have its checkpoint and that of the step before. */
static void kept_step(uint64_t step)
{
	honest_step(step);
	for (int k = 0; k < HONEST; k++) {
		member[k].kept[0] = step + 1;
		member[k].kept[1] = step;
	}
}

/* Member 8 loses its link, and comes back with checkpoints of these steps. */
static void comes_back_with(uint64_t epoch, const uint64_t *held, int n)
{
	drop(8, SL_ERR_UNAVAILABLE);
	host_member_hang_up(&member[8]);
	host_member_call_with(&member[8], 8, session_of(8), epoch, held, n);
}

/* Member 8 takes part in steps 2 to 8, which the others keep. Returns the group's next step. */
static uint64_t member_8_trains(void)
{
	uint64_t step = 1;

	kept_step(step++);
	come(8, 1);
	welcomed(8);
	for (; step < 9; step++) {
		part(8, step);
		kept_step(step);
		is_done(8, (int)step - 1);
	}
	return step;
}

/* What the group's log tells, as --absent takes it. Seats 9 to 15 have never had a member. */
static void absent_is(const char *list)
{
	const struct sl_group *g = host_rig.host->groups->first;
	struct sl_buf text = {0};
	char *end;

	assert_int_equal(sl_group_log_text(&g->log, MEMBERS, &text), SL_OK);
	end = strstr((char *)text.data, ",9:");
	assert_non_null(end);
	*end = '\0';
	assert_string_equal((char *)text.data, list);
	free(text.data);
}

/* A member comes back without files, or with older ones, while the others have two checkpoints: nobody goes back or
 * ends, and it takes part in the step under way. A step that the group has not done counts as no file. */
static void nobody_goes_back_for_a_member(void **state)
{
	static const struct {
		uint64_t held[2];
		int n;
		const char *absent;
	} comes[] = {{{0}, 1, "8:1-2@0,8:10-9@0"},
		     {{2, 0}, 2, "8:1-2@0,8:10-9@2"},
		     {{5, 3}, 2, "8:1-2@0,8:10-9@5"},
		     {{77, 0}, 2, "8:1-2@0,8:10-9@0"}};

	for (size_t i = 0; i < sizeof comes / sizeof comes[0]; i++) {
		uint64_t step;

		begin_stored();
		step = member_8_trains();
		comes_back_with(2, comes[i].held, comes[i].n);
		welcomed(8);
		assert_true(member[8].c.last[SL_FRAME_WELCOME].u.welcome.begin == step);
		part(8, step);
		kept_step(step);
		is_done(8, 1);
		absent_is(comes[i].absent);
		end_stored();
	}
}

/* However often a member comes back behind the others, these go on. */
static void who_always_comes_back_behind_stops_nobody(void **state)
{
	uint64_t epoch = 1, step;

	begin_stored();
	step = member_8_trains();
	for (int i = 0; i < 10; i++) {
		comes_back_with(++epoch, (uint64_t[]){3, 0}, 2);
		welcomed(8);
		assert_true(member[8].c.last[SL_FRAME_WELCOME].u.welcome.begin == step);
	}
	part(8, step);
	kept_step(step);
	is_done(8, 1);
	absent_is("8:1-2@0,8:10-9@3"); /* all before one step */
	end_stored();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_join_may_end_at_every_point),
		cmocka_unit_test(a_first_step_may_end_at_every_point),
		cmocka_unit_test(hostile_newcomers_are_left_out),
		cmocka_unit_test(silent_newcomers_are_waited_for_once),
		cmocka_unit_test(a_step_in_part_is_given_to_nobody),
		cmocka_unit_test(forged_hellos_change_nothing),
		cmocka_unit_test(many_come_and_go),
		cmocka_unit_test(nobody_goes_back_for_a_member),
		cmocka_unit_test(who_always_comes_back_behind_stops_nobody),
	};

	host_group = (struct host_group){
		.clients = MEMBERS, .quorum = 2, .epoch_steps = 100, .member_norm = 1000, .lr = 0.05, .plain = true};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
