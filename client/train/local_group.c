#include "client/train/local_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/pass/local.h"
#include "client/persist/journal.h"
#include "client/train/absent.h"
#include "common/base/log.h"
#include "common/session/fold.h"

/* The state of a member before `step`. */
struct own {
	struct own *next;
	uint64_t step;
	struct sl_local_state state;
};

struct member {
	struct sl_conf_client conf;
	struct sl_setup setup;
	struct sl_training *run;
	struct sl_loader *loader[SL_SPLIT_COUNT];
	const struct sl_batch *batch; /* under way; NULL: none */
	struct sl_local *local;
	struct sl_fold_part *part; /* its part of the fold: has rows if it is in the step, else `why` it is not */
	struct sl_step_result result;
	enum sl_want want; /* what its run does next */
	bool absent;       /* it is late in the step under way */
	bool here;         /* takes part in the step under way, or did in the last one; false: away */
	struct own *own;   /* its head and tail at steps to which it goes back: the newest first */
};

struct group {
	struct sl_setup *setup;
	const struct sl_drive_options *options;
	struct sl_fold fold;   /* its trunk has the middle's parameters */
	struct member *member; /* [n] */
	int n;
	uint64_t step;          /* the next one */
	struct sl_end_sum ends; /* sum of shared heads and tails; zeros if they are not shared */
	struct sl_buf mean;     /* encoded, as all members get it; empty: nobody was in the step */
	struct sl_fail *fail;
};

/* ---- opening */

static enum sl_err open_trunk(struct group *g, struct sl_exec **out, struct sl_fail *fail)
{
	enum sl_err err = sl_exec_prepare(out, g->member[0].setup.plan, SL_MIDDLE, &g->setup->be, fail);

	if (!err)
		err = sl_exec_bare(*out, fail);
	return err ? err : sl_exec_allocate(*out, fail);
}

static enum sl_err open_ends(struct group *g, struct sl_fail *fail)
{
	const struct sl_setup *s = &g->member[0].setup;
	const struct sl_end_coder_env env =
		sl_agreement_coder(&s->agreement, sl_local_end_layout(g->member[0].local), SL_END_MEAN, &g->setup->be);
	enum sl_err err;

	if (!s->plan->spec.shared_ends)
		return SL_OK;
	err = sl_end_sum_open(&g->ends, &env, fail);
	if (err)
		return err;
	g->mean.cap = sl_end_coder_bound(g->ends.coder);
	g->mean.data = malloc(g->mean.cap + 1);
	g->fold.ends = &g->ends;
	g->fold.mean = &g->mean;
	return g->mean.data ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the mean of heads and tails");
}

static enum sl_err open_setup(struct group *g, int k, struct sl_fail *fail)
{
	struct member *m = &g->member[k];
	const char *dir = g->setup->conf->log.dir;
	enum sl_err err;

	m->conf = *g->setup->conf;
	m->conf.agreed.share.member = k;
	if (dir[0] && snprintf(m->conf.log.dir, sizeof m->conf.log.dir, "%s/member-%d", dir, k) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_CONFIG, "log.dir is too long");
	if (!g->options->fresh && sl_journal_taken(&m->conf, fail) != SL_OK)
		return fail->code;
	m->setup.reads = SL_READS_ALL;
	m->setup.record = g->setup->record;
	err = sl_setup_plan(&m->setup, &m->conf, fail);
	if (!err)
		err = sl_setup_weights(&m->setup, m->conf.model.weights, false, fail);
	if (!err)
		err = sl_setup_data(&m->setup, true, fail);
	return err ? err : sl_agreed_joins(&g->member[0].setup.agreement.agreed, &m->setup.agreement.agreed, fail);
}

static enum sl_err open_member(struct group *g, int k, struct sl_fail *fail)
{
	struct member *m = &g->member[k];
	struct sl_ends_use use;
	enum sl_err err;

