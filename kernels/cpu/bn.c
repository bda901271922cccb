#include "kernels/cpu/bn.h"

#include <math.h>
#include <string.h>

enum saved { MEAN, MEAN_REST, INV_STD, UNBIASED_VAR, BACK_A, BACK_B, BACK_D };

static float *saved_of(const struct sl_op *op, const struct sl_op_call *call, enum saved which)
{
	return (float *)call->saved + (int64_t)which * op->u.bn.c;
}

struct channel {
	double mean_rest, inv_std;
};

static struct channel channel_of(const struct sl_op *op, const struct sl_op_call *call, int k)
{
	if (call->training)
		return (struct channel){(double)saved_of(op, call, MEAN_REST)[k],
					(double)saved_of(op, call, INV_STD)[k]};
	return (struct channel){0.0, 1.0 / sqrt((double)call->param[3][k] + (double)op->u.bn.eps)};
}

struct sl_cpu_bn sl_bn_load(const struct sl_op *op, const struct sl_op_call *call, bool back, float *memory)
{
	int64_t c = op->u.bn.c, line = sl_cpu_line(c);
	struct sl_cpu_bn n = {memory,           memory + line, memory + 2 * line, memory + 3 * line, memory + 4 * line,
			      memory + 5 * line};

	for (int k = 0; k < c; k++) {
		struct channel ch = channel_of(op, call, k);
		double scale = (double)call->param[0][k] * ch.inv_std;

		n.mean[k] = call->training ? saved_of(op, call, MEAN)[k] : call->param[2][k];
		n.scale[k] = (float)scale;
		n.shift[k] = (float)((double)call->param[1][k] - ch.mean_rest * scale);
	}
	if (back) {
		memcpy(n.a, saved_of(op, call, BACK_A), (size_t)c * sizeof(float));
		memcpy(n.b, saved_of(op, call, BACK_B), (size_t)c * sizeof(float));
		memcpy(n.d, saved_of(op, call, BACK_D), (size_t)c * sizeof(float));
	}
	return n;
}

static float *array_of(const float *part, int64_t c, int which)
{
	return (float *)part + SL_BN_PART_HEAD + which * sl_cpu_line(c);
}

enum { ORIGIN, SUM, SUM_SQ };

void sl_bn_begin_stats(float *part, const float *first_row, int64_t c)
{
	part[0] = 0.0f;
	memcpy(array_of(part, c, ORIGIN), first_row, (size_t)c * sizeof(float));
	memset(array_of(part, c, SUM), 0, (size_t)c * sizeof(float));
	memset(array_of(part, c, SUM_SQ), 0, (size_t)c * sizeof(float));
}

void sl_bn_add_stats(const struct sl_cpu_simd *simd, float *part, const float *x, int64_t rows, int64_t c)
{
	part[0] += (float)rows;
	simd->moments(array_of(part, c, SUM), array_of(part, c, SUM_SQ), array_of(part, c, ORIGIN), x, rows, (int)c);
}

/* A block's moments are told about its own first row, which lies near enough to its mean that nothing cancels. With its
 * count n, d = Σ/n and mean m of all: Σ(x − m)² = Σ(x − origin)² − n·d² + n·(origin + d − m)². */
