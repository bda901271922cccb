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

/* From which state an event may lead where, beside CLOSED. One event may do the work of two: a server's upload that is
 * complete leads to what was asked for meanwhile. */
static const unsigned client_next[SL_SESSION_STATE_COUNT] = {
	[SL_SESSION_NEW] = IN(HELLO),
	[SL_SESSION_HELLO] = IN(WEIGHTS) | IN(READY) | IN(ALIGN),
	[SL_SESSION_WEIGHTS] = IN(READY),
	[SL_SESSION_READY] = IN(STEP) | IN(EVAL) | IN(FETCH) | IN(COMMIT),
	[SL_SESSION_STEP] = IN(COMMIT) | IN(ABANDON),
	[SL_SESSION_COMMIT] = IN(READY) | IN(ABANDON),
	[SL_SESSION_ABANDON] = IN(COMMIT) | IN(FETCH),
	[SL_SESSION_EVAL] = IN(READY),
	[SL_SESSION_FETCH] = IN(READY),
};
static const unsigned server_next[SL_SESSION_STATE_COUNT] = {
	[SL_SESSION_NEW] = IN(OPENING),
	[SL_SESSION_OPENING] = IN(WEIGHTS) | IN(READY),
	[SL_SESSION_WEIGHTS] = IN(READY) | IN(ABANDON) | IN(COMMIT) | IN(FETCH),
	[SL_SESSION_READY] = IN(STEP) | IN(EVAL) | IN(ABANDON) | IN(COMMIT) | IN(FETCH),
	[SL_SESSION_STEP] = IN(COMMIT) | IN(ABANDON),
	[SL_SESSION_COMMIT] = IN(READY) | IN(ABANDON),
	[SL_SESSION_ABANDON] = IN(COMMIT) | IN(FETCH),
	[SL_SESSION_EVAL] = IN(READY),
	[SL_SESSION_FETCH] = IN(READY),
};

static void check_way(const struct sl_session *s, enum sl_session_state from)
{
	const unsigned *next = s->role == SL_SESSION_CLIENT ? client_next : server_next;

	if (s->state != from && s->state != SL_SESSION_CLOSED)
		sl_assert(is_one_of(s->state, next[from]));
}

