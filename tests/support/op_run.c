#include "tests/support/op_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/half.h"

/* Closer than this to a kink, a float backend may land on its other side. */
static const double kink_margin = 1e-3;

static double largest(const float *v, int64_t count)
{
	double most = 0;

	for (int64_t i = 0; i < count; i++)
		most = fmax(most, fabs((double)v[i]));
	return most;
}

/* max over channels of |γ| / sqrt(var + eps) */
static double batchnorm_gain(const struct op_case *c, const struct op_host *host, const struct op_host_params *p)
{
	int64_t channels = c->c, m = host->in_count[0] / channels;
	double most = 0;

	for (int64_t k = 0; k < channels; k++) {
		double mean = 0, var = 0;

		for (int64_t i = 0; i < m; i++)
			mean += host->in[0][i * channels + k] / (double)m;
		for (int64_t i = 0; i < m; i++)
			var += pow(host->in[0][i * channels + k] - mean, 2) / (double)m;
		if (c->eval)
			var = p->param[3][k];
		most = fmax(most, fabs((double)p->param[0][k]) / sqrt(var + c->u.bn.eps));
	}
	return most;
}

/* max over rows of max |γ| / sqrt(var + eps) */
static double norm_gain(const struct op_case *c, const struct op_host *host, const struct op_host_params *p)
{
	double most = 0;

	for (const float *x = host->in[0]; x < host->in[0] + host->in_count[0]; x += c->c) {
		double mean = 0, var = 0;

		for (int64_t i = 0; i < c->c && c->kind == SL_OP_LAYERNORM; i++)
			mean += x[i] / (double)c->c;
		for (int64_t i = 0; i < c->c; i++)
			var += pow(x[i] - mean, 2) / c->c;
		most = fmax(most, largest(p->param[0], c->c) / sqrt(var + c->u.norm.eps));
	}
	return most;
}

static double dout_size(const struct op_host *host)
{
	double square = 0;

	for (int64_t i = 0; i < host->out_count; i++)
		square += (double)host->dout[i] * host->dout[i];
	return sqrt(square / (double)host->out_count);
}

/* The magnitude of the terms that din is summed from: about γ / sqrt(var + eps) · dout for a norm,
 * loss_scale for xent. */
static double din_scale(const struct op_case *c, const struct op_host *host, const struct op_host_params *p,
			const struct op_chunk *chunk)
{
	if (c->kind == SL_OP_XENT)
		return chunk->call.loss_scale;
	if (sl_op_is_norm(c->kind) && c->c <= 2)
		return norm_gain(c, host, p) * dout_size(host);
	if (c->kind == SL_OP_GELU || c->kind == SL_OP_SILU || c->kind == SL_OP_TANH) /* as Φ(x) + x·φ(x) at -0.75,
										      * where its terms cancel */
		return dout_size(host) / 2;
	return c->kind == SL_OP_BATCHNORM ? batchnorm_gain(c, host, p) * dout_size(host) : 0;
}

/* The terms of batchnorm's parameter gradients are about dout; with one channel, no other value
 * shows how large they are. */
static double grad_scale(const struct op_case *c, const struct op_host *host)
{
	return c->kind == SL_OP_BATCHNORM ? dout_size(host) : 0;
}

/* With one value per channel, x − mean is 0. A backend that computes x·a + b, as torch does,
 * cancels terms of size 1 / sqrt(eps) there. */
static double out_scale(const struct op_case *c, const struct op_host *host, const struct op_host_params *p)
{
	if (c->kind != SL_OP_BATCHNORM || c->eval || host->in_count[0] > c->c)
		return 0;
	return batchnorm_gain(c, host, p) * largest(host->in[0], host->in_count[0]);
}

static void keep(struct op_result *r, const char *name, int index, struct op_area *area, enum sl_dtype stored,
		 double scale, struct op_log *log)
{
	struct op_part *part = &r->part[r->n_part++];
	const void *data = op_area_read(area, name, log);

	*part = (struct op_part){
		.count = (int64_t)(area->bytes / sl_dtype_bytes(stored)), .stored = stored, .scale = scale};
	snprintf(part->name, sizeof(part->name), "%s[%d]", name, index);
	part->v = op_xalloc((size_t)part->count * sizeof(*part->v));
	half_load(stored, part->v, data, part->count);
}

/* What one run holds: a rig, its chunks and their data. */
struct run {
	struct op_rig rig;
	struct op_chunk chunk[OP_MAX_CHUNKS];
	struct op_host host[OP_MAX_CHUNKS];
	struct op_host_params params;
};

