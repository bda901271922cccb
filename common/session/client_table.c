#include <inttypes.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/exec/clip.h"
#include "common/session/table.h"

static enum sl_err say_hello(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_frame(s, out, SL_FRAME_HELLO)->u.hello = s->hello;
	s->state = SL_SESSION_HELLO;
	return SL_OK;
}

/* The server challenges a Hello that has a proof only if its epoch is too low: the client's clock went back, and it
 * lost the file link-epoch. A process that already had a link must not raise its epoch: another process has gone on
 * with the run. */
static enum sl_err raise_epoch(struct sl_session *s, uint64_t above, struct sl_fail *fail)
{
	if (above < s->epoch)
		return SL_OK;
	if (!s->first)
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "another process has gone on with this run since: let only one of them run");
	if (above >= SL_SESSION_EPOCH_MOST)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "epoch %" PRIu64 " of this session is none", above);
	s->epoch = s->hello.epoch = above + 1;
	return SL_OK;
}

static enum sl_err on_challenge(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_challenge *c = &ev->frame->u.challenge;
	struct sl_frame *hello;
	enum sl_err err;

	if (s->challenges && memcmp(c->nonce, s->nonce, sizeof s->nonce) == 0)
		return SL_OK; /* the server got one Hello twice, and answered both */
	if (!s->secret || s->challenges == SL_SESSION_CHALLENGES)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "challenged %d times", s->challenges + 1);
	err = raise_epoch(s, c->above, &out->fail);
	if (err)
		return err;
	s->challenges++;
	memcpy(s->nonce, c->nonce, sizeof s->nonce);
	err = sl_proof_make(&s->hello, s->secret, s->nonce);
	if (err)
		return sl_fail_set(&out->fail, err, "the Hello could not be proven");
	s->said_ms = now_ms;
	hello = sl_outbox_frame(s, out, SL_FRAME_HELLO);
	hello->u.hello = s->hello;
	hello->payload = s->text;
	return SL_OK;
}

static enum sl_err plans_differ(const struct sl_session *s, const struct sl_welcome *w, struct sl_fail *fail)
{
	char ours[SL_HEX16_TEXT], theirs[SL_HEX16_TEXT];

	return sl_fail_set(fail, SL_ERR_MISMATCH, "plan hash: the server has %s, this client has %s",
			   sl_hex16(w->plan_hash, theirs), sl_hex16(s->hello.plan_hash, ours));
}

static enum sl_err on_welcome(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_welcome *w = &ev->frame->u.welcome;

	if (w->version != SL_WIRE_VERSION)
		return sl_wire_other_version(w->version, false, &out->fail);
	if (memcmp(w->plan_hash, s->hello.plan_hash, sizeof w->plan_hash) != 0)
		return plans_differ(s, w, &out->fail);
	if (w->part_bytes < SL_SESSION_PART_MIN || w->part_bytes > s->hello.part_bytes ||
	    w->window_bytes < w->part_bytes)
		return sl_fail_set(&out->fail, SL_ERR_LIMIT,
				   "part_bytes must be %d to %u and the window no less, the server has %u and %" PRIu64,
				   SL_SESSION_PART_MIN, s->hello.part_bytes, w->part_bytes, w->window_bytes);
	if (!sl_hello_holds(&s->hello, w->next_step) && !(w->ends && !w->next_step)) /* with these it needs no state */
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "the server goes on from step %" PRIu64 ", which this client does not hold",
				   w->next_step);
	if (w->ends && w->need_weights)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "the server has heads and tails, and lacks weights");
	if (w->made == SL_MADE_UNKNOWN && !s->limits.shared)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "the server does not know which link made the state of step %" PRIu64, w->next_step);
	if (w->begin < w->next_step || (w->begin > w->next_step && !s->limits.shared))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "the server begins with step %" PRIu64 ", and goes on from step %" PRIu64, w->begin,
				   w->next_step);
	s->hello.part_bytes = w->part_bytes;
	memcpy(s->there, w->device, sizeof s->there);
	s->peer_window_bytes = w->window_bytes;
	s->held_step = s->kept_step = w->next_step; /* the server has read this state from its disk */
	s->next_step = w->begin;
	s->made = w->made;
	s->branch = w->branch;
	s->common = w->common;
	if (w->ends) {
		s->state = SL_SESSION_WEIGHTS;
		return SL_OK;
	}
	s->state = s->limits.run_bytes[SL_PART_LETTER] ? SL_SESSION_ALIGN : SL_SESSION_READY;
	if (w->need_weights)
		sl_outbox_post(out, SL_PART_WEIGHTS, 0);
	sl_outbox_add(out, SL_ACTION_READY);
	return SL_OK;
}

