/* Dense convolutions with a kernel larger than 1×1, row by row and without patches. In a zero-padded row of x
 * the values under KW taps are contiguous, and the next output's begin stride·C floats further. So an output
 * row is a product of KH such rows with the weights. dW is computed the same way, as its transpose [KH·KW·C,
 * O]. conv_gemm.c computes dX. */
#include <string.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rows.h"

enum { MAX_SPANS = 16, SPAN_FLOATS = 1 << 22 };

struct job {
	const struct sl_conv_call *call;
	struct sl_conv_dims d;
	int64_t k; /* KH·KW·C */
	struct sl_bands bands;
	int64_t spans, span_bands;
	int64_t dy_row; /* floats of a row of dy */
	float *part;    /* [spans + 1, dWᵀ and dbias]; the last is their sum */
	float *scratch; /* per worker: KH + 1 rows of x, one of dy */
	struct sl_gemm_weights w;
	struct sl_conv_bn bn; /* a part per band */
};

static int64_t most_spans(const struct job *j)
{
	return sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (j->d.o * j->k)));
}

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line((j->k + 1) * j->d.o);
}

static int64_t worker_floats(const struct job *j)
{
	return sl_rows_floats(&j->d) + j->dy_row;
}

static struct job job_of(const struct sl_conv_dims *d, float *workspace)
{
	struct job j = {.d = *d, .k = (int64_t)d->kh * d->kw * d->c};

	j.bands = sl_bands_of(d);
	j.span_bands = sl_cpu_blocks(j.bands.all, most_spans(&j));
	j.spans = sl_cpu_blocks(j.bands.all, j.span_bands);
	j.dy_row = sl_cpu_line(d->out_w * d->o);
	j.part = workspace;
	j.scratch = j.part + (most_spans(&j) + 1) * part_floats(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, window, op->in_shape[0].dim[0]);
	struct job j = job_of(&d, NULL);
	int64_t own = (most_spans(&j) + 1) * part_floats(&j) + sl_cpu_threads(be) * worker_floats(&j) +
		      sl_gemm_packed_floats(j.k, d.o) + sl_conv_bn_floats(&d, j.bands.all);

	return (size_t)sl_cpu_max(own * (int64_t)sizeof(float), (int64_t)sl_conv_gemm.workspace_bytes(be, op, window));
}

static struct job open_job(const struct sl_conv_call *call, bool backward)
{
	struct job j = job_of(&call->d, call->workspace);
	float *packed = j.scratch + sl_cpu_threads(call->be) * worker_floats(&j);

	j.call = call;
	j.bn = sl_conv_bn_open(call, backward, packed + sl_gemm_packed_floats(j.k, j.d.o));
	j.w.simd = sl_cpu_simd_of(call->be);
	if (!backward)
		j.w = sl_gemm_pack(call->be, packed, call->w, j.k, j.d.o, 1, j.k, false);
	return j;
}

static void forward_band(void *arg, int64_t index, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const struct sl_conv_call *call = j->call;
	const struct sl_conv_dims *d = &j->d;
	struct sl_band b = sl_band_at(&j->bands, index);
	struct sl_rows x = sl_rows_open(j->w.simd, d, j->call->x, j->scratch + s->worker * worker_floats(j));
	float *part = j->bn.parts + index * j->bn.stride;

	sl_rows_image(&x, b.n);
	for (int64_t o = b.from + s->at; o < b.to; o++) {
		float *y = call->y + (b.n * d->out_h + o) * d->out_w * d->o;
		const float *seg[SL_ROWS_MOST];

		sl_rows_of(&x, o, seg);
		sl_gemm_rows(&j->w, y, d->o, seg, d->kh, d->stride * d->c, d->out_w, false, &(struct sl_prefetch){0});
		if (call->bias != NULL)
			j->w.simd->add_row(y, call->bias, d->out_w, (int)d->o);
		if (call->post != NULL && call->training) {
			if (o == b.from)
				sl_bn_begin_stats(part, y, d->o, (struct sl_bn_range){0, d->o});
			sl_bn_add_stats(j->w.simd, part, y, d->out_w, d->o, (struct sl_bn_range){0, d->o});
		}
		if (o + 1 < b.to && sl_pool_stop(s, o + 1 - b.from))
			return;
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, false);

	sl_pool_run_long(call->be->pool, j.bands.all, forward_band, &j);
	sl_conv_bn_finish(call, &j.bn, j.bands.all, false);
}

