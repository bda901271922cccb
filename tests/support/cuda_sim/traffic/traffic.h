/* What the kernels of a launch touch, counted on a simulated device: kernels are compiled with -fsanitize=thread, whose
 * calls at every access end in traffic.c. Accesses are counted as a warp makes them: the k-th time that a thread comes
 * to an instruction belongs together with the k-th time of the other 31. That is what a device does where all threads
 * take the same turns of a loop. Where some skip one, sectors asked for and turns are too many; sectors moved, launches
 * and atomics are right nevertheless. What a compiler keeps in registers is gcc's guess at -O1. */
#ifndef SL_TESTS_CUDA_SIM_TRAFFIC_H
#define SL_TESTS_CUDA_SIM_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

enum { TRAFFIC_SECTOR = 32 /* bytes that global memory is moved in */ };

/* Of all launches of one kernel since traffic_forget. */
struct traffic_kernel {
	const char *name; /* FILE:KERNEL, lives as long as the program */
	int64_t launches, blocks, threads;
	/* Global memory, in sectors: those that warps ask for, and of these each once a launch, as if caches kept all
	 * that one launch touches: what has to be moved at least. */
	int64_t asked_read, asked_written, moved_read, moved_written;
	/* Instructions of warps on shared memory, and the turns that its 32 banks need for them. */
	int64_t shared, shared_turns;
	/* On global memory, by thread; the most at one address, and the most loads of one thread, of one launch. */
	int64_t atomics, most_atomics, most_loads;
};

/* What the host queued, and how often it waited. */
struct traffic_host {
	int64_t memset_bytes, copy_bytes; /* copies: across the bus */
	int memsets, copies, waits;
};

void traffic_forget(void);
/* Those seen, in the order of their first launches; the array is the caller's until the next call of either. */
size_t traffic_kernels(const struct traffic_kernel **out);
struct traffic_host traffic_host(void);

#endif
