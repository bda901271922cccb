/* Passes that are recorded once and launched as one (sl_backend_ops.pass_begin): which passes are, and the
 * state of each. Host-side bookkeeping only: CUDA is behind a table, which tests replace
 * (tests/suite/test_gpu_graphs.c, test_gpu_tape.c).
 *
 * The first time a pass is computed kernel by kernel, because libraries choose algorithms and load code. The
 * second time it is recorded and launched; from then on it is only launched. A pass that cannot be recorded
 * is always computed kernel by kernel; one line in the log tells of all of these. Inputs of a pass that a
 * recording cannot hold:
 *
 *   dropout, forward and backward    the step, which is read from device memory: random numbers depend on it
 *   losses                           labels and addresses of results: passes with a loss are never recorded
 *   the optimizer                    lr, whether it is the first step: not part of a pass
 *   all others                       none: shapes, arena addresses and the plan's constants are in the key
 */
#ifndef SL_KERNELS_CUDA_GRAPH_H
#define SL_KERNELS_CUDA_GRAPH_H

#include <stdatomic.h>

#include "common/exec/backend.h"

enum { CU_GRAPHS = 512 }; /* passes known at once, of all sessions; further ones are computed kernel by kernel */

struct cu_graph_runtime {
	enum sl_err (*record)(void *arg); /* from now on, work on the stream is recorded and not run */
	/* Ends the recording in any case. `keep`: *graph is the graph to launch; otherwise the recording is
	 * discarded. */
	enum sl_err (*finish)(void *arg, bool keep, void **graph);
	/* step NULL: the pass does not read it. */
	enum sl_err (*launch)(void *arg, void *graph, const uint64_t *step);
	void (*drop)(void *arg, void *graph); /* the device may still be running it */
};

struct cu_graph {
	_Atomic(const void *) owner; /* of `pass`; NULL: a free entry */
	atomic_bool forgotten;       /* the owner has gone: the entry is freed when the next pass begins */
	struct sl_pass pass;
	void *graph; /* NULL: not recorded yet */
	bool uses_step, refused;
};

struct cu_graphs {
	const struct cu_graph_runtime *runtime; /* NULL: no pass is recorded */
	void *arg;
	_Atomic(struct cu_graph *) recording; /* the entry that is being recorded; NULL: none */
	struct cu_graph graph[CU_GRAPHS];
	atomic_bool any_forgotten;
	bool complained;
};

void cu_graphs_open(struct cu_graphs *g, const struct cu_graph_runtime *runtime, void *arg);
/* See sl_backend_ops.pass_begin, pass_end, pass_forget. */
enum sl_err cu_graphs_begin(struct cu_graphs *g, const struct sl_pass *pass, enum sl_pass_way *way) SL_MUST_CHECK;
enum sl_err cu_graphs_end(struct cu_graphs *g, enum sl_err recorded, enum sl_pass_way *way) SL_MUST_CHECK;
/* Any thread may call it, also while a pass runs. A session ends on the event loop's thread while the worker
 * may record a pass of another session; waiting for the stream would spoil that recording. So the owner's
 * graphs are dropped when the next pass begins. */
void cu_graphs_forget(struct cu_graphs *g, const void *owner);
void cu_graphs_close(struct cu_graphs *g); /* drops all graphs */
/* Called by ops that depend on the step. True: a pass is being recorded, and the op must read the step from
 * device memory. False: the op uses its own step. */
bool cu_graphs_take_step(struct cu_graphs *g);

#endif
