#include "kernels/cpu/bn.h"

#include <math.h>
#include <string.h>

enum saved { MEAN, MEAN_REST, INV_STD, UNBIASED_VAR, BACK_A, BACK_B, BACK_D };

static float *saved_of(const struct sl_op_call *call, enum saved which)
{
	return (float *)call->saved + (int64_t)which * call->op->u.bn.c;
}

struct channel {
	double mean_rest, inv_std;
};

static struct channel channel_of(const struct sl_op_call *call, int k)
{
	if (call->training)
		return (struct channel){(double)saved_of(call, MEAN_REST)[k], (double)saved_of(call, INV_STD)[k]};
	return (struct channel){0.0, 1.0 / sqrt((double)call->param[3][k] + (double)call->op->u.bn.eps)};
}

struct sl_cpu_bn sl_bn_load(const struct sl_op_call *call, bool back, float *memory)
{
	int64_t c = call->op->u.bn.c, line = sl_cpu_line(c);
	struct sl_cpu_bn n = {memory,           memory + line, memory + 2 * line, memory + 3 * line, memory + 4 * line,
			      memory + 5 * line};

	for (int k = 0; k < c; k++) {
		struct channel ch = channel_of(call, k);
		double scale = (double)call->param[0][k] * ch.inv_std;

		n.mean[k] = call->training ? saved_of(call, MEAN)[k] : call->param[2][k];
		n.scale[k] = (float)scale;
		n.shift[k] = (float)((double)call->param[1][k] - ch.mean_rest * scale);
	}
	if (back) {
		memcpy(n.a, saved_of(call, BACK_A), (size_t)c * sizeof(float));
		memcpy(n.b, saved_of(call, BACK_B), (size_t)c * sizeof(float));
		memcpy(n.d, saved_of(call, BACK_D), (size_t)c * sizeof(float));
	}
	return n;
}

/* A part: a head, the block's origin, and two arrays of sums in double. */
static float *origin_of(const float *part)
{
	return (float *)part + SL_BN_PART_HEAD;
}

static double *sum_of(const float *part, int64_t c, int which)
{
	return (double *)(void *)(origin_of(part) + (1 + 2 * which) * sl_cpu_line(c));
}

static void clear_sums(float *part, int64_t c, struct sl_bn_range k)
{
	if (k.at == 0)
		part[0] = 0.0f;
	for (int which = 0; which < 2; which++)
		memset(sum_of(part, c, which) + k.at, 0, (size_t)k.n * sizeof(double));
}

enum { SUM, SUM_SQ };

void sl_bn_begin_stats(float *part, const float *first_row, int64_t c, struct sl_bn_range k)
{
	clear_sums(part, c, k);
	memcpy(origin_of(part) + k.at, first_row + k.at, (size_t)k.n * sizeof(float));
}

void sl_bn_add_stats(const struct sl_cpu_simd *simd, float *part, const float *x, int64_t rows, int64_t c,
		     struct sl_bn_range k)
{
	if (k.at == 0)
		part[0] += (float)rows;
	simd->moments(sum_of(part, c, SUM) + k.at, sum_of(part, c, SUM_SQ) + k.at, origin_of(part) + k.at, x + k.at, c,
		      rows, (int)k.n);
}

/* The blocks of GROUP channels are merged together; groups run in parallel on the pool. */
enum { GROUP = 32 };

struct finish_job {
	const struct sl_op_call *call;
	const float *parts;
	int64_t blocks;
	double rows;
};

static void finish(sl_pool_fn *fn, const struct sl_op_call *call, const float *parts, int64_t blocks)
{
	struct finish_job j = {call, parts, blocks, 0};

	for (int64_t b = 0; b < blocks; b++)
		j.rows += (double)parts[b * sl_bn_part_floats(call->op->u.bn.c)];
	sl_pool_run(call->be->pool, sl_cpu_blocks(call->op->u.bn.c, GROUP), fn, &j);
}

void sl_bn_put_stats(const struct sl_op_call *call, int64_t k, double mean, double m2, double rows)
{
	saved_of(call, MEAN)[k] = (float)mean;
	saved_of(call, MEAN_REST)[k] = (float)(mean - (double)(float)mean);
	saved_of(call, INV_STD)[k] = (float)(1.0 / sqrt(m2 / rows + (double)call->op->u.bn.eps));
	saved_of(call, UNBIASED_VAR)[k] = (float)(m2 / (rows > 1 ? rows - 1 : 1));
}

/* A block's moments are relative to its own first row, which lies near enough to its mean that nothing
 * cancels. For a block of n rows, with d = Σ/n and the mean m of all rows:
 * Σ(x − m)² = Σ(x − origin)² − n·d² + n·(origin + d − m)². */
