/* What crosses in a group beside passes, in any state after Welcome. Where heads and tails are shared: head and tail,
 * which one member hands over and another one, or the store, gets. In any: the record of who took part, and reports of
 * figures. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/session/table.h"

/* ---- the client's */

/* The client comes while others train: it receives the group's head and tail. */
enum sl_err sl_on_ends(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_part *p = &ev->frame->u.part;
	bool whole = false;
	enum sl_err err;

	if (p->step != s->next_step || p->total != s->limits.run_bytes[SL_PART_ENDS])
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "heads and tails of step %" PRIu64 ", %" PRIu64 " bytes, where step %" PRIu64
				   " begins, and %" PRIu64 " bytes are right",
				   p->step, p->total, s->next_step, s->limits.run_bytes[SL_PART_ENDS]);
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && whole) {
		s->state = SL_SESSION_READY;
		sl_outbox_add(out, SL_ACTION_READY);
	}
	return err;
}

/* The group needs this member's head and tail. If COMMITTED has come, the COMMIT task is changing them: GIVE then waits
 * for its end. */
enum sl_err sl_on_ends_asked(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (s->gift != SL_GIFT_NONE)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "Fetch frame in state %s: head and tail were asked for twice",
				   sl_session_state_name(s->state));
	s->gift_bytes = ev->frame->u.fetch.whole ? s->limits.run_bytes[SL_PART_ENDS] : SL_WIRE_ENDS_HASH;
	s->gift = s->state == SL_SESSION_COMMIT && s->decided ? SL_GIFT_BEHIND : SL_GIFT_UNDER_WAY;
	if (s->gift == SL_GIFT_UNDER_WAY)
		sl_outbox_task(out, SL_TASK_GIVE, 0);
	return SL_OK;
}

enum sl_err sl_on_ends_made(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->kind == SL_EV_PART)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "heads and tails in state %s",
				   sl_session_state_name(s->state));
	s->gift = SL_GIFT_NONE;
	sl_outbox_post(out, SL_PART_ENDS, 0);
	return SL_OK;
}

enum { RECORD_MOST = 256 << 10 };

enum sl_err sl_on_record(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_wire_record *r = &ev->frame->u.record;

	s->record_bytes += strlen(r->text);
	if (s->record_bytes > RECORD_MOST)
		return sl_fail_set(&out->fail, SL_ERR_LIMIT, "a record of the group's steps above %d bytes",
				   RECORD_MOST);
	s->record_bytes = r->more ? s->record_bytes : 0;
	sl_outbox_add(out, SL_ACTION_RECORD);
	return SL_OK;
}

/* ---- both sides' */

enum sl_err sl_on_say(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_frame(s, out, SL_FRAME_REPORT)->u.report = *ev->report;
	return SL_OK;
}

enum sl_err sl_on_report(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_add(out, SL_ACTION_REPORT);
	return SL_OK;
}

/* ---- the server's */

enum sl_err sl_on_tell(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	struct sl_wire_record *r = &sl_outbox_frame(s, out, SL_FRAME_RECORD)->u.record;

	snprintf(r->text, sizeof r->text, "%s", ev->text);
	r->more = ev->more;
	return SL_OK;
}

/* The group needs the member's head and tail, or their hash. */
enum sl_err sl_on_ask_ends(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_frame(s, out, SL_FRAME_FETCH)->u.fetch.whole = ev->whole;
	s->gift_bytes = ev->whole ? s->limits.run_bytes[SL_PART_ENDS] : SL_WIRE_ENDS_HASH;
	return SL_OK;
}

enum sl_err sl_on_ends_given(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_part *p = &ev->frame->u.part;
	bool whole = false;
	enum sl_err err;

	if (!s->gift_bytes || p->total != s->gift_bytes)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "head and tail of %" PRIu64 " bytes where %" PRIu64 " were asked for", p->total,
				   s->gift_bytes);
	err = sl_pass_part(s, ev->frame, out, &whole);
	if (!err && whole) {
		s->gift_bytes = 0;
		s->gift_step = p->step;
		sl_outbox_add(out, SL_ACTION_GIVEN);
	}
	return err;
}
