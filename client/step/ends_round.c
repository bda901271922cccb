#include "client/step/ends_round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/exec/finite.h"

static const enum sl_segment part[2] = {SL_HEAD, SL_TAIL};

static struct sl_exec *exec_of(const struct sl_ends *ends, int i)
{
	return i ? ends->tail : ends->head;
}

/* The places in `change` of a part's differences and statistics. */
static struct sl_change place(const struct sl_ends_round *r, int i, float *change)
{
	return sl_end_change(r->layout, r->ends->plan, part[i], change);
}

/* The place in `change` of one of a part's optimizer moments. */
static float *moment_place(const struct sl_end_layout *l, const struct sl_plan *plan, int i, int moment, float *change)
{
	return sl_end_change(l, plan, part[i], change + l->stats + (1 + moment) * l->grads).grad;
}

static enum sl_err open_states(struct sl_exec_state state[2], const struct sl_plan *plan)
{
	enum sl_err err = sl_exec_state_open(&state[0], &plan->segment[part[0]], NULL);

	return err ? err : sl_exec_state_open(&state[1], &plan->segment[part[1]], NULL);
}

static void close_states(struct sl_exec_state state[2])
{
	sl_exec_state_close(&state[0]);
	sl_exec_state_close(&state[1]);
}

enum sl_err sl_ends_round_open(struct sl_ends_round *r, struct sl_ends *ends, const struct sl_end_layout *layout,
			       enum sl_conf_share_moments how, struct sl_fail *fail)
{
	enum sl_err err;

	*r = (struct sl_ends_round){.ends = ends, .layout = layout, .how = how};
	r->base = calloc((size_t)layout->grads + 1, sizeof *r->base);
	err = r->base ? SL_OK : SL_ERR_NOMEM;
	if (!err)
		err = open_states(r->was, ends->plan);
	if (!err)
		err = open_states(r->is, ends->plan);
	return err ? sl_fail_set(fail, err, "no memory for the mean of heads and tails") : SL_OK;
}

void sl_ends_round_close(struct sl_ends_round *r)
{
	free(r->base);
	close_states(r->was);
	close_states(r->is);
	*r = (struct sl_ends_round){0};
}

static enum sl_err take(const struct sl_ends *ends, struct sl_exec_state state[2])
{
	enum sl_err err = sl_exec_state_take(&state[0], exec_of(ends, 0));

	return err ? err : sl_exec_state_take(&state[1], exec_of(ends, 1));
}

/* Puts a state back within a step, where more steps may be applied than are done. sl_exec_state_give is for states
 * between steps. */
static enum sl_err put_state_back(const struct sl_ends *ends, const struct sl_exec_state state[2], bool moments)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < 2 && !err; i++) {
		uint64_t applied = 0;

		err = sl_exec_set_weights(exec_of(ends, i), state[i].weight);
		for (int k = 0; k < state[i].moments && moments && !err; k++)
			err = sl_exec_set_moment(exec_of(ends, i), k, state[i].moment[k]);
		if (moments && sl_steps_read(&applied, state[i].applied))
			sl_exec_set_applied(exec_of(ends, i), applied);
	}
	return err;
}

enum sl_err sl_ends_round_begin(struct sl_ends_round *r)
{
	enum sl_err err = take(r->ends, r->is);

	for (int i = 0; i < 2 && !err; i++)
		sl_range_gather(&r->ends->plan->segment[part[i]], r->is[i].weight, place(r, i, r->base).grad, NULL);
	return err;
}

static void gather(const struct sl_end_layout *l, const struct sl_plan *plan, const struct sl_exec_state state[2],
		   float *to)
{
	for (int i = 0; i < 2; i++) {
		const struct sl_plan_segment *s = &plan->segment[part[i]];
		const struct sl_change at = sl_end_change(l, plan, part[i], to);

		sl_range_gather(s, state[i].weight, at.grad, at.keep);
		for (int k = 0; k < l->moments; k++)
			sl_range_gather(s, state[i].moment[k], moment_place(l, plan, i, k, to), NULL);
	}
}

