/* Gate (each channel times a number of its own) and concat, whose "channels" are all dimensions from its axis
 * on. */
#include <string.h>

#include "kernels/cpu/impl.h"

enum { LANES = 64 }; /* channels that one task sums */

struct job {
	const struct sl_cpu_simd *simd;
	int64_t rows, pixels, c; /* the tensor: `rows` rows of `pixels` pixels of c channels */
	int64_t per_block;       /* pixels of a block, counted over all rows */
	float *out;
	const float *x, *by, *dy;
	int64_t a, b, from; /* concat: channels of the first and the second input, and the first channel that backward
			     * reads */
	const float *second;
	bool add;
};

static int64_t pixels_per_block(int64_t c)
{
	const int64_t n = SL_CPU_BLOCK / (c < 1 ? 1 : c);

	return n < 1 ? 1 : n;
}

static void run_pixels(const struct sl_op_call *call, struct job *j, sl_pool_fn *fn)
{
	j->simd = sl_cpu_simd_of(call->be);
	j->per_block = pixels_per_block(j->c);
	sl_pool_run(call->be->pool, sl_cpu_blocks(j->rows * j->pixels, j->per_block), fn, j);
}

static struct job job_of(const struct sl_shape *s)
{
	const int64_t c = s->dim[s->ndim - 1];

	return (struct job){.rows = s->dim[0], .pixels = sl_shape_row(s) / c, .c = c};
}

/* ---- gate */

static void gate_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const int64_t first = block * j->per_block, n = sl_cpu_min(j->per_block, j->rows * j->pixels - first);

	for (int64_t m = first; m < first + n; m++)
		j->simd->product(j->out + m * j->c, j->x + m * j->c, j->by + m / j->pixels * j->c, j->c, j->add);
}

/* Sums in double, pixel by pixel: the same bits for any number of threads. */
static void gate_sums(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const int64_t strips = sl_cpu_blocks(j->c, LANES), row = task / strips, first = task % strips * LANES;
	const int64_t n = sl_cpu_min(LANES, j->c - first);
	double sum[LANES] = {0};

	for (int64_t p = 0; p < j->pixels; p++) {
		const int64_t at = (row * j->pixels + p) * j->c + first;

		for (int64_t i = 0; i < n; i++)
			sum[i] += (double)j->dy[at + i] * (double)j->x[at + i];
	}
	for (int64_t i = 0; i < n; i++) {
		float *out = j->out + row * j->c + first + i;

		*out = (float)(j->add ? *out + sum[i] : sum[i]);
	}
}

static enum sl_err gate_forward(const struct sl_op_call *call)
{
	struct job j = job_of(&call->out.shape);

	j.out = call->out.data;
	j.x = call->in[0].data;
	j.by = call->in[1].data;
	run_pixels(call, &j, gate_block);
	return SL_OK;
}

static enum sl_err gate_backward(const struct sl_op_call *call)
{
	struct job j = job_of(&call->dout.shape);

	if (call->din[0].data != NULL) {
		j.out = call->din[0].data;
		j.x = call->dout.data;
		j.by = call->in[1].data;
		j.add = call->din_add[0];
		run_pixels(call, &j, gate_block);
	}
	if (call->din[1].data != NULL) {
		j.out = call->din[1].data;
		j.x = call->in[0].data;
		j.dy = call->dout.data;
		j.add = call->din_add[1];
		sl_pool_run(call->be->pool, j.rows * sl_cpu_blocks(j.c, LANES), gate_sums, &j);
	}
	return SL_OK;
}

/* ---- concat */

static struct job joined_of(const struct sl_op *op, const struct sl_shape *s)
{
	const int64_t c = sl_op_inner(s, sl_op_concat_axis(op));

	return (struct job){.rows = s->dim[0], .pixels = sl_shape_row(s) / c, .c = c};
}

static void concat_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const int64_t first = block * j->per_block, n = sl_cpu_min(j->per_block, j->rows * j->pixels - first);

	for (int64_t m = first; m < first + n; m++) {
		memcpy(j->out + m * j->c, j->x + m * j->a, (size_t)j->a * sizeof(float));
		memcpy(j->out + m * j->c + j->a, j->second + m * j->b, (size_t)j->b * sizeof(float));
	}
}

/* Takes the channels [from, from + a) of c. */
static void take_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	const int64_t first = block * j->per_block, n = sl_cpu_min(j->per_block, j->rows * j->pixels - first);

	for (int64_t m = first; m < first + n; m++) {
		float *out = j->out + m * j->a;
		const float *dy = j->dy + m * j->c + j->from;

		if (j->add)
			j->simd->sum(out, out, dy, j->a);
		else
			memcpy(out, dy, (size_t)j->a * sizeof(float));
	}
}

static enum sl_err concat_forward(const struct sl_op_call *call)
{
	struct job j = joined_of(call->op, &call->out.shape);

	j.out = call->out.data;
	j.x = call->in[0].data;
	j.second = call->in[1].data;
	j.a = sl_op_inner(&call->op->in_shape[0], sl_op_concat_axis(call->op));
	j.b = j.c - j.a;
	run_pixels(call, &j, concat_block);
	return SL_OK;
}

static enum sl_err concat_backward(const struct sl_op_call *call)
{
	for (int k = 0; k < 2; k++) {
		struct job j = joined_of(call->op, &call->dout.shape);

		if (call->din[k].data == NULL)
			continue;
		j.out = call->din[k].data;
		j.dy = call->dout.data;
		j.a = sl_op_inner(&call->op->in_shape[k], sl_op_concat_axis(call->op));
		j.from = k ? j.c - j.a : 0;
		j.add = call->din_add[k];
		run_pixels(call, &j, take_block);
	}
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_gate = {.forward = gate_forward, .backward = gate_backward};
const struct sl_kernel sl_cpu_op_concat = {.forward = concat_forward, .backward = concat_backward};
