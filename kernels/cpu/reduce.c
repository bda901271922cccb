/* Adds up parts of a sum, such as those of threads. */
#include "kernels/cpu/impl.h"

struct reduce_job {
	const struct sl_cpu_simd *simd;
	float *out;
	const float *part;
	int64_t n, stride, parts;
};

enum { REDUCE_BLOCK = 2048 };

static void reduce_block(void *arg, int64_t block, int worker)
{
	const struct reduce_job *j = arg;
	int64_t at = block * REDUCE_BLOCK, n = sl_cpu_min(REDUCE_BLOCK, j->n - at);

	for (int64_t t = 0; t < j->parts; t++)
		j->simd->sum(j->out + at, j->out + at, j->part + t * j->stride + at, n);
}

void sl_cpu_reduce(struct sl_backend *be, float *out, const float *part, int64_t n, int64_t stride, int64_t parts)
{
	struct reduce_job job = {sl_cpu_simd_of(be), out, part, n, stride, parts};

	sl_pool_run(be->pool, sl_cpu_blocks(n, REDUCE_BLOCK), reduce_block, &job);
}
