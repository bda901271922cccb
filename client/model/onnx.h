/* Networks from ONNX files (onnx.ai), as torch.onnx.export writes a network in training. The file gives the graph, the
 * names of its parameters, and the weights to start from. A file is untrusted: what is malformed is DATA, and what is
 * not understood is CONFIG; nothing is guessed or left out. The sentence names the node, its kind, and what would be
 * right. */
#ifndef SL_CLIENT_MODEL_ONNX_H
#define SL_CLIENT_MODEL_ONNX_H

#include "client/model/source.h"
#include "common/base/buf.h"

struct sl_onnx;

/* A whole file, at most 2 GiB. NOINPUT: cannot be opened. Sentences begin with the path. */
enum sl_err sl_onnx_open(struct sl_onnx **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* The same on bytes in memory, of which nothing is borrowed. */
enum sl_err sl_onnx_parse(struct sl_onnx **out, const char *name, struct sl_bytes image,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_onnx_close(struct sl_onnx *onnx); /* NULL is fine */

/* What the file says of input and output: what a config need not say. */
struct sl_onnx_sizes {
	int height, width; /* of images; 0: any */
	int classes;
	int channels; /* of images and signals */
	int features; /* numbers of a row, or of all channels of a signal; 0: of images and tokens */
	int vocab;    /* token ids are below it; 0: of images and rows */
	int tokens;   /* of a row; 0: any */
};
enum sl_err sl_onnx_sizes(struct sl_onnx_sizes *out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;

/* The network, whose images have the sizes of *spec where the file says none; elsewhere 0 in *spec is the file's, and
 * another size is CONFIG at its key. */
enum sl_err sl_onnx_build(struct sl_model **out, const struct sl_onnx *onnx, const struct sl_model_spec *spec,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* The same from spec->onnx, with errors at the key model.onnx. */
enum sl_err sl_onnx_open_model(struct sl_model **out, const struct sl_model_spec *spec,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* The file's weights of every parameter that the model has of it; param[i] as weights_file.h has it, and inserts keep
 * theirs. `param` NULL: nothing is read, only checked. */
enum sl_err sl_onnx_weights(const struct sl_model *model, const char *path, float *const *param,
			    struct sl_fail *fail) SL_MUST_CHECK;

#endif
