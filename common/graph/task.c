#include "common/graph/task.h"

/* The columns are the fields of struct sl_learn_task, in their order. SL_OP_MSE also stands for binary cross-entropy,
 * by u.mse.fn. */
/* clang-format off */
const struct sl_learn_task sl_learn_tasks[SL_LEARN_COUNT] = {
	{SL_LEARN_CLASSES, "classes", "label", SL_I32, false, SL_PER_ROW, SL_OP_XENT, true, true, false, "", {NULL}},
	{SL_LEARN_NUMBER, "numbers", "number", SL_F32, true, SL_PER_ROW, SL_OP_MSE, false, true, false, "", {"rmse", "mae", "r2"}},
	{SL_LEARN_LABELS, "several labels", "labels", SL_F32, true, SL_PER_ROW, SL_OP_MSE, false, true, false, "", {"f1", "auc"}},
	{SL_LEARN_PIXELS, "pixels", "mask", SL_I32, false, SL_PER_ROW, SL_OP_XENT, true, true, false, "the pixels of ", {"mean_iou", "dice"}},
	{SL_LEARN_MASKED, "masked tokens", "label", SL_I32, false, SL_PER_CHOSEN, SL_OP_XENT, true, false, true,
	 "the masked tokens of ", {NULL}},
	{SL_LEARN_NEXT, "next tokens", "label", SL_I32, false, SL_PER_CHOSEN, SL_OP_XENT, true, false, true,
	 "the next tokens of ", {NULL}},
};
/* clang-format on */
