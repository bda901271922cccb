/* Depthwise 3×3 convolution, pad 1, stride 1 or 2, by strips of channels.
 *
 * Each worker keeps the three newest rows of x (and of dy) of every strip in a ring of its own. A zero column
 * pads each row on either side, so that the row kernels have no edge cases. A batchnorm next to the
 * convolution is applied when a row enters its ring. A few output rows of one strip are computed before the
 * next strip: as many as keep all strips' data in the core's nearest caches. Backward computes dX and dW in one pass.
 * Bands of output rows divide the work; bands are summed in spans whose number depends on the shape alone. */
#include <string.h>

#include "kernels/cpu/conv.h"

enum {
	MAX_SPANS = 64,
	PART_FLOATS = 16384, /* a part of the batchnorm's sums covers up to so many floats: bands of small planes
			      * share a part */
	NEAR_FLOATS = 65536, /* most floats that these few rows of all strips touch: 256 KiB */
};

struct job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	struct sl_bands bands;
	int64_t parts, part_bands; /* parts of the batchnorm's sums, which are also forward's tasks; bands of a part */
	int64_t spans, span_parts;
	int64_t few;           /* output rows of one strip that are computed before the next strip */
	int64_t x_row, dy_row; /* floats of a padded row of one strip */
	float *flipped;        /* [9, C] */
	float *part;           /* [spans, 9·C + C] */
	struct sl_conv_bn bn;
	float *scratch; /* per worker */
};

static int64_t part_floats(const struct job *j)
{
	return sl_cpu_line(10 * j->d.c);
}

static int64_t strips_of(const struct sl_conv_dims *d)
{
	return sl_cpu_blocks(d->c, SL_DW_LANES);
}

/* Three rows of each strip, and one shared row of zeros. */
static int64_t ring_floats(const struct job *j, int64_t row)
{
	return (3 * strips_of(&j->d) + 1) * row;
}

