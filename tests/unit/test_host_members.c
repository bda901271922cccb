/* A group on a server with one honest member and one that is hostile. The hostile one is left out
 * or ended, with a message. The honest one computes the same bits as if the other were absent. */
#include <math.h>

#include "common/codec/frame.h"
#include "server/group/group_impl.h"
#include "server/host/host_impl.h"
#include "tests/support/host_member.h"
#include "tests/support/unit.h"

static const float SMALL = 1e-9f;

enum { ROWS = HOST_MEMBER_ROWS, MEMBERS = 2, STEPS = 3, SPOILED = 1 };

static struct host_member member[MEMBERS + 1]; /* the last one: in the groups of three */
static int tests_run;

static uint8_t session_of(int k)
{
	return (uint8_t)(tests_run * 8 + k);
}

static void open_server(void)
{
	tests_run++;
	host_group.clients = MEMBERS;
	host_group.epoch_steps = STEPS;
	snprintf(host_group.name, sizeof host_group.name, "g%d", tests_run);
	host_rig_open(8, 0);
}

static void begin(void)
{
	open_server();
	for (int k = 0; k < MEMBERS; k++)
		host_member_call(&member[k], k, session_of(k), 1);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
}

static void end(void)
{
	for (int k = 0; k < MEMBERS; k++)
		host_member_hang_up(&member[k]);
	host_rig_close();
}

/* A step of the honest member, which must be done within the time that the group waits for others. */
static void honest_step(uint64_t step)
{
	struct host_member *m = &member[0];

	host_member_compute(m, step, HOST_GRAD, 1, SMALL);
	host_member_commit(m, step, false);
	host_rig_await(&m->c.came[SL_FRAME_COMMITTED], (int)step + 1);
	assert_int_equal(m->c.came[SL_FRAME_ABANDON], 0);
	assert_int_equal(m->c.came[SL_FRAME_REFUSE], 0);
}

static uint64_t weights(void)
{
	return host_member_weights(&member[0]);
}

static void both(uint64_t step)
{
	host_member_compute(&member[0], step, HOST_GRAD, 1, SMALL);
	host_member_compute(&member[1], step, HOST_GRAD, 1, SMALL);
	for (int k = 0; k < MEMBERS; k++)
		host_member_commit(&member[k], step, false);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], (int)step + 1);
}

/* The hash of the weights if member 1 passes steps 1 and 2. */
static uint64_t without(void)
{
	static uint64_t hash;

	if (hash)
		return hash;
	begin();
	both(0);
	for (uint64_t step = SPOILED; step < STEPS; step++) {
		host_member_commit(&member[1], step, true);
		honest_step(step);
	}
	hash = weights();
	end();
	return hash;
}

/* Member 1 has begun step 1 and misbehaved. The honest one continues, with the same weights as without it. */
static void goes_on(void)
{
	for (uint64_t step = SPOILED; step < STEPS; step++)
		honest_step(step);
	assert_int_equal(weights(), without());
}

static const char *abandoned(void)
{
	host_rig_await(&member[1].c.came[SL_FRAME_ABANDON], 1);
	return member[1].c.last[SL_FRAME_ABANDON].u.abandon.text;
}

static void nan_is_left_out(void **state)
{
	(void)without();
	for (int grad = 0; grad < 2; grad++) {
		begin();
		both(0);
		host_member_compute(&member[1], SPOILED, HOST_GRAD, grad ? 1 : NAN, grad ? NAN : SMALL);
		assert_non_null(strstr(abandoned(), "NaN"));
		goes_on();
		end();
	}
}

static void a_huge_gradient_is_left_out(void **state)
{
	(void)without();
	for (float scale = 1e6f; scale < 1e38f; scale *= 1e16f) {
		begin();
		both(0);
		host_member_compute(&member[1], SPOILED, HOST_GRAD, 1, scale);
		if (!member[1].c.came[SL_FRAME_ABANDON])
			host_member_commit(&member[1], SPOILED, false);
		assert_non_null(abandoned());
		goes_on();
		end();
	}
}

/* A gradient may be finite, but not once it is scaled to all rows of the step. As the scale doubles from
 * step to step, some gradient is such. The learning rate is 0, so that the middle does not change. */
