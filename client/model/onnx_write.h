/* Writes a network as an ONNX file (onnx.ai): one that predicts, or one in the form in which torch.onnx.export writes a
 * network in training. python3 -m split.onnx reads both again, with the same parameters and units. */
#ifndef SL_CLIENT_MODEL_ONNX_WRITE_H
#define SL_CLIENT_MODEL_ONNX_WRITE_H

#include "common/graph/model.h"
#include "common/weights/safetensors.h"

/* Writes the whole network with weights param[i], in memory layout, and `notes` as metadata. With `training`, batch
 * norms take the batch's statistics and dropout drops; else they predict, and a note of SL_ONNX_TRAINABLE says that no
 * such node is missing. The file appears whole or not at all (base/newfile.h). Its batch may have any size. CONFIG: the
 * network reads tokens, or has adapters, inserts or an op that has no form in ONNX. CANTCREATE: the file would have 2
 * GiB or more.
 */
enum sl_err sl_onnx_write(const struct sl_model *model, const char *path, const float *const *param, bool training,
			  const struct sl_st_note *notes, int n_notes, struct sl_fail *fail) SL_MUST_CHECK;

#endif
