/* Activation, product with a constant, dropout, flatten: element-wise loops in blocks. */
#include <string.h>

#include "kernels/cpu/impl.h"

struct job {
	const struct sl_cpu_simd *simd;
	int64_t n;
	float *out;
	const float *a, *b;
	enum sl_act act;
	bool add;
	const struct sl_rng_key *rng;
	const struct sl_op_call *call; /* dropout only, as is p */
	float p;
	float by, plus; /* scale only */
};

/* The tensors of an op with one input: in and out, or dout and din[k]. */
struct io {
	int64_t n;
	float *out;
	const float *x;
	bool add;
};

static struct io io_forward(const struct sl_op_call *call)
{
	return (struct io){sl_shape_count(&call->in[0].shape), call->out.data, call->in[0].data, false};
}

static struct io io_backward(const struct sl_op_call *call, int k)
{
	return (struct io){sl_shape_count(&call->dout.shape), call->din[k].data, call->dout.data, call->din_add[k]};
}

static void run(const struct sl_op_call *call, sl_pool_fn *fn, struct job *job)
{
	job->simd = sl_cpu_simd_of(call->be);
	sl_pool_run(call->be->pool, sl_cpu_blocks(job->n, SL_CPU_BLOCK), fn, job);
}

static int64_t count_in(const struct job *j, int64_t at)
{
	return sl_cpu_min(SL_CPU_BLOCK, j->n - at);
}

/* Identity: out = or += a. Not called where out is a already. */
static void copy_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK, n = count_in(j, at);

	if (j->add)
		j->simd->sum(j->out + at, j->out + at, j->a + at, n);
	else
		memcpy(j->out + at, j->a + at, (size_t)n * sizeof(float));
}

static void pass(const struct sl_op_call *call, struct io io)
{
	if (io.add || io.out != io.x)
		run(call, copy_block, &(struct job){.n = io.n, .out = io.out, .a = io.x, .add = io.add});
}

static void act_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	j->simd->act_forward(j->out + at, j->a + at, count_in(j, at), j->act);
}

static enum sl_err act_forward(const struct sl_op_call *call)
{
	run(call, act_block,
	    &(struct job){.n = sl_shape_count(&call->in[0].shape),
			  .out = call->out.data,
			  .a = call->in[0].data,
			  .act = call->op->u.act});
	return SL_OK;
}

static void act_back_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	j->simd->act_backward(j->out + at, j->a + at, j->b + at, count_in(j, at), j->act, j->add);
}

static enum sl_err act_backward(const struct sl_op_call *call)
{
	if (call->din[0].data != NULL)
		run(call, act_back_block,
		    &(struct job){.n = sl_shape_count(&call->dout.shape),
				  .out = call->din[0].data,
				  .a = call->dout.data,
				  .b = call->in[0].data,
				  .act = call->op->u.act,
				  .add = call->din_add[0]});
	return SL_OK;
}

static void scale_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	if (j->b)
		j->simd->leaky(j->out + at, j->a + at, j->b + at, j->by, count_in(j, at), j->add);
	else
		j->simd->scale(j->out + at, j->a + at, j->by, j->plus, count_in(j, at), j->add);
}

/* Forward and backward are the same product. LEAKYRELU's is with 1 where its input is positive. */
static void scale(const struct sl_op_call *call, struct io io, float plus)
{
	const bool leaky = call->op->kind == SL_OP_LEAKYRELU;

	run(call, scale_block,
	    &(struct job){.n = io.n,
			  .out = io.out,
			  .a = io.x,
			  .b = leaky ? call->in[0].data : NULL,
			  .by = leaky ? call->op->u.leaky.slope : call->op->u.scale.by,
			  .plus = plus,
			  .add = io.add});
}

static enum sl_err scale_forward(const struct sl_op_call *call)
{
	scale(call, io_forward(call), call->op->kind == SL_OP_LEAKYRELU ? 0 : call->op->u.scale.plus);
	return SL_OK;
}

static enum sl_err scale_backward(const struct sl_op_call *call)
{
	if (call->din[0].data != NULL)
		scale(call, io_backward(call, 0), 0);
	return SL_OK;
}

/* Drawing random numbers is most of the work, and the tensors are small, so blocks are small too. */
enum { DROPOUT_BLOCK = SL_CPU_BLOCK / 8 };

static void dropout_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t at = block * DROPOUT_BLOCK, n = sl_cpu_min(DROPOUT_BLOCK, j->n - at);

	j->simd->dropout(j->out + at, j->a + at, j->rng, at, n, j->p, j->add);
}

/* Drops elements of one row; their draws begin at `first`. The SIMD function needs draws that begin at
 * multiples of 4. */
static void drop_from(const struct job *j, float *y, const float *x, int64_t first, int64_t n)
{
	const float by = 1.0f / (1.0f - j->p);

	for (; n > 0 && first % 4; first++, n--, x++, y++) {
		const float v = sl_rng_unit(sl_rng_u32(j->rng, (uint64_t)first)) >= j->p ? *x * by : 0;

		*y = j->add ? *y + v : v;
	}
	j->simd->dropout(y, x, j->rng, first, n, j->p, j->add);
}

/* A token's draws depend on its row and place alone, not on the lengths of other rows. */
static void dropout_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	const struct sl_op *op = j->call->op;
	const int64_t f = sl_shape_row(&op->out_shape), at = (int64_t)j->call->dims.begin[row] * f;

	drop_from(j, j->out + at, j->a + at, row * op->most * f, (int64_t)j->call->dims.begin[row + 1] * f - at);
}

static void drop(const struct sl_op_call *call, struct io io)
{
	if (!call->training || call->op->u.dropout.p == 0.0f)
		pass(call, io);
	else if (call->op->most > 1 && call->dims.begin)
		sl_pool_run(call->be->pool, call->dims.rows, dropout_row,
			    &(struct job){.simd = sl_cpu_simd_of(call->be),
					  .call = call,
					  .out = io.out,
					  .a = io.x,
					  .add = io.add,
					  .rng = &call->rng,
					  .p = call->op->u.dropout.p});
	else
		sl_pool_run(call->be->pool, sl_cpu_blocks(io.n, DROPOUT_BLOCK), dropout_block,
			    &(struct job){.simd = sl_cpu_simd_of(call->be),
					  .n = io.n,
					  .out = io.out,
					  .a = io.x,
					  .add = io.add,
					  .rng = &call->rng,
					  .p = call->op->u.dropout.p});
}

static enum sl_err dropout_forward(const struct sl_op_call *call)
{
	drop(call, io_forward(call));
	return SL_OK;
}

static enum sl_err dropout_backward(const struct sl_op_call *call)
{
	if (call->din[0].data != NULL)
		drop(call, io_backward(call, 0));
	return SL_OK;
}

static enum sl_err flatten_forward(const struct sl_op_call *call)
{
	pass(call, io_forward(call));
	return SL_OK;
}

static enum sl_err flatten_backward(const struct sl_op_call *call)
{
	if (call->din[0].data != NULL)
		pass(call, io_backward(call, 0));
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_act = {.forward = act_forward, .backward = act_backward};
const struct sl_kernel sl_cpu_op_scale = {.forward = scale_forward, .backward = scale_backward};
const struct sl_kernel sl_cpu_op_dropout = {.forward = dropout_forward, .backward = dropout_backward};
const struct sl_kernel sl_cpu_op_flatten = {.forward = flatten_forward, .backward = flatten_backward};
