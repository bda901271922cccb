/* Fused linear layer and cross-entropy, for so many classes that the logits [N, K] of a chunk would take most of its
 * memory (SL_PRE_LINEAR). Rows are computed in blocks, and only one block's logits are in memory at a time.
 *
 * Forward replaces the block's logits with their gradient, and at once computes from it the gradient of the linear
 * layer's input. So backward computes only gradients of parameters. If these learn, it computes the logits again; a
 * single block's are still there. Each row of a linear layer is computed by itself, so neither loss nor gradient of a
 * row depends on the blocks. Liger's fused linear cross-entropy works in the same order (Hsu et al. 2024). */
#ifndef SL_EXEC_EXEC_BLOCKS_H
#define SL_EXEC_EXEC_BLOCKS_H

#include "common/exec/backend.h"

/* The calls of both ops. linear: in[0] and din[0] have all rows, `out` has room for the logits of a block. loss: as in
 * any forward pass, without tensors. */
struct sl_blocks {
	const struct sl_op_call *linear, *loss;
	int64_t rows; /* of a block at most */
	bool learns;  /* a parameter of the linear layer learns */
};

/* logits: gets the logits [N, K], in host memory; NULL: not wanted. */
enum sl_err sl_blocks_forward(const struct sl_blocks *blocks, float *logits) SL_MUST_CHECK;
/* Adds to the gradients of parameters. The memory of the logits must be unchanged since forward. */
enum sl_err sl_blocks_backward(const struct sl_blocks *blocks) SL_MUST_CHECK;

#endif