static void commit_skip(struct sl_session *s, struct sl_outbox *out)
{
	sl_outbox_frame(s, out, SL_FRAME_COMMIT)->u.commit = (struct sl_commit){.step = s->number,
										.chunks = (uint32_t)s->chunks,
										.lr = s->lr,
										.checkpoint = s->keep == SL_KEEP_ASKED,
										.skip = true,
										.kept = {s->kept[0], s->kept[1]},
										.writing = s->writing};
	if (!sl_session_skips(s))
		s->commit = SL_COMMIT_SKIPS;
	s->state = SL_SESSION_COMMIT;
	if (sl_session_skip_tells(s))
		sl_outbox_task(out, SL_TASK_TELL, 0);
}

static uint64_t chunk_tokens(const struct sl_session *s, const uint32_t *begin, int chunk)
{
	const uint64_t first = (uint64_t)chunk * s->limits.rows;

	return begin ? begin[first + sl_session_chunk_rows(s, chunk)] - begin[first] : 0;
}

static enum sl_err begin_pass(struct sl_session *s, const struct sl_event *ev, struct sl_outbox *out, bool training)
{
	if (training && s->limits.free_calls) {
		sl_pass_begin(s, true, ev->number, 0);
		return sl_free_call(s, ev, out);
	}
	if (ev->batch_rows < 1 || ev->batch_rows > s->limits.batch)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "a batch of %" PRIu64 " rows, planned for %" PRIu64,
				   ev->batch_rows, s->limits.batch);
	sl_pass_begin(s, training, ev->number, ev->batch_rows);
	s->mean_factor = training && ev->grad_scale > 0 ? ev->grad_scale : 1;
	s->answers = training && s->limits.token_loss && ev->chosen ? ev->chosen[ev->batch_rows] : 0;
	if (s->limits.party)
		sl_outbox_post(out, SL_PART_ORDER, 0);
	for (int chunk = 0; chunk < s->chunks; chunk++) {
		const uint64_t tokens = chunk_tokens(s, ev->begin, chunk);

		if (!sl_session_tokens_fit(s, chunk, tokens))
			return sl_fail_set(&out->fail, SL_ERR_BUG,
					   "chunk %d has %" PRIu64 " tokens, planned for %" PRIu64, chunk, tokens,
					   s->limits.chunk_tokens);
		s->tokens[chunk] = (uint32_t)tokens;
		if (sl_party_has(s->limits.party, SL_HEAD))
			sl_outbox_task(out, SL_TASK_HEAD_FWD, chunk);
	}
	return SL_OK;
}

static enum sl_err begin_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->number != s->next_step)
		return sl_fail_set(&out->fail, SL_ERR_MISMATCH,
				   "step %" PRIu64 " begun where the server expects %" PRIu64, ev->number,
				   s->next_step);
	s->lr = ev->lr;
	s->keep = ev->checkpoint ? SL_KEEP_ASKED : SL_KEEP_NOT;
	s->state = SL_SESSION_STEP;
	return begin_pass(s, ev, out, true);
}

/* The step has no batch of this member: COMMIT says so at once. */
static enum sl_err pass(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->number != s->next_step)
		return sl_fail_set(&out->fail, SL_ERR_MISMATCH,
				   "step %" PRIu64 " passed where the server expects %" PRIu64, ev->number,
				   s->next_step);
	sl_pass_begin(s, true, ev->number, 0);
	s->commit = SL_COMMIT_PASSES;
	s->lr = ev->lr;
	s->keep = ev->checkpoint ? SL_KEEP_ASKED : SL_KEEP_NOT;
	commit_skip(s, out);
	return SL_OK;
}

static enum sl_err begin_eval(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->state = SL_SESSION_EVAL;
	return begin_pass(s, ev, out, false);
}

static enum sl_err begin_fetch(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	memset(s->lane, 0, sizeof s->lane);
	sl_outbox_frame(s, out, SL_FRAME_FETCH);
	s->state = SL_SESSION_FETCH;
	return SL_OK;
}