	m->part = &g->fold.part[k];
	err = open_setup(g, k, fail);
	if (!err && k == 0)
		err = open_trunk(g, &g->fold.trunk, fail);
	if (!err && sl_setup_round(&m->setup))
		err = open_trunk(g, &m->part->copy, fail);
	if (!err)
		err = sl_local_open(&m->local, m->setup.plan, &m->setup.agreement,
				    m->part->copy ? m->part->copy : g->fold.trunk, &g->setup->be, fail);
	if (!err)
		err = sl_local_set_weights(m->local, &m->setup.weights, fail);
	if (err == SL_ERR_CONFIG)
		sl_setup_blame(&m->setup, fail);
	if (!err)
		err = sl_training_open(&m->run, &m->setup, "local", false, false, fail);
	for (int split = 0; split < SL_SPLIT_COUNT && !err; split++)
		err = sl_setup_loader(&m->setup, (enum sl_split)split, NULL, NULL, &m->loader[split], fail);
	if (err)
		return err;
	m->part->exec = sl_local_middle(m->local);
	m->part->change = sl_local_told(m->local);
	if (k)
		sl_training_hush(m->run); /* one progress bar is enough */
	use = sl_setup_use(&m->setup);
	use.noise = &g->setup->noise;
	use.dcor = m->setup.dcor;
	use.logits = sl_training_outputs(m->run);
	return sl_local_use(m->local, &use, fail);
}

/* Executors borrow the members' plans, the trunk that of member 0. So they are all closed before any plan is. */
static void close_all(struct group *g)
{
	sl_end_sum_close(&g->ends);
	free(g->mean.data);
	for (int k = 0; k < g->n && g->member[k].part; k++) {
		sl_local_close(g->member[k].local);
		sl_exec_close(g->member[k].part->copy);
	}
	sl_exec_close(g->fold.trunk);
	for (int k = 0; k < g->n && g->member[k].part; k++) {
		struct member *m = &g->member[k];

		for (struct own *o = m->own, *next; o; o = next) {
			next = o->next;
			sl_local_state_close(&o->state);
			free(o);
		}
		sl_loader_close(m->loader[SL_SPLIT_TEST]);
		sl_loader_close(m->loader[SL_SPLIT_TRAIN]);
		sl_training_close(m->run);
		sl_setup_close(&m->setup);
	}
	free(g->fold.part);
	free(g->member);
}

/* ---- one batch of each member */

static void release_batches(struct group *g, enum sl_split split)
{
	for (int k = 0; k < g->n; k++) {
		if (g->member[k].batch)
			sl_loader_release(g->member[k].loader[split], g->member[k].batch);
		g->member[k].batch = NULL;
	}
}

/* A batch of each member whose evaluation is not over: their sets may differ in size. The others wait. */
static enum sl_err evaluate(struct group *g)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++) {
		struct member *m = &g->member[k];
		struct sl_feed feed;

		if (!m->here || m->want != SL_WANT_EVAL)
			continue;
		err = sl_loader_take(m->loader[SL_SPLIT_TEST], &m->batch, g->fail);
		if (err)
			break;
		feed = sl_feed_of(m->batch);
		err = sl_local_eval(m->local, &feed, sl_training_number(m->run), &m->result, g->fail);
		if (err)
			break;
		sl_training_score(m->run, feed.target, feed.rows);
		sl_training_done(m->run, &m->result);
		if (sl_training_best_due(m->run))
			err = sl_drive_keep_best(&m->setup, m->local, m->run, g->fail);
	}
	release_batches(g, SL_SPLIT_TEST);
	return err;
}

static enum sl_err compute(struct group *g, int k)
{
	struct member *m = &g->member[k];
	const struct sl_part_bound bound = {m->conf.agreed.share.member_norm,
					    m->conf.agreed.share.over_norm == SL_OVER_CLIP, NULL};
	enum sl_err err = sl_loader_take(m->loader[SL_SPLIT_TRAIN], &m->batch, g->fail);
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	struct sl_feed feed;
	double factor;

