/* Convolutions with groups of several channels, and depthwise ones that conv_dw.c does not take. Narrow groups are
 * computed several at a time, as a bundle whose channels fill a register (body_group.h); a wide group is a bundle of
 * its own, and takes the products of dense layers. A bundle's channels of some input rows are copied out, with zeros
 * around the image, and those of narrow groups interleaved. Then the values under a tap of the window are rows of a
 * matrix, [pixels of an output row, in], for a product with the tap's weights [in, out]. dX is the same product, from
 * dY. With a stride, each of its pixels gets values by some of the taps alone, by which of stride² classes it is in. dW
 * is summed over spans of bands, which depend on the shape alone, then over the spans. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/group_rows.h"

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
	/* Lanes of a bundle's inputs and outputs: where an interleaved channel is in the tensor, and the reverse. */
	int32_t mixed[2][MOST_LANES], sorted[2][MOST_LANES];
	int64_t in, out;                   /* channels of a group */
	int64_t groups, bundle, bundles;   /* all groups; groups of a bundle, of which the last may have fewer */
	int64_t taps, product_taps;        /* KH·KW; most taps of a product */
	struct sl_bands bands, data_bands; /* rows of Y, of dX */
	int64_t spans, span_bands;
	float *part;    /* [spans, dW of all bundles and dbias] */
	float *packed;  /* weights of each tap of each bundle */
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

