/* The device kernels, as plain C functions that queue on a stream and return what the launch said. No allocation, no
 * synchronisation, nothing read on the host: every one may be captured in a graph.
 *
 * Tensors are packed NHWC in device memory; N H W C of the input, HO WO of the output, M = N·H·W. Activations and their
 * gradients (void pointers) are stored as `type` says, all of a call alike; parameters, their gradients, statistics and
 * sums are fp32, and so is all arithmetic.
 * `add`: the output is added to instead of being written. Sums run in a fixed order (no float atomics), and the shape
 * of the work depends on tensor shapes alone: same inputs, same bits. */
#ifndef SL_KERNELS_CUDA_LAUNCH_H
#define SL_KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cu_type { CU_F32, CU_BF16, CU_F16 };

enum { CU_ACT_NONE, CU_ACT_RELU, CU_ACT_RELU6 }; /* = enum sl_act, asserted in elementwise.c */

/* Reductions over the rows of [M, C] need this much workspace, and CU_COUNTERS zeroed words, which they leave zero. */
enum { CU_COUNTERS = 4096 };
size_t cu_columns_bytes(int64_t c);

/* ---- batchnorm.cu ---- */
struct cu_bn {
	int64_t m, c;
	enum cu_type type;
	const void *x;              /* [M, C] */
	float *mean, *invstd, *var; /* [C]; var is biased, batch statistics only */
	const float *weight, *bias; /* [C] */
	float eps;
	int act;
	void *workspace;
	unsigned *counter;
};
cudaError_t cu_bn_statistics(cudaStream_t s, const struct cu_bn *bn); /* mean, invstd, var = of x */
cudaError_t cu_bn_running(cudaStream_t s, const struct cu_bn *bn, const float *running_mean, const float *running_var);
cudaError_t cu_bn_apply(cudaStream_t s, void *out, const struct cu_bn *bn);
/* dweight, dbias += ; coef [2, C] = mean of the masked gradient, and of its product with x - mean, scaled for dx */
cudaError_t cu_bn_gradient_sums(cudaStream_t s, float *dweight, float *dbias, float *coef, const void *dout,
				const struct cu_bn *bn);
/* coef NULL: statistics were constants (eval mode) */
cudaError_t cu_bn_dx(cudaStream_t s, void *dx, bool add, const void *dout, const float *coef, const struct cu_bn *bn);
/* Few rows: the two of either direction in one launch. `a`, `b`: the other tensors of the call. Training mode alone. */
bool cu_bn_small(const struct cu_bn *bn, const void *a, const void *b);
cudaError_t cu_bn_forward_small(cudaStream_t s, void *out, const struct cu_bn *bn);
cudaError_t cu_bn_backward_small(cudaStream_t s, void *dx, bool add, float *dweight, float *dbias, const void *dout,
				 const struct cu_bn *bn);
cudaError_t cu_bn_commit(cudaStream_t s, float *running_mean, float *running_var, const float *mean, const float *var,
			 float momentum, int64_t m, int64_t c);
cudaError_t cu_column_sums(cudaStream_t s, float *sum_add, enum cu_type type, const void *x, int64_t m, int64_t c,
			   void *workspace, unsigned *counter);

/* ---- depthwise.cu ---- */
struct cu_window {
	int64_t n, h, w, c, ho, wo;
	int kh, kw, stride, pad;
};
size_t cu_depthwise_bytes(const struct cu_window *win);
cudaError_t cu_depthwise_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const float *weight,
				 const float *bias, const struct cu_window *win);
/* dx NULL: not wanted; dweight (added to) NULL: not wanted */
cudaError_t cu_depthwise_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dweight,
				  const void *dout, const void *x, const float *weight, void *workspace,
				  const struct cu_window *win);

/* ---- grouped.cu: groups of several channels, windows with gaps; weights are fp32, and lie as op.h has them (dense,
 * so not those of a depthwise convolution: `depthwise`) ---- */
struct cu_conv_groups {
	struct cu_window win;
	int64_t o; /* output channels */
	int groups, dilation;
	bool depthwise; /* weight [KH,KW,C] */
};
cudaError_t cu_grouped_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const float *weight,
			       const float *bias, const struct cu_conv_groups *g);
/* dx NULL: not wanted; dweight (added to) NULL: not wanted */
cudaError_t cu_grouped_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dweight, const void *dout,
				const void *x, const float *weight, const struct cu_conv_groups *g);

/* ---- im2col.cu: rows [row, row + rows) of the patch matrix [N·HO·WO, KH·KW·C] ---- */
cudaError_t cu_im2col(cudaStream_t s, enum cu_type type, void *col, const void *x, int64_t row, int64_t rows,
		      const struct cu_window *win);
