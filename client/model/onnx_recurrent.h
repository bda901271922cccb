/* Readers of the importer for recurrent layers (onnx_recurrent.c). True: the node that is being read is such a one, and
 * is read or refused. */
#ifndef SL_CLIENT_MODEL_ONNX_RECURRENT_H
#define SL_CLIENT_MODEL_ONNX_RECURRENT_H

#include <stdbool.h>
#include <stdint.h>

struct sl_onnx_import;

/* LSTM, GRU and RNN; and Add, Sub or Mul of a value and of zeros of the same size. */
bool sl_onnx_read_recurrent(struct sl_onnx_import *im);
/* Gemm or MatMul of zeros and a weight: the bias, or zeros. */
bool sl_onnx_read_product_of_zeros(struct sl_onnx_import *im);
/* Expand of a parameter to rows, where other nodes use it too: `splitc export` writes the bias of a first step so. */
bool sl_onnx_read_repeated_row(struct sl_onnx_import *im, const int64_t *to, int n);

/* Clears live[i] of nodes that bring weights or states into the form of such a layer: it reads torch's parameters. */
void sl_onnx_skip_weights(struct sl_onnx_import *im, bool *live);

#endif
