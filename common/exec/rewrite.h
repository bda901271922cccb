/* What an executor runs: a part's ops as exec nodes. Most nodes are one op. Where a backend's kernels take it, a
 * convolution does part of the work of the batchnorms or activations beside it (struct sl_exec_form), so that fewer
 * tensors go through memory. A batchnorm between two such convolutions is no node at all: the one in front takes its
 * statistics, the one behind applies them, and its output is never in memory. One that belongs wholly to the
 * convolution in front is none either, and there its input is never in memory.
 * Where a loss has many classes, such as the words of a vocabulary, it takes the linear layer in front along: their
 * node computes the logits of some rows at a time.
 *
 * Parameters, gradients, what kernels save, and commit stay with the ops, whether they are nodes or not. */
#ifndef SL_EXEC_REWRITE_H
#define SL_EXEC_REWRITE_H

#include "common/exec/backend.h"
#include "common/exec/plan.h"

enum { SL_LOGITS_FEW = 8192, SL_LOGIT_BYTES = 128 << 20 };

/* Ops are numbers in the part, values are numbers in its graph; -1: none. */
struct sl_exec_node {
	int op;        /* whose kernel computes it */
	int pre, post; /* the ops that `form` speaks of */
	struct sl_exec_form form;
	/* Forward reads in[k] and writes `out`. */
	int in[SL_OP_MAX_IN], out;
	/* Backward reads the gradient of `dout` and writes that of din[k]. */
	int dout, din[SL_OP_MAX_IN];
	bool din_add[SL_OP_MAX_IN];
	bool backward;  /* it has one: something learns at or before it */
	int keeps_in;   /* of so many inputs, from the first on, backward reads the values again */
	bool keeps_out; /* and that of out */
	/* SL_PRE_LINEAR: forward writes the gradient of din[0] as well. It has `rows` rows of logits at a time, in the
	 * place of this value; -1: of no value. */
	int logits;
	int64_t rows;
};

/* node[part->n_op], of which *n are made, in computing order. NOMEM. */
enum sl_err sl_rewrite(struct sl_exec_node *node, int *n, const struct sl_plan_segment *part,
		       const struct sl_backend *be) SL_MUST_CHECK;

#endif
