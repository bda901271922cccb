/* An event of a session: which rule of the tables takes it, and what ends the session. */
#include <inttypes.h>

#include "common/session/table.h"

static void end(struct sl_session *s, struct sl_outbox *out, bool tell_peer)
{
	struct sl_fail why = out->fail;

	out->n_action = 0;
	out->n_frame = 0;
	if (tell_peer) {
		struct sl_frame *f = sl_outbox_frame(s, out, SL_FRAME_REFUSE);

		sl_refuse_fill(&f->u.refuse, &why);
	}
	sl_outbox_add(out, SL_ACTION_FAIL);
	s->ended_in = s->state;
	s->state = SL_SESSION_CLOSED;
}

void sl_session_fail(struct sl_session *s, const struct sl_fail *why, uint64_t now_ms, struct sl_outbox *out)
{
	out->n_action = out->n_frame = 0;
	if (s->state == SL_SESSION_CLOSED)
		return;
	out->fail = *why;
	end(s, out, true);
}

static enum sl_err misplaced(struct sl_session *s, const struct sl_event *ev, struct sl_outbox *out)
{
	if (ev->kind >= SL_EV_TASK_DONE)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "event %d in state %s", ev->kind,
				   sl_session_state_name(s->state));
	return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "%s frame in state %s",
			   sl_frame_kind_name((enum sl_frame_kind)ev->kind), sl_session_state_name(s->state));
}

/* Whether a frame is work. Heartbeats and credit are not. A part is if it ends its run, or adds up to a full part with
 * those before it. Otherwise a peer that sends single bytes would look busy and hold a client for ever. */
static bool is_work(struct sl_session *s, const struct sl_event *ev)
{
	const uint64_t len = ev->frame->payload.len;

	if (ev->kind != SL_EV_PART)
		return ev->kind != SL_EV_HEARTBEAT && ev->kind != SL_EV_CREDIT;
	s->counts.crumbs += len;
	if (ev->frame->u.part.offset + len != ev->frame->u.part.total && s->counts.crumbs < s->hello.part_bytes)
		return false;
	s->counts.crumbs = 0;
	return true;
}

static enum sl_event_kind rule_of(const struct sl_event *ev)
{
	const bool part = ev->kind == SL_EV_PART && ev->frame->u.part.what == SL_PART_ENDS;

	return part || (ev->kind == SL_EV_TASK_DONE && ev->task == SL_TASK_GIVE) ? SL_EV_ENDS : ev->kind;
}

enum sl_err sl_session_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_session_rule *rule;
	bool framed = ev->kind < SL_EV_TASK_DONE;
	/* Hello sets the epoch. A REFUSE of epoch 0 belongs to the connection: its sender knows no session there. */
	bool of_epoch = framed && ev->kind != SL_EV_HELLO && !(ev->kind == SL_EV_REFUSE && ev->frame->epoch == 0);
	const struct sl_session_mark before = {s->state, s->epoch, s->next_step};
	enum sl_err err;

	out->n_action = out->n_frame = 0;
	if (s->state == SL_SESSION_CLOSED) {
		s->counts.stale_frames += framed;
		return SL_OK;
	}
	if (framed) {
		s->counts.frames++;
		if (of_epoch && ev->frame->epoch < s->epoch) {
			s->counts.stale_frames++;
			return SL_OK;
		}
		s->heard_ms = now_ms;
		s->counts.worked += is_work(s, ev);
	}
	rule = s->role == SL_SESSION_CLIENT ? &sl_client_table[s->state][rule_of(ev)]
					    : &sl_server_table[s->state][rule_of(ev)];
	if (of_epoch && ev->frame->epoch > s->epoch)
		err = sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "frame of epoch %" PRIu64 " in epoch %" PRIu64,
				  ev->frame->epoch, s->epoch);
	else if (!rule->fn)
		err = misplaced(s, ev, out);
	else
		err = framed ? sl_fields_check(s, ev->frame, &out->fail) : SL_OK;
	if (!err)
		err = rule->fn(s, ev, now_ms, out);
	s->counts.refused_frames += err && framed && rule->fn != sl_on_refuse;
	if (err)
		end(s, out, ev->kind != SL_EV_REFUSE);
	sl_session_check(s);
	sl_session_check_change(s, &before);
	sl_outbox_check(s, out);
	return err;
}
