/* The metrics of a run's evaluations: each has a state for every number or label that is predicted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/figures/metric_kinds.h"

struct sl_scores {
	enum sl_learn_kind kind;
	int n, width;
	int targets; /* numbers or labels of a row; classes of pixels; else 1 */
	const struct sl_metric *metric[SL_SCORES_MOST];
	struct sl_metric_state *all[SL_SCORES_MOST]; /* [targets] */
	bool broken[SL_SCORES_MOST];                 /* a batch could not be added */
	float *output;
	float *column;      /* [batch, 2]: one target's outputs as a metric reads them */
	int32_t *is;        /* [batch]: its labels, or the bits of its float targets */
	int64_t *confusion; /* [width, width]; NULL: not counted */
	struct sl_metric_state kept;
	bool keeps;           /* all outputs so far */
	const int32_t *group; /* of each row; NULL: rows are in no groups */
	int groups;
	double *right, *of; /* [groups]: rows that are right, rows */
	/* rows; of these, rows whose outputs or targets are NaN or Inf */
	int64_t seen, bad_output, bad_target;
};

enum { MOST_KEPT = 1 << 26 /* outputs, for curves */ };

enum sl_err sl_metric_find(const struct sl_metric **out, const char *name, const struct sl_learn_task *task,
			   struct sl_fail *fail)
{
	char known[240] = "";

	for (int i = 0; i < sl_metric_count; i++) {
		size_t n = strlen(known);

		if (!(sl_metrics[i].of & 1u << task->kind))
			continue;
		if (strcmp(sl_metrics[i].name, name) == 0) {
			*out = &sl_metrics[i];
			return SL_OK;
		}
		snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", sl_metrics[i].name);
	}
	return sl_fail_set(fail, SL_ERR_CONFIG, "no metric \"%.60s\" of %s; there are %s", name, task->name, known);
}

static void take(struct sl_scores *s, const struct sl_metric *metric)
{
	for (int i = 0; i < s->n; i++)
		if (s->metric[i] == metric)
			return;
	s->metric[s->n++] = metric;
}

/* How many states a metric has. */
static int states(const struct sl_scores *s, int metric)
{
	return s->metric[metric]->pooled || s->kind == SL_LEARN_PIXELS ? 1 : s->targets;
}

/* Outputs of a row that a metric sees for one target: one of several labels is two classes. */
static int width_of(const struct sl_scores *s)
{
	return s->kind == SL_LEARN_LABELS ? 2 : s->kind == SL_LEARN_NUMBER ? 1 : s->width;
}

static enum sl_err begin_metric(struct sl_scores *s, int metric)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < states(s, metric) && !err; k++) {
		sl_metric_end(&s->all[metric][k]);
		err = sl_metric_begin(s->metric[metric], &s->all[metric][k], width_of(s));
	}
	return err;
}

static enum sl_err choose(struct sl_scores *s, const char *const *asked, int n_asked, const struct sl_learn_task *task,
			  struct sl_fail *fail)
{
	const struct sl_metric *metric = NULL;
	enum sl_err err = SL_OK;

	for (int i = 0; i < sl_metric_count; i++)
		if ((sl_metrics[i].of & 1u << task->kind) && sl_metrics[i].always_from &&
		    s->width >= sl_metrics[i].always_from)
			take(s, &sl_metrics[i]);
	for (int i = 0; i < n_asked && !err; i++) {
		err = sl_metric_find(&metric, asked[i], task, fail);
		if (!err)
			take(s, metric);
	}
	return err;
}

static enum sl_err make_room(struct sl_scores *s, int64_t batch)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < s->n && !err; i++) {
		s->all[i] = calloc((size_t)s->targets, sizeof *s->all[i]);
		err = s->all[i] ? begin_metric(s, i) : SL_ERR_NOMEM;
	}
	if (err || !s->n)
		return err;
	s->output = malloc((size_t)batch * (size_t)s->width * sizeof *s->output);
	s->column = calloc((size_t)batch * 2, sizeof *s->column);
	s->is = calloc((size_t)batch, sizeof *s->is);
	return s->output && s->column && s->is ? SL_OK : SL_ERR_NOMEM;
}

enum sl_err sl_scores_open(struct sl_scores **out, const char *const *asked, int n_asked,
			   const struct sl_learn_task *task, int width, int64_t batch, struct sl_fail *fail)
{
	struct sl_scores *s = calloc(1, sizeof *s);
	enum sl_err err = s ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the metrics");

	if (err)
		return err;
	s->kind = task->kind;
	s->width = width;
	s->targets = s->kind == SL_LEARN_PIXELS ? width : sl_learn_targets(task, width);
	err = choose(s, asked, n_asked, task, fail);
	if (!err && make_room(s, batch) != SL_OK)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the metrics");
	if (err) {
		sl_scores_close(s);
		return err;
	}
	*out = s;
	return SL_OK;
}

void sl_scores_close(struct sl_scores *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->n; i++) {
		for (int k = 0; s->all[i] && k < states(s, i); k++)
			sl_metric_end(&s->all[i][k]);
		free(s->all[i]);
	}
	free(s->output);
	free(s->column);
	free(s->is);
	free(s->confusion);
	free(s->right);
	free(s->of);
	sl_metric_end(&s->kept);
	free(s);
}

