#include "kernels/cpu/cpu.h"

#include <cblas.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/base/program.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/codec_loops.h"
#include "kernels/cpu/impl.h"
#include "kernels/cpu/level.h"

struct update_job {
	const struct sl_cpu_simd *simd;
	const struct sl_update *update;
	int64_t count;
	float *weight, *first, *second;
	const float *grad;
};

static void update_block(void *arg, int64_t block, int worker)
{
	const struct update_job *j = arg;
	int64_t at = block * SL_CPU_BLOCK, n = sl_cpu_min(SL_CPU_BLOCK, j->count - at);

	if (j->second)
		j->simd->adam(j->update, n, j->weight + at, j->grad + at, j->first + at, j->second + at);
	else
		j->simd->sgd(j->update, n, j->weight + at, j->grad + at, j->first + at);
}

static enum sl_err update(struct sl_backend *be, const struct sl_update *how, int64_t count, float *weight,
			  const float *grad, float *const moment[SL_MOMENTS_MOST])
{
	struct update_job job = {.simd = sl_cpu_simd_of(be),
				 .update = how,
				 .count = count,
				 .weight = weight,
				 .first = moment[0],
				 .second = how->kind == SL_OPTIMIZER_SGD ? NULL : moment[1],
				 .grad = grad};

	sl_pool_run(be->pool, sl_cpu_blocks(count, SL_CPU_BLOCK), update_block, &job);
	return SL_OK;
}

static void close_(struct sl_backend *be)
{
	free(be->impl);
	memset(be, 0, sizeof *be);
}

const char *sl_cpu_describe(void)
{
	static char text[96];
	const struct sl_cpu_simd *simd = sl_cpu_level_choose()->simd;

	snprintf(text, sizeof text, "%s%s, OpenBLAS %s", simd->name, sl_amx_chosen(simd) ? " amx" : "",
		 openblas_get_corename());
	return text;
}

static const char core_type[] = "OPENBLAS_CORETYPE";

/* The core type that OpenBLAS should have taken; NULL: it has kernels for this CPU, or for one as new. */
static const char *better_core(void)
{
	const char *const *cores = sl_cpu_level_best()->blas_cores, *core = openblas_get_corename();

	for (int i = 0; cores != NULL && cores[i] != NULL; i++)
		if (strcmp(core, cores[i]) == 0)
			return NULL;
	return cores != NULL ? cores[0] : NULL;
}

void sl_cpu_restart_with_kernels(char **argv)
{
	const char *core = getenv(core_type) == NULL ? better_core() : NULL;
	char path[PATH_MAX]; /* not /proc/self/exe itself: ps would call the program "exe" */
	const ssize_t len = core != NULL ? readlink("/proc/self/exe", path, sizeof path - 1) : -1;

	if (len < 0 || setenv(core_type, core, 1) != 0)
		return;
	path[len] = '\0';
	(void)execv(path, argv);
	(void)unsetenv(core_type);
}

bool sl_cpu_core_is_older(const char **reason)
{
	static char unknown[128];
	const char *core = better_core();

	if (core != NULL)
		snprintf(unknown, sizeof unknown,
			 "OpenBLAS does not know this CPU and uses kernels of an older one: set %s=%s", core_type,
			 core);
	*reason = getenv(core_type) == NULL
			  ? unknown
			  : "OPENBLAS_CORETYPE in the environment makes OpenBLAS use kernels of an older CPU: unset it";
	return core != NULL;
}

static const struct sl_backend_ops ops = {
	.name = "cpu",
	SL_CPU_MEMORY,
	.update = update,
	.finite = sl_cpu_finite,
	.kernel =
		{
#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) &sl_cpu_op_##kernel,
#include "common/graph/ops.def"
		},
	.codec_loops = sl_cpu_codec_loops,
	.close = close_,
};

/* OpenBLAS's own calls, if it exports them. */
void *blas_memory_alloc(int where) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));

enum { BLAS_BUFFER = 128 << 20, BLAS_BUFFERS = 128 }; /* bytes on x86-64 and arm64; so many at most are reserved */
enum { BLAS_STACK = 16 << 20 };                       /* bytes: a thread's stack of 8 MiB, and what starts beside it */