	if (err)
		return err;
	feed = sl_feed_of(m->batch);
	factor = sl_plan_own_factor(&m->setup.plan->spec, sl_feed_answers(&feed));
	m->absent = sl_absent_look(g->options->absent, k, g->step) == SL_LATE;
	err = sl_local_begin(m->local, &feed, g->step, &m->part->why);
	if (!err)
		err = sl_part_check(sl_local_middle(m->local), rows, sl_local_rows(m->local, rows), factor,
				    g->ends.layout,
				    g->ends.coder && !g->ends.layout->round ? sl_local_told(m->local) : NULL, &bound,
				    &m->part->why);
	m->part->rows = !err && !m->absent ? (uint64_t)feed.rows : 0;
	m->part->counts = (uint64_t)sl_feed_answers(&feed);
	if (err && err != SL_ERR_NONFINITE)
		*g->fail = m->part->why;
	return err == SL_ERR_NONFINITE ? SL_OK : err;
}

static enum sl_err apply(struct group *g, double lr)
{
	enum sl_err err = sl_fold_sum(&g->fold, g->step, g->fail);

	return err ? err : sl_fold_apply(&g->fold, lr);
}

static enum sl_err end_own(struct group *g, struct member *m)
{
	enum sl_err err = SL_OK;

	if (!m->part->rows && !m->absent)
		err = sl_training_abandoned(m->run, &m->part->why, g->fail);
	if (!err)
		err = sl_local_end(m->local, sl_training_lr(m->run), m->part->rows > 0, &m->result, g->fail);
	m->result.late = m->absent;
	m->result.t_data_s = m->batch ? m->batch->waited_s : 0;
	return err;
}

/* A step within a round: steps each member's copy of the middle by itself. */
static enum sl_err apply_apart(struct group *g, double lr)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++)
		if (g->fold.part[k].rows)
			err = sl_fold_alone(&g->fold.part[k], lr);
	return err ? sl_fail_set(g->fail, err, "a member's step could not be applied") : SL_OK;
}

/* Has members send their changes at a round's last step. A late member does not; a member that passes the step, since
 * it is not its own, does. */
static enum sl_err tell_round(struct group *g, double lr)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && g->ends.coder && !err; k++) {
		struct member *m = &g->member[k];

		if (m->here && (m->want == SL_WANT_PASS || !m->absent))
			err = sl_local_tell_round(m->local, g->step, m->part->rows > 0, lr, g->fail);
	}
	return err;
}

/* Ends a round with this step. The average leaves out members that are absent in it. A member whose change the fold
 * refuses (left_out) is not in the step, and sends its change again without it. */
static enum sl_err average(struct group *g, double lr)
{
	enum sl_err err = tell_round(g, lr);

	for (int k = 0; k < g->n; k++) {
		g->fold.part[k].left_out = false;
		g->fold.part[k].averaged = sl_absent_look(g->options->absent, k, g->step) == SL_PRESENT;
	}
	if (!err)
		err = sl_fold_round(&g->fold, g->step, g->fail);
	for (int k = 0; k < g->n && !err; k++) {
		struct sl_fold_part *part = &g->fold.part[k];

		if (!part->left_out)
			continue;
		if (g->ends.coder && part->rows)
			err = sl_local_tell_round(g->member[k].local, g->step, false, lr, g->fail);
		part->rows = 0;
	}
	return err;
}

static enum sl_err apply_round(struct group *g, double lr)
{
	const uint64_t round = sl_setup_round(&g->member[0].setup);
	enum sl_err err = apply_apart(g, lr);

	return err || (g->step + 1) % round ? err : average(g, lr);
}

static enum sl_err step(struct group *g, double lr)
{
	const bool rounds = g->fold.part[0].copy != NULL;
	enum sl_err err = SL_OK;

