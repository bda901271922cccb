/* The op configurations that every backend is tested with, and their input data. Host memory only. */
#ifndef SL_TESTS_OP_CASE_H
#define SL_TESTS_OP_CASE_H

#include "common/exec/backend.h"

enum op_data {
	DATA_PLAIN,  /* uniform (as all kinds are), mean 0, deviation 1; 4 for activations, so that some exceed 6 */
	DATA_OFFSET, /* mean 30, deviation 1: a variance taken as E[x²] − E[x]² loses its digits here */
	DATA_TIES,   /* multiples of 1/2 in [-2, 8]: equal values, exact zeros and sixes */
	DATA_LARGE   /* deviation 3000: exp overflows unless the largest logit is taken off first */
};

struct op_case {
	enum sl_op_kind kind;
	int n, h, w, c; /* input [N,H,W,C]; h = 0: [N,C]; w = 0: [N,H,C] */
	bool eval;      /* training = false */
	enum op_data data;
	bool norm_bias;           /* LAYERNORM */
	bool one_nan, one_large;  /* in the middle of the first input; 1000 times what it was */
	struct sl_xent_rule rule; /* XENT: with an ignored label, every third row has it */
	bool mixed;               /* XENT: op_host's `other` and `share` go into the rule */
	bool weighted;            /* XENT, MSE: op_host's weights are used */
	bool no_gpu;              /* a GPU refuses this case */
	union {
		struct sl_conv_attr conv;
		struct sl_convt_attr convt;
		struct sl_bn_attr bn;
		enum sl_act act;
		struct sl_pool_attr pool;
		struct sl_linear_attr linear;
		struct sl_dropout_attr dropout;
		struct sl_mse_attr mse;
		struct sl_scale_attr scale;
		struct sl_leaky_attr leaky;
		struct sl_gelu_attr gelu;
		struct sl_math_attr math;
		struct sl_xent_attr xent;
		struct sl_norm_attr norm;
		struct sl_attention_attr attention;
		struct sl_embedding_attr embedding;
		struct sl_lookup_attr lookup;
		struct sl_transpose_attr transpose;
		struct sl_concat_attr concat;
		struct sl_permute_attr permute;
		struct sl_resample_attr resample;
		struct sl_groupnorm_attr groupnorm;
		struct sl_repeat_attr repeat;
		struct sl_window_attr window;
	} u;
	int slices; /* WINDOW */
};

enum { OP_CASE_TEXT = 128 };

/* The piecewise linear gates, with kinks at ±3. */
static inline bool op_is_hard(enum sl_op_kind kind)
{
	return kind == SL_OP_HARDSIGMOID || kind == SL_OP_HARDSWISH;
}

extern const struct op_case op_cases[];
extern const int op_case_count;

/* "conv2d 2x7x7x17 -> 33, 3x3 s2 p1 bias"; returns `out`. */
const char *op_case_text(const struct op_case *c, char out[OP_CASE_TEXT]);

/* Case `index` of an endless list of small odd shapes, the same for a seed everywhere. */
struct op_case op_case_random(uint64_t seed, uint32_t index);

/* The op as a plan would pass it to `prepare`, for at most `rows` rows. */
enum sl_err op_case_op(const struct op_case *c, int64_t rows, struct sl_op *op, struct sl_fail *fail) SL_MUST_CHECK;

/* Elements of parameter `index` < op->n_param. */
int64_t op_param_count(const struct sl_op *op, int index);

/* Inputs of one chunk's call, and the initial values of its gradients. */
struct op_host {
	int64_t rows, out_count;        /* elements of the output, over all rows */
	int64_t in_count[SL_OP_MAX_IN]; /* of each input */
	float *in[SL_OP_MAX_IN];
	float *din_start[SL_OP_MAX_IN]; /* din's content before a backward that accumulates */
	float *dout;
	int32_t *other;  /* [N], the second label of XENT's mixed rows */
	float *share;    /* the first label's share of a mixed row */
	float *targets;  /* [N, K], MSE */
	float *weight;   /* [K], weighted cases of XENT and MSE */
	int32_t *labels; /* [N]: the first row's is 0, the second's the last class, unless ignored */
};

/* Parameters, which all chunks share. */
struct op_host_params {
	float *param[SL_OP_MAX_PARAM];
	float *grad_start[SL_OP_MAX_PARAM];
};

/* Fills the arrays from Philox (seed, array number, chunk, SL_RNG_TEST). `rows` is at most the
 * op's. Free with op_host_free. */
void op_host_fill(struct op_host *host, const struct op_case *c, const struct sl_op *op, int64_t rows, uint64_t seed,
		  uint16_t chunk);
void op_host_free(struct op_host *host);
void op_host_params_fill(struct op_host_params *p, const struct sl_op *op, uint64_t seed);
void op_host_params_free(struct op_host_params *p);

/* `bytes` zeroed bytes; prints a line and exits the program if there is no memory. */
void *op_xalloc(size_t bytes);
/* The length of the difference, divided by that of `want`. */
double op_relative_error(const float *got, const float *want, int64_t count);

#endif
