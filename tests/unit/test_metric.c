/* Metrics against their formulas, computed by Python on the same data, over a whole set and merged from pieces. */

#include <math.h>

#include "client/figures/by_class.h"
#include "client/figures/metric.h"
#include "common/conf/check.h"
#include "tests/support/unit.h"

enum { MOST = 200, WIDTH = 7 };

static float output[MOST * WIDTH], number[MOST * WIDTH];
static int32_t label[MOST];

/* o[i][k] = (37 i + 61 k + 7 i k) % 101, plus 40 at the label of every third sample; label[i] = (i² // 3 + i) % K */
static void fill_classes(int n, int width)
{
	for (int i = 0; i < n; i++) {
		label[i] = (i * i / 3 + i) % width;
		for (int k = 0; k < width; k++)
			output[i * width + k] = (float)((i * 37 + k * 61 + i * k * 7) % 101);
		if (i % 3 == 0)
			output[i * width + label[i]] += 40;
	}
}

/* x[i] = (37 i % 29) / 4, y[i] = (37 i % 29) / 2 − 11 i % 13 */
static void fill_numbers(int n)
{
	for (int i = 0; i < n; i++) {
		output[i] = (float)(i * 37 % 29) / 4;
		number[i] = (float)(i * 37 % 29) / 2 - (float)(i * 11 % 13);
	}
}

static const struct sl_metric *metric(const char *name)
{
	for (int i = 0; i < sl_metric_count; i++)
		if (strcmp(sl_metrics[i].name, name) == 0)
			return &sl_metrics[i];
	fail_msg("no metric %s", name);
	return NULL;
}

static void *targets(const struct sl_metric *m, int at)
{
	return m->of & 1 << SL_LEARN_NUMBER ? (void *)(number + at) : (void *)(label + at);
}

/* The metric over pieces of `piece` samples, merged in their order. */
static double merged(const char *name, int n, int width, int piece)
{
	const struct sl_metric *m = metric(name);
	struct sl_metric_state all, part;
	double result;

	assert_int_equal(sl_metric_begin(m, &all, width), SL_OK);
	for (int at = 0; at < n; at += piece) {
		int rows = n - at < piece ? n - at : piece;

		assert_int_equal(sl_metric_begin(m, &part, width), SL_OK);
		assert_int_equal(sl_metric_add(&part, output + at * width, targets(m, at), rows), SL_OK);
		assert_int_equal(sl_metric_merge(&all, &part), SL_OK);
		sl_metric_end(&part);
	}
	result = sl_metric_result(&all);
	sl_metric_end(&all);
	sl_metric_end(&all);
	return result;
}

static void is(const char *name, int n, int width, double wanted)
{
	for (int piece = 1; piece <= n; piece += piece < 3 ? 1 : 13) {
		double got = merged(name, n, width, piece);

		if (!(fabs(got - wanted) < 1e-12))
			fail_msg("%s in pieces of %d: %.17g, not %.17g", name, piece, got, wanted);
	}
}

/* accuracy  sum(argmax(o[i]) == label[i]) / n
 * top5      sum(sorted(range(K), key=lambda k: (-o[i][k], k)).index(label[i]) < 5) / n
 * with C[label][argmax], t its rows' sums, q its columns', c its trace:
 * matthews  (c n − Σ t q) / √((n² − Σ q²)(n² − Σ t²))
 * f1        the mean of 2 C[k][k] / (t[k] + q[k]); of two classes that of class 1 */
static void classes_are_as_by_their_formulas(void **state)
{
	fill_classes(200, 7);
	is("accuracy", 200, 7, 0.285);
	is("top5", 200, 7, 0.765);
	is("matthews", 200, 7, 0.1632059645733744);
	is("f1", 200, 7, 0.2450635726208696);
	fill_classes(150, 2);
	is("accuracy", 150, 2, 0.6);
	is("top5", 150, 2, 1.0);
	is("matthews", 150, 2, 0.3118724702341802); /* also (TP TN − FP FN) / √((TP+FP)(TP+FN)(TN+FP)(TN+FN)) */
	is("f1", 150, 2, 0.6153846153846154);
}

/* o[i][k] = (37 j² + 61 k² + 7 j k + 13 j) % 257 with j = i // 2. Every sixth sample and the one after it have 80
 * more at their label. All is divided by 16, so that probabilities differ. Every row occurs twice, with other
 * labels: ties. */
