/* The end of a step, after its passes: gradients and statistics are checked, then clipped, and applied or skipped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/exec/clip.h"
#include "common/exec/exec_impl.h"
#include "common/exec/finite.h"

/* Name of the parameter at an offset of the weight range. */
static const char *param_at(const struct sl_exec *e, int64_t offset)
{
	const struct sl_plan_segment *s = e->segment;

	for (int i = 0; i < s->n_param; i++)
		if (offset >= s->param[i].offset && offset < s->param[i].offset + s->param[i].count)
			return s->graph.param[s->param[i].graph_param].name;
	return "a gap between parameters";
}

/* Checks x, on the device: floats [from, from + count) of the weight range, or their gradients. */
static enum sl_err check_range(struct sl_exec *e, const float *x, int64_t from, int64_t count, const char *what,
			       struct sl_fail *fail)
{
	bool finite = true;
	enum sl_err err = sl_finite(e->be, x, count, &finite);
	float *host;

	if (err || finite)
		return err;
	host = malloc((size_t)count * sizeof *host);
	err = host ? e->be->ops->download(e->be, host, x, (size_t)count * sizeof *host) : SL_ERR_NOMEM;
	if (!err)
		err = sl_fail_set(fail, SL_ERR_NONFINITE, "NaN or Inf in %s of %s", what,
				  param_at(e, from + sl_finite_find(host, count)));
	if (err == SL_ERR_NONFINITE && e->scale) {
		size_t used = strlen(fail->text);

		snprintf(fail->text + used, sizeof fail->text - used, ", at a loss scale of %g",
			 (double)e->loss_scale.scale);
	}
	free(host);
	return err;
}

/* Computes in `trial` the running statistics as this step would make them, in chunk order. Only kernels can do that,
 * from what a pass has saved. They get copies, so that the real statistics change only when the step is applied. */
static enum sl_err try_statistics(struct sl_exec *e, const int64_t *rows, int chunks)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;
	enum sl_err err = SL_OK;

	if (count && !e->tried && e->chunk_trial)
		err = sl_exec_try_apart(e, rows, chunks);
	else if (count && !e->tried)
		err = sl_exec_copy(e, e->trial, e->weight + from, count);
	for (int chunk = 0; chunk < chunks && count && !e->tried && !e->chunk_trial && !err; chunk++)
		err = sl_exec_try_chunk(e, chunk, rows[chunk]);
	e->tried = !err;
	return err;
}

static enum sl_err check_statistics(struct sl_exec *e, const int64_t *rows, int chunks, struct sl_fail *fail)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;
	enum sl_err err = try_statistics(e, rows, chunks);

	return err || !count ? err : check_range(e, e->trial, from, count, "the statistics", fail);
}

static enum sl_err commit_statistics(struct sl_exec *e, const int64_t *rows, int chunks)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;
	enum sl_err err = try_statistics(e, rows, chunks);

	e->tried = false;
	return err || !count ? err : sl_exec_copy(e, e->weight + from, e->trial, count);
}

enum sl_err sl_exec_check(struct sl_exec *e, const int64_t *rows, int chunks, struct sl_fail *fail)
{
	struct sl_range r = {0};
	enum sl_err err = SL_OK;

	while (!err && !e->finite && sl_exec_range(e, &r))
		err = check_range(e, e->grad + r.from, r.from, r.count, "the gradient", fail);
	e->finite = !err;
	return err ? err : check_statistics(e, rows, chunks, fail);
}

/* *out = a parameter's gradient in host memory; if it must be copied there, `room` [p->count] is given, else NULL. */
static enum sl_err gradient_of(struct sl_exec *e, const struct sl_segment_param *p, float *room, const float **out)
{
	const float *x = e->grad + p->offset;

	*out = room ? room : x;
	return room ? e->be->ops->download(e->be, room, x, (size_t)p->count * sizeof *room) : SL_OK;
}

enum sl_err sl_exec_squares_of(struct sl_exec *e, int input, double *squares, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = e->segment;
	const double scale = (double)e->loss_scale.scale;
	float *room = e->be->host_memory ? NULL : malloc((size_t)s->trainable_count * sizeof *room + 1);
	enum sl_err err = e->be->host_memory || room ? SL_OK : SL_ERR_NOMEM;
	double sum = 0;

	for (int i = 0; i < s->n_param && s->param[i].offset < s->trainable_count && !err; i++) {
		const float *x;

		if (input >= 0 && s->param[i].input != input)
			continue;
		if (e->table.rows && s->param[i].offset == e->table.offset) {
			sum += sl_exec_table_squares(e);
			continue;
		}
		err = gradient_of(e, &s->param[i], room, &x);
		if (!err)
			sum += sl_squares(x, s->param[i].count);
	}
	free(room);
	if (!err && !isfinite(sum))
		err = check_range(e, e->grad, 0, s->trainable_count, "the gradient", fail);
	if (err)
		return err;
	e->finite = isfinite(sum); /* squares of finite floats cannot overflow a double */
	*squares = sum / (scale * scale);
	return SL_OK;
}

