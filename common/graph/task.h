/* What a network learns: its labels, its loss, and how evaluations speak of it. A kind of task is a row of
 * sl_learn_tasks; whoever has to know something of it asks the row. */
#ifndef SL_GRAPH_TASK_H
#define SL_GRAPH_TASK_H

#include "common/graph/graph.h"

enum sl_learn_kind {                   /* as model.task has them, then the others */
		     SL_LEARN_CLASSES, /* a row is of one of several classes */
		     SL_LEARN_NUMBER,  /* a row has a number, or several */
		     SL_LEARN_LABELS,  /* a row has or has not each of several labels */
		     SL_LEARN_PIXELS,  /* each pixel of a row's picture is of one of several classes */
		     SL_LEARN_MASKED,  /* chosen tokens of a row are to be guessed: a masked language model */
		     SL_LEARN_NEXT,    /* each token guesses the one behind it: a causal language model */
		     SL_LEARN_COUNT
};

struct sl_learn_task {
	enum sl_learn_kind kind;
	const char *name;    /* what is predicted, in sentences: "classes" */
	const char *target;  /* the graph's second input, and the data's field: "label", "number" */
	enum sl_dtype dtype; /* of one label */
	bool each;           /* a target for every output: K of them; else one label */
	enum sl_lead lead;   /* the places that have labels: rows, or chosen tokens */
	enum sl_op_kind loss;
	bool met;               /* a label is met or it is not: there is an accuracy */
	bool labelled;          /* the data have the labels; else the loader makes them of the input */
	bool perplexity;        /* evaluations say e to the loss, and no other metric */
	const char *of;         /* in front of "N samples" */
	const char *metrics[4]; /* of every evaluation, where the data name no others; NULL behind the last */
};

extern const struct sl_learn_task sl_learn_tasks[SL_LEARN_COUNT];

/* By a config's words: one class is a number. */
static inline const struct sl_learn_task *sl_learn_task_of(enum sl_learn_kind asked, int classes, bool masked)
{
	if (masked)
		return &sl_learn_tasks[SL_LEARN_MASKED];
	return &sl_learn_tasks[asked == SL_LEARN_CLASSES && classes == 1 ? SL_LEARN_NUMBER : asked];
}

/* A mask has a class for each pixel; this one says that the pixel counts for nothing. */
enum { SL_LEARN_IGNORED = 255 };

/* How many numbers a row's target has. */
static inline int sl_learn_targets(const struct sl_learn_task *task, int classes)
{
	return task->each ? classes : 1;
}

#endif
