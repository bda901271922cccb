/* Networks of texts: embeddings of token ids and positions, and how a row's tokens become one vector (onnx_tokens.c);
 * padding masks and causal masks (onnx_masks.c). */
#ifndef SL_CLIENT_MODEL_ONNX_TOKENS_H
#define SL_CLIENT_MODEL_ONNX_TOKENS_H

#include "client/model/onnx_shapes.h"

/* A Gather that looks up a row of a parameter for each token, by its id or its position. False: the node is no such
 * lookup, and nothing is read. */
bool sl_onnx_read_lookup(struct sl_onnx_import *im);
/* Input `i`, a parameter with a row for each position, as a value: each token gets the row of its position. -1 after a
 * refusal. */
int sl_onnx_places_param(struct sl_onnx_import *im, size_t i);
/* Reduces v along `axis`, its tokens, to the first token or to the mean of all. `keep`: the axis stays, with size 1. */
void sl_onnx_read_row(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool mean, bool keep);
/* A Range over all positions of a row. False: it is another range. */
bool sl_onnx_read_range(struct sl_onnx_import *im);

/* ---- masks (onnx_masks.c) */

/* A node that computes with masks, or with a value and a mask. False: it is none, or one that its kind's reader reads;
 * true also after a failure. */
bool sl_onnx_read_mask(struct sl_onnx_import *im);
/* Input `i` as a mask: it is one, or a constant with one number everywhere, or with one for each zone. */
bool sl_onnx_mask_in(struct sl_onnx_import *im, size_t i, struct sl_onnx_mask *out);
/* Sets output 0 to a mask of shape dim[n_dim] that is `number` everywhere; NULL: 0. */
void sl_onnx_fill_mask(struct sl_onnx_import *im, const Onnx__Tensor *number, const int64_t *dim, int n_dim);
/* Whether a mask that is added to scores hides the keys after the query. A mask that hides other keys is refused. */
bool sl_onnx_hides_behind(struct sl_onnx_import *im, const struct sl_onnx_mask *added);
void sl_onnx_read_trilu(struct sl_onnx_import *im);

#endif
