/* The fast CPU backend for the table in common/exec/backend.h: OpenBLAS and SIMD kernels. Results are
 * bit-identical for any number of threads of the pool. They do depend on the SIMD level and on the core
 * type of OpenBLAS: sl_cpu_describe() names both, so that a checkpoint can record them. */
#ifndef SL_CPU_CPU_H
#define SL_CPU_CPU_H

#include <stdbool.h>

#include "common/exec/backend.h"

/* Ends the process with a sentence if OpenBLAS has no room for the first buffers of its threads: it looks for them for
 * ever, and before main in 0.3.29. So a program names this in .preinit_array, where getenv does not work yet. */
void sl_cpu_begin(int argc, char **argv, char **env);
#define SL_CPU_BEGIN \
	__attribute__((section(".preinit_array"), used)) static void (*begin)(int, char **, char **) = sl_cpu_begin

/* `pool` is borrowed until be->ops->close(be); NULL: single-threaded. Sets OpenBLAS to one thread in this process. */
enum sl_err sl_cpu_backend_open(struct sl_backend *be, struct sl_pool *pool, struct sl_fail *fail) SL_MUST_CHECK;
/* The same for a caller that only plans and counts: OpenBLAS gets no memory, so nothing may be computed. */
enum sl_err sl_cpu_backend_open_idle(struct sl_backend *be, struct sl_pool *pool, struct sl_fail *fail) SL_MUST_CHECK;

/* Opens a backend with memory and codecs but no kernels; it does not touch OpenBLAS. */
void sl_cpu_codec_backend_open(struct sl_backend *be);

/* The SIMD level, "amx" if products of bfloat16 use it, and OpenBLAS's core type, such as "avx512, OpenBLAS
 * Cooperlake". A static string. */
const char *sl_cpu_describe(void);
/* Where OpenBLAS does not know this CPU, it takes kernels for one of 2004. It reads OPENBLAS_CORETYPE before main, so
 * this sets the variable and starts the program anew: the same process, with main's `argv`. Call it first in main. It
 * returns where the kernels are right, where the environment has chosen them, or where the program cannot be started.
 */
void sl_cpu_restart_with_kernels(char **argv);
/* True where OpenBLAS runs kernels for an older core type than this CPU's: OPENBLAS_CORETYPE in the environment
 * names one, or OpenBLAS does not know the CPU. Products then take up to twice the time. Then `reason` is a
 * static sentence with the remedy. */
bool sl_cpu_core_is_older(const char **reason);

#endif
