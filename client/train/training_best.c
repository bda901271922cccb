/* What a run makes of an evaluation (train.keep_best keeps the best weights, train.stop ends the run), and of NaN or
 * Inf in a step. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/train/training_run.h"
#include "common/base/log.h"
#include "common/base/wrap.h"

static const char of_loss[] = "loss", of_accuracy[] = "accuracy";

bool sl_best_is_metric(const char *name)
{
	return name[0] && strcmp(name, of_loss) != 0 && strcmp(name, of_accuracy) != 0;
}

static bool has_accuracy(const struct sl_conf_client *c)
{
	return sl_conf_learns_labels(c) && sl_setup_task(c)->met;
}

static enum sl_err check(const struct sl_conf_client *c, const char *key, const char *name, struct sl_fail *fail)
{
	const struct sl_learn_task *task = sl_setup_task(c);
	const bool accuracy = strcmp(name, of_accuracy) == 0;
	const struct sl_metric *metric;
	struct sl_fail why;

	if (!name[0] || strcmp(name, of_loss) == 0 || (accuracy && has_accuracy(c)))
		return SL_OK;
	if (!sl_conf_learns_labels(c) || task->perplexity)
		return sl_conf_client_fail(c, key, fail, "must be loss%s here, got %.60s",
					   has_accuracy(c) ? " or accuracy" : "", name);
	if (sl_metric_find(&metric, name, task, &why) != SL_OK)
		return sl_conf_client_fail(c, key, fail, "%s", why.text);
	return SL_OK;
}

enum sl_err sl_training_check_best(const struct sl_conf_client *c, struct sl_fail *fail)
{
	enum sl_err err = check(c, "train.best_metric", c->train.best_metric, fail);

	return err ? err : check(c, "train.stop.metric", c->train.stop.metric, fail);
}

enum sl_err sl_run_open_best(struct sl_training *r, struct sl_fail *fail)
{
	const struct sl_conf_client *c = r->setup->conf;
	const char *const *of_data = sl_run_has_labels(r) ? sl_run_metrics(r) : NULL;
	const char *usual = of_data ? of_data[0] : has_accuracy(c) ? of_accuracy : of_loss;

	r->totals.kept_by = c->train.best_metric[0] ? c->train.best_metric : usual;
	r->totals.stop.by = c->train.stop.metric[0] ? c->train.stop.metric : r->totals.kept_by;
	return sl_training_check_best(c, fail);
}

bool sl_run_keeps_best(const struct sl_training *r)
{
	return !r->eval_only && sl_run_has_labels(r) && r->setup->conf->train.keep_best && r->setup->conf->log.dir[0];
}

bool sl_training_best_due(const struct sl_training *r)
{
	return r->best_due;
}

/* The last evaluation's value; NaN or Inf: undefined. *lower: lower is better. */
static double value_of(const struct sl_training *r, const char *name, bool *lower)
{
	const struct sl_training_totals *t = &r->totals;

	*lower = strcmp(name, of_loss) == 0;
	if (*lower)
		return t->test_loss;
	if (strcmp(name, of_accuracy) == 0)
		return t->test_acc;
	for (int i = 0; i < SL_SCORES_MOST && t->score[i].metric; i++)
		if (strcmp(t->score[i].metric->name, name) == 0) {
			*lower = t->score[i].metric->lower;
			return t->score[i].value;
		}
	return NAN;
}

static bool is_better(double value, double than, bool lower, double by)
{
	return isfinite(value) && (isnan(than) || (lower ? value < than - by : value > than + by));
}

void sl_training_best_score(const struct sl_training *r, char out[SL_TRAINING_SCORE])
{
	bool lower;

	snprintf(out, SL_TRAINING_SCORE, "%" PRIu64 " %a %s", r->step, value_of(r, r->totals.kept_by, &lower),
		 r->totals.kept_by);
}

void sl_training_best_kept(struct sl_training *r, bool written)
{
	bool lower;

	r->best_due = false;
	if (!written)
		return;
	r->totals.best_step = r->step;
	r->totals.kept = value_of(r, r->totals.kept_by, &lower);
}

/* Ends the run as Keras' EarlyStopping and PyTorch Lightning's do: after `patience` evaluations without a value that is
 * better than the best so far by more than min_delta. */
static void judge_stop(struct sl_training *r)
{
	char text[SL_STOP_TEXT];
	const struct sl_conf_client *c = r->setup->conf;
	struct sl_training_stop *s = &r->totals.stop;
	bool lower;
	const double value = value_of(r, s->by, &lower);

	if (is_better(value, s->best, lower, c->train.stop.min_delta)) {
		s->best = value;
		s->step = r->step;
		s->waited = 0;
		return;
	}
	s->waited++;
	if (s->waited < c->train.stop.patience || r->step == r->planned_steps)
		return;
	s->stopped = true;
	r->total_steps = r->step;
	sl_log(SL_LOG_INFO, "early-stop", "the run ends at step %" PRIu64 " of %" PRIu64 " (train.stop): %s", r->step,
	       r->planned_steps, sl_summary_stop_text(s, text));
}

