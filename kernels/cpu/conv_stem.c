/* A dense convolution with few weights per output, whose input needs no gradient, fused with the batchnorm
 * behind it: the tensor between them is never in memory. With patches p [K],
 * y = W·p and z = act(γ/σ·(y − mean) + β):
 *   mean = W·p̄        σ² = W·C·Wᵀ/M        C = Σ (p − p̄)(p − p̄)ᵀ [K, K]
 * So forward reads x twice, for C and for z. Backward reads x and dz once: with G = Σ g·pᵀ [O, K], Σg [O],
 *   Σ g·(y − mean) = W·(G − Σg·p̄ᵀ)        dW = a·(G − Σg·p̄ᵀ) + b·W·C
 * where dy = a·g + b·(y − mean) + d is the batchnorm's backward. Patches are summed in float over some
 * hundred of them, and these sums in double: σ² may be far smaller than |W|²·C. Values far from 0 would still
 * use up the digits of C and G. So without padding, both are relative to an origin of each channel. With
 * padding, the zeros beside such values are part of σ², and nothing cancels. */
#include <string.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rows.h"

enum {
	MOST_DEPTH = 31, /* largest K: with the added one, a patch fits into two registers */
	MAX_SPANS = 32,
	FLOAT_SUMS = 448, /* patches that are summed in float */
};

struct job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	int64_t k, taps; /* KH·KW·C, KW·C */
	struct sl_bands bands;
	int64_t spans, span_bands;
	int64_t patch;  /* floats from one patch to the next */
	double *part;   /* [spans, part_count]: [K + 1, patch] in forward, [K + 1, O] in backward */
	float *scratch; /* per worker, see worker_floats */
	struct sl_gemm_weights w;
	struct sl_cpu_bn bn;
	const float *plus; /* [W·C], minus the origin of each channel; NULL: the origin is 0 */
	enum sl_act act;
	bool stream;
};

/* Forward saves these for backward. */
struct saved {
	double *mean, *cov, *rows; /* [K], [K, K], [1] */
};

static struct saved saved_of(const struct job *j)
{
	double *p = j->call->saved;

	return (struct saved){p, p + j->k, p + j->k + j->k * j->k};
}

static int64_t depth_of(const struct sl_op *op)
{
	return (int64_t)op->u.conv.kh * op->u.conv.kw * op->u.conv.in_c;
}

bool sl_conv_stem_takes(const struct sl_op *op)
{
	return sl_conv_rows_takes(op) && !op->u.conv.bias && depth_of(op) <= MOST_DEPTH;
}

size_t sl_conv_stem_saved_bytes(const struct sl_op *op)
{
	int64_t k = depth_of(op);

	return (size_t)(k + k * k + 1) * sizeof(double);
}

static int64_t part_count(const struct job *j)
{
	return (j->k + 1) * sl_cpu_line(sl_cpu_max(j->patch, j->d.o));
}

/* Floats of a row of patches, or of a row of z or g. */
static int64_t row_floats(const struct job *j)
{
	return j->d.out_w * sl_cpu_max(j->patch, sl_cpu_line(j->d.o)) + 16;
}

static int64_t worker_floats(const struct job *j)
{
	return sl_rows_floats(&j->d) + sl_cpu_line(row_floats(j)) + part_count(j);
}

static struct job job_of(struct sl_backend *be, const struct sl_conv_dims *d, float *workspace)
{
	struct job j = {.simd = sl_cpu_simd_of(be), .d = *d, .taps = (int64_t)d->kw * d->c};

	j.k = d->kh * j.taps;
	j.bands = sl_bands_of(d);
	j.span_bands = sl_cpu_blocks(j.bands.all, MAX_SPANS);
	j.spans = sl_cpu_blocks(j.bands.all, j.span_bands);
	j.patch = sl_cpu_line(j.k + 1);
	j.part = (double *)(void *)workspace;
	j.scratch = workspace + 2 * MAX_SPANS * part_count(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, NULL, op->in_shape[0].dim[0]);
	struct job j = job_of(be, &d, NULL);

