#include "client/figures/metric_kinds.h"

#include <math.h>
#include <stdlib.h>

enum { TOP = 5, RIGHT = 0, ROWS = 1 };

enum sl_err sl_metric_begin(const struct sl_metric *m, struct sl_metric_state *s, int width)
{
	*s = (struct sl_metric_state){.of = m, .width = width, .counts = m->counts + m->per_class * width};
	if (s->counts)
		s->count = calloc((size_t)s->counts, sizeof *s->count);
	return s->counts && !s->count ? SL_ERR_NOMEM : SL_OK;
}

void sl_metric_end(struct sl_metric_state *s)
{
	free(s->count);
	free(s->kept);
	*s = (struct sl_metric_state){0};
}

bool sl_metric_is_defined(enum sl_learn_kind kind, const float *x, int width)
{
	float top = x[0];

	for (int k = 0; k < width; k++) {
		if (isnan(x[k]) || (kind == SL_LEARN_NUMBER && isinf(x[k])))
			return false;
		top = x[k] > top ? x[k] : top;
	}
	return isfinite(top) || (kind == SL_LEARN_LABELS && top < 0);
}

enum sl_err sl_metric_add(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	const enum sl_learn_kind kind = s->of->of == 1 << SL_LEARN_NUMBER ? SL_LEARN_NUMBER : SL_LEARN_CLASSES;

	for (int64_t r = 0; r < rows && !s->undefined; r++)
		s->undefined = !sl_metric_is_defined(kind, output + r * s->width, s->width) ||
			       (kind == SL_LEARN_NUMBER && !isfinite(((const float *)target)[r]));
	return s->undefined ? SL_OK : s->of->add(s, output, target, rows);
}

enum sl_err sl_metric_merge(struct sl_metric_state *s, const struct sl_metric_state *behind)
{
	s->undefined |= behind->undefined;
	return s->undefined ? SL_OK : s->of->merge(s, behind);
}

double sl_metric_result(const struct sl_metric_state *s)
{
	return s->undefined ? NAN : s->of->result(s);
}

/* ---- metrics that count ---- */

static enum sl_err merge_counts(struct sl_metric_state *s, const struct sl_metric_state *behind)
{
	for (int i = 0; i < s->counts; i++)
		s->count[i] += behind->count[i];
	return SL_OK;
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

/* Counts by class: samples rightly predicted as it; of it; predicted as it. */
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

static double iou_of(double right, double is, double said, double n)
{
	return right / (is + said - right);
}

/* The value for class k. `n`: all samples. */
static double share_of(const struct sl_metric_state *s, int k, double n)
{
	const int64_t *right = s->count, *is = right + s->width, *said = is + s->width;

	return s->of->class_share((double)right[k], (double)is[k], (double)said[k], n);
}

/* The metrics that have this, those of pixels, do not depend on `n`. */
double sl_metric_of_class(const struct sl_metric_state *s, int k)
{
	return s->undefined ? NAN : share_of(s, k, 0);
}

/* For two classes the value of class 1, unless `both`; otherwise the mean over the classes that occur. */
static double class_mean(const struct sl_metric_state *s)
{
	const int64_t *is = s->count + s->width, *said = is + s->width;
	double sum = 0, n = 0;
	int classes = 0;

	for (int k = 0; k < s->width; k++)
		n += (double)is[k];
	for (int k = s->width == 2 && !s->of->both; k < s->width; k++) {
		if (is[k] + (s->of->in_label ? 0 : said[k]) == 0)
			continue;
		sum += share_of(s, k, n);
		classes++;
	}
	if (classes || n == 0)
		return classes ? sum / classes : NAN;
	return fmax(0, share_of(s, 1, n)); /* class 1 does not occur: F1 would be 0 / 0, and is 0 */
}

/* ---- metrics that correlate ---- */

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

/* Σ (output − target)² from the moments: output in [0], target in [1]. */
static double square_error(const struct sl_metric_state *s)
{
	const double apart = s->mean[0] - s->mean[1],
		     sum = s->square[0] + s->square[1] - 2 * s->product + s->n * apart * apart;

	return sum < 0 ? 0 : sum; /* by rounding; fmax would make 0 of NaN, too */
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
#define SHARE(add) add, merge_counts, share_result, .counts = 2
#define MEAN(of) add_confusion, merge_counts, class_mean, .per_class = 3, .class_share = of
#define MOMENTS add_moments, merge_moments
#define KEPT sl_metric_keep_labels, sl_metric_keep_more
enum {
	CLASSES = 1 << SL_LEARN_CLASSES, LABELS = 1 << SL_LEARN_LABELS, EITHER = CLASSES | LABELS,
	NUMBERS = 1 << SL_LEARN_NUMBER, PIXELS = 1 << SL_LEARN_PIXELS
};
const struct sl_metric sl_metrics[] = {
	{"accuracy", CLASSES | PIXELS, false, true, false, 0, SHARE(add_accuracy)},
	{"top5", CLASSES, false, true, false, TOP + 1, SHARE(add_top)},
	{"matthews", EITHER, false, false, false, 0, add_confusion, merge_counts, .result = matthews_result, .per_class = 3},
	{"f1", EITHER, false, false, false, 0, MEAN(f1_of)},
	{"precision", EITHER, false, false, false, 0, MEAN(precision_of)},
	{"recall", EITHER, false, false, false, 0, MEAN(recall_of)},
	{"specificity", EITHER, false, false, false, 0, MEAN(specificity_of)},
	{"balanced_accuracy", EITHER | PIXELS, false, false, false, 0, MEAN(recall_of), .both = true, .in_label = true},
	{"auc", EITHER, false, false, false, 0, KEPT, .result = sl_metric_auc},
	{"average_precision", EITHER, false, false, false, 0, KEPT, .result = sl_metric_average_precision},
	{"calibration_error", EITHER, false, false, true, 0, KEPT, .result = sl_metric_calibration},
	{"f1_micro", LABELS, true, false, false, 0, MEAN(f1_of)},
	{"precision_micro", LABELS, true, false, false, 0, MEAN(precision_of)},
	{"recall_micro", LABELS, true, false, false, 0, MEAN(recall_of)},
	{"mean_iou", PIXELS, false, false, false, 0, MEAN(iou_of), .both = true, .of_class = true},
	{"dice", PIXELS, false, false, false, 0, MEAN(f1_of), .both = true, .of_class = true},
	{"pearson", NUMBERS, false, false, false, 0, MOMENTS, .result = sl_metric_pearson},
	{"spearman", NUMBERS, false, false, false, 0, sl_metric_keep_numbers, sl_metric_keep_more, .result = sl_metric_spearman},
	{"mae", NUMBERS, false, false, true, 0, add_errors, merge_errors, .result = mae_result},
	{"rmse", NUMBERS, false, false, true, 0, MOMENTS, .result = rmse_result},
	{"r2", NUMBERS, false, false, false, 0, MOMENTS, .result = r2_result},
};
/* clang-format on */
const int sl_metric_count = sizeof sl_metrics / sizeof sl_metrics[0];
_Static_assert(sizeof sl_metrics / sizeof sl_metrics[0] <= SL_SCORES_MOST, "a run may ask for all of them");

const struct sl_metric sl_metric_perplexity = {.name = "perplexity", .of = 1 << SL_LEARN_MASKED};
