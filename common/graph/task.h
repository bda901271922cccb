/* What a network learns: its labels, its loss, and how evaluations report it. Each kind of task is a row of
 * sl_learn_tasks. Other code reads the row's fields rather than test the kind. */
#ifndef SL_GRAPH_TASK_H
#define SL_GRAPH_TASK_H

#include "common/graph/graph.h"

enum sl_learn_kind {                   /* first the values of the key model.task, in its order */
		     SL_LEARN_CLASSES, /* a row belongs to one of several classes */
		     SL_LEARN_NUMBER,  /* regression: a row has one target number, or several */
		     SL_LEARN_LABELS,  /* multi-label: a row has any number of several labels */
		     SL_LEARN_PIXELS,  /* segmentation: each pixel of a picture belongs to one of several classes */
		     SL_LEARN_MASKED,  /* masked language model: predicts the chosen tokens of a row */
		     SL_LEARN_NEXT,    /* causal language model: each token predicts the next one */
		     SL_LEARN_COUNT
};

struct sl_learn_task {
	enum sl_learn_kind kind;
	const char *name;    /* what is predicted, in sentences: "classes" */
	const char *target;  /* the graph's second input, and the data's field: "label", "number" */
	enum sl_dtype dtype; /* the type of a label */
	bool each;           /* each of the K outputs has a target; else there is one label */
	enum sl_lead lead;   /* what has a label: each row, or each chosen token */
	enum sl_op_kind loss;
	bool met;               /* a prediction is either right or wrong, so there is an accuracy */
	bool labelled;          /* the data set has the labels; else the loader derives them from the input */
	bool perplexity;        /* evaluations report exp(loss), and no other metric */
	const char *of;         /* text in front of "N samples" in the summary */
	const char *metrics[4]; /* default metrics of evaluations; ends with NULL */
};

extern const struct sl_learn_task sl_learn_tasks[SL_LEARN_COUNT];

/* The task that a config asks for. Classification with one class is regression. */
static inline const struct sl_learn_task *sl_learn_task_of(enum sl_learn_kind asked, int classes, bool masked)
{
	if (masked)
		return &sl_learn_tasks[SL_LEARN_MASKED];
	return &sl_learn_tasks[asked == SL_LEARN_CLASSES && classes == 1 ? SL_LEARN_NUMBER : asked];
}

/* The class in a mask's pixel that excludes the pixel from loss and metrics. */
enum { SL_LEARN_IGNORED = 255 };

/* How many numbers a target consists of. */
static inline int sl_learn_targets(const struct sl_learn_task *task, int classes)
{
	return task->each ? classes : 1;
}

#endif
