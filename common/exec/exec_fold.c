/* Sums the gradients of several borrowers. Memory bandwidth is the limit. So a block of the sum stays in cache until
 * all gradients are added to it and it is checked, and each gradient is read once. */
#include <stdatomic.h>

#include "common/base/assert.h"
#include "common/base/pool.h"
#include "common/exec/exec_impl.h"
#include "common/exec/finite.h"

enum { BLOCK = 1 << 14, AT_ONCE = 4 };

struct job {
	float *sum;
	const float *const *part; /* [n] */
	int n;
	bool onto; /* add to what is in the sum already */
	float by;  /* factor for the sum */
	int64_t count;
	atomic_bool bad; /* some element is NaN or Inf */
};

/* sum (+)= the n ≤ AT_ONCE parts at `at`. Each element's additions are in the order of the parts, so the result does
 * not depend on blocks. Reading several parts at once is faster than one by one. */
static inline void add_few(float *restrict sum, const float *const *part, const int n, const bool onto, int64_t at,
			   int64_t count)
{
	const float *a = part[0] + at, *b = n > 1 ? part[1] + at : a, *c = n > 2 ? part[2] + at : a,
		    *d = n > 3 ? part[3] + at : a;

	for (int64_t i = 0; i < count; i++) {
		float x = onto ? sum[i] + a[i] : a[i];

		if (n > 1)
			x += b[i];
		if (n > 2)
			x += c[i];
		if (n > 3)
			x += d[i];
		sum[i] = x;
	}
}

/* Calls add_few with constants, so that the compiler makes a loop for each n. */
static void add(float *sum, const float *const *part, int n, bool onto, int64_t at, int64_t count)
{
#define CASE(N)                                          \
	case 2 * (N):                                    \
		add_few(sum, part, N, false, at, count); \
		break;                                   \
	case 2 * (N) + 1:                                \
		add_few(sum, part, N, true, at, count);  \
		break
	switch (2 * n + onto) {
		CASE(1);
		CASE(2);
		CASE(3);
		CASE(4);
	}
#undef CASE
}

static void fold_block(void *arg, int64_t block, int worker)
{
	struct job *j = arg;
	const int64_t at = block * BLOCK, count = at + BLOCK < j->count ? BLOCK : j->count - at;
	float *sum = j->sum + at;

	for (int k = 0, n; k < j->n; k += n) {
		n = j->n - k < AT_ONCE ? j->n - k : AT_ONCE;
		add(sum, j->part + k, n, j->onto || k, at, count);
	}
	for (int64_t i = 0; i < count && j->by != 1; i++)
		sum[i] *= j->by;
	if (!sl_finite_host(sum, count))
		atomic_store_explicit(&j->bad, true, memory_order_relaxed);
}

/* Adds the waiting gradients to the sum, and multiplies it. */
static void flush(struct sl_exec *e, float by)
{
	const float *part[SL_FOLD_WAITING];
	struct job j = {e->grad, part, e->n_waiting, e->folded, by, e->segment->trainable_count, false};

	if (!e->n_waiting && (by == 1 || !e->folded))
		return;
	for (int k = 0; k < e->n_waiting; k++)
		part[k] = e->waiting[k]->grad;
	sl_pool_run(e->be->pool, (j.count + BLOCK - 1) / BLOCK, fold_block, &j);
	e->folded = true;
	e->n_waiting = 0;
	e->finite = !atomic_load_explicit(&j.bad, memory_order_relaxed);
}

enum sl_err sl_exec_fold_begin(struct sl_exec *e)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;

	sl_exec_own_gradient(e);
	e->folded = e->finite = false;
	e->n_waiting = 0;
	e->tried = true; /* sl_exec_fold_add computes the statistics, in place of try_statistics */
	return count ? sl_exec_copy(e, e->trial, e->weight + from, count) : SL_OK;
}

/* A device adds at once, since the addition is queued behind the work that computes the gradient. */
static enum sl_err add_on_device(struct sl_exec *e, const struct sl_exec *part)
{
	const int64_t count = e->segment->trainable_count;
	enum sl_err err = e->folded ? e->be->ops->add(e->be, e->grad, part->grad, count)
				    : sl_exec_copy(e, e->grad, part->grad, count);

	e->folded = true;
	return err;
}

enum sl_err sl_exec_fold_add(struct sl_exec *e, struct sl_exec *part, const int64_t *rows, int chunks)
{
	const bool counts = e->segment->moving_count > e->segment->trainable_count;
	enum sl_err err;

	sl_assert(part != e);
	sl_assert_int(part->segment->trainable_count, ==, e->segment->trainable_count);
	sl_exec_order_given(part, rows, chunks);
	err = e->be->host_memory ? SL_OK : add_on_device(e, part);

	for (int chunk = 0; chunk < chunks && counts && !err; chunk++)
		err = sl_exec_try_chunk(part, chunk, rows[chunk]);
	if (err || !e->be->host_memory)
		return err;
	if (e->n_waiting == SL_FOLD_WAITING)
		flush(e, 1);
	sl_assert_int(e->n_waiting, <, SL_FOLD_WAITING);
	for (int k = 0; k < e->n_waiting; k++)
		sl_assert(e->waiting[k] != part); /* a gradient is added once */
	e->waiting[e->n_waiting++] = part;
	return SL_OK;
}

enum sl_err sl_exec_fold_get(struct sl_exec *e, float *host)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;
	enum sl_err err;

	flush(e, 1);
	err = e->be->ops->download(e->be, host, e->grad, (size_t)from * sizeof *host);
	return err || !count ? err : e->be->ops->download(e->be, host + from, e->trial, (size_t)count * sizeof *host);
}

enum sl_err sl_exec_fold_set(struct sl_exec *e, const float *host)
{
	const int64_t from = e->segment->trainable_count, count = e->segment->moving_count - from;
	enum sl_err err = e->be->ops->upload(e->be, e->grad, host, (size_t)from * sizeof *host);

	e->finite = false;
	e->n_waiting = 0;
	e->folded = true;
	return err || !count ? err : e->be->ops->upload(e->be, e->trial, host + from, (size_t)count * sizeof *host);
}

/* The sum of a single gradient is that gradient: uses it without a copy. */
static void take_only(struct sl_exec *e)
{
	sl_assert(!e->own && !e->folded);
	e->own = e->grad;
	e->grad = e->waiting[0]->grad;
	e->finite = e->waiting[0]->finite;
	e->n_waiting = 0;
}

enum sl_err sl_exec_fold_end(struct sl_exec *e, double factor)
{
	const float by = (float)factor;

	if (!e->be->host_memory)
		return sl_exec_scale(e, factor);
	if (e->n_waiting == 1 && !e->folded && by == 1)
		take_only(e);
	else
		flush(e, by);
	return SL_OK;
}