/* Fetches the weights before the abandoned step. */
static enum sl_err begin_quiet_fetch(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				     struct sl_outbox *out)
{
	if (s->fate != SL_PASS_QUIET)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "weights fetched while step %" PRIu64 " is under way",
				   s->number);
	return begin_fetch(s, ev, now_ms, out);
}

/* The task that encodes mid_grad. */
static enum sl_task grad_task(const struct sl_session *s)
{
	return s->limits.free_calls ? SL_TASK_GRAD : SL_TASK_TAIL;
}

static bool can_have_grad(const struct sl_session *s, uint32_t chunk)
{
	if (!sl_party_has(s->limits.party, SL_TAIL))
		return s->training && chunk < (uint32_t)s->done[SL_TASK_HEAD_FWD];
	if (s->limits.free_calls)
		return s->training && chunk < (uint32_t)s->chunks && s->back[chunk] >= SL_BACK_ENCODED;
	return s->training && chunk < (uint32_t)s->done[SL_TASK_TAIL];
}

static void commit_when_known(struct sl_session *s, struct sl_outbox *out);

/* In a vertical group a party with features gets its ORDER back, where no gradient ends its pass. */
static bool awaits_echo(const struct sl_session *s)
{
	return s->limits.party == SL_PARTY_FEATURES && (!s->training || s->limits.no_head_grad);
}

static enum sl_err on_echo(struct sl_session *s, const struct sl_frame *frame, struct sl_outbox *out)
{
	bool whole = false;
	enum sl_err err;

	if (!awaits_echo(s) || s->done[SL_TASK_HEAD_FWD] != s->chunks)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "order of step %" PRIu64 " came back before its end",
				   s->number);
	err = sl_pass_part(s, frame, out, &whole);
	if (err)
		return err;
	if (s->training) {
		commit_when_known(s, out);
		return SL_OK;
	}
	sl_outbox_add(out, SL_ACTION_EVALUATED);
	s->state = SL_SESSION_READY;
	return SL_OK;
}

/* mid_act and head_grad: a complete run starts a task. A chunk's head_grad can only follow its mid_grad. */
static enum sl_err on_pass_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_part *p = &ev->frame->u.part;
	bool grad = p->what == SL_PART_HEAD_GRAD, whole = false;
	enum sl_err err;

	if (p->what == SL_PART_ORDER)
		return on_echo(s, ev->frame, out);
	if (p->what == SL_PART_END_MEAN)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "a mean of step %" PRIu64 " before it can exist",
				   s->number);
	if (p->what == SL_PART_WEIGHTS || (grad && !can_have_grad(s, p->chunk)) ||
	    (!grad && sl_party_has(s->limits.party, SL_HEAD) && p->chunk >= (uint32_t)s->done[SL_TASK_HEAD_FWD]))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "%s of chunk %u before it can exist",
				   grad ? "head_grad" : "mid_act", p->chunk);
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && whole)
		sl_outbox_task(out, grad ? SL_TASK_HEAD_BWD : SL_TASK_TAIL, (int)p->chunk);
	return err;
}

static enum sl_err on_fetch_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				 struct sl_outbox *out)
{
	bool whole = false;
	enum sl_err err;

	if (ev->frame->u.part.what != SL_PART_WEIGHTS && s->fate != SL_PASS_GOES_ON)
		return sl_pass_drop(s, ev->frame, out);
	if (ev->frame->u.part.what != SL_PART_WEIGHTS)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "part of kind %u while weights are fetched",
				   ev->frame->u.part.what);
	if (ev->frame->u.part.step != 0 && ev->frame->u.part.step != s->next_step)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "weights of step %" PRIu64 " where both sides stand at %" PRIu64,
				   ev->frame->u.part.step, s->next_step);
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && whole) {
		s->kept_step = ev->frame->u.part.step;
		sl_outbox_add(out, SL_ACTION_FETCHED);
		s->state = SL_SESSION_READY;
	}
	return err;
}

/* The last task of a chunk. */
static enum sl_task last_task(const struct sl_session *s)
{
	return s->limits.no_head_grad || !sl_party_has(s->limits.party, SL_HEAD) ? grad_task(s) : SL_TASK_HEAD_BWD;
}

/* How many last tasks a pass has. */
static int last_tasks(const struct sl_session *s)
{
	return s->limits.free_calls ? s->backs : s->chunks;
}

