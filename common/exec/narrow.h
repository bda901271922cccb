/* The ops of a decaying insert (insert.h), in every width of its schedule; and how the schedule changes their matrices:
 * removed rows become 0, and rows about to be removed get an L1 penalty. Part of an executor. */
#ifndef SL_EXEC_NARROW_H
#define SL_EXEC_NARROW_H

#include "common/exec/backend.h"
#include "common/exec/plan.h"

/* One op that narrows, with a copy of it and a kernel state for each number of falls (decay.h). */
struct sl_narrow {
	int at; /* index in the segment */
	const struct sl_decay *decay;
	int n;
	int width[SL_DECAY_MAX_TIMES + 1]; /* used rows of the matrix after each number of falls */
	struct sl_op *op;                  /* [n] */
	void **state;                      /* [n] */
	int64_t full, offset; /* the matrix [full, full] in the weight range, used rows first; full 0: no matrix */
	float *piece;         /* host buffer for sl_narrow_pull; NULL: there is no penalty */
};

enum { SL_NARROW_MOST = 2 * SL_NARROW_CHAIN }; /* ops of a segment that narrow, at most */

/* A copy of the planned op `so`, with its shapes and attributes after `falls` falls. */
struct sl_op sl_narrowed(const struct sl_segment_op *so, const struct sl_decay *decay, int falls);
/* The schedule that an op which narrows follows. */
const struct sl_decay *sl_narrow_decay(const struct sl_plan_segment *segment, const struct sl_segment_op *so);

/* Finds the segment's ops that narrow, *n of them, and fills their `op`; the executor fills and releases `state`. Close
 * all *n even after a failure. */
enum sl_err sl_narrow_open(struct sl_narrow narrow[SL_NARROW_MOST], int *n, const struct sl_plan_segment *segment,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_narrow_close(struct sl_narrow *narrow); /* a zeroed one is fine */

/* Zeroes the matrix's rows that `falls` falls have removed. `area`: the segment's weights, or one of its moments. */
enum sl_err sl_narrow_clear(const struct sl_narrow *narrow, struct sl_backend *be, float *area,
			    int falls) SL_MUST_CHECK;
/* Starts a step's gradient with the L1 penalty: grad = gain · l1 · sign(weight) in the rows that the next fall removes.
 * Their gradients must be zero before. */
enum sl_err sl_narrow_pull(struct sl_narrow *narrow, struct sl_backend *be, const float *weight, float *grad,
			   float gain, int falls) SL_MUST_CHECK;

#endif
