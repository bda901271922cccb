/* Launches: the threads of a block as fibers, blocks one after another. */
#include "tests/support/cuda_sim/cuda_runtime_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda_sim/fiber.h"
#include "tests/support/cuda_sim/race.h"

enum { MOST_THREADS = 1024, WARP = 32 };

struct sim_index threadIdx, blockIdx, blockDim, gridDim;
const void *sim_body;
const char *sim_kernel;

struct meeting {
	unsigned arrived, round;
};

static struct {
	bool done[MOST_THREADS];
	void (*thread)(void);
	struct sim_shared shared;
	unsigned running, threads, left; /* of the current block; left: threads that have not ended */
	unsigned events;                 /* barriers completed and threads ended */
	struct meeting block, warp[MOST_THREADS / WARP];
	unsigned vote[MOST_THREADS / WARP];
	uint64_t lane[MOST_THREADS];
} sim;

static uint32_t luck = 1;

static void meet(struct meeting *m, unsigned all)
{
	unsigned round = m->round;

	if (++m->arrived == all) {
		m->arrived = 0;
		m->round++;
		sim.events++;
	} else {
		while (m->round == round)
			fiber_pause();
	}
}

void __syncthreads(void)
{
	race_arrive();
	meet(&sim.block, sim.threads);
	race_leave(sim.block.round);
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

/* What lane `from` of this warp gives in; its own value if there is no such lane. */
static uint64_t exchange(unsigned mask, uint64_t v, unsigned from)
{
	unsigned me = sim.running, warp = me / WARP;
	uint64_t result;

	if (mask != 0xffffffffu)
		abort();
	sim.lane[me] = v;
	meet(&sim.warp[warp], WARP);
	result = from < WARP ? sim.lane[warp * WARP + from] : v;
	meet(&sim.warp[warp], WARP);
	return result;
}

float __shfl_xor_sync(unsigned mask, float v, int lanes)
{
	uint64_t bits = 0;

	memcpy(&bits, &v, sizeof v);
	bits = exchange(mask, bits, sim.running % WARP ^ (unsigned)lanes);
	memcpy(&v, &bits, sizeof v);
	return v;
}

unsigned __shfl_up_sync(unsigned mask, unsigned v, unsigned lanes)
{
	return (unsigned)exchange(mask, v, sim.running % WARP - lanes); /* wraps round where there is none */
}

double __shfl_down_sync(unsigned mask, double v, unsigned lanes)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof v);
	bits = exchange(mask, bits, sim.running % WARP + lanes);
	memcpy(&v, &bits, sizeof v);
	return v;
}

void __threadfence(void)
{
	race_fence();
}

/* A fiber outlives the thread it runs: for the next thread it is just resumed. */
static void thread_main(void)
{
	for (;;) {
		sim.thread();
		sim.done[sim.running] = true;
		sim.left--;
		sim.events++;
		fiber_pause();
	}
}

static void resume(unsigned t)
{
	sim.running = t;
	threadIdx = (struct sim_index){t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
	race_thread(t);
	fiber_resume(t, thread_main);
}

/* Runs every thread once, from a starting point and in a direction that vary. */
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

/* Fills shared memory with a value that is NaN as fp32, half and bfloat16, and out of range as an integer. Not by
 * memset, which is instrumented: the bytes lie between redzones, and these are no thread's accesses. */
static __attribute__((no_sanitize_address, noinline)) void spoil_shared(void)
{
	for (uint32_t *at = sim.shared.from; at < sim.shared.to; at++)
		*at = SIM_POISON;
}

static void run_block(unsigned number)
{
	memset(sim.done, 0, sizeof sim.done);
	memset(&sim.block, 0, sizeof sim.block);
	memset(sim.warp, 0, sizeof sim.warp);
	sim.left = sim.threads;
	spoil_shared();
	race_block(number, sim.threads);
	while (sim.left > 0) {
		unsigned before = sim.events;

		turn();
		if (sim.events == before) {
			fprintf(stderr, "cuda_sim: a barrier that not all threads reach\n");
			abort();
		}
	}
}

static _Thread_local cudaError_t last_error;

cudaError_t sim_says(cudaError_t status)
{
	if (status != cudaSuccess)
		last_error = status;
	return status;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t last = last_error;

	last_error = cudaSuccess;
	return last;
}

cudaError_t sim_takes_grid(struct sim_index grid, struct sim_index block)
{
	const uint64_t threads = (uint64_t)block.x * block.y * block.z;

	if (getenv("SPLIT_SIM_NO_ROOM") != NULL)
		return last_error = cudaErrorMemoryAllocation;
	if (grid.x < 1 || grid.x > INT32_MAX || grid.y < 1 || grid.y > 65535 || grid.z < 1 || grid.z > 65535 ||
	    threads < 1 || threads > MOST_THREADS)
		return last_error = cudaErrorInvalidValue;
	return cudaSuccess;
}

cudaError_t sim_launch_grid(void (*thread)(void), struct sim_shared shared, struct sim_index grid,
			    struct sim_index block)
{
	const uint64_t threads = (uint64_t)block.x * block.y * block.z;
	unsigned number = 0;

	if (sim_takes_grid(grid, block))
		return last_error;
	if (!fiber_ready())
		return last_error = cudaErrorMemoryAllocation;
	sim.thread = thread;
	sim.shared = shared;
	sim.threads = (unsigned)threads;
	gridDim = grid;
	blockDim = block;
	race_launch(shared.from, (size_t)(shared.to - shared.from) * sizeof(uint32_t));
	for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
		for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
			for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
				run_block(number++);
	race_launched();
	return cudaSuccess;
}

cudaError_t sim_launch(void (*thread)(void), struct sim_shared shared, int64_t blocks, unsigned threads)
{
	if (blocks < 1 || blocks > INT32_MAX)
		return last_error = cudaErrorInvalidValue;
	return sim_launch_grid(thread, shared, (struct sim_index){(unsigned)blocks, 1, 1},
			       (struct sim_index){threads, 1, 1});
}
