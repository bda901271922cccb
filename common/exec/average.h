/* Federated averaging of copies of one segment that were trained apart (McMahan et al., "Communication-efficient
 * learning of deep networks from decentralized data", AISTATS 2017). Any thread, while no copy computes. */
#ifndef SL_EXEC_AVERAGE_H
#define SL_EXEC_AVERAGE_H

#include "common/conf/agreed.h"
#include "common/exec/exec.h"

/* A copy with 0 rows does not contribute to the average, but receives it. */
struct sl_copy {
	struct sl_exec *exec;
	uint64_t rows; /* rows that it was trained with: its weight in the average */
};

/* The processes (ranks) that add to the same sums; this one is number `rank` of `count`. All call the same functions in
 * the same order. A running sum goes from rank to rank, so it has the bits that one process would compute from all
 * terms. NULL: there is only this process. */
struct sl_others {
	void *arg;
	int rank, count;
	void (*take)(void *arg, void *data, size_t bytes);       /* receives from the previous rank */
	void (*pass)(void *arg, const void *data, size_t bytes); /* sends to the next rank */
	void (*spread)(void *arg, void *data, size_t bytes);     /* broadcasts from the last rank to all */
	/* All-gather: returns the `own` of all ranks, in order; the caller frees it. NULL: no memory. */
	void *(*gather)(void *arg, const void *own, size_t bytes);
};

/* Receives the running sum; false: this is the first rank, and `data` is unchanged. */
static inline bool sl_others_take(const struct sl_others *o, void *data, size_t bytes)
{
	if (o && o->rank > 0)
		o->take(o->arg, data, bytes);
	return o && o->rank > 0;
}

static inline void sl_others_pass(const struct sl_others *o, const void *data, size_t bytes)
{
	if (o && o->rank < o->count - 1)
		o->pass(o->arg, data, bytes);
}

static inline void sl_others_spread(const struct sl_others *o, void *data, size_t bytes)
{
	if (o)
		o->spread(o->arg, data, bytes);
}

/* NONFINITE: the copy's weights hold NaN or Inf; *fail names one. */
enum sl_err sl_copy_check(struct sl_exec *copy, struct sl_fail *fail) SL_MUST_CHECK;
/* Averages weights and running statistics, weighted by rows: sums in double, in the order of the copies. Gives the
 * average to `trunk` and to all copies. If only one copy has rows, the average is that copy, bit for bit. If none has,
 * nothing changes. `how`: moments are averaged, zeroed, or kept by each copy, and not given to `trunk`. Averaged
 * moments get the number of applied steps of the copy that has the most. */
enum sl_err sl_average(struct sl_exec *trunk, const struct sl_copy *copy, int n, enum sl_conf_share_moments how,
		       const struct sl_others *others) SL_MUST_CHECK;
/* Sets the copy to the trunk's weights; with `moments`, also to its moments and number of applied steps. */
enum sl_err sl_copy_reset(struct sl_exec *copy, struct sl_exec *trunk, bool moments) SL_MUST_CHECK;

#endif