void sl_bn_finish_stats(const struct sl_op *op, const struct sl_op_call *call, const float *parts, int64_t blocks,
			double *scratch)
{
	int64_t c = op->u.bn.c, stride = sl_bn_part_floats(c);
	double *mean = scratch, *m2 = scratch + c, rows = 0;

	memset(scratch, 0, (size_t)(2 * c) * sizeof *scratch);
	for (int64_t b = 0; b < blocks; b++) {
		const float *part = parts + b * stride, *origin = array_of(part, c, ORIGIN);
		const float *sum = array_of(part, c, SUM);
		double n = (double)part[0];

		rows += n;
		for (int64_t k = 0; k < c; k++)
			mean[k] += n * (double)origin[k] + (double)sum[k];
	}
	for (int64_t k = 0; k < c; k++)
		mean[k] /= rows;
	for (int64_t b = 0; b < blocks; b++) {
		const float *part = parts + b * stride, *origin = array_of(part, c, ORIGIN);
		const float *sum = array_of(part, c, SUM), *sum_sq = array_of(part, c, SUM_SQ);
		double n = (double)part[0], per = 1.0 / n;

		for (int64_t k = 0; k < c; k++) {
			double s = (double)sum[k], off = (double)origin[k] - mean[k];
			double block = (double)sum_sq[k] - s * s * per, between = n * off + s;

			m2[k] += (block > 0 ? block : 0) + between * between * per;
		}
	}
	for (int64_t k = 0; k < c; k++) {
		saved_of(op, call, MEAN)[k] = (float)mean[k];
		saved_of(op, call, MEAN_REST)[k] = (float)(mean[k] - (double)(float)mean[k]);
		saved_of(op, call, INV_STD)[k] = (float)(1.0 / sqrt(m2[k] / rows + (double)op->u.bn.eps));
		saved_of(op, call, UNBIASED_VAR)[k] = (float)(m2[k] / (rows > 1 ? rows - 1 : 1));
	}
}

enum { SUM_G, SUM_GX };

void sl_bn_begin_sums(float *part, int64_t c)
{
	memset(part, 0, (size_t)sl_bn_part_floats(c) * sizeof(float));
}

void sl_bn_add_sums(const struct sl_cpu_simd *simd, float *part, const float *dy, const float *x,
		    const struct sl_cpu_bn *n, const struct sl_op *op, int64_t rows)
{
	int c = op->u.bn.c;

	part[0] += (float)rows;
	simd->bn_sums(array_of(part, c, SUM_G), array_of(part, c, SUM_GX), dy, x, n, rows, c, op->u.bn.act);
}

/* dβ = Σ g, dγ = Σ g·x̂; in training dx = γ/σ·(g − dβ/M − x̂·dγ/M), else γ/σ·g. */
void sl_bn_finish_sums(const struct sl_op *op, const struct sl_op_call *call, const float *parts, int64_t blocks,
		       double *scratch)
{
	int64_t c = op->u.bn.c, stride = sl_bn_part_floats(c);
	double *sum_g = scratch, *sum_gx = scratch + c, rows = 0;

	memset(scratch, 0, (size_t)(2 * c) * sizeof *scratch);
	for (int64_t b = 0; b < blocks; b++) {
		const float *part = parts + b * stride, *g = array_of(part, c, SUM_G), *gx = array_of(part, c, SUM_GX);

		rows += (double)part[0];
		for (int64_t k = 0; k < c; k++) {
			sum_g[k] += (double)g[k];
			sum_gx[k] += (double)gx[k];
		}
	}
	for (int k = 0; k < c; k++) {
		struct channel ch = channel_of(op, call, k);
		double scale = (double)call->param[0][k] * ch.inv_std;
		double per_row = call->training ? -scale / rows : 0.0;
		double gx = sum_gx[k] - ch.mean_rest * sum_g[k], b = per_row * ch.inv_std * ch.inv_std * gx;

		saved_of(op, call, BACK_A)[k] = (float)scale;
		saved_of(op, call, BACK_B)[k] = (float)b;
		saved_of(op, call, BACK_D)[k] = (float)(per_row * sum_g[k] - ch.mean_rest * b);
		if (call->grad[0] != NULL)
			call->grad[0][k] += (float)(gx * ch.inv_std);
		if (call->grad[1] != NULL)
			call->grad[1][k] += (float)sum_g[k];
	}
}

void sl_bn_commit(const struct sl_op *op, const struct sl_op_call *call)
{
	float m = op->u.bn.momentum;

	for (int k = 0; k < op->u.bn.c; k++) {
		call->param[2][k] = (1.0f - m) * call->param[2][k] + m * saved_of(op, call, MEAN)[k];
		call->param[3][k] = (1.0f - m) * call->param[3][k] + m * saved_of(op, call, UNBIASED_VAR)[k];
	}
}
