#include "client/train/training_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/setup/about.h"
#include "client/train/privacy.h"
#include "client/train/training_epoch.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"

static enum sl_err open_log(struct sl_training *r, bool resume, struct sl_fail *fail)
{
	const struct sl_progress_options options = {.fd = 2};
	enum sl_err err = r->eval_only || !resume ? SL_OK : sl_about_compare(r->setup, fail);

	if (!err && !r->eval_only)
		err = sl_journal_open(&r->journal, r->setup->conf, resume, fail);
	r->takes_over = !r->eval_only && !resume;
	return err ? err : sl_progress_open(&r->progress, &options, fail);
}

static enum sl_err open_scores(struct sl_training *r, struct sl_fail *fail)
{
	const struct sl_conf_client *c = r->setup->conf;
	const char *const *of_data = sl_run_metrics(r);
	const struct sl_set *test = &r->setup->set[SL_SPLIT_TEST];
	const int64_t answers = (int64_t)c->agreed.batch * sl_setup_answers(c);
	const char *asked[SL_CONF_LIST_MAX + SL_SCORES_MOST + 2];
	struct sl_fail why;
	enum sl_err err = sl_run_open_best(r, fail);
	int n = 0;

	if (err)
		return err;
	for (; of_data && of_data[n] && n < SL_SCORES_MOST; n++)
		asked[n] = of_data[n];
	if (sl_best_is_metric(c->train.best_metric))
		asked[n++] = c->train.best_metric;
	if (sl_best_is_metric(c->train.stop.metric))
		asked[n++] = c->train.stop.metric;
	for (int i = 0; i < c->train.metrics.n; i++)
		asked[n++] = c->train.metrics.item[i];
	err = sl_run_has_labels(r) && !r->task->perplexity
		      ? sl_scores_open(&r->scores, asked, n, r->task, c->model.classes, answers, &why)
		      : sl_scores_open(&r->scores, NULL, 0, r->task, 0, c->agreed.batch, &why);
	if (err == SL_ERR_CONFIG)
		return sl_conf_client_fail(c, "train.metrics", fail, "%s", why.text);
	if (!err && r->eval_only && sl_run_has_labels(r) && r->task->kind == SL_LEARN_CLASSES &&
	    c->model.classes <= SL_CONFUSION_MOST)
		err = sl_scores_confuse(r->scores, c->model.classes, c->agreed.batch, &why);
	if (!err && test->groups && sl_run_has_labels(r) && r->task->kind == SL_LEARN_CLASSES)
		err = sl_scores_group(r->scores, test->group, test->groups, c->model.classes, c->agreed.batch, &why);
	return err ? sl_fail_set(fail, err, "%s", why.text) : SL_OK;
}

enum sl_err sl_training_open(struct sl_training **out, const struct sl_setup *setup, const char *mode, bool eval_only,
			     bool resume, struct sl_fail *fail)
{
	const struct sl_conf_client *c = setup->conf;
	struct sl_training *r = calloc(1, sizeof *r);
	enum sl_err err = SL_OK;
	int majority;

	if (!r)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the run");
	r->setup = setup;
	r->task = r->totals.task = sl_setup_task(c);
	r->totals.has_accuracy = sl_run_has_labels(r) && r->task->met;
	r->totals.blind = sl_agreed_has_role(&c->agreed, SL_ROLE_FEATURES);
	r->eval_only = eval_only;
	r->loss = r->acc = NAN;
	r->totals.mode = mode;
	r->totals.part = sl_setup_part(setup, SL_SPLIT_TEST);
	r->totals.test_loss = r->totals.test_acc = r->totals.best_test_acc = r->totals.kept = NAN;
	r->totals.dcor_squared = NAN;
	r->totals.stop.best = NAN;
	r->eval_batches = sl_run_batches(setup->set[SL_SPLIT_TEST].count, c->agreed.batch, false);
	majority = sl_setup_majority(setup, &r->majority_share);
	if (majority >= 0)
		sl_class_name(&setup->set[SL_SPLIT_TEST], majority, r->majority);
	err = open_scores(r, fail);
	if (!err && !eval_only)
		err = sl_run_open_schedule(r, fail);
	if (!err)
		err = open_log(r, resume, fail);
	if (err) {
		sl_training_close(r);
		return err;
	}
	sl_run_traffic_before(r, r->journal.traffic);
	sl_run_mark(r);
	r->started_ns = r->done_ns = sl_now_ns();
	*out = r;
	return SL_OK;
}

