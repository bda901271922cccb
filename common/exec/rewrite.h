/* Operator fusion: turns a segment's ops into the nodes that an executor runs. Most nodes are one op. If a backend's
 * kernels support it, a convolution does part of the work of the batchnorms or activations next to it. Fewer tensors
 * then go through memory (struct sl_exec_form). A batchnorm between two such convolutions is no node at all:
 * the preceding one computes its statistics, the following one applies them, and its output is never in memory. Nor is
 * a batchnorm a node if the preceding convolution does all of its work; then its input is never in memory.
 * A window along the depth is no node if the convolution behind it reads its slices where they are.
 * A loss over many classes, such as the words of a vocabulary, is fused with the preceding linear layer. Their node
 * computes the logits of a block of rows at a time (exec_blocks.h).
 *
 * Parameters, gradients, saved areas and commit belong to the ops, whether these are nodes or not. */
#ifndef SL_EXEC_REWRITE_H
#define SL_EXEC_REWRITE_H

#include "common/exec/backend.h"
#include "common/exec/plan.h"

enum { SL_LOGITS_FEW = 8192, SL_LOGIT_BYTES = 128 << 20 };

/* Ops are indices into the segment's ops, values are indices of its graph; -1: none. */
struct sl_exec_node {
	int op;        /* the op whose kernel computes the node */
	int pre, post; /* the fused ops before and behind it, as `form` says */
	struct sl_exec_form form;
	/* Forward reads in[k] and writes `out`. */
	int in[SL_OP_MAX_IN], out;
	/* Backward reads the gradient of `dout` and writes that of din[k]. */
	int dout, din[SL_OP_MAX_IN];
	bool din_add[SL_OP_MAX_IN];
	bool backward;  /* the node has a backward: something learns at or before it */
	int keeps_in;   /* number of inputs, from the first on, whose values backward reads */
	bool keeps_out; /* whether backward reads the value of `out` */
	/* For SL_PRE_LINEAR: the value in whose place the node has `rows` rows of logits at a time. Forward writes the
	 * gradient of din[0], too. Else -1. */
	int logits;
	int64_t rows;
};

/* Fills the first *n of node[part->n_op], in computing order. NOMEM. */
enum sl_err sl_rewrite(struct sl_exec_node *node, int *n, const struct sl_plan_segment *part,
		       const struct sl_backend *be) SL_MUST_CHECK;

#endif
