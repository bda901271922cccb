/* The session of a vertical group's member, which has features, labels or both: each pass begins with ORDER, and only
 * what belongs to its part of the network crosses. The rig lets the other party keep step. Every second seed clips. */
#include <math.h>

#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

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
				.clip_norm = seed % 2 ? 3 : 0,
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

/* The factor by which both sides multiply: that of the norm of all parties, which have one where mid_grad crosses. */
static void check_clipped(enum sl_party party, int grads, uint64_t seed)
{
	const double own = party == SL_PARTY_FEATURES && grads ? 0 : 9 + 11;
	const double factor = 3 / (sqrt(own + (grads < 2 ? RIG_OTHER_SQUARES : 0)) + 1e-6);
	const double want = !(seed % 2) ? 0 : factor < 1 ? factor : 1;

	assert_true(rig.side[RIG_CLIENT].s.grad_scale == want && rig.side[RIG_SERVER].s.grad_scale == want);
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
				check_clipped((enum sl_party)party, grads, seed);
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

/* Feeds a frame to a copy of the server's session. part NULL: it is legal. */
static void tries(enum rig_who who, const struct sl_frame *f, const char *part)
{
	static struct sl_outbox out;
	struct sl_session copy = rig.side[who].s;
	const struct sl_event ev = {.kind = (enum sl_event_kind)f->kind, .frame = f};
	const enum sl_err err = sl_session_step(&copy, &ev, rig.now_ms, &out);

	if (err != (part ? SL_ERR_PROTOCOL : SL_OK) || (part && !strstr(out.fail.text, part)))
		fail_msg("%s: %d, %s", part ? part : "legal", (int)err, out.fail.text);
}

static void says_norm(uint64_t step, double squares, const char *part)
{
	tries(RIG_SERVER, &(struct sl_frame){.kind = SL_FRAME_NORM, .epoch = 7, .u.norm = {step, squares}}, part);
}

/* The sum of all members' squares is not below this member's own, nor more than floats can have. */
static void hears_sum(double squares, const char *part)
{
	tries(RIG_CLIENT, &(struct sl_frame){.kind = SL_FRAME_NORM, .epoch = 7, .u.norm = {12, squares}}, part);
}

static void says_commit(double grad_scale, const char *part)
{
	tries(RIG_SERVER,
	      &(struct sl_frame){.kind = SL_FRAME_COMMIT,
				 .epoch = 7,
				 .u.commit = {.step = 12, .chunks = CHUNKS, .lr = 0.1, .grad_scale = grad_scale}},
	      part);
}

static void a_party_says_its_squares_once(void **state)
{
	const double right = 3 / (sqrt(9 + 11 + RIG_OTHER_SQUARES) + 1e-6);

	for (int party = SL_PARTY_FEATURES; party <= SL_PARTY_JOINED; party++)
		for (uint64_t seed = 1; seed < SEEDS; seed += 2) {
			const struct sl_session *s = &rig.side[RIG_SERVER].s;

			open_party((enum sl_party)party, 0, seed);
			rig_begin_step(&rig, BATCH);
			while (s->state != SL_SESSION_STEP)
				assert_true(rig_turn(&rig));
			says_norm(12, 20, "too early or twice");
			while (s->done[SL_TASK_MID_FWD] != s->chunks)
				assert_true(rig_turn(&rig));
			if (!s->norm_of) {
				says_norm(12, 0, NULL);
				says_norm(12, 1e90, NULL);
				says_norm(11, 20, "step 11 in step 12");
				says_norm(12, -1, "squares is -1");
				says_norm(12, 2e100, "squares is 2e+100");
				says_norm(12, INFINITY, "squares is inf");
				says_norm(12, (double)NAN, "squares is nan");
			}
			while (!s->norm_of && rig_turn(&rig))
				if (party == SL_PARTY_LABELS || s->done[SL_TASK_MID_BWD] == s->chunks)
					says_commit(1, "grad_scale");
			says_norm(12, 20, "too early or twice");
			hears_sum(20, NULL);
			hears_sum(nextafter(20, 0), "where this member's alone are 20");
			hears_sum(0, "where this member's alone are 20");
			hears_sum(1e94, "squares is 1e+94");
			while (s->squares[1] < 0)
				assert_true(rig_turn(&rig));
			says_commit(right, NULL);
			says_commit(nextafter(right, 1), "which its norm does not give");
			says_commit(1, "which its norm does not give");
			says_commit(0, "which its norm does not give");
			rig_settle(&rig);
			decide();
			assert_int_equal(rig.side[RIG_CLIENT].stepped, 1);
			rig_begin_eval(&rig, 0, BATCH);
			while (s->state != SL_SESSION_EVAL)
				assert_true(rig_turn(&rig));
			says_norm(0, 20, "Norm frame in state EVAL");
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_party_does_its_part),
		cmocka_unit_test(a_step_is_abandoned_at_any_moment),
		cmocka_unit_test(what_is_no_pass_of_this_party_is_refused),
		cmocka_unit_test(a_party_says_its_squares_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
