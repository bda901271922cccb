/* The server's side of the state machine of session.h: handlers, then the table of states, events and handlers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"
#include "common/session/table.h"

enum sl_err sl_session_check_hello(const struct sl_hello *h, struct sl_fail *fail)
{
	if (h->version != SL_WIRE_VERSION)
		return sl_wire_other_version(h->version, true, fail);
	if (h->part_bytes < SL_SESSION_PART_MIN || h->part_bytes > SL_WIRE_PART_MAX || h->window_bytes < h->part_bytes)
		return sl_fail_set(fail, SL_ERR_LIMIT,
				   "part_bytes must be %d to %d and the window no less, the client has %u and %" PRIu64,
				   SL_SESSION_PART_MIN, SL_WIRE_PART_MAX, h->part_bytes, h->window_bytes);
	if (h->heartbeat_ms < SL_SESSION_HEARTBEAT_MIN || h->timeout_ms / 2 < h->heartbeat_ms ||
	    h->timeout_ms > SL_SESSION_TIMEOUT_MAX)
		return sl_fail_set(fail, SL_ERR_LIMIT,
				   "heartbeat_ms must be %d or more and timeout_ms twice that to %d, the client has %u "
				   "and %u",
				   SL_SESSION_HEARTBEAT_MIN, SL_SESSION_TIMEOUT_MAX, h->heartbeat_ms, h->timeout_ms);
	if (h->n_held < 1)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "a Hello names at least one step to go on from");
	return SL_OK;
}

static enum sl_err on_hello(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_hello *h = &ev->frame->u.hello;
	uint32_t part_bytes = s->hello.part_bytes;
	enum sl_err err = sl_session_check_hello(h, &out->fail);

	s->epoch = ev->frame->epoch;
	if (!err && s->epoch < 1)
		err = sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "a session's epochs begin at 1");
	if (err)
		return err;
	s->hello = *h;
	s->patience_ms = h->timeout_ms;
	s->peer_window_bytes = h->window_bytes;
	if (part_bytes < h->part_bytes)
		s->hello.part_bytes = part_bytes;
	s->state = SL_SESSION_OPENING;
	sl_outbox_add(out, SL_ACTION_KEEP);
	sl_outbox_task(out, SL_TASK_ADMIT, 0);
	return SL_OK;
}

static void welcome(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	struct sl_welcome *w = &sl_outbox_frame(s, out, SL_FRAME_WELCOME)->u.welcome;
	w->version = SL_WIRE_VERSION;
	memcpy(w->plan_hash, s->hello.plan_hash, sizeof w->plan_hash);
	w->part_bytes = s->hello.part_bytes;
	w->window_bytes = s->window_bytes;
	w->next_step = ev->next_step;
	w->begin = s->next_step = ev->first_step > ev->next_step ? ev->first_step : ev->next_step;
	w->made = ev->made;
	w->branch = ev->branch;
	w->common = ev->common;
	snprintf(w->software, sizeof w->software, "splits %s", SL_VERSION);
	snprintf(w->device, sizeof w->device, "%.*s", (int)sizeof w->device - 1, s->device ? s->device : "");
	w->need_weights = ev->need_weights;
	w->ends = ev->ends;
	if (ev->ends)
		sl_outbox_post(out, SL_PART_ENDS, 0);
	s->state = ev->need_weights ? SL_SESSION_WEIGHTS : SL_SESSION_READY;
	s->heard_ms = now_ms; /* until now the client had to wait for this side */
	sl_outbox_add(out, SL_ACTION_READY);
}

static enum sl_err opening_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->task == SL_TASK_ADMIT) {
		sl_outbox_task(out, SL_TASK_OPEN, 0);
	} else if (s->limits.shared) {
		s->joining = true;
		s->heard_ms = now_ms; /* until now the client had to wait for this side */
		sl_outbox_add(out, SL_ACTION_JOINING);
	} else {
		welcome(s, ev, now_ms, out);
	}
	return SL_OK;
}

/* Only a member that waits for its group must be heard from; others wait for this side. */
static enum sl_err opening_tick(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	return (s->joining ? sl_on_tick : sl_on_tick_patiently)(s, ev, now_ms, out);
}

static enum sl_err on_joined(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->joining = false;
	welcome(s, ev, now_ms, out);
	return SL_OK;
}