static void fill_scores(int n, int width)
{
	fill_classes(n, width); /* for the labels */
	for (int i = 0; i < n; i++)
		for (int k = 0, j = i / 2; k < width; k++)
			output[i * width + k] = (float)((j * j * 37 + k * k * 61 + j * k * 7 + j * 13) % 257) / 16;
	for (int i = 0; i < n - 1; i += 6) {
		output[i * width + label[i]] += 80 / 16;
		memcpy(output + (i + 1) * width, output + i * width, (size_t)width * sizeof *output);
	}
}

/* The values of sklearn.metrics (tests/golden/make_metrics.py). */
static void classes_are_as_sklearns(void **state)
{
	fill_scores(200, 7);
	is("accuracy", 200, 7, 0.205);
	is("matthews", 200, 7, 0.07960813306216119);
	is("f1", 200, 7, 0.1753332340557778);
	is("precision", 200, 7, 0.2192906508695982);
	is("recall", 200, 7, 0.1688085008439466);
	is("specificity", 200, 7, 0.8692222172856801);
	is("balanced_accuracy", 200, 7, 0.1969432509846044);
	is("auc", 200, 7, 0.573516851230491);
	is("average_precision", 200, 7, 0.2360044119237756);
	is("calibration_error", 200, 7, 0.5175728776257024);
	fill_scores(150, 2);
	is("accuracy", 150, 2, 0.4933333333333333);
	is("matthews", 150, 2, 0.07796811755854505);
	is("f1", 150, 2, 0.5128205128205129);
	is("precision", 150, 2, 0.7142857142857143);
	is("recall", 150, 2, 0.4);
	is("specificity", 150, 2, 0.68);
	is("balanced_accuracy", 150, 2, 0.54);
	is("auc", 150, 2, 0.5506);
	is("average_precision", 150, 2, 0.71545523046994);
	is("calibration_error", 150, 2, 0.4570811687309499);
}

/* A config accepts exactly the names in sl_metrics. */
static void a_config_may_name_them(void **state)
{
	char why[SL_CONF_WHY];

	for (int i = 0; i < sl_metric_count; i++)
		assert_null(sl_conf_check_metric(sl_metrics[i].name, why));
	assert_non_null(sl_conf_check_metric("f2", why));
	assert_non_null(strstr(why, "recall_micro, mean_iou, dice, or of numbers pearson"));
}

/* pearson Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²); spearman: that of the ranks, where equal
 * values share their mean rank */
static void numbers_are_as_by_their_formulas(void **state)
{
	fill_numbers(100);
	is("pearson", 100, 1, 0.7427485571124381);
	is("spearman", 100, 1, 0.7283508861958328);
	is("mae", 100, 1, 4.11);
	is("rmse", 100, 1, 5.044303718056636);
	is("r2", 100, 1, 0.2032876712328768);
}

/* Among equal outputs the class with the lowest index is predicted, as in the loss. */
static void ties_go_to_the_first(void **state)
{
	for (int i = 0; i < WIDTH * WIDTH; i++)
		output[i] = 1;
	for (int i = 0; i < WIDTH; i++)
		label[i] = i;
	is("accuracy", WIDTH, WIDTH, 1.0 / WIDTH);
	is("top5", WIDTH, WIDTH, 5.0 / WIDTH);
}

static struct sl_scores *open_scores(const char *const *asked, int n, int width)
{
	struct sl_scores *scores = NULL;
	struct sl_fail fail = {0};

