/* Copies of one part that were trained apart become one (federated averaging: McMahan et al., "Communication-efficient
 * learning of deep networks from decentralized data", AISTATS 2017). Any thread; nothing of the copies is under way. */
#ifndef SL_NN_AVERAGE_H
#define SL_NN_AVERAGE_H

#include "common/nn/exec.h"

/* What becomes of the optimizer's moments: each copy keeps its own; all get their average; all begin at zero. */
enum sl_moments { SL_MOMENTS_KEEP, SL_MOMENTS_AVERAGE, SL_MOMENTS_ZERO };

/* One of them. Those with 0 rows have no part in the average, and get it all the same. */
struct sl_copy {
	struct sl_exec *exec;
	uint64_t rows; /* that it was trained with */
};

/* Copies of the same part that other processes have. All of them call the same functions in the same order. */
struct sl_average_others {
	void *arg;
	/* Of all processes: the sum of *rows, and the largest *applied. */
	enum sl_err (*unite)(void *arg, uint64_t *rows, uint64_t *applied);
	/* What the copies before these sum to goes into `sum`, which is zero where there are none; and with these in
	 * it, the sum of all. */
	enum sl_err (*take)(void *arg, double *sum, int64_t count);
	enum sl_err (*total)(void *arg, double *sum, int64_t count);
};

/* NONFINITE: the copy's weights hold NaN or Inf; *fail names one. */
enum sl_err sl_copy_check(struct sl_exec *copy, struct sl_fail *fail) SL_MUST_CHECK;
/* Weights and running statistics, weighted by rows: sums in double, in the order of the copies. The average goes to
 * `trunk` and to all copies; with one copy that has rows it is that copy, bit for bit. Nothing where nobody has rows.
 * Averaged moments have the count of applied steps of the copy with the most. `trunk` has moments too, but where each
 * copy keeps its own. `others` NULL: these are all copies. With others' copies the sums go on from theirs, so the bits
 * are those of one process that has all of them in that order. */
enum sl_err sl_average(struct sl_exec *trunk, const struct sl_copy *copy, int n, enum sl_moments how,
		       const struct sl_average_others *others) SL_MUST_CHECK;
/* The copy becomes the trunk, with its moments, which may be kept as they are. */
enum sl_err sl_copy_reset(struct sl_exec *copy, struct sl_exec *trunk, bool moments) SL_MUST_CHECK;

#endif
