#include "common/graph/slices.h"

static bool is_along_depth(const struct sl_op *op)
{
	return op->kind == SL_OP_RESAMPLE && op->u.resample.axis == 0;
}

/* A shape of the graph, of volumes of `slices` slices, as the kernel gets it. */
static struct sl_shape folded(const struct sl_op *op, const struct sl_shape *s, int64_t slices)
{
	const int64_t h = s->dim[1] / slices;

	if (is_along_depth(op))
		return sl_shape4(s->dim[0], slices, h * s->dim[2], s->dim[3]);
	return sl_shape4(s->dim[0] * slices, h, s->dim[2], s->dim[3]);
}

void sl_slices_fold(struct sl_op *op)
{
	const bool along = is_along_depth(op);

	if (!along && sl_op_parts(op) == 1)
		return;
	for (int i = 0; i < op->n_in; i++)
		op->in_shape[i] = folded(op, &op->in_shape[i], op->slices);
	if (op->out_shape.ndim)
		op->out_shape = folded(op, &op->out_shape, along ? op->u.resample.size : op->slices);
	if (along) {
		op->u.resample.axis = 1;
		op->slices = 0;
	}
}

enum sl_err sl_slices_infer(struct sl_op *op, struct sl_fail *fail)
{
	const bool along = is_along_depth(op);
	struct sl_op seen = *op;
	char text[SL_SHAPE_TEXT];
	enum sl_err err;

	for (int i = 0; (along || sl_op_parts(op) > 1) && i < op->n_in; i++)
		if (op->slices < 1 || op->in_shape[i].ndim != 4 || op->in_shape[i].dim[1] % op->slices)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s (%s): takes [N,D·H,W,C], volumes of D = %d slices, 1 or more, not %s",
					   op->name, sl_op_kind_name(op->kind), op->slices,
					   sl_shape_text(&op->in_shape[i], text));
	sl_slices_fold(&seen);
	err = sl_op_infer_shape(&seen, fail);
	if (err)
		return err;
	op->u = seen.u;
	op->out_shape = seen.out_shape;
	if (along) {
		const struct sl_shape *in = &op->in_shape[0];

		op->u.resample.axis = 0;
		op->out_shape =
			sl_shape4(in->dim[0], in->dim[1] / op->slices * op->u.resample.size, in->dim[2], in->dim[3]);
	} else if (sl_op_parts(op) > 1) {
		op->out_shape.dim[0] /= op->slices;
		op->out_shape.dim[1] *= op->slices;
	}
	return SL_OK;
}
