/* A server's session in a vertical group: what the group tells it of the other parties. */
#include <inttypes.h>

#include "common/exec/clip.h"
#include "common/session/table.h"

/* What the other parties have done lets this one's chunk go on. */
enum sl_err sl_on_chunk(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_task(out, s->limits.party == SL_PARTY_FEATURES ? SL_TASK_MID_BWD : SL_TASK_MID_FWD, ev->chunk);
	return SL_OK;
}

enum sl_err sl_on_echo(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	sl_outbox_post(out, SL_PART_ORDER, 0);
	if (!s->training)
		s->state = SL_SESSION_READY;
	return SL_OK;
}

/* The squares of the party's own gradient. */
enum sl_err sl_on_squares(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_wire_norm *n = &ev->frame->u.norm;

	if (n->step != s->number || s->norm_of || !s->training || s->done[SL_TASK_MID_FWD] != s->chunks)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "Norm frame of step %" PRIu64 " in step %" PRIu64 ", too early or twice", n->step,
				   s->number);
	s->norm_of = -1;
	s->squares[0] = n->squares;
	sl_outbox_add(out, SL_ACTION_MOVED);
	return SL_OK;
}

/* The group has the squares of all: says them, and expects a COMMIT with the factor that follows. */
enum sl_err sl_on_sum(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	s->squares[1] = ev->squares[0];
	s->grad_scale = sl_clip_factor(s->limits.clip_norm, (double[3]){0, s->squares[1], 0});
	sl_outbox_frame(s, out, SL_FRAME_NORM)->u.norm = (struct sl_wire_norm){s->number, s->squares[1]};
	return SL_OK;
}