void sl_session_check_change(const struct sl_session *s, const struct sl_session_mark *before)
{
	const bool opens = is_one_of(before->state, IN(NEW) | IN(HELLO) | IN(OPENING));

	sl_assert_int(s->epoch, >=, before->epoch);
	check_way(s, before->state);
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

/* What is sent of a chunk was made by a task that has ended. */
static void check_post(const struct sl_session *s, const struct sl_action *a)
{
	static const int made_by[SL_PART_WEIGHTS] = {
		[SL_PART_HEAD_ACT] = SL_TASK_HEAD_FWD,
		[SL_PART_MID_ACT] = SL_TASK_MID_FWD,
		[SL_PART_MID_GRAD] = SL_TASK_TAIL,
		[SL_PART_HEAD_GRAD] = SL_TASK_MID_BWD,
	};

	sl_assert(sl_part_is_state(a->what) || is_one_of(s->state, TRAINS | IN(EVAL) | IN(READY)));
	if (a->what < SL_PART_WEIGHTS)
		sl_assert_int(s->done[made_by[a->what]], >, 0);
	if (a->what == SL_PART_END_GRAD)
		sl_assert_int(s->role, ==, SL_SESSION_CLIENT);
	if (a->what == SL_PART_END_MEAN)
		sl_assert(s->role == SL_SESSION_SERVER && s->decided == SL_DECIDED_MEAN);
}

/* A step is applied once all of it is here: each chunk has gone both ways, or the step is counted without them. */
static void check_commit(const struct sl_session *s)
{
	sl_assert_int(s->state, ==, SL_SESSION_COMMIT);
	if (s->role == SL_SESSION_CLIENT) {
		sl_assert(sl_session_heard(s));
		sl_assert_if(s->decided == SL_DECIDED_MEAN, s->lane[SL_PART_END_MEAN].chunk == 1);
	}
	if (sl_session_skips(s))
		return;
	sl_assert_int(s->fate, ==, SL_PASS_GOES_ON);
	if (s->role == SL_SESSION_SERVER)
		sl_assert_int(s->done[SL_TASK_MID_FWD], ==, s->chunks);
	else if (sl_party_has(s->limits.party, SL_HEAD))
		sl_assert_int(s->done[SL_TASK_HEAD_FWD], ==, s->chunks);
	if (s->role == SL_SESSION_CLIENT && sl_party_has(s->limits.party, SL_TAIL))
		sl_assert_int(s->done[SL_TASK_TAIL], ==, s->chunks);
	if (!s->limits.no_mid_grad && !s->limits.free_calls && !s->limits.party)
		sl_assert_int(s->done[s->role == SL_SESSION_SERVER ? SL_TASK_MID_BWD : SL_TASK_TAIL], ==, s->chunks);
}

/* What this side sends is what the other takes (fields.c and the tables there): its own fields are in range. A caller
 * of libsplit names the rate of a free step by itself. */
static void check_commit_frame(const struct sl_session *s, const struct sl_commit *c)
{
	const int most = sl_session_scale_most(s, c->step);

	sl_assert_int(c->step, ==, s->number);
	sl_assert_int(c->chunks, <=, (uint32_t)s->chunks);
	if (!s->limits.free_calls)
		sl_assert(c->lr >= 0 && c->lr <= SL_SESSION_LR_MOST);
	sl_assert(c->grad_scale >= 0 && c->grad_scale <= most);
	sl_assert_if(c->skip, !(c->grad_scale > 0));
	sl_assert(c->kept[0] > c->kept[1] || !c->kept[1]);
	sl_assert_if(c->writing, c->kept[0] > 0);
}

static void check_frame(const struct sl_session *s, const struct sl_frame *f)
{
	const struct sl_welcome *w = &f->u.welcome;

	sl_assert_if(f->payload.len, f->kind == SL_FRAME_HELLO);
	switch (f->kind) {
	case SL_FRAME_WELCOME:
		sl_assert_int(w->begin, >=, w->next_step);
		sl_assert_if(w->begin > w->next_step || w->branch || w->common || w->ends, s->limits.shared);
		sl_assert_if(w->need_weights, !w->ends);
		sl_assert_int(w->part_bytes, <=, w->window_bytes);
		break;
	case SL_FRAME_COMMIT:
		check_commit_frame(s, &f->u.commit);
		break;
	case SL_FRAME_COMMITTED:
		sl_assert_int(f->u.committed.step, ==, s->number);
		sl_assert_if(f->u.committed.mean, sl_session_ends_cross(s));
		sl_assert_if(f->u.committed.other_lr, s->limits.shared);
		break;
	case SL_FRAME_NORM:
		sl_assert(f->u.norm.step == s->number && s->training && f->u.norm.squares >= 0);
		break;
	case SL_FRAME_CREDIT:
		sl_assert_int(f->u.credit.bytes, >, 0);
		/* a window is no smaller than a part, or the server refuses: a server that does not still gets its
		 * credit */
		sl_assert_int(f->u.credit.bytes, <=,
			      s->window_bytes > s->hello.part_bytes ? s->window_bytes : s->hello.part_bytes);
		break;
	case SL_FRAME_ABANDON:
		sl_assert(f->u.abandon.text[0]);
		sl_assert_if(f->u.abandon.late, s->limits.shared && s->role == SL_SESSION_SERVER);
		break;
	default:
		break;
	}
}

void sl_outbox_check(const struct sl_session *s, const struct sl_outbox *out)
{
	sl_assert_int(out->n_action, <=, SL_OUTBOX_ACTIONS);
	sl_assert_int(out->n_frame, <=, SL_OUTBOX_FRAMES);
	for (int i = 0; i < out->n_frame; i++)
		check_frame(s, &out->frame[i]);
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
		if (a->kind == SL_ACTION_POST)
			check_post(s, a);
		if (a->kind == SL_ACTION_TASK && a->task == SL_TASK_COMMIT)
			check_commit(s);
		if (a->kind == SL_ACTION_EVALUATED || a->kind == SL_ACTION_FETCHED || a->kind == SL_ACTION_STEPPED)
			sl_assert_int(s->state, ==, SL_SESSION_READY);
		if (a->kind == SL_ACTION_FAIL) /* nothing follows the end but what tells the peer */
			sl_assert_int(i, ==, out->n_action - 1);
	}
}
