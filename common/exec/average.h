/* Copies of one part that were trained apart become one (federated averaging: McMahan et al., "Communication-efficient
 * learning of deep networks from decentralized data", AISTATS 2017). Any thread; nothing of the copies is under way. */
#ifndef SL_EXEC_AVERAGE_H
#define SL_EXEC_AVERAGE_H

#include "common/conf/agreed.h"
#include "common/exec/exec.h"

/* One of them. Those with 0 rows have no part in the average, and get it all the same. */
struct sl_copy {
	struct sl_exec *exec;
	uint64_t rows; /* that it was trained with */
};

/* Other processes that add to the same sums, in an order in which this one has its `rank`. All of them call the same
 * functions in the same order. A sum goes from each to the next, so it has the bits that one process would make of all
 * that they add. NULL: there are none. */
struct sl_others {
	void *arg;
	int rank, count;
	void (*take)(void *arg, void *data, size_t bytes);       /* from the one before this */
	void (*pass)(void *arg, const void *data, size_t bytes); /* to the next */
	void (*spread)(void *arg, void *data, size_t bytes);     /* the last one's, to all */
	/* What each of them says, in order: free it. NULL: no memory. */
	void *(*gather)(void *arg, const void *own, size_t bytes);
};

/* False: there is none before this one. */
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
/* Weights and running statistics, weighted by rows: sums in double, in the order of the copies. The average goes to
 * `trunk` and to all copies; with one copy that has rows it is that copy, bit for bit. Nothing where nobody has rows.
 * Averaged moments have the count of applied steps of the copy with the most. `trunk` has moments too, but where each
 * copy keeps its own. */
enum sl_err sl_average(struct sl_exec *trunk, const struct sl_copy *copy, int n, enum sl_conf_share_moments how,
		       const struct sl_others *others) SL_MUST_CHECK;
/* The copy becomes the trunk, with its moments, which may be kept as they are. */
enum sl_err sl_copy_reset(struct sl_exec *copy, struct sl_exec *trunk, bool moments) SL_MUST_CHECK;

#endif
