#include "client/run/metric_kinds.h"

#include <math.h>
#include <stdlib.h>

enum { TOP = 5, RIGHT = 0, ROWS = 1 };

enum sl_err sl_metric_begin(const struct sl_metric *m, struct sl_metric_state *s, int width)
{
	*s = (struct sl_metric_state){.width = width};
	return m->begin(s, width);
}

void sl_metric_end(struct sl_metric_state *s)
{
	free(s->count);
	free(s->kept);
	*s = (struct sl_metric_state){0};
}

/* ---- metrics that count ---- */

static enum sl_err begin_counts(struct sl_metric_state *s, int counts)
{
	s->count = calloc((size_t)counts, sizeof *s->count);
	s->counts = counts;
	return s->count ? SL_OK : SL_ERR_NOMEM;
}

static enum sl_err merge_counts(struct sl_metric_state *s, const struct sl_metric_state *behind)
{
	for (int i = 0; i < s->counts; i++)
		s->count[i] += behind->count[i];
	return SL_OK;
}

static enum sl_err begin_share(struct sl_metric_state *s, int width)
{
	return begin_counts(s, 2);
}

static double share_result(const struct sl_metric_state *s)
{
	return s->count[ROWS] ? (double)s->count[RIGHT] / (double)s->count[ROWS] : NAN;
}

/* The first of the largest, as in the loss. */
int sl_metric_largest(const float *x, int width)
{
	int top = 0;

	for (int k = 1; k < width; k++)
		if (x[k] > x[top])
			top = k;
	return top;
}

static enum sl_err add_accuracy(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	const int32_t *label = target;

	for (int64_t r = 0; r < rows; r++)
		s->count[RIGHT] += sl_metric_largest(output + r * s->width, s->width) == label[r];
	s->count[ROWS] += rows;
	return SL_OK;
}

static bool among_top(const float *x, int width, int label)
{
	int before = 0;

	for (int k = 0; k < width; k++)
		before += x[k] > x[label] || (x[k] == x[label] && k < label);
	return before < TOP && !isnan(x[label]);
}

static enum sl_err add_top(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	const int32_t *label = target;

	for (int64_t r = 0; r < rows; r++)
		s->count[RIGHT] += among_top(output + r * s->width, s->width, label[r]);
	s->count[ROWS] += rows;
	return SL_OK;
}

/* Counts by class: samples that are rightly of it, that are of it, that are said to be of it. */
static enum sl_err begin_confusion(struct sl_metric_state *s, int width)
{
	return begin_counts(s, 3 * width);
}

static enum sl_err add_confusion(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	int64_t *right = s->count, *is = right + s->width, *said = is + s->width;
	const int32_t *label = target;

	for (int64_t r = 0; r < rows; r++) {
		int top = sl_metric_largest(output + r * s->width, s->width);

		right[label[r]] += top == label[r];
		is[label[r]]++;
		said[top]++;
	}
	return SL_OK;
}

static double matthews_result(const struct sl_metric_state *s)
{
	const int64_t *right = s->count, *is = right + s->width, *said = is + s->width;
	double n = 0, hits = 0, both = 0, is2 = 0, said2 = 0, root;

	for (int k = 0; k < s->width; k++) {
		n += (double)is[k];
		hits += (double)right[k];
		both += (double)is[k] * (double)said[k];
		is2 += (double)is[k] * (double)is[k];
		said2 += (double)said[k] * (double)said[k];
	}
	if (n == 0)
		return NAN;
	root = sqrt((n * n - is2) * (n * n - said2));
	return root > 0 ? (hits * n - both) / root : 0;
}

/* Of one class, each a share: rightly of it, of it, said to be of it, and all samples. */
typedef double (*class_share)(double right, double is, double said, double n);

static double f1_of(double right, double is, double said, double n)
{
	return 2 * right / (is + said);
}

static double precision_of(double right, double is, double said, double n)
{
	return said > 0 ? right / said : 0;
}

static double recall_of(double right, double is, double said, double n)
{
	return is > 0 ? right / is : 0;
}

static double specificity_of(double right, double is, double said, double n)
{
	return n > is ? (n - is - said + right) / (n - is) : 0;
}

