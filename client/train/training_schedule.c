/* How long a run is, where in its data it stands, and the learning rate of each of its steps. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/train/privacy.h"
#include "client/train/training_run.h"

int64_t sl_run_batches(int64_t samples, int64_t batch, bool drop_last)
{
	return drop_last ? samples / batch : (samples + batch - 1) / batch;
}

/* For the kinds that have points. Reading them cannot fail, since the config has been checked. */
static void add_points(const struct sl_conf_client *c, struct sl_schedule *out)
{
	const bool lines = out->kind == SL_CONF_POINTS;
	const struct sl_conf_list *list = lines ? &c->train.schedule.points : &c->train.schedule.milestones;

	if (!lines && out->kind != SL_CONF_STEP)
		return;
	for (int i = 0; i < list->n && i < SL_SCHEDULE_MAX_POINTS; i++) {
		struct sl_schedule_point *p = &out->point[out->n_point];

		out->n_point += sl_conf_point(list->item[i], &p->epoch, lines ? &p->lr : NULL);
	}
}

/* The schedule of a run of all these epochs, with so many steps in each. */
static enum sl_err make_schedule(const struct sl_conf_client *c, int all_epochs, int64_t samples,
				 int64_t steps_per_epoch, struct sl_schedule *out, struct sl_fail *fail)
{
	double epochs = all_epochs;
	struct sl_fail why;
	bool cut;

	if (steps_per_epoch < 1)
		return sl_conf_client_fail(c, "train.batch", fail, "drop_last leaves no batch of %d in %lld samples",
					   c->agreed.batch, (long long)samples);
	/* A schedule ends where the run does. */
	cut = c->train.max_steps && (double)c->train.max_steps < epochs * (double)steps_per_epoch;
	if (cut)
		epochs = (double)c->train.max_steps / (double)steps_per_epoch;
	*out = (struct sl_schedule){
		.kind = c->train.schedule.kind,
		.lr = c->train.lr,
		.end_lr = c->train.schedule.end_lr,
		.power = c->train.schedule.power,
		.gamma = c->train.schedule.gamma,
		.every_epochs = c->train.schedule.every_epochs,
		.from_zero = c->train.schedule.warmup == SL_CONF_FROM_ZERO,
		.by_epoch = c->train.schedule.by == SL_CONF_BY_EPOCH,
		.accumulate = c->agreed.accumulate,
	};
	add_points(c, out);
	if (sl_schedule_set_epochs(out, epochs, c->train.schedule.warmup_epochs, steps_per_epoch, &why) != SL_OK)
		return sl_conf_client_fail(
			c, "train.schedule.warmup_epochs", fail, "%s%s", why.text,
			cut ? ", which is where train.max_steps ends the run: a short run needs 0 here" : "");
	return SL_OK;
}

static int64_t epoch_steps(const struct sl_conf_client *c, int64_t samples, int64_t of_group)
{
	return of_group ? of_group : sl_run_batches(samples, c->agreed.batch, c->train.drop_last);
}

/* Warns if a batch is larger than the set: memory is allocated for the whole batch. Not in a group, where a member may
 * have fewer samples than others. */
static void warn_of_batch(const struct sl_conf_client *c, int64_t samples)
{
	if (c->agreed.batch > samples && !c->agreed.share.group[0])
		sl_log(SL_LOG_WARN, "batch",
		       "train.batch is %lld, but there are only %lld samples: each step has %lld, and memory is taken "
		       "for %lld; write train.batch: %lld or less",
		       (long long)c->agreed.batch, (long long)samples, (long long)samples, (long long)c->agreed.batch,
		       (long long)samples);
}

/* A run must end with a whole round, since its final middle is an average. `of_group`: steps of an epoch, and of a
 * round unless the config gives those. */
static enum sl_err check_rounds(const struct sl_conf_client *c, int64_t of_group, uint64_t total, struct sl_fail *fail)
{
	const uint64_t round = (uint64_t)(c->agreed.share.round ? c->agreed.share.round : of_group);
	const uint64_t whole = round ? total / round * round : 0;

