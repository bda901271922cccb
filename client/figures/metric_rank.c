/* Metrics that need all outputs at once: those of ranks, and those of probabilities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/figures/metric_kinds.h"
#include "common/base/grow.h"

/* ---- all outputs and targets, row by row ---- */

static size_t row_floats(const struct sl_metric_state *s)
{
	return (size_t)s->width + 1;
}

static const float *row_at(const struct sl_metric_state *s, int64_t r)
{
	return s->kept + (size_t)r * row_floats(s);
}

/* Makes room for `rows` more. */
static enum sl_err need(struct sl_metric_state *s, int64_t rows)
{
	const size_t each = row_floats(s) * sizeof *s->kept;

	return sl_grow(&s->kept, &s->room, (size_t)(s->rows + rows), each) ? SL_OK : SL_ERR_NOMEM;
}

static void keep_row(struct sl_metric_state *s, const float *output, float target)
{
	float *row = s->kept + (size_t)s->rows++ * row_floats(s);

	memcpy(row, output, (size_t)s->width * sizeof *row);
	row[s->width] = target;
}

enum sl_err sl_metric_keep_labels(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	const int32_t *label = target;
	enum sl_err err = need(s, rows);

	for (int64_t r = 0; r < rows && !err; r++)
		keep_row(s, output + r * s->width, (float)label[r]); /* exact: there are fewer than 2^24 classes */
	return err;
}

enum sl_err sl_metric_keep_numbers(struct sl_metric_state *s, const float *output, const void *target, int64_t rows)
{
	const float *value = target;
	enum sl_err err = need(s, rows);

	for (int64_t r = 0; r < rows && !err; r++)
		keep_row(s, output + r * s->width, value[r]);
	return err;
}

enum sl_err sl_metric_keep_more(struct sl_metric_state *s, const struct sl_metric_state *behind)
{
	enum sl_err err = need(s, behind->rows);

	if (err || !behind->rows)
		return err;
	memcpy(s->kept + (size_t)s->rows * row_floats(s), behind->kept,
	       (size_t)behind->rows * row_floats(s) * sizeof *s->kept);
	s->rows += behind->rows;
	return SL_OK;
}

/* ---- probabilities of classes ---- */

/* log Σ exp of a row, in double. */
static double log_sum(const float *x, int width)
{
	double top = (double)x[0], sum = 0;

	for (int k = 1; k < width; k++)
		top = fmax(top, (double)x[k]);
	for (int k = 0; k < width; k++)
		sum += exp((double)x[k] - top);
	return top + log(sum);
}

struct scored {
	double p; /* probability, or a value that rises with it */
	bool yes; /* the sample is of the class */
};

static int by_falling_p(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	return (x->p < y->p) - (x->p > y->p);
}

/* The value for one class, from samples by falling probability, of which `yes` are of it. */
typedef double (*class_result)(const struct scored *s, int64_t n, int64_t yes);

/* The share of pairs, one of the class and one of the rest, in which the first has the larger probability; equal ones
 * count half. */
static double area(const struct scored *s, int64_t n, int64_t yes)
{
	double won = 0;
	int64_t above = 0; /* of the class, with larger probabilities */

	for (int64_t i = 0, end; i < n; i = end) {
		int64_t here = 0;

		for (end = i; end < n && (end == i || s[end].p == s[i].p); end++)
			here += s[end].yes;
		won += (double)(end - i - here) * ((double)above + (double)here / 2);
		above += here;
	}
	return won / ((double)yes * (double)(n - yes));
}

static double average_precision(const struct scored *s, int64_t n, int64_t yes)
{
	double sum = 0;
	int64_t found = 0;

	for (int64_t i = 0, end; i < n; i = end) {
		int64_t here = 0;

		for (end = i; end < n && (end == i || s[end].p == s[i].p); end++)
			here += s[end].yes;
		found += here;
		sum += (double)here * (double)found / (double)end;
	}
	return sum / (double)yes;
}

/* Fills scored [rows], sorted by falling probability of class k. Returns how many samples are of it; 0 if a value is
 * NaN, since there is no order then. sums [rows]: as log_sum. */
