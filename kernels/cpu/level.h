/* The SIMD levels of the architecture that this was built for: their kernels, codec loops, and the CPUs
 * that run them. Each architecture has its list in a file of its own, level_*.c. */
#ifndef SL_CPU_LEVEL_H
#define SL_CPU_LEVEL_H

#include <stdbool.h>

#include "common/codec/loops.h"
#include "kernels/cpu/simd.h"

struct sl_cpu_level {
	const struct sl_cpu_simd *simd;
	const struct sl_codec_loops *codec_loops;
	bool (*runs)(void); /* whether this CPU runs the level */
	/* OpenBLAS's names of its kernels for such CPUs, ended by NULL. NULL: OpenBLAS's names do not
	 * reveal older kernels. */
	const char *const *blas_cores;
};

/* Best level first, `base` last, ended by NULL. */
extern const struct sl_cpu_level *const sl_cpu_levels[];

/* The best level that this CPU runs. */
const struct sl_cpu_level *sl_cpu_level_best(void);

/* The level to use: the best that this CPU runs. For tests, SL_CPU_SIMD in the environment names a
 * level: then the best that is not above it. */
const struct sl_cpu_level *sl_cpu_level_choose(void);

/* Whether this CPU multiplies pairs of bfloat16 (AVX512-BF16). */
bool sl_cpu_has_pairs(void);

/* Whether products of pairs are offered at this level: where they are fast. For tests, SL_CPU_PAIRS in the environment
 * offers them at levels whose plain loops give the same bits, too. */
bool sl_cpu_offers_pairs(const struct sl_cpu_simd *simd);

#endif