	if (sl_scores_open(&scores, asked, n, &sl_learn_tasks[SL_LEARN_CLASSES], width, 50, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return scores;
}

static void what_is_not_defined_is_nan_or_zero(void **state)
{
	for (int i = 0; i < sl_metric_count; i++)
		assert_true(isnan(merged(sl_metrics[i].name, 0, 2, 1)));
	for (int i = 0; i < 4; i++) { /* one class only, always predicted */
		label[i] = 0;
		output[2 * i] = 1;
		output[2 * i + 1] = 0;
	}
	is("matthews", 4, 2, 0);
	is("f1", 4, 2, 0);
	for (int i = 0; i < 4; i++)
		output[i] = number[i] = 1;
	assert_true(isnan(merged("pearson", 4, 1, 2)) && isnan(merged("spearman", 4, 1, 2)));
}

/* ---- all metrics against a plain reference in double: any data, in pieces of any size ---- */

enum { CASE_WIDTH = 7 };

/* One set of data: outputs and targets of `n` samples and `width` classes, or numbers where width is 1. */
struct data {
	int n, width;
};

/* Draws a set. Outputs are of few values in every third one, so there are ties; classes may lack samples; one place of
 * every second set is not finite. */
static struct data draw(unsigned at, bool numbers)
{
	static const float odd[] = {NAN, INFINITY, -INFINITY, 3.4e38f};
	struct data d = {at % 5 == 0 ? (int)(at / 5 % 3) : (int)(at * 7 % 37) + 2,
			 numbers ? 1 : 2 + (int)(at / 2 % 2) * (CASE_WIDTH - 2)};

	srand(at);
	for (int i = 0; i < d.n; i++) {
		label[i] = at % 7 == 3 ? 0 : rand() % d.width;
		number[i] = at % 7 == 3 ? 2 : (float)(rand() % 1000 - 500) / 64;
		for (int k = 0; k < d.width; k++)
			output[i * d.width + k] =
				at % 3 == 0 ? (float)(rand() % 3) : (float)(rand() % 4000 - 2000) / 512;
	}
	if (at % 2 && d.n && numbers && at % 8 == 1)
		number[rand() % d.n] = odd[at / 8 % 3];
	else if (at % 2 && d.n)
		output[rand() % (d.n * d.width)] = odd[at / 2 % 4];
	return d;
}

/* Whether all samples have a prediction, and a target. */
static bool are_defined(struct data d, bool numbers)
{
	for (int i = 0; i < d.n; i++) {
		float top = -INFINITY;

		for (int k = 0; k < d.width; k++) {
			const float x = output[i * d.width + k];

			if (isnan(x) || x == INFINITY || (numbers && !isfinite(x)))
				return false;
			top = x > top ? x : top;
		}
		if (top == -INFINITY || (numbers && !isfinite(number[i])))
			return false;
	}
	return d.n > 0;
}

static int top_of(struct data d, int i)
{
	int top = 0;

	for (int k = 1; k < d.width; k++)
		top = output[i * d.width + k] > output[i * d.width + top] ? k : top;
	return top;
}

static double logit(struct data d, int i, int k)
{
	return (double)output[i * d.width + k];
}

/* What ranks samples by class k: of two classes the difference of logits, else the probability. */
static double rank_by(struct data d, int i, int k)
{
	double top = logit(d, i, top_of(d, i)), sum = 0;

	if (d.width == 2)
		return k ? logit(d, i, 1) - logit(d, i, 0) : logit(d, i, 0) - logit(d, i, 1);
	for (int c = 0; c < d.width; c++)
		sum += exp(logit(d, i, c) - top);
	return exp(logit(d, i, k) - (top + log(sum)));
}

/* The metric for class k against the rest; NaN: not defined. */
static double rank_metric(struct data d, int k, bool area)
{
	double pairs = 0, won = 0, precisions = 0, yes = 0;

	for (int i = 0; i < d.n; i++) {
		double above = 0, hits = 0;

		if (label[i] != k)
			continue;
		yes++;
		for (int j = 0; j < d.n; j++) {
			const double mine = rank_by(d, i, k), other = rank_by(d, j, k);

			above += other >= mine;
			hits += other >= mine && label[j] == k;
			pairs += label[j] != k;
			won += label[j] == k ? 0 : mine > other ? 1 : mine == other ? 0.5 : 0;
		}
		precisions += hits / above;
	}
	if (yes == 0 || yes == d.n)
		return NAN;
	return area ? won / pairs : precisions / yes;
}

static double ranked(struct data d, bool area)
{
	double sum = 0;
	int classes = 0;

	for (int k = d.width == 2; k < d.width; k++) {
		const double one = rank_metric(d, k, area);

		sum += isnan(one) ? 0 : one;
		classes += !isnan(one);
	}
	return classes ? sum / classes : NAN;
}

static double calibration(struct data d)
{
	double apart[SL_METRIC_BINS] = {0}, sum = 0;

	for (int i = 0; i < d.n; i++) {
		double p = 0;

		for (int k = 0; k < d.width; k++)
			p += exp(logit(d, i, k) - logit(d, i, top_of(d, i)));
		p = 1 / p;
		apart[(int)fmin(fmax(ceil(p * SL_METRIC_BINS) - 1, 0), SL_METRIC_BINS - 1)] +=
			(top_of(d, i) == label[i]) - p;
	}
	for (int b = 0; b < SL_METRIC_BINS; b++)
		sum += fabs(apart[b]);
	return sum / d.n;
}

/* A metric that is a share for each class: for class 1 of two, else a mean. */
static double shares(struct data d, const char *name)
{
	const bool both =
		strcmp(name, "balanced_accuracy") == 0 || strcmp(name, "mean_iou") == 0 || strcmp(name, "dice") == 0;
	double sum = 0;
	int classes = 0;

	for (int k = d.width == 2 && !both; k < d.width; k++) {
		double right = 0, is = 0, said = 0, x;

		for (int i = 0; i < d.n; i++) {
			is += label[i] == k;
			said += top_of(d, i) == k;
			right += label[i] == k && top_of(d, i) == k;
		}
		if (is + (strcmp(name, "balanced_accuracy") ? said : 0) == 0) {
			if (d.width == 2 && !both)
				return strcmp(name, "specificity") ? 0 : 1;
			continue;
		}
		x = strstr(name, "precision")                                          ? (said > 0 ? right / said : 0)
		    : strstr(name, "recall") || strcmp(name, "balanced_accuracy") == 0 ? (is > 0 ? right / is : 0)
		    : strcmp(name, "specificity") == 0 ? (d.n > is ? (d.n - is - said + right) / (d.n - is) : 0)
		    : strcmp(name, "mean_iou") == 0    ? right / (is + said - right)
						       : 2 * right / (is + said);
		sum += x;
		classes++;
	}
	return sum / classes;
}

static double matthews(struct data d)
{
	double hits = 0, both = 0, is2 = 0, said2 = 0;

	for (int i = 0; i < d.n; i++) {
		hits += top_of(d, i) == label[i];
		for (int j = 0; j < d.n; j++) {
			both += label[i] == top_of(d, j);
			is2 += label[i] == label[j];
			said2 += top_of(d, i) == top_of(d, j);
		}
	}
	both = hits * d.n - both;
	is2 = ((double)d.n * d.n - is2) * ((double)d.n * d.n - said2);
	return is2 > 0 ? both / sqrt(is2) : 0;
}

static double hits(struct data d, int most)
{
	double sum = 0;

	for (int i = 0; i < d.n; i++) {
		int before = 0;

		for (int k = 0; k < d.width; k++)
			before += logit(d, i, k) > logit(d, i, label[i]) ||
				  (logit(d, i, k) == logit(d, i, label[i]) && k < label[i]);
		sum += before < most;
	}
	return sum / d.n;
}

/* The rank of x[i], the mean one of equal values. */
static double rank_in(const float *x, int n, int i)
{
	double below = 0, equal = 0;

	for (int j = 0; j < n; j++) {
		below += x[j] < x[i];
		equal += x[j] == x[i];
	}
	return below + (equal - 1) / 2;
}

static double of_numbers(struct data d, const char *name)
{
	const bool ranks = strcmp(name, "spearman") == 0;
	double sum[2] = {0}, xx = 0, yy = 0, xy = 0, squares = 0, sizes = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < d.n; i++) {
			const double x = ranks ? rank_in(output, d.n, i) : (double)output[i],
				     y = ranks ? rank_in(number, d.n, i) : (double)number[i];

			sum[0] += pass ? 0 : x;
			sum[1] += pass ? 0 : y;
			xx += pass ? (x - sum[0] / d.n) * (x - sum[0] / d.n) : 0;
			yy += pass ? (y - sum[1] / d.n) * (y - sum[1] / d.n) : 0;
			xy += pass ? (x - sum[0] / d.n) * (y - sum[1] / d.n) : 0;
			squares += pass ? (x - y) * (x - y) : 0;
			sizes += pass ? fabs(x - y) : 0;
		}
	if (strcmp(name, "mae") == 0)
		return sizes / d.n;
	if (strcmp(name, "rmse") == 0)
		return sqrt(squares / d.n);
	if (strcmp(name, "r2") == 0)
		return yy > 0 ? 1 - squares / yy : NAN;
	return xx > 0 && yy > 0 ? xy / sqrt(xx) / sqrt(yy) : NAN;
}

static double reference(const struct sl_metric *m, struct data d)
{
	const bool numbers = m->of == 1 << SL_LEARN_NUMBER;

	if (!are_defined(d, numbers))
		return NAN;
	return numbers                                     ? of_numbers(d, m->name)
	       : strcmp(m->name, "accuracy") == 0          ? hits(d, 1)
	       : strcmp(m->name, "top5") == 0              ? hits(d, 5)
	       : strcmp(m->name, "matthews") == 0          ? matthews(d)
	       : strcmp(m->name, "auc") == 0               ? ranked(d, true)
	       : strcmp(m->name, "average_precision") == 0 ? ranked(d, false)
	       : strcmp(m->name, "calibration_error") == 0 ? calibration(d)
							   : shares(d, m->name);
}

static void every_metric_is_its_definition(void **state)
{
	int undefined = 0, defined = 0;

	for (int m = 0; m < sl_metric_count; m++)
		for (unsigned at = 0; at < 240; at++) {
			const struct data d = draw(at, sl_metrics[m].of == 1 << SL_LEARN_NUMBER);
			const double want = reference(&sl_metrics[m], d);

			isnan(want) ? undefined++ : defined++;
			for (int piece = 1; piece == 1 || piece <= d.n; piece += piece < 3 ? 1 : 11) {
				const double got = merged(sl_metrics[m].name, d.n, d.width, piece);

				if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-9 * (1 + fabs(want))))
					fail_msg("%s of set %u (%d samples, %d wide) in pieces of %d: %.17g, not %.17g",
						 sl_metrics[m].name, at, d.n, d.width, piece, got, want);
			}
		}
	assert_true(undefined > 1000 && defined > 1000);
}