static int64_t score_class(const struct sl_metric_state *s, int k, const double *sums, struct scored *scored)
{
	int64_t yes = 0;

	for (int64_t r = 0; r < s->rows; r++) {
		const float *row = row_at(s, r);

		if (isnan(sums[r]))
			return 0;
		/* for two classes, by the difference of logits: rounding could make equal probabilities differ */
		scored[r] = (struct scored){s->width == 2 ? (k ? 1 : -1) * ((double)row[1] - (double)row[0])
							  : exp((double)row[k] - sums[r]),
					    row[s->width] == (float)k};
		yes += scored[r].yes;
	}
	qsort(scored, (size_t)s->rows, sizeof *scored, by_falling_p);
	return yes;
}

/* Allocates what score_class needs, and computes *sums; the caller frees both. NULL: there is no memory. */
static struct scored *scores_of(const struct sl_metric_state *s, double **sums)
{
	struct scored *scored = malloc(((size_t)s->rows + 1) * sizeof *scored);

	*sums = malloc(((size_t)s->rows + 1) * sizeof **sums);
	for (int64_t r = 0; r < s->rows && *sums; r++)
		(*sums)[r] = log_sum(row_at(s, r), s->width);
	if (scored && *sums)
		return scored;
	free(scored);
	free(*sums);
	*sums = NULL;
	return NULL;
}

/* For two classes the value of class 1, otherwise the mean over classes that some samples have and some do not. */
static double over_classes(const struct sl_metric_state *s, class_result result)
{
	double *sums, total = 0;
	struct scored *scored = scores_of(s, &sums);
	int classes = 0;

	for (int k = s->width == 2; k < s->width && scored; k++) {
		const int64_t yes = score_class(s, k, sums, scored);

		if (yes == 0 || yes == s->rows)
			continue;
		total += result(scored, s->rows, yes);
		classes++;
	}
	free(scored);
	free(sums);
	return classes ? total / classes : NAN;
}

/* Draws a point after each run of equal probabilities; in a long curve, only after some of them. */
static int curve(const struct scored *s, int64_t n, int64_t yes, struct sl_roc_point *point)
{
	const int64_t apart = n / (SL_METRIC_ROC_POINTS - 2) + 1;
	int64_t own = 0, drawn = 0;
	int points = 1;

	point[0] = (struct sl_roc_point){0, 0};
	for (int64_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && (end == i || s[end].p == s[i].p); end++)
			own += s[end].yes;
		if (end - drawn < apart && end < n)
			continue;
		point[points++] =
			(struct sl_roc_point){(double)(end - own) / (double)(n - yes), (double)own / (double)yes};
		drawn = end;
	}
	return points;
}

int sl_metric_roc(const struct sl_metric_state *s, int k, struct sl_roc_point *point, double *area_below)
{
	double *sums;
	struct scored *scored = scores_of(s, &sums);
	const int64_t yes = scored ? score_class(s, k, sums, scored) : 0;
	int points = 0;

	if (yes && yes < s->rows) {
		points = curve(scored, s->rows, yes, point);
		*area_below = area(scored, s->rows, yes);
	}
	free(scored);
	free(sums);
	return points;
}

