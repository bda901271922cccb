/* Fork-join thread pool for kernels. Work is cut into blocks whose size never depends on the number of threads, and
 * reductions add block results in block order: so results are bit-identical for any thread count. */
#ifndef SL_BASE_POOL_H
#define SL_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct sl_pool;
struct sl_worker;

/* `worker` is in [0, threads): index of the scratch area that this call may use. `block` in [0, blocks). */
typedef void sl_pool_fn(void *arg, int64_t block, int worker);

enum { SL_POOL_MAX_THREADS = 256 };

/* `threads` 1 … SL_POOL_MAX_THREADS, the caller of sl_pool_run counted in; 0 means the CPUs this process may use.
 * Where there are at least as many, the pool sets the affinity of its own threads, within what the caller may use now:
 * they are woken on other CPUs than the one that sl_pool_run is called on. */
enum sl_err sl_pool_open(struct sl_pool **out, int threads, struct sl_fail *fail) SL_MUST_CHECK;
void sl_pool_close(struct sl_pool *pool); /* NULL is fine; waits for its threads */
int sl_pool_threads(const struct sl_pool *pool);

/* Runs fn for every block and returns when all are done. One caller at a time; never from inside fn.
 * `pool` NULL runs the blocks in the calling thread. Blocks come in no order that could be relied on:
 * a thread takes those of its own share first, the same part of [0, blocks) in every run, then what others have left.
 * In a job of a worker (worker.h) that job may give way between blocks: other jobs then use the pool meanwhile. */
void sl_pool_run(struct sl_pool *pool, int64_t blocks, sl_pool_fn *fn, void *arg);

/* A block that may take long has steps. Between two of them it asks sl_pool_stop, and returns where that is true; later
 * it is called again with the same `worker`, so that its scratch is as it left it, and with the step in `at`. Where
 * nobody wants the job any more (sl_worker_unwant), the run ends there, and its blocks stay undone. */
struct sl_pool_step {
	int worker;
	int64_t at; /* 0 at first */
	bool stopped;
	struct sl_worker *turns; /* the pool's */
};

typedef void sl_pool_long_fn(void *arg, int64_t block, struct sl_pool_step *step);

void sl_pool_run_long(struct sl_pool *pool, int64_t blocks, sl_pool_long_fn *fn, void *arg);
bool sl_pool_stop(struct sl_pool_step *step, int64_t next); /* the block is to go on with `next` later */

#endif
