/* A model's predictions: a line of text, CSV or JSON for each sample. A class for each pixel is written to a file, and
 * the line is its path. */
#ifndef SL_CLIENT_PREDICT_PREDICT_H
#define SL_CLIENT_PREDICT_PREDICT_H

#include <stdio.h>

#include "client/data/transform.h"
#include "client/predict/mask_names.h"

enum sl_predict_format { SL_PREDICT_TEXT, SL_PREDICT_CSV, SL_PREDICT_JSON };

struct sl_predict_spec {
	enum sl_predict_format format;
	bool logits;                          /* in place of probabilities, their softmax */
	bool unlabelled;                      /* samples have no labels to print */
	int top;                              /* print only so many of the most probable classes; 0: all */
	FILE *out;                            /* borrowed */
	int h, w;                             /* for a class for each pixel: the size of a mask; else 0 */
	const char *dir;                      /* the folder to which masks are written, which exists */
	const struct sl_transform *transform; /* of the set's pictures; a mask has the size of its picture */
	bool force;                           /* a mask may replace a file */
	const struct sl_learn_task *task;
	int classes;
	const struct sl_set *set;      /* names the samples; NULL, or a set without names: only numbers are printed */
	const char *const *class_name; /* [classes] of classes, numbers or labels, UTF-8; NULL: numbers are printed */
	const double *centre;          /* [classes] of numbers: is added to what the set and the network have */
	const char *doubt;             /* members at the end of each JSON object (doubt.h); NULL: none */
	const double *threshold;       /* [classes] probabilities from which on labels are predicted; NULL: above 1/2 */
};

struct sl_predict {
	struct sl_predict_spec spec;
	float *row;             /* [most rows of a batch, h, w, classes]: the logits of the batch under way */
	double *value;          /* [classes] */
	int *order;             /* [classes], by value */
	int64_t index;          /* of the current sample in the set */
	uint64_t rows, correct; /* samples so far; right predictions, of pixels where these are predicted */
	uint64_t unread;        /* of the samples, could not be read: they have no line */
	uint64_t passed;        /* of the samples, have no prediction, while the others go on */
	struct sl_fail first;   /* why the first of these has none */
	uint64_t counted;       /* pixels that are not ignored */
	uint8_t *mask;          /* [h, w] */
	struct sl_room room[2]; /* a picture whose size is asked for; its mask */
	struct sl_transform_work work;
	struct sl_mask_names names;
	struct sl_fail
		fail; /* why a mask could not be written, or a sample not be predicted; its code is OK if all were */
};

enum sl_err sl_predict_open(struct sl_predict *p, const struct sl_predict_spec *spec, int64_t batch,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_predict_close(struct sl_predict *p); /* idempotent; a zeroed one is fine */
/* Prints the first `rows` of p->row, and before the first sample a line of column names, in text and CSV. `target`:
 * their labels, int32_t, or numbers, float. `samples`: their indices in the set. If a row's sample is not the next one,
 * the next one could not be read, and the row has no line. The predicted class is the first of the largest logits, as
 * in an evaluation. A row without a prediction (NaN or Inf, sl_metric_is_defined) has no line, nor has one after it:
 * NONFINITE is in p->fail. A logit of -Inf is null in JSON, empty in CSV, and "-" in text. row_fail [rows], NULL: each
 * sample was read. With it a sample that could not be read, or has no prediction, is passed (sl_predict_pass), and
 * those after it go on. */
void sl_predict_batch(struct sl_predict *p, const void *target, const int32_t *samples, const struct sl_fail *row_fail,
		      int64_t rows);
/* Names sample p->rows, which has no prediction, in the log and, with JSON, in a line. An error that is not of the
 * sample, such as NOMEM, stays in p->fail, and ends the command. */
void sl_predict_pass(struct sl_predict *p, const struct sl_fail *why);
/* Prints row `row` of p->row, which is that sample of the set, under another number; in JSON. A row without a
 * prediction gets the line of an error. */
void sl_predict_line(struct sl_predict *p, const void *target, int64_t row, uint64_t number);
/* Prints the line of an error, in JSON. */
void sl_predict_refuse(struct sl_predict *p, uint64_t number, const struct sl_fail *why);

#endif
