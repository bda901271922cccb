/* The session of a vertical group's member, which has features, labels or both: each pass begins with ORDER, and only
 * what belongs to its part of the network crosses. The rig lets the other party keep step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/session_rig.h"

enum { BATCH = 61, CHUNKS = 4, SEEDS = 64 };

static struct rig rig;

static void open_party(enum sl_party party, int grads, uint64_t seed)
{
	struct rig_conf conf = {.batch = BATCH,
				.rows = 16,
				.part_bytes = 4096,
				.window_bytes = 16384,
				.next_step = 12,
				.seed = seed,
				.shared = true,
				.party = party};
	const struct sl_event joined = {.kind = SL_EV_JOINED, .next_step = 12};

	rig_grads(&conf, grads);
	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	rig_settle(&rig);
	assert_int_equal(rig_event(&rig, RIG_SERVER, &joined), SL_OK);
	rig_settle(&rig);
	assert_int_equal(rig.side[RIG_CLIENT].s.state, SL_SESSION_READY);
}

static void decide(void)
{
	const struct sl_event ev = {.kind = SL_EV_DECIDED, .lr = -1};

	assert_true(rig.side[RIG_SERVER].prepared >= 1); /* again if the step was abandoned after it */
	assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
	rig_settle(&rig);
}

static void check_crossed(enum sl_party party, int grads)
{
	const struct rig_side *c = &rig.side[RIG_CLIENT], *s = &rig.side[RIG_SERVER];
	const bool head = party != SL_PARTY_LABELS, features = party == SL_PARTY_FEATURES;
	const uint64_t head_grad = head && grads == 0 ? CHUNKS : 0, mid_grad = !features && grads < 2 ? CHUNKS : 0;

	assert_int_equal(s->whole[SL_PART_ORDER], 2);
	assert_int_equal(s->whole[SL_PART_HEAD_ACT], head ? 2 * CHUNKS : 0);
	assert_int_equal(c->whole[SL_PART_MID_ACT], features ? 0 : 2 * CHUNKS);
	assert_int_equal(s->whole[SL_PART_MID_GRAD], mid_grad);
	assert_int_equal(c->whole[SL_PART_HEAD_GRAD], head_grad);
	/* what ends a pass in which no gradient comes */
	assert_int_equal(c->whole[SL_PART_ORDER], features ? 1 + !head_grad : 0);
	assert_int_equal(c->tasks[SL_TASK_HEAD_FWD], head ? 2 * CHUNKS : 0);
	assert_int_equal(c->tasks[SL_TASK_TAIL], features ? 0 : 2 * CHUNKS);
	assert_int_equal(s->tasks[SL_TASK_MID_FWD], 2 * CHUNKS);
	assert_int_equal(s->tasks[SL_TASK_MID_BWD], features ? head_grad : mid_grad);
}

static void each_party_does_its_part(void **state)
{
	for (int party = SL_PARTY_FEATURES; party <= SL_PARTY_JOINED; party++)
		for (int grads = 0; grads < 3; grads++)
			for (uint64_t seed = 0; seed < SEEDS; seed++) {
				open_party((enum sl_party)party, grads, seed);
				rig_begin_step(&rig, BATCH);
				rig_settle(&rig);
				decide();
				assert_int_equal(rig.side[RIG_CLIENT].stepped, 1);
				rig_begin_eval(&rig, 0, BATCH);
				rig_settle(&rig);
				assert_int_equal(rig.side[RIG_CLIENT].evaluated, 1);
				assert_int_equal(rig.side[RIG_SERVER].s.state, SL_SESSION_READY);
				check_crossed((enum sl_party)party, grads);
			}
}

/* Either side may find NaN at any moment; the client counts the step as done. */
static void a_step_is_abandoned_at_any_moment(void **state)
{
	const struct sl_event lost = {.kind = SL_EV_NONFINITE, .why = &(struct sl_fail){.text = "NaN"}};
	const struct sl_event skip = {.kind = SL_EV_SKIP};

	for (int party = SL_PARTY_FEATURES; party <= SL_PARTY_JOINED; party++)
		for (uint64_t turns = 0; turns < 2 * SEEDS; turns++) {
			open_party((enum sl_party)party, (int)(turns % 3), turns);
			rig_begin_step(&rig, BATCH);
			for (uint64_t i = 0; i < turns; i++)
				(void)rig_turn(&rig);
			if (sl_session_abandons(&rig.side[RIG_SERVER].s))
				assert_int_equal(rig_event(&rig, RIG_SERVER, &lost), SL_OK);
			rig_settle(&rig);
			if (rig.side[RIG_CLIENT].abandoned)
				assert_int_equal(rig_event(&rig, RIG_CLIENT, &skip), SL_OK);
			rig_settle(&rig);
			decide();
			assert_int_equal(rig.side[RIG_CLIENT].stepped, 1);
			assert_int_equal(rig.side[RIG_CLIENT].s.state, SL_SESSION_READY);
		}
}

static void refuses(struct sl_frame f, const char *part)
{
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_SERVER].fail.text, part));
}

static struct sl_frame first(enum sl_part_what what)
{
	struct sl_frame f = rig_part(&rig, RIG_SERVER, what, 1000);

	f.u.part.step = 12;
	f.u.part.training = true;
	f.u.part.batch_rows = BATCH;
	f.u.part.rows = what == SL_PART_ORDER ? 0 : 16;
	return f;
}

static void what_is_no_pass_of_this_party_is_refused(void **state)
{
	struct sl_frame f;

	open_party(SL_PARTY_FEATURES, 0, 1);
	refuses(first(SL_PART_HEAD_ACT), "begins with the order");
	open_party(SL_PARTY_FEATURES, 0, 1);
	f = first(SL_PART_ORDER);
	f.u.part.total = f.payload.len = SL_WIRE_ORDER - 1;
	refuses(f, "order of step");
	open_party(SL_PARTY_FEATURES, 0, 1);
	f = first(SL_PART_ORDER);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	refuses(f, "order of step");
	open_party(SL_PARTY_LABELS, 0, 1);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	refuses(first(SL_PART_HEAD_ACT), "does not receive");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_party_does_its_part),
		cmocka_unit_test(a_step_is_abandoned_at_any_moment),
		cmocka_unit_test(what_is_no_pass_of_this_party_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
