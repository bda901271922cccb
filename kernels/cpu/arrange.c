/* Ops that move numbers: permute, resample (struct sl_resample_attr), and repeat, which copies a parameter to
 * every row. */
#include <string.h>

#include "common/graph/taps.h"
#include "kernels/cpu/impl.h"

/* ---- permute: y [outer, c, b, d] from x [outer, b, c, d] */

struct permute_job {
	float *y;
	const float *x;
	int64_t b, c, d, pairs, per_block; /* pairs: outer · c */
	const struct sl_cpu_simd *simd;
	bool add;
};

static void permute_block(void *arg, int64_t block, int worker)
{
	const struct permute_job *j = arg;
	const int64_t first = block * j->per_block, n = sl_cpu_min(j->per_block, j->pairs - first), step = j->c * j->d;

	for (int64_t pair = first; pair < first + n; pair++) {
		const float *x = j->x + (pair / j->c * j->b * j->c + pair % j->c) * j->d;
		float *y = j->y + pair * j->b * j->d;

		for (int64_t i = 0; i < j->b; i++, x += step, y += j->d)
			if (j->d == 1)
				*y = j->add ? *y + *x : *x;
			else if (j->add)
				j->simd->sum(y, y, x, j->d);
			else
				memcpy(y, x, (size_t)j->d * sizeof *y);
	}
}

static void permute(const struct sl_op_call *call, int64_t rows, struct permute_job j)
{
	const struct sl_permute_attr *a = &call->op->u.permute;
	const int64_t b = j.b, c = j.c;

	j.simd = sl_cpu_simd_of(call->be);
	j.d = sl_shape_row(&call->op->in_shape[0]) / a->outer / b / c;
	if (b == 1 || c == 1) { /* the order does not change */
		j.d *= b * c;
		j.b = j.c = 1;
	}
	j.pairs = rows * a->outer * j.c;
	j.per_block = sl_cpu_max(1, SL_CPU_BLOCK / (j.b * j.d));
	sl_pool_run(call->be->pool, sl_cpu_blocks(j.pairs, j.per_block), permute_block, &j);
}

static enum sl_err permute_forward(const struct sl_op_call *call)
{
	const struct sl_permute_attr *a = &call->op->u.permute;

	permute(call, call->out.shape.dim[0],
		(struct permute_job){.y = call->out.data, .x = call->in[0].data, .b = a->b, .c = a->c});
	return SL_OK;
}

static enum sl_err permute_backward(const struct sl_op_call *call)
{
	const struct sl_permute_attr *a = &call->op->u.permute;

	if (call->din[0].data)
		permute(call, call->dout.shape.dim[0],
			(struct permute_job){.y = call->din[0].data,
					     .x = call->dout.data,
					     .b = a->c,
					     .c = a->b,
					     .add = call->din_add[0]});
	return SL_OK;
}

/* ---- resample: from [outer, n, inner] to [outer, m, inner]. A strip is part of `inner` for one outer index;
 * a task is one strip, or several small ones */

enum {
	STRIP = 256,
	STEPS = 64, /* outputs along the axis between two places where a task may stop */
	SMALL = STRIP / 8,
};

struct resample_job {
	const struct sl_resample_attr *a;
	const struct sl_cpu_simd *simd;
	const float *from;
	float *to;
	int64_t n, m, inner, strips;
	int64_t outer_n, outer_m; /* floats of one outer index */
	int64_t all, each;        /* strips; strips of a task */
	bool (*strip)(const struct resample_job *j, int64_t strip,
		      struct sl_pool_step *s); /* false: the task stopped */
	bool add;
};

static bool stops(const struct resample_job *j, int64_t i, struct sl_pool_step *s)
{
	return j->each == 1 && i < j->m && i % STEPS == 0 && sl_pool_stop(s, i);
}

/* y [count] = or += by·x */
static void blend(const struct resample_job *j, float *y, const float *x, double by, int64_t count, bool add)
{
	j->simd->scale(y, x, (float)by, 0, count, add);
}

static bool resample_strip(const struct resample_job *j, int64_t task, struct sl_pool_step *s)
{
	const int64_t at = task % j->strips * STRIP, count = sl_cpu_min(STRIP, j->inner - at);
	const float *x = j->from + task / j->strips * j->outer_n + at;
	float *y = j->to + task / j->strips * j->outer_m + at;

	for (int64_t i = s->at; i < j->m;) {
		const struct sl_taps t = sl_taps_of(j->a, j->n, i);

		if (!t.count)
			memset(y + i * j->inner, 0, (size_t)count * sizeof *y);
		for (int64_t k = 0; k < t.count; k++)
			blend(j, y + i * j->inner, x + (t.from + k) * j->inner, k ? t.rest : t.first, count, k > 0);
		if (stops(j, ++i, s))
			return false;
	}
	return true;
}

