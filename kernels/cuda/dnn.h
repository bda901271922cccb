/* cuDNN, opened at run time: its functions for dense convolutions, and the three algorithms of a convolution.
 * The host may lack it; then convolutions run without it. */
#ifndef SL_KERNELS_CUDA_DNN_H
#define SL_KERNELS_CUDA_DNN_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "common/graph/precision.h"
#include "kernels/cuda/launch.h"

struct dnn;

/* Whether this version of cuDNN has code for devices of compute capability major.minor. A version without it
 * still proposes convolutions, but they fail when they run. */
static inline bool dnn_serves(size_t version, int major, int minor)
{
	return version < 91100 || 10 * major + minor >= 75; /* 9.11 dropped Maxwell, Pascal and Volta */
}

/* Whether a cudnnStatus_t means that cuDNN cannot do this call, and not that the device is at fault: bad
 * parameters, not supported, a missing or mismatched part of the library, or a kernel that it could not
 * compile. */
static inline bool dnn_only_refuses(int status)
{
	return status / 1000 == 2 || status / 1000 == 3 || status == 1002 || status == 1008 || status == 4001;
}

/* For the current device. UNAVAILABLE: there is no cuDNN, or none for this device. */
enum sl_err dnn_open(struct dnn **out, cudaStream_t stream, struct sl_fail *fail) SL_MUST_CHECK;
void dnn_close(struct dnn *dnn);           /* NULL is fine */
size_t dnn_version(const struct dnn *dnn); /* 91900 for 9.19.0; 0 for NULL */

enum dnn_pass { DNN_FORWARD, DNN_DATA, DNN_WEIGHT, DNN_PASSES };

/* One dense NHWC convolution, for at most win->n images; sums are fp32. In a 16-bit precision x, out, w and
 * their gradients have that type, and cuDNN does not compute the gradient of the weights. */
struct dnn_conv;

/* `limit_bytes`: the largest workspace of an algorithm. Without `inexact_order`, only algorithms that cuDNN
 * declares deterministic are used, in the order of its heuristics (timings would choose differently from run
 * to run). */
enum sl_err dnn_conv_open(struct dnn_conv **out, struct dnn *dnn, const struct cu_window *win, int64_t out_c,
			  enum sl_precision precision, bool inexact_order, size_t limit_bytes,
			  struct sl_fail *fail) SL_MUST_CHECK;
void dnn_conv_close(struct dnn_conv *conv); /* NULL is fine */
size_t dnn_conv_workspace(const struct dnn_conv *conv);

/* False if no algorithm fits this pass for `rows` images: the caller then computes it another way. Host work
 * only. */
bool dnn_conv_has(struct dnn_conv *conv, enum dnn_pass pass, int64_t rows);
/* After dnn_conv_has(…, rows): out = x ∗ w, dx = or +=, dw +=. UNAVAILABLE: cuDNN refuses an algorithm that
 * it proposed. Nothing was queued, and dnn_conv_has returns false from now on. */
enum sl_err dnn_conv_forward(struct dnn_conv *conv, void *out, const void *x, const void *w,
			     void *workspace) SL_MUST_CHECK;
enum sl_err dnn_conv_data(struct dnn_conv *conv, void *dx, bool add, const void *dout, const void *w,
			  void *workspace) SL_MUST_CHECK;
enum sl_err dnn_conv_weight(struct dnn_conv *conv, float *dw, const float *dout, const float *x,
			    void *workspace) SL_MUST_CHECK;

#endif