static void an_overflow_is_its_members(void **state)
{
	struct host_member *m = &member[1];
	int blamed = 0, applied = 0;
	float scale = 1;

	host_group.member_norm = host_group.lr = 0;
	host_group.plain = true;
	begin();
	for (uint64_t step = 0; step < 90; step++, scale *= 2) {
		m->c.came[SL_FRAME_ABANDON] = 0;
		host_member_commit(&member[0], step, true);
		host_member_compute(m, step, HOST_GRAD, 1e20f, scale);
		if (!m->c.came[SL_FRAME_ABANDON])
			host_member_commit(m, step, false);
		while (!m->c.came[SL_FRAME_ABANDON] && m->c.came[SL_FRAME_COMMITTED] <= (int)step)
			host_rig_turn();
		if (m->c.came[SL_FRAME_ABANDON]) {
			blamed += strstr(m->c.last[SL_FRAME_ABANDON].u.abandon.text, "of whom this one") != NULL;
			host_member_commit(m, step, true);
		} else {
			applied++;
		}
		for (int k = 0; k < MEMBERS; k++)
			host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], (int)step + 1);
	}
	assert_true(applied > 5 && blamed >= 1);
	end();
	host_group.member_norm = 1000;
	host_group.lr = 0.05;
	host_group.plain = false;
}

static void wrong_rows_end_a_member(void **state)
{
	struct sl_frame f = {
		.kind = SL_FRAME_PART,
		.epoch = 1,
		.u.part = {.what = SL_PART_HEAD_ACT, .training = true, .step = SPOILED, .rows = 1, .batch_rows = ROWS}};
	uint8_t few[64] = {0};

	for (int more = 0; more < 2; more++) {
		begin();
		both(0);
		f.u.part.total = SL_FRAME_BYTES + member[1].act_bytes;
		f.u.part.rows = more ? 100 * ROWS : 1;
		f.u.part.batch_rows = more ? 100 * ROWS : ROWS;
		host_rig_say_part(&member[1].c, &f, (struct sl_bytes){few, sizeof few});
		host_rig_await(&member[1].c.came[SL_FRAME_REFUSE], 1);
		assert_non_null(strstr(member[1].c.last[SL_FRAME_REFUSE].u.refuse.text, "row"));
		goes_on();
		end();
	}
}

/* Member 1 computes its whole step and never commits: the group waits for it only once. */
static void who_never_commits_is_waited_for_once(void **state)
{
	begin();
	both(0);
	host_member_compute(&member[1], SPOILED, HOST_GRAD, 1, SMALL);
	goes_on();
	assert_true(member[1].c.last[SL_FRAME_ABANDON].u.abandon.late);
	end();
}

static void a_seat_is_taken_once(void **state)
{
	struct host_member *m = &member[1];
	struct host_client *first = malloc(sizeof *first);

	assert_non_null(first);
	begin();
	both(0);
	*first = m->c; /* the first link stays open, and a second one asks for the seat */
	m->up = false;
	host_member_call(m, 1, session_of(5), 1);
	host_rig_await(&m->c.came[SL_FRAME_REFUSE], 1);
	assert_int_equal(m->c.last[SL_FRAME_REFUSE].u.refuse.code, SL_ERR_BUSY);
	assert_non_null(strstr(m->c.last[SL_FRAME_REFUSE].u.refuse.text, "another client is member 1"));
	goes_on();
	host_rig_hang_up(first);
	end();
	free(first);
}

/* Two clients call for one seat at once, so neither is there yet when the other is admitted. One of them gets it. */
static void a_seat_is_taken_once_at_once(void **state)
{
	static struct host_member other;
	struct host_member *m = &member[1], *in, *out;

	open_server();
	host_member_call(m, 1, session_of(1), 1);
	host_member_call(&other, 1, session_of(5), 1);
	while (!m->c.came[SL_FRAME_REFUSE] && !other.c.came[SL_FRAME_REFUSE])
		host_rig_turn();
	in = m->c.came[SL_FRAME_REFUSE] ? &other : m;
	out = in == m ? &other : m;
	assert_non_null(strstr(host_rig_refusal(&out->c, SL_ERR_BUSY), "another client is member 1"));
	host_member_call(&member[0], 0, session_of(0), 1);
	host_rig_await(&member[0].c.came[SL_FRAME_WELCOME], 1);
	host_rig_await(&in->c.came[SL_FRAME_WELCOME], 1);
	host_member_hang_up(&other);
	end();
}