/* A column with NaN or Inf has no figure, nor has the mean of all columns, and a sentence says why. */
static void a_figure_says_why_it_is_undefined(void **state)
{
	static const struct {
		float output, target;
		const char *why;
	} cases[] = {{1, 2, ""},
		     {NAN, 2, "NaN or Inf in the predictions of 1 of 4 samples"},
		     {-INFINITY, 2, "NaN or Inf in the predictions of 1 of 4 samples"},
		     {NAN, INFINITY, "NaN or Inf in the targets of 1 of 4 samples"}};
	const char *const asked[] = {"rmse", "r2"};
	char why[SL_UNDEFINED_TEXT];
	struct sl_score score[SL_SCORES_MOST];
	struct sl_scores *scores;
	struct sl_fail fail;

	assert_int_equal(sl_scores_open(&scores, asked, 2, &sl_learn_tasks[SL_LEARN_NUMBER], 2, 4, &fail), SL_OK);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const float targets[8] = {1, 2, 3, 4, cases[i].target, 6, 7, 8};

		sl_scores_begin(scores);
		for (int at = 0; at < 8; at += 4) { /* two batches */
			for (int k = 0; k < 4; k++)
				sl_scores_output(scores)[k] = at + k == 4 ? cases[i].output : (float)k;
			sl_scores_add(scores, targets + at, 2);
		}
		sl_scores_result(scores, score);
		sl_scores_undefined(scores, why);
		assert_string_equal(why, cases[i].why);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(isnan(score[k].value), cases[i].why[0] != 0);
			assert_int_equal(isnan(sl_scores_of(scores, k, 0)), cases[i].why[0] != 0);
			assert_false(isnan(sl_scores_of(scores, k, 1)));
		}
	}
	sl_scores_close(scores);
}