	return (size_t)(2 * MAX_SPANS * part_count(&j) + sl_cpu_threads(be) * worker_floats(&j) +
			sl_cpu_line(sl_gemm_packed_floats(j.k, d.o)) + sl_bn_coef_floats(d.o) + d.w * d.c) *
	       sizeof(float);
}

static float *packed_of(const struct job *j)
{
	return j->scratch + sl_cpu_threads(j->call->be) * worker_floats(j);
}

static float *coefficients_of(const struct job *j)
{
	return packed_of(j) + sl_cpu_line(sl_gemm_packed_floats(j->k, j->d.o));
}

/* Minus the origin of each channel, repeated to a row [W·C]. The origin is the mean of the middle row of the
 * first image. NULL: the origin is 0. */
static const float *open_origin(const struct job *j)
{
	const int64_t c = j->d.c, n = j->d.w * c;
	const float *x = j->call->x + j->d.h / 2 * n;
	float *plus = coefficients_of(j) + sl_bn_coef_floats(j->d.o);

	if (j->d.pad > 0 || !j->call->training)
		return NULL;
	for (int64_t k = 0; k < c; k++) {
		double sum = 0;

		for (int64_t i = k; i < n; i += c)
			sum += (double)x[i];
		for (int64_t i = k; i < n; i += c)
			plus[i] = (float)(-sum / (double)j->d.w);
	}
	return plus;
}

/* The origin of element i of a patch. */
static double origin_of(const struct job *j, int64_t i)
{
	return j->plus != NULL ? -(double)j->plus[i % j->d.c] : 0;
}

static struct job open_job(const struct sl_conv_call *call)
{
	struct job j = job_of(call->be, &call->d, call->workspace);

	j.call = call;
	j.plus = open_origin(&j);
	j.act = call->post->op->u.bn.act;
	j.stream = j.bands.all * j.bands.rows * call->d.out_w * call->d.o >= SL_CPU_STREAMED;
	return j;
}

static void load_bn(struct job *j, bool back)
{
	const struct sl_op_call *bn = j->call->post;

	j->bn = sl_bn_load(bn, back, coefficients_of(j));
}

struct worker {
	struct sl_rows x;
	float *row, *sums;
};

static struct worker worker_open(const struct job *j, int worker)
{
	float *memory = j->scratch + worker * worker_floats(j), *row = memory + sl_rows_floats(&j->d);

	return (struct worker){sl_rows_open(j->simd, &j->d, j->call->x, memory), row, row + sl_cpu_line(row_floats(j))};
}

/* to += sums; clears sums. */
static void empty(double *to, float *sums, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		to[i] += (double)sums[i];
	memset(sums, 0, (size_t)n * sizeof *sums);
}

static int64_t span_end(const struct job *j, int64_t span)
{
	return sl_cpu_min(j->bands.all, (span + 1) * j->span_bands);
}

/* ---- forward */

/* Adds (p, 1)(p, 1)ᵀ of the patches of output row o, in two products: all columns for the upper half of the
 * rows, the right half of the columns for the lower half. These cover the diagonal and all above it. */
static void gram_row(const struct job *j, struct worker *w, int64_t o)
{
	const int64_t n = j->k + 1, half = (n + 1) / 2;
	const float *seg[SL_ROWS_MOST];

	sl_rows_of(&w->x, o, seg);
	j->simd->patches(w->row, j->patch, seg, j->d.kh, (int)j->taps, j->d.stride * j->d.c, j->d.out_w);
	j->simd->gemm_outer(w->sums, j->patch, w->row, j->patch, half, w->row, j->patch, n, j->d.out_w,
			    &(struct sl_prefetch){0});
	j->simd->gemm_outer(w->sums + half * (j->patch + 1), j->patch, w->row + half, j->patch, n - half, w->row + half,
			    j->patch, n - half, j->d.out_w, &(struct sl_prefetch){0});
}