/* Another client has a member's number by mistake, and another learning rate. The group keeps its member's. */
static void a_refused_client_changes_no_rates(void **state)
{
	const struct sl_group *g;
	static struct host_member other;

	open_server();
	host_group.rates = 5;
	host_member_call(&member[0], 0, session_of(0), 1);
	while (!(g = host_rig.host->groups->first) || !g->member[0].m)
		host_rig_turn();
	host_group.rates = 7;
	host_member_call(&other, 0, session_of(5), 1);
	assert_non_null(strstr(host_rig_refusal(&other.c, SL_ERR_BUSY), "another client is member 0"));
	host_group.rates = 5;
	host_member_call(&member[1], 1, session_of(1), 1);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
	host_group.rates = 0;
	host_member_hang_up(&other);
	end();
}

/* A member may leave at every stage of its step, with a goodbye or by just ending its link. */
static void a_member_may_leave_at_every_point(void **state)
{
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = 1};
	const struct sl_frame refuse = {
		.kind = SL_FRAME_REFUSE, .epoch = 1, .u.refuse = {.code = SL_ERR_UNAVAILABLE, .text = "gone"}};

	(void)without();
	for (int stage = HOST_NOTHING; stage < HOST_STAGES; stage++)
		for (int polite = 0; polite < 2; polite++) {
			begin();
			both(0);
			host_member_compute(&member[1], SPOILED, (enum host_stage)stage, 1, SMALL);
			host_rig_say(&member[1].c, polite ? &bye : &refuse);
			goes_on();
			end();
		}
}

/* Where each step needs all, a member says that it lost all its files, or invents steps, while the other has two
 * checkpoints. It goes on with its own head and tail, and the other neither restarts at step 0 nor ends. */
static void nobody_goes_back_to_what_is_not_there(void **state)
{
	static const uint64_t held[][2] = {{0, 0}, {1, 0}, {UINT64_MAX, 0}};
	const struct sl_frame gone = {
		.kind = SL_FRAME_REFUSE, .epoch = 1, .u.refuse = {.code = SL_ERR_UNAVAILABLE, .text = "gone"}};

	for (int i = 0; i < 3; i++) {
		struct host_member *m = &member[1];
		uint64_t step = 0;

		host_rig_make_store();
		host_group.checkpoints = true;
		host_group.least = 1;
		begin();
		for (; step < 5; step++) {
			both(step);
			member[0].kept[0] = step + 1;
			member[0].kept[1] = step;
		}
		host_rig_say(&m->c, &gone);
		host_member_hang_up(m);
		host_member_call_with(m, 1, session_of(1), 2, held[i], 1);
		if (held[i][0] > step) { /* no state of the log, and not the first one: it has nothing to go on with */
			host_rig_await(&m->c.came[SL_FRAME_REFUSE], 1);
			assert_int_equal(m->c.last[SL_FRAME_REFUSE].u.refuse.code, SL_ERR_MISMATCH);
			host_member_hang_up(m);
			host_member_call_with(m, 1, session_of(1), 3, &step, 1);
		}
		host_rig_await(&m->c.came[SL_FRAME_WELCOME], 1);
		assert_true(m->c.last[SL_FRAME_WELCOME].u.welcome.begin == step);
		assert_int_equal(member[0].c.came[SL_FRAME_REFUSE], 0);
		host_member_compute(m, step, HOST_GRAD, 1, SMALL);
		host_member_commit(m, step, false);
		honest_step(step);
		end();
		host_group.least = 0;
		host_group.checkpoints = false;
		host_rig_remove_store();
	}
}

/* ---- who owns a seat */

enum { STRANGER = 250, KEPT = 5 };

static void begin_stored(void)
{
	host_rig_make_store();
	host_group.checkpoints = true;
	begin();
}

