/* Lazy updates of embedding tables, of which a step reads few rows. A row that a step does not read has a gradient of
 * 0. Its update then depends only on the row and the step's numbers, and is postponed. Before a pass reads a row, the
 * same kernel applies the updates that the row lacks. The bits are the same as with immediate updates. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/exec/clip.h"
#include "common/exec/exec_impl.h"

enum { LANES = 8 /* the features must be a multiple of it (sl_squares_rows) */ };

static struct sl_optimizer rule_of(const struct sl_exec *e, int group)
{
	struct sl_optimizer o = e->plan->spec.optimizer;

	if (group)
		o.weight_decay = e->plan->spec.group[group - 1].weight_decay;
	return o;
}

/* Whether updates can be postponed. With weight decay in the gradient, no row's gradient is 0. For SGD it is not worth
 * the effort. */
static bool may_wait(const struct sl_optimizer *o)
{
	return o->kind == SL_OPTIMIZER_ADAMW || (o->kind == SL_OPTIMIZER_ADAM && o->weight_decay == 0);
}

static int readers_of(const struct sl_plan_segment *s, int param)
{
	int n = 0;

	for (int i = 0; i < s->n_op; i++)
		for (int k = 0; k < s->op[i].op.n_param; k++)
			n += s->op[i].param[k] == param;
	return n;
}

static int group_at(const struct sl_plan_segment *s, int64_t offset)
{
	int group = 0;

	while (group < SL_PLAN_GROUPS && offset >= s->group_end[group])
		group++;
	return group;
}

/* Whether op i is an embedding of the segment's input whose table may postpone, and is used by no other op. */
static bool is_table(const struct sl_exec *e, int i)
{
	const struct sl_plan_segment *s = e->segment;
	const struct sl_op *op = &s->op[i].op;
	const struct sl_segment_param *p = op->n_param ? &s->param[s->op[i].param[0]] : NULL;
	struct sl_optimizer rule;

	if (op->kind != SL_OP_EMBEDDING || op->u.embedding.position || op->u.embedding.segment ||
	    op->in[0] != s->in_value || s->graph.value[s->in_value].dtype != SL_I32 ||
	    p->offset >= s->trainable_count || op->u.embedding.features % LANES ||
	    readers_of(s, s->op[i].param[0]) != 1 || sl_plan_is_tied(e->plan, p->offset))
		return false;
	rule = rule_of(e, group_at(s, p->offset));
	return may_wait(&rule);
}

static bool open_table(struct sl_exec *e, int i)
{
	const struct sl_plan_segment *s = e->segment;
	const struct sl_embedding_attr *a = &s->op[i].op.u.embedding;
	struct sl_table *t = &e->table;

	*t = (struct sl_table){.offset = s->param[s->op[i].param[0]].offset, .rows = a->rows, .features = a->features};
	t->group = group_at(s, t->offset);
	t->step = malloc(SL_POSTPONED_MOST * sizeof *t->step);
	t->had = calloc((size_t)t->rows, sizeof *t->had);
	t->touched = malloc((size_t)t->rows * sizeof *t->touched);
	t->marked = calloc((size_t)t->rows, sizeof *t->marked);
	t->zero = calloc((size_t)t->features, sizeof *t->zero);
	return t->step && t->had && t->touched && t->marked && t->zero;
}

enum sl_err sl_exec_table_open(struct sl_exec *e)
{
	const struct sl_plan_spec *spec = &e->plan->spec;

	/* If heads and tails are shared in each step, rows that other members read have gradients, too. If batches
	 * accumulate, so have the rows of earlier batches. An average needs all rows. */
	if (spec->accumulate > 1 || spec->ema > 0 || !e->be->host_memory || e->bare || e->lender || sl_exec_mixed(e) ||
	    (spec->shared_ends && !spec->ends_round))
		return SL_OK;
	for (int i = 0; i < e->segment->n_op; i++)
		if (is_table(e, i))
			return open_table(e, i) ? SL_OK : SL_ERR_NOMEM;
	return SL_OK;
}

void sl_exec_table_close(struct sl_exec *e)
{
	struct sl_table *t = &e->table;

	free(t->step);
	free(t->had);
	free(t->touched);
	free(t->marked);
	free(t->zero);
	*t = (struct sl_table){0};
}

/* ---- the rows that have a gradient in a step */

