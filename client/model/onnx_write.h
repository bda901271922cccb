/* A network as an ONNX file (onnx.ai), in the form in which torch.onnx.export writes one in training: what onnx.h
 * reads. Read again it has the same parameters, units and results, to the bit. */
#ifndef SL_CLIENT_MODEL_ONNX_WRITE_H
#define SL_CLIENT_MODEL_ONNX_WRITE_H

#include "common/graph/model.h"
#include "common/weights/safetensors.h"

/* The whole network with weights param[i], in memory layout, and `notes` as metadata; whole or not at all
 * (base/newfile.h). A batch may have any size. CONFIG: the network reads tokens, has adapters, inserts or an op that
 * has no form in ONNX. LIMIT: it is 2 GiB or more. */
enum sl_err sl_onnx_write(const struct sl_model *model, const char *path, const float *const *param,
			  const struct sl_st_note *notes, int n_notes, struct sl_fail *fail) SL_MUST_CHECK;

#endif
