#include <stdatomic.h>

#include "common/exec/finite.h"
#include "kernels/cpu/impl.h"

struct job {
	const float *x;
	int64_t count;
	atomic_bool bad;
};

static void finite_block(void *arg, int64_t block, int worker)
{
	struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK, n = sl_cpu_min(SL_CPU_BLOCK, j->count - at);

	if (!sl_finite_host(j->x + at, n))
		atomic_store_explicit(&j->bad, true, memory_order_relaxed);
}

enum sl_err sl_cpu_finite(struct sl_backend *be, const float *x, int64_t count, bool *finite)
{
	struct job job = {.x = x, .count = count};

	sl_pool_run(be->pool, sl_cpu_blocks(count, SL_CPU_BLOCK), finite_block, &job);
	*finite = !atomic_load_explicit(&job.bad, memory_order_relaxed);
	return SL_OK;
}
