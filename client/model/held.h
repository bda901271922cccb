/* Held weights (graph.h): parameters that do not learn, and stay in the 16 bits in which a file has them. */
#ifndef SL_CLIENT_MODEL_HELD_H
#define SL_CLIENT_MODEL_HELD_H

#include "client/model/split.h"
#include "common/weights/weights.h"

/* Marks the parameters of parts and model that can be held: frozen matrices of linear layers and embeddings that
 * `path`, a file or folder of weights, has in 16 bits. If `path` cannot be read none is marked, and the caller that
 * loads the weights reports the error. */
void sl_held_choose(struct sl_parts *parts, const char *path);
/* Maps the model's held weights into w->held from w->file, which it opens. DATA: the file does not have one of them in
 * 16 bits any more. */
enum sl_err sl_held_map(struct sl_weights *w, const struct sl_model *model, const char *path,
			struct sl_fail *fail) SL_MUST_CHECK;

#endif
