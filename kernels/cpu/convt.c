/* Transposed convolutions, by the three passes of the convolution whose adjoint they are (conv_gemm.c, and with
 * groups conv_group.c and conv_dw.c), with swapped roles. Forward is that convolution's input gradient; the input
 * gradient is its forward. The weight gradient is that convolution's own, with input and output gradient swapped. The
 * bias is added and its gradient summed here. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/conv.h"

enum { LINE_BYTES = 64 };

struct job {
	const struct sl_cpu_simd *simd;
	int64_t pixels, c; /* of one image of the output */
	float *y, *parts;  /* [N,OH,OW,O]; [N, sl_cpu_line(O)] */
	const float *bias, *dy;
};

static const struct sl_conv_kernel *kernel_of(const struct sl_op *adjoint)
{
	return adjoint->u.conv.groups > 1 ? sl_conv_kernel_of(adjoint) : &sl_conv_gemm;
}

static int64_t in_floats(const struct sl_op *adjoint, int64_t rows)
{
	return sl_cpu_line(rows * sl_shape_row(&adjoint->out_shape));
}

/* Workspace: the convolution's own, then either the input's gradient before it is added to din, or the bias's
 * gradient of each image. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_op *op = p->op;
	struct sl_op *adjoint = malloc(sizeof *adjoint);
	int64_t rows = op->in_shape[0].dim[0];
	int64_t own;

	if (adjoint == NULL)
		return sl_fail_set(p->fail, SL_ERR_NOMEM, "no memory for %s", op->name);
	*adjoint = sl_op_convt_adjoint(op);
	own = sl_cpu_max(in_floats(adjoint, rows), rows * sl_cpu_line(op->u.convt.out_c));
	p->state = adjoint;
	p->sizes = (struct sl_op_sizes){
		.workspace_bytes = kernel_of(adjoint)->workspace_bytes(p->be, adjoint, NULL) + LINE_BYTES +
				   (size_t)own * sizeof(float),
	};
	return SL_OK;
}

static float *own_workspace(const struct sl_op_call *call)
{
	size_t theirs = kernel_of(call->state)->workspace_bytes(call->be, call->state, NULL) + LINE_BYTES - 1;

	return (float *)(void *)((char *)call->workspace + theirs / LINE_BYTES * LINE_BYTES);
}

static struct sl_conv_call call_of(const struct sl_op_call *call, int64_t rows)
{
	const struct sl_op *adjoint = call->state;

	return (struct sl_conv_call){
		.be = call->be,
		.op = adjoint,
		.d = sl_conv_dims_of(adjoint, NULL, rows),
		.w = call->param[0],
		.training = call->training,
		.workspace = call->workspace,
	};
}

static void add_bias(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;

	j->simd->add_row(j->y + n * j->pixels * j->c, j->bias, j->pixels, (int)j->c);
}

static void sum_bias(void *arg, int64_t n, int worker)
{
	const struct job *j = arg;
	float *part = j->parts + n * sl_cpu_line(j->c);

	memset(part, 0, (size_t)j->c * sizeof *part);
	j->simd->row_sum(part, j->dy + n * j->pixels * j->c, j->c, j->pixels, (int)j->c);
}

static struct job job_of(struct sl_backend *be, const struct sl_shape *out)
{
	return (struct job){
		.simd = sl_cpu_simd_of(be),
		.pixels = out->dim[1] * out->dim[2],
		.c = out->dim[3],
	};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	int64_t rows = call->in[0].shape.dim[0];
	struct sl_conv_call c = call_of(call, rows);
	struct job j = job_of(call->be, &call->out.shape);

	c.dy = call->in[0].data;
	c.dx = call->out.data;
	kernel_of(call->state)->backward(&c);
	if (!call->op->u.convt.bias)
		return SL_OK;
	j.y = call->out.data;
	j.bias = call->param[1];
	sl_pool_run(call->be->pool, rows, add_bias, &j);
	return SL_OK;
}

struct sum_job {
	const struct sl_cpu_simd *simd;
	float *to;
	const float *from;
	int64_t count;
};

static void sum_block(void *arg, int64_t block, int worker)
{
	const struct sum_job *j = arg;
	int64_t at = block * SL_CPU_BLOCK;

	j->simd->sum(j->to + at, j->to + at, j->from + at, sl_cpu_min(SL_CPU_BLOCK, j->count - at));
}

static void backward_data(const struct sl_op_call *call, int64_t rows)
{
	const bool add = call->din_add[0];
	struct sl_conv_call c = call_of(call, rows);
	struct sum_job sum = {
		.simd = sl_cpu_simd_of(call->be),
		.to = call->din[0].data,
		.from = own_workspace(call),
		.count = sl_shape_count(&call->din[0].shape),
	};

	c.x = call->dout.data;
	c.y = add ? own_workspace(call) : call->din[0].data;
	kernel_of(call->state)->forward(&c);
	if (add)
		sl_pool_run(call->be->pool, sl_cpu_blocks(sum.count, SL_CPU_BLOCK), sum_block, &sum);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	int64_t rows = call->dout.shape.dim[0];
	struct sl_conv_call weight = call_of(call, rows);
	struct job j = job_of(call->be, &call->dout.shape);

	weight.x = call->dout.data;
	weight.dy = call->in[0].data;
	weight.dw = call->grad[0];
	if (weight.dw != NULL)
		kernel_of(call->state)->backward(&weight);
	if (call->op->u.convt.bias && call->grad[1] != NULL) {
		j.dy = call->dout.data;
		j.parts = own_workspace(call);
		sl_pool_run(call->be->pool, rows, sum_bias, &j);
		sl_cpu_reduce(call->be, call->grad[1], j.parts, j.c, sl_cpu_line(j.c), rows);
	}
	if (call->din[0].data != NULL)
		backward_data(call, rows);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_convt = {
	.prepare = prepare, .release = free, .forward = forward, .backward = backward};
