/* CUDA graphs on the backend's stream: the device's functions for kernels/cuda/graph.c. */
#include "kernels/cuda/cuda.h"

/* Relaxed: libraries may load code or allocate memory meanwhile, which is not recorded. */
static enum sl_err record(void *arg)
{
	struct cuda *cu = arg;

	if (cudaStreamBeginCapture(cu->stream, cudaStreamCaptureModeRelaxed) == cudaSuccess)
		return SL_OK;
	cudaGetLastError();
	return SL_ERR_DEVICE;
}

static enum sl_err finish(void *arg, bool keep, void **out)
{
	struct cuda *cu = arg;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	cudaError_t status = cudaStreamEndCapture(cu->stream, &graph);

	if (status == cudaSuccess && keep)
		status = cudaGraphInstantiateWithFlags(&exec, graph, 0);
	if (graph)
		cudaGraphDestroy(graph);
	if (status != cudaSuccess) {
		cudaGetLastError();
		return SL_ERR_DEVICE;
	}
	*out = exec;
	return SL_OK;
}

static enum sl_err launch(void *arg, void *graph, const uint64_t *step)
{
	struct cuda *cu = arg;
	enum sl_err err = step ? cu_check(cu, cu_store_step(cu->stream, cu->step, *step), "storing the step") : SL_OK;

	return err ? err : cu_check(cu, cudaGraphLaunch(graph, cu->stream), "launching a graph");
}

/* If the graph is running, CUDA frees it when it is done. */
static void drop(void *arg, void *graph)
{
	cudaGraphExecDestroy(graph);
}

const struct cu_graph_runtime cu_graph_runtime = {.record = record, .finish = finish, .launch = launch, .drop = drop};

static enum sl_err pass_begin(struct sl_backend *be, const struct sl_pass *pass, enum sl_pass_way *way)
{
	struct cuda *cu;
	enum sl_err err = cu_enter(be, &cu);

	return err ? err : cu_graphs_begin(&cu->graphs, pass, way);
}

static enum sl_err pass_end(struct sl_backend *be, enum sl_err recorded, enum sl_pass_way *way)
{
	struct cuda *cu = be->impl;

	return cu_graphs_end(&cu->graphs, recorded, way);
}

static void pass_forget(struct sl_backend *be, const void *owner)
{
	struct cuda *cu = be->impl;

	cu_graphs_forget(&cu->graphs, owner);
}

void cu_graph_ops(struct sl_backend_ops *ops)
{
	ops->pass_begin = pass_begin;
	ops->pass_end = pass_end;
	ops->pass_forget = pass_forget;
}
