#include "client/train/privacy.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/figures/epsilon.h"
#include "client/train/training_run.h"
#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/base/newfile.h"

/* Tensors that a sample sends in an epoch, and in an evaluation. */
static uint64_t each_epoch(const struct sl_setup *s)
{
	return (uint64_t)(sl_plan_cut_values(s->plan, false) + sl_plan_cut_values(s->plan, true));
}
static uint64_t each_evaluation(const struct sl_setup *s)
{
	return (uint64_t)sl_plan_cut_values(s->plan, false);
}

/* In so many epochs; `ended`: the run ends behind them. */
static uint64_t evaluations(const struct sl_conf_client *c, uint64_t epochs, bool ended)
{
	const uint64_t every = (uint64_t)c->train.eval_every, n = every ? epochs / every : 0;

	return n + (ended && (!every || epochs % every));
}

/* The most epochs that the budget allows. */
static uint64_t allowed(const struct sl_setup *s)
{
	const struct sl_conf_client *c = s->conf;
	const uint64_t most = sl_epsilon_releases(c->privacy.noise, c->privacy.delta, c->privacy.budget);
	uint64_t epochs = most / each_epoch(s);

	while (epochs && evaluations(c, epochs, true) * each_evaluation(s) > most)
		epochs--;
	return epochs;
}

static const char *batch_norm_of(const struct sl_graph *g)
{
	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_BATCHNORM)
			return g->node[i].name;
	return NULL;
}

static enum sl_err check_parts(const struct sl_setup *s, struct sl_fail *fail)
{
	static const enum sl_segment own[] = {SL_HEAD, SL_TAIL};
	bool learns = false;

	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
		const struct sl_plan_segment *segment = &s->plan->segment[own[i]];
		const char *norm = batch_norm_of(&segment->graph);

		if (norm)
			return sl_conf_client_fail(
				s->conf, "privacy.clip", fail,
				"batch norm %.60s in the client's part makes what a row sends depend "
				"on the batch: choose a cut with it on the server (partition), or a "
				"network with group norms",
				norm);
		learns |= segment->moving_count > 0;
	}
	if (learns)
		sl_log(SL_LOG_WARN, "privacy-learns",
		       "epsilon counts what a sample itself sends; head or tail learns from samples, and what others "
		       "send later depends on that: train.freeze of both would leave nothing uncounted");
	return SL_OK;
}

enum sl_err sl_privacy_check(const struct sl_setup *s, int64_t samples, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const double one = sl_privacy_is_on(s) ? sl_epsilon(c->privacy.noise, each_epoch(s), c->privacy.delta) : 0;
	enum sl_err err = sl_privacy_is_on(s) ? check_parts(s, fail) : SL_OK;

	if (err || !sl_privacy_is_on(s))
		return err;
	if (c->privacy.delta * (double)samples >= 1)
		return sl_conf_client_fail(c, "privacy.delta", fail,
					   "with %" PRId64
					   " samples it must be below %.3g: else one of them could be shown "
					   "to all",
					   samples, 1 / (double)samples);
	if (c->privacy.budget > 0 && !allowed(s))
		return sl_conf_client_fail(
			c, "privacy.budget", fail,
			"one epoch has an epsilon of %.4g, which is above it: more privacy.noise lowers "
			"that",
			one);
	return SL_OK;
}

static bool note_path(const struct sl_training *r, char path[PATH_MAX])
{
	const char *dir = r->setup->conf->log.dir;

	return dir[0] && snprintf(path, PATH_MAX, "%s/privacy", dir) < PATH_MAX;
}

enum sl_err sl_run_privacy_open(struct sl_training *r, struct sl_fail *fail)
{
	const struct sl_conf_client *c = r->setup->conf;
	char path[PATH_MAX];
	uint8_t *text = NULL;
	struct sl_fail none;
	uint64_t epochs;
	size_t len;
	enum sl_err err = sl_privacy_check(r->setup, r->setup->set[SL_SPLIT_TRAIN].count, fail);

