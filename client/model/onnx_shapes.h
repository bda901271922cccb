/* Readers of nodes that change shapes or compute with shapes, and of nodes that are read together. */
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
/* A slice bound `at`, which may be negative, as an index into a list of n: clamped to 0 … n. */
int64_t sl_onnx_bound(int64_t at, int64_t n);

/* ---- known integers (onnx_ints.c). False: the node's inputs are other values, and nothing is read */
bool sl_onnx_read_ints(struct sl_onnx_import *im);
/* Input `i` as scales of an upsampling: constant floats, which must be integers. Returns their number; -1: it is
 * something else, or has more than `most`. */
int sl_onnx_scales_in(struct sl_onnx_import *im, size_t i, int64_t *out, int most);

/* ---- several nodes that are read as one (onnx_patterns.c). False: the nodes do not match, and nothing is read */
bool sl_onnx_read_layernorm(struct sl_onnx_import *im);
/* A norm without parameters over the axes of v from `first` on. It becomes a group norm: each index of the axes between
 * the batch and `first` is a group. */
void sl_onnx_plain_norm(struct sl_onnx_import *im, struct sl_onnx_value *v, int first, float eps);
bool sl_onnx_read_rmsnorm(struct sl_onnx_import *im);
bool sl_onnx_read_gelu(struct sl_onnx_import *im);
bool sl_onnx_read_groupnorm(struct sl_onnx_import *im);
void sl_onnx_read_instancenorm(struct sl_onnx_import *im);
bool sl_onnx_reads(const Onnx__Node *n, const char *name); /* whether it has that input; n NULL: no */
/* Whether v is a constant, but no parameter, of n floats that all equal `is`. */
bool sl_onnx_all_are(const struct sl_onnx_import *im, const struct sl_onnx_value *v, int64_t n, float is);

#endif
