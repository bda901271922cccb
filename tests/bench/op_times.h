/* CPU times of a benchmark, and of every op that a backend runs in it. One thread calls. */
#ifndef SL_BENCH_OP_TIMES_H
#define SL_BENCH_OP_TIMES_H

#include "common/exec/backend.h"

enum pass { FORWARD, BACKWARD, PASSES };

struct op_profile {
	const struct sl_op *op;
	double ms[PASSES], bytes[PASSES]; /* the least call; read and written, at the least */
};

/* Milliseconds of all threads of this process: what a busy machine disturbs least. */
double cpu_ms(void);
/* From here on the backend's ops are timed. One backend in a process, before an executor is opened with it. */
void op_times_watch(struct sl_backend *be);
/* The ops in the order of their first calls; *n of them. */
const struct op_profile *op_times(int *n);

#endif
