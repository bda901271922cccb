/* The device kernels, as plain C functions that queue work on a stream and return the launch's status. They
 * neither allocate nor synchronise nor read results on the host, so each of them may be captured in a graph.
 *
 * Tensors are packed NHWC in device memory; N H W C of the input, HO WO of the output, M = N·H·W. Activations
 * and their gradients (void pointers) are stored as `type` says, all of a call alike. Parameters, their
 * gradients, statistics and sums are fp32, and so is all arithmetic.
 * `add`: the result is added to the output; otherwise it is stored. Sums run in a fixed order (no float
 * atomics), and the division of work depends on tensor shapes alone: same inputs, same bits. */
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

/* Workspace of a reduction over the rows of [M, C]. It also needs CU_COUNTERS zeroed words, which it leaves
 * zero. */
enum { CU_COUNTERS = 4096 };
size_t cu_columns_bytes(int64_t c);

/* ---- batchnorm.cu ---- */
struct cu_bn {
	int64_t m, c;
	enum cu_type type;
	const void *x;              /* [M, C] */
	float *mean, *invstd, *var; /* [C]; var is biased, and set for batch statistics only */
	const float *weight, *bias; /* [C] */
	float eps;
	int act;
	void *workspace;
	unsigned *counter;
};
cudaError_t cu_bn_statistics(cudaStream_t s, const struct cu_bn *bn); /* mean, invstd, var of x */
cudaError_t cu_bn_running(cudaStream_t s, const struct cu_bn *bn, const float *running_mean, const float *running_var);
cudaError_t cu_bn_apply(cudaStream_t s, void *out, const struct cu_bn *bn);
/* dweight, dbias +=. coef [2, C]: the mean of the masked gradient, and of its product with x - mean, scaled
 * for dx. */
cudaError_t cu_bn_gradient_sums(cudaStream_t s, float *dweight, float *dbias, float *coef, const void *dout,
				const struct cu_bn *bn);
/* coef NULL: the statistics were constants (eval mode). */
cudaError_t cu_bn_dx(cudaStream_t s, void *dx, bool add, const void *dout, const float *coef, const struct cu_bn *bn);
/* For few rows: both passes of one direction in a single launch; out NULL: statistics alone. cu_bn_small: whether they
 * apply; `a`, `b`: the call's other tensors. Training mode only. */
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
/* A batch norm in front, whose work the convolution does: x is then the norm's input, and dx the gradient of the
 * norm's output. Backward adds to dweight and dbias (NULL: not wanted), and fills coef as cu_bn_gradient_sums does.
 * Without mean it is an activation alone: x is its input, dx the gradient of that, and the other pointers are NULL. */
struct cu_front {
	const float *mean, *invstd, *weight, *bias; /* [C] */
	int act;
	float *dweight, *dbias;
	float *coef; /* [2, C] */
};
size_t cu_depthwise_bytes(const struct cu_window *win); /* 0: a window that takes nothing in front */
/* front NULL: there is none. */
cudaError_t cu_depthwise_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const float *weight,
				 const float *bias, const struct cu_front *front, const struct cu_window *win);
/* dx, dweight NULL: not wanted. dweight is added to. */
cudaError_t cu_depthwise_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dweight,
				  const void *dout, const void *x, const float *weight, const struct cu_front *front,
				  void *workspace, const struct cu_window *win);

/* ---- grouped.cu: groups of several channels, dilation. Weights are fp32, in op.h's dense layout; a
 * depthwise convolution's layout is `depthwise` ---- */
struct cu_conv_groups {
	struct cu_window win;
	int64_t o; /* output channels */
	int groups, dilation;
	bool depthwise; /* weight [KH,KW,C] */
};
cudaError_t cu_grouped_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const float *weight,
			       const float *bias, const struct cu_conv_groups *g);
/* dx, dweight NULL: not wanted. dweight is added to. */
cudaError_t cu_grouped_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dweight, const void *dout,
				const void *x, const float *weight, const struct cu_conv_groups *g);

/* ---- im2col.cu: col = rows [row, row + rows) of the patch matrix [N·HO·WO, KH·KW·C] ---- */
cudaError_t cu_im2col(cudaStream_t s, enum cu_type type, void *col, const void *x, int64_t row, int64_t rows,
		      const struct cu_window *win);
/* dx of images [0, win->n) from the gradients of their patches [n·HO·WO, KH·KW·C]. These are fp32, because dx
 * sums them. */
cudaError_t cu_col2im(cudaStream_t s, enum cu_type type, void *dx, bool add, const float *col,
		      const struct cu_window *win);