/* The Gram sums of a span. Its bands are its steps. The step's number also encodes how many patches `sums`
 * holds, which is less than FLOAT_SUMS. */
static void gram_span(void *arg, int64_t span, struct sl_pool_step *s)
{
	const struct job *j = arg;
	struct worker w = worker_open(j, s->worker);
	int64_t floats = (j->k + 1) * j->patch, first = span * j->span_bands, summed = s->at % FLOAT_SUMS;
	double *part = j->part + span * part_count(j);

	w.x.plus = j->plus;
	if (s->at == 0) {
		memset(part, 0, (size_t)floats * sizeof *part);
		memset(w.sums, 0, (size_t)floats * sizeof *w.sums);
	}
	for (int64_t index = first + s->at / FLOAT_SUMS; index < span_end(j, span); index++) {
		struct sl_band b = sl_band_at(&j->bands, index);

		sl_rows_image(&w.x, b.n);
		for (int64_t o = b.from; o < b.to; o++) {
			gram_row(j, &w, o);
			summed += j->d.out_w;
			if (summed < FLOAT_SUMS)
				continue;
			empty(part, w.sums, floats);
			summed = 0;
		}
		if (sl_pool_stop(s, (index + 1 - first) * FLOAT_SUMS + summed))
			return;
	}
	empty(part, w.sums, floats);
}

static void statistics(const struct job *j)
{
	const struct sl_op_call *bn = j->call->post;
	struct saved s = saved_of(j);
	int64_t k = j->k, ld = j->patch;
	double *sum = j->part;

	for (int64_t span = 1; span < j->spans; span++)
		for (int64_t i = 0; i < (k + 1) * ld; i++)
			sum[i] += j->part[span * part_count(j) + i];
	*s.rows = sum[k * ld + k];
	for (int64_t i = 0; i < k; i++)
		s.mean[i] = sum[i * ld + k] / *s.rows;
	for (int64_t i = 0; i < k; i++)
		for (int64_t l = i; l < k; l++)
			s.cov[i * k + l] = s.cov[l * k + i] = sum[i * ld + l] - *s.rows * s.mean[i] * s.mean[l];
	for (int64_t i = 0; i < k; i++)
		s.mean[i] += origin_of(j, i);
	for (int64_t o = 0; o < j->d.o; o++) {
		const float *w = j->call->w + o * k;
		double mean = 0, m2 = 0;

		for (int64_t i = 0; i < k; i++) {
			double row = 0;

			for (int64_t l = 0; l < k; l++)
				row += s.cov[i * k + l] * (double)w[l];
			mean += (double)w[i] * s.mean[i];
			m2 += (double)w[i] * row;
		}
		sl_bn_put_stats(bn, o, mean, m2 < 0 ? 0 : m2, *s.rows);
	}
}

static void forward_band(void *arg, int64_t index, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	struct sl_band b = sl_band_at(&j->bands, index);
	struct worker w = worker_open(j, worker);
	const float *seg[SL_ROWS_MOST];

	sl_rows_image(&w.x, b.n);
	for (int64_t o = b.from; o < b.to; o++) {
		float *z = j->call->y + (b.n * d->out_h + o) * d->out_w * d->o;

		sl_rows_of(&w.x, o, seg);
		sl_gemm_rows(&j->w, w.row, d->o, seg, d->kh, d->stride * d->c, d->out_w, false,
			     &(struct sl_prefetch){0});
		if (j->stream)
			j->simd->bn_forward_stream(z, w.row, &j->bn, d->out_w, (int)d->o, j->act);
		else
			j->simd->bn_forward(z, w.row, &j->bn, d->o, d->out_w, (int)d->o, j->act);
	}
	if (j->stream)
		j->simd->stream_end();
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);

	if (call->training) {
		sl_pool_run_long(call->be->pool, j.spans, gram_span, &j);
		statistics(&j);
	}
	j.w = sl_gemm_pack(call->be, packed_of(&j), call->w, j.k, j.d.o, 1, j.k, false);
	load_bn(&j, false);
	sl_pool_run(call->be->pool, j.bands.all, forward_band, &j);
}

