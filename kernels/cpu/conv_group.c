/* Convolutions with groups of several channels, and depthwise ones that conv_dw.c does not take. Narrow groups are
 * computed several at a time, as a bundle whose channels fill a register (body_group.h); a wide group is a bundle of
 * its own, and takes the products of dense layers. A bundle's channels of some input rows are copied out, with zeros
 * around the image. Then the values under a tap of the window are rows of a matrix, [pixels of an output row, in], for
 * a product with the tap's weights [in, out]. dX is the same product, from dY with the window turned and, with a
 * stride, zeros between its pixels. dW is summed over spans of bands, which depend on the shape alone, then over the
 * spans. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"

enum {
	MOST_TAPS = 32,   /* of one product; a larger window takes several */
	MOST_TERMS = 128, /* of a sum in a bundle's product: longer sums would round more */
	MOST_LANES = 16,
	MAX_SPANS = 16,
	SPAN_FLOATS = 1 << 22 /* of all partial dW together: 16 MiB */
};

struct job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	int32_t lane[2][MOST_LANES / 2 * MOST_LANES]; /* of a bundle, for forward and dX: see simd.h */
	int64_t in, out;                              /* channels of a group */
	int64_t groups, bundle, bundles;      /* all groups; groups of a bundle, of which the last may have fewer */
	int64_t taps, products, product_taps; /* KH·KW; products for an output row; taps of each, of the last maybe
					       * fewer */
	struct sl_bands bands, data_bands;    /* rows of Y, of dX */
	int64_t spans, span_bands;
	float *part;    /* [spans, dW of all bundles and dbias] */
	float *packed;  /* weights of each product of each bundle */
	float *scratch; /* per worker: rows of x or dy, or a product's weights */
};

struct bundle {
	int64_t in, out, in_at, out_at; /* channels: how many, and the first one */
};

static struct bundle bundle_at(const struct job *j, int64_t index)
{
	const int64_t first = index * j->bundle, n = sl_cpu_min(j->bundle, j->groups - first);

	return (struct bundle){n * j->in, n * j->out, first * j->in, first * j->out};
}

static bool is_bundled(const struct job *j)
{
	return j->bundle > 1;
}

/* Floats of a row of a product's weights, before a wide group's are packed. */
static int64_t weight_row(const struct job *j, bool back)
{
	return is_bundled(j) ? j->simd->panel / 2 : back ? j->in : j->out;
}

/* dW of a bundle, [taps, in, outputs]. */
static int64_t weight_floats(const struct job *j)
{
	return j->taps * j->in * weight_row(j, false);
}

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line(j->bundles * weight_floats(j)) + sl_cpu_line(j->d.o);
}

static int64_t packed_floats(const struct job *j)
{
	const int64_t taps = j->product_taps;

	return sl_cpu_line(sl_cpu_max(sl_gemm_packed_floats(taps * j->in, weight_row(j, false)),
				      sl_gemm_packed_floats(taps * j->out, weight_row(j, true))));
}

/* Pixels from the first to the last tap of a window. */
static int64_t reach(int taps, int dilation)
{
	return (int64_t)(taps - 1) * dilation;
}

/* Capped where a window or its padding is so large that the product overflows: no host has so much memory. */
static int64_t scratch_floats(const struct job *j)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t high = reach(d->kh, d->dilation) + 1, wide = reach(d->kw, d->dilation) + 1;
	const double x = (double)((j->bands.rows - 1) * d->stride + high) *
			 (double)((d->out_w - 1) * d->stride + wide) * (double)(j->bundle * j->in);
	const double dy =
		(double)(j->data_bands.rows - 1 + high) * (double)(d->w - 1 + wide) * (double)(j->bundle * j->out);
	const double weights = (double)j->product_taps * (double)j->in * (double)j->out;

	return sl_cpu_line((int64_t)fmin(0x1p48, fmax(fmax(x, dy) + j->simd->panel / 2, weights)));
}

static int64_t most_spans(const struct job *j)
{
	return sl_cpu_max(1, sl_cpu_min(MAX_SPANS, SPAN_FLOATS / (j->bundles * weight_floats(j))));
}

/* The lanes behind a bundle's last channel take any. */
static void list_lanes(struct job *j)
{
	const int lanes = j->simd->panel / 2;

	for (int back = 0; back < 2; back++) {
		const int64_t from = back ? j->out : j->in, to = back ? j->in : j->out;

		for (int64_t i = 0; i < from; i++)
			for (int k = 0; k < lanes; k++)
				j->lane[back][i * lanes + k] = (int32_t)sl_cpu_min(lanes - 1, k / to * from + i);
	}
}