/* Of an evaluation that is over: its intervals, and what a network reaches that has learned nothing. */
static void compare_with_nothing(struct sl_training *r)
{
	struct sl_training_totals *t = &r->totals;

	t->majority = NULL;
	t->groups = 0;
	t->majority_share = t->spread = (double)NAN;
	t->acc_interval = t->auc_interval = (struct sl_interval){(double)NAN, (double)NAN};
	if (!t->test_samples || r->in_eval != r->eval_batches || t->undefined[0])
		return;
	t->compared = t->test_samples;
	t->spread = sl_scores_spread(r->scores);
	if (!r->majority[0])
		return;
	t->majority = r->majority;
	t->majority_share = r->majority_share;
	t->auc_interval = sl_scores_area(r->scores);
	if (r->setup->set[SL_SPLIT_TEST].groups)
		t->acc_interval = sl_scores_accuracy(r->scores, &t->groups);
	else
		t->acc_interval = sl_interval_share((double)r->eval.correct, (double)r->eval.answers);
}

void sl_run_judge(struct sl_training *r)
{
	bool lower;
	const double value = value_of(r, r->totals.kept_by, &lower);

	r->best_due = sl_run_keeps_best(r) && is_better(value, r->totals.kept, lower, 0);
	r->totals.no_best = sl_run_keeps_best(r) && !r->totals.best_step && !isfinite(value);
	if (!r->eval_only && r->setup->conf->train.stop.patience)
		judge_stop(r);
	compare_with_nothing(r);
}

bool sl_training_may_end(const struct sl_training *r)
{
	const struct sl_conf_client *c = r->setup->conf;
	const bool ends_epoch = r->in_epoch + 1 == r->steps_per_epoch;

	return r->step + 1 == r->total_steps || (c->train.stop.patience && ends_epoch && sl_run_wants_eval(r) &&
						 r->totals.stop.waited + 1 >= c->train.stop.patience);
}

enum sl_err sl_training_abandoned(const struct sl_training *r, const struct sl_fail *why, struct sl_fail *fail)
{
	bool skips = r->setup->conf->train.on_nan == SL_NAN_SKIP;
	bool scaled = r->setup->conf->agreed.precision == SL_CONF_FP16;
	int most = SL_TRAINING_MAX_SKIPPED + (scaled ? SL_TRAINING_MAX_SCALED : 0);
	char before[64] = "";

	if (skips && r->skipped_in_row < (uint64_t)most) {
		sl_log(SL_LOG_WARN, "step-skipped", "step %" PRIu64 ": %s; nothing of it was applied", r->step + 1,
		       why->text);
		return SL_OK;
	}
	if (skips)
		snprintf(before, sizeof before, ", after %d skipped step%s in a row", most, sl_plural(most));
	return sl_fail_set(fail, SL_ERR_NONFINITE,
			   "step %" PRIu64
			   "%s: %.200s; nothing of it was applied. Try a smaller train.optimizer.lr or a longer "
			   "train.schedule.warmup_epochs%s",
			   r->step + 1, before, why->text, skips ? "" : ", or train.on_nan: skip");
}

void sl_training_eval_nonfinite(const struct sl_training *r, struct sl_fail *fail)
{
	const struct sl_fail why = *fail;
	const bool numbers = r->task->kind == SL_LEARN_NUMBER && !r->setup->scale;

	(void)!sl_fail_set(fail, why.code,
			   "evaluation after step %" PRIu64
			   ": %.200s: the network computes NaN or Inf. Try a smaller train.optimizer.lr, or "
			   "train.clip_norm%s",
			   r->step, why.text, numbers ? ", or data.scale_label: true" : "");
}

/* Says where a run's last accuracy is no better than that of always the same answer. */
static void warn_no_better(const struct sl_training *r)
{
	const struct sl_training_totals *t = &r->totals;
	char share[2][SL_FIGURE_TEXT];

	/* a network that ranks the classes has learned, wherever it draws the line */
	if (!t->majority || t->auc_interval.low > 0.5 || !(t->test_acc <= t->majority_share) ||
	    r->setup->phase.index + 1 < r->setup->phase.count)
		return;
	sl_log(SL_LOG_WARN, "no-better-than-majority",
	       "%s accuracy is %s, and %s for a network that always says \"%.60s\": nothing shows that this one has "
	       "learned",
	       t->part, sl_share_text(t->test_acc, share[0]), sl_share_text(t->majority_share, share[1]), t->majority);
}

void sl_run_compared(struct sl_training *r)
{
	if (!r->totals.compared)
		compare_with_nothing(r);
	warn_no_better(r);
}
