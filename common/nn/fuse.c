#include "common/nn/fuse.h"

static bool fuses(const struct sl_backend *be, const struct sl_op *op, unsigned side)
{
	return op->kind == SL_OP_CONV2D && be->ops->fuses && (be->ops->fuses(op) & side);
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
		fusion[i] = (struct sl_fusion){-1, -1, -1, -1};
	for (int i = 0; i < s->n_op; i++) {
		const struct sl_op *bn = &s->op[i].op;
		int producer, consumer;

		if (bn->kind != SL_OP_BATCHNORM)
			continue;
		producer = maker_of(s, bn->in[0]);
		if (producer >= 0 && only_reader_of(s, bn->in[0]) == i &&
		    fuses(be, &s->op[producer].op, SL_FUSE_AFTER)) {
			fusion[i].producer = producer;
			fusion[producer].after = i;
		}
		consumer = only_reader_of(s, bn->out);
		if (consumer >= 0 && fuses(be, &s->op[consumer].op, SL_FUSE_BEFORE)) {
			fusion[i].consumer = consumer;
			fusion[consumer].before = i;
		}
	}
}

int sl_fuse_input(const struct sl_fusion *fusion, const struct sl_plan_segment *s, int i, int k)
{
	return s->op[fusion[i].before >= 0 ? fusion[i].before : i].op.in[k];
}
