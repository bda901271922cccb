/* The result of one batch, in one process or over a link. */
#ifndef SL_CLIENT_STEP_STEP_H
#define SL_CLIENT_STEP_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct sl_step_result {
	uint64_t step; /* or the number of the evaluation's batch */
	int64_t rows;
	int64_t answers, correct; /* labels, of rows or of chosen tokens; rightly predicted ones */
	int64_t tokens;           /* of the rows; without tokens, the number of rows */
	double loss;              /* mean over the labels, plus `dice` */
	double dice;              /* the Dice loss in it, a mean over pictures; 0: there is none */
	bool skipped;             /* NaN or Inf: nothing was applied; loss and correct say nothing */
	bool late;                /* skipped because the group went on without this member */
	bool still;               /* the norm to which it was clipped left nearly nothing of this side's gradient */
	bool passed; /* in a group: another member's step, nothing was computed; only step and lr are set */
	double lr;
	double grad_norm;            /* of the whole model, before it is clipped; NAN: skipped, or not clipped */
	double t_step_s;             /* wall clock, from the batch at hand to the step applied */
	double t_data_s;             /* before that: the time spent waiting for the batch */
	double t_compute_s;          /* this side's kernels and codecs */
	double t_server_s;           /* the server's kernels; NAN: unknown, as in an evaluation */
	uint64_t tx_bytes, rx_bytes; /* on the wire, headers included */
};

#endif
