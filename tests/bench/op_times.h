/* Measures the CPU time and memory of the process, and the CPU time of every op that a backend runs. Call it from one
 * thread. */
#ifndef SL_BENCH_OP_TIMES_H
#define SL_BENCH_OP_TIMES_H

#include "common/exec/backend.h"

enum pass { FORWARD, BACKWARD, PASSES };

struct op_profile {
	const struct sl_op *op;
	double ms[PASSES];    /* the least CPU time of a call */
	double bytes[PASSES]; /* that a call must at least read and write */
};

/* Milliseconds of CPU time of all threads of this process, which other programs disturb less than wall time. */
double cpu_ms(void);
double peak_resident_mb(void); /* not from ru_maxrss, which includes the process before exec */
/* Times the backend's ops from now on. For one backend in a process, before an executor is opened with it. */
void op_times_watch(struct sl_backend *be);
/* Returns the ops in the order of their first calls, and their number in *n. */
const struct op_profile *op_times(int *n);

#endif
