/* Executors that share parameters: one has them and applies steps, the others compute with them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/nn/exec_impl.h"

static enum sl_err may_share(const struct sl_exec *e, struct sl_fail *fail)
{
	if (e->n_narrow)
		return sl_fail_set(fail, SL_ERR_CONFIG, "inserts that decay cannot be shared by a group");
	if (e->segment->precision == SL_PRECISION_FP16)
		return sl_fail_at(fail, "train.precision", SL_ERR_CONFIG,
				  "fp16 cannot be shared by a group: take bf16 or fp32");
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

/* Tied gradients are added by blocks, in any order: each element has one sum. */
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

	(void)worker;
	for (int64_t i = from; i < to; i++)
		j->to[i] += j->from[i];
}

enum sl_err sl_exec_tie(struct sl_exec *tail)
{
	const struct sl_plan_segment *s = tail->segment;

	for (int i = 0; i < s->n_tied; i++) {
		const struct sl_tied_param *t = &s->tied[i];
		struct tie_job j = {tail->owner->grad + t->offset, tail->grad + sl_exec_tied_at(tail) + t->grad,
				    t->count};

		if (!tail->be->host_memory)
			return SL_ERR_BUG; /* the two ends are on a client's CPU */
		if (t->learns)
			sl_pool_run(tail->be->pool, (j.count + TIE_BLOCK - 1) / TIE_BLOCK, tie_block, &j);
	}
	return SL_OK;
}

enum sl_err sl_member_check(struct sl_exec *e, double factor, double most, struct sl_fail *fail)
{
	double squares = 0;
	enum sl_err err = most > 0 ? sl_exec_squares(e, &squares, fail) : SL_OK;
	const double norm = sqrt(squares) * factor;

	if (!err && most > 0 && !(norm <= most))
		err = sl_fail_at(fail, "share.member_norm", SL_ERR_NONFINITE,
				 "the norm of this member's gradient of the middle is %g, and share.member_norm is %g",
				 norm, most);
	return err;
}

enum sl_err sl_exec_fold_begin(struct sl_exec *e)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;

	e->folded = 0;
	e->tried = true; /* sl_exec_fold_add makes what try_statistics would make */
	if (!e->be->host_memory && !e->fold) {
		e->fold = malloc((size_t)from * sizeof *e->fold + 1);
		if (!e->fold)
			return SL_ERR_NOMEM;
	}
	return count ? sl_exec_copy(e, e->trial, e->weight + from, count) : SL_OK;
}

/* A device's gradients are added on the host. */
static enum sl_err add_gradient(struct sl_exec *e, const struct sl_exec *part)
{
	const int64_t count = e->segment->trainable_count;
	float *sum = e->be->host_memory ? e->grad : e->fold, *x = part->grad;
	enum sl_err err = SL_OK;

	if (!e->be->host_memory) {
		x = e->folded ? malloc((size_t)count * sizeof *x + 1) : sum;
		err = x ? e->be->ops->download(e->be, x, part->grad, (size_t)count * sizeof *x) : SL_ERR_NOMEM;
	} else if (!e->folded) {
		memcpy(sum, x, (size_t)count * sizeof *sum);
	}
	for (int64_t i = 0; i < count && e->folded && !err; i++)
		sum[i] += x[i];
	if (!e->be->host_memory && x != sum)
		free(x);
	return err;
}

enum sl_err sl_exec_fold_add(struct sl_exec *e, struct sl_exec *part, const int64_t *rows, int chunks)
{
	const bool counts = e->segment->moving_count > e->segment->trainable_count;
	enum sl_err err = add_gradient(e, part);

	for (int chunk = 0; chunk < chunks && counts && !err; chunk++)
		err = sl_exec_try_chunk(part, chunk, rows[chunk]);
	e->folded += !err;
	return err;
}

enum sl_err sl_exec_fold_get(struct sl_exec *e, float *host)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;

	memcpy(host, e->be->host_memory ? e->grad : e->fold, (size_t)from * sizeof *host);
	return count ? e->be->ops->download(e->be, host + from, e->trial, (size_t)count * sizeof *host) : SL_OK;
}

enum sl_err sl_exec_fold_set(struct sl_exec *e, const float *host)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;

	memcpy(e->be->host_memory ? e->grad : e->fold, host, (size_t)from * sizeof *host);
	e->folded = 1;
	return count ? e->be->ops->upload(e->be, e->trial, host + from, (size_t)count * sizeof *host) : SL_OK;
}

enum sl_err sl_exec_fold_end(struct sl_exec *e, double factor)
{
	const int64_t count = e->segment->trainable_count;
	float *sum = e->be->host_memory ? e->grad : e->fold;
	const float by = (float)factor;

	for (int64_t i = 0; i < count && by != 1; i++)
		sum[i] *= by;
	return e->be->host_memory ? SL_OK : e->be->ops->upload(e->be, e->grad, sum, (size_t)count * sizeof *sum);
}
