/* Group norm. A task is one row. It passes over its pixels for the means, for the variances and for the
 * output, with sums in double for every channel. Saved, for each row and channel: its group's mean and 1/σ.
 * Backward leaves each row's sums in the workspace, and adds them in the order of rows. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/impl.h"

enum { GAMMA, BETA };

struct job {
	const struct sl_op_call *call;
	int64_t pixels, c, groups;
	const float *gamma, *beta;
};

static struct job job_of(const struct sl_op_call *call, const struct sl_shape *s)
{
	const struct sl_op *op = call->op;
	struct job j = {.call = call, .c = s->dim[s->ndim - 1], .groups = op->u.groupnorm.groups};

	j.pixels = sl_shape_row(s) / j.c;
	j.gamma = op->n_param ? call->param[GAMMA] : NULL;
	j.beta = op->n_param ? call->param[BETA] : NULL;
	return j;
}

/* The workspace: two doubles for each row and channel. */
static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_shape *s = &p->op->in_shape[0];
	const int64_t n = s->dim[0] * s->dim[s->ndim - 1];

	p->sizes.workspace_bytes = (size_t)n * 2 * sizeof(double);
	p->sizes.saved_bytes = (size_t)n * 2 * sizeof(float);
	return SL_OK;
}

/* Replaces the sum of each channel by the mean over its group. */
static void share(const struct job *j, double *sum)
{
	const int64_t each = j->c / j->groups;

	for (int64_t g = 0; g < j->groups; g++, sum += each) {
		double all = 0;

		for (int64_t i = 0; i < each; i++)
			all += sum[i];
		for (int64_t i = 0; i < each; i++)
			sum[i] = all / (double)(each * j->pixels);
	}
}

static void forward_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	const float *x = (const float *)j->call->in[0].data + row * j->pixels * j->c;
	float *y = (float *)j->call->out.data + row * j->pixels * j->c;
	float *mean = (float *)j->call->saved + row * j->c * 2, *inv = mean + j->c;
	double *sum = (double *)j->call->workspace + row * j->c * 2, *square = sum + j->c;

	memset(sum, 0, (size_t)j->c * 2 * sizeof *sum);
	for (int64_t p = 0; p < j->pixels; p++)
		for (int64_t i = 0; i < j->c; i++)
			sum[i] += (double)x[p * j->c + i];
	share(j, sum);
	for (int64_t p = 0; p < j->pixels; p++)
		for (int64_t i = 0; i < j->c; i++) {
			const double d = (double)x[p * j->c + i] - sum[i];

			square[i] += d * d;
		}
	share(j, square);
	for (int64_t i = 0; i < j->c; i++) {
		mean[i] = (float)sum[i];
		inv[i] = (float)(1 / sqrt(square[i] + (double)j->call->op->u.groupnorm.eps));
	}
	for (int64_t p = 0; p < j->pixels; p++)
		for (int64_t i = 0; i < j->c; i++) {
			const float v = (x[p * j->c + i] - mean[i]) * inv[i];

			y[p * j->c + i] = j->gamma ? v * j->gamma[i] + j->beta[i] : v;
		}
}

/* dβ and dγ of one row, to the workspace. input_row multiplies them by γ for dx. */
static void backward_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	const struct sl_op_call *call = j->call;
	const int64_t at = row * j->pixels * j->c;
	const float *x = (const float *)call->in[0].data + at, *dy = (const float *)call->dout.data + at;
	const float *mean = (const float *)call->saved + row * j->c * 2, *inv = mean + j->c;
	double *sum = (double *)call->workspace + row * j->c * 2, *along = sum + j->c;

	memset(sum, 0, (size_t)j->c * 2 * sizeof *sum);
	for (int64_t p = 0; p < j->pixels; p++)
		for (int64_t i = 0; i < j->c; i++) {
			const double d = (double)dy[p * j->c + i];

			sum[i] += d;
			along[i] += d * (double)((x[p * j->c + i] - mean[i]) * inv[i]);
		}
}

static void input_row(void *arg, int64_t row, int worker)
{
	const struct job *j = arg;
	const struct sl_op_call *call = j->call;
	const int64_t at = row * j->pixels * j->c;
	const float *x = (const float *)call->in[0].data + at, *dy = (const float *)call->dout.data + at;
	const float *mean = (const float *)call->saved + row * j->c * 2, *inv = mean + j->c;
	double *sum = (double *)call->workspace + row * j->c * 2, *along = sum + j->c;
	float *dx = (float *)call->din[0].data + at;

	for (int64_t i = 0; i < j->c && j->gamma; i++) {
		sum[i] *= (double)j->gamma[i];
		along[i] *= (double)j->gamma[i];
	}
	share(j, sum);
	share(j, along);
	for (int64_t p = 0; p < j->pixels; p++)
		for (int64_t i = 0; i < j->c; i++) {
			const float h = (x[p * j->c + i] - mean[i]) * inv[i];
			const float g = dy[p * j->c + i] * (j->gamma ? j->gamma[i] : 1.0f);
			const float v = (g - (float)sum[i] - h * (float)along[i]) * inv[i];

			dx[p * j->c + i] = call->din_add[0] ? dx[p * j->c + i] + v : v;
		}
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct job j = job_of(call, &call->out.shape);

	sl_pool_run(call->be->pool, call->out.shape.dim[0], forward_row, &j);
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = job_of(call, &call->dout.shape);
	const int64_t rows = call->dout.shape.dim[0];
	const double *sum = call->workspace;

	sl_pool_run(call->be->pool, rows, backward_row, &j);
	for (int which = 0; which < call->op->n_param; which++) {
		float *grad = call->grad[which];

		for (int64_t row = 0; row < rows && grad; row++)
			for (int64_t i = 0; i < j.c; i++)
				grad[i] += (float)sum[(row * 2 + (which == GAMMA)) * j.c + i];
	}
	if (call->din[0].data)
		sl_pool_run(call->be->pool, rows, input_row, &j);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_groupnorm = {.prepare = prepare, .forward = forward, .backward = backward};