enum sl_err sl_training_begin(struct sl_training *r, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (r->begun)
		return SL_OK;
	if (r->takes_over) {
		err = sl_journal_begin(&r->journal, r->setup->conf, fail);
		r->takes_over = err;
		sl_run_mark(r);
	}
	if (!err && !r->eval_only)
		err = sl_about_keep(r->setup, fail);
	if (!err)
		err = sl_run_privacy_begin(r, fail);
	if (!err)
		sl_run_log_start(r);
	r->begun = !err;
	return err;
}

void sl_training_carried(struct sl_training *r, const struct sl_traffic now[SL_WAYS])
{
	char text[SL_JOURNAL_TRAFFIC];

	for (int way = 0; way < SL_WAYS; way++)
		r->traffic[way] = (struct sl_traffic){
			r->before[way].bytes + now[way].bytes, r->before[way].weights + now[way].weights,
			r->before[way].framing + now[way].framing, r->before[way].curve + now[way].curve};
	sl_run_traffic_text(r, text);
	sl_journal_traffic(&r->journal, text);
}

void sl_training_close(struct sl_training *r)
{
	if (!r)
		return;
	sl_progress_close(r->progress);
	sl_journal_close(&r->journal);
	sl_scores_close(r->scores);
	free(r);
}

void sl_training_hush(struct sl_training *r)
{
	sl_progress_close(r->progress);
	r->progress = NULL;
}

bool sl_run_phase_over(const struct sl_training *r)
{
	const bool ends =
		!r->eval_only && (r->setup->phase.count || sl_agreed_has_role(&r->setup->conf->agreed, SL_ROLE_LABELS));

	return ends && r->step == r->total_steps && r->in_epoch == 0;
}

bool sl_run_epoch_over(const struct sl_training *r)
{
	return r->in_epoch == r->steps_per_epoch || r->step == r->total_steps;
}

bool sl_run_wants_eval(const struct sl_training *r)
{
	int every = r->setup->conf->train.eval_every;

	if (r->eval_only)
		return true;
	return r->step == r->total_steps || (every && (r->epoch + 1) % every == 0);
}

static enum sl_want step_or_pass(struct sl_training *r)
{
	const struct sl_setup *s = r->setup;
	const bool own = !s->epoch_steps || sl_turns_own(&s->turns, s->conf->agreed.share.member, r->step);

	return own ? SL_WANT_STEP : SL_WANT_PASS;
}

/* An evaluation follows an epoch, and neither goes beyond its end. */
static void check_counts(const struct sl_training *r)
{
	sl_assert_int(r->in_eval, >=, 0);
	sl_assert_int(r->in_eval, <=, r->eval_batches);
	if (r->eval_only)
		return;
	sl_assert_int(r->step, <=, r->total_steps);
	sl_assert_int(r->in_epoch, >=, 0);
	sl_assert_int(r->in_epoch, <=, r->steps_per_epoch);
	sl_assert_int((uint64_t)r->in_epoch, <=, r->step);
	sl_assert_if(r->in_eval, sl_run_epoch_over(r));
}

enum sl_want sl_training_next(struct sl_training *r)
{
	bool training_over = r->eval_only || sl_run_epoch_over(r);

	check_counts(r);
	if (sl_run_phase_over(r)) { /* its checkpoint is from after the last evaluation */
		r->doing = SL_WANT_FINISH;
	} else if (!training_over) {
		r->doing = step_or_pass(r);
	} else if (sl_run_wants_eval(r) && r->in_eval < r->eval_batches) {
		r->doing = SL_WANT_EVAL;
		if (sl_privacy_is_on(r->setup) && !r->eval_only)
			atomic_store(&r->setup->noise.count->evaluates, 2 * r->step + 1);
	} else if (r->eval_only || r->step == r->total_steps) {
		r->doing = SL_WANT_FINISH;
	} else {
		r->epoch++;
		r->in_epoch = r->in_eval = 0;
		r->train = r->eval = (struct tally){0};
		sl_scores_begin(r->scores);
		r->doing = step_or_pass(r);
	}
	return r->doing;
}

uint64_t sl_training_number(const struct sl_training *r)
{
	return r->doing != SL_WANT_EVAL ? r->step : (uint64_t)r->in_eval;
}

double sl_training_lr(const struct sl_training *r)
{
	return r->doing != SL_WANT_EVAL ? sl_run_lr(r, r->step) : 0;
}

