/* One step of several members: their gradients are added in the order of the parts, a part is left out that makes the
 * sum NaN or Inf, and the sum is scaled, clipped and applied. In rounds each part trains a copy of the trunk by itself,
 * and where a round ends the copies are averaged. Where heads and tails are shared, the mean of what the parts have
 * told is encoded once. The server and `--local` hand their members in here, so both have one arithmetic. Any thread;
 * nothing of the executors is under way. */
#ifndef SL_SESSION_FOLD_H
#define SL_SESSION_FOLD_H

#include "common/exec/average.h"
#include "common/session/mean.h"

struct sl_fold_part {
	struct sl_exec *exec; /* with its gradient; borrowed. NULL: the member is not here */
	uint64_t rows;        /* of its batch; 0: it adds nothing to the step */
	uint64_t counts;      /* what its loss is a mean over: these rows, or their tokens with a loss */
	const float *change;  /* what it told of its head and tail, where these are shared */
	/* in rounds */
	struct sl_exec *copy; /* the parameters that it trains; NULL: none */
	uint64_t trained;     /* rows, or tokens with a loss, since the last average */
	bool averaged;        /* it has a part in the average under way */
	/* the outcome of a step or an average */
	bool left_out; /* the outcome was made without this part: `why` */
	struct sl_fail why;
};

struct sl_fold {
	struct sl_exec *trunk;
	struct sl_fold_part *part; /* [n] */
	int n;
	enum sl_conf_share_moments moments;
	double most;             /* share.member_norm, of what a part told in a round; 0: any */
	struct sl_end_sum *ends; /* NULL: heads and tails are not shared */
	struct sl_buf *mean;     /* what all hear of shared heads and tails; empty where nobody took part */
	const struct sl_others *others;
	/* a sum that waits to be applied */
	uint64_t counts; /* of all parts; 0: nobody took part */
	double scale;
};

/* The trunk's gradient becomes the sum of all parts. `step` is the number by which the mean is encoded. Nothing of the
 * trunk's parameters changes. DEVICE, NOMEM. */
enum sl_err sl_fold_sum(struct sl_fold *fold, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* Applies it; where nobody had rows, the step is skipped. */
enum sl_err sl_fold_apply(struct sl_fold *fold, double lr) SL_MUST_CHECK;
/* A part's own step of a round. */
enum sl_err sl_fold_alone(struct sl_fold_part *part, double lr) SL_MUST_CHECK;
/* The copies of the parts that are `averaged` become one, which all copies get. A part whose copy or change is not
 * finite, or changed more than it may, is left out. */
enum sl_err sl_fold_round(struct sl_fold *fold, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;

#endif