static void end_stored(void)
{
	end();
	host_group.checkpoints = false;
	host_rig_remove_store();
}

/* Runs steps after which both members have the last two checkpoints. */
static void kept_steps(void)
{
	for (uint64_t step = 0; step < KEPT; step++) {
		both(step);
		for (int k = 0; k < MEMBERS; k++) {
			member[k].kept[0] = step + 1;
			member[k].kept[1] = step;
		}
	}
}

/* Ends a link as a killed process does. */
static void dies(int k)
{
	const struct sl_frame gone = {.kind = SL_FRAME_REFUSE,
				      .epoch = member[k].epoch,
				      .u.refuse = {.code = SL_ERR_UNAVAILABLE, .text = "gone"}};

	host_rig_say(&member[k].c, &gone);
	host_member_hang_up(&member[k]);
}

static void comes(int k, uint8_t session, uint64_t epoch, const uint64_t *held, int n)
{
	host_member_hang_up(&member[k]);
	host_member_call_with(&member[k], k, session, epoch, held, n);
}

static void part(int k, uint64_t step)
{
	host_member_compute(&member[k], step, HOST_GRAD, 1, SMALL);
	host_member_commit(&member[k], step, false);
}

static void refused_seat(const char *phrase)
{
	const struct sl_refuse *r = &member[1].c.last[SL_FRAME_REFUSE].u.refuse;

	host_rig_await(&member[1].c.came[SL_FRAME_REFUSE], 1);
	if (r->code != SL_ERR_MISMATCH || !strstr(r->text, phrase))
		fail_msg("%u, '%s', not '%s'", r->code, r->text, phrase);
	assert_int_equal(member[1].c.came[SL_FRAME_WELCOME], 0);
	assert_int_equal(member[0].c.came[SL_FRAME_REFUSE], 0);
}

/* A stranger asks for the seat with the steps that its member has, or says goodbye there before it is let in. Where
 * each step needs all, it cannot begin anew there either, whatever it names besides. */
static void strangers_come(void)
{
	static const uint64_t held[][4] = {{KEPT}, {KEPT - 1}, {KEPT, KEPT - 1, KEPT - 2, 0}, {0}};
	static const int n[] = {1, 1, 4, 1};
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = 9};

	for (int i = 0; i < (host_group.least == 1 ? 4 : 2); i++) {
		comes(1, STRANGER, (uint64_t)(1 + i), held[i], n[i]);
		refused_seat("is the run of another client");
	}
	comes(1, STRANGER, 9, held[0], n[0]);
	host_rig_await(&member[1].c.came[SL_FRAME_CHALLENGE], 1);
	host_rig_say(&member[1].c, &bye);
}

enum attack { NO_STRANGER, BESIDE_ONE_THAT_TRAINS, BEHIND_A_SERVER_S_END };

static uint64_t killed_and_back(enum attack attack)
{
	static const uint64_t held[] = {KEPT, KEPT - 1};
	uint64_t hash;

	begin_stored();
	kept_steps();
	if (attack == BEHIND_A_SERVER_S_END) {
		for (int k = 0; k < MEMBERS; k++)
			host_member_hang_up(&member[k]);
		host_rig_close();
		host_rig_open(8, 0);
		comes(0, session_of(0), 2, held, 2);
		comes(1, STRANGER, 1, held, 2);
		refused_seat("is the run of another client");
	} else {
		dies(1);
	}
	if (attack == BESIDE_ONE_THAT_TRAINS)
		strangers_come();
	comes(1, session_of(1), 2, held, 2);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
	assert_true(member[1].c.last[SL_FRAME_WELCOME].u.welcome.begin == KEPT);
	for (int k = 0; k < MEMBERS; k++)
		part(k, KEPT);
	host_rig_await(&member[1].c.came[SL_FRAME_COMMITTED], 1);
	hash = weights();
	end_stored();
	return hash;
}

static void a_seat_is_its_runs(void **state)
{
	const uint64_t alone = killed_and_back(NO_STRANGER);

	for (int least = 0; least < 2; least++) {
		host_group.least = least;
		assert_true(killed_and_back(BESIDE_ONE_THAT_TRAINS) == alone);
		assert_true(killed_and_back(BEHIND_A_SERVER_S_END) == alone);
	}
	host_group.least = 0;
}