/* Of class k. `n`: all samples. */
static double share_of(const struct sl_metric_state *s, int k, class_share share, double n)
{
	const int64_t *right = s->count, *is = right + s->width, *said = is + s->width;

	return share((double)right[k], (double)is[k], (double)said[k], n);
}

/* Of two classes that of class 1, else the mean of the classes that occur; `is_alone`: in labels, not in answers. */
static double class_mean(const struct sl_metric_state *s, class_share share, bool both, bool is_alone)
{
	const int64_t *is = s->count + s->width, *said = is + s->width;
	double sum = 0, n = 0;
	int classes = 0;

	for (int k = 0; k < s->width; k++)
		n += (double)is[k];
	for (int k = s->width == 2 && !both; k < s->width; k++) {
		if (is[k] + (is_alone ? 0 : said[k]) == 0)
			continue;
		sum += share_of(s, k, share, n);
		classes++;
	}
	return classes ? sum / classes : n > 0 ? 0 : NAN;
}

static double iou_of(double right, double is, double said, double n)
{
	return right / (is + said - right);
}

static double iou_result(const struct sl_metric_state *s)
{
	return class_mean(s, iou_of, true, false);
}

static double dice_result(const struct sl_metric_state *s)
{
	return class_mean(s, f1_of, true, false);
}

/* 0 / 0, which is none, where the class does not occur. */
static double iou_of_class(const struct sl_metric_state *s, int k)
{
	return share_of(s, k, iou_of, 0);
}

static double dice_of_class(const struct sl_metric_state *s, int k)
{
	return share_of(s, k, f1_of, 0);
}

static double f1_result(const struct sl_metric_state *s)
{
	return class_mean(s, f1_of, false, false);
}

static double precision_result(const struct sl_metric_state *s)
{
	return class_mean(s, precision_of, false, false);
}

static double recall_result(const struct sl_metric_state *s)
{
	return class_mean(s, recall_of, false, false);
}

static double specificity_result(const struct sl_metric_state *s)
{
	return class_mean(s, specificity_of, false, false);
}

static double balanced_result(const struct sl_metric_state *s)
{
	return class_mean(s, recall_of, true, true);
}

/* ---- metrics that correlate ---- */

static enum sl_err begin_nothing(struct sl_metric_state *s, int width)
{
	return SL_OK;
}

void sl_metric_moment(struct sl_metric_state *s, double x, double y)
{
	double dx = x - s->mean[0], dy = y - s->mean[1];

	s->n++;
	s->mean[0] += dx / s->n;
	s->mean[1] += dy / s->n;
	s->square[0] += dx * (x - s->mean[0]);
	s->square[1] += dy * (y - s->mean[1]);
	s->product += dx * (y - s->mean[1]);
}

static enum sl_err add_moments(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	const float *value = target;

	for (int64_t r = 0; r < rows; r++)
		sl_metric_moment(s, (double)output[r], (double)value[r]);
	return SL_OK;
}

/* Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979. */
static enum sl_err merge_moments(struct sl_metric_state *s, const struct sl_metric_state *behind)
{
	double n = s->n + behind->n, d[2], weight;

	if (behind->n == 0)
		return SL_OK;
	weight = s->n * behind->n / n;
	for (int i = 0; i < 2; i++) {
		d[i] = behind->mean[i] - s->mean[i];
		s->square[i] += behind->square[i] + d[i] * d[i] * weight;
		s->mean[i] += d[i] * behind->n / n;
	}
	s->product += behind->product + d[0] * d[1] * weight;
	s->n = n;
	return SL_OK;
}

double sl_metric_pearson(const struct sl_metric_state *s)
{
	double root = sqrt(s->square[0]) * sqrt(s->square[1]);

	return root > 0 ? s->product / root : NAN;
}

/* ---- metrics of errors: n, and in mean[0] the sum of their sizes ---- */

static enum sl_err add_errors(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	const float *value = target;

	for (int64_t r = 0; r < rows; r++)
		s->mean[0] += fabs((double)output[r] - (double)value[r]);
	s->n += (double)rows;
	return SL_OK;
}