	g->mean.len = 0;
	for (int k = 0; k < g->n && !err; k++) {
		g->fold.part[k].rows = 0;
		if (g->member[k].here && g->member[k].want == SL_WANT_STEP)
			err = compute(g, k);
	}
	if (!err)
		err = (rounds ? apply_round : apply)(g, lr);
	for (int k = 0; k < g->n && !err; k++) {
		struct member *m = &g->member[k];

		if (!m->here)
			continue;
		sl_local_hear(m->local, (struct sl_bytes){g->mean.data, g->mean.len});
		err = m->want == SL_WANT_STEP
			      ? end_own(g, m)
			      : sl_local_pass(m->local, g->step, sl_training_lr(m->run), &m->result, g->fail);
		if (!err)
			sl_training_done(m->run, &m->result);
	}
	release_batches(g, SL_SPLIT_TRAIN);
	g->step++;
	return err;
}

/* Keeps the member's head and tail, if it goes back to them later. */
static enum sl_err keep_own(struct group *g, struct member *m)
{
	struct own *own;

	if (g->ends.coder || !sl_absent_needs(g->options->absent, m->conf.agreed.share.member, g->step))
		return SL_OK;
	own = calloc(1, sizeof *own);
	if (!own || sl_local_take(m->local, &own->state)) {
		free(own);
		return sl_fail_set(g->fail, SL_ERR_NOMEM, "no memory for the state of a member");
	}
	own->step = g->step;
	own->next = m->own;
	m->own = own;
	return SL_OK;
}

/* Sets the head and tail of a member that comes back: those of `from`, which was in the last step, or its own. */
static enum sl_err take_ends(struct group *g, struct member *m, const struct member *from, uint64_t step)
{
	const struct own *own = m->own;

	if (g->ends.coder)
		return g->step && sl_local_copy_ends(m->local, from->local)
			       ? sl_fail_set(g->fail, SL_ERR_DEVICE, "the head and tail of a member could not be set")
			       : SL_OK;
	while (own && own->step != step)
		own = own->next;
	if (!own)
		return SL_OK; /* those of its last step */
	return sl_local_give_ends(m->local, &own->state)
		       ? sl_fail_set(g->fail, SL_ERR_DEVICE, "the head and tail of a member could not be set")
		       : SL_OK;
}

/* Brings back a member before the next step. `from`: a member that was in the last one. `was`: this one was, too. */
static enum sl_err join(struct group *g, struct member *m, const struct member *from, bool was, uint64_t own)
{
	enum sl_err err;

	if (m->part->copy && g->step % sl_setup_round(&m->setup))
		return sl_fail_set(g->fail, SL_ERR_USAGE,
				   "--absent: member %d comes back in step %" PRIu64 ", inside a round of %" PRIu64
				   " steps: let it come back at the first step of a round",
				   m->conf.agreed.share.member, g->step + 1, sl_setup_round(&m->setup));
	sl_local_forget_codecs(m->local);
	err = take_ends(g, m, from, own);
	if (!err && m->part->copy && g->step && sl_copy_reset(m->part->copy, g->fold.trunk, true))
		err = sl_fail_set(g->fail, SL_ERR_DEVICE, "the copy of a member could not be set");
	if (err || was)
		return err;
	sl_training_join(m->run, g->step, false);
	err = sl_training_seek(m->run, m->loader, g->fail);
	m->want = sl_training_next(m->run);
	return err ? err : sl_local_set_done(m->local, g->step, g->fail);
}

/* Finds who takes part in the next step, and brings back who was away. *some: one of them; NULL: nobody. */
static enum sl_err gather(struct group *g, struct member **some)
{
	const struct member *from = NULL;
	enum sl_err err = SL_OK;

	*some = NULL;
	for (int k = 0; k < g->n; k++)
		from = g->member[k].here ? &g->member[k] : from;
	for (int k = 0; k < g->n && !err; k++) {
		struct member *m = &g->member[k];
		const bool was = m->here;
		uint64_t own = g->step;
		const bool comes = sl_absent_returns(g->options->absent, k, g->step, &own);

		m->here = sl_absent_look(g->options->absent, k, g->step) != SL_AWAY;
		if (m->here && (!was || comes))
			err = join(g, m, from, was, own);
		if (!err) /* it may name a step that it was away in, such as 0 */
			err = keep_own(g, m);
		if (m->here && !*some)
			*some = m;
	}
	return err;
}