static int64_t worker_floats(const struct job *j)
{
	return ring_floats(j, j->x_row) + ring_floats(j, j->dy_row) + j->x_row;
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
	j.few = sl_cpu_max(1, NEAR_FLOATS / (2 * (d->stride * d->w + d->out_w) * d->c));
	j.x_row = (d->w + 2) * SL_DW_LANES;
	j.dy_row = (d->out_w + 2) * SL_DW_LANES;
	j.flipped = workspace;
	j.part = j.flipped + sl_cpu_line(9 * d->c);
	j.scratch = j.part + MAX_SPANS * part_floats(&j);
	return j;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	struct sl_conv_dims d = sl_conv_dims_of(op, NULL, op->in_shape[0].dim[0]);
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

static bool has_bn_pre(const struct job *j)
{
	return sl_conv_has_bn_pre(j->call);
}

/* ---- rings */

/* Padded rows of one image. Row h of each strip is in the strip's slot h mod 3. */
struct ring {
	const struct sl_cpu_simd *simd;
	const struct sl_cpu_bn *bn; /* batchnorm applied to each row; NULL: the row is copied */
	enum sl_act act;
	const float *src, *bn_x; /* the image; with dy through a batchnorm, also its input x */
	float *memory, *zero;
	int64_t row;
	int64_t held[3]; /* row in each slot, −1: none */
	int64_t h, w, c;
};

/* One strip of a ring: its three slots, and the batchnorm's coefficients from its first channel on. */
struct strip {
	struct ring *ring;
	float *slots;
	struct sl_cpu_bn bn;
	struct sl_bn_range k;
	int64_t held[3];
};

static struct ring ring_open(const struct job *j, float *memory, int64_t row, int64_t h, int64_t w)
{
	struct ring r = {.simd = j->simd, .memory = memory, .row = row, .h = h, .w = w, .c = j->d.c};

	r.zero = memory + 3 * strips_of(&j->d) * row;
	memset(memory, 0, (size_t)ring_floats(j, row) * sizeof(float));
	return r;
}

static struct ring x_ring(const struct job *j, float *memory)
{
	struct ring r = ring_open(j, memory, j->x_row, j->d.h, j->d.w);

	r.bn = j->call->pre != NULL ? &j->bn.pre : NULL;
	r.act = j->bn.act_pre;
	return r;
}

static struct ring dy_ring(const struct job *j, float *memory)
{
	struct ring r = ring_open(j, memory, j->dy_row, j->d.out_h, j->d.out_w);

	r.bn = j->call->post != NULL ? &j->bn.post : NULL;
	r.act = j->bn.act_post;
	return r;
}

/* Consecutive bands of one image keep the ring's rows; a new image empties the ring. */
static void ring_image(struct ring *r, const float *src, const float *bn_x, int64_t n)
{
	int64_t image = r->h * r->w * r->c;

	if (r->src == src + n * image)
		return;
	r->src = src + n * image;
	r->bn_x = bn_x != NULL ? bn_x + n * image : NULL;
	for (int i = 0; i < 3; i++)
		r->held[i] = -1;
}

static struct strip strip_open(struct ring *r, struct sl_bn_range k)
{
	struct strip s = {.ring = r, .slots = r->memory + k.at / SL_DW_LANES * 3 * r->row, .k = k};

	if (r->bn != NULL)
		s.bn = sl_bn_from(r->bn, k.at);
	memcpy(s.held, r->held, sizeof s.held);
	return s;
}

/* The padded row h; above and below the image a row of zeros. */
static const float *strip_row(struct strip *s, int64_t h)
{
	const struct ring *r = s->ring;
	int64_t slot = h % 3, at = h * r->w * r->c + s->k.at;
	int w = (int)r->w, l = (int)s->k.n;
	float *to;

	if (h < 0 || h >= r->h)
		return r->zero;
	to = s->slots + slot * r->row;
	if (s->held[slot] == h)
		return to;
	if (r->bn_x == NULL)
		r->simd->dw_fill(to + SL_DW_LANES, r->src + at, r->c, r->bn != NULL ? &s->bn : NULL, w, l, r->act);
	else
		r->simd->dw_fill_back(to + SL_DW_LANES, r->src + at, r->bn_x + at, r->c, &s->bn, w, l, r->act);
	s->held[slot] = h;
	return to;
}

static void x_rows(struct strip *x, const float *rows[3], int64_t out_row, int stride)
{
	for (int i = 0; i < 3; i++)
		rows[i] = strip_row(x, out_row * stride - 1 + i);
}

/* All strips start with the same rows and take the same steps, so they hold the same rows: the last one sets
 * `held`. */
static void strip_close(const struct strip *s)
{
	struct ring *r = s->ring;

	if (s->k.at + s->k.n == r->c)
		memcpy(r->held, s->held, sizeof r->held);
}

static struct sl_bn_range channels_of(const struct job *j, int64_t at)
{
	return (struct sl_bn_range){at, sl_cpu_min(SL_DW_LANES, j->d.c - at)};
}

/* ---- prefetch */

/* Adds to `next` the rows [from, from + n) of a tensor, counted through all images. */
static void expect(const struct job *j, struct sl_prefetch *next, const float *p, int64_t from, int64_t n, int64_t h,
		   int64_t w)
{
	int64_t end = sl_cpu_min(from + n, j->d.n * h);

	if (p == NULL || end <= from)
		return;
	next->at[next->n] = (const char *)(p + from * w * j->d.c);
	next->end[next->n++] = (const char *)(p + end * w * j->d.c);
}

/* The memory that the output rows behind [o, o + rows) of image n will touch first, to be prefetched while
 * those are computed. */
static struct sl_prefetch ahead(const struct job *j, int64_t n, int64_t o, int64_t rows, bool backward)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_conv_dims *d = &j->d;
	int64_t s = d->stride, x = n * d->h + (o + rows) * s, y = n * d->out_h + o + rows, lines = 0, tiles;
	struct sl_prefetch next = {.n = 0};

	if (backward) {
		expect(j, &next, call->dx, x, rows * s, d->h, d->w);
		expect(j, &next, call->x, x + 2 - s, rows * s, d->h, d->w);
		expect(j, &next, call->post != NULL ? call->out : NULL, y + 1, rows, d->out_h, d->out_w);
		expect(j, &next, call->dy, y + 1, rows, d->out_h, d->out_w);
	} else {
		expect(j, &next, call->y, y, rows, d->out_h, d->out_w);
		expect(j, &next, call->x, x + 2 - s, rows * s, d->h, d->w);
	}
	for (int i = 0; i < next.n; i++)
		lines += (next.end[i] - next.at[i]) / 64;
	tiles = rows * sl_cpu_max(1, d->out_w / 4) * sl_cpu_blocks(d->c, j->simd->panel / 2);
	next.per_tile = (int)sl_cpu_blocks(lines, tiles * (backward && s == 1 ? 2 : 1));
	return next;
}

static int64_t part_end(const struct job *j, int64_t part)
{
	return sl_cpu_min(j->bands.all, (part + 1) * j->part_bands);
}

/* ---- forward */

/* Output rows of one strip. `first`: they are the first of their part of the statistics. The statistics take
 * all these rows in one call, because planes may be no wider than a pixel or two. */
