/* A part of a model's parameters from a file of their own. */
#ifndef SL_CLIENT_MODEL_WEIGHTS_PART_H
#define SL_CLIENT_MODEL_WEIGHTS_PART_H

#include "client/model/weights_file.h"

/* Loads the parameters whose names begin with `prefix`, and passes over other tensors of the file. Every tensor with
 * that prefix must be a parameter of the model, of its shape, that is not loaded[i] (of n_param) yet; it is set then.
 * DATA otherwise, also if there is no such tensor. Buffers of other parameters are untouched; `param` NULL: the file is
 * only checked. */
enum sl_err sl_weights_load_part(const struct sl_model *model, const char *path, const char *prefix,
				 float *const *param, bool *loaded, struct sl_fail *fail) SL_MUST_CHECK;

#endif