enum sl_err sl_scores_confuse(struct sl_scores *s, int width, int64_t batch, struct sl_fail *fail)
{
	s->width = width;
	s->confusion = calloc((size_t)width * (size_t)width, sizeof *s->confusion);
	s->kept.width = width;
	s->keeps = true;
	if (!s->output)
		s->output = malloc((size_t)batch * (size_t)width * sizeof *s->output);
	return s->confusion && s->output ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the metrics");
}

enum sl_err sl_scores_group(struct sl_scores *s, const int32_t *group, int groups, int width, int64_t batch,
			    struct sl_fail *fail)
{
	s->width = width;
	s->right = calloc((size_t)groups, sizeof *s->right);
	s->of = calloc((size_t)groups, sizeof *s->of);
	if (!s->output)
		s->output = malloc((size_t)batch * (size_t)width * sizeof *s->output);
	if (!s->right || !s->of || !s->output)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the metrics");
	s->group = group;
	s->groups = groups;
	return SL_OK;
}

struct sl_interval sl_scores_accuracy(const struct sl_scores *s, int *used)
{
	*used = 0;
	for (int g = 0; g < s->groups; g++)
		*used += s->of[g] > 0;
	return sl_interval_grouped(s->right, s->of, s->groups);
}

struct sl_interval sl_scores_area(const struct sl_scores *s)
{
	if (s->kind == SL_LEARN_CLASSES && s->keeps)
		return sl_metric_area(&s->kept, s->group, s->groups);
	for (int i = 0; i < s->n && s->kind == SL_LEARN_CLASSES; i++)
		if (s->metric[i]->add == sl_metric_keep_labels && !s->broken[i])
			return sl_metric_area(&s->all[i][0], s->group, s->groups);
	return (struct sl_interval){(double)NAN, (double)NAN};
}

double sl_scores_spread(const struct sl_scores *s)
{
	double sum = 0;
	int i = 0;

	while (i < s->n && strcmp(s->metric[i]->name, "rmse") != 0)
		i++;
	if (i == s->n || s->kind != SL_LEARN_NUMBER || s->broken[i])
		return (double)NAN;
	for (int k = 0; k < states(s, i); k++)
		sum += s->all[i][k].undefined ? (double)NAN : sqrt(s->all[i][k].square[1] / s->all[i][k].n);
	return sum / states(s, i);
}

const int64_t *sl_scores_confusion(const struct sl_scores *s, int *width)
{
	*width = s->width;
	return s->bad_output ? NULL : s->confusion;
}

int sl_scores_roc(const struct sl_scores *s, int k, struct sl_roc_point point[SL_METRIC_ROC_POINTS], double *area)
{
	return s->keeps ? sl_metric_roc(&s->kept, k, point, area) : 0;
}

bool sl_scores_bins(const struct sl_scores *s, struct sl_metric_bin bin[SL_METRIC_BINS])
{
	return s->keeps && sl_metric_bins(&s->kept, bin);
}

float *sl_scores_output(struct sl_scores *s)
{
	return s->output;
}

void sl_scores_begin(struct sl_scores *s)
{
	for (int i = 0; i < s->n; i++)
		s->broken[i] = begin_metric(s, i) != SL_OK;
	if (s->confusion)
		memset(s->confusion, 0, (size_t)s->width * (size_t)s->width * sizeof *s->confusion);
	for (int g = 0; g < s->groups; g++)
		s->right[g] = s->of[g] = 0;
	sl_metric_end(&s->kept);
	s->kept.width = s->width;
	s->keeps = s->confusion != NULL;
	s->seen = s->bad_output = s->bad_target = 0;
}

static void count_undefined(struct sl_scores *s, const void *target, int64_t rows)
{
	for (int64_t r = 0; r < rows && s->output; r++) {
		bool bad = false;

		for (int k = 0; k < s->targets && s->kind == SL_LEARN_NUMBER; k++)
			bad |= !isfinite(((const float *)target)[r * s->targets + k]);
		s->bad_target += bad;
		s->bad_output += !sl_metric_is_defined(s->kind, s->output + r * s->width, s->width);
	}
	s->seen += rows;
}

void sl_scores_undefined(const struct sl_scores *s, char out[SL_UNDEFINED_TEXT])
{
	const int64_t bad = s->bad_target ? s->bad_target : s->bad_output;

	out[0] = 0;
	if (bad)
		snprintf(out, SL_UNDEFINED_TEXT, "NaN or Inf in the %s of %lld of %lld %s",
			 s->bad_target ? "targets" : "predictions", (long long)bad, (long long)s->seen,
			 s->kind == SL_LEARN_PIXELS ? "pixels" : "samples");
}

static void keep(struct sl_scores *s, const void *target, int64_t rows)
{
	s->keeps = s->keeps && (s->kept.rows + rows) * (s->width + 1) <= MOST_KEPT &&
		   sl_metric_keep_labels(&s->kept, s->output, target, rows) == SL_OK;
	if (!s->keeps)
		sl_metric_end(&s->kept);
}