static void stats_group(void *arg, int64_t group, int worker)
{
	const struct finish_job *j = arg;
	int64_t c = j->call->op->u.bn.c, at = group * GROUP, n_k = sl_cpu_min(GROUP, c - at);
	int64_t stride = sl_bn_part_floats(c);
	double mean[GROUP] = {0}, m2[GROUP] = {0};

	for (int64_t b = 0; b < j->blocks; b++) {
		const float *part = j->parts + b * stride, *origin = origin_of(part) + at;
		const double *sum = sum_of(part, c, SUM) + at;
		double n = (double)part[0];

		for (int64_t k = 0; k < n_k; k++)
			mean[k] += n * (double)origin[k] + sum[k];
	}
	for (int64_t k = 0; k < n_k; k++)
		mean[k] /= j->rows;
	for (int64_t b = 0; b < j->blocks; b++) {
		const float *part = j->parts + b * stride, *origin = origin_of(part) + at;
		const double *sum = sum_of(part, c, SUM) + at, *sum_sq = sum_of(part, c, SUM_SQ) + at;
		double n = (double)part[0], per = 1.0 / n;

		for (int64_t k = 0; k < n_k; k++) {
			double s = sum[k], off = (double)origin[k] - mean[k];
			double block = sum_sq[k] - s * s * per, between = n * off + s;

			m2[k] += (block > 0 ? block : 0) + between * between * per;
		}
	}
	for (int64_t k = 0; k < n_k; k++)
		sl_bn_put_stats(j->call, at + k, mean[k], m2[k], j->rows);
}

void sl_bn_finish_stats(const struct sl_op_call *call, const float *parts, int64_t blocks)
{
	finish(stats_group, call, parts, blocks);
}

enum { SUM_G, SUM_GX };

void sl_bn_begin_sums(float *part, int64_t c, struct sl_bn_range k)
{
	clear_sums(part, c, k);
}

void sl_bn_add_sums(const struct sl_cpu_simd *simd, float *part, const float *dy, const float *x,
		    const struct sl_cpu_bn *n, const struct sl_op *op, int64_t rows, struct sl_bn_range k)
{
	struct sl_cpu_bn from = sl_bn_from(n, k.at);
	int64_t c = op->u.bn.c;

	if (k.at == 0)
		part[0] += (float)rows;
	simd->bn_sums(sum_of(part, c, SUM_G) + k.at, sum_of(part, c, SUM_GX) + k.at, dy + k.at, x + k.at, &from, c,
		      rows, (int)k.n, op->u.bn.act);
}

/* dβ = Σ g, dγ = Σ g·x̂; in training dx = γ/σ·(g − dβ/M − x̂·dγ/M), else γ/σ·g. */
void sl_bn_put_sums(const struct sl_op_call *call, int64_t k, double sum_g, double sum_gx, double rows)
{
	struct channel ch = channel_of(call, (int)k);
	double scale = (double)call->param[0][k] * ch.inv_std;
	double per_row = call->training ? -scale / rows : 0.0;
	double gx = sum_gx - ch.mean_rest * sum_g, b = per_row * ch.inv_std * ch.inv_std * gx;

	saved_of(call, BACK_A)[k] = (float)scale;
	saved_of(call, BACK_B)[k] = (float)b;
	saved_of(call, BACK_D)[k] = (float)(per_row * sum_g - ch.mean_rest * b);
	if (call->grad[0] != NULL)
		call->grad[0][k] += (float)(gx * ch.inv_std);
	if (call->grad[1] != NULL)
		call->grad[1][k] += (float)sum_g;
}

static void sums_group(void *arg, int64_t group, int worker)
{
	const struct finish_job *j = arg;
	int64_t c = j->call->op->u.bn.c, at = group * GROUP, n_k = sl_cpu_min(GROUP, c - at);
	double sum_g[GROUP] = {0}, sum_gx[GROUP] = {0};

	for (int64_t b = 0; b < j->blocks; b++) {
		const float *part = j->parts + b * sl_bn_part_floats(c);
		const double *g = sum_of(part, c, SUM_G) + at, *gx = sum_of(part, c, SUM_GX) + at;

		for (int64_t k = 0; k < n_k; k++) {
			sum_g[k] += g[k];
			sum_gx[k] += gx[k];
		}
	}
	for (int64_t k = 0; k < n_k; k++)
		sl_bn_put_sums(j->call, at + k, sum_g[k], sum_gx[k], j->rows);
}

void sl_bn_finish_sums(const struct sl_op_call *call, const float *parts, int64_t blocks)
{
	finish(sums_group, call, parts, blocks);
}

void sl_bn_commit(const struct sl_op_call *call)
{
	double m = (double)call->op->u.bn.momentum;

	for (int k = 0; k < call->op->u.bn.c; k++) {
		double mean = (double)saved_of(call, MEAN)[k] + (double)saved_of(call, MEAN_REST)[k];

		call->param[2][k] = (float)((1.0 - m) * (double)call->param[2][k] + m * mean);
		call->param[3][k] =
			(float)((1.0 - m) * (double)call->param[3][k] + m * (double)saved_of(call, UNBIASED_VAR)[k]);
	}
}
