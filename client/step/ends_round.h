/* Heads and tails that a group averages after every round (share.ends: round). A member sends how its two ends changed
 * in the round, and replaces them with the mean of all members. Within a round they are trained as without a group.
 * Used by the distributed run and by `--local`. Worker's thread only. */
#ifndef SL_CLIENT_STEP_ENDS_ROUND_H
#define SL_CLIENT_STEP_ENDS_ROUND_H

#include "client/step/ends.h"
#include "common/exec/average.h"
#include "common/session/state.h"

struct sl_ends_round {
	struct sl_ends *ends;               /* borrowed, as is layout; NULL: ends are not averaged */
	const struct sl_end_layout *layout; /* of a round (mean.h) */
	enum sl_conf_share_moments how;
	float *base;                        /* [layout->grads] trainable weights as of the last mean */
	struct sl_exec_state was[2], is[2]; /* scratch, each for head and tail */
};

enum sl_err sl_ends_round_open(struct sl_ends_round *r, struct sl_ends *ends, const struct sl_end_layout *layout,
			       enum sl_conf_share_moments how, struct sl_fail *fail) SL_MUST_CHECK;
void sl_ends_round_close(struct sl_ends_round *r); /* a zeroed one is fine */
/* Begins a round with the ends as they are now. */
enum sl_err sl_ends_round_begin(struct sl_ends_round *r) SL_MUST_CHECK;
/* Fills `change` at the round's last step. with_step: it includes this member's part of that step, whose chunks are
 * done. The ends do not change, but the gradient has been multiplied by grad_scale (sl_exec_scale). Ends that hold NaN
 * or Inf are sent as zeros, followed by NaN: the mean leaves them out. */
enum sl_err sl_ends_round_tell(struct sl_ends_round *r, bool with_step, double lr, double grad_scale,
			       float *change) SL_MUST_CHECK;
/* _check changes nothing; PAYLOAD: `mean` is malformed. _hear replaces the ends with the mean, and begins the next
 * round. */
enum sl_err sl_ends_round_check(const struct sl_ends_round *r, const float *mean, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_ends_round_hear(struct sl_ends_round *r, float *mean) SL_MUST_CHECK;

/* The whole state of head and tail between two steps, which members hand to one that joins: [layout->floats] of
 * sl_end_layout_state. Frozen weights are not in it. The caller of _set has checked it (sl_end_check,
 * sl_end_check_moments). */
enum sl_err sl_ends_get_state(const struct sl_ends *ends, const struct sl_end_layout *layout, float *to) SL_MUST_CHECK;
enum sl_err sl_ends_set_state(struct sl_ends *ends, const struct sl_end_layout *layout, float *from) SL_MUST_CHECK;

#endif