/* ---- backward */

/* The gradient in front of the activation, for the row of z at offset `at`. */
static const float *gradient_row(const struct job *j, int64_t at, float *to)
{
	if (j->act == SL_ACT_NONE)
		return j->call->dy + at;
	j->simd->act_backward(to, j->call->dy + at, j->call->out + at, j->d.out_w * j->d.o, j->act, false);
	return to;
}

/* Gᵀ and Σg of a span. Its bands are its steps. */
static void backward_span(void *arg, int64_t span, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	struct worker w = worker_open(j, s->worker);
	const int64_t first = span * j->span_bands;
	int64_t floats = (j->k + 1) * d->o, row = d->out_w * d->o;
	double *part = j->part + span * part_count(j);
	const float *seg[SL_ROWS_MOST];

	w.x.plus = j->plus;
	if (s->at == 0) {
		memset(part, 0, (size_t)floats * sizeof *part);
		memset(w.sums, 0, (size_t)floats * sizeof *w.sums);
	}
	for (int64_t index = first + s->at; index < span_end(j, span); index++) {
		struct sl_band b = sl_band_at(&j->bands, index);

		sl_rows_image(&w.x, b.n);
		for (int64_t o = b.from; o < b.to; o++) {
			int64_t at = (b.n * d->out_h + o) * row;
			const float *g = gradient_row(j, at, w.row);
			const char *next = (const char *)(j->call->dy + at + row);
			struct sl_prefetch ahead = {{next}, {next + row * (int64_t)sizeof(float)}, 1, 80};

			sl_rows_of(&w.x, o, seg);
			for (int i = 0; i < d->kh; i++)
				j->simd->gemm_outer(w.sums + i * j->taps * d->o, d->o, seg[i], d->stride * d->c,
						    j->taps, g, d->o, d->o, d->out_w, &ahead);
			j->simd->row_sum(w.sums + j->k * d->o, g, d->o, d->out_w, (int)d->o);
		}
		empty(part, w.sums, floats);
		if (sl_pool_stop(s, index + 1 - first))
			return;
	}
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);
	struct saved s = saved_of(&j);
	int64_t k = j.k, o_n = j.d.o;
	double *sum = j.part;

	sl_pool_run_long(call->be->pool, j.spans, backward_span, &j);
	for (int64_t span = 1; span < j.spans; span++)
		for (int64_t i = 0; i < (k + 1) * o_n; i++)
			sum[i] += j.part[span * part_count(&j) + i];
	load_bn(&j, false);
	for (int64_t o = 0; o < o_n; o++) {
		double sum_g = sum[k * o_n + o], centred = 0, mean = 0;
		const float *w = call->w + o * k;

		for (int64_t i = 0; i < k; i++) {
			mean += (double)w[i] * (call->training ? s.mean[i] : 0);
			sum[i * o_n + o] -= call->training ? sum_g * (s.mean[i] - origin_of(&j, i)) : 0;
			centred += (double)w[i] * sum[i * o_n + o];
		}
		sl_bn_put_sums(call->post, o, sum_g, centred + (mean - (double)j.bn.mean[o]) * sum_g,
			       (double)(j.d.n * j.d.out_h * j.d.out_w));
	}
	load_bn(&j, true);
	for (int64_t o = 0; o < o_n && call->dw != NULL; o++)
		for (int64_t i = 0; i < k; i++) {
			double along = 0;

			for (int64_t l = 0; l < k && call->training; l++)
				along += s.cov[i * k + l] * (double)call->w[o * k + l];
			call->dw[o * k + i] +=
				(float)((double)j.bn.a[o] * sum[i * o_n + o] + (double)j.bn.b[o] * along);
		}
}

const struct sl_conv_kernel sl_conv_stem = {workspace_bytes, forward, backward};
