/* Kinds of nodes that change shapes, arithmetic of shapes, and nodes that are read together. */
#ifndef SL_CLIENT_MODEL_ONNX_SHAPES_H
#define SL_CLIENT_MODEL_ONNX_SHAPES_H

#include "client/model/onnx_views.h"

/* ---- readers of kinds that change shapes (onnx_shapes.c) */
void sl_onnx_read_shape(struct sl_onnx_import *im);
void sl_onnx_read_gather(struct sl_onnx_import *im);
void sl_onnx_read_slice(struct sl_onnx_import *im);
void sl_onnx_read_split(struct sl_onnx_import *im);
void sl_onnx_read_squeeze(struct sl_onnx_import *im);
void sl_onnx_read_transpose(struct sl_onnx_import *im);
void sl_onnx_read_depth_to_space(struct sl_onnx_import *im);
void sl_onnx_read_unsqueeze(struct sl_onnx_import *im);
void sl_onnx_read_concat(struct sl_onnx_import *im);
void sl_onnx_read_flatten(struct sl_onnx_import *im);
void sl_onnx_read_reshape(struct sl_onnx_import *im);
/* Where a list of n that is cut at `at` begins or ends. */
int64_t sl_onnx_bound(int64_t at, int64_t n);

/* ---- whole numbers that are known (onnx_ints.c): false where the node is of other values */
bool sl_onnx_read_ints(struct sl_onnx_import *im);
/* Input `i` as whole scales of an upsampling, which are floats: how many; -1: it is another, or has more than `most`.
 */
int sl_onnx_scales_in(struct sl_onnx_import *im, size_t i, int64_t *out, int most);

/* ---- several nodes as one (onnx_patterns.c): false where they are none, and nothing has been read */
bool sl_onnx_read_layernorm(struct sl_onnx_import *im);
/* Over all axes of v from `first` on, without parameters: each of the others' numbers is a group of channels. */
void sl_onnx_plain_norm(struct sl_onnx_import *im, struct sl_onnx_value *v, int first, float eps);
bool sl_onnx_read_rmsnorm(struct sl_onnx_import *im);
bool sl_onnx_read_gelu(struct sl_onnx_import *im);
bool sl_onnx_read_groupnorm(struct sl_onnx_import *im);
void sl_onnx_read_instancenorm(struct sl_onnx_import *im);
bool sl_onnx_reads(const Onnx__Node *n, const char *name); /* whether it has that input; n NULL: no */
/* A constant, no parameter, of n floats that are all the same. */
bool sl_onnx_all_are(const struct sl_onnx_import *im, const struct sl_onnx_value *v, int64_t n, float is);

#endif
