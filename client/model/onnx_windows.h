/* Readers of windows and sizes of images, and of pools over axes (onnx_windows.c). */
#ifndef SL_CLIENT_MODEL_ONNX_WINDOWS_H
#define SL_CLIENT_MODEL_ONNX_WINDOWS_H

#include "client/model/onnx_shapes.h"

void sl_onnx_read_conv(struct sl_onnx_import *im);
void sl_onnx_read_convt(struct sl_onnx_import *im);
void sl_onnx_read_maxpool(struct sl_onnx_import *im);
void sl_onnx_read_avgpool(struct sl_onnx_import *im);
void sl_onnx_read_global_pool(struct sl_onnx_import *im);
void sl_onnx_read_reduce(struct sl_onnx_import *im); /* means, maxima and sums */
void sl_onnx_read_pad(struct sl_onnx_import *im);
void sl_onnx_read_resize(struct sl_onnx_import *im);
/* Set output 0 to the softmax of v, a computed value, over an axis; or to the sum over it. `keep`: it stays, with size
 * 1. */
void sl_onnx_out_softmax(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis);
void sl_onnx_out_sum(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool keep);

#endif
