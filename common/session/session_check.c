/* What holds of a session between two events, and of what one event asks for: assertions, by both roles. A peer cannot
 * break them, because the tables refuse what it may not say. */
#include "common/base/assert.h"
#include "common/session/table.h"

static bool is_one_of(enum sl_session_state state, unsigned states)
{
	return states >> state & 1;
}

#define IN(name) (1u << SL_SESSION_##name)
#define TRAINS   (IN(STEP) | IN(COMMIT) | IN(ABANDON))

/* Credit that is held back leaves the sender room for a full part. */
static void check_credit(const struct sl_session *s)
{
	if (s->consumed_bytes)
		sl_assert_int(s->consumed_bytes + s->hello.part_bytes, <=, s->window_bytes);
	sl_assert_int(s->counts.stale_frames, <=, s->counts.frames);
	sl_assert_int(s->counts.worked, <=, s->counts.frames);
	sl_assert_int(s->counts.refused_frames, <=, s->counts.frames);
}

/* Runs arrive part by part, and chunks one after the other. */
static void check_lanes(const struct sl_session *s)
{
	for (int what = 0; what < SL_PART_WHAT_COUNT; what++) {
		sl_assert_int(s->lane[what].chunk, >=, 0);
		if (s->lane[what].received)
			sl_assert_int(s->lane[what].received, <, s->lane[what].total);
	}
	if (is_one_of(s->state, TRAINS | IN(EVAL))) {
		sl_assert_int(s->lane[SL_PART_HEAD_ACT].chunk, <=, s->chunks);
		sl_assert_int(s->lane[SL_PART_MID_ACT].chunk, <=, s->chunks);
		sl_assert_int(s->lane[SL_PART_MID_GRAD].chunk, <=, s->chunks);
		sl_assert_int(s->lane[SL_PART_HEAD_GRAD].chunk, <=, s->chunks);
		sl_assert_int(s->lane[SL_PART_END_GRAD].chunk, <=, 1);
		sl_assert_int(s->lane[SL_PART_END_MEAN].chunk, <=, 1);
	}
}

/* A chunk's tasks run in this order, each once. */
static void check_tasks(const struct sl_session *s)
{
	static const enum sl_task of_chunk[] = {SL_TASK_HEAD_FWD, SL_TASK_TAIL,    SL_TASK_GRAD,
						SL_TASK_HEAD_BWD, SL_TASK_MID_FWD, SL_TASK_MID_BWD};
	const bool client = s->role == SL_SESSION_CLIENT;

	for (size_t i = 0; i < sizeof of_chunk / sizeof *of_chunk; i++)
		sl_assert_int(s->done[of_chunk[i]], <=, s->chunks);
	if (client && s->limits.party == SL_PARTY_BOTH) {
		sl_assert_int(s->done[SL_TASK_TAIL], <=, s->done[SL_TASK_HEAD_FWD]);
		sl_assert_int(s->done[SL_TASK_HEAD_BWD], <=, s->done[SL_TASK_TAIL]);
		sl_assert_int(s->done[SL_TASK_TAIL], <=, s->lane[SL_PART_MID_ACT].chunk);
	}
	sl_assert_int(s->done[SL_TASK_GRAD], <=, s->done[SL_TASK_TAIL]);
	sl_assert_int(s->done[SL_TASK_MID_BWD], <=, s->done[SL_TASK_MID_FWD]);
	sl_assert_int(s->done[SL_TASK_TELL], <=, 1);
	sl_assert_int(s->backs, <=, s->chunks);
	sl_assert_int(s->committed, <=, s->chunks);
}

static void check_pass(const struct sl_session *s)
{
	sl_assert_int(s->chunks, >=, 0);
	sl_assert_int(s->chunks, <=, SL_SESSION_MAX_CHUNKS);
	if (!is_one_of(s->state, TRAINS | IN(EVAL)))
		return;
	sl_assert(s->training == is_one_of(s->state, TRAINS));
	if (s->training)
		sl_assert_int(s->number, ==, s->next_step);
	check_tasks(s);
	/* a peer is never said to have decided before COMMIT, nor after the step was abandoned */
	if (s->state != SL_SESSION_COMMIT)
		sl_assert_int(s->decided, ==, SL_DECIDED_NOT);
	if (is_one_of(s->state, IN(STEP) | IN(EVAL)))
		sl_assert_int(s->fate, ==, SL_PASS_GOES_ON);
	if (s->state == SL_SESSION_ABANDON)
		sl_assert_int(s->fate, !=, SL_PASS_GOES_ON);
	/* what was abandoned is never applied */
	if (s->state == SL_SESSION_COMMIT && s->fate != SL_PASS_GOES_ON)
		sl_assert(sl_session_skips(s));
}

