/* Depthwise 3×3 convolution, pad 1, stride 1 or 2, by rows. Each worker keeps the three newest rows of x (and of dy) in
 * a ring of its own, padded by a zero column on either side, so that the row kernels know no edges; batchnorms beside
 * the convolution are applied as a row enters its ring. Backward makes dX and dW in one pass. Work is cut in bands of
 * output rows; bands are summed in spans whose number depends on the shape. */
#include <string.h>

#include "kernels/cpu/conv.h"

enum {
	MAX_SPANS = 64,
	PART_FLOATS = 16384 /* that a part of a batchnorm is told about at least: small planes share one */
};

struct job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	struct sl_bands bands;
	int64_t parts, part_bands; /* of a batchnorm beside it, and tasks of forward */
	int64_t spans, span_parts;
	int64_t x_row, dy_row; /* floats of a padded row */
	float *flipped;        /* [9, C] */
	float *part;           /* [spans, 9·C + C] */
	struct sl_conv_bn bn;
	float *scratch; /* per worker */
};

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line(10 * j->d.c);
}

static int64_t worker_floats(const struct job *j)
{
	return 4 * j->x_row + 4 * j->dy_row + j->x_row;
}

static struct job job_of(const struct sl_conv_dims *d, float *workspace)
{
	struct job j = {.d = *d};

	j.bands = sl_bands_of(d);
	j.part_bands = sl_cpu_max(
		1, sl_cpu_min(sl_cpu_blocks(j.bands.all, MAX_SPANS), PART_FLOATS / (j.bands.rows * d->out_w * d->c)));
	j.parts = sl_cpu_blocks(j.bands.all, j.part_bands);
	j.span_parts = sl_cpu_blocks(j.parts, MAX_SPANS);
	j.spans = sl_cpu_blocks(j.parts, j.span_parts);
	j.x_row = sl_cpu_line((d->w + 2) * d->c);
	j.dy_row = sl_cpu_line((d->out_w + 2) * d->c);
	j.flipped = workspace;
	j.part = j.flipped + sl_cpu_line(9 * d->c);
	j.scratch = j.part + MAX_SPANS * part_floats(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, op->in_shape[0].dim[0]);
	struct job j = job_of(&d, NULL);

	return (size_t)(sl_cpu_line(9 * d.c) + MAX_SPANS * part_floats(&j) + sl_cpu_threads(be) * worker_floats(&j) +
			sl_conv_bn_floats(&d, sl_cpu_max(j.parts, MAX_SPANS))) *
	       sizeof(float);
}

static struct job open_job(const struct sl_conv_call *call, bool backward)
{
	struct job j = job_of(&call->d, call->workspace);

	j.call = call;
	j.simd = sl_cpu_simd_of(call->be);
	j.bn = sl_conv_bn_open(call, backward, j.scratch + sl_cpu_threads(call->be) * worker_floats(&j));
	return j;
}

/* ---- rings */

/* Rows of one image, padded; the slot of row h is h mod 3. */
struct ring {
	const struct sl_cpu_simd *simd;
	const struct sl_cpu_bn *bn; /* put each row through it; NULL: copy */
	enum sl_act act;
	const float *src, *bn_x; /* image; bn_x: of the batchnorm's input, where src is a gradient at its output */
	float *slot[3], *zero;
	int64_t held[3]; /* row in each slot, −1 none */
	int64_t h, w, c;
};

static struct ring ring_open(const struct job *j, float *memory, int64_t row_floats, int64_t h, int64_t w)
{
	int64_t c = j->d.c;
	struct ring r = {.simd = j->simd, .zero = memory + 3 * row_floats, .h = h, .w = w, .c = c};

	for (int i = 0; i < 3; i++) {
		r.slot[i] = memory + i * row_floats;
		memset(r.slot[i], 0, (size_t)c * sizeof(float));
		memset(r.slot[i] + (w + 1) * c, 0, (size_t)c * sizeof(float));
	}
	memset(r.zero, 0, (size_t)row_floats * sizeof(float));
	return r;
}

static struct ring x_ring(const struct job *j, float *memory)
{
	struct ring r = ring_open(j, memory, j->x_row, j->d.h, j->d.w);

	r.bn = j->call->before != NULL ? &j->bn.before : NULL;
	r.act = j->bn.act_before;
	return r;
}

