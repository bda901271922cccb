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

/* `threads`: 1 … SL_POOL_MAX_THREADS, the caller of sl_pool_run included; 0: as many as the CPUs that this process
 * may use. If there is a CPU for each thread, the pool sets the affinity of its own threads, within the caller's
 * current one. So they wake on other CPUs than the one that calls sl_pool_run. */
enum sl_err sl_pool_open(struct sl_pool **out, int threads, struct sl_fail *fail) SL_MUST_CHECK;
void sl_pool_close(struct sl_pool *pool); /* NULL is fine; waits for its threads */
int sl_pool_threads(const struct sl_pool *pool);

/* Runs fn for every block and returns when all are done. One caller at a time; never from inside fn. `pool` NULL
 * runs the blocks in the calling thread. The order of blocks is not defined: a thread takes its own share first,
 * the same part of [0, blocks) in every run, then blocks that other threads have left.
 * A job of a worker (worker.h) that calls this may give way between blocks: other jobs then use the pool meanwhile. */
void sl_pool_run(struct sl_pool *pool, int64_t blocks, sl_pool_fn *fn, void *arg);

/* A block that may take long consists of steps. Between two steps fn asks sl_pool_stop, and returns if the answer
 * is true. The pool later calls fn again for that block, with the same `worker`, so that its scratch is unchanged,
 * and with the next step in `at`. If the job was unwanted meanwhile (sl_worker_unwant), the run ends instead: the
 * remaining blocks stay undone. */
struct sl_pool_step {
	int worker;
	int64_t at; /* the step to begin with: 0 at first */
	bool stopped;
	struct sl_worker *turns; /* used by the pool */
};

typedef void sl_pool_long_fn(void *arg, int64_t block, struct sl_pool_step *step);

void sl_pool_run_long(struct sl_pool *pool, int64_t blocks, sl_pool_long_fn *fn, void *arg);
bool sl_pool_stop(struct sl_pool_step *step, int64_t next); /* true: return now; the block resumes at `next` */

#endif