	if (!of_group || c->agreed.share.mode != SL_SHARE_ROUNDS || whole == total)
		return SL_OK;
	return sl_conf_client_fail(c, "share.round", fail,
				   "the run has %" PRIu64 " steps, which are no whole rounds of %" PRIu64
				   ": train.max_steps: %" PRIu64 " would be right",
				   total, round, whole ? whole : round);
}

/* Batches that do not fill a step of the optimizer change running statistics alone. */
static enum sl_err check_accumulate(const struct sl_conf_client *c, uint64_t total, struct sl_fail *fail)
{
	const uint64_t batches = (uint64_t)c->agreed.accumulate;

	if (batches <= 1 || total % batches == 0)
		return SL_OK;
	if (total < batches)
		return sl_conf_client_fail(c, "train.accumulate", fail,
					   "the run has %" PRIu64 " batches, so no step of %" PRIu64
					   " batches is ever done and nothing is learned: write at most %" PRIu64,
					   total, batches, total);
	sl_log(SL_LOG_INFO, "accumulate",
	       "the run's last %" PRIu64 " of %" PRIu64 " batches do not fill a step of %" PRIu64
	       ": no weight learns from them",
	       total % batches, total, batches);
	return SL_OK;
}

/* Whether a batch norm has one value for each channel in a chunk of one row. Gives its name. Rows of tokens have more
 * than one in all but the rarest chunks. */
static const char *lone_norm(const struct sl_plan *plan)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_graph *g = &plan->segment[which].graph;

		for (int i = 0; i < g->n_node; i++) {
			const int in = g->link[g->node[i].in];
			const struct sl_shape *s = &g->value[in].shape;

			if (g->node[i].kind == SL_OP_BATCHNORM && sl_shape_row(s) == s->dim[s->ndim - 1] &&
			    g->value[in].lead == SL_PER_ROW)
				return g->node[i].name;
		}
	}
	return NULL;
}

static bool has_lone_chunk(const struct sl_plan *plan, int64_t batch_rows)
{
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	const int chunks = sl_plan_split(plan, batch_rows, rows);
	bool lone = false;

	for (int i = 0; i < chunks; i++)
		lone |= rows[i] == 1;
	return lone;
}

/* How members of a group divide their data is often not theirs to choose: they are warned. */
enum sl_err sl_training_check_norms(const struct sl_setup *s, int64_t samples, uint64_t steps, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const int64_t batch = c->agreed.batch, full = samples < batch ? samples : batch;
	const int64_t last = strcmp(c->data.partition, "batch") == 0 || c->train.drop_last ? 0 : samples % batch;
	const char *norm = s->plan ? lone_norm(s->plan) : NULL;
	const char *key = c->agreed.chunks > 1 ? "train.chunks" : "train.batch";
	const char *remedy = "write fewer train.chunks or a larger train.batch";
	struct sl_fail why;
	char what[160];

	if (!norm)
		return SL_OK;
	if (has_lone_chunk(s->plan, full)) {
		snprintf(what, sizeof what, "a chunk of %lld samples in %d chunk%s has one sample", (long long)full,
			 c->agreed.chunks, sl_plural(c->agreed.chunks));
	} else if (last && steps > (uint64_t)(samples / batch) && has_lone_chunk(s->plan, last)) {
		key = "train.batch";
		remedy = "write train.drop_last: true, or another train.batch or train.chunks";
		snprintf(what, sizeof what,
			 "the last batch of an epoch has %lld of %lld samples, and a chunk of it one", (long long)last,
			 (long long)samples);
	} else {
		return SL_OK;
	}
	(void)!sl_fail_set(
		&why, SL_ERR_CONFIG,
		"%s, where batch norm %.60s has one value for each channel, which has no variance: %s, or take "
		"a network with group norms",
		what, norm, remedy);
	if (!c->agreed.share.group[0])
		return sl_conf_client_fail(c, key, fail, "%s", why.text);
	sl_log(SL_LOG_WARN, "lone-norm", "%s", why.text);
	return SL_OK;
}

