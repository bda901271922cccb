/* The kinds of nodes that are read (onnx_nodes.c), and how units get their names (onnx_names.c). */
#ifndef SL_CLIENT_MODEL_ONNX_NODES_H
#define SL_CLIENT_MODEL_ONNX_NODES_H

#include "client/model/onnx_impl.h"

struct sl_onnx_kind {
	const char *word;
	int least_in, most_in;
	const char *attrs; /* that are read, one blank between; others are refused */
	void (*read)(struct sl_onnx_import *im);
	enum sl_op_kind op; /* that it becomes, where the reader has several kinds */
};
const struct sl_onnx_kind *sl_onnx_find_kind(const char *word); /* NULL: there is none */

/* ---- refusals (onnx_refusals.c) */

/* Of a kind that is never read. */
void sl_onnx_refuse_kind(struct sl_onnx_import *im);
/* The node's refusal stands in *im->b->fail: lists it, once for each module. */
void sl_onnx_note_refusal(struct sl_onnx_import *im);
/* All that were listed: the sentence, and where there are several a line of the log for each. */
void sl_onnx_report_refusals(struct sl_onnx_import *im);

/* ---- names (onnx_names.c) */

/* What module a node belongs to, from the name that PyTorch gives it: "/layer1/layer1.0/relu_1/Relu" is of
 * "layer1.0.relu_1", and "Relu" is *last. False: the name is of another form, or too long. */
bool sl_onnx_scope(const char *name, char out[SL_NAME_MAX], const char **last);
/* Units of a network whose nodes are there, but for the loss: wherever one value crosses, a unit begins at a
 * convolution, a linear layer, or a batch norm that stands in front of one. */
void sl_onnx_units(struct sl_build *b);

#endif