enum sl_err sl_exec_squares(struct sl_exec *e, double *squares, struct sl_fail *fail)
{
	if (e)
		return sl_exec_squares_of(e, -1, squares, fail);
	*squares = 0;
	return SL_OK;
}

enum sl_err sl_exec_scale(struct sl_exec *e, double factor)
{
	const int64_t count = e->segment->trainable_count;
	const float by = (float)factor;
	enum sl_err err;

	if (factor == 0 || by == 1 || (sl_exec_sum(e) && !sl_exec_updates(e)))
		return SL_OK;
	e->finite = e->finite && fabsf(by) <= 1;
	if (e->be->host_memory) {
		for (struct sl_range r = {0}; sl_exec_range(e, &r);)
			for (int64_t i = r.from; i < r.from + r.count; i++)
				e->grad[i] *= by;
		return SL_OK;
	}
	err = e->be->ops->upload(e->be, e->clip, &by, sizeof by);
	return err ? err : e->be->ops->convert(e->be, e->grad, SL_F32, e->grad, SL_F32, e->clip, count);
}

/* Applies a step to weights [from, to). */
static enum sl_err update_range(struct sl_exec *e, const struct sl_update *step, int64_t from, int64_t to)
{
	float *moment[SL_MOMENTS_MOST];

	for (int i = 0; i < SL_MOMENTS_MOST; i++)
		moment[i] = i < sl_optimizer_moments(step->kind) ? e->moment[i] + from : NULL;
	return e->be->ops->update(e->be, step, to - from, e->weight + from, e->grad + from, moment);
}

static enum sl_err update_around_table(struct sl_exec *e, const struct sl_update *step, int64_t from, int64_t to)
{
	const struct sl_table *t = &e->table;
	const int64_t end = t->offset + t->rows * t->features;
	enum sl_err err = t->offset > from ? update_range(e, step, from, t->offset) : SL_OK;

	if (!err)
		err = sl_exec_table_step(e, step);
	return err || end == to ? err : update_range(e, step, end, to);
}

/* Applies the step to each parameter group's range, with the group's own settings. */
static enum sl_err update(struct sl_exec *e, double lr)
{
	const struct sl_plan_spec *spec = &e->plan->spec;
	enum sl_err err = SL_OK;

	for (int group = 0; group <= spec->n_group && !err; group++) {
		const int64_t from = group ? e->segment->group_end[group - 1] : 0;
		const int64_t to = e->segment->group_end[group];
		struct sl_optimizer o = spec->optimizer;
		struct sl_update step;

		if (group)
			o.weight_decay = spec->group[group - 1].weight_decay;
		step = sl_optimizer_step(&o, group ? lr * spec->group[group - 1].lr : lr, e->applied + 1);
		if (e->table.rows && e->table.group == group)
			err = update_around_table(e, &step, from, to);
		else if (to > from || !group)
			err = update_range(e, &step, from, to);
	}
	return err;
}

enum sl_err sl_exec_commit(struct sl_exec *e, double lr, const int64_t *rows, int chunks)
{
	const int64_t count = e->segment->trainable_count;
	const bool updates = !sl_exec_sum(e) || sl_exec_updates(e);
	enum sl_err err;

	sl_exec_order_commit(e, rows, chunks);
	err = commit_statistics(e, rows, chunks);
	if (!err && !updates)
		return sl_exec_save_sum(e);
	if (!err && e->scale)
		err = e->be->ops->convert(e->be, e->grad, SL_F32, e->grad, SL_F32, e->scale + 1, count);
	if (!err)
		err = update(e, lr);
	if (!err)
		err = sl_exec_lower(e);
	if (!err)
		err = sl_exec_update_average(e);
	if (err)
		return err;
	sl_exec_own_gradient(e);
	e->applied++;
	return sl_exec_set_loss_scale(e, sl_loss_scale_applied(e->loss_scale));
}

enum sl_err sl_exec_skip(struct sl_exec *e)
{
	sl_exec_own_gradient(e);
	return sl_exec_set_loss_scale(e, sl_loss_scale_skipped(e->loss_scale));
}
