/* The metrics of an evaluation, over a whole test set. A metric is a row of sl_metrics. Its state begins empty, takes
 * samples in their order, and merges with a state of later samples. */
#ifndef SL_CLIENT_FIGURES_METRIC_H
#define SL_CLIENT_FIGURES_METRIC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/figures/interval.h"
#include "common/graph/task.h"

struct sl_metric_state {
	const struct sl_metric *of;
	int width;
	int64_t *count; /* [counts], for a metric that counts */
	int counts;
	double n, mean[2], square[2], product; /* for one that correlates: sums about the means */
	float *kept;                           /* [rows, width + 1], for one that keeps all rows: outputs, target */
	int64_t rows;
	size_t room;
	bool undefined; /* an output or a target was NaN or Inf */
};

struct sl_metric {
	const char *name; /* in JSON, logs and train.metrics */
	/* The tasks that it is for, a bit 1 << enum sl_learn_kind each. For classes, outputs [rows, width] are compared
	 * with int32_t labels [rows], in [0, width). For a number, width is 1, and the targets [rows] are floats. One
	 * of several labels counts as two classes: its logit is that of class 1, and that of class 0 is 0. */
	unsigned of;
	bool pooled;     /* all labels are counted together; else each label or number by itself */
	bool share;      /* it is a share of samples, shown in per cent */
	bool lower;      /* lower is better */
	int always_from; /* width from which it is computed unasked; 0: never */
	/* for sl_metric_add, _merge and _result, which see to NaN and Inf */
	enum sl_err (*add)(struct sl_metric_state *s, const float *output, const void *target, int64_t rows);
	enum sl_err (*merge)(struct sl_metric_state *s, const struct sl_metric_state *behind);
	double (*result)(const struct sl_metric_state *s);
	int counts, per_class; /* how many counts it has, and how many more for each class */
	/* The value for one class, from numbers of samples: rightly predicted as it; of it; predicted as it; all. NULL:
	 * the metric is no mean over classes. */
	double (*class_share)(double right, double is, double said, double n);
	bool both;     /* for two classes, too, it is a mean, not the value for class 1 */
	bool in_label; /* the mean is over classes that labels have; else over those of labels or predictions */
	bool of_class; /* sl_metric_of_class is for it */
};

/* accuracy: samples whose label is the first of the largest outputs, as in the loss.
 * top5: samples for which fewer than five outputs are larger than the label's, or as large and before it.
 * matthews: for any number of classes, as sklearn.metrics.matthews_corrcoef; 0 where only one class occurs.
 * f1, precision, recall, specificity: for two classes the value of class 1; for more the mean over the classes that
 * occur, as sklearn's average="macro". Recall is sensitivity.
 * balanced_accuracy: the mean of all classes' recalls.
 * auc: the area under the ROC curve. average_precision: the sum of precisions, weighted by the recall that each adds.
 * For two classes they rank by class 1's probability; for more they are the mean over classes, each against the rest.
 * calibration_error: over 15 bins by the largest probability, the mean of |mean probability - share that is right|,
 * weighted by samples (Guo et al. 2017, ECE).
 * mean_iou, dice: for pixels, means over the classes that masks or predictions have, of intersection / union and of
 * 2 · intersection / (sum of both sizes): sklearn's jaccard_score and f1_score with average="macro".
 * pearson, spearman: for numbers; equal values have the mean of their ranks. mae, rmse, r2: mean absolute error, root
 * of the mean square, explained share of the variance.
 * For several numbers or labels, a metric is the mean over those for which it is defined. A label is predicted if its
 * probability is above 1/2. f1_micro, precision_micro, recall_micro: all labels as one (sklearn's average="micro"). */
extern const struct sl_metric sl_metrics[];
extern const int sl_metric_count;
/* e to the loss, for language models. The run computes it; this has no functions. */
extern const struct sl_metric sl_metric_perplexity;