/* How many of `n` blocks there is room for. */
static int room_for(int n, size_t bytes)
{
	void *at[BLAS_BUFFERS];
	int has = 0;

	while (has < n &&
	       (at[has] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
		has++;
	for (int i = 0; i < has; i++)
		munmap(at[i], bytes);
	return has;
}

/* The threads that OpenBLAS starts: as many as CPUs that it may use, or fewer where the environment says so. */
static int blas_threads(char *const *env)
{
	static const char *const name[] = {
		"OPENBLAS_NUM_THREADS=", "OPENBLAS_DEFAULT_NUM_THREADS=", "GOTO_NUM_THREADS=", "OMP_NUM_THREADS="};
	cpu_set_t allowed;
	const int cpus = sched_getaffinity(0, sizeof allowed, &allowed) ? get_nprocs() : CPU_COUNT(&allowed);

	for (int i = 0; i < 4; i++)
		for (int k = 0; env[k] != NULL; k++) {
			const size_t len = strlen(name[i]);
			const int n = strncmp(env[k], name[i], len) == 0 ? atoi(env[k] + len) : 0;

			if (n > 0)
				return n < cpus ? n : cpus;
		}
	return cpus;
}

void sl_cpu_begin(int argc, char **argv, char **env)
{
	const int threads = blas_threads(env), all = threads < BLAS_BUFFERS ? threads : BLAS_BUFFERS;

	(void)argc;
	(void)argv;
	if (room_for(all, BLAS_BUFFER + BLAS_STACK) == all)
		return;
	dprintf(STDERR_FILENO,
		"OpenBLAS needs 128 MiB of this process' address space for each of %d thread%s: raise ulimit -v, "
		"or set OPENBLAS_NUM_THREADS=1\n",
		all, sl_plural(all));
	_exit(sl_err_exit_status(SL_ERR_NOMEM));
}

/* Each thread in sgemm has a buffer, which OpenBLAS takes at the first call and keeps. Without room for it OpenBLAS
 * tries again for ever. So all are taken here, where it can be said. NOMEM: threads of its own may be trying, too. */
static enum sl_err reserve_buffers(int threads, struct sl_fail *fail)
{
	static int reserved;
	void *at[BLAS_BUFFERS];
	int n, all = threads < BLAS_BUFFERS ? threads : BLAS_BUFFERS;

	if (!blas_memory_alloc || !blas_memory_free || all <= reserved)
		return SL_OK;
	n = room_for(all, BLAS_BUFFER);
	if (n < all) {
		sl_program_hangs();
		return sl_fail_set(
			fail, SL_ERR_NOMEM,
			"OpenBLAS needs 128 MiB of this process' address space for each of %d thread%s, and there "
			"is room for %d: raise ulimit -v, or lower `threads`",
			all, sl_plural(all), n);
	}
	for (int i = 0; i < all; i++)
		at[i] = blas_memory_alloc(0);
	for (int i = 0; i < all; i++)
		blas_memory_free(at[i]);
	reserved = all;
	return SL_OK;
}

enum sl_err sl_cpu_backend_open(struct sl_backend *be, struct sl_pool *pool, struct sl_fail *fail)
{
	const enum sl_err err = reserve_buffers(pool ? sl_pool_threads(pool) : 1, fail);

	return err ? err : sl_cpu_backend_open_idle(be, pool, fail);
}

enum sl_err sl_cpu_backend_open_idle(struct sl_backend *be, struct sl_pool *pool, struct sl_fail *fail)
{
	struct sl_cpu *cpu = calloc(1, sizeof *cpu);
	const struct sl_cpu_simd *simd = sl_cpu_level_choose()->simd;
	sl_amx_strip *const amx = sl_amx_chosen(simd);

	if (cpu == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the CPU backend");
	openblas_set_num_threads(1);
	cpu->simd = simd;
	if (amx) {
		sl_amx_replace(&cpu->tiles, simd, amx);
		cpu->simd = &cpu->tiles;
	}
	cpu->ops = ops;
	if (sl_cpu_offers_pairs(cpu->simd))
		cpu->ops.precisions = 1u << SL_PRECISION_BF16_FACTORS;
	*be = (struct sl_backend){.ops = &cpu->ops, .pool = pool, .host_memory = true, .impl = cpu};
	return SL_OK;
}
