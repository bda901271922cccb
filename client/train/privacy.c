#include "client/train/privacy.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/figures/epsilon.h"
#include "client/train/training_run.h"
#include "common/base/log.h"

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
	sl_log(SL_LOG_INFO, "privacy", "one epoch has an epsilon of %.4g, and %d have %.4g", one, c->train.epochs,
	       sl_epsilon(c->privacy.noise, (uint64_t)c->train.epochs * each_epoch(s), c->privacy.delta));
	if (c->privacy.budget > 0 && allowed(s) < (uint64_t)c->train.epochs)
		sl_log(SL_LOG_INFO, "privacy", "privacy.budget allows %" PRIu64 " epochs: then the run ends",
		       allowed(s));
	return SL_OK;
}

enum sl_err sl_run_privacy_open(struct sl_training *r, struct sl_fail *fail)
{
	const struct sl_conf_client *c = r->setup->conf;
	uint64_t epochs;
	enum sl_err err = sl_privacy_check(r->setup, r->setup->set[SL_SPLIT_TRAIN].count, fail);

	if (err || !(c->privacy.budget > 0))
		return err;
	epochs = allowed(r->setup);
	if (epochs * (uint64_t)r->steps_per_epoch < r->total_steps)
		r->total_steps = r->planned_steps = epochs * (uint64_t)r->steps_per_epoch;
	return SL_OK;
}

/* So many epochs' rows have crossed, or begun to. */
static uint64_t epochs_crossed(const struct sl_training *r)
{
	const uint64_t length = (uint64_t)r->steps_per_epoch;

	/* length 0: an evaluation alone */
	return length ? (sl_releases_steps(&r->setup->noise_count.releases) + length - 1) / length : 0;
}

enum sl_err sl_run_privacy_begin(const struct sl_training *r, struct sl_fail *fail)
{
	const char *dir = r->setup->conf->log.dir;
	struct sl_releases *crossed = r->setup->noise.count ? &r->setup->noise.count->releases : NULL;
	char path[PATH_MAX];
	enum sl_err err;

	/* in one process nothing crosses */
	if (!sl_privacy_is_on(r->setup) || r->eval_only || !dir[0] || strcmp(r->totals.mode, "remote") != 0 ||
	    snprintf(path, sizeof path, "%s/" SL_RELEASES_FILE, dir) >= PATH_MAX)
		return SL_OK;
	err = sl_releases_open(crossed, path, fail);
	if (!r->setup->fresh || (err && err != SL_ERR_DATA))
		return err;
	if (err)
		sl_log(SL_LOG_WARN, "privacy-earlier",
		       "an earlier run in %.300s has sent samples, and nobody can read how often: epsilon counts this "
		       "run alone, and theirs adds to it (%s)",
		       dir, fail->text);
	else if (sl_releases_steps(crossed))
		sl_log(SL_LOG_WARN, "privacy-earlier",
		       "an earlier run in %.300s has sent its samples in %" PRIu64
		       " epochs: epsilon counts this run alone, and theirs add up",
		       dir, epochs_crossed(r));
	return sl_releases_empty(crossed, fail);
}

enum sl_err sl_run_privacy_changed(const struct sl_training *r, const char *changed, struct sl_fail *fail)
{
	const uint64_t held = (uint64_t)r->epoch + 1, noted = sl_releases_steps(&r->setup->noise_count.releases);
	const bool border = r->in_epoch == r->steps_per_epoch;

	if (strstr(changed, "privacy."))
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"rows have crossed with other noise, and epsilon would not count that (%s): resume with "
			"the privacy.… that the run had, or begin anew with --fresh",
			changed);
	if (sl_privacy_is_on(r->setup) && noted < r->step)
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			noted ? "log.dir has an older " SL_RELEASES_FILE " than its checkpoint (steps %" PRIu64
				" and %" PRIu64 "), so nobody knows what has crossed: put back the newest "
				"one, or begin anew with --fresh"
			      : "log.dir lacks " SL_RELEASES_FILE
				", so nobody knows what has crossed: put it back, or begin anew with --fresh",
			noted, r->step);
	if (!sl_privacy_is_on(r->setup) || !changed[0] || (border && epochs_crossed(r) <= held))
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
	const uint64_t crossed = epochs_crossed(r), epochs = begun > crossed ? begun : crossed;
	struct sl_jsonl_privacy p = {.delta = c->privacy.delta,
				     .budget = c->privacy.budget,
				     .spent = r->planned_steps < (uint64_t)r->schedule.total_steps &&
					      r->step >= r->planned_steps};

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