static void forward_strip(const struct job *j, struct strip *x, struct sl_band b, float *part, bool first,
			  struct sl_prefetch *next)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_conv_dims *d = &j->d;
	int64_t at = x->k.at, row = d->out_w * d->c;
	float *y = call->y + (b.n * d->out_h + b.from) * row;

	for (int64_t o = b.from; o < b.to; o++) {
		const float *rows[3];

		x_rows(x, rows, o, d->stride);
		j->simd->dw_row(y + (o - b.from) * row + at, d->c, rows, call->w + at, d->c,
				call->bias != NULL ? call->bias + at : NULL, (int)d->out_w, (int)x->k.n, d->stride,
				next);
	}
	if (call->post == NULL || !call->training)
		return;
	if (first)
		sl_bn_begin_stats(part, y, d->c, x->k);
	sl_bn_add_stats(j->simd, part, y, (b.to - b.from) * d->out_w, d->c, x->k);
}

static void forward_band(const struct job *j, struct ring *x, struct sl_band b, float *part, bool first)
{
	ring_image(x, j->call->x, NULL, b.n);
	for (int64_t o = b.from; o < b.to; o += j->few) {
		struct sl_band rows = {b.n, o, sl_cpu_min(b.to, o + j->few)};
		struct sl_prefetch next = ahead(j, b.n, o, rows.to - o, false);

		for (int64_t k = 0; k < j->d.c; k += SL_DW_LANES) {
			struct strip s = strip_open(x, channels_of(j, k));

			forward_strip(j, &s, rows, part, first && o == b.from, &next);
			strip_close(&s);
		}
	}
}

static void forward_part(void *arg, int64_t part, struct sl_pool_step *s)
{
	const struct job *j = arg;
	struct ring x = x_ring(j, j->scratch + s->worker * worker_floats(j));
	int64_t from = part * j->part_bands;

	for (int64_t index = from + s->at; index < part_end(j, part); index++) {
		forward_band(j, &x, sl_band_at(&j->bands, index), j->bn.parts + part * j->bn.stride, index == from);
		if (sl_pool_stop(s, index + 1 - from))
			return;
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, false);

	sl_pool_run_long(call->be->pool, j.parts, forward_part, &j);
	sl_conv_bn_finish(call, &j.bn, j.parts, false);
}

/* ---- backward */

/* A strip's row of dX: written in place, or to scratch and then added or propagated through an activation. */
struct data_row {
	float *to;
	int64_t ld;
	int64_t at; /* offset in x and dx */
};

static struct data_row data_row(const struct job *j, int64_t n, int64_t h, struct sl_bn_range k, float *scratch)
{
	int64_t at = (n * j->d.h + h) * j->d.w * j->d.c + k.at;

	if (j->call->add || (j->call->pre != NULL && !has_bn_pre(j)))
		return (struct data_row){scratch, SL_DW_LANES, at};
	return (struct data_row){j->call->dx + at, j->d.c, at};
}

static void end_data_row(const struct job *j, const struct data_row *row, struct sl_bn_range k, float *scratch)
{
	if (row->to == scratch)
		j->simd->dw_place(j->call->dx + row->at, scratch, j->call->x + row->at, j->d.c, (int)j->d.w, (int)k.n,
				  has_bn_pre(j) ? SL_ACT_NONE : j->bn.act_pre, j->call->add);
}

/* Adds the rows of dX that belong to a band's output rows to the sums of `pre`. */
static void sum_data_rows(const struct job *j, struct sl_band b, struct sl_bn_range k, float *part)
{
	const struct sl_conv_dims *d = &j->d;
	int64_t from = b.from * d->stride, to = sl_cpu_min(d->h, b.to * d->stride),
		at = (b.n * d->h + from) * d->w * d->c;

	if (to > from)
		sl_bn_add_sums(j->simd, part, j->call->dx + at, j->call->x + at, &j->bn.pre, j->call->pre->op,
			       (to - from) * d->w, k);
}

/* The rows of dX that belong to output row o: row o at stride 1, rows 2o and 2o + 1 at stride 2. In forward,
 * an even row meets the middle weights of output o; an odd row meets the lower weights of output o and the
 * upper ones of o + 1. */
static void data_rows(const struct job *j, struct strip *dy, int64_t n, int64_t o, float *scratch,
		      struct sl_prefetch *next)
{
	const struct sl_conv_dims *d = &j->d;
	const float *w = j->call->w + dy->k.at;
	int64_t c = d->c;
	int l = (int)dy->k.n;

