/* What a model says of each sample: a line on stdout as text, CSV or JSON. */
#ifndef SL_CLIENT_RUN_PREDICT_H
#define SL_CLIENT_RUN_PREDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/graph/task.h"

enum sl_predict_format { SL_PREDICT_TEXT, SL_PREDICT_CSV, SL_PREDICT_JSON };

struct sl_predict {
	enum sl_predict_format format;
	bool logits; /* in place of probabilities, their softmax */
	FILE *out;   /* borrowed */
	const struct sl_learn_task *task;
	int classes;
	float *row;             /* [most rows of a batch, classes]: the logits of the batch under way */
	double *value;          /* [classes] */
	uint64_t rows, correct; /* written so far; of these, the class is the label */
};

/* Text and CSV begin with a line of names. */
enum sl_err sl_predict_open(struct sl_predict *p, enum sl_predict_format format, bool logits, FILE *out, int64_t batch,
			    const struct sl_learn_task *task, int classes, struct sl_fail *fail) SL_MUST_CHECK;
void sl_predict_close(struct sl_predict *p); /* idempotent; a zeroed one is fine */
/* Writes the first `rows` of p->row; `target`: their labels, int32_t, or numbers, float. The class is the first of the
 * largest logits, as an evaluation counts; NaN and Inf are null, in CSV and text empty and "-". */
void sl_predict_batch(struct sl_predict *p, const void *target, int64_t rows);

#endif