/* dx of images [0, win->n) from their patches [n·HO·WO, KH·KW·C], which are fp32: they are sums of sums */
cudaError_t cu_col2im(cudaStream_t s, enum cu_type type, void *dx, bool add, const float *col,
		      const struct cu_window *win);

/* ---- pool.cu; `at` [N, HO, WO, C]: the place in the window that won, the first of equals ---- */
cudaError_t cu_maxpool_forward(cudaStream_t s, enum cu_type type, void *out, uint16_t *at, const void *x,
			       const struct cu_window *win);
cudaError_t cu_maxpool_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
				const uint16_t *at, const struct cu_window *win);
cudaError_t cu_avgpool_forward(cudaStream_t s, enum cu_type type, void *out, const void *x,
			       const struct cu_window *win);
cudaError_t cu_avgpool_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
				const struct cu_window *win);

struct cu_rows {
	int64_t rows, tokens, f; /* f: features of a token */
	const uint32_t *begin;   /* [rows + 1] device memory; NULL: every row is one token */
};

/* ---- elementwise.cu ---- */
cudaError_t cu_probe(void); /* an error where the present device cannot run what was built here */
struct cu_philox {
	uint64_t seed, step;
	uint32_t chunk_tensor; /* chunk << 16 | tensor */
};
struct cu_sgd {
	float lr, momentum, weight_decay;
	bool nesterov;
};
struct cu_adam { /* fields of struct sl_update */
	float weight_decay, keep, beta1, gain1, beta2, gain2, rate, root, eps;
};
cudaError_t cu_act_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, int act, int64_t n);
cudaError_t cu_act_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout, const void *x,
			    int act, int64_t n);
cudaError_t cu_add(cudaStream_t s, enum cu_type type, void *out, const void *a, const void *b, int64_t n);
cudaError_t cu_copy(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, int64_t n);
cudaError_t cu_scale(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, float by, float plus,
		     int64_t n);
/* out, of type `to`, = x, of type `from`, × *scale (device memory; NULL: 1); one of the types is fp32 */
cudaError_t cu_convert(cudaStream_t s, void *out, enum cu_type to, const void *x, enum cu_type from, const float *scale,
		       int64_t n);
/* out = x × scale where the element's uniform draw is at least p, else 0; forward and backward alike. `step` in device
 * memory, read when the kernel runs, takes the place of the key's; NULL: the key's. */
cudaError_t cu_dropout(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, float p,
		       const struct cu_philox *key, const uint64_t *step, int64_t n);
/* of tokens: element f of token t of row i is drawn by (i · most + t) · f' + f, with f' features */
cudaError_t cu_dropout_tokens(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, float p,
			      const struct cu_philox *key, const struct cu_rows *r, int64_t most);
cudaError_t cu_store_step(cudaStream_t s, uint64_t *at, uint64_t step);
cudaError_t cu_bias(cudaStream_t s, enum cu_type type, void *out, const float *bias, int64_t m,
		    int64_t c); /* out [M, C] += bias */
cudaError_t cu_sgd(cudaStream_t s, float *weight, const float *grad, float *momentum, const struct cu_sgd *sgd,
		   int64_t n);
cudaError_t cu_adam(cudaStream_t s, float *weight, const float *grad, float *first, float *second,
		    const struct cu_adam *adam, int64_t n);

/* ---- smooth.cu: activations with exponentials, products ---- */
enum cu_smooth {
	CU_SMOOTH_GELU,
	CU_SMOOTH_GELU_TANH,
	CU_SMOOTH_SILU,
	CU_SMOOTH_TANH,
	CU_SMOOTH_SIGMOID,
	CU_SMOOTH_HARDSIGMOID,
	CU_SMOOTH_HARDSWISH,
	CU_SMOOTH_ELU,
	CU_SMOOTH_SOFTPLUS,
	CU_SMOOTH_EXP, /* from here on in the order of SL_MATH_EXP … */
	CU_SMOOTH_LOG,
	CU_SMOOTH_SQRT,
	CU_SMOOTH_RECIPROCAL
};
cudaError_t cu_smooth_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, enum cu_smooth kind,
			      int64_t n);
cudaError_t cu_smooth_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout, const void *x,
			       enum cu_smooth kind, int64_t n);
/* Of `rows` rows of `pixels` pixels of C channels: out = or += a·by, by [rows, C]. */
cudaError_t cu_gate(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *by, int64_t rows,
		    int64_t pixels, int64_t c);