/* ---- pool.cu; `at` [N, HO, WO, C]: index in the window of the maximum, the first of equals ---- */
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
	const uint32_t *begin;   /* [rows + 1] device memory: first token of each row; NULL: every row is one token */
};

/* ---- elementwise.cu ---- */
cudaError_t cu_probe(void); /* an error if the current device cannot run the code that was built */
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
/* out = or += x where sign > 0, else by·x + plus. sign NULL: it is nowhere. */
cudaError_t cu_scale(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, const void *sign, float by,
		     float plus, int64_t n);
/* out (type `to`) = x (type `from`) × *scale (device memory; NULL: 1); one of the types is fp32. */
cudaError_t cu_convert(cudaStream_t s, void *out, enum cu_type to, const void *x, enum cu_type from, const float *scale,
		       int64_t n);
/* out = x × scale if the element's uniform draw is at least p, else 0; forward and backward alike. `step`:
 * device memory, read when the kernel runs instead of the key's step; NULL: the key's step. */
cudaError_t cu_dropout(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, float p,
		       const struct cu_philox *key, const uint64_t *step, int64_t n);
/* The same for tokens: element f of token t of row i uses draw (i · most + t) · f' + f, with f' features. */
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
/* `rows` rows of `pixels` pixels of C channels: out = or += a·by, by [rows, C]. */
cudaError_t cu_gate(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *by, int64_t rows,
		    int64_t pixels, int64_t c);
/* out [rows, C] = or += the sum over pixels of a·b. */
cudaError_t cu_gate_sums(cudaStream_t s, enum cu_type type, void *out, bool add, const void *a, const void *b,
			 int64_t rows, int64_t pixels, int64_t c);
/* For m pixels: out [m, a + b] from x [m, a] and y [m, b]. */
cudaError_t cu_concat(cudaStream_t s, enum cu_type type, void *out, const void *x, int64_t a, const void *y, int64_t b,
		      int64_t m);
/* out [m, c] = or += c channels, from `from` on, of x [m, all]. */
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
	float plus;   /* added to the weight; −0 changes no weight */
	bool centred; /* false: the mean is taken as 0 */
};
size_t cu_norm_bytes(int64_t m, int64_t f); /* workspace of cu_norm_params */
cudaError_t cu_norm_forward(cudaStream_t s, void *out, const struct cu_norm *norm);
cudaError_t cu_norm_dx(cudaStream_t s, void *dx, bool add, const void *dout, const struct cu_norm *norm);
/* dweight, dbias +=; dbias NULL: not wanted. */
cudaError_t cu_norm_params(cudaStream_t s, float *dweight, float *dbias, const void *dout, void *workspace,
			   const struct cu_norm *norm);

/* ---- xent.cu ---- */
enum { CU_LABELS_PER_LAUNCH = 512 };
/* Host labels are passed as kernel arguments, so that no staging memory is needed and the caller may free
 * them at once. */
cudaError_t cu_labels_store(cudaStream_t s, int32_t *labels, const int32_t *host, int64_t n);
struct cu_xent_result { /* in pinned host memory */
	double loss_sum;
	int64_t correct;
};
struct cu_xent_rule { /* see struct sl_xent_rule */
	float smoothing;
	bool ignores;
	int32_t ignored;
	const int32_t *other; /* device memory, as is share; NULL: no mixed rows */
	const float *share;
};
/* probability [N, K]: saved for backward; row_loss [N], row_correct [N]: scratch. */
cudaError_t cu_xent_forward(cudaStream_t s, struct cu_xent_result *result, float *probability, double *row_loss,
			    int32_t *row_correct, const float *logits, const int32_t *labels, struct cu_xent_rule rule,
			    int64_t n, int64_t k);
cudaError_t cu_xent_backward(cudaStream_t s, float *dlogits, bool add, const float *probability, const int32_t *labels,
			     struct cu_xent_rule rule, float scale, int64_t n, int64_t k);

/* ---- mse.cu ---- */
/* error [N, K] = x − target: saved for backward; scratch as above. */
cudaError_t cu_mse_forward(cudaStream_t s, struct cu_xent_result *result, float *error, double *row_loss,
			   int32_t *row_correct, const float *x, const float *targets, int64_t n, int64_t k);
/* dx = or += scale·2/K·error */
cudaError_t cu_mse_backward(cudaStream_t s, float *dx, bool add, const float *error, float scale, int64_t n, int64_t k);
/* Sums the rows' results in a fixed order, as cu_xent_forward does. */
cudaError_t cu_loss_total(cudaStream_t s, struct cu_xent_result *result, const double *row_loss,
			  const int32_t *row_correct, int64_t n);