/* CONFIG with a sentence: no metric has this name, or it is not for this task. */
enum sl_err sl_metric_find(const struct sl_metric **out, const char *name, const struct sl_learn_task *task,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* Whether a row of outputs has a prediction. Numbers: all are finite. Else no logit is NaN and the largest is finite; a
 * logit of -Inf is a probability of 0. */
bool sl_metric_is_defined(enum sl_learn_kind kind, const float *output, int width);

enum sl_err sl_metric_begin(const struct sl_metric *m, struct sl_metric_state *s, int width) SL_MUST_CHECK;
enum sl_err sl_metric_add(struct sl_metric_state *s, const float *output, const void *target,
			  int64_t rows) SL_MUST_CHECK;
enum sl_err sl_metric_merge(struct sl_metric_state *s, const struct sl_metric_state *behind) SL_MUST_CHECK;
/* NaN where it is undefined: without samples; where an output has no prediction, or a target is not finite; or by the
 * metric's definition. */
double sl_metric_result(const struct sl_metric_state *s);
void sl_metric_end(struct sl_metric_state *s); /* idempotent; a zeroed one is fine */
/* The value for class k alone; NaN where the class does not occur. */
double sl_metric_of_class(const struct sl_metric_state *s, int k);
int sl_metric_largest(const float *x, int width); /* the first of the largest, as in the loss */

enum { SL_SCORES_MOST = 24 };

struct sl_score {
	const struct sl_metric *metric; /* NULL: there is none */
	double value;
};

/* The metrics of a run's evaluations. */
struct sl_scores;

/* `asked`: names of metrics, beside those that are always computed. `width`: the network's outputs. CONFIG as
 * sl_metric_find; NOMEM. */
enum sl_err sl_scores_open(struct sl_scores **out, const char *const *asked, int n_asked,
			   const struct sl_learn_task *task, int width, int64_t batch,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_scores_close(struct sl_scores *scores); /* NULL is fine */
/* [batch, width], where a batch's outputs are to be written; NULL: no metric is computed. */
float *sl_scores_output(struct sl_scores *scores);
void sl_scores_begin(struct sl_scores *scores); /* begins an evaluation */
/* Adds the next batch, whose outputs are in sl_scores_output. A metric that fails is NaN until the next evaluation. */
void sl_scores_add(struct sl_scores *scores, const void *target, int64_t rows);
void sl_scores_result(const struct sl_scores *scores, struct sl_score out[SL_SCORES_MOST]);
enum { SL_UNDEFINED_TEXT = 96 };
/* "NaN or Inf in the predictions of 1 of 20 samples"; "": in none, or no metric is computed. */
void sl_scores_undefined(const struct sl_scores *scores, char out[SL_UNDEFINED_TEXT]);

/* How many numbers or labels a row has; for pixels, how many classes there are; else 1. */
int sl_scores_targets(const struct sl_scores *scores);
/* The metric's value for one of these; NaN: it is not defined, or is only for all together. */
double sl_scores_of(const struct sl_scores *scores, int metric, int target);

/* For several labels: out [targets] gets the probability from which on each is predicted, so that its F1 is largest in
 * the evaluation. It is 1/2 if no sample has the label. False: no metric kept the outputs; `out` stays. */
bool sl_scores_thresholds(const struct sl_scores *scores, double *out);

static inline double sl_metric_sigmoid(float logit)
{
	return 1 / (1 + exp(-(double)logit));
}

enum { SL_CONFUSION_MOST = 200 /* classes */, SL_METRIC_BINS = 15, SL_METRIC_ROC_POINTS = 200 };
/* From now on counts samples by class and prediction, and keeps outputs for the curves below. NOMEM. */
enum sl_err sl_scores_confuse(struct sl_scores *scores, int width, int64_t batch, struct sl_fail *fail) SL_MUST_CHECK;
/* [width, width]: samples of the row's class that were predicted as the column's; NULL: they were not counted, or one
 * has no prediction. */
const int64_t *sl_scores_confusion(const struct sl_scores *scores, int *width);

/* A point of a ROC curve, the false and the true positive rate: the shares of samples of other classes, and of this
 * one, that are predicted as it. */
struct sl_roc_point {
	double others, own;
};
/* The ROC curve of class `k` against the rest, from (0, 0) to (1, 1). Returns the number of points, which are only some
 * of a long curve's; *area is below the whole curve. 0: all samples are of the class, or none is, or outputs were not
 * kept. */
int sl_scores_roc(const struct sl_scores *scores, int k, struct sl_roc_point point[SL_METRIC_ROC_POINTS], double *area);

/* From now on row r of an evaluation is in group[r] of `groups`: intervals count groups. `group` is borrowed. NOMEM. */
enum sl_err sl_scores_group(struct sl_scores *scores, const int32_t *group, int groups, int width, int64_t batch,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Of groups: the interval of the accuracy, and *used, how many there are. */
struct sl_interval sl_scores_accuracy(const struct sl_scores *scores, int *used);
/* Of two classes: the interval of `auc`; unknown if outputs were not kept. */
struct sl_interval sl_scores_area(const struct sl_scores *scores);
/* Of numbers, once rmse is computed: the rmse of their own mean, as sl_scores_result has it; else NaN. */
double sl_scores_spread(const struct sl_scores *scores);

/* A bin of samples by their largest probability, upper bound included. */
struct sl_metric_bin {
	int64_t n;
	double probability, right; /* sums over them: of that probability; of right predictions */
};
/* False where outputs were not kept, or a probability is NaN. */
bool sl_scores_bins(const struct sl_scores *scores, struct sl_metric_bin bin[SL_METRIC_BINS]);

#endif
