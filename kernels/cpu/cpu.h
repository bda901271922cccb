/* The fast backend of the table in common/exec/backend.h: OpenBLAS and SIMD kernels on the CPU.
 * Results are bit-identical for any number of threads of the pool. They do depend on the SIMD level and on the core
 * type of OpenBLAS: sl_cpu_describe() says both, so that a checkpoint can name them. */
#ifndef SL_CPU_CPU_H
#define SL_CPU_CPU_H

#include <stdbool.h>

#include "common/exec/backend.h"

/* `pool` is borrowed until be->ops->close(be); NULL: single-threaded. Sets OpenBLAS to one thread in this process. */
enum sl_err sl_cpu_backend_open(struct sl_backend *be, struct sl_pool *pool, struct sl_fail *fail) SL_MUST_CHECK;

/* Memory and codecs alone, and no kernels: OpenBLAS is not touched. */
void sl_cpu_codec_backend_open(struct sl_backend *be);

/* "avx512, OpenBLAS Cooperlake": a static string. */
const char *sl_cpu_describe(void);
/* True where OpenBLAS runs kernels of an older core type than this CPU has (OPENBLAS_CORETYPE in the environment is
 * the usual reason): products then take up to twice the time. `reason`: a sentence, static. */
bool sl_cpu_core_is_older(const char **reason);

#endif