/* A sample without a prediction is of no cell of the confusion, and makes curves and bins undefined. */
static void nan_is_not_class_0(void **state)
{
	struct sl_scores *scores = open_scores(NULL, 0, 2);
	struct sl_metric_bin bin[SL_METRIC_BINS];
	struct sl_roc_point point[SL_METRIC_ROC_POINTS];
	struct sl_fail fail;
	double area;
	int width;

	assert_int_equal(sl_scores_confuse(scores, 2, 4, &fail), SL_OK);
	for (int bad = 0; bad < 2; bad++) {
		fill_classes(4, 2);
		memcpy(sl_scores_output(scores), output, 8 * sizeof *output);
		if (bad)
			sl_scores_output(scores)[5] = NAN;
		sl_scores_begin(scores);
		sl_scores_add(scores, label, 4);
		assert_int_equal(sl_scores_confusion(scores, &width) == NULL, bad);
		assert_int_equal(sl_scores_bins(scores, bin), !bad);
		assert_int_equal(sl_scores_roc(scores, 1, point, &area) > 0, !bad);
	}
	sl_scores_close(scores);
}

/* The values of sklearn with zero_division=0. Specificity is the recall of class 0. */
static void a_second_class_may_not_occur(void **state)
{
	fill_classes(20, 2);
	for (int i = 0; i < 20; i++) {
		label[i] = 0;
		output[2 * i] = 1;
		output[2 * i + 1] = 0;
	}
	is("specificity", 20, 2, 1);
	is("balanced_accuracy", 20, 2, 1);
	is("f1", 20, 2, 0);
	is("precision", 20, 2, 0);
	is("recall", 20, 2, 0);
	output[7] = 2; /* sample 3 is predicted as class 1 */
	is("specificity", 20, 2, 0.95);
	is("f1", 20, 2, 0);
}