static int by_rising_value(const void *a, const void *b)
{
	const struct sl_ranked *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

struct sl_interval sl_metric_area(const struct sl_metric_state *s, const int32_t *group, int groups)
{
	struct sl_interval area = {(double)NAN, (double)NAN};
	struct sl_ranked *ranked =
		s->width == 2 && !s->undefined ? malloc(((size_t)s->rows + 1) * sizeof *ranked) : NULL;

	if (!ranked)
		return area;
	for (int64_t r = 0; r < s->rows; r++) {
		const float *row = row_at(s, r);

		ranked[r] = (struct sl_ranked){(double)row[1] - (double)row[0], row[2] > 0.5f, group ? group[r] : 0,
					       .won = 0};
	}
	qsort(ranked, (size_t)s->rows, sizeof *ranked, by_rising_value);
	area = sl_interval_area(ranked, s->rows, group ? groups : 0);
	free(ranked);
	return area;
}

double sl_metric_auc(const struct sl_metric_state *s)
{
	return over_classes(s, area);
}

double sl_metric_average_precision(const struct sl_metric_state *s)
{
	return over_classes(s, average_precision);
}

double sl_metric_threshold(const struct sl_metric_state *s)
{
	struct scored *scored = malloc(((size_t)s->rows + 1) * sizeof *scored);
	double best = 0, at = 0.5;
	int64_t yes = 0, right = 0;

	for (int64_t r = 0; r < s->rows && scored; r++) {
		const float *row = row_at(s, r);

		scored[r] = (struct scored){sl_metric_sigmoid(row[1]), row[2] == 1};
		yes += scored[r].yes;
	}
	if (scored)
		qsort(scored, (size_t)s->rows, sizeof *scored, by_falling_p);
	for (int64_t i = 0, end; i < s->rows && scored; i = end) {
		double f1;

		for (end = i; end < s->rows && (end == i || scored[end].p == scored[i].p); end++)
			right += scored[end].yes;
		f1 = 2 * (double)right / (double)(yes + end);
		if (f1 > best && !isnan(scored[i].p)) {
			best = f1;
			at = scored[i].p;
		}
	}
	free(scored);
	return at;
}

bool sl_metric_bins(const struct sl_metric_state *s, struct sl_metric_bin bin[SL_METRIC_BINS])
{
	memset(bin, 0, SL_METRIC_BINS * sizeof *bin);
	for (int64_t r = 0; r < s->rows; r++) {
		const float *row = row_at(s, r);
		int top = 0, at;
		double p;

		for (int k = 1; k < s->width; k++)
			top = row[k] > row[top] ? k : top;
		p = exp((double)row[top] - log_sum(row, s->width));
		if (!isfinite(p))
			return false;
		at = (int)ceil(p * SL_METRIC_BINS) - 1; /* the upper bound is in the bin */
		at = at < 0 ? 0 : at < SL_METRIC_BINS ? at : SL_METRIC_BINS - 1;
		bin[at].n++;
		bin[at].probability += p;
		bin[at].right += row[s->width] == (float)top;
	}
	return true;
}

double sl_metric_calibration(const struct sl_metric_state *s)
{
	struct sl_metric_bin bin[SL_METRIC_BINS];
	double sum = 0;

	if (!sl_metric_bins(s, bin))
		return NAN;
	for (int b = 0; b < SL_METRIC_BINS; b++)
		sum += fabs(bin[b].right - bin[b].probability);
	return s->rows ? sum / (double)s->rows : NAN;
}

/* ---- ranks of numbers ---- */

struct place {
	float value;
	int64_t at;
};

static int by_value(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->value != y->value ? (x->value > y->value) - (x->value < y->value) : (x->at > y->at) - (x->at < y->at);
}

/* Fills rank [n] for column `which`; equal values have the mean of their ranks. */
static void ranks_of(const struct sl_metric_state *s, int which, struct place *place, double *rank)
{
	for (int64_t i = 0; i < s->rows; i++)
		place[i] = (struct place){row_at(s, i)[which], i};
	qsort(place, (size_t)s->rows, sizeof *place, by_value);
	for (int64_t i = 0, end; i < s->rows; i = end) {
		for (end = i + 1; end < s->rows && place[end].value == place[i].value;)
			end++;
		for (int64_t k = i; k < end; k++)
			rank[place[k].at] = (double)(i + end - 1) / 2;
	}
}

double sl_metric_spearman(const struct sl_metric_state *s)
{
	size_t n = (size_t)s->rows;
	struct place *place = malloc((n + 1) * sizeof *place);
	double *rank = malloc((2 * n + 1) * sizeof *rank), result = NAN;
	struct sl_metric_state sums = {0};

	if (place && rank) {
		ranks_of(s, 0, place, rank);
		ranks_of(s, 1, place, rank + n);
		for (size_t i = 0; i < n; i++)
			sl_metric_moment(&sums, rank[i], rank[n + i]);
		result = sl_metric_pearson(&sums);
	}
	free(place);
	free(rank);
	return result;
}