static void commit_when_known(struct sl_session *s, struct sl_outbox *out)
{
	const bool over = awaits_echo(s) || s->done[last_task(s)] == last_tasks(s);

	sl_assert_if(awaits_echo(s), s->lane[SL_PART_ORDER].chunk > 0);
	if (over && sl_session_sums(s) && !s->norm_of) {
		s->norm_of = -1;
		sl_outbox_frame(s, out, SL_FRAME_NORM)->u.norm =
			(struct sl_wire_norm){s->number, s->squares[0] + s->squares[2]};
		s->squares[0] = s->squares[2] = 0;
	}
	if (!over || s->squares[1] < 0 || s->grad_scale < 0)
		return;
	if (s->limits.clip_norm > 0)
		s->grad_scale = s->mean_factor * sl_clip_factor(s->limits.clip_norm, s->squares);
	else if (s->mean_factor != 1)
		s->grad_scale = s->mean_factor;
	if (sl_session_ends_cross(s) && !sl_session_told(s)) {
		sl_outbox_task(out, SL_TASK_TELL, 0);
		return;
	}
	sl_outbox_frame(s, out, SL_FRAME_COMMIT)->u.commit = (struct sl_commit){.step = s->number,
										.chunks = (uint32_t)last_tasks(s),
										.lr = s->lr,
										.checkpoint = s->keep == SL_KEEP_ASKED,
										.kept = {s->kept[0], s->kept[1]},
										.writing = s->writing,
										.grad_scale = s->grad_scale};
	s->state = SL_SESSION_COMMIT;
}

static enum sl_err step_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->done[ev->task]++;
	if (ev->task == SL_TASK_TELL) {
		sl_outbox_post(out, SL_PART_END_GRAD, 0);
		commit_when_known(s, out);
		return SL_OK;
	}
	if (ev->task == SL_TASK_GRAD)
		s->back[ev->chunk] = SL_BACK_ENCODED;
	if (ev->task == SL_TASK_HEAD_FWD)
		sl_outbox_post(out, SL_PART_HEAD_ACT, ev->chunk);
	else if (ev->task == grad_task(s) && !s->limits.no_mid_grad)
		sl_outbox_post(out, SL_PART_MID_GRAD, ev->chunk);
	if (ev->task == last_task(s) && s->done[ev->task] == last_tasks(s)) {
		s->squares[0] = ev->squares[0];
		s->squares[2] = ev->squares[1];
		s->own_squares = s->squares[0] + s->squares[2];
		commit_when_known(s, out);
	}
	return SL_OK;
}

static enum sl_err on_apply(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (!s->limits.free_calls || !s->backs || s->grad_scale >= 0 || s->done[SL_TASK_TAIL] != s->chunks)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "step %" PRIu64 " applied twice, or before its end",
				   s->number);
	s->lr = ev->lr;
	s->grad_scale = ev->grad_scale;
	s->keep = ev->checkpoint ? SL_KEEP_ASKED : SL_KEEP_NOT;
	commit_when_known(s, out);
	return SL_OK;
}

/* The middle's part of the gradient's norm, or in a vertical group that of all parties. The server sends it after its
 * last backward, which needed everything that this side sends. */
static enum sl_err on_norm(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_wire_norm *n = &ev->frame->u.norm;

	if (!(s->squares[1] < 0) || n->step != s->number ||
	    (sl_session_sums(s) ? !s->norm_of : s->done[grad_task(s)] != last_tasks(s)))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "Norm frame of step %" PRIu64 " with %g, in step %" PRIu64, n->step, n->squares,
				   s->number);
	if (sl_session_sums(s) && n->squares < s->own_squares)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "step %" PRIu64 ": the squares of all members' gradients sum to %g, where this "
				   "member's alone are %g",
				   n->step, n->squares, s->own_squares);
	s->squares[1] = n->squares * s->mean_factor * s->mean_factor;
	commit_when_known(s, out);
	if (s->limits.free_calls)
		sl_outbox_add(out, SL_ACTION_NORMED);
	return SL_OK;
}

/* The frame was on its way when the step was abandoned. */
static enum sl_err on_stale_norm(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				 struct sl_outbox *out)
{
	if (s->fate != SL_PASS_GOES_ON && ev->frame->u.norm.step == s->number)
		return SL_OK;
	return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "Norm frame of step %" PRIu64 " in state %s",
			   ev->frame->u.norm.step, sl_session_state_name(s->state));
}

