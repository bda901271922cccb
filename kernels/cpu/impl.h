/* Shared declarations of kernels/cpu/. */
#ifndef SL_CPU_IMPL_H
#define SL_CPU_IMPL_H

#include "common/base/pool.h"
#include "common/exec/backend.h"
#include "kernels/cpu/simd.h"

enum {
	SL_CPU_LINE = 16,     /* floats of a cache line */
	SL_CPU_BLOCK = 32768, /* floats of a block of work: 128 KiB, so that two blocks fit in the L2 cache together */
	SL_CPU_STREAMED = 6 << 20 /* floats. A result this large leaves the cache before it is read, so stores bypass
				   * the cache. Then no line is read before it is overwritten. */
};

struct sl_cpu {
	const struct sl_cpu_simd *simd; /* a level's, or `tiles` */
	struct sl_cpu_simd tiles;       /* with products of pairs by AMX (amx.h) */
	struct sl_backend_ops ops;
};

static inline const struct sl_cpu_simd *sl_cpu_simd_of(const struct sl_backend *be)
{
	return ((const struct sl_cpu *)be->impl)->simd;
}

static inline int sl_cpu_threads(const struct sl_backend *be)
{
	return be->pool ? sl_pool_threads(be->pool) : 1;
}

static inline int64_t sl_cpu_blocks(int64_t n, int64_t per_block)
{
	return (n + per_block - 1) / per_block;
}

static inline int64_t sl_cpu_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t sl_cpu_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* `floats`, rounded up to whole cache lines. */
static inline int64_t sl_cpu_line(int64_t floats)
{
	return (floats + SL_CPU_LINE - 1) & ~(int64_t)(SL_CPU_LINE - 1);
}

enum sl_err sl_cpu_finite(struct sl_backend *be, const float *x, int64_t count, bool *finite); /* see backend.h */

/* out[i] += Σ over t of part[t·stride + i], t ascending, i in [0, n). Same bits for any number of
 * threads. */
void sl_cpu_reduce(struct sl_backend *be, float *out, const float *part, int64_t n, int64_t stride, int64_t parts);

/* Host memory, in codec_backend.c. */
enum sl_err sl_cpu_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail);
void sl_cpu_free(struct sl_backend *be, void *ptr);
enum sl_err sl_cpu_copy(struct sl_backend *be, void *dst, const void *src, size_t bytes);
enum sl_err sl_cpu_zero(struct sl_backend *be, void *dst, size_t bytes);
enum sl_err sl_cpu_fence(struct sl_backend *be, void (*done)(void *arg), void *arg);
#define SL_CPU_MEMORY                                                                               \
	.alloc = sl_cpu_alloc, .free = sl_cpu_free, .upload = sl_cpu_copy, .download = sl_cpu_copy, \
	.zero = sl_cpu_zero, .fence = sl_cpu_fence

#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) \
	extern const struct sl_kernel sl_cpu_op_##kernel;
#include "common/graph/ops.def"

#endif