/* Asks the members that are here what their runs do next. EVAL: some have to evaluate before the next step, which needs
 * all. One that is away does not evaluate. */
static enum sl_want next(struct group *g)
{
	enum sl_want all = SL_WANT_STEP;

	for (int k = 0; k < g->n; k++) {
		struct member *m = &g->member[k];

		if (!m->here)
			continue;
		m->want = sl_training_next(m->run);
		if (m->want == SL_WANT_EVAL || (m->want == SL_WANT_FINISH && all != SL_WANT_EVAL))
			all = m->want;
	}
	return all;
}

static enum sl_err run_all(struct group *g)
{
	enum sl_err err = SL_OK;

	while (!err && !sl_drive_stopped()) {
		const enum sl_want want = next(g);
		struct member *some;

		if (want == SL_WANT_FINISH) /* one that was away at the end comes for the last state */
			return gather(g, &some);
		if (want == SL_WANT_EVAL) {
			err = evaluate(g);
			continue;
		}
		err = gather(g, &some);
		if (!err && !some)
			err = sl_fail_set(g->fail, SL_ERR_USAGE, "--absent leaves nobody in step %" PRIu64,
					  g->step + 1);
		if (!err)
			err = step(g, sl_training_lr(some->run));
	}
	return err;
}

static enum sl_err finish(struct group *g, bool nonfinite)
{
	enum sl_err err = SL_OK;

	for (int k = 0; k < g->n && !err; k++) {
		struct member *m = &g->member[k];

		if (sl_local_get_weights(m->local, &m->setup.weights))
			return sl_fail_set(g->fail, SL_ERR_DEVICE, "the weights could not be read back");
		err = sl_drive_save(&m->setup, m->run, 0, g->fail);
		if (err)
			break;
		sl_log(SL_LOG_INFO, "member", "what follows is member %d of %d", k, g->n);
		sl_drive_summary(m->run, m->local, nonfinite, g->options->json);
	}
	return err;
}

enum sl_err sl_drive_local_group(struct sl_setup *setup, const struct sl_drive_options *options, struct sl_fail *fail)
{
	struct group g = {.setup = setup, .options = options, .n = setup->conf->agreed.share.clients, .fail = fail};
	enum sl_err err = SL_OK;

	g.member = calloc((size_t)g.n, sizeof *g.member);
	g.fold = (struct sl_fold){.part = calloc((size_t)g.n, sizeof *g.fold.part),
				  .n = g.n,
				  .moments = setup->conf->agreed.share.moments,
				  .most = setup->conf->agreed.share.member_norm};
	if (!g.member || !g.fold.part) {
		free(g.member);
		free(g.fold.part);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %d members", g.n);
	}
	for (int k = 0; k < g.n && !err; k++)
		err = open_member(&g, k, fail);
	if (!err)
		err = open_ends(&g, fail);
	if (!err && sl_absent_last(options->absent) > sl_training_state(g.member[0].run).total_steps)
		err = sl_fail_set(fail, SL_ERR_USAGE,
				  "--absent names step %" PRIu64 ", and the run ends with step %" PRIu64,
				  sl_absent_last(options->absent), sl_training_state(g.member[0].run).total_steps);
	sl_drive_catch_signals();
	for (int k = 0; k < g.n && !err; k++)
		err = sl_training_begin(g.member[k].run, fail);
	if (!err)
		err = run_all(&g);
	if (!err || err == SL_ERR_NONFINITE) {
		const struct sl_fail why = *fail;
		const enum sl_err end = finish(&g, err == SL_ERR_NONFINITE);

		if (!end && err)
			*fail = why;
		err = end ? end : err;
	}
	err = err ? err : sl_drive_stopped_early(g.member[0].run, fail);
	close_all(&g);
	return err;
}