/* The gradient at row o of Y: dy itself, or dy propagated through the batchnorm behind. */
static const float *gradient_row(const struct job *j, int64_t n, int64_t o, int worker)
{
	const struct sl_conv_dims *d = &j->d;
	int64_t at = (n * d->out_h + o) * d->out_w * d->o;
	float *to = j->scratch + worker * worker_floats(j) + sl_rows_floats(d);

	if (j->call->post == NULL)
		return j->call->dy + at;
	j->w.simd->bn_backward(to, j->call->dy + at, j->call->out + at, &j->bn.post, d->out_w, (int)d->o,
			       j->bn.act_post, false);
	return to;
}

/* Adds the contribution of output row o of image n to a span's dW and dbias. */
static void weight_row(const struct job *j, struct sl_rows *x, float *dw, int64_t n, int64_t o, int worker)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t taps = (int64_t)d->kw * d->c;
	const float *dy = gradient_row(j, n, o, worker), *seg[SL_ROWS_MOST];

	sl_rows_of(x, o, seg);
	for (int i = 0; i < d->kh; i++)
		j->w.simd->gemm_outer(dw + i * taps * d->o, d->o, seg[i], d->stride * d->c, taps, dy, d->o, d->o,
				      d->out_w, &(struct sl_prefetch){0});
	j->w.simd->row_sum(dw + j->k * d->o, dy, d->o, d->out_w, (int)d->o);
}

/* The steps are the rows of the span's bands. All bands count as equally high; in an image's last band, which
 * may be lower, the excess steps do nothing. */
static void backward_span(void *arg, int64_t span, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t first = span * j->span_bands, rows = j->bands.rows;
	const int64_t bands = sl_cpu_min(j->bands.all - first, j->span_bands);
	float *dw = j->part + span * part_floats(j);
	struct sl_rows x = sl_rows_open(j->w.simd, &j->d, j->call->x, j->scratch + s->worker * worker_floats(j));

	if (s->at == 0)
		memset(dw, 0, (size_t)part_floats(j) * sizeof(float));
	for (int64_t at = s->at; at < bands * rows;) {
		const struct sl_band b = sl_band_at(&j->bands, first + at / rows);

		if (at == s->at || at % rows == 0)
			sl_rows_image(&x, b.n);
		if (b.from + at % rows < b.to)
			weight_row(j, &x, dw, b.n, b.from + at % rows, s->worker);
		if (sl_pool_stop(s, ++at))
			return;
	}
}

static void weight_gradients(const struct sl_conv_call *call)
{
	struct job j = open_job(call, true);
	int64_t o = j.d.o;
	float *sum = j.part + most_spans(&j) * part_floats(&j);

	sl_pool_run_long(call->be->pool, j.spans, backward_span, &j);
	memset(sum, 0, (size_t)part_floats(&j) * sizeof(float));
	sl_cpu_reduce(call->be, sum, j.part, (j.k + 1) * o, part_floats(&j), j.spans);
	for (int64_t i = 0; i < o && call->dw != NULL; i++)
		for (int64_t k = 0; k < j.k; k++)
			call->dw[i * j.k + k] += sum[k * o + i];
	if (call->dbias != NULL)
		j.w.simd->sum(call->dbias, call->dbias, sum + j.k * o, o);
}

static void backward(const struct sl_conv_call *call)
{
	struct sl_conv_call data = *call;

	if (call->dw != NULL || call->dbias != NULL)
		weight_gradients(call);
	data.dw = NULL;
	data.dbias = NULL;
	if (call->dx != NULL)
		sl_conv_gemm.backward(&data);
}

/* Each row of Y reads all weights, and writes all of their gradient. If these do not fit in the L2 cache, a
 * short row spends more time on that traffic than on its products. */
static bool rows_are_short(const struct sl_op *op)
{
	enum { CACHED_FLOATS = 1 << 18, LONG_ROW = 28 };
	const struct sl_conv_dims d = sl_conv_dims_of(op, NULL, 1);

	return (int64_t)d.kh * d.kw * d.c * d.o > CACHED_FLOATS && d.out_w < LONG_ROW;
}

/* With rounded factors products of many channels are left to conv_gemm.c. */
static bool rounds(const struct sl_op *op)
{
	enum { FEW_CHANNELS = 8 };

	return op->precision == SL_PRECISION_BF16_FACTORS && op->in_shape[0].dim[3] > FEW_CHANNELS;
}

bool sl_conv_rows_takes(const struct sl_op *op)
{
	return !rounds(op) && !rows_are_short(op) && op->u.conv.kh <= SL_ROWS_MOST && op->u.conv.groups == 1 &&
	       op->u.conv.dilation == 1 && !sl_conv_is_pointwise(&op->u.conv);
}

const struct sl_conv_kernel sl_conv_rows = {workspace_bytes, forward, backward};
