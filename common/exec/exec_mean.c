/* Changes of a shared head or tail: what a member of a group tells of its step, and the step made from all of these. */
#include <math.h>
#include <string.h>

#include "common/exec/exec_impl.h"

struct sl_change_count sl_exec_change_count(const struct sl_plan_segment *s)
{
	struct sl_change_count n = {0};

	for (int i = 0; i < s->n_param; i++) {
		const struct sl_segment_param *p = &s->param[i];

		n.grad += p->offset < s->trainable_count ? p->count : 0;
		n.stat += p->offset >= s->trainable_count && p->offset < s->moving_count ? p->count : 0;
	}
	return n;
}

/* Computes in `trial` the running statistics as they would be if they had been 0 before the step. */
static enum sl_err run_statistics(struct sl_exec *e, const int64_t *rows, int chunks)
{
	enum sl_err err = SL_OK;

	memset(e->trial, 0, (size_t)(e->segment->moving_count - e->segment->trainable_count) * sizeof *e->trial);
	for (int chunk = 0; chunk < chunks && !err; chunk++)
		err = sl_exec_try_chunk(e, chunk, rows[chunk]);
	e->tried = false;
	return err;
}

/* The factor of a statistic's old value after `chunks` chunks. A batch norm may be used several times in each. */
static float kept_of(const struct sl_plan_segment *s, int param, int chunks)
{
	double kept = 1;

	for (int i = 0; i < s->n_op; i++)
		for (int k = 2; k < s->op[i].op.n_param && s->op[i].op.kind == SL_OP_BATCHNORM; k++)
			if (s->op[i].param[k] == param)
				kept *= 1 - (double)s->op[i].op.u.bn.momentum;
	return (float)pow(kept, chunks);
}

/* Adds a chunk's statistic to those of the chunks before it, as sl_end_sum_add does for members: sum = kept * sum + x.
 */
static void join_statistic(float *sum, const float *x, int64_t count, float kept)
{
	for (int64_t k = 0; k < count; k++)
		sum[k] = sl_change_statistic(kept, sum[k], x[k]);
}

/* Adds the old value, times `kept`, to what a step adds to a statistic, as sl_exec_set_change does. */
static void keep_statistic(float *is, const float *was, int64_t count, float kept)
{
	for (int64_t k = 0; k < count; k++)
		is[k] = sl_change_statistic(kept, was[k], is[k]);
}

/* to = the statistics after one chunk, if they were 0 before. */
static enum sl_err chunk_statistics(struct sl_exec *e, int chunk, int64_t rows, float *to)
{
	float *const trial = e->trial;
	enum sl_err err;

	memset(to, 0, (size_t)(e->segment->moving_count - e->segment->trainable_count) * sizeof *to);
	e->trial = to;
	err = sl_exec_try_chunk(e, chunk, rows);
	e->trial = trial;
	return err;
}

enum sl_err sl_exec_try_apart(struct sl_exec *e, const int64_t *rows, int chunks)
{
	const struct sl_plan_segment *s = e->segment;
	const int64_t from = s->trainable_count;
	enum sl_err err = SL_OK;

	for (int chunk = 0; chunk < chunks && !err; chunk++) {
		err = chunk_statistics(e, chunk, rows[chunk], chunk ? e->chunk_trial : e->trial);
		for (int i = 0; i < s->n_param && chunk && !err; i++) {
			const struct sl_segment_param *p = &s->param[i];

			if (p->offset >= from && p->offset < s->moving_count)
				join_statistic(e->trial + (p->offset - from), e->chunk_trial + (p->offset - from),
					       p->count, kept_of(s, i, 1));
		}
	}
	for (int i = 0; i < s->n_param && !err; i++) {
		const struct sl_segment_param *p = &s->param[i];
		const float once = kept_of(s, i, 1);
		float kept = once;

		for (int chunk = 1; chunk < chunks; chunk++)
			kept *= once;
		if (p->offset >= from && p->offset < s->moving_count)
			keep_statistic(e->trial + (p->offset - from), e->weight + p->offset, p->count, kept);
	}
	return err;
}

enum sl_err sl_exec_get_change(struct sl_exec *e, const int64_t *rows, int chunks, struct sl_change to)
{
	const struct sl_plan_segment *s = e->segment;
	enum sl_err err = SL_OK;

	if (!e->be->host_memory || e->table.rows || e->n_narrow)
		return SL_ERR_BUG;
	if (s->moving_count > s->trainable_count)
		err = run_statistics(e, rows, chunks);
	for (int i = 0; i < s->n_param && !err; i++) {
		const struct sl_segment_param *p = &s->param[i];
		const size_t bytes = (size_t)p->count * sizeof(float);

		if (p->offset < s->trainable_count) {
			memcpy(to.grad, e->grad + p->offset, bytes);
			to.grad += p->count;
		} else if (p->offset < s->moving_count) {
			const float kept = kept_of(s, i, chunks);

			for (int64_t k = 0; k < p->count; k++)
				to.keep[k] = kept;
			memcpy(to.add, e->trial + (p->offset - s->trainable_count), bytes);
			to.keep += p->count;
			to.add += p->count;
		}
	}
	return err;
}

void sl_exec_set_change(struct sl_exec *e, struct sl_change from)
{
	const struct sl_plan_segment *s = e->segment;

	for (int i = 0; i < s->n_param; i++) {
		const struct sl_segment_param *p = &s->param[i];

		if (p->offset < s->trainable_count) {
			memcpy(e->grad + p->offset, from.grad, (size_t)p->count * sizeof(float));
			from.grad += p->count;
		} else if (p->offset < s->moving_count) {
			const float *was = e->weight + p->offset;
			float *is = e->trial + (p->offset - s->trainable_count);

			for (int64_t k = 0; k < p->count; k++)
				is[k] = sl_change_statistic(from.keep[k], was[k], from.add[k]);
			from.keep += p->count;
			from.add += p->count;
		}
	}
	e->finite = false;
	e->tried = true; /* so that sl_exec_commit uses these statistics */
}

/* Parameter i, or NULL if it is frozen. */
static const struct sl_segment_param *part_of(const struct sl_plan_segment *s, int i, bool *learns)
{
	const struct sl_segment_param *p = &s->param[i];

	*learns = p->offset < s->trainable_count;
	return p->offset < s->moving_count ? p : NULL;
}

void sl_range_gather(const struct sl_plan_segment *s, const float *range, float *grad, float *stat)
{
	for (int i = 0; i < s->n_param; i++) {
		bool learns;
		const struct sl_segment_param *p = part_of(s, i, &learns);
		float **to = learns ? &grad : &stat;

		if (!p || !*to)
			continue;
		memcpy(*to, range + p->offset, (size_t)p->count * sizeof(float));
		*to += p->count;
	}
}

void sl_range_scatter(const struct sl_plan_segment *s, float *range, const float *grad, const float *stat)
{
	for (int i = 0; i < s->n_param; i++) {
		bool learns;
		const struct sl_segment_param *p = part_of(s, i, &learns);
		const float **from = learns ? &grad : &stat;

		if (!p || !*from)
			continue;
		memcpy(range + p->offset, *from, (size_t)p->count * sizeof(float));
		*from += p->count;
	}
}
