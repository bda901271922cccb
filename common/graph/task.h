/* What a network learns: its labels, its loss, and how evaluations speak of it. A kind of task is a row of
 * sl_learn_tasks; whoever has to know something of it asks the row. */
#ifndef SL_GRAPH_TASK_H
#define SL_GRAPH_TASK_H

#include "common/graph/graph.h"

enum sl_learn_kind {
	SL_LEARN_CLASSES, /* a row is of one of several classes */
	SL_LEARN_NUMBER,  /* a row has a number */
	SL_LEARN_MASKED,  /* chosen tokens of a row are to be guessed: a masked language model */
	SL_LEARN_COUNT
};

struct sl_learn_task {
	enum sl_learn_kind kind;
	const char *name;      /* what is predicted, in sentences: "classes" */
	const char *target;    /* the graph's second input, and the data's field: "label", "number" */
	enum sl_dtype dtype;   /* of one label */
	struct sl_shape shape; /* of the labels of one place */
	enum sl_lead lead;     /* the places that have labels: rows, or chosen tokens */
	enum sl_op_kind loss;
	bool met;        /* a label is met or it is not: there is an accuracy */
	bool labelled;   /* the data have the labels; else the loader makes them of the input */
	bool perplexity; /* evaluations say e to the loss, and no other metric */
	const char *of;  /* in front of "N samples" */
};

extern const struct sl_learn_task sl_learn_tasks[SL_LEARN_COUNT];

/* By a config's words. */
static inline const struct sl_learn_task *sl_learn_task_of(int classes, bool masked)
{
	return &sl_learn_tasks[masked ? SL_LEARN_MASKED : classes == 1 ? SL_LEARN_NUMBER : SL_LEARN_CLASSES];
}

#endif