/* Fills `column` and `is` with target k of the batch, as a metric reads it. */
static void take_column(struct sl_scores *s, const float *target, int64_t rows, int k)
{
	const int width = width_of(s);

	for (int64_t r = 0; r < rows; r++) {
		const float right = target[r * s->targets + k];

		s->column[r * width + width - 1] = s->output[r * s->width + k];
		if (s->kind == SL_LEARN_LABELS)
			s->is[r] = right > 0.5f;
		else
			memcpy(&s->is[r], &right, sizeof right);
	}
}

/* Adds a batch's outputs for one target to metric i's `state`. */
static void add_to(struct sl_scores *s, int i, struct sl_metric_state *state, const float *output, const void *target,
		   int64_t rows)
{
	struct sl_metric_state batch;
	enum sl_err err = sl_metric_begin(s->metric[i], &batch, width_of(s));

	if (!err)
		err = sl_metric_add(&batch, output, target, rows);
	if (!err && !s->broken[i])
		err = sl_metric_merge(state, &batch);
	s->broken[i] |= err != SL_OK;
	sl_metric_end(&batch);
}

/* Moves pixels that are not ignored to the front, in order, and their classes to `is`. Returns their number. */
static int64_t leave_ignored(struct sl_scores *s, const int32_t *mask, int64_t rows)
{
	int64_t n = 0;

	for (int64_t r = 0; r < rows && s->n; r++) {
		if (mask[r] == SL_LEARN_IGNORED)
			continue;
		memmove(s->output + n * s->width, s->output + r * s->width, (size_t)s->width * sizeof *s->output);
		s->is[n++] = mask[r];
	}
	return n;
}

void sl_scores_add(struct sl_scores *s, const void *target, int64_t rows)
{
	const bool each = s->kind == SL_LEARN_LABELS || s->kind == SL_LEARN_NUMBER;

	if (s->kind == SL_LEARN_PIXELS) {
		rows = leave_ignored(s, target, rows);
		target = s->is;
	}
	for (int64_t r = 0; r < rows && s->groups; r++) {
		s->right[s->group[s->seen + r]] +=
			sl_metric_largest(s->output + r * s->width, s->width) == ((const int32_t *)target)[r];
		s->of[s->group[s->seen + r]]++;
	}
	count_undefined(s, target, rows);
	for (int k = 0; k < (each ? s->targets : 1) && s->n; k++) {
		if (each) {
			if (width_of(s) == 2)
				memset(s->column, 0, (size_t)rows * 2 * sizeof *s->column);
			take_column(s, target, rows, k);
		}
		for (int i = 0; i < s->n; i++)
			add_to(s, i, &s->all[i][states(s, i) > 1 ? k : 0], each ? s->column : s->output,
			       each ? s->is : target, rows);
	}
	s->keeps = s->keeps && !s->bad_output;
	keep(s, target, rows);
	for (int64_t r = 0; r < rows && s->confusion && !s->bad_output; r++)
		s->confusion[((const int32_t *)target)[r] * s->width +
			     sl_metric_largest(s->output + r * s->width, s->width)]++;
}

int sl_scores_targets(const struct sl_scores *s)
{
	return s->targets;
}

double sl_scores_of(const struct sl_scores *s, int metric, int target)
{
	const struct sl_metric *m = s->metric[metric];

	if (!s->broken[metric] && s->kind == SL_LEARN_PIXELS)
		return m->of_class ? sl_metric_of_class(&s->all[metric][0], target) : NAN;
	if (s->broken[metric] || target >= states(s, metric))
		return NAN;
	return sl_metric_result(&s->all[metric][target]);
}

/* The mean over targets. Those are left out for which the metric is not defined by its definition; NaN and Inf make the
 * mean undefined. */
static double mean_of(const struct sl_scores *s, int metric)
{
	double sum = 0;
	int defined = 0;

	if (s->kind == SL_LEARN_PIXELS)
		return s->broken[metric] ? NAN : sl_metric_result(&s->all[metric][0]);
	for (int k = 0; k < states(s, metric); k++) {
		const double value = sl_scores_of(s, metric, k);

		if (s->all[metric][k].undefined)
			return NAN;
		sum += isnan(value) ? 0 : value;
		defined += !isnan(value);
	}
	return defined ? sum / defined : NAN;
}

void sl_scores_result(const struct sl_scores *s, struct sl_score out[SL_SCORES_MOST])
{
	for (int i = 0; i < SL_SCORES_MOST; i++)
		out[i] = i < s->n ? (struct sl_score){s->metric[i], mean_of(s, i)} : (struct sl_score){NULL, NAN};
}

bool sl_scores_thresholds(const struct sl_scores *s, double *out)
{
	int kept = 0;

	while (kept < s->n && s->metric[kept]->add != sl_metric_keep_labels)
		kept++;
	if (s->kind != SL_LEARN_LABELS || kept == s->n || s->broken[kept])
		return false;
	for (int k = 0; k < s->targets; k++)
		out[k] = s->all[kept][k].undefined ? 0.5 : sl_metric_threshold(&s->all[kept][k]);
	return true;
}