/* out [rows, C] = or += the sum over pixels of a·b */
cudaError_t cu_gate_sums(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *b,
			 int64_t rows, int64_t pixels, int64_t c);
/* Of m pixels: out [m, a + b], of x [m, a] and y [m, b]. */
cudaError_t cu_concat(cudaStream_t s, enum cu_type type, void *out, const void *x, int64_t a, const void *y, int64_t b,
		      int64_t m);
/* out [m, c] = or += the channels from `from` on of x [m, all] */
cudaError_t cu_take(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, int64_t c, int64_t from,
		    int64_t all, int64_t m);
cudaError_t cu_mul(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *b, int64_t n);

/* ---- norm.cu: norms over the last dimension of x [M, F] ---- */
struct cu_norm {
	int64_t m, f;
	enum cu_type type;
	const void *x;
	const float *weight, *bias; /* [F]; bias NULL: none */
	float *stat;                /* [M, 2]: mean and 1/σ */
	float eps;
	float plus;   /* what is added to the weight; −0 changes none */
	bool centred; /* else the mean is taken as 0 */
};
size_t cu_norm_bytes(int64_t m, int64_t f); /* of workspace, in backward */
cudaError_t cu_norm_forward(cudaStream_t s, void *out, const struct cu_norm *norm);
cudaError_t cu_norm_dx(cudaStream_t s, void *dx, bool add, const void *dout, const struct cu_norm *norm);
/* dweight, dbias += ; dbias NULL: not wanted */
cudaError_t cu_norm_params(cudaStream_t s, float *dweight, float *dbias, const void *dout, void *workspace,
			   const struct cu_norm *norm);

/* ---- xent.cu ---- */
enum { CU_LABELS_PER_LAUNCH = 512 };
/* Host labels travel as kernel arguments: no staging memory to own, nothing for the caller to keep. */
cudaError_t cu_labels_store(cudaStream_t s, int32_t *labels, const int32_t *host, int64_t n);
struct cu_xent_result { /* in pinned host memory */
	double loss_sum;
	int64_t correct;
};
struct cu_xent_rule { /* struct sl_xent_rule */
	float smoothing;
	bool ignores;
	int32_t ignored;
	const int32_t *other; /* on the device, as share; NULL: there are none */
	const float *share;
};
/* probability [N, K]; row_loss [N], row_correct [N]: scratch */
cudaError_t cu_xent_forward(cudaStream_t s, struct cu_xent_result *result, float *probability, double *row_loss,
			    int32_t *row_correct, const float *logits, const int32_t *labels, struct cu_xent_rule rule,
			    int64_t n, int64_t k);
cudaError_t cu_xent_backward(cudaStream_t s, float *dlogits, bool add, const float *probability, const int32_t *labels,
			     struct cu_xent_rule rule, float scale, int64_t n, int64_t k);

/* ---- mse.cu ---- */
/* error [N, K] = x − target; row_loss as above */
cudaError_t cu_mse_forward(cudaStream_t s, struct cu_xent_result *result, float *error, double *row_loss,
			   int32_t *row_correct, const float *x, const float *targets, int64_t n, int64_t k);
/* dx = or += scale·2/K·error */
cudaError_t cu_mse_backward(cudaStream_t s, float *dx, bool add, const float *error, float scale, int64_t n, int64_t k);
/* Adds the rows, as cu_xent_forward does. */
cudaError_t cu_loss_total(cudaStream_t s, struct cu_xent_result *result, const double *row_loss,
			  const int32_t *row_correct, int64_t n);

/* ---- tokens.cu ---- */
/* out [rows, f] = the first token of every row of x [tokens, f]; dx: dout there, else 0 */
cudaError_t cu_select_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_rows *r);
cudaError_t cu_select_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
			       const struct cu_rows *r);

struct cu_chosen {
	int64_t n, tokens, f;
	const uint32_t *place; /* [n] of the tokens, ascending */
};
/* out [n, f] = the chosen tokens of x [tokens, f]; dx: dout there, else 0 */
/* Of n matrices x [rows, columns] each transpose: out [columns, rows] = or += */
cudaError_t cu_transpose(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, int64_t n, int64_t rows,
			 int64_t columns);
cudaError_t cu_gather_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_chosen *c);
cudaError_t cu_gather_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
			       const struct cu_chosen *c);