/* A skipped step may also have an end_grad, which can be still on its way. */
static void begin_commit(struct sl_session *s, struct sl_outbox *out)
{
	s->state = SL_SESSION_COMMIT;
	s->asked = SL_ASKED_NOTHING;
	if (sl_session_skips(s) && sl_session_skip_tells(s) && !sl_session_told(s))
		return;
	sl_outbox_task(out, s->limits.shared ? SL_TASK_PREPARE : SL_TASK_COMMIT, 0);
}

static void gather(struct sl_session *s, struct sl_outbox *out)
{
	s->asked = SL_ASKED_NOTHING;
	s->state = SL_SESSION_FETCH;
	if (s->limits.shared)
		sl_outbox_add(out, SL_ACTION_ASKED);
	else
		sl_outbox_task(out, SL_TASK_GATHER, 0);
}

static enum sl_err on_give(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_task(out, SL_TASK_GATHER, 0);
	return SL_OK;
}

/* The client found NaN or Inf before any part of its step arrived. */
static void abandon_unbegun(struct sl_session *s, struct sl_outbox *out)
{
	sl_pass_begin(s, true, s->next_step, 0);
	sl_abandon_begin(s, out, s->nonfinite, false);
	s->abandon_asked = false;
}

/* The next step is another member's: counts it without computing. */
static void skip_turn(struct sl_session *s, struct sl_outbox *out)
{
	sl_pass_begin(s, true, s->next_step, 0);
	s->commit = SL_COMMIT_PASSES;
	begin_commit(s, out);
}

/* READY as soon as the upload is complete: the client goes on once it has queued its weights. Whatever it sends later
 * arrives after them, and its tasks run after INSTALL. */
static enum sl_err on_weights_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				   struct sl_outbox *out)
{
	bool whole = false;
	enum sl_err err;

	if (ev->frame->u.part.what != SL_PART_WEIGHTS)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "part of kind %u before the weights are complete",
				   ev->frame->u.part.what);
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && whole) {
		sl_outbox_task(out, SL_TASK_INSTALL, 0);
		s->state = SL_SESSION_READY;
		if (s->abandon_asked)
			abandon_unbegun(s, out);
		else if (s->asked == SL_ASKED_SKIP)
			skip_turn(s, out);
		else if (s->asked == SL_ASKED_FETCH)
			gather(s, out);
	}
	return err;
}

/* FETCH may overtake the upload that it was sent after, since it is short. */
static enum sl_err on_early_fetch(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				  struct sl_outbox *out)
{
	if (s->asked != SL_ASKED_NOTHING)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "weights fetched twice before they were complete");
	s->asked = SL_ASKED_FETCH;
	return SL_OK;
}

/* So may ABANDON of the first step, and the COMMIT that skips it. */
static enum sl_err on_early_abandon(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				    struct sl_outbox *out)
{
	enum sl_err err = sl_abandon_check(s, ev->frame, s->next_step, out);

	if (!err && (s->abandon_asked || s->asked == SL_ASKED_SKIP))
		err = sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " abandoned twice", s->next_step);
	if (err)
		return err;
	s->abandon_asked = true;
	snprintf(s->nonfinite, sizeof s->nonfinite, "%s", ev->frame->u.abandon.text);
	return SL_OK;
}

/* Whether COMMIT may overtake gradients. A client that clips waits for the norm, sent after this side's backward. */
static bool may_come_early(const struct sl_session *s)
{
	return (s->limits.no_head_grad && !(s->limits.clip_norm > 0)) || s->limits.party == SL_PARTY_LABELS ||
	       sl_session_ends_cross(s);
}

/* COMMIT of an abandoned step. One without `skip` was sent before the client heard of the abandoning, and counts for
 * nothing: the client then decides about the step. */
static enum sl_err ask_skip(struct sl_session *s, const struct sl_commit *c, uint64_t step, struct sl_outbox *out)
{
	if ((may_come_early(s) || s->late || s->limits.party) && s->state == SL_SESSION_ABANDON && !c->skip &&
	    c->step == step && s->asked == SL_ASKED_NOTHING) {
		s->asked = SL_ASKED_COMMIT;
		return SL_OK;
	}
	if (!c->skip || c->step != step || s->asked > SL_ASKED_COMMIT)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "commit of step %" PRIu64 " where step %" PRIu64 " is abandoned", c->step, step);
	s->asked = SL_ASKED_SKIP;
	/* an end_grad that came before the step was abandoned does not count */
	memset(&s->lane[SL_PART_END_GRAD], 0, sizeof s->lane[SL_PART_END_GRAD]);
	s->lr = c->lr;
	s->keep = c->checkpoint ? SL_KEEP_ASKED : SL_KEEP_NOT;
	memcpy(s->kept, c->kept, sizeof s->kept);
	s->writing = c->writing;
	return SL_OK;
}