/* ---- tokens.cu ---- */
/* out [rows, f] = the first token of every row of x [tokens, f]. dx = or += dout at those tokens, 0 at the
 * others. */
cudaError_t cu_select_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_rows *r);
cudaError_t cu_select_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
			       const struct cu_rows *r);

struct cu_chosen {
	int64_t n, tokens, f;
	const uint32_t *place; /* [n], indices of tokens, ascending */
};
/* Transposes each of n matrices x [rows, columns]: out [columns, rows] = or +=. */
cudaError_t cu_transpose(cudaStream_t s, enum cu_type type, void *out, bool add, const void *x, int64_t n, int64_t rows,
			 int64_t columns);
/* out [n, f] = the chosen tokens of x [tokens, f]. dx = or += dout at those tokens, 0 at the others. */
cudaError_t cu_gather_forward(cudaStream_t s, enum cu_type type, void *out, const void *x, const struct cu_chosen *c);
cudaError_t cu_gather_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, const void *dout,
			       const struct cu_chosen *c);

struct cu_lookup {
	struct cu_rows rows;
	const int32_t *id; /* [tokens] */
	bool position;     /* the index is the token's place in its row, plus `first` */
	int first;
	bool segment; /* the index is the number of ids `mark` before the token in its row, at most table - 1 */
	int mark, table;
};
/* out [tokens, f] = rows of weight [V, f]. grad [V, f] += those of dout; tokens of the same row add in their
 * order. */
cudaError_t cu_embedding_forward(cudaStream_t s, enum cu_type type, void *out, const float *weight,
				 const struct cu_lookup *l);
cudaError_t cu_embedding_backward(cudaStream_t s, enum cu_type type, float *grad, const void *dout,
				  const struct cu_lookup *l);

/* ---- attention.cu: q, dq, out, dout [T, heads, D]; k, v, dk, dv [T, kv, D] ---- */
struct cu_attention {
	struct cu_rows rows; /* f is not read */
	enum cu_type type;   /* of out, dout, v and dv, and of q, k, dq and dk without rotary positions */
	int64_t each;        /* tokens of every row; 0: see rows.begin */
	enum cu_type turned; /* of q, k, dq and dk; fp32 if they are rotated by rotary positions */
	int heads, kv, d, most;
	bool causal;
	int window; /* a key less than `window` tokens away is seen; 0: see causal alone */
	float cap;  /* see struct sl_attention_attr */
	float p;    /* of dropout; 0: none */
	struct cu_philox key;
	const uint64_t *step; /* as in cu_dropout */
	const void *q, *k, *v;
	float *stat;  /* [T, heads, 2]: the largest score, 1 over the sum */
	float *delta; /* [T, heads]; scratch of backward */
};
cudaError_t cu_attention_forward(cudaStream_t s, void *out, const struct cu_attention *a);
/* Also fills delta, which cu_attention_dkv reads. dq NULL: only fills delta. */
cudaError_t cu_attention_dq(cudaStream_t s, void *dq, bool add, const void *dout, const struct cu_attention *a);
/* dk, dv NULL: not wanted. */
cudaError_t cu_attention_dkv(cudaStream_t s, void *dk, bool add_k, void *dv, bool add_v, const void *dout,
			     const struct cu_attention *a);
struct cu_rope { /* see struct sl_attention_attr */
	float theta, factor, low, high;
	int old, part; /* part: rotated features of a head, not 0 */
	float gain;    /* not 0 */
};
/* out [T, heads, D] (type `to`) = x (type `from`) with each pair of features c and c + part/2 rotated by the
 * angle t · sl_rope_frequency, times the gain; t is the token's place in its row. `back`: by the opposite angle. One of
 * the types is fp32. */
cudaError_t cu_turn(cudaStream_t s, void *out, enum cu_type to, bool add, const void *x, enum cu_type from,
		    const struct cu_rows *rows, int heads, int d, struct cu_rope rope, bool back);

/* ---- arrange.cu */

/* y [·, c, b, d] = or += x [·, b, c, d], with n elements in all. */
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
/* out [rows, n] = weight [n]; grad [n] += the sum over rows of dy. */
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
/* dx, dgamma, dbeta NULL: not wanted. */
cudaError_t cu_groupnorm_backward(cudaStream_t s, enum cu_type type, void *dx, bool add, float *dgamma, float *dbeta,
				  const void *dy, const struct cu_groupnorm *g);

#ifdef __cplusplus
}
#endif

#endif
