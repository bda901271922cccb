/* The SIMD levels of the architecture that this was built for: kernels, codec loops and which CPUs run them. Each
 * architecture has its list in a file of its own, level_*.c. */
#ifndef SL_CPU_LEVEL_H
#define SL_CPU_LEVEL_H

#include <stdbool.h>

#include "common/codec/loops.h"
#include "kernels/cpu/simd.h"

struct sl_cpu_level {
	const struct sl_cpu_simd *simd;
	const struct sl_codec_loops *codec_loops;
	bool (*runs)(void); /* whether this CPU has it */
	/* What OpenBLAS calls its kernels for such CPUs, ended by NULL. NULL: its names do not tell older ones. */
	const char *const *blas_cores;
};

/* The best first, `base` last, ended by NULL. */
extern const struct sl_cpu_level *const sl_cpu_levels[];

/* The best that this CPU runs. */
const struct sl_cpu_level *sl_cpu_level_best(void);

/* The one to use: the best, or, where SL_CPU_SIMD in the environment names a level, the best that is not above it. For
 * tests. */
const struct sl_cpu_level *sl_cpu_level_choose(void);

/* Whether this CPU multiplies pairs of bfloat16. */
bool sl_cpu_has_pairs(void);

#endif