/* Top-5 is added without being asked for if there are six classes or more. Each evaluation starts anew. */
static void a_run_has_its_metrics(void **state)
{
	const char *const asked[] = {"f1", "top5", "f1"};
	struct sl_scores *scores = open_scores(NULL, 0, 5);
	struct sl_score score[SL_SCORES_MOST];

	assert_null(sl_scores_output(scores));
	sl_scores_add(scores, label, 4);
	sl_scores_result(scores, score);
	assert_null(score[0].metric);
	sl_scores_close(scores);
	scores = open_scores(asked, 3, 7);
	fill_classes(200, 7);
	for (int evaluation = 0; evaluation < 2; evaluation++) {
		sl_scores_begin(scores);
		for (int at = 0; at < 200; at += 50) {
			memcpy(sl_scores_output(scores), output + at * 7, 50 * 7 * sizeof *output);
			sl_scores_add(scores, label + at, 50);
		}
		sl_scores_result(scores, score);
		assert_string_equal(score[0].metric->name, "top5");
		assert_true(fabs(score[0].value - 0.765) < 1e-12);
		assert_string_equal(score[1].metric->name, "f1");
		assert_true(fabs(score[1].value - 0.2450635726208696) < 1e-12);
		assert_null(score[2].metric);
	}
	sl_scores_close(scores);
}

/* The area under a curve with all of its points is the sum of its trapezoids. A long curve loses
 * points, so the sum is only close. */
static void curves_are_kept(void **state)
{
	struct sl_roc_point point[SL_METRIC_ROC_POINTS];
	struct sl_metric_bin bin[SL_METRIC_BINS];
	struct sl_scores *scores = NULL;
	struct sl_fail fail = {0};
	double area = 0, below = 0, apart = 0;
	int n;

	assert_int_equal(sl_scores_open(&scores, NULL, 0, &sl_learn_tasks[SL_LEARN_CLASSES], 2, 50, &fail), SL_OK);
	assert_int_equal(sl_scores_confuse(scores, 2, 150, &fail), SL_OK);
	assert_int_equal(sl_scores_roc(scores, 1, point, &area), 0);
	fill_classes(150, 2);
	memcpy(sl_scores_output(scores), output, 150 * 2 * sizeof *output);
	sl_scores_begin(scores);
	sl_scores_add(scores, label, 150);
	n = sl_scores_roc(scores, 1, point, &area);
	for (int i = 1; i < n; i++) {
		assert_true(point[i].others >= point[i - 1].others && point[i].own >= point[i - 1].own);
		below += (point[i].others - point[i - 1].others) * (point[i].own + point[i - 1].own) / 2;
	}
	assert_true(fabs(area - merged("auc", 150, 2, 150)) < 1e-15);
	assert_true(fabs(area - below) < 1e-12);
	assert_true(sl_scores_bins(scores, bin));
	for (int b = 0; b < SL_METRIC_BINS; b++)
		apart += fabs(bin[b].right - bin[b].probability) / 150;
	assert_true(fabs(apart - merged("calibration_error", 150, 2, 150)) < 1e-12);
	sl_scores_close(scores);
}

