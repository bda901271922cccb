#include "common/nn/average.h"

#include <stdlib.h>

#include "common/nn/finite.h"

/* Moments of the optimizer are kinds from 0 on. */
enum { WEIGHTS = -1 };

static int64_t count_of(const struct sl_exec *e, int kind)
{
	const struct sl_plan_segment *s = sl_exec_segment(e);

	return kind == WEIGHTS ? s->weight_count : s->trainable_count;
}

static enum sl_err get(struct sl_exec *e, int kind, float *x)
{
	return kind == WEIGHTS ? sl_exec_get_weights(e, x) : sl_exec_get_moment(e, kind, x);
}

static enum sl_err set(struct sl_exec *e, int kind, const float *x)
{
	return kind == WEIGHTS ? sl_exec_set_weights(e, x) : sl_exec_set_moment(e, kind, x);
}

enum sl_err sl_copy_check(struct sl_exec *copy, struct sl_fail *fail)
{
	const int64_t count = count_of(copy, WEIGHTS);
	float *x = malloc((size_t)count * sizeof *x + 1);
	enum sl_err err = x ? get(copy, WEIGHTS, x) : SL_ERR_NOMEM;

	if (!err && !sl_finite_host(x, count))
		err = sl_fail_set(fail, SL_ERR_NONFINITE,
				  "NaN or Inf in the weights that this member trained in the round");
	free(x);
	return err;
}

/* x [count] becomes the average, sum [count] is room for it. */
static enum sl_err average_into(float *x, double *sum, const struct sl_copy *copy, int n, int kind, int64_t count)
{
	uint64_t rows = 0;
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < count; i++)
		sum[i] = 0;
	for (int k = 0; k < n && !err; k++) {
		const double by = (double)copy[k].rows;

		if (!copy[k].rows)
			continue;
		rows += copy[k].rows;
		err = get(copy[k].exec, kind, x);
		for (int64_t i = 0; i < count && !err; i++)
			sum[i] += by * (double)x[i];
	}
	for (int64_t i = 0; i < count; i++)
		x[i] = (float)(sum[i] / (double)rows);
	return err;
}

static enum sl_err give(struct sl_exec *trunk, const struct sl_copy *copy, int n, int kind, const float *x)
{
	enum sl_err err = set(trunk, kind, x);

	for (int k = 0; k < n && !err; k++)
		err = set(copy[k].exec, kind, x);
	return err;
}

static enum sl_err unite(struct sl_exec *trunk, const struct sl_copy *copy, int n, int kind, bool zero)
{
	const int64_t count = count_of(trunk, kind);
	float *x = calloc((size_t)count + 1, sizeof *x);
	double *sum = malloc((size_t)count * sizeof *sum + 1);
	enum sl_err err = x && sum ? SL_OK : SL_ERR_NOMEM;

	if (!err && !zero)
		err = average_into(x, sum, copy, n, kind, count);
	if (!err)
		err = give(trunk, copy, n, kind, x);
	free(x);
	free(sum);
	return err;
}

static void unite_applied(struct sl_exec *trunk, const struct sl_copy *copy, int n, bool zero)
{
	uint64_t applied = 0;

	for (int k = 0; k < n && !zero; k++)
		if (copy[k].rows && sl_exec_applied(copy[k].exec) > applied)
			applied = sl_exec_applied(copy[k].exec);
	sl_exec_set_applied(trunk, applied);
	for (int k = 0; k < n; k++)
		sl_exec_set_applied(copy[k].exec, applied);
}

enum sl_err sl_average(struct sl_exec *trunk, const struct sl_copy *copy, int n, enum sl_moments how)
{
	const int moments = sl_exec_segment(trunk)->moments;
	enum sl_err err;
	int taking_part = 0;

	for (int k = 0; k < n; k++)
		taking_part += copy[k].rows > 0;
	if (!taking_part)
		return SL_OK;
	err = unite(trunk, copy, n, WEIGHTS, false);
	for (int i = 0; i < moments && how != SL_MOMENTS_KEEP && !err; i++)
		err = unite(trunk, copy, n, i, how == SL_MOMENTS_ZERO);
	if (!err && how != SL_MOMENTS_KEEP)
		unite_applied(trunk, copy, n, how == SL_MOMENTS_ZERO);
	return err;
}

static enum sl_err copy_kind(struct sl_exec *to, struct sl_exec *from, int kind)
{
	float *x = malloc((size_t)count_of(from, kind) * sizeof *x + 1);
	enum sl_err err = x ? get(from, kind, x) : SL_ERR_NOMEM;

	if (!err)
		err = set(to, kind, x);
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