static enum sl_err on_early_commit(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				   struct sl_outbox *out)
{
	if (!s->abandon_asked && !(s->limits.shared && !s->limits.party && ev->frame->u.commit.skip))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "commit before the weights are complete");
	return ask_skip(s, &ev->frame->u.commit, s->next_step, out);
}

/* In a group a member can pass a step that has not begun. */
static enum sl_err on_pass(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_commit *c = &ev->frame->u.commit;
	enum sl_err err;

	if (!s->limits.shared || !c->skip || s->limits.party)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "Commit frame of step %" PRIu64 " in state %s, where no step is under way", c->step,
				   sl_session_state_name(s->state));
	err = ask_skip(s, c, s->next_step, out);
	if (!err)
		skip_turn(s, out);
	return err;
}

/* This side is READY: the client abandons a step of which no part has arrived. */
static enum sl_err on_first_abandon(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				    struct sl_outbox *out)
{
	enum sl_err err = sl_abandon_check(s, ev->frame, s->next_step, out);

	if (err)
		return err;
	snprintf(s->nonfinite, sizeof s->nonfinite, "%s", ev->frame->u.abandon.text);
	abandon_unbegun(s, out);
	return SL_OK;
}

/* Does what the client has asked for, once nothing of the pass is under way. */
static void answer_quiet(struct sl_session *s, struct sl_outbox *out)
{
	if (s->fate != SL_PASS_QUIET)
		return;
	if (s->asked == SL_ASKED_SKIP) {
		s->commit = SL_COMMIT_SKIPS;
		begin_commit(s, out);
	} else if (s->asked == SL_ASKED_FETCH) {
		gather(s, out);
	}
}

static enum sl_err abandon_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->task == SL_TASK_ABANDON) {
		s->fate = SL_PASS_QUIET;
		answer_quiet(s, out);
	}
	return SL_OK;
}

static enum sl_err on_skip(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	enum sl_err err = ask_skip(s, &ev->frame->u.commit, s->number, out);

	if (!err)
		answer_quiet(s, out);
	return err;
}

static enum sl_err on_quiet_fetch(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				  struct sl_outbox *out)
{
	if (s->asked > SL_ASKED_COMMIT)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "weights fetched twice");
	s->asked = SL_ASKED_FETCH;
	answer_quiet(s, out);
	return SL_OK;
}

static enum sl_err begin(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out)
{
	if (p->what != (s->limits.party ? SL_PART_ORDER : SL_PART_HEAD_ACT) || p->chunk != 0 || p->offset != 0)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "a pass begins with %s, not kind %u of chunk %u",
				   s->limits.party ? "the order of its rows" : "head_act of chunk 0", p->what,
				   p->chunk);
	if (p->training && s->limits.cached)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "the client began a training step with cached rows: only evaluations may use them");
	if (p->training && p->step != s->next_step)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " begun where %" PRIu64 " is next",
				   p->step, s->next_step);
	if (p->training && s->limits.free_calls ? p->batch_rows : p->batch_rows < 1 || p->batch_rows > s->limits.batch)
		return sl_fail_set(&out->fail, SL_ERR_LIMIT, "a batch of %u rows where at most %" PRIu64 " can be",
				   p->batch_rows, s->limits.batch);
	if (!sl_session_answers_fit(s, p))
		return sl_fail_set(&out->fail, SL_ERR_LIMIT, "%u tokens with a loss in a batch of %u rows", p->answers,
				   p->batch_rows);
	sl_pass_begin(s, p->training, p->step, p->batch_rows);
	s->answers = p->answers;
	s->state = p->training ? SL_SESSION_STEP : SL_SESSION_EVAL;
	return SL_OK;
}

static bool backward_done(const struct sl_session *s)
{
	const bool none = s->limits.party == SL_PARTY_FEATURES ? s->limits.no_head_grad : s->limits.no_mid_grad;

	if (s->limits.free_calls)
		return s->committed && s->done[SL_TASK_MID_BWD] == s->committed;
	return s->done[none ? SL_TASK_MID_FWD : SL_TASK_MID_BWD] == s->chunks;
}

/* Whether everything that this client sends for the step has arrived. */
static bool is_whole(const struct sl_session *s)
{
	return backward_done(s) && (sl_session_told(s) || !sl_session_ends_cross(s));
}