/* A restarted server finds another run in a seat whose member has told of no files, and which may begin anew: it names
 * steps that it did not make. The group begins at step 0, which both hold. */
static void who_did_not_make_a_step_does_not_hold_it(void **state)
{
	static const uint64_t held[] = {2, 1, 0};

	host_group.least = 1;
	begin_stored();
	both(0);
	both(1);
	for (int k = 0; k < MEMBERS; k++)
		host_member_hang_up(&member[k]);
	host_rig_close();
	host_rig_open(8, 0);
	comes(0, session_of(0), 2, held, 3);
	comes(1, STRANGER, 1, held, 3);
	for (int k = 0; k < MEMBERS; k++) {
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
		assert_int_equal(member[k].c.last[SL_FRAME_WELCOME].u.welcome.begin, 0);
	}
	end_stored();
	host_group.least = 0;
}

/* ---- the learning rate */

static void commit_with(int k, uint64_t step, bool skip, double lr)
{
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT,
				   .epoch = member[k].epoch,
				   .u.commit = {.step = step, .chunks = skip ? 0 : 1, .lr = lr, .skip = skip}};

	host_rig_say(&member[k].c, &f);
}

/* Member 0 announces that rate in a step that it skips or takes part in. Returns the hash of member 1's weights. */
static uint64_t says_lr(bool skip, double lr)
{
	uint64_t hash;

	begin();
	both(0);
	if (!skip)
		host_member_compute(&member[0], 1, HOST_GRAD, 1, SMALL);
	commit_with(0, 1, skip, lr);
	part(1, 1);
	for (int k = 0; k < MEMBERS; k++) {
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], 2);
		assert_int_equal(member[k].c.came[SL_FRAME_REFUSE], 0);
	}
	hash = host_member_weights(&member[1]);
	end();
	return hash;
}

static void one_of_two_ends_nobody_by_its_learning_rate(void **state)
{
	for (int skip = 0; skip < 2; skip++)
		assert_true(says_lr(skip, 7e5) == says_lr(skip, host_group.lr));
}

static void most_members_decide_on_the_learning_rate(void **state)
{
	static const double none[] = {-1, -1}, two[] = {0.1, 7e5}, skips[] = {-1, 7e5, 0.1, 0.1},
			    four[] = {0.2, 0.1, 0.3, 0.1}, three[] = {7e5, 0.1, 0.1};
	static const struct {
		const double *lr;
		int n;
		struct sl_group_lr is;
	} c[] = {{none, 2, {-1, false, true}},   {two, 2, {0.1, false, false}},  {skips, 4, {0.1, true, false}},
		 {four, 4, {0.1, false, false}}, {three, 3, {0.1, true, false}}, {three + 1, 2, {0.1, true, true}}};

	for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
		const struct sl_group_lr is = sl_group_vote(c[i].lr, c[i].n);

		assert_true(is.lr == c[i].is.lr && is.most == c[i].is.most && is.alike == c[i].is.alike);
	}
}

/* ---- a group that is not complete */

static void who_waits_hears_who_is_missing(void **state)
{
	const struct host_group was = host_group;
	struct host_client *waits = &member[0].c;

	for (int refused = 0; refused < 2; refused++) {
		tests_run++;
		host_group.wait_s = 1;
		host_group.clients = 3;
		host_group.least = 0.9;
		snprintf(host_group.name, sizeof host_group.name, "g%d", tests_run);
		host_rig_open(8, 0);
		host_member_call(&member[0], 0, session_of(0), 1);
		host_rig_await(&waits->came[SL_FRAME_CHALLENGE], 1);
		if (refused) {
			host_group.epoch_steps++;
			host_member_call(&member[1], 1, session_of(1), 1);
			refused_seat("an epoch of group");
		}
		host_rig_await(&waits->came[SL_FRAME_REFUSE], 1);
		assert_int_equal(waits->last[SL_FRAME_REFUSE].u.refuse.code,
				 refused ? SL_ERR_MISMATCH : SL_ERR_TIMEOUT);
		if (!strstr(waits->last[SL_FRAME_REFUSE].u.refuse.text,
			    refused ? "missing are members 1 (refused: share.epoch_steps: an epoch of group"
				    : "missing are members 1, 2"))
			fail_msg("%s", waits->last[SL_FRAME_REFUSE].u.refuse.text);
		end();
		host_group = was;
	}
}