static struct ring dy_ring(const struct job *j, float *memory)
{
	struct ring r = ring_open(j, memory, j->dy_row, j->d.out_h, j->d.out_w);

	r.bn = j->call->after != NULL ? &j->bn.after : NULL;
	r.act = j->bn.act_after;
	return r;
}

static void ring_image(struct ring *r, const float *src, const float *bn_x, int64_t n)
{
	int64_t image = r->h * r->w * r->c;

	r->src = src + n * image;
	r->bn_x = bn_x != NULL ? bn_x + n * image : NULL;
	for (int i = 0; i < 3; i++)
		r->held[i] = -1;
}

/* The padded row h; zeros above and below the image. */
static const float *ring_row(struct ring *r, int64_t h)
{
	int i = (int)(h % 3);
	int64_t at = h * r->w * r->c;
	float *to;

	if (h < 0 || h >= r->h)
		return r->zero;
	to = r->slot[i] + r->c;
	if (r->held[i] == h)
		return r->slot[i];
	if (r->bn == NULL)
		r->simd->copy_row(to, r->src + at, r->w * r->c);
	else if (r->bn_x == NULL)
		r->simd->bn_forward(to, r->src + at, r->bn, r->c, r->w, (int)r->c, r->act);
	else
		r->simd->bn_backward(to, r->src + at, r->bn_x + at, r->bn, r->w, (int)r->c, r->act, false);
	r->held[i] = h;
	return r->slot[i];
}

static void x_rows(struct ring *x, const float *rows[3], int64_t out_row, int stride)
{
	for (int i = 0; i < 3; i++)
		rows[i] = ring_row(x, out_row * stride - 1 + i);
}

static int64_t part_end(const struct job *j, int64_t part)
{
	return sl_cpu_min(j->bands.all, (part + 1) * j->part_bands);
}

/* ---- forward */

static void forward_band(const struct job *j, struct ring *x, struct sl_band b, float *part, bool first)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_conv_dims *d = &j->d;

	ring_image(x, call->x, NULL, b.n);
	for (int64_t o = b.from; o < b.to; o++) {
		float *y = call->y + (b.n * d->out_h + o) * d->out_w * d->c;
		const float *rows[3];

		x_rows(x, rows, o, d->stride);
		j->simd->dw_row(y, rows, call->w, (int)d->out_w, (int)d->c, d->stride);
		if (call->bias != NULL)
			j->simd->add_row(y, call->bias, d->out_w, (int)d->c);
		if (call->after == NULL || !call->training)
			continue;
		if (first && o == b.from)
			sl_bn_begin_stats(part, y, d->c, (struct sl_bn_range){0, d->c});
		sl_bn_add_stats(j->simd, part, y, d->out_w, d->c, (struct sl_bn_range){0, d->c});
	}
}

static void forward_part(void *arg, int64_t part, int worker)
{
	const struct job *j = arg;
	struct ring x = x_ring(j, j->scratch + worker * worker_floats(j));
	int64_t from = part * j->part_bands;

	for (int64_t index = from; index < part_end(j, part); index++)
		forward_band(j, &x, sl_band_at(&j->bands, index), j->bn.parts + part * j->bn.stride, index == from);
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, false);

	sl_pool_run(call->be->pool, j.parts, forward_part, &j);
	sl_conv_bn_finish(call, &j.bn, j.parts, false);
}

/* ---- backward */

/* A row of dX: made in place, or in scratch and added; then its share of the sums of `before`. */
struct data_row {
	float *dx, *to;
	int64_t at; /* offset in x and dx */
};

static struct data_row data_row(const struct job *j, int64_t n, int64_t h, float *scratch)
{
	int64_t at = (n * j->d.h + h) * j->d.w * j->d.c;
	float *dx = j->call->dx + at;

	return (struct data_row){dx, j->call->add ? scratch : dx, at};
}

static void end_data_row(const struct job *j, const struct data_row *row, float *part)
{
	bool bn = sl_conv_has_bn_before(j->call);

	if (j->call->before != NULL && !bn)
		j->simd->act_backward(row->to, row->to, j->call->x + row->at, j->d.w * j->d.c, j->bn.act_before, false);
	if (j->call->add)
		j->simd->sum(row->dx, row->dx, row->to, j->d.w * j->d.c);
	if (bn)
		sl_bn_add_sums(j->simd, part, row->dx, j->call->x + row->at, &j->bn.before, j->call->before->op, j->d.w,
			       (struct sl_bn_range){0, j->d.c});
}