static enum sl_err eval_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->done[ev->task]++;
	if (ev->task == SL_TASK_HEAD_FWD)
		sl_outbox_post(out, SL_PART_HEAD_ACT, ev->chunk);
	else if (s->done[SL_TASK_TAIL] == s->chunks) {
		sl_outbox_add(out, SL_ACTION_EVALUATED);
		s->state = SL_SESSION_READY;
	}
	return SL_OK;
}

static void commit_when_heard(struct sl_session *s, struct sl_outbox *out)
{
	if (sl_session_heard(s))
		sl_outbox_task(out, SL_TASK_COMMIT, 0);
}

/* Whether COMMITTED is right to say that there is a mean, or none. A member that took part in a step gets one, except
 * at the end of a round in which nobody trained. Steps in which ends do not cross have none. */
static bool mean_fits(const struct sl_session *s)
{
	if (!sl_session_ends_cross(s))
		return s->decided != SL_DECIDED_MEAN;
	if (s->decided == SL_DECIDED_MEAN)
		return true;
	return (sl_session_skips(s) || s->limits.ends_round) && !s->lane[SL_PART_END_MEAN].received &&
	       !s->lane[SL_PART_END_MEAN].chunk;
}

static enum sl_err on_committed(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->frame->u.committed.step != s->number)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " committed, %" PRIu64 " was asked for",
				   ev->frame->u.committed.step, s->number);
	if (s->decided)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " committed twice", s->number);
	s->decided = ev->frame->u.committed.mean ? SL_DECIDED_MEAN : SL_DECIDED_PLAIN;
	if (ev->frame->u.committed.checkpointed) {
		s->keep = SL_KEEP_DONE;
		s->kept_step = s->number + 1;
	}
	s->server_compute_s = ev->frame->u.committed.compute_s;
	if (ev->frame->u.committed.other_lr)
		s->lr = ev->frame->u.committed.lr;
	if (!mean_fits(s))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " was committed with%s a mean",
				   s->number, s->decided == SL_DECIDED_MEAN ? "" : "out");
	commit_when_heard(s, out);
	return SL_OK;
}

/* end_mean, which may come before or after COMMITTED; or a part that was on its way when the step was abandoned. */
static enum sl_err on_commit_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				  struct sl_outbox *out)
{
	bool whole = false;
	enum sl_err err;

	if (ev->frame->u.part.what != SL_PART_END_MEAN)
		return sl_on_stale_part(s, ev, now_ms, out);
	if (!sl_session_ends_cross(s) || s->decided == SL_DECIDED_PLAIN)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "a mean of step %" PRIu64 ", which has none",
				   s->number);
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && whole)
		commit_when_heard(s, out);
	return err;
}

static enum sl_err commit_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->task == SL_TASK_TELL) { /* end_grad of a step that is skipped */
		sl_outbox_post(out, SL_PART_END_GRAD, 0);
		return SL_OK;
	}
	s->next_step = s->number + 1;
	s->fate = SL_PASS_GOES_ON;
	s->state = SL_SESSION_READY;
	if (s->gift == SL_GIFT_BEHIND) {
		s->gift = SL_GIFT_UNDER_WAY;
		sl_outbox_task(out, SL_TASK_GIVE, 0);
	}
	sl_outbox_add(out, SL_ACTION_STEPPED);
	return SL_OK;
}

/* Nothing of the pass is under way here: the driver now decides what becomes of the step. */
static enum sl_err abandon_task(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->task != SL_TASK_ABANDON)
		return SL_OK;
	s->fate = SL_PASS_QUIET;
	sl_fail_set(&out->fail, SL_ERR_NONFINITE, "%s", s->nonfinite);
	sl_outbox_add(out, SL_ACTION_ABANDONED);
	return SL_OK;
}

static enum sl_err skip(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (s->fate != SL_PASS_QUIET)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "step %" PRIu64 " skipped while it is under way", s->number);
	commit_skip(s, out);
	return SL_OK;
}

/* ABANDON in place of COMMITTED; or it crossed the client's own. */
static enum sl_err on_late_abandon(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				   struct sl_outbox *out)
{
	if (s->decided)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " abandoned after it was committed",
				   s->number);
	return (s->fate != SL_PASS_GOES_ON ? sl_on_abandon_again : sl_on_abandon)(s, ev, now_ms, out);
}

