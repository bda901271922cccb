#include "common/nn/narrow.h"

#include <stdlib.h>

enum { PIECE = 65536 }; /* floats that go through the host at once */

struct sl_op sl_narrowed(const struct sl_op *op, bool out, int width)
{
	struct sl_op o = *op;
	struct sl_shape *shape = out ? &o.out_shape : &o.in_shape[0];

	shape->dim[shape->ndim - 1] = width;
	if (o.kind == SL_OP_LINEAR)
		*(out ? &o.u.linear.out_f : &o.u.linear.in_f) = width;
	else if (o.kind == SL_OP_CONV2D)
		*(out ? &o.u.conv.out_c : &o.u.conv.in_c) = width;
	else
		*(out ? &o.u.convt.out_c : &o.u.convt.in_c) = width;
	return o;
}

static enum sl_err widen(struct sl_narrow *w, const struct sl_plan_segment *s, bool out, struct sl_fail *fail)
{
	const struct sl_segment_op *so = &s->op[w->at];
	bool pulls = w->decay->l1 > 0;

	w->n = sl_decay_widths(w->decay, w->width);
	w->offset = s->param[so->param[0]].offset;
	w->op = calloc((size_t)w->n, sizeof *w->op);
	w->state = calloc((size_t)w->n, sizeof *w->state);
	w->piece = pulls ? malloc(PIECE * sizeof *w->piece) : NULL;
	if (!w->op || !w->state || (pulls && !w->piece))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a decaying insert");
	for (int i = 0; i < w->n; i++)
		w->op[i] = sl_narrowed(&so->op, out, w->width[i]);
	return SL_OK;
}

enum sl_err sl_narrow_open(struct sl_narrow narrow[SL_NARROW_MOST], int *n, const struct sl_plan_segment *s,
			   struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	*n = 0;
	for (int i = 0; i < s->n_op && !err; i++) {
		const struct sl_op *op = &s->op[i].op;

		for (int out = 0; out < 2 && s->op[i].narrows && !err; out++) {
			const struct sl_field *field = out ? &s->graph.out[0] : &s->graph.in[0];

			if (!field->decay.full || (out ? op->out : op->in[0]) != field->value)
				continue;
			narrow[*n] = (struct sl_narrow){.at = i, .decay = &field->decay};
			err = widen(&narrow[(*n)++], s, out, fail);
		}
	}
	return err;
}

void sl_narrow_close(struct sl_narrow *w)
{
	free(w->op);
	free(w->state);
	free(w->piece);
	*w = (struct sl_narrow){0};
}

enum sl_err sl_narrow_clear(const struct sl_narrow *w, struct sl_backend *be, float *area, int falls)
{
	int64_t full = w->decay->full, live = w->width[falls];

	if (live == full)
		return SL_OK;
	return be->ops->zero(be, area + w->offset + live * full, (size_t)((full - live) * full) * sizeof *area);
}

enum sl_err sl_narrow_pull(struct sl_narrow *w, struct sl_backend *be, const float *weight, float *grad, float gain,
			   int falls)
{
	int64_t full = w->decay->full, at, end;
	float l1 = (float)w->decay->l1 * gain;
	enum sl_err err = SL_OK;

	if (!w->piece || falls + 1 >= w->n)
		return SL_OK;
	at = w->offset + w->width[falls + 1] * full;
	end = w->offset + w->width[falls] * full;
	for (; at < end && !err; at += PIECE) {
		int64_t count = end - at < PIECE ? end - at : PIECE;

		err = be->ops->download(be, w->piece, weight + at, (size_t)count * sizeof *w->piece);
		for (int64_t i = 0; i < count && !err; i++)
			w->piece[i] = w->piece[i] > 0 ? l1 : w->piece[i] < 0 ? -l1 : 0;
		if (!err)
			err = be->ops->upload(be, grad + at, w->piece, (size_t)count * sizeof *w->piece);
	}
	return err;
}