/* Too many classes for curves are not classes without curves: null, and no empty list. */
static void many_classes_have_no_curves(void **state)
{
	const struct sl_source unnamed = {.name = "unnamed"};
	const struct sl_set set = {.source = &unnamed};

	for (int width = 20; width <= 21; width++) {
		struct sl_scores *scores = open_scores(NULL, 0, width);
		json_t *root = json_object();
		struct sl_fail fail;

		assert_int_equal(sl_scores_confuse(scores, width, 50, &fail), SL_OK);
		sl_by_class_json(root, scores, &set);
		assert_int_equal(json_array_size(json_object_get(root, "roc")), width == 20 ? 20 : 0);
		assert_int_equal(json_is_null(json_object_get(root, "roc")), width == 21);
		json_decref(root);
		sl_scores_close(scores);
	}
}

static void what_cannot_be_measured_is_refused(void **state)
{
	const char *const asked[] = {"pearson"}, *const unknown[] = {"f2"};
	struct sl_scores *scores = NULL;
	struct sl_fail fail = {0};

	assert_int_equal(sl_scores_open(&scores, asked, 1, &sl_learn_tasks[SL_LEARN_CLASSES], 7, 50, &fail),
			 SL_ERR_CONFIG);
	assert_string_equal(fail.text,
			    "no metric \"pearson\" of classes; there are accuracy, top5, matthews, f1, precision, "
			    "recall, specificity, balanced_accuracy, auc, average_precision, calibration_error");
	assert_int_equal(sl_scores_open(&scores, unknown, 1, &sl_learn_tasks[SL_LEARN_NUMBER], 1, 50, &fail),
			 SL_ERR_CONFIG);
	assert_string_equal(fail.text, "no metric \"f2\" of numbers; there are pearson, spearman, mae, rmse, r2");
	assert_null(scores);
}

/* ---- several numbers and labels, as sklearn has them (tests/golden/make_metrics.py) ---- */

enum { TARGETS = 4, ROWS = 120 };

/* Every output occurs twice in a column. With `labels` the targets are 0 or 1. */
static void fill_targets(bool labels)
{
	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < TARGETS; k++) {
			const int j = i / 2;

			output[i * TARGETS + k] = (float)((j * j * 37 + k * 61 + j * k * 7 + j * 13) % 97 - 48) / 16;
			number[i * TARGETS + k] = labels ? (float)((i * (k + 3) + i * i / 5) % 7 < 3)
							 : output[i * TARGETS + k] * (float)(k + 1) / 2 +
								   (float)((i * 11 + k * 5) % 13 - 6) / 8;
		}
}

static void all_are(enum sl_learn_kind kind, const char *name, double want, const double each[TARGETS])
{
	struct sl_scores *scores;
	struct sl_score score[SL_SCORES_MOST];
	struct sl_fail fail;

	assert_int_equal(sl_scores_open(&scores, &name, 1, &sl_learn_tasks[kind], TARGETS, 50, &fail), SL_OK);
	sl_scores_begin(scores);
	for (int at = 0; at < ROWS; at += 50) {
		const int rows = ROWS - at < 50 ? ROWS - at : 50;

		memcpy(sl_scores_output(scores), output + at * TARGETS, sizeof *output * (size_t)(rows * TARGETS));
		sl_scores_add(scores, number + at * TARGETS, rows);
	}
	sl_scores_result(scores, score);
	if (!(fabs(score[0].value - want) < 1e-9))
		fail_msg("%s is %.16g, not %.16g", name, score[0].value, want);
	for (int k = 0; each && k < TARGETS; k++)
		if (!(fabs(sl_scores_of(scores, 0, k) - each[k]) < 1e-9))
			fail_msg("%s of %d is %.16g, not %.16g", name, k, sl_scores_of(scores, 0, k), each[k]);
	sl_scores_close(scores);
}