static bool run_chunks(struct run *run, const struct op_run_how *how)
{
	bool ok = true;

	for (int k = 0; k < how->chunks && ok; k++)
		ok = op_rig_forward(&run->rig, &run->chunk[k]);
	for (int k = 0; k < how->chunks && ok && how->backward; k++)
		ok = op_rig_backward(&run->rig, &run->chunk[k], &run->host[k], how->din);
	for (int k = 0; k < how->chunks && ok && how->commit && !run->rig.c->eval; k++)
		ok = op_rig_commit(&run->rig, &run->chunk[k]);
	return ok;
}

static void keep_all(struct op_result *r, struct run *run, const struct op_case *c, const struct op_run_how *how)
{
	struct op_rig *rig = &run->rig;
	const enum sl_dtype low = sl_precision_dtype(rig->op.precision);

	r->has_loss = sl_op_is_loss(c->kind);
	r->rows = run->host[0].rows;
	for (int k = 0; k < how->chunks; k++) {
		struct op_chunk *chunk = &run->chunk[k];
		double scale = din_scale(c, &run->host[k], &run->params, chunk);

		keep(r, "out", k, &chunk->out, low, out_scale(c, &run->host[k], &run->params), rig->log);
		/* ids have no gradient */
		for (int i = 0;
		     i < rig->op.n_in && how->backward && how->din != OP_DIN_NONE && c->kind != SL_OP_EMBEDDING; i++)
			keep(r, i == 0 ? "din" : i == 1 ? "din_b" : "din_c", k, &chunk->din[i], low, scale, rig->log);
		r->loss[k] = chunk->loss_sum;
		r->dice[k] = chunk->dice_sum;
		r->correct[k] = chunk->correct;
	}
	for (int i = 0; i < rig->op.n_param; i++) {
		if (how->backward)
			keep(r, "grad", i, &rig->grad[i], SL_F32, grad_scale(c, &run->host[0]), rig->log);
		if (how->backward && how->frozen >> i & 1)
			r->part[r->n_part - 1].count = 0;
		if (how->commit)
			keep(r, "param", i, &rig->param[i], SL_F32, 0, rig->log);
	}
	for (int i = 0; i < r->n_part; i++) /* probabilities, and the gradients of scores */
		r->part[i].rounded = rig->op.precision == SL_PRECISION_BF16_FACTORS && c->kind == SL_OP_ATTENTION;
}

/* Rounds the inputs, and those parameters that are multiplied. */
static void round_all(struct run *run, const struct sl_op *op, int chunks, enum sl_precision p)
{
	for (int k = 0; k < chunks; k++) {
		struct op_host *host = &run->host[k];

		for (int i = 0; i < op->n_in; i++) {
			half_round_all(p, host->in[i], host->in_count[i]);
			half_round_all(p, host->din_start[i], host->in_count[i]);
		}
		half_round_all(p, host->dout, host->out_count);
	}
	if (op->n_param && op->kind != SL_OP_BATCHNORM)
		half_round_all(p, run->params.param[0], op_param_count(op, 0));
}

bool op_run(struct op_result *r, struct sl_backend *be, const struct op_case *c, uint64_t seed,
	    const struct op_run_how *how, struct op_log *log)
{
	struct run run = {0};
	struct sl_fail fail = {0};
	struct sl_op op;
	bool ok = false;
	int before = log->failures;

	*r = (struct op_result){0};
	op_case_text(c, log->op);
	if (c->no_gpu && strcmp(be->ops->name, "ref") != 0 && strcmp(be->ops->name, "cpu") != 0)
		return false;
	if (op_case_op(c, c->n + how->extra_rows, &op, &fail)) {
		op_log_fail(log, "infer: %s", fail.text);
		return false;
	}
	op_host_params_fill(&run.params, &op, seed);
	for (int k = 0; k < how->chunks; k++) {
		int64_t rows = k && c->n > 1 ? c->n - 1 : c->n;

		op_host_fill(&run.host[k], c, &op, rows, seed, (uint16_t)k);
	}
	round_all(&run, &op, how->chunks, how->precision);
	for (int k = 0; k < how->chunks; k++)
		op_avoid_kinks(&run.host[k], c, &op, &run.params, kink_margin, false);
	if (be->ops->precisions >> how->precision & 1)
		op.precision = how->precision;
	if (op_rig_open(&run.rig, be, c, &op, &run.params, log)) {
		for (int k = 0; k < how->chunks; k++)
			op_chunk_open(&run.rig, &run.chunk[k], &run.host[k], (uint16_t)k);
		for (int k = 0; k < how->chunks; k++)
			for (int i = 0; i < op.n_param; i++)
				if (how->frozen >> i & 1)
					run.chunk[k].call.grad[i] = NULL;
		ok = log->failures == before && run_chunks(&run, how);
		if (ok)
			keep_all(r, &run, c, how);
	}
	for (int k = 0; k < how->chunks; k++) {
		op_chunk_close(&run.chunk[k]);
		op_host_free(&run.host[k]);
	}
	op_rig_close(&run.rig);
	op_host_params_free(&run.params);
	return ok && log->failures == before;
}

