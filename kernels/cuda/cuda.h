/* The inside of the CUDA backend: one device, one stream, on which everything is queued in order; and, where tasks run
 * ahead, two more for payloads alone (codec_stage.h). */
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
	CU_RESULTS = 1024, /* cross-entropies between two fences */
	CU_GEMMS = 2048,   /* shapes of matrix products that are kept */
	CU_BLAS_WORKSPACE = 32 << 20,
	CU_ALIGN = 256 /* of the parts of a workspace: what cudaMalloc gives */
};

struct cu_fence {
	struct sl_job job;
	struct cuda *cu;
	cudaEvent_t event;
	unsigned results; /* deliver those before this one */
	bool pending;
	void (*done)(void *arg);
	void *arg;
};

/* Where a cross-entropy's numbers go once a fence has passed. */
struct cu_result {
	double *loss_sum;
	int64_t *correct;
};

/* What a product reads and writes; sums are fp32. */
struct cu_gemm_type {
	enum cu_type in, out;
	bool tf32; /* of fp32: the factors are rounded */
};

struct cu_gemm_key {
	int64_t m, n, k;
	bool ta, tb, aligned; /* to 16 bytes, all three */
	bool tf32;
	uint8_t in, out; /* enum cu_type */
};

struct cu_gemm {
	struct cu_gemm_key key;
	cublasLtMatmulDesc_t desc; /* NULL: a free place */
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algo;
	size_t workspace_bytes;
};

struct cuda {
	struct sl_backend_ops ops; /* cu_backend_ops, with what the options add */
	struct sl_module_options options;
	cudaStream_t stream;
	cudaStream_t in, out; /* copies to and from the device; NULL: `stream` */
	cudaEvent_t tail;     /* with them: of `stream`, for a fence */
	cublasLtHandle_t blas;
	void *blas_workspace;          /* [CU_BLAS_WORKSPACE]: all is one stream, so one serves every product */
	struct cu_gemm gemm[CU_GEMMS]; /* a hash table */
	struct dnn *dnn;               /* NULL: no cuDNN here */
	unsigned *counters;            /* [CU_COUNTERS], zero between launches */
	struct cu_graphs graphs;
	uint64_t *step;   /* device memory: that of the graph being launched */
	uint32_t *finite; /* device memory, and its copy in locked host memory: the largest |bits| of a check */
	uint32_t *finite_seen;
	struct sl_worker *waiter;
	struct cu_fence fence[CU_FENCES];
	struct cu_xent_result *result; /* [CU_RESULTS], pinned */
	struct cu_result result_to[CU_RESULTS];
	unsigned results; /* taken so far; modulo CU_RESULTS is the place */
	atomic_uint results_delivered;
	atomic_int failed; /* the device reported an error that does not go away */
};

/* For the calling thread; nothing else may choose one. */
cudaError_t cu_choose_device(int device);
/* Binds the calling thread to the device; DEVICE where it has failed before. First line of every entry. */
enum sl_err cu_enter(struct sl_backend *be, struct cuda **out) SL_MUST_CHECK;
/* OK, or DEVICE (NOMEM for memory) with a log line; while a graph is recorded, which may fail, without. What stays is
 * `failed` from then on, and said once. */
enum sl_err cu_check(struct cuda *cu, cudaError_t status, const char *what) SL_MUST_CHECK;

enum cu_type cu_type_of(enum sl_dtype dtype);

/* Of an op's inputs, output and their gradients. */
static inline enum cu_type cu_op_type(const struct sl_op *op)
{
	return cu_type_of(sl_precision_dtype(op->precision));
}

static inline size_t cu_type_bytes(enum cu_type type)
{
	return type == CU_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* The i-th element of an array. */
static inline void *cu_at(const void *base, enum cu_type type, int64_t i)
{
	return (char *)(uintptr_t)base + (size_t)i * cu_type_bytes(type);
}

/* Products; and those with an fp32 result, for gradients of weights. */
static inline struct cu_gemm_type cu_product(const struct sl_op *op)
{
	return (struct cu_gemm_type){cu_op_type(op), cu_op_type(op), op->precision == SL_PRECISION_TF32};
}

static inline struct cu_gemm_type cu_wide_product(const struct sl_op *op)
{
	return (struct cu_gemm_type){cu_op_type(op), CU_F32, op->precision == SL_PRECISION_TF32};
}

/* Where a loss may put its numbers, LIMIT: too many wait for a fence; and once it is queued, where they go from there.
 */
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

/* The weight that products read: as it is stored for them. */
static inline const void *cu_weight(const struct sl_op_call *call)
{
	return sl_precision_mixed(call->op->precision) ? call->param_low[0] : call->param[0];
}

/* Row-major C[m,n] = op(A)[m,k] · op(B)[k,n] + beta·C; ta: A is stored [k,m]; tb: B is stored [n,k]. */
enum sl_err cu_gemm(struct cuda *cu, struct cu_gemm_type type, void *c, const void *a, bool ta, const void *b, bool tb,
		    int64_t m, int64_t n, int64_t k, float beta) SL_MUST_CHECK;

/* Chooses the algorithm now, so that the first step does not pay for it. */
enum sl_err cu_gemm_prepare(struct cuda *cu, struct cu_gemm_type type, bool ta, bool tb, int64_t m, int64_t n,
			    int64_t k) SL_MUST_CHECK;
void cu_gemm_close(struct cuda *cu);

static inline size_t cu_align(size_t bytes)
{
	return (bytes + CU_ALIGN - 1) & ~(size_t)(CU_ALIGN - 1);
}

/* Rows of M = N·H·W and channels of a tensor whose last dimension is C. */
static inline int64_t cu_channels(const struct sl_shape *s)
{
	return s->dim[s->ndim - 1];
}

struct cu_window cu_window_of(const struct sl_shape *in, const struct sl_shape *out, int kh, int kw, int stride,
			      int pad);

/* What sl_module.open does once the device is known to be usable. */
enum sl_err cu_backend_open(struct sl_backend *be, const struct sl_module_options *options,
			    struct sl_fail *fail) SL_MUST_CHECK;

extern const struct sl_backend_ops cu_backend_ops;
extern const struct sl_kernel cu_conv2d, cu_convt2d, cu_batchnorm, cu_act, cu_add_op, cu_maxpool, cu_avgpool, cu_linear,
	cu_dropout_op, cu_flatten, cu_xent, cu_mse, cu_scale_op, cu_smooth_op, cu_gate_op, cu_concat_op, cu_mul_op,
	cu_layernorm, cu_rmsnorm, cu_attention_op, cu_select_op, cu_gather_op, cu_transpose_op, cu_embedding,
	cu_permute_op, cu_resample_op, cu_groupnorm_op, cu_repeat_op;
extern const struct cu_graph_runtime cu_graph_runtime;
void cu_graph_ops(struct sl_backend_ops *ops); /* puts those for recorded passes there */
enum sl_err cu_convert_range(struct sl_backend *be, void *out, enum sl_dtype to, const void *x, enum sl_dtype from,
			     const float *scale, int64_t count);
enum sl_err cu_update_range(struct sl_backend *be, const struct sl_update *u, int64_t count, float *weight,
			    const float *grad, float *const moment[SL_MOMENTS_MOST]);

#endif