/* Two of three are lost behind the first step, and a step needs two. */
static void who_lacks_a_quorum_hears_it_and_ends(void **state)
{
	const struct host_group was = host_group;
	const struct host_client *waits = &member[0].c;

	host_group.wait_s = 2;
	host_group.clients = 3;
	host_group.quorum = 2;
	host_group.least = 0.1;
	snprintf(host_group.name, sizeof host_group.name, "g%d", ++tests_run);
	host_rig_open(8, 0);
	for (int k = 0; k < 3; k++)
		host_member_call(&member[k], k, session_of(k), 1);
	for (int k = 0; k < 3; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
	for (int k = 0; k < 3; k++)
		part(k, 0);
	host_rig_await(&member[0].c.came[SL_FRAME_COMMITTED], 1);
	host_member_hang_up(&member[1]);
	host_member_hang_up(&member[2]);
	part(0, 1);
	host_rig_await(&waits->came[SL_FRAME_REFUSE], 1);
	assert_int_equal(waits->last[SL_FRAME_REFUSE].u.refuse.code, SL_ERR_TIMEOUT);
	if (!strstr(waits->last[SL_FRAME_REFUSE].u.refuse.text, "missing are members 1 (since 20") ||
	    !strstr(waits->last[SL_FRAME_REFUSE].u.refuse.text, " UTC), 2 (since 20"))
		fail_msg("%s", waits->last[SL_FRAME_REFUSE].u.refuse.text);
	if (!strstr(waits->last[SL_FRAME_RECORD].u.record.text, "\"waits\":\"1 (since 20"))
		fail_msg("%s", waits->last[SL_FRAME_RECORD].u.record.text);
	host_member_hang_up(&member[0]);
	host_rig_close();
	host_group = was;
}

/* Each step needs both, and one of them does not do its part, with its link open. */
static void who_waits_hears_who_is_idle(void **state)
{
	const struct host_group was = host_group;
	const struct host_client *waits = &member[0].c;

	host_group.wait_s = 2;
	host_group.least = 1;
	begin();
	both(0);
	part(0, 1);
	host_rig_await(&waits->came[SL_FRAME_REFUSE], 1);
	assert_int_equal(waits->last[SL_FRAME_REFUSE].u.refuse.code, SL_ERR_UNAVAILABLE);
	if (!strstr(waits->last[SL_FRAME_REFUSE].u.refuse.text, "missing are members 1 (here, idle since 20"))
		fail_msg("%s", waits->last[SL_FRAME_REFUSE].u.refuse.text);
	end();
	host_group = was;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nan_is_left_out),
		cmocka_unit_test(a_huge_gradient_is_left_out),
		cmocka_unit_test(an_overflow_is_its_members),
		cmocka_unit_test(wrong_rows_end_a_member),
		cmocka_unit_test(who_never_commits_is_waited_for_once),
		cmocka_unit_test(a_seat_is_taken_once),
		cmocka_unit_test(a_seat_is_taken_once_at_once),
		cmocka_unit_test(a_refused_client_changes_no_rates),
		cmocka_unit_test(a_member_may_leave_at_every_point),
		cmocka_unit_test(nobody_goes_back_to_what_is_not_there),
		cmocka_unit_test(a_seat_is_its_runs),
		cmocka_unit_test(who_did_not_make_a_step_does_not_hold_it),
		cmocka_unit_test(who_waits_hears_who_is_missing),
		cmocka_unit_test(who_lacks_a_quorum_hears_it_and_ends),
		cmocka_unit_test(who_waits_hears_who_is_idle),
		cmocka_unit_test(one_of_two_ends_nobody_by_its_learning_rate),
		cmocka_unit_test(most_members_decide_on_the_learning_rate),
	};

	host_group.quorum = 1;
	host_group.member_norm = 1000;
	host_group.lr = 0.05;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
