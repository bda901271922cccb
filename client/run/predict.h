/* What a model says of each sample: a line on stdout as text, CSV or JSON. Of a class for each pixel it is a file,
 * whose path is the line. */
#ifndef SL_CLIENT_RUN_PREDICT_H
#define SL_CLIENT_RUN_PREDICT_H

#include <stdio.h>

#include "client/data/source.h"
#include "client/run/mask_names.h"

enum sl_predict_format { SL_PREDICT_TEXT, SL_PREDICT_CSV, SL_PREDICT_JSON };

struct sl_predict_spec {
	enum sl_predict_format format;
	bool logits;     /* in place of probabilities, their softmax */
	bool unlabelled; /* samples have no labels to print */
	int top;         /* so many of the most probable classes alone; 0: all */
	FILE *out;       /* borrowed */
	int h, w;        /* of a class for each pixel: the size of a mask; else 0 */
	const char *dir; /* of masks: the folder that they are written to, which exists */
	bool force;      /* a mask may replace a file */
	const struct sl_learn_task *task;
	int classes;
	const struct sl_set *set;      /* names the samples; NULL, or one that cannot: they have numbers alone */
	const char *const *class_name; /* [classes], UTF-8, of numbers and labels, too; NULL: they have numbers alone */
	const double *threshold;       /* of several labels: each is said from this probability on; NULL: above 1/2 */
};

struct sl_predict {
	struct sl_predict_spec spec;
	float *row;             /* [most rows of a batch, h, w, classes]: the logits of the batch under way */
	double *value;          /* [classes] */
	int *order;             /* [classes], by value */
	uint64_t rows, correct; /* samples so far; of these, the class is the label */
	uint64_t unread;        /* of these, could not be read: they have no line */
	uint64_t counted;       /* pixels that have a class */
	uint8_t *mask;          /* [h, w] */
	struct sl_mask_names names;
	struct sl_fail fail; /* why a mask could not be written; its code is OK: all were */
};

/* Text and CSV begin with a line of names. */
enum sl_err sl_predict_open(struct sl_predict *p, const struct sl_predict_spec *spec, int64_t batch,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_predict_close(struct sl_predict *p); /* idempotent; a zeroed one is fine */
/* Writes the first `rows` of p->row; `target`: their labels, int32_t, or numbers, float; `samples`: which samples they
 * are. A row whose sample is not the next one stands for a sample that could not be read: it has no line. The class is
 * the first of the largest logits, as an evaluation counts; NaN and Inf are null, in CSV and text empty and "-". */
void sl_predict_batch(struct sl_predict *p, const void *target, const int32_t *samples, int64_t rows);

#endif