/* A tap's weights, of a bundle. */
static int64_t packed_floats(const struct job *j)
{
	return sl_cpu_max(sl_gemm_packed_floats(j->in, weight_row(j, false)),
			  sl_gemm_packed_floats(j->out, weight_row(j, true)));
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

/* Channel i of group g is lane i·bundle + g. The lanes behind a bundle's last channel take any. */
static void list_lanes(struct job *j)
{
	for (int back = 0; back < 2; back++) {
		const int64_t channels = back ? j->out : j->in;

		for (int64_t k = 0; k < channels * j->bundle; k++) {
			j->mixed[back][k] = (int32_t)(k % j->bundle * channels + k / j->bundle);
			j->sorted[back][k] = (int32_t)(k % channels * j->bundle + k / channels);
		}
	}
}

/* A power of two, so that one load can repeat a channel of all its groups. */
static int64_t bundle_of(int64_t groups, int64_t most)
{
	int64_t bundle = 1;

	while (bundle < groups && 2 * bundle <= most)
		bundle *= 2;
	return bundle;
}

static struct job job_of(const struct sl_op *op, const struct sl_conv_dims *d, struct sl_backend *be, float *workspace)
{
	struct job j = {
		.simd = sl_cpu_simd_of(be), .d = *d, .groups = op->u.conv.groups, .taps = (int64_t)d->kh * d->kw};
	int64_t most_taps = MOST_TAPS;

	j.in = d->c / j.groups;
	j.out = d->o / j.groups;
	j.bundle = bundle_of(j.groups, j.simd->panel / 2 / sl_cpu_max(j.in, j.out));
	j.bundles = sl_cpu_blocks(j.groups, j.bundle);
	if (is_bundled(&j)) {
		list_lanes(&j);
		most_taps = sl_cpu_min(MOST_TAPS, MOST_TERMS / sl_cpu_max(j.in, j.out));
	}
	j.product_taps = sl_cpu_blocks(j.taps, sl_cpu_blocks(j.taps, most_taps));
	j.bands = sl_bands_of(d);
	j.data_bands = sl_bands_of(&(struct sl_conv_dims){.n = d->n, .out_h = d->h});
	j.span_bands = sl_cpu_blocks(j.bands.all, most_spans(&j));
	j.spans = sl_cpu_blocks(j.bands.all, j.span_bands);
	j.part = workspace;
	j.packed = j.part + most_spans(&j) * part_floats(&j);
	j.scratch = j.packed + j.bundles * j.taps * packed_floats(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, NULL, op->in_shape[0].dim[0]);
	const struct job j = job_of(op, &d, be, NULL);

	return (size_t)(most_spans(&j) * part_floats(&j) + j.bundles * j.taps * packed_floats(&j) +
			sl_cpu_threads(be) * scratch_floats(&j)) *
	       sizeof(float);
}

static struct job open_job(const struct sl_conv_call *call)
{
	struct job j = job_of(call->op, &call->d, call->be, call->workspace);

	j.call = call;
	return j;
}

/* ---- classes of pixels */

/* Taps of a window's side that reach the same pixels of dX: first, first + step, … */
struct run {
	int64_t first, step, n;
	int64_t before; /* taps of runs with a smaller `first` */
};

/* Taps so far apart reach the same pixels. */
static int64_t step_of(const struct sl_conv_dims *d)
{
	int64_t a = d->stride, b = d->dilation;

	while (b) {
		const int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return d->stride / a;
}

static struct run run_at(int taps, int64_t step, int64_t first)
{
	struct run r = {first, step, (taps - first + step - 1) / step, 0};

	for (int64_t f = 0; f < first; f++)
		r.before += (taps - f + step - 1) / step;
	return r;
}

/* The run that reaches a pixel; n is 0 if none does. */
static struct run run_of(int taps, const struct sl_conv_dims *d, int64_t step, int64_t pixel)
{
	for (int64_t f = 0; f < sl_cpu_min(step, taps); f++)
		if ((pixel + d->pad - f * d->dilation) % d->stride == 0)
			return run_at(taps, step, f);
	return (struct run){.step = 1};
}

/* A class of pixels, by the taps that reach them. Outputs are one class, with all taps. */
struct class
{
	struct run h, w;
};

static int64_t taps_of(const struct class *c)
{
	return c->h.n * c->w.n;
}

/* Taps of the classes before, by h.first, then w.first. */
static int64_t taps_before(const struct job *j, const struct class *c)
{
	return c->h.before * j->d.kw + c->h.n * c->w.before;
}

static struct class all_taps(const struct job *j)
{
	return (struct class){run_at(j->d.kh, 1, 0), run_at(j->d.kw, 1, 0)};
}

struct tap {
	int64_t h, w;
};

static struct tap tap_at(const struct class *c, int64_t i)
{
	return (struct tap){c->h.first + i / c->w.n * c->h.step, c->w.first + i % c->w.n * c->w.step};
}

/* ---- weights */

/* The weights of `taps` taps of a class, from `at` on: a bundle's as they are, [taps·in, lanes] for forward and
 * [taps·out, lanes] for dX; of a wide group packed. */
static struct sl_gemm_weights packed_at(const struct job *j, int64_t index, const struct class *c, int64_t at,
					int64_t taps, bool back)
{
	return (struct sl_gemm_weights){j->simd,
					j->packed + (index * j->taps + taps_before(j, c) + at) * packed_floats(j),
					taps * (back ? j->out : j->in), weight_row(j, back), false};
}

/* The lane of a bundle's output channel o, in rows of weights and of dW. */
static int64_t lane_of(const struct job *j, int64_t o)
{
	return is_bundled(j) ? j->sorted[1][o] : o;
}

/* Writes the weights of output channel o of a bundle, for a tap, to rows of a product's matrix. */
static void spread(const struct job *j, float *to, const float *w, int64_t o, bool back)
{
	const int64_t ld = weight_row(j, back), lane = lane_of(j, o);

	to += back ? lane / j->bundle * ld + lane % j->bundle : lane;
	for (int64_t i = 0; i < j->in; i++)
		to[i * (back ? j->bundle : ld)] = w[i];
}

static void pack_class(const struct job *j, int64_t index, const struct class *c, int worker, bool back)
{
	const struct bundle b = bundle_at(j, index);

	for (int64_t at = 0; at < taps_of(c); at += j->product_taps) {
		const int64_t taps = sl_cpu_min(j->product_taps, taps_of(c) - at), deep = back ? j->out : j->in;
		const struct sl_gemm_weights w = packed_at(j, index, c, at, taps, back);
		float *matrix = is_bundled(j) ? w.packed : j->scratch + worker * scratch_floats(j);

		memset(matrix, 0, (size_t)(w.depth * w.n) * sizeof *matrix);
		for (int64_t i = 0; i < taps; i++) {
			const struct tap t = tap_at(c, at + i);

			for (int64_t o = 0; o < b.out; o++)
				spread(j, matrix + i * deep * w.n,
				       j->call->w + ((b.out_at + o) * j->taps + t.h * j->d.kw + t.w) * j->in, o, back);
		}
		if (!is_bundled(j))
			(void)sl_gemm_pack_here(j->simd, w.packed, matrix, w.depth, w.n, w.n, 1, false);
	}
}

static void pack_forward(void *arg, int64_t index, int worker)
{
	const struct class all = all_taps(arg);

	pack_class(arg, index, &all, worker, false);
}

static void pack_back(void *arg, int64_t index, int worker)
{
	const struct job *j = arg;
	const int64_t step = step_of(&j->d), high = sl_cpu_min(step, j->d.kh), wide = sl_cpu_min(step, j->d.kw);

	for (int64_t i = 0; i < high * wide; i++) {
		const struct class c = {run_at(j->d.kh, step, i / wide), run_at(j->d.kw, step, i % wide)};

		pack_class(j, index, &c, worker, true);
	}
}

/* ---- rows */

static struct sl_group_rows rows_of(const struct job *j, const struct bundle *b, bool back, int worker)
{
	const int64_t channels = j->bundle * (back ? j->out : j->in);

	return (struct sl_group_rows){.to = j->scratch + worker * scratch_floats(j),
				      .channels = channels,
				      .simd = j->simd,
				      .lanes = is_bundled(j) ? j->mixed[back] : NULL,
				      .present = back ? b->out : b->in};
}

/* The input rows of a band of Y. */
static struct sl_group_rows input_rows(const struct job *j, const struct sl_band *band, const struct bundle *b,
				       int worker)
{
	const struct sl_conv_dims *d = &j->d;
	struct sl_group_rows r = rows_of(j, b, false, worker);

	r.top = band->from * d->stride - d->pad;
	r.left = -d->pad;
	r.rows = (band->to - band->from - 1) * d->stride + reach(d->kh, d->dilation) + 1;
	r.wide = (d->out_w - 1) * d->stride + reach(d->kw, d->dilation) + 1;
	sl_group_copy_rows(
		&r, &(struct sl_group_image){j->call->x + band->n * d->h * d->w * d->c + b->in_at, d->h, d->w, d->c});
	return r;
}

static int64_t floor_of(int64_t n, int64_t by)
{
	return n / by - (n % by < 0);
}

/* The rows of dY for a band of dX. */
static struct sl_group_rows gradient_rows(const struct job *j, const struct sl_band *band, const struct bundle *b,
					  int worker)
{
	const struct sl_conv_dims *d = &j->d;
	const float *dy = j->call->dy + band->n * d->out_h * d->out_w * d->o + b->out_at;
	struct sl_group_rows r = rows_of(j, b, true, worker);

	r.top = floor_of(band->from + d->pad - reach(d->kh, d->dilation), d->stride);
	r.left = floor_of(d->pad - reach(d->kw, d->dilation), d->stride);
	r.rows = (band->to - 1 + d->pad) / d->stride - r.top + 1;
	r.wide = (d->w - 1 + d->pad) / d->stride - r.left + 1;
	sl_group_copy_rows(&r, &(struct sl_group_image){dy, d->out_h, d->out_w, d->o});
	return r;
}

static const float *pixel(const struct sl_group_rows *r, int64_t h, int64_t w)
{
	return r->to + ((h - r->top) * r->wide + w - r->left) * r->channels;
}

/* Where a class's taps find their values, for one pixel of Y or dX. */
struct walk {
	const float *at;  /* of the next tap */
	int64_t row, tap; /* floats from a row of taps to the next row; from a tap to the next */
	int64_t w, wide;  /* the next tap's place in its row; taps of a row */
};

/* The values under the taps of output (h, w). */
static struct walk under(const struct job *j, const struct sl_group_rows *r, int64_t h, int64_t w)
{
	const struct sl_conv_dims *d = &j->d;

	return (struct walk){pixel(r, h * d->stride - d->pad, w * d->stride - d->pad),
			     d->dilation * r->wide * r->channels, d->dilation * r->channels, 0, d->kw};
}

/* The values of dY that a class's taps bring to pixel (h, w) of dX. */
static struct walk above(const struct job *j, const struct sl_group_rows *r, const struct class *c, int64_t h,
			 int64_t w)
{
	const struct sl_conv_dims *d = &j->d;
	const int64_t apart = -c->h.step * d->dilation / d->stride * r->channels;

	return (struct walk){pixel(r, (h + d->pad - c->h.first * d->dilation) / d->stride,
				   (w + d->pad - c->w.first * d->dilation) / d->stride),
			     apart * r->wide, apart, 0, c->w.n};
}

static const float *next_tap(struct walk *t)
{
	const float *at = t->at + t->w * t->tap;

	if (++t->w == t->wide) {
		t->w = 0;
		t->at += t->row;
	}
	return at;
}

/* Pixels of a row of Y or dX: w, w + step, … */
struct line {
	int64_t h, w, step, n;
};

/* y [pixels, channels] = or += the products of a class's taps. */
static void line_products(const struct job *j, const struct sl_group_rows *r, int64_t index, const struct class *c,
			  const struct line *l, bool back, float *y, bool add)
{
	const struct bundle b = bundle_at(j, index);
	const int64_t ldx = (back ? 1 : j->d.stride) * r->channels, ldy = l->step * (back ? j->d.c : j->d.o);
	const int64_t n = taps_of(c), out = back ? b.in : b.out;
	const float *seg[MOST_TAPS];
	struct walk walk;

	for (int64_t i = 0; i < l->n && n == 0 && !add; i++)
		memset(y + i * ldy, 0, (size_t)out * sizeof *y);
	if (n > 0)
		walk = back ? above(j, r, c, l->h, l->w) : under(j, r, l->h, l->w);
	for (int64_t at = 0; at < n; at += j->product_taps) {
		const int taps = (int)sl_cpu_min(j->product_taps, n - at);
		const struct sl_gemm_weights w = packed_at(j, index, c, at, taps, back);

		for (int t = 0; t < taps; t++)
			seg[t] = next_tap(&walk);
		if (is_bundled(j))
			j->simd->group_rows(y, ldy, seg, taps, ldx, j->sorted[!back], (int)j->bundle,
					    (int)(back ? j->out : j->in), w.packed, l->n, (int)out, add || at > 0);
		else
			sl_gemm_rows(&w, y, ldy, seg, taps, ldx, l->n, add || at > 0, &(struct sl_prefetch){0});
	}
}

/* ---- forward and dX */

static void forward_task(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	const struct bundle b = bundle_at(j, task % j->bundles);
	const struct sl_band band = sl_band_at(&j->bands, task / j->bundles);
	const struct sl_group_rows r = input_rows(j, &band, &b, worker);
	const struct class all = all_taps(j);
	float *y = j->call->y + (band.n * d->out_h + band.from) * d->out_w * d->o + b.out_at;

	for (int64_t h = band.from; h < band.to; h++, y += d->out_w * d->o) {
		line_products(j, &r, task % j->bundles, &all, &(struct line){h, 0, 1, d->out_w}, false, y, false);
		for (int64_t w = 0; w < d->out_w && j->call->bias != NULL; w++)
			j->simd->sum(y + w * d->o, y + w * d->o, j->call->bias + b.out_at, b.out);
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);

	sl_pool_run(call->be->pool, j.bundles, pack_forward, &j);
	sl_pool_run(call->be->pool, j.bands.all * j.bundles, forward_task, &j);
}

static void data_task(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const struct sl_conv_dims *d = &j->d;
	const struct bundle b = bundle_at(j, task % j->bundles);
	const struct sl_band band = sl_band_at(&j->data_bands, task / j->bundles);
	const struct sl_group_rows r = gradient_rows(j, &band, &b, worker);
	const int64_t step = step_of(d);
	float *dx = j->call->dx + band.n * d->h * d->w * d->c + b.in_at;

	for (int64_t h = band.from; h < band.to; h++) {
		struct class c = {.h = run_of(d->kh, d, step, h)};

		for (int64_t w = 0; w < sl_cpu_min(d->stride, d->w); w++) {
			const struct line l = {h, w, d->stride, (d->w - 1 - w) / d->stride + 1};

			c.w = run_of(d->kw, d, step, w);
			line_products(j, &r, task % j->bundles, &c, &l, true, dx + (h * d->w + w) * d->c, j->call->add);
		}
	}
}

/* ---- dW */

static void weight_band(const struct job *j, float *dw, const struct sl_band *band, const struct bundle *b, int worker)
{
	const struct sl_conv_dims *d = &j->d;
	const struct sl_group_rows r = input_rows(j, band, b, worker);
	const float *dy = j->call->dy + (band->n * d->out_h + band->from) * d->out_w * d->o + b->out_at;
	const int64_t ldx = d->stride * r.channels, tap = j->in * weight_row(j, false);

	for (int64_t h = band->from; h < band->to; h++, dy += d->out_w * d->o) {
		struct walk walk = under(j, &r, h, 0);

		for (int64_t t = 0; t < j->taps; t++) {
			const float *x = next_tap(&walk);

			if (is_bundled(j))
				j->simd->group_outer(dw + t * tap, j->mixed[1], (int)j->bundle, (int)j->in, x, ldx, dy,
						     d->o, d->out_w, (int)b->out);
			else
				j->simd->gemm_outer(dw + t * tap, j->out, x, ldx, j->in, dy, d->o, j->out, d->out_w,
						    &(struct sl_prefetch){0});
		}
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
		if (index == 0 && j->call->dbias != NULL)
			j->simd->row_sum(db, j->call->dy + (band.n * j->d.out_h + band.from) * j->d.out_w * o, o, rows,
					 (int)o);
		if (sl_pool_stop(s, ++at - span * j->span_bands))
			return;
	}
}

static int64_t lane_blocks(const struct job *j)
{
	return sl_cpu_blocks(j->bundle * j->out, MOST_LANES);
}

/* Adds the spans' dW of some of a bundle's output channels. */
static void add_weights(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	const int64_t index = task / lane_blocks(j), first = task % lane_blocks(j) * MOST_LANES;
	const struct bundle b = bundle_at(j, index);
	const int64_t ld = weight_row(j, false), k = j->taps * j->in, n = sl_cpu_min(MOST_LANES, ld - first);
	const int64_t end = sl_cpu_min(b.out, first + MOST_LANES);
	float *dw = j->call->dw + b.out_at * k, sum[MOST_LANES] = {0};

	for (int64_t i = 0; i < k; i++) {
		const float *part = j->part + index * weight_floats(j) + i * ld + first;

		for (int64_t o = first; o < end; o++)
			sum[lane_of(j, o) - first] = dw[o * k + i];
		for (int64_t span = 0; span < j->spans; span++, part += part_floats(j))
			for (int64_t lane = 0; lane < n; lane++)
				sum[lane] += part[lane];
		for (int64_t o = first; o < end; o++)
			dw[o * k + i] = sum[lane_of(j, o) - first];
	}
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call);

	if (call->dw != NULL || call->dbias != NULL)
		sl_pool_run_long(call->be->pool, j.spans * j.bundles, weight_task, &j);
	if (call->dw != NULL)
		sl_pool_run(call->be->pool, j.bundles * lane_blocks(&j), add_weights, &j);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + sl_cpu_line(j.bundles * weight_floats(&j)), j.d.o,
			      part_floats(&j), j.spans);
	if (call->dx == NULL)
		return;
	sl_pool_run(call->be->pool, j.bundles, pack_back, &j);
	sl_pool_run(call->be->pool, j.data_bands.all * j.bundles, data_task, &j);
}

bool sl_conv_group_takes(const struct sl_op *op)
{
	return sl_op_is_depthwise(op) ? !sl_conv_dw_takes(op) : op->u.conv.groups > 1;
}

const struct sl_conv_kernel sl_conv_group = {workspace_bytes, forward, backward};