struct cu_lookup {
	struct cu_rows rows;
	const int32_t *id; /* [tokens] */
	bool position;     /* a token's place in its row, plus `first`, instead of its id */
	int first;
	bool segment; /* the index is how many ids `mark` stand before it in its row, table - 1 at most */
	int mark, table;
};
/* out [tokens, f] = rows of weight [V, f]; grad [V, f] += those of dout, equal rows in order of the tokens */
cudaError_t cu_embedding_forward(cudaStream_t s, enum cu_type type, void *out, const float *weight,
				 const struct cu_lookup *l);
cudaError_t cu_embedding_backward(cudaStream_t s, enum cu_type type, float *grad, const void *dout,
				  const struct cu_lookup *l);

/* ---- attention.cu: q, dq, out, dout [T, heads, D]; k, v, dk, dv [T, kv, D] ---- */
struct cu_attention {
	struct cu_rows rows; /* its f is not read */
	enum cu_type type;   /* of what the op reads and writes */
	int64_t each;        /* tokens of every row; 0: rows.begin says it */
	enum cu_type turned; /* of q, k, dq and dk: fp32 where they are turned by rotary positions */
	int heads, kv, d, most;
	bool causal;
	float p; /* of dropout; 0: none */
	struct cu_philox key;
	const uint64_t *step; /* as of cu_dropout */
	const void *q, *k, *v;
	float *stat;  /* [T, heads, 2]: the largest score, one over the sum */
	float *delta; /* [T, heads]; scratch of backward */
};
cudaError_t cu_attention_forward(cudaStream_t s, void *out, const struct cu_attention *a);
/* Also fills delta, which cu_attention_dkv reads. dq NULL: delta alone. */
cudaError_t cu_attention_dq(cudaStream_t s, void *dq, bool add, const void *dout, const struct cu_attention *a);
/* dk, dv NULL: not wanted */
cudaError_t cu_attention_dkv(cudaStream_t s, void *dk, bool add_k, void *dv, bool add_v, const void *dout,
			     const struct cu_attention *a);
struct cu_rope { /* of struct sl_attention_attr */
	float theta, factor, low, high;
	int old;
};
/* out [T, heads, D], of type `to`, is x, of type `from`, with each pair of features c and c + D/2 turned by t times
 * sl_rope_frequency; t is the token's place in its row. `back`: by the opposite angle. One of the types is fp32. */
cudaError_t cu_turn(cudaStream_t s, void *out, enum cu_type to, bool add, const void *x, enum cu_type from,
		    const struct cu_rows *rows, int heads, int d, struct cu_rope rope, bool back);

/* ---- arrange.cu */

/* y [·, c, b, d] = or += x [·, b, c, d], of n elements */
cudaError_t cu_permute(cudaStream_t s, enum cu_type type, void *y, bool add, const void *x, int64_t b, int64_t c,
		       int64_t d, int64_t n);

/* In the order of enum sl_resample. */
enum cu_resample_mode {
	CU_RESAMPLE_CUT,
	CU_RESAMPLE_REFLECT,
	CU_RESAMPLE_EDGE,
	CU_RESAMPLE_NEAREST,
	CU_RESAMPLE_LINEAR,
	CU_RESAMPLE_ALIGNED,
	CU_RESAMPLE_AREA,
	CU_RESAMPLE_MEAN
};
/* x [outer, n, inner], out [outer, m, inner] */
struct cu_resample {
	int64_t outer, n, m, inner, at, step, window;
	int mode;
};
cudaError_t cu_resample_forward(cudaStream_t s, enum cu_type type, void *out, const void *x,
				const struct cu_resample *r);
cudaError_t cu_resample_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dy,
				 const struct cu_resample *r);
/* out [rows, n] = weight [n]; grad [n] += the sum over rows of dy */
cudaError_t cu_repeat(cudaStream_t s, enum cu_type type, void *out, const float *weight, int64_t rows, int64_t n);
cudaError_t cu_repeat_sum(cudaStream_t s, enum cu_type type, float *grad, const void *dy, int64_t rows, int64_t n);

/* ---- groupnorm.cu: x [rows, pixels, c] */
struct cu_groupnorm {
	int64_t rows, pixels, c, groups;
	float eps;
	const void *x;
	const float *gamma, *beta; /* NULL: none */
	float *stat;               /* [2, rows, c]: mean, 1/σ */
	float *sums;               /* [2, rows, c], scratch */
};
cudaError_t cu_groupnorm_forward(cudaStream_t s, enum cu_type type, void *y, const struct cu_groupnorm *g);
/* dx, dgamma, dbeta NULL: not wanted */
cudaError_t cu_groupnorm_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dgamma, float *dbeta,
				  const void *dy, const struct cu_groupnorm *g);

#ifdef __cplusplus
}
#endif

#endif
