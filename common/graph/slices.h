/* The shapes of a node with `slices` (struct sl_op). In the graph a volume is one row, [N,D·H,W,C]; the op's kernel
 * gets each of its slices as a row, [N·D,H,W,C]. A RESAMPLE with axis 0 works along the depth: its kernel gets
 * [N,D,H·W,C] and axis 1. It is the same memory in all three. */
#ifndef SL_GRAPH_SLICES_H
#define SL_GRAPH_SLICES_H

#include "common/graph/op.h"

/* Changes the graph's shapes of a node that sl_slices_infer has accepted into those that the kernel gets. An out_shape
 * without dimensions stays so. */
void sl_slices_fold(struct sl_op *op);
/* Fills op->out_shape, as the graph has it, from op->in_shape and the attributes; the rest of `op` is unchanged.
 * CONFIG: an input is no volume of that many slices, or sl_op_infer_shape refuses it; the sentence says what would be
 * right. */
enum sl_err sl_slices_infer(struct sl_op *op, struct sl_fail *fail) SL_MUST_CHECK;

#endif