	if (err || !sl_privacy_is_on(r->setup))
		return err;
	if (note_path(r, path) && sl_file_read(path, 64, &text, &len, &none) == SL_OK)
		r->account.epochs = strtoull((const char *)text, NULL, 10);
	free(text);
	if (!r->account.resumes && r->account.epochs) {
		sl_log(SL_LOG_WARN, "privacy-earlier",
		       "an earlier run in %.300s has sent its samples in %" PRIu64
		       " epochs: epsilon counts this run alone, and theirs add up",
		       c->log.dir, r->account.epochs);
		r->account.epochs = 0;
	}
	if (!(c->privacy.budget > 0))
		return SL_OK;
	epochs = allowed(r->setup);
	r->account.ends_run = epochs * (uint64_t)r->steps_per_epoch < r->total_steps;
	if (r->account.ends_run)
		r->total_steps = r->planned_steps = epochs * (uint64_t)r->steps_per_epoch;
	return SL_OK;
}

void sl_run_privacy_begin(struct sl_training *r)
{
	const uint64_t begun = (uint64_t)r->epoch + 1;
	char path[PATH_MAX], text[24];
	struct sl_fail why;

	if (!sl_privacy_is_on(r->setup) || begun <= r->account.epochs)
		return;
	r->account.epochs = begun;
	snprintf(text, sizeof text, "%" PRIu64 "\n", begun);
	if (note_path(r, path) && sl_newfile_put(path, 0600, SL_FP_NONE, text, strlen(text), &why) != SL_OK)
		sl_log(SL_LOG_WARN, "privacy-unnoted",
		       "%s; if this process is killed, and the run ends before epoch %" PRIu64
		       ", its epsilon will be too low",
		       why.text, begun);
}

enum sl_err sl_run_privacy_changed(const struct sl_training *r, const char *changed, struct sl_fail *fail)
{
	const uint64_t held = (uint64_t)r->epoch + 1;
	const bool border = r->in_epoch == r->steps_per_epoch;

	if (strstr(changed, "privacy."))
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"rows have crossed with other noise, and epsilon would not count that (%s): resume with "
			"the privacy.… that the run had, or begin anew with --fresh",
			changed);
	if (!sl_privacy_is_on(r->setup) || (border && r->account.epochs <= held))
		return SL_OK;
	return sl_fail_set(
		fail, SL_ERR_MISMATCH,
		"privacy: rows have crossed behind step %" PRIu64
		" of the checkpoint, and with other settings they would cross again with other values, which "
		"epsilon would not count (%s): resume with the settings that it had, or begin anew with --fresh",
		r->step, changed);
}

struct sl_jsonl_privacy sl_run_privacy(const struct sl_training *r)
{
	const struct sl_conf_client *c = r->setup->conf;
	const uint64_t begun = (uint64_t)r->epoch + 1,
		       over = (uint64_t)r->epoch + (r->in_epoch == r->steps_per_epoch || r->step == r->total_steps);
	const struct sl_noise_count *count = &r->setup->noise_count;
	const uint64_t epochs = begun > r->account.epochs ? begun : r->account.epochs;
	struct sl_jsonl_privacy p = {.delta = c->privacy.delta,
				     .budget = c->privacy.budget,
				     .spent = r->account.ends_run && r->step >= r->total_steps};

	if (!sl_privacy_is_on(r->setup) || r->eval_only)
		return (struct sl_jsonl_privacy){0};
	p.releases = epochs * each_epoch(r->setup);
	p.evaluated_releases = evaluations(c, over < epochs ? epochs - 1 : over, r->step == r->total_steps) *
			       each_evaluation(r->setup);
	p.act_clipped = (double)atomic_load(&count->act_clipped) / (double)atomic_load(&count->act);
	p.grad_clipped = (double)atomic_load(&count->grad_clipped) / (double)atomic_load(&count->grad);
	p.epsilon = sl_epsilon(c->privacy.noise, p.releases, p.delta);
	p.evaluated_epsilon = sl_epsilon(c->privacy.noise, p.evaluated_releases, p.delta);
	return p;
}

enum sl_err sl_run_privacy_end(const struct sl_training *r, struct sl_fail *fail)
{
	const struct sl_jsonl_privacy p = sl_run_privacy(r);
	const struct sl_conf_client *c = r->setup->conf;

	if (!p.spent)
		return SL_OK;
	return sl_fail_at(fail, "privacy.budget", SL_ERR_SPENT,
			  "the run ended after %" PRIu64
			  " of %d epochs, with an epsilon of %.4g: one more would have had "
			  "%.4g",
			  p.releases / each_epoch(r->setup), c->train.epochs, p.epsilon,
			  sl_epsilon(c->privacy.noise, p.releases + each_epoch(r->setup), p.delta));
}