static void log_step(struct sl_training *r, const struct sl_step_result *s)
{
	r->last = (struct sl_jsonl_step){
		.step = s->step + 1,
		.skipped = s->skipped,
		.loss = s->skipped ? NAN : s->loss,
		.acc = s->skipped ? NAN : sl_run_accuracy(r, s->correct, s->answers, s->loss),
		.lr = s->lr,
		.grad_norm = s->grad_norm,
		.wire_tx_bytes = s->tx_bytes,
		.wire_rx_bytes = s->rx_bytes,
		.t_step_s = s->t_step_s,
		.t_compute_s = s->t_compute_s,
		.t_wait_s = fmax(0, s->t_step_s - s->t_compute_s),
		.t_data_s = s->t_data_s,
	};

	sl_journal_step(&r->journal, &r->last);
}

/* Steps of the epoch under way. */
static uint64_t all_steps(const struct sl_training *r)
{
	uint64_t left = r->total_steps - (r->step - (uint64_t)r->in_epoch);

	return left < (uint64_t)r->steps_per_epoch ? left : (uint64_t)r->steps_per_epoch;
}

/* A skipped step counts in bytes and time, but not in loss and accuracy. */
static void tally_add(struct tally *t, const struct sl_step_result *s)
{
	t->rows += s->rows;
	t->tx_bytes += s->tx_bytes;
	t->rx_bytes += s->rx_bytes;
	t->seconds += s->t_step_s;
	if (s->skipped)
		return;
	t->answers += s->answers;
	t->correct += s->correct;
	t->loss += (s->loss - s->dice) * (double)s->answers;
	t->dice += s->dice * (double)s->rows;
	t->pictures += s->rows;
}

/* All that the connection carried; without a connection what the steps count. */
static uint64_t carried(const struct sl_training *r, enum sl_way way, uint64_t counted)
{
	return r->traffic[way].bytes ? r->traffic[way].bytes : counted;
}

void sl_training_show(struct sl_training *r)
{
	const bool eval = r->doing == SL_WANT_EVAL;
	const struct tally *all = &r->eval; /* a single batch tells little: the set may be sorted by class */
	struct sl_progress_state state = {
		.phase = eval ? "eval" : "train",
		.epoch = r->epoch + 1,
		.epochs = sl_run_all_epochs(r),
		.step = (uint64_t)(eval ? r->in_eval : r->in_epoch),
		.steps = eval ? (uint64_t)r->eval_batches : all_steps(r),
		.steps_left = eval ? (uint64_t)(r->eval_batches - r->in_eval) : r->total_steps - r->step,
		.samples = r->totals.samples,
		.tx_bytes = carried(r, SL_SENT, r->totals.tx_bytes),
		.rx_bytes = carried(r, SL_RECEIVED, r->totals.rx_bytes),
		.loss = eval && all->answers ? sl_run_loss(all) : r->loss,
		.acc = eval ? sl_run_accuracy_of(r, all) : r->acc,
	};

	if (r->doing == SL_WANT_FINISH) {
		state.phase = "fetch";
		state.loss = state.acc = NAN;
	}
	if (r->progress)
		sl_progress_update(r->progress, &state, sl_now_ms());
}

/* For several labels: stores the thresholds that this evaluation has found. */
static void keep_thresholds(const struct sl_training *r)
{
	struct sl_fail why;

	if (r->eval_only || !r->setup->threshold || !sl_scores_thresholds(r->scores, r->setup->threshold))
		return;
	if (sl_about_keep(r->setup, &why))
		sl_log(SL_LOG_WARN, "thresholds-missed", "%s", why.text);
}

static void eval_over(struct sl_training *r)
{
	struct sl_training_totals *t = &r->totals;

	t->test_samples = (uint64_t)r->eval.rows;
	t->test_step = r->step;
	t->test_loss = sl_run_loss(&r->eval);
	t->dcor_squared = sl_dcor_take(r->setup->dcor);
	sl_run_take_scores(r, t->test_loss, t->score);
	t->test_acc = sl_run_accuracy_of(r, &r->eval);
	if (t->test_acc > t->best_test_acc || isnan(t->best_test_acc))
		t->best_test_acc = t->test_acc;
	sl_scores_undefined(r->scores, t->undefined);
	if (!t->undefined[0] && r->eval.answers && !isfinite(t->test_loss))
		snprintf(t->undefined, sizeof t->undefined, "NaN or Inf in the loss");
	r->report_due = true;
	sl_run_judge(r);
	keep_thresholds(r);
}

