/* Readers of nodes that compute: products, sums, functions. */
#ifndef SL_CLIENT_MODEL_ONNX_ARITHMETIC_H
#define SL_CLIENT_MODEL_ONNX_ARITHMETIC_H

#include "client/model/onnx_shapes.h"

/* ---- products and attention (onnx_attention.c) */
void sl_onnx_read_matmul(struct sl_onnx_import *im);
void sl_onnx_read_gemm_of_tokens(struct sl_onnx_import *im);
/* A node that scales, masks or drops out attention scores; other uses are refused. False: no input is scores. */
bool sl_onnx_read_scores(struct sl_onnx_import *im);
void sl_onnx_read_softmax(struct sl_onnx_import *im);

/* ---- arithmetic of values, constants and parameters (onnx_arithmetic.c) */
/* As sl_onnx_scalar_in, for an input that cannot learn here: a parameter is refused by its name. */
bool sl_onnx_fixed_in(struct sl_onnx_import *im, size_t i, float *out);
void sl_onnx_read_sum(struct sl_onnx_import *im); /* and products */
/* Sets output 0 to v + w or v · w, which broadcast; `what`: the kind's verb in refusals, such as "multiplies". */
void sl_onnx_out_pair(struct sl_onnx_import *im, enum sl_op_kind kind, const char *what, struct sl_onnx_value *v,
		      struct sl_onnx_value *w);
/* Repeats x, a value of our graph, along dimensions of size 1, to the sizes of `want`. */
int sl_onnx_repeat(struct sl_onnx_import *im, int x, const struct sl_shape *want);
/* Repeats axes of size 1 of input 0 to the sizes to[n], unless the node that reads the result broadcasts by itself. */
void sl_onnx_expand(struct sl_onnx_import *im, const int64_t *to, int n);
void sl_onnx_read_div(struct sl_onnx_import *im);
void sl_onnx_read_sub(struct sl_onnx_import *im);
void sl_onnx_read_neg(struct sl_onnx_import *im);
void sl_onnx_read_pow(struct sl_onnx_import *im);
void sl_onnx_read_prelu(struct sl_onnx_import *im);
void sl_onnx_read_math(struct sl_onnx_import *im, size_t i, int fn, float by); /* by · fn(input i) */
void sl_onnx_read_abs(struct sl_onnx_import *im);
void sl_onnx_read_softsign(struct sl_onnx_import *im);
void sl_onnx_read_leaky(struct sl_onnx_import *im);
void sl_onnx_read_elu(struct sl_onnx_import *im); /* and SELU */

#endif
