#include "common/exec/average.h"

#include <stdlib.h>

#include "common/exec/finite.h"

/* A "kind" of floats: the weights, or from 0 on a moment of the optimizer. */
enum { WEIGHTS = -1 };

static int64_t count_of(const struct sl_exec *e, int kind)
{
	const struct sl_plan_segment *s = sl_exec_segment(e);

	return kind == WEIGHTS ? s->weight_count : s->trainable_count;
}

/* How many of these floats steps can change. The rest is equal in all copies, and partly held in 16 bits. */
static int64_t moving_of(const struct sl_exec *e, int kind)
{
	const struct sl_plan_segment *s = sl_exec_segment(e);

	return kind == WEIGHTS ? s->moving_count : s->trainable_count;
}

static enum sl_err get_floats(struct sl_exec *e, int kind, float *x)
{
	return kind == WEIGHTS ? sl_exec_get_weights(e, x) : sl_exec_get_moment(e, kind, x);
}

static enum sl_err set_floats(struct sl_exec *e, int kind, const float *x)
{
	return kind == WEIGHTS ? sl_exec_set_weights(e, x) : sl_exec_set_moment(e, kind, x);
}

enum sl_err sl_copy_check(struct sl_exec *copy, struct sl_fail *fail)
{
	const int64_t count = count_of(copy, WEIGHTS);
	float *x = malloc((size_t)count * sizeof *x + 1);
	enum sl_err err = x ? get_floats(copy, WEIGHTS, x) : SL_ERR_NOMEM;

	if (!err && !sl_finite_host(x, moving_of(copy, WEIGHTS)))
		err = sl_fail_set(fail, SL_ERR_NONFINITE,
				  "NaN or Inf in the weights that this member trained in the round");
	free(x);
	return err;
}

/* The copies to be averaged. */
struct average {
	struct sl_exec *trunk;
	const struct sl_copy *copy;
	int n;
	uint64_t rows, applied; /* rows of all copies; the most applied steps of a copy that has rows */
	const struct sl_others *others;
};

/* x [count] = the average; sum [count] is zeroed workspace. */
static enum sl_err average_into(float *x, double *sum, const struct average *u, int kind, int64_t count)
{
	const size_t bytes = (size_t)count * sizeof *sum;
	enum sl_err err = SL_OK;

	(void)sl_others_take(u->others, sum, bytes);
	for (int k = 0; k < u->n && !err; k++) {
		const double by = (double)u->copy[k].rows;

		if (!u->copy[k].rows)
			continue;
		err = get_floats(u->copy[k].exec, kind, x);
		for (int64_t i = 0; i < count && !err; i++)
			sum[i] += by * (double)x[i];
	}
	if (err)
		return err;
	sl_others_pass(u->others, sum, bytes);
	sl_others_spread(u->others, sum, bytes);
	for (int64_t i = 0; i < count; i++)
		x[i] = (float)(sum[i] / (double)u->rows);
	return SL_OK;
}

static enum sl_err set_all(const struct average *u, int kind, const float *x)
{
	enum sl_err err = set_floats(u->trunk, kind, x);

	for (int k = 0; k < u->n && !err; k++)
		err = set_floats(u->copy[k].exec, kind, x);
	return err;
}

static enum sl_err average_kind(const struct average *u, int kind, bool zero)
{
	const int64_t count = moving_of(u->trunk, kind);
	float *x = calloc((size_t)count_of(u->trunk, kind) + 1, sizeof *x);
	double *sum = calloc((size_t)count + 1, sizeof *sum);
	enum sl_err err = x && sum ? SL_OK : SL_ERR_NOMEM;

	if (!err && kind == WEIGHTS) /* for the frozen weights */
		err = get_floats(u->trunk, kind, x);
	if (!err && !zero)
		err = average_into(x, sum, u, kind, count);
	if (!err)
		err = set_all(u, kind, x);
	free(x);
	free(sum);
	return err;
}

static void set_all_applied(const struct average *u, bool zero)
{
	const uint64_t applied = zero ? 0 : u->applied;

	sl_exec_set_applied(u->trunk, applied);
	for (int k = 0; k < u->n; k++)
		sl_exec_set_applied(u->copy[k].exec, applied);
}

/* Extends rows and applied to the copies of all processes. */
static enum sl_err hear_others(struct average *u)
{
	const struct {
		uint64_t rows, applied;
	} own = {u->rows, u->applied}, *all;

	if (!u->others)
		return SL_OK;
	all = u->others->gather(u->others->arg, &own, sizeof own);
	if (!all)
		return SL_ERR_NOMEM;
	u->rows = 0;
	for (int r = 0; r < u->others->count; r++) {
		u->rows += all[r].rows;
		u->applied = all[r].applied > u->applied ? all[r].applied : u->applied;
	}
	free((void *)(uintptr_t)all);
	return SL_OK;
}

enum sl_err sl_average(struct sl_exec *trunk, const struct sl_copy *copy, int n, enum sl_conf_share_moments how,
		       const struct sl_others *others)
{
	const int moments = sl_exec_segment(trunk)->moments;
	struct average u = {.trunk = trunk, .copy = copy, .n = n, .others = others};
	enum sl_err err;

	for (int k = 0; k < n; k++) {
		u.rows += copy[k].rows;
		if (copy[k].rows && sl_exec_applied(copy[k].exec) > u.applied)
			u.applied = sl_exec_applied(copy[k].exec);
	}
	err = hear_others(&u);
	if (err || !u.rows)
		return err;
	err = average_kind(&u, WEIGHTS, false);
	for (int i = 0; i < moments && how != SL_SHARE_KEEP && !err; i++)
		err = average_kind(&u, i, how == SL_SHARE_ZERO);
	if (!err && how != SL_SHARE_KEEP)
		set_all_applied(&u, how == SL_SHARE_ZERO);
	return err;
}

static enum sl_err copy_kind(struct sl_exec *to, struct sl_exec *from, int kind)
{
	float *x = malloc((size_t)count_of(from, kind) * sizeof *x + 1);
	enum sl_err err = x ? get_floats(from, kind, x) : SL_ERR_NOMEM;

	if (!err)
		err = set_floats(to, kind, x);
	free(x);
	return err;
}

enum sl_err sl_copy_reset(struct sl_exec *copy, struct sl_exec *trunk, bool moments)
{
	enum sl_err err = copy_kind(copy, trunk, WEIGHTS);

	for (int i = 0; i < sl_exec_segment(trunk)->moments && moments && !err; i++)
		err = copy_kind(copy, trunk, i);
	if (!err && moments)
		sl_exec_set_applied(copy, sl_exec_applied(trunk));
	return err;
}