/* A letter is one part, and all have one size. */
static enum sl_err on_letter(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_part *p = &ev->frame->u.part;

	if (p->what != SL_PART_LETTER || p->total != s->hello.part_bytes || ev->frame->payload.len != p->total)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "part of kind %u, %zu of %" PRIu64 " bytes, where letters have %u", p->what,
				   ev->frame->payload.len, p->total, s->hello.part_bytes);
	sl_outbox_add(out, SL_ACTION_STORE)->what = SL_PART_LETTER;
	return SL_OK;
}

static enum sl_err leave(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_frame(s, out, SL_FRAME_BYE);
	s->state = SL_SESSION_CLOSED;
	return SL_OK;
}

#define HEARING                                                                                                  \
	[SL_EV_REFUSE] = {sl_on_refuse}, [SL_EV_CREDIT] = {sl_on_credit}, [SL_EV_HEARTBEAT] = {sl_on_heartbeat}, \
	[SL_EV_TICK] = {sl_on_tick}, [SL_EV_LEAVE] = {leave}
#define ALIVE                                                                          \
	HEARING, [SL_EV_FETCH] = {sl_on_ends_asked}, [SL_EV_ENDS] = {sl_on_ends_made}, \
		 [SL_EV_RECORD] = {sl_on_record}, SL_REPORTS

const struct sl_session_rule sl_client_table[SL_SESSION_STATE_COUNT][SL_EV_COUNT] = {
	[SL_SESSION_NEW] = {[SL_EV_OPEN] = {say_hello}},
	[SL_SESSION_HELLO] = {HEARING, [SL_EV_OPEN] = {say_hello}, [SL_EV_WELCOME] = {on_welcome},
			      [SL_EV_CHALLENGE] = {on_challenge}},
	[SL_SESSION_WEIGHTS] = {HEARING, [SL_EV_ENDS] = {sl_on_ends}, [SL_EV_RECORD] = {sl_on_record}},
	[SL_SESSION_READY] = {ALIVE, [SL_EV_BEGIN_STEP] = {begin_step}, [SL_EV_BEGIN_EVAL] = {begin_eval},
			      [SL_EV_BEGIN_FETCH] = {begin_fetch}, [SL_EV_PASS] = {pass}},
	[SL_SESSION_STEP] = {ALIVE, [SL_EV_PART] = {on_pass_part}, [SL_EV_TASK_DONE] = {step_task},
			     [SL_EV_NONFINITE] = {sl_on_nonfinite}, [SL_EV_ABANDON] = {sl_on_abandon},
			     [SL_EV_NORM] = {on_norm}, [SL_EV_GRADS] = {sl_on_grads}, [SL_EV_APPLY] = {on_apply},
			     [SL_EV_MORE] = {sl_on_more}, [SL_EV_ASK_NORM] = {sl_on_ask_norm}},
	[SL_SESSION_COMMIT] = {ALIVE, [SL_EV_NORM] = {on_stale_norm}, [SL_EV_COMMITTED] = {on_committed},
			       [SL_EV_TASK_DONE] = {commit_task}, [SL_EV_PART] = {on_commit_part},
			       [SL_EV_ABANDON] = {on_late_abandon}},
	[SL_SESSION_ABANDON] = {ALIVE, [SL_EV_NORM] = {on_stale_norm}, [SL_EV_PART] = {sl_on_stale_part},
				[SL_EV_ABANDON] = {sl_on_abandon_again}, [SL_EV_TASK_DONE] = {abandon_task},
				[SL_EV_NONFINITE] = {sl_on_task_ignored}, [SL_EV_SKIP] = {skip},
				[SL_EV_BEGIN_FETCH] = {begin_quiet_fetch}},
	[SL_SESSION_EVAL] = {ALIVE, [SL_EV_PART] = {on_pass_part}, [SL_EV_TASK_DONE] = {eval_task}},
	[SL_SESSION_FETCH] = {ALIVE, [SL_EV_NORM] = {on_stale_norm}, [SL_EV_PART] = {on_fetch_part},
			      [SL_EV_ABANDON] = {sl_on_abandon_again}},
	[SL_SESSION_ALIGN] = {HEARING, [SL_EV_PART] = {on_letter}},
};