static void check_client(const struct sl_session *s)
{
	sl_assert(!is_one_of(s->state, IN(OPENING)));
	sl_assert_int(s->held_step, <=, s->next_step);
	sl_assert_int(s->kept_step, <=, s->next_step + (s->state == SL_SESSION_COMMIT));
	sl_assert_int(s->challenges, <=, SL_SESSION_CHALLENGES);
	if (s->gift == SL_GIFT_BEHIND)
		sl_assert_int(s->state, ==, SL_SESSION_COMMIT);
	sl_assert_int(s->asked, ==, SL_ASKED_NOTHING);
	sl_assert_int(s->norm_of, <=, 0);
	if (s->state == SL_SESSION_COMMIT && s->commit == SL_COMMIT_APPLIES)
		sl_assert(s->grad_scale >= 0 && s->squares[1] >= 0);
}

static void check_server(const struct sl_session *s)
{
	sl_assert(!is_one_of(s->state, IN(HELLO) | IN(ALIGN)));
	sl_assert_if(s->joining, s->state == SL_SESSION_OPENING && s->limits.shared);
	sl_assert_int(s->gift, ==, SL_GIFT_NONE);
	if (is_one_of(s->state, IN(READY) | IN(EVAL) | IN(COMMIT) | IN(FETCH)))
		sl_assert_int(s->asked, ==, SL_ASKED_NOTHING);
	if (s->state == SL_SESSION_STEP)
		sl_assert_int(s->asked, <=, SL_ASKED_COMMIT);
	if (s->state == SL_SESSION_COMMIT)
		sl_assert_int(s->decided, !=, SL_DECIDED_PLAIN);
}

void sl_session_check(const struct sl_session *s)
{
	sl_assert_int(s->state, <, SL_SESSION_STATE_COUNT);
	if (s->state == SL_SESSION_CLOSED)
		return;
	check_credit(s);
	check_lanes(s);
	check_pass(s);
	(s->role == SL_SESSION_CLIENT ? check_client : check_server)(s);
}

void sl_session_check_change(const struct sl_session *s, const struct sl_session_mark *before)
{
	const bool opens = is_one_of(before->state, IN(NEW) | IN(HELLO) | IN(OPENING));

	sl_assert_int(s->epoch, >=, before->epoch);
	if (opens)
		return;
	sl_assert_int(s->epoch, ==, before->epoch);
	sl_assert_int(s->next_step, >=, before->next_step);
	sl_assert_int(s->next_step, <=, before->next_step + 1);
	/* steps are counted at their end alone */
	if (s->next_step != before->next_step)
		sl_assert_int(before->state, ==, SL_SESSION_COMMIT);
	sl_assert(!is_one_of(s->state, IN(NEW) | IN(HELLO) | IN(OPENING)));
}

void sl_outbox_check(const struct sl_session *s, const struct sl_outbox *out)
{
	sl_assert_int(out->n_action, <=, SL_OUTBOX_ACTIONS);
	sl_assert_int(out->n_frame, <=, SL_OUTBOX_FRAMES);
	for (int i = 0; i < out->n_action; i++) {
		const struct sl_action *a = &out->action[i];

		if (a->kind == SL_ACTION_SEND) {
			sl_assert_int(a->frame, <, out->n_frame);
			sl_assert_int(out->frame[a->frame].epoch, ==, s->epoch);
		}
		if (a->kind == SL_ACTION_TASK || a->kind == SL_ACTION_POST) {
			sl_assert_int(a->chunk, >=, 0);
			sl_assert_int(a->chunk, <, s->chunks> 1 ? s->chunks : 1);
		}
		if (a->kind == SL_ACTION_FAIL || a->kind == SL_ACTION_LEFT)
			sl_assert_int(s->state, ==, SL_SESSION_CLOSED);
		if (a->kind == SL_ACTION_STEPPED)
			sl_assert_int(s->next_step, ==, s->number + 1);
	}
}
