/* A part of a model's parameters from a file of their own. */
#ifndef SL_CLIENT_MODEL_WEIGHTS_PART_H
#define SL_CLIENT_MODEL_WEIGHTS_PART_H

#include "client/model/weights_file.h"

/* The parameters whose names begin with `prefix`: other tensors of the file are passed over. Every tensor of that
 * prefix must be the model's, of its shape, and not be loaded[i] (of n_param) yet, which it then is; DATA otherwise,
 * also where there is none. Buffers of other parameters are untouched; `param` NULL: the file is only checked. */
enum sl_err sl_weights_load_part(const struct sl_model *model, const char *path, const char *prefix,
				 float *const *param, bool *loaded, struct sl_fail *fail) SL_MUST_CHECK;

#endif
