/* The areas behind the optimizer's moments: the sum of gradients that a later step applies (plan.h: accumulate), and
 * the moving average of weights with which evaluations compute (ema). Both are as long as the trainable front. */
#include "common/base/pool.h"
#include "common/exec/exec_impl.h"

enum { BLOCK = 1 << 14 };

bool sl_exec_updates(const struct sl_exec *e)
{
	return (e->done + 1) % (uint64_t)e->plan->spec.accumulate == 0;
}

enum sl_err sl_exec_load_sum(struct sl_exec *e)
{
	const int64_t count = e->segment->trainable_count;
	float *sum = sl_exec_sum(e);

	if (!sum)
		return SL_OK;
	if (e->done % (uint64_t)e->plan->spec.accumulate) /* this batch is not the first of its step */
		return sl_exec_copy(e, e->grad, sum, count);
	return e->be->ops->zero(e->be, sum, (size_t)count * sizeof *sum);
}

enum sl_err sl_exec_save_sum(struct sl_exec *e)
{
	return sl_exec_copy(e, sl_exec_sum(e), e->grad, e->segment->trainable_count);
}

struct job {
	float *average, *weight;
	float keep; /* factor of the old average */
	bool swap;  /* swap average and weights instead */
	int64_t count;
};

static void run_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const int64_t from = block * BLOCK, to = from + BLOCK < j->count ? from + BLOCK : j->count;
	const float more = 1 - j->keep;

	for (int64_t i = from; i < to; i++) {
		const float was = j->average[i];

		j->average[i] = j->swap ? j->weight[i] : j->keep * was + more * j->weight[i];
		j->weight[i] = j->swap ? was : j->weight[i];
	}
}

static void run(struct sl_exec *e, float keep, bool swap)
{
	struct job j = {sl_exec_average(e), e->weight, keep, swap, e->segment->trainable_count};

	sl_pool_run(e->be->pool, (j.count + BLOCK - 1) / BLOCK, run_block, &j);
}

/* to = by · from, for trainable_count floats on a device. e->clip holds the factor there. */
static enum sl_err multiply(struct sl_exec *e, float *to, const float *from, float by)
{
	enum sl_err err = e->be->ops->upload(e->be, e->clip, &by, sizeof by);

	return err ? err : e->be->ops->convert(e->be, to, SL_F32, from, SL_F32, e->clip, e->segment->trainable_count);
}

/* On a device, uses the gradient's memory as workspace: the step has been applied. */
enum sl_err sl_exec_update_average(struct sl_exec *e)
{
	const float keep = (float)e->plan->spec.ema;
	float *average = sl_exec_average(e);
	enum sl_err err;

	if (!average)
		return SL_OK;
	if (e->be->host_memory) {
		run(e, keep, false);
		return SL_OK;
	}
	err = multiply(e, average, average, keep);
	if (!err)
		err = multiply(e, e->grad, e->weight, 1 - keep);
	return err ? err : e->be->ops->add(e->be, average, e->grad, e->segment->trainable_count);
}

enum sl_err sl_exec_begin_average(struct sl_exec *e)
{
	return sl_exec_average(e) ? sl_exec_copy(e, sl_exec_average(e), e->weight, e->segment->trainable_count) : SL_OK;
}

enum sl_err sl_exec_show_average(struct sl_exec *e, bool averaged)
{
	const int64_t count = e->segment->trainable_count;
	float *average = sl_exec_average(e);
	enum sl_err err = SL_OK;

	if (!average || e->averaged == averaged)
		return SL_OK;
	if (e->be->host_memory)
		run(e, 0, true);
	else if (sl_exec_copy(e, e->grad, e->weight, count) || sl_exec_copy(e, e->weight, average, count) ||
		 sl_exec_copy(e, average, e->grad, count))
		err = SL_ERR_DEVICE;
	e->averaged = averaged;
	return err ? err : sl_exec_lower(e);
}