static enum sl_err on_end_part(struct sl_session *s, const struct sl_event *ev, struct sl_outbox *out)
{
	bool whole = false;
	enum sl_err err;

	if (!s->training || s->done[SL_TASK_MID_FWD] != s->chunks || !sl_session_ends_cross(s))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "end_grad of step %" PRIu64 " before it can exist",
				   ev->frame->u.part.step);
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && s->asked == SL_ASKED_COMMIT && is_whole(s))
		begin_commit(s, out);
	return err;
}

static enum sl_err on_pass_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_part *p = &ev->frame->u.part;
	bool grad = p->what == SL_PART_MID_GRAD, whole = false;
	enum sl_err err;

	if (p->what == SL_PART_END_GRAD && s->limits.ends)
		return on_end_part(s, ev, out);
	if (p->what != SL_PART_ORDER &&
	    (p->what == SL_PART_WEIGHTS || (grad && (!s->training || p->chunk >= (uint32_t)s->done[SL_TASK_MID_FWD]))))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "part of kind %u, chunk %u, before it can exist",
				   p->what, p->chunk);
	err = sl_pass_part(s, ev->frame, out, &whole);
	/* JOINED: other parties give inputs, too; the group says by CHUNK when all have arrived */
	if (!err && (p->what == SL_PART_ORDER || (whole && !grad && s->limits.party == SL_PARTY_JOINED)))
		sl_outbox_add(out, SL_ACTION_MOVED);
	else if (!err && whole)
		sl_outbox_task(out, grad ? SL_TASK_MID_BWD : SL_TASK_MID_FWD, (int)p->chunk);
	return err;
}

/* The group has done this step without the member. */
static void leave_out(struct sl_session *s, struct sl_outbox *out)
{
	s->late = true;
	sl_abandon_begin(s, out, "the group did this step without this member, which was late", true);
}

static enum sl_err on_late(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->group_step = ev->next_step;
	if ((s->state == SL_SESSION_STEP ||
	     (s->state == SL_SESSION_COMMIT && !sl_session_skips(s) && s->decided != SL_DECIDED_MEAN)) &&
	    s->number < s->group_step)
		leave_out(s, out);
	return SL_OK;
}

static enum sl_err on_first_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				 struct sl_outbox *out)
{
	enum sl_err err = begin(s, &ev->frame->u.part, out);

	if (!err)
		err = on_pass_part(s, ev, now_ms, out);
	if (!err && s->state == SL_SESSION_STEP && s->number < s->group_step)
		leave_out(s, out);
	return err;
}

static enum sl_err step_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->done[ev->task]++;
	if (ev->task == SL_TASK_NORM)
		s->norm_of = 0;
	sl_free_norm(s, out);
	if (ev->task == SL_TASK_MID_FWD && sl_party_has(s->limits.party, SL_TAIL))
		sl_outbox_post(out, SL_PART_MID_ACT, ev->chunk);
	else if (ev->task == SL_TASK_MID_BWD && sl_party_has(s->limits.party, SL_HEAD) && !s->limits.no_head_grad)
		sl_outbox_post(out, SL_PART_HEAD_GRAD, ev->chunk);
	if (ev->task == SL_TASK_NORM ||
	    (ev->task == SL_TASK_MID_BWD && backward_done(s) && s->limits.clip_norm > 0 && !s->limits.party))
		sl_outbox_frame(s, out, SL_FRAME_NORM)->u.norm = (struct sl_wire_norm){s->number, ev->squares[0]};
	if (s->asked == SL_ASKED_COMMIT && is_whole(s))
		begin_commit(s, out);
	if (s->limits.party && s->state != SL_SESSION_EVAL)
		sl_outbox_add(out, SL_ACTION_MOVED);
	return SL_OK; /* INSTALL: nothing waits for its end */
}

static enum sl_err ready_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	return SL_OK; /* INSTALL */
}

static enum sl_err eval_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	enum sl_err err = step_task(s, ev, now_ms, out);

	if (s->done[SL_TASK_MID_FWD] == s->chunks && sl_party_has(s->limits.party, SL_TAIL))
		s->state = SL_SESSION_READY;
	if (s->limits.party)
		sl_outbox_add(out, SL_ACTION_MOVED);
	return err;
}

