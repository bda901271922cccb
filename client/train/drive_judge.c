/* What follows from the loss of a link: whether the run tries another, and with which error it ends if not. Pure. */
#include "client/train/drive_parts.h"

static bool all(const struct sl_loss *l, unsigned bits)
{
	return (l->is & bits) == bits;
}

static bool any(const struct sl_loss *l, unsigned bits)
{
	return l->is & bits;
}

/* A group that goes back to an earlier step ends all its links, though no server is lost; nor is one that stalls. */
static bool comes_back(const struct sl_loss *l)
{
	return any(l, LOSS_MEMBER) && (l->code == SL_ERR_BUSY || any(l, LOSS_STALLED));
}

struct sl_verdict sl_drive_judge(const struct sl_loss *l)
{
	const bool may_wait = any(l, LOSS_WAITS | LOSS_RESTARTED) || comes_back(l);
	/* the server had room for this run before, so its operator has changed a limit, and may change it again */
	const bool limit = l->code == SL_ERR_LIMIT && all(l, LOSS_KNOWN | LOSS_AT_DOOR);
	struct sl_verdict v = {.code = l->code};

	v.wait = may_wait && !any(l, LOSS_MAY_BE_LAST | LOSS_ENDS | LOSS_GAVE_UP) && (limit || any(l, LOSS_AGAIN));
	if (limit)
		v.code = SL_ERR_BUSY;
	/* a run that is being stopped does not try again, but --resume can */
	if (any(l, LOSS_ENDS) && may_wait && sl_retry_is_broken(l->code))
		v.code = SL_ERR_UNAVAILABLE;
	/* without `wait`, the second link was an attempt: the run ends as it would have without it */
	if (any(l, LOSS_RETRIED) && !any(l, LOSS_WAITS | LOSS_MEMBER) && l->code == SL_ERR_MISMATCH)
		v.code = SL_ERR_PEER_LOST;
	if (l->code == SL_ERR_NONFINITE && !any(l, LOSS_TRAINS))
		v.explain = SL_EXPLAIN_EVALUATION;
	if (any(l, LOSS_MAY_BE_LAST)) {
		v.code = SL_ERR_MISMATCH;
		v.explain = SL_EXPLAIN_LAST;
	}
	return v;
}
