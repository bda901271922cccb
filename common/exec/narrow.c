#include "common/exec/narrow.h"

#include <stdlib.h>

enum { PIECE = 65536 }; /* floats that are copied to the host at a time */

/* The widths that the schedule gives to the layer's own matrix. */
static int widths_of(const struct sl_segment_op *so, const struct sl_decay *d, int width[SL_DECAY_MAX_TIMES + 1])
{
	return so->narrows == SL_NARROWS_TOKENS ? sl_decay_tokens(d, width) : sl_decay_widths(d, width);
}

/* Sets the last dimension of the layer's side at the cut. */
static void cut_last(struct sl_op *o, bool out, int width)
{
	struct sl_shape *shape = out ? &o->out_shape : &o->in_shape[0];

	shape->dim[shape->ndim - 1] = width;
	if (o->kind == SL_OP_LINEAR)
		*(out ? &o->u.linear.out_f : &o->u.linear.in_f) = width;
	else if (o->kind == SL_OP_CONV2D)
		*(out ? &o->u.conv.out_c : &o->u.conv.in_c) = width;
	else
		*(out ? &o->u.convt.out_c : &o->u.convt.in_c) = width;
}

struct sl_op sl_narrowed(const struct sl_segment_op *so, const struct sl_decay *d, int falls)
{
	int width[SL_DECAY_MAX_TIMES + 1], own[SL_DECAY_MAX_TIMES + 1];
	struct sl_op o = so->op;

	sl_decay_widths(d, width);
	widths_of(so, d, own);
	if (so->narrows != SL_NARROWS_FEATURES)
		o.in_shape[0].dim[1] = o.out_shape.dim[1] = width[falls];
	if (so->narrows != SL_NARROWS_TRANSPOSE)
		cut_last(&o, so->narrows_out, own[falls]);
	return o;
}

const struct sl_decay *sl_narrow_decay(const struct sl_plan_segment *s, const struct sl_segment_op *so)
{
	return so->narrows_out ? &s->graph.out[0].decay : &s->graph.in[0].decay;
}

static enum sl_err widen(struct sl_narrow *w, const struct sl_plan_segment *s, struct sl_fail *fail)
{
	const struct sl_segment_op *so = &s->op[w->at];
	const bool matrix = so->narrows != SL_NARROWS_TRANSPOSE, pulls = matrix && w->decay->l1 > 0;

	w->n = widths_of(so, w->decay, w->width);
	w->full = matrix ? w->width[0] : 0;
	w->offset = matrix ? s->param[so->param[0]].offset : 0;
	w->op = calloc((size_t)w->n, sizeof *w->op);
	w->state = calloc((size_t)w->n, sizeof *w->state);
	w->piece = pulls ? malloc(PIECE * sizeof *w->piece) : NULL;
	if (!w->op || !w->state || (pulls && !w->piece))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a decaying insert");
	for (int i = 0; i < w->n; i++)
		w->op[i] = sl_narrowed(so, w->decay, i);
	return SL_OK;
}

enum sl_err sl_narrow_open(struct sl_narrow narrow[SL_NARROW_MOST], int *n, const struct sl_plan_segment *s,
			   struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	*n = 0;
	for (int i = 0; i < s->n_op && !err; i++) {
		if (!s->op[i].narrows)
			continue;
		narrow[*n] = (struct sl_narrow){.at = i, .decay = sl_narrow_decay(s, &s->op[i])};
		err = widen(&narrow[(*n)++], s, fail);
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
	int64_t full = w->full, live = full ? w->width[falls] : 0;

	if (live == full)
		return SL_OK;
	return be->ops->zero(be, area + w->offset + live * full, (size_t)((full - live) * full) * sizeof *area);
}

enum sl_err sl_narrow_pull(struct sl_narrow *w, struct sl_backend *be, const float *weight, float *grad, float gain,
			   int falls)
{
	int64_t full = w->full, at, end;
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