static void fill(const struct sl_ends_round *r, float *change)
{
	const struct sl_end_layout *l = r->layout;

	sl_assert(l->round && l->floats == l->grads * (1 + l->moments) + l->stats + 2);
	gather(l, r->ends->plan, r->is, change);
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
		err = take(r->ends, r->was);
	if (!err && with_step)
		err = sl_ends_commit(r->ends, lr, grad_scale);
	if (!err)
		err = take(r->ends, r->is);
	if (!err && with_step)
		err = put_state_back(r->ends, r->was, true);
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

static void scatter_moments(const struct sl_end_layout *l, const struct sl_plan *plan, int i, struct sl_exec_state *to,
			    float *from)
{
	for (int k = 0; k < l->moments; k++)
		sl_range_scatter(&plan->segment[part[i]], to->moment[k], moment_place(l, plan, i, k, from), NULL);
}

static void forget_moments(struct sl_exec_state *s)
{
	for (int k = 0; k < s->moments; k++)
		memset(s->moment[k], 0, (size_t)s->trainable_count * sizeof(float));
	sl_steps_write(0, s->applied);
}

/* Takes the optimizer's moments and its count of steps from the mean, or resets them (share.moments: zero). */
static void hear_moments(struct sl_ends_round *r, float *mean)
{
	for (int i = 0; i < 2; i++) {
		struct sl_exec_state *to = &r->is[i];

		for (int k = 0; k < to->moments && r->how == SL_SHARE_ZERO; k++)
			memset(to->moment[k], 0, (size_t)to->trainable_count * sizeof(float));
		scatter_moments(r->layout, r->ends->plan, i, to, mean);
		if (r->how == SL_SHARE_ZERO)
			sl_steps_write(0, to->applied);
		else
			memcpy(to->applied, sl_end_steps(r->layout, mean), sizeof to->applied);
	}
}

enum sl_err sl_ends_round_hear(struct sl_ends_round *r, float *mean)
{
	enum sl_err err = take(r->ends, r->is);

	sl_assert_int((r->ends->step + 1) % (uint64_t)r->ends->plan->spec.ends_round, ==, 0); /* a mean ends a round */
	for (int64_t i = 0; i < r->layout->grads; i++)
		r->base[i] += mean[i];
	for (int i = 0; i < 2 && !err; i++)
		sl_range_scatter(&r->ends->plan->segment[part[i]], r->is[i].weight, place(r, i, r->base).grad,
				 place(r, i, mean).keep);
	if (!err && r->how != SL_SHARE_KEEP)
		hear_moments(r, mean);
	return err ? err : put_state_back(r->ends, r->is, r->how != SL_SHARE_KEEP);
}

/* ---- the whole state of head and tail, for a member that joins while others train */

enum sl_err sl_ends_get_state(const struct sl_ends *ends, const struct sl_end_layout *l, float *to)
{
	struct sl_exec_state state[2] = {0};
	enum sl_err err = open_states(state, ends->plan);

	if (!err)
		err = take(ends, state);
	for (int i = 0; i < 2 && !err; i++)
		if (ends->plan->spec.ends_round > 0 && ends->plan->spec.shared_ends != SL_ENDS_MOMENTS)
			forget_moments(&state[i]); /* each member has its own: one that gets this state begins anew */
	if (!err)
		gather(l, ends->plan, state, to);
	if (!err && l->moments > 1) /* with fewer moments the count is not needed, and members may differ in it */
		memcpy(sl_end_steps(l, to), state[0].applied, sizeof state[0].applied);
	close_states(state);
	return err;
}

enum sl_err sl_ends_set_state(struct sl_ends *ends, const struct sl_end_layout *l, float *from)
{
	struct sl_exec_state state[2] = {0};
	enum sl_err err = open_states(state, ends->plan);

	if (!err)
		err = take(ends, state); /* what is frozen stays */
	for (int i = 0; i < 2 && !err; i++) {
		const struct sl_change at = sl_end_change(l, ends->plan, part[i], from);

		sl_range_scatter(&ends->plan->segment[part[i]], state[i].weight, at.grad, at.keep);
		scatter_moments(l, ends->plan, i, &state[i], from);
		memcpy(state[i].applied, sl_end_steps(l, from), sizeof state[i].applied);
	}
	if (!err)
		err = put_state_back(ends, state, true);
	close_states(state);
	return err;
}
