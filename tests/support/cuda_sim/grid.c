/* Launches: the threads of a block as fibers, started on stacks of their own with makecontext, switched with _setjmp,
 * which makes no system call. */
#include "tests/support/cuda_sim/cuda_runtime_api.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { MOST_THREADS = 1024, WARP = 32, STACK_BYTES = 64 << 10 };

struct sim_index threadIdx, blockIdx, blockDim, gridDim;

struct meeting {
	unsigned arrived, round;
};

static struct {
	ucontext_t start[MOST_THREADS];
	jmp_buf at[MOST_THREADS];
	bool started[MOST_THREADS], done[MOST_THREADS];
	unsigned char *stack;
	void (*thread)(void);
	unsigned running, threads; /* of the block */
	unsigned events;           /* meetings that came about, threads that ended */
	struct meeting block, warp[MOST_THREADS / WARP];
	unsigned vote[MOST_THREADS / WARP];
	float lane[MOST_THREADS];
} sim;

static jmp_buf scheduler;
static uint32_t luck = 1;

static void pause_thread(void)
{
	unsigned me = sim.running;

	if (_setjmp(sim.at[me]) == 0)
		_longjmp(scheduler, 1);
}

static void meet(struct meeting *m, unsigned all)
{
	unsigned round = m->round;

	if (++m->arrived == all) {
		m->arrived = 0;
		m->round++;
		sim.events++;
	} else {
		while (m->round == round)
			pause_thread();
	}
}

void __syncthreads(void)
{
	meet(&sim.block, sim.threads);
}

unsigned __ballot_sync(unsigned mask, int predicate)
{
	unsigned warp = sim.running / WARP, bit = 1u << sim.running % WARP, result;

	if (mask != 0xffffffffu)
		abort();
	sim.vote[warp] = predicate ? sim.vote[warp] | bit : sim.vote[warp] & ~bit;
	meet(&sim.warp[warp], WARP);
	result = sim.vote[warp];
	meet(&sim.warp[warp], WARP);
	return result;
}

float __shfl_xor_sync(unsigned mask, float v, int lanes)
{
	unsigned me = sim.running, warp = me / WARP;
	float result;

	if (mask != 0xffffffffu)
		abort();
	sim.lane[me] = v;
	meet(&sim.warp[warp], WARP);
	result = sim.lane[me ^ (unsigned)lanes];
	meet(&sim.warp[warp], WARP);
	return result;
}

/* A fiber outlives its thread: for the next one it is only resumed. */
static void thread_main(void)
{
	for (;;) {
		sim.thread();
		sim.done[sim.running] = true;
		sim.events++;
		pause_thread();
	}
}

static void start(unsigned t)
{
	ucontext_t *c = &sim.start[t];

	getcontext(c);
	c->uc_stack.ss_sp = sim.stack + (size_t)t * STACK_BYTES;
	c->uc_stack.ss_size = STACK_BYTES;
	makecontext(c, thread_main, 0);
	sim.started[t] = true;
	setcontext(c);
}

static void resume(unsigned t)
{
	sim.running = t;
	threadIdx = (struct sim_index){t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
	if (_setjmp(scheduler) != 0)
		return;
	if (sim.started[t])
		_longjmp(sim.at[t], 1);
	start(t);
}

/* Every thread once, from a place and in a direction that vary. */
static void turn(void)
{
	unsigned n = sim.threads, first;

	luck = luck * 1664525u + 1013904223u;
	first = (luck >> 8) % n;
	for (unsigned i = 0; i < n; i++) {
		unsigned t = luck >> 31 ? (first + i) % n : (first + n - i) % n;

		if (!sim.done[t])
			resume(t);
	}
}

static bool all_done(void)
{
	for (unsigned t = 0; t < sim.threads; t++)
		if (!sim.done[t])
			return false;
	return true;
}

static void run_block(void)
{
	memset(sim.done, 0, sizeof sim.done);
	memset(&sim.block, 0, sizeof sim.block);
	memset(sim.warp, 0, sizeof sim.warp);
	while (!all_done()) {
		unsigned before = sim.events;

		turn();
		if (sim.events == before) {
			fprintf(stderr, "cuda_sim: a barrier that not all threads reach\n");
			abort();
		}
	}
}

static cudaError_t last_error;

cudaError_t cudaGetLastError(void)
{
	cudaError_t last = last_error;

	last_error = cudaSuccess;
	return last;
}

cudaError_t sim_launch_grid(void (*thread)(void), struct sim_index grid, struct sim_index block)
{
	const uint64_t threads = (uint64_t)block.x * block.y * block.z;

	if (grid.x < 1 || grid.x > INT32_MAX || grid.y < 1 || grid.y > 65535 || grid.z < 1 || grid.z > 65535 ||
	    threads < 1 || threads > MOST_THREADS)
		return last_error = cudaErrorInvalidValue;
	if (sim.stack == NULL && (sim.stack = malloc((size_t)MOST_THREADS * STACK_BYTES)) == NULL)
		return last_error = cudaErrorMemoryAllocation;
	sim.thread = thread;
	sim.threads = (unsigned)threads;
	gridDim = grid;
	blockDim = block;
	for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
		for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
			for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
				run_block();
	return cudaSuccess;
}

cudaError_t sim_launch(void (*thread)(void), int64_t blocks, unsigned threads)
{
	if (blocks < 1 || blocks > INT32_MAX)
		return last_error = cudaErrorInvalidValue;
	return sim_launch_grid(thread, (struct sim_index){(unsigned)blocks, 1, 1}, (struct sim_index){threads, 1, 1});
}