static struct job job_of(const struct sl_op *op, const struct sl_conv_dims *d, struct sl_backend *be, float *workspace)
{
	struct job j = {
		.simd = sl_cpu_simd_of(be), .d = *d, .groups = op->u.conv.groups, .taps = (int64_t)d->kh * d->kw};
	int64_t most_taps = MOST_TAPS;

	j.in = d->c / j.groups;
	j.out = d->o / j.groups;
	j.bundle = sl_cpu_min(j.groups, sl_cpu_max(1, j.simd->panel / 2 / sl_cpu_max(j.in, j.out)));
	j.bundles = sl_cpu_blocks(j.groups, j.bundle);
	if (is_bundled(&j)) {
		list_lanes(&j);
		most_taps = sl_cpu_min(MOST_TAPS, MOST_TERMS / sl_cpu_max(j.in, j.out));
	}
	j.products = sl_cpu_blocks(j.taps, most_taps);
	j.product_taps = sl_cpu_blocks(j.taps, j.products);
	j.bands = sl_bands_of(d);
	j.data_bands = sl_bands_of(&(struct sl_conv_dims){.n = d->n, .out_h = d->h});
	j.span_bands = sl_cpu_blocks(j.bands.all, most_spans(&j));
	j.spans = sl_cpu_blocks(j.bands.all, j.span_bands);
	j.part = workspace;
	j.packed = j.part + most_spans(&j) * part_floats(&j);
	j.scratch = j.packed + j.bundles * j.products * packed_floats(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, NULL, op->in_shape[0].dim[0]);
	const struct job j = job_of(op, &d, be, NULL);

	return (size_t)(most_spans(&j) * part_floats(&j) + j.bundles * j.products * packed_floats(&j) +
			sl_cpu_threads(be) * scratch_floats(&j)) *
	       sizeof(float);
}

static struct job open_job(const struct sl_conv_call *call)
{
	struct job j = job_of(call->op, &call->d, call->be, call->workspace);

	j.call = call;
	return j;
}

/* ---- weights */

static int taps_of(const struct job *j, int64_t product)
{
	return (int)sl_cpu_min(j->product_taps, j->taps - product * j->product_taps);
}

/* The weights of a product: a bundle's as they are, [taps·in, lanes] for forward and [taps·out, lanes] for dX; of a
 * wide group packed. */
static struct sl_gemm_weights packed_at(const struct job *j, int64_t index, int64_t product, bool back)
{
	const int taps = taps_of(j, product);

	return (struct sl_gemm_weights){j->simd, j->packed + (index * j->products + product) * packed_floats(j),
					taps * (back ? j->out : j->in), weight_row(j, back), false};
}

/* Writes the weights of output channel o of a bundle, for some taps, to a product's matrix. */
static void spread(const struct job *j, float *to, const float *w, int64_t o, int taps, bool back)
{
	const int64_t ld = weight_row(j, back);

	for (int t = 0; t < taps; t++, w += j->in) {
		if (back)
			memcpy(to + (t * j->out + o % j->out) * ld + o / j->out * j->in, w, (size_t)j->in * sizeof *w);
		for (int64_t i = 0; i < j->in && !back; i++)
			to[(t * j->in + i) * ld + o] = w[i];
	}
}

static void pack(const struct job *j, int64_t task, int worker, bool back)
{
	const int64_t product = task % j->products;
	const struct bundle b = bundle_at(j, task / j->products);
	const struct sl_gemm_weights w = packed_at(j, task / j->products, product, back);
	float *matrix = is_bundled(j) ? w.packed : j->scratch + worker * scratch_floats(j);

	memset(matrix, 0, (size_t)(w.depth * w.n) * sizeof *matrix);
	for (int64_t o = 0; o < b.out; o++)
		spread(j, matrix, j->call->w + ((b.out_at + o) * j->taps + product * j->product_taps) * j->in, o,
		       taps_of(j, product), back);
	if (!is_bundled(j))
		(void)sl_gemm_pack_here(j->simd, w.packed, matrix, w.depth, w.n, w.n, 1);
}

static void pack_forward(void *arg, int64_t task, int worker)
{
	pack(arg, task, worker, false);
}

static void pack_back(void *arg, int64_t task, int worker)
{
	pack(arg, task, worker, true);
}

/* ---- rows */

/* Rows of an image [h, w, all], spread: pixel (a, b) is the image's (a/step, b/step), or 0 where there is none. */
struct image {
	const float *from;
	int64_t h, w, all, step;
};

/* Some rows of a bundle's channels, [rows, wide, channels], from pixel (top, left) on. */
struct rows {
	float *to;
	int64_t top, left, rows, wide, channels;
};