/* The rows of dX that belong to output row o: o itself at stride 1; 2o and 2o + 1 at stride 2. An even row saw the
 * middle weights of output o; an odd one, the lower weights of output o and the upper ones of output o + 1. */
static void data_rows(const struct job *j, struct ring *dy, int64_t n, int64_t o, float *part, float *scratch)
{
	const struct sl_conv_dims *d = &j->d;
	const float *w = j->call->w;
	int c = (int)d->c;

	if (d->stride == 1) {
		const float *rows[3] = {ring_row(dy, o - 1), ring_row(dy, o), ring_row(dy, o + 1)};
		struct data_row row = data_row(j, n, o, scratch);

		j->simd->dw_row(row.to, rows, j->flipped, (int)d->w, c, 1);
		end_data_row(j, &row, part);
		return;
	}
	for (int64_t h = 2 * o; h < sl_cpu_min(d->h, 2 * o + 2); h++) {
		bool odd = h & 1;
		const float *rows[2] = {ring_row(dy, o) + c, odd ? ring_row(dy, o + 1) + c : NULL};
		const float *weights[2] = {odd ? w + 6 * c : w + 3 * c, w};
		struct data_row row = data_row(j, n, h, scratch);

		j->simd->dw_data_row2(row.to, rows, weights, odd && o + 1 < d->out_h ? 2 : 1, (int)d->w, c);
		end_data_row(j, &row, part);
	}
}

/* dX, and what it adds to dw, of one band. */
static void backward_band(const struct job *j, struct sl_band b, float *part, struct ring *x, struct ring *dy,
			  float *dw, float *scratch)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_conv_dims *d = &j->d;

	if (call->dw != NULL)
		ring_image(x, call->x, NULL, b.n);
	ring_image(dy, call->dy, call->after != NULL ? call->out : NULL, b.n);
	for (int64_t o = b.from; o < b.to; o++) {
		const float *rows[3];

		if (call->dx != NULL)
			data_rows(j, dy, b.n, o, part, scratch);
		if (call->dw != NULL) {
			x_rows(x, rows, o, d->stride);
			j->simd->dw_weight_row(dw, ring_row(dy, o) + d->c, rows, (int)d->out_w, (int)d->c, d->stride);
		}
		if (call->dbias != NULL)
			j->simd->row_sum(dw + 9 * d->c, ring_row(dy, o) + d->c, d->out_w, (int)d->c);
	}
}

static void backward_span(void *arg, int64_t span, int worker)
{
	const struct job *j = arg;
	float *scratch = j->scratch + worker * worker_floats(j), *dw = j->part + span * part_floats(j);
	struct ring x = x_ring(j, scratch), dy = dy_ring(j, scratch + 4 * j->x_row);
	int64_t end = sl_cpu_min(j->parts, (span + 1) * j->span_parts);

	memset(dw, 0, (size_t)(10 * j->d.c) * sizeof(float));
	for (int64_t p = span * j->span_parts; p < end; p++) {
		float *part = j->bn.parts + p * j->bn.stride;

		if (sl_conv_has_bn_before(j->call))
			sl_bn_begin_sums(part, j->d.c, (struct sl_bn_range){0, j->d.c});
		for (int64_t index = p * j->part_bands; index < part_end(j, p); index++)
			backward_band(j, sl_band_at(&j->bands, index), part, &x, &dy, dw,
				      scratch + 4 * j->x_row + 4 * j->dy_row);
	}
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, true);
	int64_t c = j.d.c;

	for (int i = 0; i < 9; i++)
		memcpy(j.flipped + i * c, call->w + (8 - i) * c, (size_t)c * sizeof(float));
	sl_pool_run(call->be->pool, j.spans, backward_span, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(call->be, call->dw, j.part, 9 * c, part_floats(&j), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + 9 * c, c, part_floats(&j), j.spans);
	sl_conv_bn_finish(call, &j.bn, j.parts, true);
}

const struct sl_conv_kernel sl_conv_dw3 = {workspace_bytes, forward, backward};
