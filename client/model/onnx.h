/* Networks from ONNX files (onnx.ai), as torch.onnx.export writes a network in training. The file gives the graph, the
 * names of its parameters, and the weights to start from. A file is untrusted: a malformed one is DATA, and a part that
 * the importer does not support is CONFIG; nothing is guessed or left out. The error text names the node, its kind, and
 * what would be right. */
#ifndef SL_CLIENT_MODEL_ONNX_H
#define SL_CLIENT_MODEL_ONNX_H

#include "client/model/source.h"
#include "common/base/buf.h"

struct sl_onnx;

/* Parses a whole file of at most 2 GiB. NOINPUT: it cannot be opened. Error texts begin with the path. */
enum sl_err sl_onnx_open(struct sl_onnx **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* The same for a file's bytes in memory, which the caller may free afterwards. `name`: the file's path or name. */
enum sl_err sl_onnx_parse(struct sl_onnx **out, const char *name, struct sl_bytes image,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_onnx_close(struct sl_onnx *onnx); /* NULL is fine */

enum sl_err sl_onnx_sizes(struct sl_model_sizes *out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;

/* Builds the network. Where the file leaves the size of images open, *spec gives it. Elsewhere 0 in *spec stands for
 * the file's size, and a size that contradicts the file is CONFIG at its key. */
enum sl_err sl_onnx_build(struct sl_model **out, const struct sl_onnx *onnx, const struct sl_model_spec *spec,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Opens spec->onnx and builds its network. Errors without a key of their own get the key model.onnx. */
enum sl_err sl_onnx_open_model(struct sl_model **out, const struct sl_model_spec *spec,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* Reads the file's weights into param[i] (as in weights_file.h), for every parameter of the network itself. Those of
 * inserts are not touched. `param` NULL: the weights are checked, not read. */
enum sl_err sl_onnx_weights(const struct sl_model *model, const char *path, float *const *param,
			    struct sl_fail *fail) SL_MUST_CHECK;

#endif
