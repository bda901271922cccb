/* The parameters of a kernel's call. Parameters that are held in 16 bits (plan.h) are read in place: in a middle's
 * weight range, or in the file that the client maps. If kernel or device cannot do so, it gets an fp32 copy behind the
 * weight range. */
#include <stdlib.h>
#include <string.h>

#include "common/base/half.h"
#include "common/base/worker.h"
#include "common/exec/exec_impl.h"

enum { PIECE = 1 << 16, ALIGN = 16 };

/* A parameter of an op: the segment's own, or a tied one of the head. */
struct param_ref {
	const struct sl_exec *owner; /* NULL: not known yet (sl_exec_lend) */
	const struct sl_segment_param *param;
	int wide; /* index into e->wide */
};

static struct param_ref resolve_param(const struct sl_exec *e, int at)
{
	const struct sl_plan_segment *s = e->segment, *head = &e->plan->segment[SL_HEAD];

	if (at < SL_TIED_AT)
		return (struct param_ref){e, &s->param[at], at};
	at -= SL_TIED_AT;
	return (struct param_ref){e->owner, &head->param[s->tied[at].of_head], s->n_param + at};
}

static bool reads_held(const struct sl_exec *e, int i, int k)
{
	return k == 0 && e->be->host_memory && sl_exec_kernel(e, i)->takes_held && !sl_exec_mixed(e);
}

enum sl_err sl_exec_held_open(struct sl_exec *e)
{
	const struct sl_plan_segment *s = e->segment;

	e->held = calloc((size_t)s->n_param + 1, sizeof *e->held);
	e->wide = calloc((size_t)(s->n_param + s->n_tied) + 1, sizeof *e->wide);
	if (!e->held || !e->wide)
		return SL_ERR_NOMEM;
	for (int i = 0; i < s->n_op; i++)
		for (int k = 0; k < s->op[i].op.n_param; k++) {
			const struct param_ref f = resolve_param(e, s->op[i].param[k]);

			if (!f.param->held || reads_held(e, i, k) || e->wide[f.wide])
				continue;
			if (!e->wide_count) /* offset 0 means that there is no copy */
				e->wide_count = s->weight_count ? 0 : ALIGN;
			e->wide[f.wide] = s->weight_count + e->wide_count;
			e->wide_count += (f.param->count + ALIGN - 1) / ALIGN * ALIGN;
		}
	return SL_OK;
}

void sl_exec_held_close(struct sl_exec *e)
{
	free(e->held);
	free(e->wide);
}

void sl_exec_hold(struct sl_exec *e, const uint16_t *const *held)
{
	memcpy(e->held, held, (size_t)e->segment->n_param * sizeof *held);
}

/* Address of a held parameter in host memory. range: the weight range there, if the segment is the middle. */
static const uint16_t *held_at(const struct param_ref *f, const float *range)
{
	return f->owner->segment->which == SL_MIDDLE ? (const uint16_t *)(const void *)(range + f->param->offset)
						     : f->owner->held[f->param - f->owner->segment->param];
}

static enum sl_err widen_one(struct sl_exec *e, const struct param_ref *f, const uint16_t *from, float *piece)
{
	enum sl_err err = SL_OK;

	for (int64_t at = 0, n; at < f->param->count && !err; at += n) {
		n = f->param->count - at < PIECE ? f->param->count - at : PIECE;
		sl_widen(piece, from + at, n, f->param->held == SL_F16);
		err = e->be->ops->upload(e->be, e->weight + e->wide[f->wide] + at, piece, (size_t)n * sizeof *piece);
		sl_worker_turn();
	}
	return err;
}

enum sl_err sl_exec_widen(struct sl_exec *e, const float *range)
{
	const struct sl_plan_segment *s = e->segment;
	float *piece = e->wide_count ? malloc(PIECE * sizeof *piece) : NULL;
	enum sl_err err = e->wide_count && !piece ? SL_ERR_NOMEM : SL_OK;

	for (int i = 0; i < s->n_param + s->n_tied && e->wide_count && !err; i++) {
		const struct param_ref f = resolve_param(e, i < s->n_param ? i : SL_TIED_AT + i - s->n_param);
		const uint16_t *from = e->wide[i] && f.owner ? held_at(&f, range) : NULL;

		if (e->wide[i])
			err = from ? widen_one(e, &f, from, piece) : SL_ERR_BUG;
	}
	free(piece);
	return err;
}

static void bind_tied(const struct sl_exec *e, const struct sl_tied_param *tied, int k, struct sl_op_call *c)
{
	c->param[k] = e->owner->weight + tied->offset;
	c->grad[k] = tied->learns ? e->grad + e->segment->trainable_count + tied->grad : NULL;
}

static void bind_own(const struct sl_exec *e, int64_t offset, int k, struct sl_op_call *c)
{
	const size_t low = sl_dtype_bytes(sl_precision_dtype(e->segment->precision));

	c->param[k] = e->weight + offset;
	if (offset < e->segment->trainable_count)
		c->grad[k] = e->to + offset;
	if (e->weight_low)
		c->param_low[k] = (const unsigned char *)e->weight_low + (size_t)offset * low;
}

void sl_exec_params(struct sl_exec *e, int i, struct sl_op_call *c)
{
	const struct sl_segment_op *so = &e->segment->op[i];

	for (int k = 0; k < so->op.n_param; k++) {
		const struct param_ref f = resolve_param(e, so->param[k]);

		if (e->wide[f.wide])
			bind_own(e, e->wide[f.wide], k, c);
		else if (f.param->held)
			c->held = (struct sl_held){held_at(&f, f.owner->weight), f.param->held == SL_F16};
		else if (so->param[k] >= SL_TIED_AT)
			bind_tied(e, &e->segment->tied[so->param[k] - SL_TIED_AT], k, c);
		else
			bind_own(e, f.param->offset, k, c);
	}
}
