/* What one batch gave, whoever computed it. */
#ifndef SL_CLIENT_RUN_STEP_H
#define SL_CLIENT_RUN_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct sl_step_result {
	uint64_t step; /* or number of the evaluation batch */
	int64_t rows;
	int64_t answers, correct; /* labels that there are: of rows, or of chosen tokens; those that were met */
	int64_t tokens;           /* of the rows; as many as rows where there are none */
	double loss;              /* mean over the labels */
	bool skipped;             /* NaN or Inf: nothing was applied; loss and correct say nothing */
	bool late;                /* skipped because the group went on without this member */
	bool passed; /* in a group: the step was another's, and nothing was computed; step and lr alone count */
	double lr;
	double grad_norm;            /* of the whole model, before it is clipped; NAN: skipped, or not clipped */
	double t_step_s;             /* wall clock, from the batch at hand to the step applied */
	double t_data_s;             /* before that: how long its batch was waited for */
	double t_compute_s;          /* this side's kernels and codecs */
	double t_server_s;           /* the server's kernels; NAN: it has not said, as of an evaluation */
	uint64_t tx_bytes, rx_bytes; /* on the wire, headers included */
};

#endif