static void copy_rows(const struct rows *r, const struct image *x)
{
	memset(r->to, 0, (size_t)(r->rows * r->wide * r->channels) * sizeof *r->to);
	for (int64_t a = 0; a < r->rows; a++) {
		const int64_t h = r->top + a;
		const bool inside = h >= 0 && h % x->step == 0 && h / x->step < x->h;
		float *to = r->to + a * r->wide * r->channels;

		for (int64_t w = 0; w < x->w && inside; w++) {
			const int64_t at = w * x->step - r->left;

			if (at >= 0 && at < r->wide)
				memcpy(to + at * r->channels, x->from + (h / x->step * x->w + w) * x->all,
				       (size_t)r->channels * sizeof *to);
		}
	}
}

/* The input rows of a band of Y. */
static struct rows input_rows(const struct job *j, const struct sl_band *band, const struct bundle *b, int worker)
{
	const struct sl_conv_dims *d = &j->d;
	const struct rows r = {.to = j->scratch + worker * scratch_floats(j),
			       .top = band->from * d->stride - d->pad,
			       .left = -d->pad,
			       .rows = (band->to - band->from - 1) * d->stride + reach(d->kh, d->dilation) + 1,
			       .wide = (d->out_w - 1) * d->stride + reach(d->kw, d->dilation) + 1,
			       .channels = b->in};

	copy_rows(&r, &(struct image){j->call->x + band->n * d->h * d->w * d->c + b->in_at, d->h, d->w, d->c, 1});
	return r;
}

/* The rows of dY for a band of dX. */
static struct rows gradient_rows(const struct job *j, const struct sl_band *band, const struct bundle *b, int worker)
{
	const struct sl_conv_dims *d = &j->d;
	const struct rows r = {.to = j->scratch + worker * scratch_floats(j),
			       .top = band->from + d->pad - reach(d->kh, d->dilation),
			       .left = d->pad - reach(d->kw, d->dilation),
			       .rows = band->to - band->from + reach(d->kh, d->dilation),
			       .wide = d->w + reach(d->kw, d->dilation),
			       .channels = b->out};
	const float *dy = j->call->dy + band->n * d->out_h * d->out_w * d->o + b->out_at;

	copy_rows(&r, &(struct image){dy, d->out_h, d->out_w, d->o, d->stride});
	return r;
}

/* The values under a tap for row `row` of the band; turned: the window is rotated by 180°. */
static const float *under(const struct job *j, const struct rows *r, int64_t row, int64_t tap, bool turned)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t at = turned ? j->taps - 1 - tap : tap;

	return r->to + ((row + at / d->kw * d->dilation) * r->wide + at % d->kw * d->dilation) * r->channels;
}

/* y [pixels, channels] of one row = or += the products of all taps. */
static void row_products(const struct job *j, const struct rows *r, int64_t index, int64_t row, bool back, float *y,
			 bool add)
{
	const struct sl_conv_dims *d = &j->d;
	const struct bundle b = bundle_at(j, index);
	const int64_t step = back ? 1 : d->stride, ldy = back ? d->c : d->o, n = back ? d->w : d->out_w;
	const float *seg[MOST_TAPS];

	for (int64_t p = 0; p < j->products; p++) {
		const struct sl_gemm_weights w = packed_at(j, index, p, back);
		const int taps = taps_of(j, p);

		for (int t = 0; t < taps; t++)
			seg[t] = under(j, r, row * step, p * j->product_taps + t, back);
		if (is_bundled(j))
			j->simd->group_rows(y, ldy, seg, taps, step * r->channels, j->lane[back],
					    (int)(back ? j->out : j->in), w.packed, n, (int)(back ? b.in : b.out),
					    add || p > 0);
		else
			sl_gemm_rows(&w, y, ldy, seg, taps, step * r->channels, n, add || p > 0,
				     &(struct sl_prefetch){0});
	}
}

/* ---- forward and dX */

static void forward_task(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	const struct bundle b = bundle_at(j, task % j->bundles);
	const struct sl_band band = sl_band_at(&j->bands, task / j->bundles);
	const struct rows r = input_rows(j, &band, &b, worker);
	float *y = j->call->y + (band.n * d->out_h + band.from) * d->out_w * d->o + b.out_at;

	for (int64_t row = 0; row < band.to - band.from; row++, y += d->out_w * d->o) {
		row_products(j, &r, task % j->bundles, row, false, y, false);
		for (int64_t w = 0; w < d->out_w && j->call->bias != NULL; w++)
			j->simd->sum(y + w * d->o, y + w * d->o, j->call->bias + b.out_at, b.out);
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);

	sl_pool_run(call->be->pool, j.bundles * j.products, pack_forward, &j);
	sl_pool_run(call->be->pool, j.bands.all * j.bundles, forward_task, &j);
}