/* A moving mean over about ten steps. It is of times, since a mean of rates would be above their common rate. */
static void follow(double *image_s, double n, double seconds)
{
	double now = n > 0 ? seconds / n : NAN;

	*image_s = *image_s > 0 ? 0.9 * *image_s + 0.1 * now : now;
}

float *sl_training_outputs(struct sl_training *r)
{
	return sl_scores_output(r->scores);
}

void sl_training_score(struct sl_training *r, const void *target, int64_t rows)
{
	if (r->doing == SL_WANT_EVAL)
		sl_scores_add(r->scores, target, rows * sl_setup_answers(r->setup->conf));
}

void sl_run_batch_over(struct sl_training *r)
{
	if (!r->eval_only && sl_run_epoch_over(r) && (!sl_run_wants_eval(r) || r->in_eval == r->eval_batches))
		sl_run_log_epoch(r);
}

/* The step was another member's: it is only counted. */
static void passed(struct sl_training *r)
{
	r->step++;
	r->linked_steps++;
	r->in_epoch++;
	sl_training_show(r);
	sl_run_mark(r);
	sl_run_batch_over(r);
}

static void note_still(struct sl_training *r, const struct sl_step_result *s)
{
	if (!s->still)
		return;
	r->totals.still++;
	sl_log_limited(SL_LOG_WARN, "norm-still",
		       "step %" PRIu64 ": the gradient's norm, as the server says it, is %.3g, and leaves less than a "
		       "thousandth of this side's gradient: has somebody's gradient exploded, or is the norm a lie?",
		       r->step, s->grad_norm);
}

void sl_training_done(struct sl_training *r, const struct sl_step_result *s)
{
	bool eval = r->doing == SL_WANT_EVAL;

	sl_assert_int(s->step, ==, sl_training_number(r)); /* what was asked for, once */
	sl_assert_int(r->doing, !=, SL_WANT_FINISH);
	sl_assert_if(r->doing == SL_WANT_PASS, s->passed);
	if (s->passed) {
		passed(r);
		return;
	}
	tally_add(eval ? &r->eval : &r->train, s);
	r->totals.samples += (uint64_t)s->rows;
	*(eval ? &r->linked_eval_samples : &r->linked_train_samples) += (uint64_t)s->rows;
	*(eval ? &r->linked_eval_tokens : &r->linked_train_tokens) += (uint64_t)s->tokens;
	r->totals.tx_bytes += s->tx_bytes;
	r->totals.rx_bytes += s->rx_bytes;
	r->done_ns = sl_now_ns();
	if (!s->skipped) {
		r->loss = s->loss;
		r->acc = sl_run_accuracy(r, s->correct, s->answers, s->loss);
	}
	if (eval) {
		r->in_eval++;
		r->totals.eval_samples += (uint64_t)s->rows;
	} else {
		r->step++;
		r->linked_steps++;
		r->in_epoch++;
		r->totals.skipped += s->skipped;
		if (!s->late)
			r->skipped_in_row = s->skipped ? r->skipped_in_row + 1 : 0;
		r->totals.train_samples += (uint64_t)s->rows;
		r->totals.own_steps++;
		r->totals.late_steps += s->late;
		note_still(r, s);
		r->totals.train_s += s->t_step_s;
		r->totals.compute_s += s->t_compute_s;
		if (!isnan(s->t_server_s)) {
			r->totals.server_s += s->t_server_s;
			r->totals.server_steps++;
		}
		r->totals.train_tx_bytes += s->tx_bytes;
		r->totals.train_rx_bytes += s->rx_bytes;
		follow(&r->image_s, (double)s->rows, s->t_step_s);
		log_step(r, s);
	}
	sl_training_show(r);
	if (eval && r->in_eval == r->eval_batches)
		eval_over(r);
	if (!eval)
		sl_run_mark(r);
	sl_run_batch_over(r);
	check_counts(r);
}

void sl_training_audited(struct sl_training *r, const struct sl_jsonl_audit *audit)
{
	sl_journal_audit(&r->journal, audit);
}

