#include "kernels/cuda/dnn.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

#define FUNCTIONS(X)                                      \
	X(cudnnGetVersion)                                \
	X(cudnnGetErrorString)                            \
	X(cudnnCreate)                                    \
	X(cudnnDestroy)                                   \
	X(cudnnSetStream)                                 \
	X(cudnnCreateTensorDescriptor)                    \
	X(cudnnDestroyTensorDescriptor)                   \
	X(cudnnSetTensor4dDescriptor)                     \
	X(cudnnCreateFilterDescriptor)                    \
	X(cudnnDestroyFilterDescriptor)                   \
	X(cudnnSetFilter4dDescriptor)                     \
	X(cudnnCreateConvolutionDescriptor)               \
	X(cudnnDestroyConvolutionDescriptor)              \
	X(cudnnSetConvolution2dDescriptor)                \
	X(cudnnSetConvolutionMathType)                    \
	X(cudnnGetConvolutionForwardAlgorithm_v7)         \
	X(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
	X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
	X(cudnnGetConvolutionForwardWorkspaceSize)        \
	X(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
	X(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
	X(cudnnConvolutionForward)                        \
	X(cudnnConvolutionBackwardData)                   \
	X(cudnnConvolutionBackwardFilter)

struct dnn {
	cudnnHandle_t handle;
	size_t version;
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
};

static const char *const library_names[] = {"libcudnn.so.9", "libcudnn.so"};

static enum sl_err load(struct dnn *dnn, struct sl_fail *fail)
{
	const char *given = getenv("SPLIT_CUDNN"); /* path of another file; "none": run without cuDNN */
	void *lib = NULL;

	if (given && !strcmp(given, "none"))
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no cuDNN: SPLIT_CUDNN=none");
	if (given)
		lib = dlopen(given, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; i < sizeof(library_names) / sizeof(library_names[0]) && !lib && !given; i++)
		lib = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no cuDNN: %s", dlerror());
#define X(name)                                            \
	dnn->name = (__typeof__(name) *)dlsym(lib, #name); \
	if (!dnn->name)                                    \
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "this cuDNN has no " #name);
	FUNCTIONS(X)
#undef X
	return SL_OK;
}

static enum sl_err check(const struct dnn *dnn, cudnnStatus_t status, const char *what)
{
	if (status == CUDNN_STATUS_SUCCESS)
		return SL_OK;
	sl_log(SL_LOG_ERROR, "cudnn-error", "%s: %s", what, dnn->cudnnGetErrorString(status));
	return SL_ERR_DEVICE;
}

static enum sl_err check_device(const struct dnn *dnn, struct sl_fail *fail)
{
	int device = 0, major = 0, minor = 0;
	cudaError_t status = cudaGetDevice(&device);

	if (!status)
		status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
	if (!status)
		status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
	if (status)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no cuDNN: %s", cudaGetErrorString(status));
	if (!dnn_serves(dnn->version, major, minor))
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "cuDNN %zu.%zu has no code for sm_%d%d, 9.10 has",
				   dnn->version / 10000, dnn->version / 100 % 100, major, minor);
	return SL_OK;
}

enum sl_err dnn_open(struct dnn **out, cudaStream_t stream, struct sl_fail *fail)
{
	struct dnn *dnn = calloc(1, sizeof(*dnn));
	cudnnStatus_t status;
	enum sl_err err;

	if (!dnn)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for cuDNN's table");
	err = load(dnn, fail);
	if (err)
		goto fail;
	dnn->version = dnn->cudnnGetVersion();
	err = check_device(dnn, fail);
	if (err)
		goto fail;
	status = dnn->cudnnCreate(&dnn->handle);
	if (status == CUDNN_STATUS_SUCCESS)
		status = dnn->cudnnSetStream(dnn->handle, stream);
	if (status != CUDNN_STATUS_SUCCESS) {
		err = sl_fail_set(fail, SL_ERR_UNAVAILABLE, "cuDNN does not start: %s",
				  dnn->cudnnGetErrorString(status));
		goto fail;
	}
	*out = dnn;
	return SL_OK;
fail:
	dnn_close(dnn);
	return err;
}

void dnn_close(struct dnn *dnn)
{
	if (!dnn)
		return;
	if (dnn->handle)
		dnn->cudnnDestroy(dnn->handle);
	free(dnn);
}

size_t dnn_version(const struct dnn *dnn)
{
	return dnn ? dnn->version : 0;
}

struct dnn_conv {
	struct dnn *dnn;
	struct cu_window win; /* n: the rows that the descriptors describe at present */
	int64_t out_c;
	enum sl_precision precision;
	size_t limit, workspace; /* bytes */
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	cudnnConvolutionDescriptor_t conv;
	bool has[DNN_PASSES];  /* an algorithm was found for the largest chunk */
	bool fits[DNN_PASSES]; /* and it runs for the present rows within the workspace */
	cudnnConvolutionFwdAlgo_t forward;
	cudnnConvolutionBwdDataAlgo_t data;
	cudnnConvolutionBwdFilterAlgo_t weight;
	size_t bytes[DNN_PASSES];
};

static cudnnDataType_t type_of(const struct dnn_conv *c)
{
	return c->precision == SL_PRECISION_BF16   ? CUDNN_DATA_BFLOAT16
	       : c->precision == SL_PRECISION_FP16 ? CUDNN_DATA_HALF
						   : CUDNN_DATA_FLOAT;
}

/* Tensor cores are used in all precisions but plain fp32. */
static cudnnMathType_t math_of(const struct dnn_conv *c)
{
	return sl_precision_mixed(c->precision)    ? CUDNN_TENSOR_OP_MATH
	       : c->precision == SL_PRECISION_TF32 ? CUDNN_DEFAULT_MATH
						   : CUDNN_FMA_MATH;
}

static cudnnStatus_t set_rows(struct dnn_conv *c, int64_t rows)
{
	const struct cu_window *g = &c->win;
	cudnnStatus_t status = c->dnn->cudnnSetTensor4dDescriptor(c->x, CUDNN_TENSOR_NHWC, type_of(c), (int)rows,
								  (int)g->c, (int)g->h, (int)g->w);

	if (status == CUDNN_STATUS_SUCCESS)
		status = c->dnn->cudnnSetTensor4dDescriptor(c->y, CUDNN_TENSOR_NHWC, type_of(c), (int)rows,
							    (int)c->out_c, (int)g->ho, (int)g->wo);
	/* after a refusal the two descriptors may differ: n = 0 makes the next call set both */
	c->win.n = status == CUDNN_STATUS_SUCCESS ? rows : 0;
	return status;
}

static cudnnStatus_t describe(struct dnn_conv *c)
{
	const struct dnn *d = c->dnn;
	const struct cu_window *g = &c->win;
	cudnnStatus_t status;

#define TRY(call)                           \
	status = d->call;                   \
	if (status != CUDNN_STATUS_SUCCESS) \
	return status
	TRY(cudnnCreateTensorDescriptor(&c->x));
	TRY(cudnnCreateTensorDescriptor(&c->y));
	TRY(cudnnCreateFilterDescriptor(&c->w));
	TRY(cudnnCreateConvolutionDescriptor(&c->conv));
	TRY(cudnnSetFilter4dDescriptor(c->w, type_of(c), CUDNN_TENSOR_NHWC, (int)c->out_c, (int)g->c, g->kh, g->kw));
	TRY(cudnnSetConvolution2dDescriptor(c->conv, g->pad, g->pad, g->stride, g->stride, 1, 1,
					    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
	TRY(cudnnSetConvolutionMathType(c->conv, math_of(c)));
#undef TRY
	return set_rows(c, g->n);
}

/* Takes the first of cuDNN's proposals that may be used. A macro, as the three structs differ in the type of
 * `algo`. */
#define PICK(c, pass, perf, count, algo_out, inexact)                                            \
	for (int i = 0; i < (count); i++) {                                                      \
		if ((perf)[i].status != CUDNN_STATUS_SUCCESS || (perf)[i].memory > (c)->limit || \
		    (!(inexact) && (perf)[i].determinism != CUDNN_DETERMINISTIC))                \
			continue;                                                                \
		(algo_out) = (perf)[i].algo;                                                     \
		(c)->has[pass] = true;                                                           \
		break;                                                                           \
	}

static void choose(struct dnn_conv *c, bool inexact)
{
	enum { MOST = 16 };
	const bool fma = c->precision == SL_PRECISION_FP32;
	const struct dnn *d = c->dnn;
	cudnnConvolutionFwdAlgoPerf_t forward[MOST];
	cudnnConvolutionBwdDataAlgoPerf_t data[MOST];
	cudnnConvolutionBwdFilterAlgoPerf_t weight[MOST];
	int n = 0;

	/* we asked for FMA math: refuse proposals that use another kind */
#define PLAIN(perf)                                                                                   \
	for (int i = 0; i < n && fma; i++)                                                            \
		if ((perf)[i].mathType != CUDNN_FMA_MATH && (perf)[i].mathType != CUDNN_DEFAULT_MATH) \
	(perf)[i].status = CUDNN_STATUS_NOT_SUPPORTED
	if (d->cudnnGetConvolutionForwardAlgorithm_v7(d->handle, c->x, c->w, c->conv, c->y, MOST, &n, forward) ==
	    CUDNN_STATUS_SUCCESS) {
		PLAIN(forward);
		PICK(c, DNN_FORWARD, forward, n, c->forward, inexact);
	}
	if (d->cudnnGetConvolutionBackwardDataAlgorithm_v7(d->handle, c->w, c->y, c->conv, c->x, MOST, &n, data) ==
	    CUDNN_STATUS_SUCCESS) {
		PLAIN(data);
		PICK(c, DNN_DATA, data, n, c->data, inexact);
	}
	if (!sl_precision_mixed(c->precision) &&
	    d->cudnnGetConvolutionBackwardFilterAlgorithm_v7(d->handle, c->x, c->y, c->conv, c->w, MOST, &n, weight) ==
		    CUDNN_STATUS_SUCCESS) {
		PLAIN(weight);
		PICK(c, DNN_WEIGHT, weight, n, c->weight, inexact);
	}
#undef PLAIN
}

/* Workspace of every pass for the present rows; `fits` if the pass runs within `limit`. */
static void measure(struct dnn_conv *c, size_t limit)
{
	const struct dnn *d = c->dnn;
	cudnnStatus_t status[DNN_PASSES];

	for (int p = 0; p < DNN_PASSES; p++)
		status[p] = CUDNN_STATUS_NOT_SUPPORTED;
	if (c->has[DNN_FORWARD])
		status[DNN_FORWARD] = d->cudnnGetConvolutionForwardWorkspaceSize(d->handle, c->x, c->w, c->conv, c->y,
										 c->forward, &c->bytes[DNN_FORWARD]);
	if (c->has[DNN_DATA])
		status[DNN_DATA] = d->cudnnGetConvolutionBackwardDataWorkspaceSize(d->handle, c->w, c->y, c->conv, c->x,
										   c->data, &c->bytes[DNN_DATA]);
	if (c->has[DNN_WEIGHT])
		status[DNN_WEIGHT] = d->cudnnGetConvolutionBackwardFilterWorkspaceSize(
			d->handle, c->x, c->y, c->conv, c->w, c->weight, &c->bytes[DNN_WEIGHT]);
	for (int p = 0; p < DNN_PASSES; p++)
		c->fits[p] = status[p] == CUDNN_STATUS_SUCCESS && c->bytes[p] <= limit;
}

enum sl_err dnn_conv_open(struct dnn_conv **out, struct dnn *dnn, const struct cu_window *win, int64_t out_c,
			  enum sl_precision precision, bool inexact_order, size_t limit_bytes, struct sl_fail *fail)
{
	struct dnn_conv *c = calloc(1, sizeof(*c));

	if (!c)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a convolution's description");
	*c = (struct dnn_conv){.dnn = dnn, .win = *win, .out_c = out_c, .precision = precision, .limit = limit_bytes};
	if (check(dnn, describe(c), "describing a convolution")) {
		dnn_conv_close(c);
		return sl_fail_set(fail, SL_ERR_DEVICE, "cuDNN takes no description of a convolution %dx%d", win->kh,
				   win->kw);
	}
	choose(c, inexact_order);
	measure(c, limit_bytes);
	for (int p = 0; p < DNN_PASSES; p++) {
		c->has[p] = c->fits[p];
		if (c->has[p] && c->bytes[p] > c->workspace)
			c->workspace = c->bytes[p];
	}
	*out = c;
	return SL_OK;
}

void dnn_conv_close(struct dnn_conv *c)
{
	if (!c)
		return;
	if (c->x)
		c->dnn->cudnnDestroyTensorDescriptor(c->x);
	if (c->y)
		c->dnn->cudnnDestroyTensorDescriptor(c->y);
	if (c->w)
		c->dnn->cudnnDestroyFilterDescriptor(c->w);
	if (c->conv)
		c->dnn->cudnnDestroyConvolutionDescriptor(c->conv);
	free(c);
}

size_t dnn_conv_workspace(const struct dnn_conv *c)
{
	return c->workspace;
}

bool dnn_conv_has(struct dnn_conv *c, enum dnn_pass pass, int64_t rows)
{
	if (rows != c->win.n) {
		if (set_rows(c, rows) != CUDNN_STATUS_SUCCESS)
			return false;
		measure(c, c->workspace);
	}
	return c->fits[pass];
}

static enum sl_err ran(struct dnn_conv *c, enum dnn_pass pass, cudnnStatus_t status, const char *what)
{
	if (!dnn_only_refuses((int)status))
		return check(c->dnn, status, what);
	sl_log(SL_LOG_WARN, "cudnn-refused", "%s %dx%d of %lld channels: %s; it runs as im2col and cuBLAS from now on",
	       what, c->win.kh, c->win.kw, (long long)c->win.c, c->dnn->cudnnGetErrorString(status));
	c->has[pass] = c->fits[pass] = false;
	return SL_ERR_UNAVAILABLE;
}

enum sl_err dnn_conv_forward(struct dnn_conv *c, void *out, const void *x, const void *w, void *workspace)
{
	const float one = 1, zero = 0;

	return ran(c, DNN_FORWARD,
		   c->dnn->cudnnConvolutionForward(c->dnn->handle, &one, c->x, x, c->w, w, c->conv, c->forward,
						   workspace, c->bytes[DNN_FORWARD], &zero, c->y, out),
		   "convolution, forward");
}

enum sl_err dnn_conv_data(struct dnn_conv *c, void *dx, bool add, const void *dout, const void *w, void *workspace)
{
	const float one = 1, beta = add ? 1 : 0;

	return ran(c, DNN_DATA,
		   c->dnn->cudnnConvolutionBackwardData(c->dnn->handle, &one, c->w, w, c->y, dout, c->conv, c->data,
							workspace, c->bytes[DNN_DATA], &beta, c->x, dx),
		   "convolution, gradient of the input");
}

enum sl_err dnn_conv_weight(struct dnn_conv *c, float *dw, const float *dout, const float *x, void *workspace)
{
	const float one = 1;

	return ran(c, DNN_WEIGHT,
		   c->dnn->cudnnConvolutionBackwardFilter(c->dnn->handle, &one, c->x, x, c->y, dout, c->conv, c->weight,
							  workspace, c->bytes[DNN_WEIGHT], &one, c->w, dw),
		   "convolution, gradient of the weights");
}