static void data_task(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	const struct bundle b = bundle_at(j, task % j->bundles);
	const struct sl_band band = sl_band_at(&j->data_bands, task / j->bundles);
	const struct rows r = gradient_rows(j, &band, &b, worker);
	float *dx = j->call->dx + (band.n * d->h + band.from) * d->w * d->c + b.in_at;

	for (int64_t row = 0; row < band.to - band.from; row++, dx += d->w * d->c)
		row_products(j, &r, task % j->bundles, row, true, dx, j->call->add);
}

/* ---- dW */

static void weight_band(const struct job *j, float *dw, const struct sl_band *band, const struct bundle *b, int worker)
{
	const struct sl_conv_dims *d = &j->d;
	const struct rows r = input_rows(j, band, b, worker);
	const float *dy = j->call->dy + (band->n * d->out_h + band->from) * d->out_w * d->o + b->out_at;
	const int64_t ldx = d->stride * b->in, tap = j->in * weight_row(j, false);

	for (int64_t row = 0; row < band->to - band->from; row++, dy += d->out_w * d->o)
		for (int64_t t = 0; t < j->taps; t++) {
			const float *x = under(j, &r, row * d->stride, t, false);

			if (is_bundled(j))
				j->simd->group_outer(dw + t * tap, j->lane[0], (int)j->in, x, ldx, dy, d->o, d->out_w,
						     (int)b->out);
			else
				j->simd->gemm_outer(dw + t * tap, j->out, x, ldx, j->in, dy, d->o, j->out, d->out_w,
						    &(struct sl_prefetch){0});
		}
}

/* dW of one bundle over a span of bands, which are the steps. The task of the first bundle also sums dbias, for all. */
static void weight_task(void *arg, int64_t task, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t index = task % j->bundles, span = task / j->bundles, o = j->d.o;
	const struct bundle b = bundle_at(j, index);
	const int64_t end = sl_cpu_min(j->bands.all, (span + 1) * j->span_bands);
	float *part = j->part + span * part_floats(j), *dw = part + index * weight_floats(j);
	float *db = part + sl_cpu_line(j->bundles * weight_floats(j));

	if (s->at == 0)
		memset(dw, 0, (size_t)weight_floats(j) * sizeof *dw);
	if (s->at == 0 && index == 0)
		memset(db, 0, (size_t)o * sizeof *db);
	for (int64_t at = span * j->span_bands + s->at; at < end;) {
		const struct sl_band band = sl_band_at(&j->bands, at);
		const int64_t rows = (band.to - band.from) * j->d.out_w;

		weight_band(j, dw, &band, &b, s->worker);
		if (index == 0)
			j->simd->row_sum(db, j->call->dy + (band.n * j->d.out_h + band.from) * j->d.out_w * o, o, rows,
					 (int)o);
		if (sl_pool_stop(s, ++at - span * j->span_bands))
			return;
	}
}

/* Adds the spans' dW of output channel o. */
static void add_weights(void *arg, int64_t o, int worker)
{
	const struct job *j = arg;
	const int64_t index = o / (j->bundle * j->out), ld = weight_row(j, false), k = j->taps * j->in;
	const float *part = j->part + index * weight_floats(j) + o % (j->bundle * j->out);
	float *dw = j->call->dw + o * k;

	for (int64_t span = 0; span < j->spans; span++, part += part_floats(j))
		for (int64_t i = 0; i < k; i++)
			dw[i] += part[i * ld];
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);

	if (call->dw != NULL || call->dbias != NULL)
		sl_pool_run_long(call->be->pool, j.spans * j.bundles, weight_task, &j);
	if (call->dw != NULL)
		sl_pool_run(call->be->pool, j.d.o, add_weights, &j);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + sl_cpu_line(j.bundles * weight_floats(&j)), j.d.o,
			      part_floats(&j), j.spans);
	if (call->dx == NULL)
		return;
	sl_pool_run(call->be->pool, j.bundles * j.products, pack_back, &j);
	sl_pool_run(call->be->pool, j.data_bands.all * j.bundles, data_task, &j);
}

bool sl_conv_group_takes(const struct sl_op *op)
{
	return sl_op_is_depthwise(op) ? !sl_conv_dw_takes(op) : op->u.conv.groups > 1;
}

const struct sl_conv_kernel sl_conv_group = {workspace_bytes, forward, backward};