void op_result_free(struct op_result *r)
{
	for (int i = 0; i < r->n_part; i++)
		free(r->part[i].v);
	*r = (struct op_result){0};
}

/* The reference has a NaN here, so no error can be computed. */
static bool both_nan(float got, float want)
{
	return isnan(got) && isnan(want);
}

/* low: the tolerance of what was stored in 16 bits, or computed from such values; 0: neither. */
static void compare(const char *name, double low, const float *got, const float *want, int64_t count, double scale,
		    struct op_log *log)
{
	/* of few elements, each may have the largest error */
	const double tol_norm = low > 0 ? (count < 64 ? low : low / 2) : OP_TOL_NORM,
		     tol_element = low > 0 ? low : OP_TOL_ELEMENT;
	double square_want = 0, square_error = 0, size;

	for (int64_t i = 0; i < count; i++) {
		if (isnan(want[i]))
			continue;
		square_want += (double)want[i] * want[i];
		square_error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
	}
	size = fmax(scale, count ? sqrt(square_want / (double)count) : 0);
	for (int64_t i = 0; i < count; i++) {
		double error = fabs((double)got[i] - want[i]);

		/* negated, so that a NaN is out of tolerance */
		if (!both_nan(got[i], want[i]) && !(error <= tol_element * (fabs((double)want[i]) + size))) {
			op_log_fail(log, "%s: element %lld of %lld is %.9g, not %.9g (size %.3g)", name, (long long)i,
				    (long long)count, (double)got[i], (double)want[i], size);
			return;
		}
	}
	if (!(sqrt(square_error) <= tol_norm * size * sqrt((double)count)))
		op_log_fail(log, "%s: off by %.3g of its norm", name,
			    sqrt(square_error) / (size * sqrt((double)count)));
}

void op_compare(const char *name, const float *got, const float *want, int64_t count, double scale, struct op_log *log)
{
	compare(name, 0, got, want, count, scale, log);
}

void op_result_compare(const struct op_result *got, const struct op_result *want, struct op_log *log)
{
	if (got->n_part != want->n_part) {
		op_log_fail(log, "%d parts, not %d", got->n_part, want->n_part);
		return;
	}
	for (int i = 0; i < want->n_part; i++) {
		const struct op_part *part = &got->part[i];
		const double low = part->rounded             ? OP_TOL_ROUNDED
				   : part->stored == SL_BF16 ? OP_TOL_BF16
				   : part->stored == SL_F16  ? OP_TOL_FP16
							     : 0;

		compare(want->part[i].name, low, part->v, want->part[i].v, want->part[i].count, want->part[i].scale,
			log);
	}
	for (int k = 0; want->has_loss && k < OP_MAX_CHUNKS; k++) {
		/* each row's term is near 1, however close to 0 the sum is */
		double size = fabs(want->loss[k]) + 0.1 * (double)want->rows;

		if (!(fabs(got->loss[k] - want->loss[k]) <= OP_TOL_NORM * size) &&
		    !(isnan(got->loss[k]) && isnan(want->loss[k])))
			op_log_fail(log, "loss of chunk %d is %.9g, not %.9g", k, got->loss[k], want->loss[k]);
		size = fabs(want->dice[k]) + 0.1 * (double)want->rows;
		if (!(fabs(got->dice[k] - want->dice[k]) <= OP_TOL_NORM * size) &&
		    !(isnan(got->dice[k]) && isnan(want->dice[k])))
			op_log_fail(log, "Dice loss of chunk %d is %.9g, not %.9g", k, got->dice[k], want->dice[k]);
		if (got->correct[k] != want->correct[k])
			op_log_fail(log, "%lld rows of chunk %d correct, not %lld", (long long)got->correct[k], k,
				    (long long)want->correct[k]);
	}
}

void op_result_compare_bits(const struct op_result *got, const struct op_result *want, const char *whose,
			    struct op_log *log)
{
	for (int i = 0; i < want->n_part && i < got->n_part; i++)
		if (memcmp(got->part[i].v, want->part[i].v, (size_t)got->part[i].count * sizeof(float)))
			op_log_fail(log, "%s: %s has other bits", want->part[i].name, whose);
	if (memcmp(got->loss, want->loss, sizeof(got->loss)) ||
	    memcmp(got->correct, want->correct, sizeof(got->correct)))
		op_log_fail(log, "loss: %s has other bits", whose);
}
