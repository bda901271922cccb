#include "common/nn/fuse.h"

/* A narrowing convolution stays by itself: what fits it at one width need not at the next. */
static bool fuses(const struct sl_backend *be, const struct sl_segment_op *so, unsigned side)
{
	return so->op.kind == SL_OP_CONV2D && !so->narrows && be->ops->fuses && (be->ops->fuses(&so->op) & side);
}

/* The op that makes a value; -1: none of this segment. */
static int maker_of(const struct sl_plan_segment *s, int value)
{
	for (int i = 0; i < s->n_op; i++)
		if (s->op[i].op.out == value)
			return i;
	return -1;
}

/* The only op that reads a value; -1: none, several, or the value leaves the segment. */
static int only_reader_of(const struct sl_plan_segment *s, int value)
{
	int reader = -1, count = value == s->out_value;

	for (int i = 0; i < s->n_op; i++)
		for (int k = 0; k < s->op[i].op.n_in; k++)
			if (s->op[i].op.in[k] == value) {
				reader = i;
				count++;
			}
	return count == 1 ? reader : -1;
}

void sl_fuse_find(struct sl_fusion *fusion, const struct sl_backend *be, const struct sl_plan_segment *s)
{
	for (int i = 0; i < s->n_op; i++)
		fusion[i] = (struct sl_fusion){-1, -1, -1, -1, false, false};
	for (int i = 0; i < s->n_op; i++) {
		const struct sl_op *bn = &s->op[i].op;
		int producer = -1, consumer;

		if (bn->kind != SL_OP_BATCHNORM && bn->kind != SL_OP_ACT)
			continue;
		if (bn->kind == SL_OP_BATCHNORM)
			producer = maker_of(s, bn->in[0]);
		if (producer >= 0 && only_reader_of(s, bn->in[0]) == i && fuses(be, &s->op[producer], SL_FUSE_AFTER)) {
			fusion[i].producer = producer;
			fusion[producer].after = i;
			if (!s->op[producer].din_want[0] && fuses(be, &s->op[producer], SL_FUSE_WHOLE)) {
				fusion[i].whole = fusion[i].absorbed = fusion[producer].whole = true;
				continue;
			}
		}
		if (bn->kind == SL_OP_ACT && s->op[i].din_add[0])
			continue; /* its convolution cannot add what goes through the activation first */
		consumer = only_reader_of(s, bn->out);
		if (consumer >= 0 && fuses(be, &s->op[consumer], SL_FUSE_BEFORE)) {
			fusion[i].consumer = consumer;
			fusion[i].absorbed = bn->kind == SL_OP_ACT || producer >= 0;
			fusion[consumer].before = i;
		}
	}
}

int sl_fuse_input(const struct sl_fusion *fusion, const struct sl_plan_segment *s, int i, int k)
{
	return s->op[fusion[i].before >= 0 ? fusion[i].before : i].op.in[k];
}

int sl_fuse_din(const struct sl_fusion *fusion, const struct sl_plan_segment *s, int i)
{
	int before = fusion[i].before;

	return before >= 0 && s->op[before].op.kind == SL_OP_ACT ? before : i;
}

int sl_fuse_output(const struct sl_fusion *fusion, const struct sl_plan_segment *s, int i)
{
	return s->op[fusion[i].whole && fusion[i].after >= 0 ? fusion[i].after : i].op.out;
}
