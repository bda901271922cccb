/* Heads and tails that a group averages after every round (share.ends: round): what a member tells of its own two ends,
 * and how they become the mean of all. Between rounds they are trained as without a group. Used by the distributed run
 * and by `--local`. Worker's thread only. */
#ifndef SL_CLIENT_RUN_ENDS_ROUND_H
#define SL_CLIENT_RUN_ENDS_ROUND_H

#include "client/run/ends.h"
#include "common/exec/average.h"
#include "common/session/state.h"

struct sl_ends_round {
	struct sl_ends *ends;               /* borrowed, as is layout; NULL: ends are not averaged */
	const struct sl_end_layout *layout; /* of a round (mean.h) */
	enum sl_conf_share_moments how;
	float *base;                        /* [layout->grads] what learns, as the last mean had it */
	struct sl_exec_state was[2], is[2]; /* of head and tail: room */
};

enum sl_err sl_ends_round_open(struct sl_ends_round *r, struct sl_ends *ends, const struct sl_end_layout *layout,
			       enum sl_conf_share_moments how, struct sl_fail *fail) SL_MUST_CHECK;
void sl_ends_round_close(struct sl_ends_round *r); /* a zeroed one is fine */
/* A round begins with the ends as they are. */
enum sl_err sl_ends_round_begin(struct sl_ends_round *r) SL_MUST_CHECK;
/* Its last step: what the member's ends become with its own part of the step, of which the chunks are done, or as they
 * are. Nothing is changed, but that the gradient has been multiplied by grad_scale (sl_exec_scale). Ends that hold NaN
 * or Inf are told as zeros with NaN behind them: they have no part in the mean. */
enum sl_err sl_ends_round_tell(struct sl_ends_round *r, bool with_step, double lr, double grad_scale,
			       float *change) SL_MUST_CHECK;
/* The ends become the mean, and the next round begins. PAYLOAD: it is none; nothing is changed. */
enum sl_err sl_ends_round_check(const struct sl_ends_round *r, const float *mean, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_ends_round_hear(struct sl_ends_round *r, float *mean) SL_MUST_CHECK;

/* All of head and tail between two steps, as members hand it to one that comes: [layout->floats] of
 * sl_end_layout_state. Frozen weights are not in it. What _set gets was checked (sl_end_check, sl_end_check_moments).
 */
enum sl_err sl_ends_get_state(const struct sl_ends *ends, const struct sl_end_layout *layout, float *to) SL_MUST_CHECK;
enum sl_err sl_ends_set_state(struct sl_ends *ends, const struct sl_end_layout *layout, float *from) SL_MUST_CHECK;

#endif
