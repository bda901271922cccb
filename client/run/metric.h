/* What an evaluation says of a whole test set beside its loss. A metric is a row of sl_metrics: it begins with nothing,
 * takes in samples, in their order, and merges with a state whose samples come behind. */
#ifndef SL_CLIENT_RUN_METRIC_H
#define SL_CLIENT_RUN_METRIC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/graph/task.h"

struct sl_metric_state {
	const struct sl_metric *of;
	int width;
	int64_t *count; /* [counts], of a metric that counts */
	int counts;
	double n, mean[2], square[2], product; /* of one that correlates: sums about the means */
	float *kept;                           /* [rows, width + 1], of one that has to keep all: outputs, target */
	int64_t rows;
	size_t room;
};

struct sl_metric {
	const char *name; /* in JSON, logs and train.metrics */
	/* Of which tasks it is, a bit 1 << enum sl_learn_kind each. What an output [rows, width] is compared with is of
	 * classes int32_t labels [rows], in [0, width), and of a number float targets [rows], where width is 1. Each of
	 * several labels is two classes, the second of which has it; its logit is the second one's, and the other is 0.
	 */
	unsigned of;
	bool pooled;     /* all labels are counted together; else each label or number by itself */
	bool share;      /* of samples: shown in per cent */
	bool lower;      /* is better */
	int always_from; /* width from which it is computed unasked; 0: never */
	enum sl_err (*add)(struct sl_metric_state *s, const float *output, const void *target, int64_t rows);
	enum sl_err (*merge)(struct sl_metric_state *s, const struct sl_metric_state *behind);
	double (*result)(const struct sl_metric_state *s); /* NaN where it is not defined */
	int counts, per_class;                             /* of one that counts: how many, in all and for each class */
	/* Of one class, each a number of samples: rightly of it, of it, said to be of it, and all. NULL: the metric is
	 * no mean over classes. */
	double (*class_share)(double right, double is, double said, double n);
	bool both;     /* of two classes too it is a mean, not what it is of class 1 */
	bool in_label; /* a class occurs where labels have it; else also where answers have it */
	bool of_class; /* sl_metric_of_class says something */
};

/* accuracy: the label is the first of the largest outputs, as the loss counts it.
 * top5: fewer than five outputs are larger than the label's, or as large and before it.
 * matthews: of any number of classes, as sklearn.metrics.matthews_corrcoef; 0 where only one class occurs.
 * f1, precision, recall, specificity: of two classes those of class 1; of more the mean over the classes that occur, as
 * sklearn's average="macro". Recall is sensitivity.
 * balanced_accuracy: the mean of all classes' recalls.
 * auc: the area under the ROC curve, average_precision: the sum of precisions by the recall that each adds; of two
 * classes of class 1's probability; of more the mean over the classes, each against the rest.
 * calibration_error: of 15 bins by the largest probability, the mean distance of its mean from the share that is right,
 * by samples (Guo et al. 2017, ECE).
 * mean_iou, dice: of pixels the mean over the classes that occur, in masks or in answers, of what both have by what
 * either has, and of twice that by the sum of both: sklearn's jaccard_score and f1_score of average="macro". pearson,
 * spearman: of numbers; ranks of equal values are their mean. mae, rmse, r2: mean absolute error, root of the mean
 * square, and the share of the variance that is explained. Of several numbers or labels: the mean over those for which
 * it is defined; a label is said where its probability is above 1/2. f1_micro, precision_micro, recall_micro: of all
 * labels as one, as sklearn's average="micro". */
extern const struct sl_metric sl_metrics[];
extern const int sl_metric_count;
/* e to the loss: of language models, whose runs compute it, and no function here. */
extern const struct sl_metric sl_metric_perplexity;

/* CONFIG with a sentence where there is none of this name, or what it measures is not the task's. */
enum sl_err sl_metric_find(const struct sl_metric **out, const char *name, const struct sl_learn_task *task,
			   struct sl_fail *fail) SL_MUST_CHECK;

enum sl_err sl_metric_begin(const struct sl_metric *m, struct sl_metric_state *s, int width) SL_MUST_CHECK;
void sl_metric_end(struct sl_metric_state *s); /* idempotent; a zeroed one is fine */
/* Of class k alone; NaN where it does not occur. */
double sl_metric_of_class(const struct sl_metric_state *s, int k);
int sl_metric_largest(const float *x, int width); /* the first of the largest, as in the loss */

enum { SL_SCORES_MOST = 24 };

struct sl_score {
	const struct sl_metric *metric; /* NULL: there is none */
	double value;
};

/* The metrics of a run's evaluations. */
struct sl_scores;

/* `asked`: names, beside those that are computed always; `width`: the network's outputs. CONFIG as sl_metric_find;
 * NOMEM. */
enum sl_err sl_scores_open(struct sl_scores **out, const char *const *asked, int n_asked,
			   const struct sl_learn_task *task, int width, int64_t batch,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_scores_close(struct sl_scores *scores); /* NULL is fine */
/* [batch, width], for the outputs of a batch; NULL where no metric is computed. */
float *sl_scores_output(struct sl_scores *scores);
void sl_scores_begin(struct sl_scores *scores); /* an evaluation */
/* The outputs of the next batch are there. A metric that fails is not defined until the next evaluation. */
void sl_scores_add(struct sl_scores *scores, const void *target, int64_t rows);
void sl_scores_result(const struct sl_scores *scores, struct sl_score out[SL_SCORES_MOST]);

/* Of several numbers or labels: how many; else 1. */
int sl_scores_targets(const struct sl_scores *scores);
/* The metric's value for one of them; NaN: not defined, or it is of all together. */
double sl_scores_of(const struct sl_scores *scores, int metric, int target);

/* Of several labels: the probabilities from which on each is said, as F1 is largest in what was evaluated; 1/2 where no
 * sample has it. False: this is not known; `out` [targets] stays. */
bool sl_scores_thresholds(const struct sl_scores *scores, double *out);

static inline double sl_metric_sigmoid(float logit)
{
	return 1 / (1 + exp(-(double)logit));
}

enum { SL_CONFUSION_MOST = 200 /* classes */, SL_METRIC_BINS = 15, SL_METRIC_ROC_POINTS = 200 };
/* From now on samples are counted by class and answer, and outputs are kept for the curves below. NOMEM. */
enum sl_err sl_scores_confuse(struct sl_scores *scores, int width, int64_t batch, struct sl_fail *fail) SL_MUST_CHECK;
/* [width, width]: samples of the row's class of which the column's was said; NULL: they were not counted. */
const int64_t *sl_scores_confusion(const struct sl_scores *scores, int *width);

/* A point of a ROC curve: the shares of samples of other classes, and of this one, that are said to be of it. */
struct sl_roc_point {
	double others, own;
};
/* How many points, from (0, 0) to (1, 1): class `k` against the rest; *area below the whole curve. 0: all samples are
 * of the class, or none is, or outputs were not kept. Of long curves the points are some of all. */
int sl_scores_roc(const struct sl_scores *scores, int k, struct sl_roc_point point[SL_METRIC_ROC_POINTS], double *area);

/* Samples by their largest probability; a bin takes its upper bound. */
struct sl_metric_bin {
	int64_t n;
	double probability, right; /* sums over them: of the probability, of rightly said ones */
};
/* False where outputs were not kept, or a probability is NaN. */
bool sl_scores_bins(const struct sl_scores *scores, struct sl_metric_bin bin[SL_METRIC_BINS]);

#endif
