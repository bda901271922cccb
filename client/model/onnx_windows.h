/* Readers of windows and sizes of images (onnx_windows.c), and of whole axes (onnx_reduce.c). */
#ifndef SL_CLIENT_MODEL_ONNX_WINDOWS_H
#define SL_CLIENT_MODEL_ONNX_WINDOWS_H

#include "client/model/onnx_shapes.h"

void sl_onnx_read_conv(struct sl_onnx_import *im);
void sl_onnx_read_convt(struct sl_onnx_import *im);
void sl_onnx_read_maxpool(struct sl_onnx_import *im);
void sl_onnx_read_avgpool(struct sl_onnx_import *im);
void sl_onnx_read_pad(struct sl_onnx_import *im);
void sl_onnx_read_resize(struct sl_onnx_import *im);

/* ---- whole axes (onnx_reduce.c) */
void sl_onnx_read_global_pool(struct sl_onnx_import *im);
void sl_onnx_read_reduce(struct sl_onnx_import *im); /* means, maxima, sums and norms */
/* Sqrt of a variance. False: it is another root. */
bool sl_onnx_read_deviation(struct sl_onnx_import *im);
/* Set output 0 to the softmax of v, a computed value, over an axis; or to the sum over it. `keep`: it stays, with size
 * 1. */
void sl_onnx_out_softmax(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis);
void sl_onnx_out_sum(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool keep);

#endif