enum sl_err sl_training_steps(const struct sl_conf_client *c, const struct sl_phase *phase, int64_t samples,
			      int64_t of_group, uint64_t *steps, struct sl_fail *fail)
{
	const int64_t per_epoch = epoch_steps(c, samples, of_group);
	struct sl_schedule schedule;
	enum sl_err err =
		make_schedule(c, phase ? phase->epochs : c->train.epochs, samples, per_epoch, &schedule, fail);

	if (!err)
		warn_of_batch(c, samples);
	if (!err)
		err = check_rounds(c, of_group, (uint64_t)schedule.total_steps, fail);
	if (!err)
		*steps = phase ? (uint64_t)(c->train.epochs * per_epoch) : (uint64_t)schedule.total_steps;
	return err || phase ? err : check_accumulate(c, *steps, fail);
}

enum sl_err sl_run_open_schedule(struct sl_training *r, struct sl_fail *fail)
{
	const struct sl_conf_client *c = r->setup->conf;
	const struct sl_phase *phase = &r->setup->phase;
	int64_t samples = r->setup->set[SL_SPLIT_TRAIN].count;
	enum sl_err err;

	r->steps_per_epoch = epoch_steps(c, samples, r->setup->epoch_steps);
	err = make_schedule(c, phase->count ? phase->epochs : c->train.epochs, samples, r->steps_per_epoch,
			    &r->schedule, fail);
	r->total_steps = phase->count ? phase->step + (uint64_t)c->train.epochs * (uint64_t)r->steps_per_epoch
				      : (uint64_t)r->schedule.total_steps;
	r->planned_steps = r->total_steps;
	if (!err && !r->eval_only)
		err = sl_run_privacy_open(r, fail);
	if (!err)
		warn_of_batch(c, samples);
	if (!err)
		err = check_rounds(c, r->setup->epoch_steps, r->total_steps, fail);
	if (!err && !r->eval_only && phase->index + 1 >= phase->count)
		err = check_accumulate(c, r->total_steps, fail);
	return err || r->eval_only ? err : sl_training_check_norms(r->setup, samples, r->total_steps, fail);
}

/* The schedule counts the epochs of all phases, as if each had this phase's steps per epoch. */
double sl_run_lr(const struct sl_training *r, uint64_t step)
{
	const struct sl_phase *phase = &r->setup->phase;
	const int64_t at = (int64_t)(step - phase->step) + phase->first_epoch * r->steps_per_epoch;

	return phase->count ? phase->lr * sl_schedule_lr(&r->schedule, at)
			    : sl_schedule_lr(&r->schedule, (int64_t)step);
}

enum sl_err sl_training_seek(const struct sl_training *r, struct sl_loader *const loader[SL_SPLIT_COUNT],
			     struct sl_fail *fail)
{
	const struct sl_setup *s = r->setup;
	const uint64_t batches = (uint64_t)sl_loader_batches(loader[SL_SPLIT_TRAIN]);
	uint64_t at = (uint64_t)r->epoch * (uint64_t)r->steps_per_epoch + (uint64_t)r->in_epoch;
	enum sl_err err;

	/* a member with few data may go through them several times in an epoch of its group */
	if (s->epoch_steps)
		at = sl_turns_before(&s->turns, s->conf->agreed.share.member, at);
	err = sl_loader_seek(loader[SL_SPLIT_TRAIN], at / batches, (int64_t)(at % batches));
	if (!err)
		err = sl_loader_seek(loader[SL_SPLIT_TEST], 0, r->in_eval);
	return err ? sl_fail_set(fail, err, "the data loader: %s", sl_err_text(err)) : SL_OK;
}

enum sl_err sl_training_unfinished(const struct sl_training *r, const char *how, struct sl_fail *fail)
{
	if (r->eval_only)
		return sl_fail_set(fail, SL_ERR_BUSY, "stopped before all samples were evaluated");
	return sl_fail_set(fail, SL_ERR_BUSY, "stopped after step %" PRIu64 " of %" PRIu64 ": %s", r->step,
			   r->total_steps, how);
}