/* Whether COMMIT may name so many chunks: in a free step those with a gradient, which may not have arrived yet. */
static bool chunks_fit(const struct sl_session *s, uint32_t chunks)
{
	if (!s->limits.free_calls)
		return chunks == (uint32_t)s->chunks;
	return chunks >= 1 && chunks <= (uint32_t)s->chunks && chunks >= (uint32_t)s->backs && !s->norm_of;
}

static enum sl_err on_commit(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_commit *c = &ev->frame->u.commit;
	const bool scales = s->limits.clip_norm > 0 || s->limits.free_calls;

	if (c->step != s->number || !chunks_fit(s, c->chunks))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "commit of step %" PRIu64 " with %u chunks in step %" PRIu64 " with %d", c->step,
				   c->chunks, s->number, s->chunks);
	if (s->asked == SL_ASKED_COMMIT)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " committed twice", c->step);
	s->committed = (int)c->chunks;
	if (s->done[SL_TASK_MID_FWD] != s->chunks || (!may_come_early(s) && !backward_done(s)))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "commit of step %" PRIu64 " after %d of %d chunks",
				   c->step, s->done[s->limits.no_head_grad ? SL_TASK_MID_FWD : SL_TASK_MID_BWD],
				   s->chunks);
	if (c->skip)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " skipped, which was not abandoned",
				   c->step);
	if (scales && (!(c->grad_scale > 0) || (sl_session_sums(s) && c->grad_scale != s->grad_scale)))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "step %" PRIu64 " committed with grad_scale %.17g, which its norm does not give",
				   c->step, c->grad_scale);
	s->lr = c->lr;
	s->grad_scale = c->grad_scale;
	s->keep = c->checkpoint ? SL_KEEP_ASKED : SL_KEEP_NOT;
	memcpy(s->kept, c->kept, sizeof s->kept);
	s->writing = c->writing;
	if (is_whole(s))
		begin_commit(s, out);
	else
		s->asked = SL_ASKED_COMMIT; /* it overtook gradients that have not arrived yet */
	return SL_OK;
}

static void committed(struct sl_session *s, struct sl_outbox *out)
{
	const bool other = s->group_lr >= 0;

	sl_outbox_frame(s, out, SL_FRAME_COMMITTED)->u.committed = (struct sl_committed){
		s->number, s->decided_s,           s->keep == SL_KEEP_DONE, s->decided == SL_DECIDED_MEAN,
		other,     other ? s->group_lr : 0};
	s->next_step = s->number + 1;
	s->state = SL_SESSION_READY;
	sl_outbox_add(out, SL_ACTION_STEPPED);
}

/* The step is done. If heads and tails have a mean, the task MEAN writes it before COMMITTED is sent. */
static enum sl_err on_decided(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->decided_s = ev->compute_s;
	if (ev->checkpointed)
		s->keep = SL_KEEP_DONE;
	s->decided = ev->mean ? SL_DECIDED_MEAN : SL_DECIDED_PLAIN;
	s->group_lr = ev->kind == SL_EV_DECIDED && ev->lr != s->lr ? ev->lr : -1;
	if (ev->mean)
		sl_outbox_task(out, SL_TASK_MEAN, 0);
	else
		committed(s, out);
	return SL_OK;
}

static enum sl_err commit_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->task == SL_TASK_COMMIT)
		return on_decided(s, ev, now_ms, out);
	if (ev->task == SL_TASK_PREPARE)
		sl_outbox_add(out, SL_ACTION_PREPARED);
	if (ev->task == SL_TASK_MEAN) {
		sl_outbox_post(out, SL_PART_END_MEAN, 0);
		committed(s, out);
	}
	return SL_OK; /* INSTALL */
}

/* end_grad of a step that is skipped. */
static enum sl_err on_skip_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_part *p = &ev->frame->u.part;
	bool whole = false;
	enum sl_err err;

	if (p->what != SL_PART_END_GRAD || !(sl_session_skips(s) || s->asked == SL_ASKED_SKIP) || sl_session_told(s) ||
	    !sl_session_skip_tells(s))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "Part frame of kind %u, step %" PRIu64 ", in state %s",
				   p->what, p->step, sl_session_state_name(s->state));
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && whole && s->state == SL_SESSION_COMMIT)
		sl_outbox_task(out, SL_TASK_PREPARE, 0);
	return err;
}

/* A part sent before the step was abandoned; or the end_grad of a round, if the client has skipped the step already. */
static enum sl_err on_abandoned_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				     struct sl_outbox *out)
{
	const bool tells =
		s->asked == SL_ASKED_SKIP && sl_session_skip_tells(s) && ev->frame->u.part.what == SL_PART_END_GRAD;

