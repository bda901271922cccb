#include "common/exec/exec_blocks.h"

/* The calls of both ops for one block of rows. */
struct block {
	struct sl_op_call linear, loss;
};

static struct sl_tensor rows_of(struct sl_tensor t, int64_t from, int64_t n)
{
	t.data = t.data ? (float *)t.data + from * sl_shape_row(&t.shape) : NULL;
	t.shape = sl_shape_rows(t.shape, n);
	return t;
}

static struct block block_of(const struct sl_blocks *b, int64_t from, int64_t n)
{
	struct block k = {*b->linear, *b->loss};
	struct sl_xent_rule *rule = &k.loss.rule;

	k.linear.in[0] = rows_of(b->linear->in[0], from, n);
	k.linear.din[0] = rows_of(b->linear->din[0], from, n);
	k.linear.out = k.linear.dout = k.loss.in[0] = rows_of(b->linear->out, 0, n);
	k.loss.labels += from;
	rule->other = rule->other ? rule->other + from : NULL;
	rule->share = rule->share ? rule->share + from : NULL;
	return k;
}

static const struct sl_kernel *kernel_of(const struct sl_op_call *call)
{
	return call->be->ops->kernel[call->op->kind];
}

/* Computes the block's logits, copies them to `logits` if that is not NULL, and replaces them with their gradient. */
static enum sl_err gradient_of(const struct block *k, float *logits)
{
	const struct sl_tensor *z = &k->loss.in[0];
	const size_t bytes = (size_t)sl_shape_count(&z->shape) * sizeof *logits;
	enum sl_err err = kernel_of(&k->linear)->forward(&k->linear);

	if (!err && logits)
		err = z->be->ops->download(z->be, logits, z->data, bytes);
	return err ? err : kernel_of(&k->loss)->forward(&k->loss);
}

/* Rows of a block: the fewest blocks of at most `most` rows, all of about the same size. */
static int64_t rows_of_block(int64_t rows, int64_t most)
{
	const int64_t blocks = (rows + most - 1) / most;

	return blocks ? (rows + blocks - 1) / blocks : 1;
}

enum sl_err sl_blocks_forward(const struct sl_blocks *b, float *logits)
{
	const int64_t all = b->linear->in[0].shape.dim[0], each = rows_of_block(all, b->rows);
	const int64_t classes = sl_shape_row(&b->linear->out.shape);
	double sum = 0, loss = 0;
	int64_t correct = 0, right = 0;
	enum sl_err err = SL_OK;

	for (int64_t at = 0; at < all && !err; at += each) {
		struct block k = block_of(b, at, at + each < all ? each : all - at);

		k.loss.loss_sum = &loss;
		k.loss.correct = &right;
		for (int i = 0; i < SL_OP_MAX_PARAM; i++)
			k.linear.grad[i] = NULL;
		err = gradient_of(&k, logits ? logits + at * classes : NULL);
		if (!err && k.linear.training && k.linear.din[0].data)
			err = kernel_of(&k.linear)->backward(&k.linear);
		sum += loss;
		correct += right;
	}
	*b->loss->loss_sum = sum;
	*b->loss->correct = correct;
	return err;
}

enum sl_err sl_blocks_backward(const struct sl_blocks *b)
{
	const int64_t all = b->linear->in[0].shape.dim[0], each = rows_of_block(all, b->rows);
	double loss;
	int64_t right;
	enum sl_err err = SL_OK;

	for (int64_t at = 0; at < all && !err && b->learns; at += each) {
		struct block k = block_of(b, at, at + each < all ? each : all - at);

		k.loss.loss_sum = &loss;
		k.loss.correct = &right;
		k.linear.din[0].data = NULL;
		if (each < all)
			err = gradient_of(&k, NULL);
		if (!err)
			err = kernel_of(&k.linear)->backward(&k.linear);
	}
	return err;
}
