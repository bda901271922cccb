/* Passes that are recorded once and launched as one (sl_backend_ops.pass_begin): which are, and what becomes of each.
 * Host-side bookkeeping alone: CUDA is behind a table, which tests replace (tests/suite/test_gpu_graphs.c,
 * test_gpu_tape.c).
 *
 * A pass is computed plainly the first time, when libraries choose algorithms and load code; the second time it is
 * recorded and launched; from then on, launched. One that cannot be recorded is computed plainly for ever, with one
 * line in the log for all of them. What a pass needs that a recording cannot hold:
 *
 *   dropout, forward and backward    the step, of which its random numbers are a function: in device memory
 *   cross-entropy                    labels, where its sums go: passes that have one are never recorded
 *   the optimizer                    lr, whether it is the first step: not part of a pass
 *   all others                       nothing: shapes, places in the arenas and the plan's constants, all in the key
 */
#ifndef SL_KERNELS_CUDA_GRAPH_H
#define SL_KERNELS_CUDA_GRAPH_H

#include <stdatomic.h>

#include "common/exec/backend.h"

enum { CU_GRAPHS = 512 }; /* passes known at once, of all sessions; beyond: plain */

struct cu_graph_runtime {
	enum sl_err (*record)(void *arg); /* from now on what is queued is recorded instead */
	/* Ends the recording, in any case. `keep`: *graph is what launches it; else it is dropped. */
	enum sl_err (*finish)(void *arg, bool keep, void **graph);
	/* step NULL: the pass does not look at it. */
	enum sl_err (*launch)(void *arg, void *graph, const uint64_t *step);
	void (*drop)(void *arg, void *graph); /* may still be under way on the device */
};

struct cu_graph {
	_Atomic(const void *) owner; /* that of `pass`; NULL: a free place */
	atomic_bool forgotten;       /* by its owner: free when the next pass begins */
	struct sl_pass pass;
	void *graph; /* NULL: not recorded yet */
	bool uses_step, refused;
};

struct cu_graphs {
	const struct cu_graph_runtime *runtime; /* NULL: all plain */
	void *arg;
	_Atomic(struct cu_graph *) recording; /* NULL: none */
	struct cu_graph graph[CU_GRAPHS];
	atomic_bool any_forgotten;
	bool complained;
};

void cu_graphs_open(struct cu_graphs *g, const struct cu_graph_runtime *runtime, void *arg);
/* As sl_backend_ops.pass_begin, pass_end, pass_forget. */
enum sl_err cu_graphs_begin(struct cu_graphs *g, const struct sl_pass *pass, enum sl_pass_way *way) SL_MUST_CHECK;
enum sl_err cu_graphs_end(struct cu_graphs *g, enum sl_err recorded, enum sl_pass_way *way) SL_MUST_CHECK;
/* From any thread, that of a pass under way included: a session ends on the event loop's while the worker records one
 * of another, and to wait for the stream then would spoil that recording. They are dropped as the next pass begins. */
void cu_graphs_forget(struct cu_graphs *g, const void *owner);
void cu_graphs_close(struct cu_graphs *g); /* drops all */
/* While recording: the pass looks at the step in device memory. False: it is computed now, from its own step. */
bool cu_graphs_take_step(struct cu_graphs *g);

#endif
