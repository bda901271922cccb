/* Counts the memory accesses of kernels on a simulated device. Kernels are compiled with -fsanitize=thread, whose
 * calls at every access end in traffic.c. Accesses are grouped by warp: the k-th execution of an instruction by
 * one thread belongs to the k-th of the other 31. That is right for a device if all threads take the same
 * iterations of a loop. If some skip one, sectors asked for and turns are overestimated; sectors moved, launches
 * and atomics are still right. Which values stay in registers is gcc's choice at -O1. */
#ifndef SL_TESTS_CUDA_SIM_TRAFFIC_H
#define SL_TESTS_CUDA_SIM_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

enum { TRAFFIC_SECTOR = 32 /* unit of transfers of global memory */ };

/* Sums over all launches of one kernel since traffic_forget. */
struct traffic_kernel {
	const char *name; /* FILE:KERNEL, lives as long as the program */
	int64_t launches, blocks, threads;
	/* Global memory, in sectors. asked: what warps request. moved: each of these once per launch, as
	 * if caches kept everything that a launch touches; a lower bound of what has to be moved. */
	int64_t asked_read, asked_written, moved_read, moved_written;
	/* Instructions of warps on shared memory, and the turns that its 32 banks need for them. */
	int64_t shared, shared_turns;
	/* On global memory, by thread; most_atomics: at one address; most_loads: by one thread; both in one launch. */
	int64_t atomics, most_atomics, most_loads;
};

/* What the host queued, and how often it waited. */
struct traffic_host {
	int64_t memset_bytes, copy_bytes; /* copies: across the bus */
	int memsets, copies, waits;
};

void traffic_forget(void);
/* The kernels launched, in the order of their first launches. The array is valid until the next
 * call of this or of traffic_forget. */
size_t traffic_kernels(const struct traffic_kernel **out);
struct traffic_host traffic_host(void);

#endif
