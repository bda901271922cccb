/* The kinds of nodes that the importer reads (onnx_nodes.c), refusals (onnx_refusals.c), and names of nodes and units
 * (onnx_names.c). */
#ifndef SL_CLIENT_MODEL_ONNX_NODES_H
#define SL_CLIENT_MODEL_ONNX_NODES_H

#include "client/model/onnx_impl.h"

struct sl_onnx_kind {
	const char *word;
	int least_in, most_in;
	const char *attrs; /* supported attributes, separated by one blank; others are refused */
	void (*read)(struct sl_onnx_import *im);
	enum sl_op_kind op; /* the op that it becomes, if `read` serves several kinds */
};
const struct sl_onnx_kind *sl_onnx_find_kind(const char *word); /* NULL: there is none */

/* ---- refusals (onnx_refusals.c) */

/* Refuses a node of a kind that is never read. */
void sl_onnx_refuse_kind(struct sl_onnx_import *im);
/* Adds the node's refusal, which is in *im->b->fail, to im->refused; once for each module. */
void sl_onnx_note_refusal(struct sl_onnx_import *im);
/* Fails the build if anything was refused. The error text is the refusal, or names all modules; then a line of the log
 * explains each. */
void sl_onnx_report_refusals(struct sl_onnx_import *im);

/* ---- names (onnx_names.c) */

/* The module of a node, from the name that PyTorch gives the node: of "/layer1/layer1.0/relu_1/Relu" it is
 * "layer1.0.relu_1", and *last points to "Relu". False: the name has another form, or is too long. */
bool sl_onnx_scope(const char *name, char out[SL_NAME_MAX], const char **last);
/* Divides a network, which lacks only its loss, into units. A unit begins wherever one value crosses, at a module with
 * parameters; but not at the batch norm of a convolution. */
void sl_onnx_units(struct sl_build *b);

#endif
