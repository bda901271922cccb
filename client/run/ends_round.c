#include "client/run/ends_round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/exec/finite.h"

static const enum sl_segment part[2] = {SL_HEAD, SL_TAIL};

static struct sl_exec *exec_of(const struct sl_ends_round *r, int i)
{
	return i ? r->ends->tail : r->ends->head;
}

/* Where a part's differences lie in a change, and its statistics. */
static struct sl_change place(const struct sl_ends_round *r, int i, float *change)
{
	return sl_end_change(r->layout, r->ends->plan, part[i], change);
}

/* Where a moment's differences lie in a change. */
static float *moment_place(const struct sl_ends_round *r, int i, int moment, float *change)
{
	return place(r, i, change + r->layout->stats + (1 + moment) * r->layout->grads).grad;
}

enum sl_err sl_ends_round_open(struct sl_ends_round *r, struct sl_ends *ends, const struct sl_end_layout *layout,
			       enum sl_moments how, struct sl_fail *fail)
{
	enum sl_err err;

	*r = (struct sl_ends_round){.ends = ends, .layout = layout, .how = how};
	r->base = calloc((size_t)layout->grads + 1, sizeof *r->base);
	err = r->base ? SL_OK : SL_ERR_NOMEM;
	for (int i = 0; i < 2 && !err; i++) {
		err = sl_exec_state_open(&r->was[i], &ends->plan->segment[part[i]]);
		if (!err)
			err = sl_exec_state_open(&r->is[i], &ends->plan->segment[part[i]]);
	}
	return err ? sl_fail_set(fail, err, "no memory for the mean of heads and tails") : SL_OK;
}

void sl_ends_round_close(struct sl_ends_round *r)
{
	free(r->base);
	for (int i = 0; i < 2; i++) {
		sl_exec_state_close(&r->was[i]);
		sl_exec_state_close(&r->is[i]);
	}
	*r = (struct sl_ends_round){0};
}

static enum sl_err take(const struct sl_ends_round *r, struct sl_exec_state state[2])
{
	enum sl_err err = sl_exec_state_take(&state[0], exec_of(r, 0));

	return err ? err : sl_exec_state_take(&state[1], exec_of(r, 1));
}

/* Within a step, so more steps may be applied than are done: sl_exec_state_give is for states between steps. */
static enum sl_err give(const struct sl_ends_round *r, const struct sl_exec_state state[2], bool moments)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < 2 && !err; i++) {
		uint64_t applied = 0;

		err = sl_exec_set_weights(exec_of(r, i), state[i].weight);
		for (int k = 0; k < state[i].moments && moments && !err; k++)
			err = sl_exec_set_moment(exec_of(r, i), k, state[i].moment[k]);
		if (moments && sl_steps_read(&applied, state[i].applied))
			sl_exec_set_applied(exec_of(r, i), applied);
	}
	return err;
}

enum sl_err sl_ends_round_begin(struct sl_ends_round *r)
{
	enum sl_err err = take(r, r->is);

	for (int i = 0; i < 2 && !err; i++)
		sl_range_gather(&r->ends->plan->segment[part[i]], r->is[i].weight, place(r, i, r->base).grad, NULL);
	return err;
}

static void fill(const struct sl_ends_round *r, float *change)
{
	const struct sl_end_layout *l = r->layout;

	for (int i = 0; i < 2; i++) {
		const struct sl_plan_segment *s = &r->ends->plan->segment[part[i]];
		const struct sl_change at = place(r, i, change);

		sl_range_gather(s, r->is[i].weight, at.grad, at.keep);
		for (int k = 0; k < l->moments; k++)
			sl_range_gather(s, r->is[i].moment[k], moment_place(r, i, k, change), NULL);
	}
	for (int64_t i = 0; i < l->grads; i++)
		change[i] -= r->base[i];
	memcpy(change + l->floats - 2, r->is[0].applied, sizeof r->is[0].applied);
	if (sl_finite_host(change, l->floats))
		return;
	memset(change, 0, (size_t)l->grads * sizeof *change);
	for (int64_t i = l->grads; i < l->floats; i++)
		change[i] = NAN;
}

enum sl_err sl_ends_round_tell(struct sl_ends_round *r, bool with_step, double lr, double grad_scale, float *change)
{
	enum sl_err err = SL_OK;

	if (with_step)
		err = take(r, r->was);
	if (!err && with_step)
		err = sl_ends_commit(r->ends, lr, grad_scale);
	if (!err)
		err = take(r, r->is);
	if (!err && with_step)
		err = give(r, r->was, true);
	if (!err)
		fill(r, change);
	return err;
}

enum sl_err sl_ends_round_check(const struct sl_ends_round *r, const float *mean, struct sl_fail *fail)
{
	if (sl_end_check(r->layout, mean, fail))
		return SL_ERR_PAYLOAD;
	return sl_end_check_moments(r->layout, mean, r->ends->step + 1, fail);
}

/* The optimizer's part, of those whose moments are not each member's own. */
static void hear_moments(struct sl_ends_round *r, float *mean)
{
	for (int i = 0; i < 2; i++) {
		struct sl_exec_state *to = &r->is[i];

		for (int k = 0; k < to->moments && r->how == SL_MOMENTS_ZERO; k++)
			memset(to->moment[k], 0, (size_t)to->trainable_count * sizeof(float));
		for (int k = 0; k < r->layout->moments; k++)
			sl_range_scatter(&r->ends->plan->segment[part[i]], to->moment[k], moment_place(r, i, k, mean),
					 NULL);
		if (r->how == SL_MOMENTS_ZERO)
			sl_steps_write(0, to->applied);
		else
			memcpy(to->applied, sl_end_steps(r->layout, mean), sizeof to->applied);
	}
}

enum sl_err sl_ends_round_hear(struct sl_ends_round *r, float *mean)
{
	enum sl_err err = take(r, r->is);

	for (int64_t i = 0; i < r->layout->grads; i++)
		r->base[i] += mean[i];
	for (int i = 0; i < 2 && !err; i++)
		sl_range_scatter(&r->ends->plan->segment[part[i]], r->is[i].weight, place(r, i, r->base).grad,
				 place(r, i, mean).keep);
	if (!err && r->how != SL_MOMENTS_KEEP)
		hear_moments(r, mean);
	return err ? err : give(r, r->is, r->how != SL_MOMENTS_KEEP);
}
