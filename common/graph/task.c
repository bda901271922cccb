#include "common/graph/task.h"

/* clang-format off */
const struct sl_learn_task sl_learn_tasks[SL_LEARN_COUNT] = {
	{SL_LEARN_CLASSES, "classes", "label", SL_I32, {1, {1}}, SL_PER_ROW, SL_OP_XENT, true, true, false, ""},
	{SL_LEARN_NUMBER, "numbers", "number", SL_F32, {2, {1, 1}}, SL_PER_ROW, SL_OP_MSE, false, true, false, ""},
	{SL_LEARN_MASKED, "masked tokens", "label", SL_I32, {1, {1}}, SL_PER_CHOSEN, SL_OP_XENT, true, false, true,
	 "the masked tokens of "},
};
/* clang-format on */