static int by_number(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

static void sort_touched(struct sl_table *t)
{
	if (!t->sorted)
		qsort(t->touched, (size_t)t->n_touched, sizeof *t->touched, by_number);
	t->sorted = true;
}

bool sl_exec_range(struct sl_exec *e, struct sl_range *r)
{
	struct sl_table *t = &e->table;
	const bool behind = r->behind || !t->rows;
	const int64_t stop = behind ? e->segment->trainable_count : t->offset;

	if (r->end < stop) {
		r->from = r->end;
		r->count = stop - r->end;
		r->end = stop;
		return true;
	}
	if (behind)
		return false;
	sort_touched(t);
	if (r->row < t->n_touched) {
		r->from = t->offset + t->touched[r->row++] * t->features;
		r->count = t->features;
		return true;
	}
	r->behind = true;
	r->end = t->offset + t->rows * t->features;
	return sl_exec_range(e, r);
}

double sl_exec_table_squares(struct sl_exec *e)
{
	struct sl_table *t = &e->table;

	sort_touched(t);
	return sl_squares_rows(e->grad + t->offset, t->features, t->touched, t->n_touched);
}

void sl_exec_table_begin(struct sl_exec *e)
{
	struct sl_table *t = &e->table;

	for (int i = 0; i < t->n_touched; i++)
		t->marked[t->touched[i]] = false;
	t->n_touched = 0;
	t->sorted = true;
}

/* ---- postponed updates */

static bool is_zero(const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (x[i] != 0)
			return false;
	return true;
}

static enum sl_err update_row(struct sl_exec *e, int64_t row, const struct sl_update *u, const float *grad)
{
	const struct sl_table *t = &e->table;
	const int64_t at = t->offset + row * t->features;
	float *const moment[SL_MOMENTS_MOST] = {e->moment[0] + at, e->moment[1] + at};

	return e->be->ops->update(e->be, u, t->features, e->weight + at, grad, moment);
}

/* For a row whose moments are 0, since no step has read it yet: the updates are only weight decay. */
static void decay_row(struct sl_exec *e, int64_t row)
{
	const struct sl_table *t = &e->table;
	float *w = e->weight + t->offset + row * t->features;

	for (int s = t->had[row]; s < t->n_step; s++) {
		const float keep = t->step[s].keep;

		for (int64_t i = 0; i < t->features && keep != 1; i++)
			w[i] *= keep;
	}
}

static enum sl_err catch_up(struct sl_exec *e, int64_t row)
{
	struct sl_table *t = &e->table;
	const int64_t at = t->offset + row * t->features;
	enum sl_err err = SL_OK;

	if (t->had[row] == t->n_step)
		return SL_OK;
	if (is_zero(e->moment[0] + at, t->features) && is_zero(e->moment[1] + at, t->features))
		decay_row(e, row);
	else
		for (int s = t->had[row]; s < t->n_step && !err; s++)
			err = update_row(e, row, &t->step[s], t->zero);
	t->had[row] = (uint16_t)t->n_step;
	return err;
}

enum sl_err sl_exec_table_read(struct sl_exec *e, const int32_t *id, int64_t n, bool training)
{
	struct sl_table *t = &e->table;
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < n && t->rows && !err; i++) {
		err = catch_up(e, id[i]);
		if (!training || t->marked[id[i]])
			continue;
		t->marked[id[i]] = true;
		sl_assert_int(t->n_touched, <, t->rows);
		t->touched[t->n_touched++] = id[i];
		t->sorted = false;
	}
	return err;
}

enum sl_err sl_exec_table_flush(struct sl_exec *e)
{
	struct sl_table *t = &e->table;
	enum sl_err err = SL_OK;

	for (int64_t row = 0; row < t->rows && t->n_step && !err; row++)
		err = catch_up(e, row);
	if (err)
		return err;
	t->n_step = 0;
	if (t->rows)
		memset(t->had, 0, (size_t)t->rows * sizeof *t->had);
	return SL_OK;
}

enum sl_err sl_exec_table_step(struct sl_exec *e, const struct sl_update *u)
{
	struct sl_table *t = &e->table;
	enum sl_err err = SL_OK;

	sl_assert_int(t->n_step, <, SL_POSTPONED_MOST);
	sl_assert_int(t->n_touched, <=, t->rows);
	t->step[t->n_step++] = *u;
	for (int i = 0; i < t->n_touched && !err; i++) {
		sl_assert_int(t->had[t->touched[i]], ==, t->n_step - 1); /* the row was read as of this step */
		err = update_row(e, t->touched[i], u, e->grad + t->offset + t->touched[i] * t->features);
		t->had[t->touched[i]] = (uint16_t)t->n_step;
	}
	return err || t->n_step < SL_POSTPONED_MOST ? err : sl_exec_table_flush(e);
}
