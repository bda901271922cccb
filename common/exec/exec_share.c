/* Executors that share parameters: one owns them and applies steps, the others compute with them. */
#include <math.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/exec/exec_impl.h"

static enum sl_err may_share(const struct sl_exec *e, struct sl_fail *fail)
{
	if (e->n_narrow)
		return sl_fail_set(fail, SL_ERR_CONFIG, "inserts that decay cannot be shared by a group");
	if (e->segment->precision == SL_PRECISION_FP16)
		return sl_fail_at(fail, "train.precision", SL_ERR_CONFIG,
				  "fp16 cannot be shared by a group: take bf16 or fp32");
	if (!e->be->host_memory && !e->be->ops->add)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s cannot add up what members of a group tell",
				   e->be->ops->name);
	return SL_OK;
}

enum sl_err sl_exec_bare(struct sl_exec *e, struct sl_fail *fail)
{
	e->bare = true;
	e->slots = 0;
	return may_share(e, fail);
}

enum sl_err sl_exec_borrow(struct sl_exec *e, const struct sl_exec *lender, struct sl_fail *fail)
{
	const struct sl_plan_segment *own = e->segment, *s = lender->segment;

	if (own->trainable_count != s->trainable_count || own->moving_count != s->moving_count ||
	    own->weight_count != s->weight_count || own->moments != s->moments || own->precision != s->precision)
		return sl_fail_set(fail, SL_ERR_BUG, "parameters of another middle cannot be borrowed");
	if (lender->table.rows)
		return sl_fail_set(fail, SL_ERR_BUG, "rows that wait with their steps cannot be borrowed");
	e->lender = lender;
	e->weight = lender->weight;
	e->weight_low = lender->weight_low;
	e->trial = lender->trial;
	memcpy(e->moment, lender->moment, sizeof e->moment);
	return may_share(e, fail);
}

void sl_exec_lend(struct sl_exec *tail, struct sl_exec *head)
{
	tail->owner = head;
}

/* Adds a tied parameter's gradient in blocks. Threads may take them in any order, because elements are independent. */
struct tie_job {
	float *to;
	const float *from;
	int64_t count;
};

enum { TIE_BLOCK = 1 << 16 };

static void tie_block(void *arg, int64_t block, int worker)
{
	const struct tie_job *j = arg;
	const int64_t from = block * TIE_BLOCK, to = from + TIE_BLOCK < j->count ? from + TIE_BLOCK : j->count;

	for (int64_t i = from; i < to; i++)
		j->to[i] += j->from[i];
}

enum sl_err sl_exec_tie(struct sl_exec *tail)
{
	const struct sl_plan_segment *s = tail->segment;

	tail->owner->finite = tail->owner->finite && !s->n_tied;
	for (int i = 0; i < s->n_tied; i++) {
		const struct sl_tied_param *t = &s->tied[i];
		struct tie_job j;

		if (!t->learns)
			continue;
		if (!tail->be->host_memory)
			return SL_ERR_BUG; /* head and tail run on a client's CPU */
		j = (struct tie_job){tail->owner->grad + t->offset, tail->grad + s->trainable_count + t->grad,
				     t->count};
		sl_pool_run(tail->be->pool, (j.count + TIE_BLOCK - 1) / TIE_BLOCK, tie_block, &j);
	}
	return SL_OK;
}

/* Computes the norm first: if that is finite, so is every gradient, and sl_exec_check need not look at them again. */