	return (tells ? on_skip_part : sl_on_stale_part)(s, ev, now_ms, out);
}

static enum sl_err on_fetch(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	gather(s, out);
	return SL_OK;
}

static enum sl_err fetch_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->task != SL_TASK_GATHER)
		return SL_OK; /* INSTALL */
	s->kept_step = ev->checkpointed ? s->next_step : 0;
	sl_outbox_post(out, SL_PART_WEIGHTS, 0);
	s->state = SL_SESSION_READY;
	return SL_OK;
}

static enum sl_err on_bye(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->state = SL_SESSION_CLOSED;
	sl_outbox_add(out, SL_ACTION_LEFT);
	return SL_OK;
}

#define SPEAKING                                                                                                 \
	[SL_EV_REFUSE] = {sl_on_refuse}, [SL_EV_CREDIT] = {sl_on_credit}, [SL_EV_HEARTBEAT] = {sl_on_heartbeat}, \
	[SL_EV_BYE] = {on_bye}
#define ALIVE                                                                                            \
	SPEAKING, [SL_EV_TICK] = {sl_on_tick}, [SL_EV_LATE] = {on_late}, [SL_EV_ASK] = {sl_on_ask_ends}, \
		  [SL_EV_TELL] = {sl_on_tell}, [SL_EV_ENDS] = {sl_on_ends_given}, SL_REPORTS

const struct sl_session_rule sl_server_table[SL_SESSION_STATE_COUNT][SL_EV_COUNT] = {
	[SL_SESSION_NEW] = {[SL_EV_HELLO] = {on_hello}},
	[SL_SESSION_OPENING] = {SPEAKING, [SL_EV_TICK] = {opening_tick}, [SL_EV_TASK_DONE] = {opening_task},
				[SL_EV_JOINED] = {on_joined}, [SL_EV_LATE] = {on_late}},
	[SL_SESSION_WEIGHTS] = {ALIVE, [SL_EV_PART] = {on_weights_part}, [SL_EV_FETCH] = {on_early_fetch},
				[SL_EV_ABANDON] = {on_early_abandon}, [SL_EV_COMMIT] = {on_early_commit}},
	[SL_SESSION_READY] =
		{ALIVE, [SL_EV_PART] = {on_first_part}, [SL_EV_FETCH] = {on_fetch}, [SL_EV_TASK_DONE] = {ready_task},
		 [SL_EV_ABANDON] = {on_first_abandon}, [SL_EV_COMMIT] = {on_pass}},
	[SL_SESSION_STEP] =
		{ALIVE, [SL_EV_PART] = {on_pass_part}, [SL_EV_TASK_DONE] = {step_task}, [SL_EV_COMMIT] = {on_commit},
		 [SL_EV_NONFINITE] = {sl_on_nonfinite}, [SL_EV_CHUNK] = {sl_on_chunk}, [SL_EV_ECHO] = {sl_on_echo},
		 [SL_EV_ABANDON] = {sl_on_abandon}, [SL_EV_NORM] = {sl_on_norm_asked}, [SL_EV_SUM] = {sl_on_sum}},
	[SL_SESSION_COMMIT] = {ALIVE, [SL_EV_PART] = {on_skip_part}, [SL_EV_TASK_DONE] = {commit_task},
			       [SL_EV_NONFINITE] = {sl_on_nonfinite}, [SL_EV_DECIDED] = {on_decided}},
	[SL_SESSION_ABANDON] =
		{ALIVE, [SL_EV_PART] = {on_abandoned_part}, [SL_EV_ABANDON] = {sl_on_abandon_again},
		 [SL_EV_TASK_DONE] = {abandon_task}, [SL_EV_NONFINITE] = {sl_on_task_ignored},
		 [SL_EV_COMMIT] = {on_skip}, [SL_EV_FETCH] = {on_quiet_fetch}, [SL_EV_NORM] = {sl_on_stale_ask}},
	[SL_SESSION_EVAL] = {ALIVE, [SL_EV_PART] = {on_pass_part}, [SL_EV_TASK_DONE] = {eval_task},
			     [SL_EV_CHUNK] = {sl_on_chunk}, [SL_EV_ECHO] = {sl_on_echo}},
	[SL_SESSION_FETCH] = {ALIVE, [SL_EV_TASK_DONE] = {fetch_task}, [SL_EV_GIVE] = {on_give}},
};
