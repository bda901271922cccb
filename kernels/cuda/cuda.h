/* Internals of the CUDA backend: one device, and one stream on which all work is queued in order. If tasks
 * run ahead, two more streams carry payloads (codec_stage.h). */
#ifndef SL_KERNELS_CUDA_CUDA_H
#define SL_KERNELS_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>

#include "common/base/worker.h"
#include "common/exec/backend.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/launch.h"
#include "kernels/module.h"

enum {
	CU_FENCES = 256,   /* fences that may be pending */
	CU_RESULTS = 1024, /* losses between two fences */
	CU_GEMMS = 2048,   /* shapes of matrix products whose algorithms are kept */
	CU_BLAS_WORKSPACE = 32 << 20,
	CU_ALIGN = 256 /* alignment of a workspace's parts: that of cudaMalloc */
};

struct cu_fence {
	struct sl_job job;
	struct cuda *cu;
	cudaEvent_t event;
	unsigned results; /* value of cuda.results at the fence: earlier results are delivered before it */
	bool pending;
	void (*done)(void *arg);
	void *arg;
};

/* A loss's results are copied to these once a fence has passed. */
struct cu_result {
	double *loss_sum;
	int64_t *correct;
};

/* Storage types of a product's factors and result; sums are fp32. */
struct cu_gemm_type {
	enum cu_type in, out;
	bool tf32; /* fp32 only: the factors are rounded to TF32 */
};

struct cu_gemm_key {
	int64_t m, n, k;
	bool ta, tb, aligned; /* aligned: all three matrices are aligned to 16 bytes */
	bool tf32;
	uint8_t in, out; /* enum cu_type */
};

struct cu_gemm {
	struct cu_gemm_key key;
	cublasLtMatmulDesc_t desc; /* NULL: an empty entry */
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algo;
	size_t workspace_bytes;
};

struct cuda {
	struct sl_backend_ops ops; /* cu_backend_ops, plus the functions that the options add */
	struct sl_module_options options;
	cudaStream_t stream;
	cudaStream_t in, out; /* for copies to and from the device; NULL: `stream` is used */
	cudaEvent_t tail;     /* only with in and out: marks the end of `stream`'s work for a fence */
	cublasLtHandle_t blas;
	void *blas_workspace;          /* [CU_BLAS_WORKSPACE]; one serves all products, which run on one stream */
	struct cu_gemm gemm[CU_GEMMS]; /* a hash table */
	struct dnn *dnn;               /* NULL: there is no cuDNN */
	unsigned *counters;            /* [CU_COUNTERS], zero between launches */
	struct cu_graphs graphs;
	uint64_t *step;   /* device memory: the step of the graph that is being launched */
	uint32_t *finite; /* the largest |bits| of a check: in device memory, and its copy in page-locked host memory */
	uint32_t *finite_seen;
	struct sl_worker *waiter;
	struct cu_fence fence[CU_FENCES];
	struct cu_xent_result *result; /* [CU_RESULTS], pinned */
	struct cu_result result_to[CU_RESULTS];
	unsigned results; /* results queued so far; result i has index i modulo CU_RESULTS */
	atomic_uint results_delivered;
	atomic_int failed; /* the device reported an error that persists */
};

/* Makes `device` current for the calling thread. All code must choose a device by this function, which caches
 * it. */
cudaError_t cu_choose_device(int device);
/* Binds the calling thread to the device. */
enum sl_err cu_bind(struct cuda *cu) SL_MUST_CHECK;
/* The same; DEVICE if the device has failed before. Every entry calls it first. */
enum sl_err cu_enter(struct sl_backend *be, struct cuda **out) SL_MUST_CHECK;
/* Returns OK, or DEVICE (NOMEM for memory) and logs a line. While a graph is recorded, which may fail, it
 * does not log. An error that persists sets `failed`, and is logged once. */
enum sl_err cu_check(struct cuda *cu, cudaError_t status, const char *what) SL_MUST_CHECK;

enum cu_type cu_type_of(enum sl_dtype dtype);

/* The type that an op's inputs, its output and their gradients are stored in. */
static inline enum cu_type cu_op_type(const struct sl_op *op)
{
	return cu_type_of(sl_precision_dtype(op->precision));
}

