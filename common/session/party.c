/* A server's session in a vertical group: what the group tells it of the other party. */
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