void sl_training_finish(struct sl_training *r, const struct sl_training_link *link, const char *outcome, bool json)
{
	const struct sl_phase *phase = &r->setup->phase;
	struct sl_jsonl_summary line;

	sl_training_hush(r);
	r->totals.steps = r->step;
	r->totals.linked_train_samples = r->linked_train_samples;
	r->totals.linked_eval_samples = r->linked_eval_samples;
	r->totals.linked_train_tokens = r->linked_train_tokens;
	r->totals.linked_eval_tokens = r->linked_eval_tokens;
	r->totals.linked_from = r->linked_from;
	r->totals.epochs =
		r->eval_only ? 0 : (uint64_t)r->epoch + (sl_run_epoch_over(r) && !sl_run_phase_over(r) ? 1 : 0);
	r->totals.total_s = sl_seconds_since(r->started_ns);
	memcpy(r->totals.traffic, r->traffic, sizeof r->traffic);
	sl_run_compared(r);
	r->totals.scores = r->in_eval == r->eval_batches ? r->scores : NULL; /* else of a part of the test set */
	r->totals.labels = &r->setup->set[SL_SPLIT_TEST];
	r->totals.weights = r->eval_only ? r->setup->weights_file : NULL;
	r->totals.weights_step = r->setup->trained;
	r->totals.privacy = sl_run_privacy(r);
	if (!r->eval_only && strcmp(outcome, "finished") == 0)
		sl_run_check_own(r);
	if (r->totals.no_best)
		sl_log(SL_LOG_WARN, "best-undefined",
		       "best.safetensors was not written: %s, by which train.keep_best goes, was undefined in every "
		       "evaluation",
		       r->totals.kept_by);
	sl_summary_fill(&line, r->setup, &r->totals, link, outcome);
	sl_journal_summary(&r->journal, &line);
	sl_run_log_end(r, &line);
	if (phase->index + 1 < phase->count && strcmp(outcome, "finished") == 0)
		sl_log(SL_LOG_INFO, "phase", "%d of %d is done, at step %" PRIu64, phase->index + 1, phase->count,
		       r->step);
	else
		sl_summary_print(&line, &r->totals, link, json);
}

struct sl_training_state sl_training_state(const struct sl_training *r)
{
	return (struct sl_training_state){r->step, r->total_steps};
}

void sl_training_report(const struct sl_training *r, struct sl_status_session *out)
{
	const struct sl_training_totals *t = &r->totals;
	const struct sl_traffic *tx = &r->traffic[SL_SENT], *rx = &r->traffic[SL_RECEIVED];
	const double batch = r->setup->conf->agreed.batch, idle_s = sl_seconds_since(r->done_ns);
	double images_left = (double)(r->total_steps - r->step) * batch;
	/* the batch under way may already have taken longer than those before it */
	double image_s = r->image_s > 0 ? fmax(r->image_s, idle_s / batch) : 0;

	*out = (struct sl_status_session){
		.step = (int64_t)r->step,
		.steps = (int64_t)r->total_steps,
		.skipped = (int64_t)t->skipped,
		.epoch = r->epoch + 1,
		.epochs = sl_run_all_epochs(r),
		.loss = r->loss,
		.acc = r->acc,
		.samples_per_s = image_s > 0 ? 1 / image_s : 0,
		.left_s = image_s > 0 ? images_left * image_s : NAN,
		.age_s = sl_seconds_since(r->started_ns),
		.idle_s = idle_s,
		.best_step = (int64_t)t->best_step,
		.best_acc = t->kept,
		.evaluated_step = (int64_t)t->test_step,
		.test_loss = t->test_loss,
		.test_acc = t->test_acc,
		.dcor_squared = t->dcor_squared,
		.epsilon = sl_privacy_is_on(r->setup) ? sl_run_privacy(r).epsilon : NAN,
		.wire_tx_bytes = (int64_t)tx->bytes,
		.wire_rx_bytes = (int64_t)rx->bytes,
		.weights_tx_bytes = (int64_t)tx->weights,
		.weights_rx_bytes = (int64_t)rx->weights,
		.framing_tx_bytes = (int64_t)tx->framing,
		.framing_rx_bytes = (int64_t)rx->framing,
		.curve_tx_bytes = (int64_t)tx->curve,
		.curve_rx_bytes = (int64_t)rx->curve,
	};
	snprintf(out->best_metric, sizeof out->best_metric, "%s", t->kept_by);
	for (int i = 0; i < SL_STATUS_SCORES && i < SL_SCORES_MOST && t->test_step && t->score[i].metric; i++) {
		snprintf(out->score[i].name, sizeof out->score[i].name, "%s", t->score[i].metric->name);
		out->score[out->n_score++].value = t->score[i].value;
	}
}
