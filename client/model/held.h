/* Weights that are held (graph.h): parameters that a file gives in 16 bits, and that do not learn. */
#ifndef SL_CLIENT_MODEL_HELD_H
#define SL_CLIENT_MODEL_HELD_H

#include "client/model/split.h"
#include "common/weights/weights.h"

/* Marks those of parts and model that `path`, a file or folder of weights, gives so: matrices of linear layers and
 * embeddings. Where it cannot be read there are none: whoever loads the weights says why. */
void sl_held_choose(struct sl_parts *parts, const char *path);
/* Maps what the model holds: w->held, and w->file, in which it lies. DATA: the file does not give it any more. */
enum sl_err sl_held_map(struct sl_weights *w, const struct sl_model *model, const char *path,
			struct sl_fail *fail) SL_MUST_CHECK;

#endif
