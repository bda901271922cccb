/* A linear layer and the cross-entropy behind it, of so many classes that the logits [N, K] of a chunk would be most of
 * its memory (SL_PRE_LINEAR). Rows go in blocks, and the logits of one block are there at a time.
 *
 * Forward makes the gradient of the block's logits in their place, and at once that of the linear layer's input from
 * it. So backward has to do with parameters alone. Where they learn, it makes the logits once more; those of a single
 * block are still there. As each row of a linear layer is a chain of its own, neither loss nor gradient of a row
 * depends on the blocks. Liger's kernel of the linear cross-entropy has the same order (Hsu et al. 2024). */
#ifndef SL_EXEC_EXEC_BLOCKS_H
#define SL_EXEC_EXEC_BLOCKS_H

#include "common/exec/backend.h"

/* The calls of both ops. linear: in[0] and din[0] of all rows, `out` with room for the logits of a block; loss: as in
 * any forward pass, without tensors. */
struct sl_blocks {
	const struct sl_op_call *linear, *loss;
	int64_t rows; /* of a block at most */
	bool learns;  /* a parameter of the linear layer does */
};

/* logits: [N, K] in host memory; NULL: not wanted. */
enum sl_err sl_blocks_forward(const struct sl_blocks *blocks, float *logits) SL_MUST_CHECK;
/* Nothing was computed in the place of the logits since forward. Adds to the gradients of parameters. */
enum sl_err sl_blocks_backward(const struct sl_blocks *blocks) SL_MUST_CHECK;

#endif
