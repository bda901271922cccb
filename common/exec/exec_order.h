/* The order of a step's passes, as assertions: each chunk goes forward and then backward, in its slot and in the same
 * step, and a step is applied with all of its chunks, once. A gradient that a lender still has to add stays as it is.
 */
#ifndef SL_EXEC_EXEC_ORDER_H
#define SL_EXEC_EXEC_ORDER_H

#include "common/exec/exec.h"

/* What the last pass in a slot has left there. */
enum sl_slot_has { SL_SLOT_NOTHING, SL_SLOT_FORWARD, SL_SLOT_BACKWARD };
struct sl_slot_mark {
	enum sl_slot_has has;
	bool training;
	uint64_t step;
	int64_t rows;
};

/* Call them where a step begins, before each pass, and before a step is applied: `rows` [chunks], as there. */
void sl_exec_order_begin(struct sl_exec *exec);
void sl_exec_order_forward(struct sl_exec *exec, const struct sl_exec_call *call);
void sl_exec_order_backward(struct sl_exec *exec, const struct sl_exec_call *call);
void sl_exec_order_commit(struct sl_exec *exec, const int64_t *rows, int chunks);
/* Before another executor takes the gradient of a step. */
void sl_exec_order_given(const struct sl_exec *exec, const int64_t *rows, int chunks);

#endif