static void labels_are_as_sklearns(void **state)
{
	fill_targets(true);
	all_are(SL_LEARN_LABELS, "f1", 0.4463223933704762,
		(const double[]){0.5806451612903226, 0.3584905660377359, 0.5, 0.3461538461538462});
	all_are(SL_LEARN_LABELS, "f1_micro", 0.4537444933920705, NULL);
	all_are(SL_LEARN_LABELS, "precision", 0.41875,
		(const double[]){0.5142857142857142, 0.3392857142857143, 0.5, 0.3214285714285715});
	all_are(SL_LEARN_LABELS, "precision_micro", 0.4256198347107438, NULL);
	all_are(SL_LEARN_LABELS, "recall", 0.4804166666666667, (const double[]){0.6666666666666666, 0.38, 0.5, 0.375});
	all_are(SL_LEARN_LABELS, "recall_micro", 0.4858490566037736, NULL);
	all_are(SL_LEARN_LABELS, "specificity", 0.4821248196248197,
		(const double[]){0.4848484848484849, 0.4714285714285714, 0.5, 0.4722222222222222});
	all_are(SL_LEARN_LABELS, "auc", 0.4683660739337823,
		(const double[]){0.5827721661054995, 0.4119999999999999, 0.4738888888888889, 0.4048032407407408});
	all_are(SL_LEARN_LABELS, "average_precision", 0.4420318153356372,
		(const double[]){0.5288161896149403, 0.3948657364503603, 0.4681658715439099, 0.3762794637333383});
}

static void several_numbers_are_as_sklearns(void **state)
{
	fill_targets(false);
	all_are(SL_LEARN_NUMBER, "mae", 0.9145833333333333,
		(const double[]){0.8161458333333333, 0.403125, 0.7088541666666667, 1.730208333333333});
	all_are(SL_LEARN_NUMBER, "rmse", 1.071685182723475,
		(const double[]){0.999853504894592, 0.4667317662926605, 0.8570517839761298, 1.963103675730517});
	all_are(SL_LEARN_NUMBER, "r2", 0.5780794078839695,
		(const double[]){-0.2129641941680087, 0.9163374157529528, 0.8661948153678205, 0.7427495945831131});
}

static void thresholds_have_the_best_f1(void **state)
{
	static const double want[TARGETS] = {0.05665242530797383, 0.05665242530797383, 0.1127954062828932,
					     0.05033063259747688};
	const char *name = "auc";
	struct sl_scores *scores;
	double threshold[TARGETS];
	struct sl_fail fail;

	fill_targets(true);
	assert_int_equal(sl_scores_open(&scores, &name, 1, &sl_learn_tasks[SL_LEARN_LABELS], TARGETS, ROWS, &fail),
			 SL_OK);
	memcpy(sl_scores_output(scores), output, sizeof *output * ROWS * TARGETS);
	sl_scores_add(scores, number, ROWS);
	assert_true(sl_scores_thresholds(scores, threshold));
	for (int k = 0; k < TARGETS; k++)
		assert_true(fabs(threshold[k] - want[k]) < 1e-12);
	sl_scores_begin(scores);
	for (int i = 0; i < TARGETS; i++) /* the last is NaN: a column without any probability */
		sl_scores_output(scores)[i] = i == TARGETS - 1 ? NAN : 1;
	sl_scores_add(scores, number, 1);
	assert_true(sl_scores_thresholds(scores, threshold));
	assert_true(threshold[TARGETS - 1] == 0.5);
	sl_scores_close(scores);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_are_as_by_their_formulas),
		cmocka_unit_test(classes_are_as_sklearns),
		cmocka_unit_test(a_config_may_name_them),
		cmocka_unit_test(numbers_are_as_by_their_formulas),
		cmocka_unit_test(ties_go_to_the_first),
		cmocka_unit_test(what_is_not_defined_is_nan_or_zero),
		cmocka_unit_test(every_metric_is_its_definition),
		cmocka_unit_test(a_figure_says_why_it_is_undefined),
		cmocka_unit_test(nan_is_not_class_0),
		cmocka_unit_test(a_second_class_may_not_occur),
		cmocka_unit_test(a_run_has_its_metrics),
		cmocka_unit_test(curves_are_kept),
		cmocka_unit_test(many_classes_have_no_curves),
		cmocka_unit_test(what_cannot_be_measured_is_refused),
		cmocka_unit_test(labels_are_as_sklearns),
		cmocka_unit_test(several_numbers_are_as_sklearns),
		cmocka_unit_test(thresholds_have_the_best_f1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
