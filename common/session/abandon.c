/* Abandoning a step in which NaN or Inf was found: what both roles do until nothing of it is under way. */
#include <inttypes.h>
#include <stdio.h>

#include "common/session/table.h"

bool sl_session_abandons(const struct sl_session *s)
{
	bool under_way = s->state == SL_SESSION_STEP || (s->state == SL_SESSION_COMMIT && !sl_session_skips(s));

	return under_way || s->state == SL_SESSION_ABANDON;
}

void sl_abandon_begin(struct sl_session *s, struct sl_outbox *out, const char *why, bool tell_peer)
{
	if (why != s->nonfinite)
		snprintf(s->nonfinite, sizeof s->nonfinite, "%.*s", (int)sizeof s->nonfinite - 1, why);
	s->fate = SL_PASS_ABANDONED;
	s->state = SL_SESSION_ABANDON;
	/* first, because nothing of the step may be sent after ABANDON */
	sl_outbox_add(out, SL_ACTION_DROP);
	if (tell_peer) {
		struct sl_abandon *a = &sl_outbox_frame(s, out, SL_FRAME_ABANDON)->u.abandon;

		a->step = s->number;
		a->late = s->late;
		snprintf(a->text, sizeof a->text, "%s", s->nonfinite);
	}
	sl_outbox_task(out, SL_TASK_ABANDON, 0);
	if (s->role == SL_SESSION_SERVER && s->limits.party) /* the others abandon it, too */
		sl_outbox_add(out, SL_ACTION_MOVED);
}

enum sl_err sl_abandon_check(const struct sl_session *s, const struct sl_frame *frame, uint64_t step,
			     struct sl_outbox *out)
{
	if (frame->u.abandon.step == step)
		return SL_OK;
	return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " abandoned in state %s of step %" PRIu64,
			   frame->u.abandon.step, sl_session_state_name(s->state), step);
}

enum sl_err sl_on_nonfinite(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_abandon_begin(s, out, ev->why->text, true);
	return SL_OK;
}

enum sl_err sl_on_abandon(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	enum sl_err err = sl_abandon_check(s, ev->frame, s->number, out);

	s->late = !err && s->role == SL_SESSION_CLIENT && ev->frame->u.abandon.late;
	if (!err)
		sl_abandon_begin(s, out, ev->frame->u.abandon.text, false);
	return err;
}

/* Both sides abandoned the step, and their frames crossed. */
enum sl_err sl_on_abandon_again(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (s->fate == SL_PASS_GOES_ON)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "Abandon frame where no step is under way");
	/* a task may be decoding the end_grad that came with COMMIT: nothing may overwrite its buffer */
	if (s->committed)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "step %" PRIu64 " abandoned after its COMMIT",
				   s->number);
	if (s->role == SL_SESSION_SERVER)
		s->late = false; /* the client abandoned the step before it heard that it was late */
	return sl_abandon_check(s, ev->frame, s->number, out);
}

enum sl_err sl_on_stale_part(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	return sl_pass_drop(s, ev->frame, out);
}

enum sl_err sl_on_task_ignored(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	return SL_OK;
}