static enum sl_err merge_errors(struct sl_metric_state *s, const struct sl_metric_state *behind)
{
	s->mean[0] += behind->mean[0];
	s->n += behind->n;
	return SL_OK;
}

static double mae_result(const struct sl_metric_state *s)
{
	return s->n > 0 ? s->mean[0] / s->n : NAN;
}

/* Σ (output − target)², of moments: output in [0], target in [1]. */
static double square_error(const struct sl_metric_state *s)
{
	const double apart = s->mean[0] - s->mean[1];

	return fmax(0, s->square[0] + s->square[1] - 2 * s->product + s->n * apart * apart);
}

static double rmse_result(const struct sl_metric_state *s)
{
	return s->n > 0 ? sqrt(square_error(s) / s->n) : NAN;
}

static double r2_result(const struct sl_metric_state *s)
{
	return s->square[1] > 0 ? 1 - square_error(s) / s->square[1] : NAN;
}

/* clang-format off */
#define COUNTED begin_confusion, add_confusion, merge_counts
#define MOMENTS begin_nothing, add_moments, merge_moments
#define KEPT    begin_nothing, sl_metric_keep_labels, sl_metric_keep_more
enum {
	CLASSES = 1 << SL_LEARN_CLASSES, LABELS = 1 << SL_LEARN_LABELS, EITHER = CLASSES | LABELS,
	NUMBERS = 1 << SL_LEARN_NUMBER, PIXELS = 1 << SL_LEARN_PIXELS
};
const struct sl_metric sl_metrics[] = {
	{"accuracy", CLASSES | PIXELS, false, true, false, 0, begin_share, add_accuracy, merge_counts, share_result, NULL},
	{"top5", CLASSES, false, true, false, TOP + 1, begin_share, add_top, merge_counts, share_result, NULL},
	{"matthews", EITHER, false, false, false, 0, COUNTED, matthews_result, NULL},
	{"f1", EITHER, false, false, false, 0, COUNTED, f1_result, NULL},
	{"precision", EITHER, false, false, false, 0, COUNTED, precision_result, NULL},
	{"recall", EITHER, false, false, false, 0, COUNTED, recall_result, NULL},
	{"specificity", EITHER, false, false, false, 0, COUNTED, specificity_result, NULL},
	{"balanced_accuracy", EITHER | PIXELS, false, false, false, 0, COUNTED, balanced_result, NULL},
	{"auc", EITHER, false, false, false, 0, KEPT, sl_metric_auc, NULL},
	{"average_precision", EITHER, false, false, false, 0, KEPT, sl_metric_average_precision, NULL},
	{"calibration_error", EITHER, false, false, true, 0, KEPT, sl_metric_calibration, NULL},
	{"f1_micro", LABELS, true, false, false, 0, COUNTED, f1_result, NULL},
	{"precision_micro", LABELS, true, false, false, 0, COUNTED, precision_result, NULL},
	{"recall_micro", LABELS, true, false, false, 0, COUNTED, recall_result, NULL},
	{"mean_iou", PIXELS, false, false, false, 0, COUNTED, iou_result, iou_of_class},
	{"dice", PIXELS, false, false, false, 0, COUNTED, dice_result, dice_of_class},
	{"pearson", NUMBERS, false, false, false, 0, MOMENTS, sl_metric_pearson, NULL},
	{"spearman", NUMBERS, false, false, false, 0, begin_nothing, sl_metric_keep_numbers, sl_metric_keep_more, sl_metric_spearman, NULL},
	{"mae", NUMBERS, false, false, true, 0, begin_nothing, add_errors, merge_errors, mae_result, NULL},
	{"rmse", NUMBERS, false, false, true, 0, MOMENTS, rmse_result, NULL},
	{"r2", NUMBERS, false, false, false, 0, MOMENTS, r2_result, NULL},
};
/* clang-format on */
const int sl_metric_count = sizeof sl_metrics / sizeof sl_metrics[0];
_Static_assert(sizeof sl_metrics / sizeof sl_metrics[0] <= SL_SCORES_MOST, "a run may ask for all of them");

const struct sl_metric sl_metric_perplexity = {.name = "perplexity", .of = 1 << SL_LEARN_MASKED};
