#include "client/train/training_epoch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "client/train/privacy.h"
#include "common/base/log.h"
#include "common/base/wrap.h"

static double ratio(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

double sl_run_accuracy(const struct sl_training *r, int64_t correct, int64_t answers, double loss)
{
	return r->totals.has_accuracy && answers > 0 && !isnan(loss) ? (double)correct / (double)answers : NAN;
}

double sl_run_loss(const struct tally *t)
{
	return ratio(t->loss, (double)t->answers) + (t->pictures ? t->dice / (double)t->pictures : 0);
}

double sl_run_accuracy_of(const struct sl_training *r, const struct tally *t)
{
	return sl_run_accuracy(r, t->correct, t->answers, sl_run_loss(t));
}

int sl_run_all_epochs(const struct sl_training *r)
{
	uint64_t per_epoch = (uint64_t)r->steps_per_epoch;

	if (r->setup->phase.count)
		return r->setup->phase.epochs;
	return r->eval_only ? 1 : (int)((r->total_steps + per_epoch - 1) / per_epoch);
}

static const char *accuracy_text(const struct sl_training *r, double acc, char out[SL_SCORE_TEXT])
{
	char share[SL_FIGURE_TEXT];

	out[0] = 0;
	if (r->totals.has_accuracy)
		snprintf(out, SL_SCORE_TEXT, ", accuracy %s", sl_share_text(acc, share));
	return out;
}

void sl_run_take_scores(const struct sl_training *r, double loss, struct sl_score score[SL_SCORES_MOST])
{
	sl_scores_result(r->scores, score);
	if (r->task->perplexity)
		score[0] = (struct sl_score){&sl_metric_perplexity, exp(loss)};
}

void sl_run_log_epoch(struct sl_training *r)
{
	const struct tally *t = &r->train, *e = &r->eval;
	struct sl_jsonl_epoch line = {
		.epoch = (uint64_t)r->epoch + 1,
		.steps = r->step,
		.train_loss = sl_run_loss(t),
		.train_acc = sl_run_accuracy_of(r, t),
		.test_loss = sl_run_loss(e),
		.test_acc = sl_run_accuracy_of(r, e),
		.evaluated_part = e->rows ? r->totals.part : NULL,
		.dcor_squared = e->rows ? r->totals.dcor_squared : NAN,
		.epsilon = sl_privacy_is_on(r->setup) ? sl_run_privacy(r).epsilon : NAN,
		.lr = r->step ? sl_run_lr(r, r->step - 1) : NAN,
		.wire_tx_bytes = t->tx_bytes,
		.wire_rx_bytes = t->rx_bytes,
		.t_train_s = t->seconds,
		.t_eval_s = e->seconds,
		.samples_per_s = ratio((double)t->rows, t->seconds),
	};
	struct sl_score score[SL_SCORES_MOST];
	char test[96 + SL_SCORES_MOST * (SL_SCORE_TEXT + 2) + SL_UNDEFINED_TEXT] = "", text[SL_SCORE_TEXT];
	const bool blind = r->totals.blind;
	char epsilon[32] = "";
	char loss[48], figure[SL_FIGURE_TEXT], chance[SL_FIGURE_TEXT + 16] = "";
	int n;

	snprintf(loss, sizeof loss, "%s", blind ? "the member with labels has the loss" : "no step was done here");
	if (r->majority[0])
		snprintf(chance, sizeof chance, " (majority %s)", sl_share_text(r->majority_share, figure));
	if (e->rows && !blind) {
		n = snprintf(test, sizeof test, "; %s loss %s%s%s", r->totals.part,
			     sl_figure_text(line.test_loss, figure), accuracy_text(r, line.test_acc, text), chance);
		sl_run_take_scores(r, line.test_loss, score);
		sl_summary_scores(line.score, score);
		for (int i = 0; i < SL_SCORES_MOST && score[i].metric; i++)
			n += snprintf(test + n, sizeof test - (size_t)n, ", %s",
				      sl_summary_score_text(&score[i], text));
		if (r->totals.undefined[0])
			snprintf(test + n, sizeof test - (size_t)n, " (%s)", r->totals.undefined);
	}
	sl_journal_epoch(&r->journal, &line);
	if (t->answers)
		snprintf(loss, sizeof loss, "training loss %s", sl_figure_text(line.train_loss, figure));
	if (!isnan(line.epsilon))
		snprintf(epsilon, sizeof epsilon, "; epsilon %.4g", line.epsilon);
	sl_log(SL_LOG_INFO, "epoch", "%d of %d: %s%s%s%s", r->epoch + 1, sl_run_all_epochs(r), loss,
	       t->answers ? accuracy_text(r, line.train_acc, text) : "", test, epsilon);
}
