/* Networks of texts: token ids, their embeddings and places, and what a row's tokens become (onnx_tokens.c); masks of
 * padding and of keys behind the query (onnx_masks.c). */
#ifndef SL_CLIENT_MODEL_ONNX_TOKENS_H
#define SL_CLIENT_MODEL_ONNX_TOKENS_H

#include "client/model/onnx_shapes.h"

/* Token i's row of a parameter: by id, or by its place. False: the node is no such thing, and nothing is read. */
bool sl_onnx_read_lookup(struct sl_onnx_import *im);
/* Input `i`, a parameter with a row for each place, for every token. */
int sl_onnx_places_param(struct sl_onnx_import *im, size_t i);
/* Of v, whose axis is its tokens: the first token, or the mean of all; `keep`: the axis stays, of size 1. */
void sl_onnx_read_row(struct sl_onnx_import *im, struct sl_onnx_value *v, int axis, bool mean, bool keep);
/* Numbers of all places. False: it is another. */
bool sl_onnx_read_range(struct sl_onnx_import *im);

/* ---- masks (onnx_masks.c) */

/* What the node makes of masks, or of a value and a mask. False: it reads none. */
bool sl_onnx_read_mask(struct sl_onnx_import *im);
/* Input `i` as a mask: one, or a constant that has one number, or one for each zone. */
bool sl_onnx_mask_in(struct sl_onnx_import *im, size_t i, struct sl_onnx_mask *out);
/* Output 0 is that number everywhere; `number` NULL: 0. */
void sl_onnx_fill_mask(struct sl_onnx_import *im, const Onnx__Tensor *number, const int64_t *dim, int n_dim);
/* What a mask adds to scores: whether it hides the keys behind the query. Refused: it hides others. */
bool sl_onnx_hides_behind(struct sl_onnx_import *im, const struct sl_onnx_mask *added);
void sl_onnx_read_trilu(struct sl_onnx_import *im);

#endif
