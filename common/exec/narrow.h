/* The ops of a segment whose width a decaying insert lowers (insert.h), for every width of its schedule, and the two
 * things that a schedule does to their matrices. Part of an executor. */
#ifndef SL_EXEC_NARROW_H
#define SL_EXEC_NARROW_H

#include "common/exec/backend.h"
#include "common/exec/plan.h"

/* One op: a copy of it and the kernel's state for each number of falls. */
struct sl_narrow {
	int at; /* index in the segment */
	const struct sl_decay *decay;
	int n;
	int width[SL_DECAY_MAX_TIMES + 1]; /* of the matrix: its live rows */
	struct sl_op *op;                  /* [n] */
	void **state;                      /* [n] */
	int64_t full, offset; /* of the matrix in the weight range: [full, full], the live rows first; full 0: none */
	float *piece;         /* of a pull, in host memory; NULL where there is none */
};

enum { SL_NARROW_MOST = 2 * SL_NARROW_CHAIN }; /* of a segment */

/* The planned op `so` as it is after so many falls. */
struct sl_op sl_narrowed(const struct sl_segment_op *so, const struct sl_decay *decay, int falls);
/* The schedule that an op which narrows follows. */
const struct sl_decay *sl_narrow_decay(const struct sl_plan_segment *segment, const struct sl_segment_op *so);

/* Finds them, *n, and makes their ops; states are the executor's business. Close all in any case. */
enum sl_err sl_narrow_open(struct sl_narrow narrow[SL_NARROW_MOST], int *n, const struct sl_plan_segment *segment,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_narrow_close(struct sl_narrow *narrow); /* a zeroed one is fine */

/* Zeroes what `falls` falls have left behind the live rows; `area`: weights or a moment of the segment. */
enum sl_err sl_narrow_clear(const struct sl_narrow *narrow, struct sl_backend *be, float *area,
			    int falls) SL_MUST_CHECK;
/* grad = gain · l1 · sign(weight) where the next fall will cut; the gradients there are zero before. */
enum sl_err sl_narrow_pull(struct sl_narrow *narrow, struct sl_backend *be, const float *weight, float *grad,
			   float gain, int falls) SL_MUST_CHECK;

#endif
