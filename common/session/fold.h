/* A step of several members. Their gradients are added in the order of the parts; the sum is scaled, clipped and
 * applied. A part that makes the sum NaN or Inf is left out. In mode rounds each part trains a copy of the trunk (the
 * members' common middle) by itself; at the end of a round the copies are averaged. With shared heads and tails, the
 * mean of what the parts sent is encoded once. The server and `--local` both call these functions, so they have the
 * same arithmetic. Any thread; nothing of the executors is under way. */
#ifndef SL_SESSION_FOLD_H
#define SL_SESSION_FOLD_H

#include "common/exec/average.h"
#include "common/session/mean.h"

struct sl_fold_part {
	struct sl_exec *exec; /* holds the member's gradient; borrowed. NULL: the member is not here */
	uint64_t rows;        /* of its batch; 0: it adds nothing to the step */
	uint64_t counts;      /* what its loss is a mean over: these rows, or their tokens with a loss */
	const float *change;  /* the change of its head and tail (mean.h), where these are shared */
	/* in rounds */
	struct sl_exec *copy; /* the copy of the trunk that it trains; NULL: none */
	uint64_t trained;     /* rows, or tokens with a loss, since the last average */
	bool averaged;        /* it takes part in the average under way */
	/* results of a step or an average */
	bool left_out; /* the part was left out, and `why` */
	struct sl_fail why;
};

struct sl_fold {
	struct sl_exec *trunk;
	struct sl_fold_part *part; /* [n] */
	int n;
	enum sl_conf_share_moments moments;
	double most;             /* share.member_norm: largest change of head and tail in a round; 0: no limit */
	struct sl_end_sum *ends; /* NULL: heads and tails are not shared */
	struct sl_buf *mean;     /* the encoded mean for all members; empty if none took part */
	const struct sl_others *others;
	/* the sum that waits to be applied */
	uint64_t counts; /* of all parts; 0: none took part */
	double scale;
};

/* The largest norm of a member's part of a step: of its gradient of the middle and, where `change` crosses, of head and
 * tail, times `factor`. most 0: no bound. clip: a part above it is scaled down to it; else it is left out. */
struct sl_part_bound {
	double most;
	bool clip;
	bool *clipped; /* set to whether this part was; NULL: nobody asks */
};
/* Checks a member's part before it may be added, and clips it. NONFINITE: it has NaN or Inf, or is left out. `ends`,
 * `change`: NULL, or as the member sent it. `rows` [chunks]. Any thread; nothing of `exec` is under way. */
enum sl_err sl_part_check(struct sl_exec *exec, const int64_t *rows, int chunks, double factor,
			  const struct sl_end_layout *ends, float *change, const struct sl_part_bound *bound,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Adds the gradients of all parts in the trunk's gradient. `step` is the number by which the mean is encoded. The
 * trunk's parameters do not change. DEVICE, NOMEM. */
enum sl_err sl_fold_sum(struct sl_fold *fold, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* Applies that sum; if no part had rows, the step is skipped. */
enum sl_err sl_fold_apply(struct sl_fold *fold, double lr) SL_MUST_CHECK;
/* In a round: a part's step on its own copy. */
enum sl_err sl_fold_alone(struct sl_fold_part *part, double lr) SL_MUST_CHECK;
/* Averages the copies of the parts that are `averaged`; all copies get the result. A part is left out if its copy or
 * change is not finite, or if its change has a larger norm than `most`. */
enum sl_err sl_fold_round(struct sl_fold *fold, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;

#endif