	if (d->stride == 1) {
		const float *rows[3] = {strip_row(dy, o - 1), strip_row(dy, o), strip_row(dy, o + 1)};
		struct data_row row = data_row(j, n, o, dy->k, scratch);

		j->simd->dw_row(row.to, row.ld, rows, j->flipped + dy->k.at, c, NULL, (int)d->w, l, 1, next);
		end_data_row(j, &row, dy->k, scratch);
		return;
	}
	for (int64_t h = 2 * o; h < sl_cpu_min(d->h, 2 * o + 2); h++) {
		bool odd = h & 1;
		const float *here = strip_row(dy, o) + SL_DW_LANES;
		const float *rows[2] = {here, odd ? strip_row(dy, o + 1) + SL_DW_LANES : NULL};
		const float *weights[2] = {odd ? w + 6 * c : w + 3 * c, w};
		struct data_row row = data_row(j, n, h, dy->k, scratch);

		j->simd->dw_data_row2(row.to, row.ld, rows, weights, c, odd && o + 1 < d->out_h ? 2 : 1, (int)d->w, l);
		end_data_row(j, &row, dy->k, scratch);
	}
}

/* Backward of output rows of one strip: their rows of dX, and what they add to dw. */
static void backward_strip(const struct job *j, struct sl_band b, float *part, struct strip *x, struct strip *dy,
			   float *dw, float *scratch, struct sl_prefetch *next)
{
	const struct sl_conv_call *call = j->call;
	const struct sl_conv_dims *d = &j->d;

	for (int64_t o = b.from; o < b.to; o++) {
		const float *rows[3];

		if (call->dx != NULL)
			data_rows(j, dy, b.n, o, scratch, next);
		if (call->dw == NULL && call->dbias == NULL)
			continue;
		x_rows(x, rows, o, d->stride);
		j->simd->dw_weight_row(dw + dy->k.at, d->c, strip_row(dy, o) + SL_DW_LANES, rows, (int)d->out_w,
				       (int)dy->k.n, d->stride, next);
	}
	if (call->dx != NULL && has_bn_pre(j))
		sum_data_rows(j, b, dy->k, part);
}

static void backward_band(const struct job *j, struct sl_band b, float *part, struct ring *x, struct ring *dy,
			  float *dw, float *scratch)
{
	const struct sl_conv_call *call = j->call;

	ring_image(x, call->x, NULL, b.n);
	ring_image(dy, call->dy, call->post != NULL ? call->out : NULL, b.n);
	for (int64_t o = b.from; o < b.to; o += j->few) {
		struct sl_band rows = {b.n, o, sl_cpu_min(b.to, o + j->few)};
		struct sl_prefetch next = ahead(j, b.n, o, rows.to - o, true);

		for (int64_t k = 0; k < j->d.c; k += SL_DW_LANES) {
			struct strip sx = strip_open(x, channels_of(j, k)), sdy = strip_open(dy, channels_of(j, k));

			backward_strip(j, rows, part, &sx, &sdy, dw, scratch, &next);
			strip_close(&sx);
			strip_close(&sdy);
		}
	}
}

/* The bands of the span are its steps. */
static void backward_span(void *arg, int64_t span, struct sl_pool_step *s)
{
	const struct job *j = arg;
	float *memory = j->scratch + s->worker * worker_floats(j), *dw = j->part + span * part_floats(j);
	float *dy_memory = memory + ring_floats(j, j->x_row), *scratch = dy_memory + ring_floats(j, j->dy_row);
	struct ring x = x_ring(j, memory), dy = dy_ring(j, dy_memory);
	int64_t first = span * j->span_parts * j->part_bands;
	int64_t end = part_end(j, sl_cpu_min(j->parts, (span + 1) * j->span_parts) - 1);

	if (s->at == 0)
		memset(dw, 0, (size_t)(10 * j->d.c) * sizeof(float));
	for (int64_t index = first + s->at; index < end; index++) {
		float *part = j->bn.parts + index / j->part_bands * j->bn.stride;

		if (has_bn_pre(j) && index % j->part_bands == 0)
			sl_bn_begin_sums(part, j->d.c, (struct sl_bn_range){0, j->d.c});
		backward_band(j, sl_band_at(&j->bands, index), part, &x, &dy, dw, scratch);
		if (sl_pool_stop(s, index + 1 - first))
			return;
	}
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = open_job(call, true);
	int64_t c = j.d.c;

	for (int i = 0; i < 9; i++)
		memcpy(j.flipped + i * c, call->w + (8 - i) * c, (size_t)c * sizeof(float));
	sl_pool_run_long(call->be->pool, j.spans, backward_span, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(call->be, call->dw, j.part, 9 * c, part_floats(&j), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + 9 * c, c, part_floats(&j), j.spans);
	sl_conv_bn_finish(call, &j.bn, j.parts, true);
}

const struct sl_conv_kernel sl_conv_dw3 = {workspace_bytes, forward, backward};