static bool resample_back_strip(const struct resample_job *j, int64_t task, struct sl_pool_step *s)
{
	const int64_t at = task % j->strips * STRIP, count = sl_cpu_min(STRIP, j->inner - at);
	float *dx = j->to + task / j->strips * j->outer_n + at;
	const float *dy = j->from + task / j->strips * j->outer_m + at;

	for (int64_t k = 0; k < j->n && s->at == 0 && !j->add; k++)
		memset(dx + k * j->inner, 0, (size_t)count * sizeof *dx);
	for (int64_t i = s->at; i < j->m;) {
		const struct sl_taps t = sl_taps_of(j->a, j->n, i);

		for (int64_t k = 0; k < t.count; k++)
			blend(j, dx + (t.from + k) * j->inner, dy + i * j->inner, k ? t.rest : t.first, count, true);
		if (stops(j, ++i, s))
			return false;
	}
	return true;
}

static void resample_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct resample_job *j = arg;
	const int64_t end = sl_cpu_min(j->all, (task + 1) * j->each);

	for (int64_t strip = task * j->each; strip < end && j->strip(j, strip, s); strip++)
		;
}

static void resample(const struct sl_op_call *call, const struct sl_shape *out, struct resample_job j)
{
	static const struct sl_resample_attr same = {.axis = 1, .size = 1, .step = 1, .window = 1};

	j.a = &call->op->u.resample;
	j.simd = sl_cpu_simd_of(call->be);
	j.n = call->op->in_shape[0].dim[j.a->axis];
	j.m = j.a->size;
	j.inner = sl_op_inner(out, j.a->axis + 1);
	j.outer_n = j.n * j.inner;
	j.outer_m = j.m * j.inner;
	if (sl_op_is_run(call->op)) { /* a contiguous slice: copied as one element of m·inner floats */
		j.inner = j.outer_m;
		j.n = j.m = 1;
		j.a = &same;
	}
	j.strips = sl_cpu_blocks(j.inner, STRIP);
	j.all = sl_shape_count(out) / j.outer_m * j.strips;
	j.each = sl_cpu_max(1, STEPS * STRIP / (sl_cpu_max(j.n, j.m) * sl_cpu_max(SMALL, sl_cpu_min(j.inner, STRIP))));
	sl_pool_run_long(call->be->pool, sl_cpu_blocks(j.all, j.each), resample_task, &j);
}

static enum sl_err resample_forward(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const float *from = call->in[0].data;

	if (sl_op_is_run(op))
		from += op->u.resample.first * sl_op_inner(&call->out.shape, op->u.resample.axis + 1);
	resample(call, &call->out.shape,
		 (struct resample_job){.from = from, .to = call->out.data, .strip = resample_strip});
	return SL_OK;
}

static enum sl_err resample_backward(const struct sl_op_call *call)
{
	struct resample_job j = {.from = call->dout.data,
				 .to = call->din[0].data,
				 .strip = resample_back_strip,
				 .add = call->din_add[0]};
	enum sl_err err;

	if (!call->din[0].data)
		return SL_OK;
	if (sl_op_is_run(call->op)) {
		err = j.add ? SL_OK
			    : call->be->ops->zero(call->be, call->din[0].data,
						  (size_t)sl_shape_count(&call->din[0].shape) * sizeof(float));
		if (err)
			return err;
		j.to += call->op->u.resample.first * sl_op_inner(&call->dout.shape, call->op->u.resample.axis + 1);
		j.add = true;
	}
	resample(call, &call->dout.shape, j);
	return SL_OK;
}

/* ---- repeat */

struct repeat_job {
	float *to;
	const float *from;
	const struct sl_cpu_simd *simd;
	int64_t n, rows;
};

static void repeat_row(void *arg, int64_t row, int worker)
{
	const struct repeat_job *j = arg;

	memcpy(j->to + row * j->n, j->from, (size_t)j->n * sizeof *j->to);
}

static void repeat_sum(void *arg, int64_t block, int worker)
{
	const struct repeat_job *j = arg;
	const int64_t at = block * SL_CPU_BLOCK / 8, n = sl_cpu_min(SL_CPU_BLOCK / 8, j->n - at);

	for (int64_t row = 0; row < j->rows; row++)
		j->simd->sum(j->to + at, j->to + at, j->from + row * j->n + at, n);
}

static enum sl_err repeat_forward(const struct sl_op_call *call)
{
	struct repeat_job j = {.to = call->out.data, .from = call->param[0], .n = sl_shape_row(&call->out.shape)};

	sl_pool_run(call->be->pool, call->out.shape.dim[0], repeat_row, &j);
	return SL_OK;
}

/* The input only determines the number of rows, so its gradient is 0. */
static enum sl_err repeat_backward(const struct sl_op_call *call)
{
	struct repeat_job j = {.to = call->grad[0],
			       .from = call->dout.data,
			       .simd = sl_cpu_simd_of(call->be),
			       .n = sl_shape_row(&call->dout.shape),
			       .rows = call->dout.shape.dim[0]};

	if (call->grad[0])
		sl_pool_run(call->be->pool, sl_cpu_blocks(j.n, SL_CPU_BLOCK / 8), repeat_sum, &j);
	if (call->din[0].data && !call->din_add[0])
		return call->be->ops->zero(call->be, call->din[0].data,
					   (size_t)sl_shape_count(&call->din[0].shape) * sizeof(float));
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_permute = {.forward = permute_forward, .backward = permute_backward};
const struct sl_kernel sl_cpu_op_resample = {.forward = resample_forward, .backward = resample_backward};
const struct sl_kernel sl_cpu_op_repeat = {.forward = repeat_forward, .backward = repeat_backward};