static inline size_t cu_type_bytes(enum cu_type type)
{
	return type == CU_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Address of the i-th element of an array. */
static inline void *cu_at(const void *base, enum cu_type type, int64_t i)
{
	return (char *)(uintptr_t)base + (size_t)i * cu_type_bytes(type);
}

/* Types of an op's products; cu_wide_product: with an fp32 result, for gradients of weights. */
static inline struct cu_gemm_type cu_product(const struct sl_op *op)
{
	return (struct cu_gemm_type){cu_op_type(op), cu_op_type(op), op->precision == SL_PRECISION_TF32};
}

static inline struct cu_gemm_type cu_wide_product(const struct sl_op *op)
{
	return (struct cu_gemm_type){cu_op_type(op), CU_F32, op->precision == SL_PRECISION_TF32};
}

/* cu_result_place: where the device may write a loss's results; LIMIT if too many wait for a fence.
 * cu_result_take, after queueing: records where they go from there. */
static inline enum sl_err cu_result_place(struct cuda *cu, struct cu_xent_result **out)
{
	if (cu->results - atomic_load_explicit(&cu->results_delivered, memory_order_acquire) >= CU_RESULTS)
		return SL_ERR_LIMIT;
	*out = &cu->result[cu->results % CU_RESULTS];
	return SL_OK;
}

static inline void cu_result_take(struct cuda *cu, const struct sl_op_call *call)
{
	cu->result_to[cu->results++ % CU_RESULTS] =
		(struct cu_result){.loss_sum = call->loss_sum, .correct = call->correct};
}

/* The weight as products read it: in the precision's 16-bit copy if there is one. */
static inline const void *cu_weight(const struct sl_op_call *call)
{
	return sl_precision_mixed(call->op->precision) ? call->param_low[0] : call->param[0];
}

/* Row-major C[m,n] = op(A)[m,k] · op(B)[k,n] + beta·C. ta: A is stored as [k,m]; tb: B is stored as [n,k]. */
enum sl_err cu_gemm(struct cuda *cu, struct cu_gemm_type type, void *c, const void *a, bool ta, const void *b, bool tb,
		    int64_t m, int64_t n, int64_t k, float beta) SL_MUST_CHECK;

/* Chooses the algorithm in advance, so that the first step does not pay for it. */
enum sl_err cu_gemm_prepare(struct cuda *cu, struct cu_gemm_type type, bool ta, bool tb, int64_t m, int64_t n,
			    int64_t k) SL_MUST_CHECK;
void cu_gemm_close(struct cuda *cu);

static inline size_t cu_align(size_t bytes)
{
	return (bytes + CU_ALIGN - 1) & ~(size_t)(CU_ALIGN - 1);
}

/* Channels: the last dimension of a tensor's shape. */
static inline int64_t cu_channels(const struct sl_shape *s)
{
	return s->dim[s->ndim - 1];
}

struct cu_window cu_window_of(const struct sl_shape *in, const struct sl_shape *out, int kh, int kw, int stride,
			      int pad);

/* The batch norm `bn` in front of a convolution that does half of its work. stats [2, C]: scratch for eval mode. */
enum sl_err cu_bn_front(struct cuda *cu, const struct sl_op_call *bn, float *stats, struct cu_front *out) SL_MUST_CHECK;

/* Does the work of sl_module.open, for a device that is known to be usable. */
enum sl_err cu_backend_open(struct sl_backend *be, const struct sl_module_options *options,
			    struct sl_fail *fail) SL_MUST_CHECK;

extern const struct sl_backend_ops cu_backend_ops;
#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) \
	extern const struct sl_kernel cu_op_##kernel;
#include "common/graph/ops.def"
extern const struct cu_graph_runtime cu_graph_runtime;
void cu_graph_ops(struct sl_backend_ops *ops); /* adds the functions for recorded passes */
enum sl_err cu_convert_range(struct sl_backend *be, void *out, enum sl_dtype to, const void *x, enum sl_dtype from,
			     const float *scale, int64_t count);
enum sl_err cu_update_range(struct sl_backend *be, const struct sl_update *u, int64_t count, float *weight,
			    const float *grad, float *const moment[SL_MOMENTS_MOST]);

#endif
