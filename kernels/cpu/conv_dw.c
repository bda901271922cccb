/* Depthwise convolution of any window, stride, padding and dilation, by strips of channels.
 *
 * A task covers a band of output rows. For each strip it copies the rows that the band reads to its worker's
 * scratch, with zeros beside the image, so that the row kernels have no edge cases. Window rows above and
 * below the image are skipped. The gradient of x is the same sum over dy, with the window rotated by 180°;
 * rows and columns of dy are then `stride` apart. Weight gradients are summed over spans of bands, whose
 * number depends on the shape alone. */
#include <string.h>

#include "kernels/cpu/conv.h"

enum { MAX_SPANS = 64, ROWS = 16 /* rows of a window taken at a time */ };

/* A sum over windows of x. Tap k of output o reads place o·step + k·dilation − lead. Row (or column) r of x
 * is at place r·apart; the other places are 0. `lead` applies to rows, `left` to columns. */
struct sum {
	const float *x, *w;
	float *y;
	int64_t h, w_x, out_h, out_w, apart, step, lead, left;
	struct sl_bands bands;
	int64_t columns; /* of a row in the scratch, which is one strip wide */
	int64_t rows;    /* most rows in the scratch */
	bool turned;
};

struct job {
	const struct sl_conv_call *call;
	const struct sl_cpu_simd *simd;
	struct sl_conv_dims d;
	struct sum sum;
	int64_t strips, spans, span_bands;
	float *part; /* [spans, KH·KW·C + C] */
	float *scratch;
	int64_t scratch_floats; /* of a worker */
};

static int64_t part_floats(const struct sl_conv_dims *d)
{
	return sl_cpu_line((d->kh * d->kw + 1) * d->c);
}

static struct sum sum_of(const struct sl_conv_dims *d, bool back)
{
	struct sl_conv_dims out = *d;
	struct sum s = {.apart = 1, .step = d->stride, .lead = d->pad, .left = d->pad, .turned = back};

	s.h = back ? d->out_h : d->h;
	s.w_x = back ? d->out_w : d->w;
	out.out_h = s.out_h = back ? d->h : d->out_h;
	s.out_w = back ? d->w : d->out_w;
	if (back) {
		s.apart = d->stride;
		s.step = 1;
		s.lead = (d->kh - 1) * d->dilation - d->pad;
		s.left = (d->kw - 1) * d->dilation - d->pad;
	}
	s.bands = sl_bands_of(&out);
	s.columns = (s.out_w + SL_DW_SPARE) * s.step + (d->kw + SL_DW_SPARE) * (int64_t)d->dilation;
	s.rows = sl_cpu_min(s.h, ((s.bands.rows - 1) * s.step + (d->kh - 1) * d->dilation) / s.apart + 1);
	return s;
}

static int64_t scratch_floats(const struct sl_conv_dims *d)
{
	const struct sum to = sum_of(d, false), back = sum_of(d, true);

	return sl_cpu_max(to.rows * to.columns, back.rows * back.columns) * SL_DW_LANES;
}

/* Refuses windows whose scratch would be much larger than rows of the images: with padding, strides or
 * dilation far beyond the image's size. */
bool sl_conv_dw_takes(const struct sl_op *op)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, NULL, 1);
	const struct sum to = sum_of(&d, false), back = sum_of(&d, true);

	return sl_op_is_depthwise(op) && sl_cpu_max(to.columns, back.columns) <= 4 * (d.w + d.out_w) + 256;
}

static size_t workspace_bytes(struct sl_backend *be, const struct sl_op *op, const struct sl_op *window)
{
	const struct sl_conv_dims d = sl_conv_dims_of(op, NULL, 1);

	return (size_t)(MAX_SPANS * part_floats(&d) + sl_cpu_threads(be) * scratch_floats(&d)) * sizeof(float);
}

static struct job job_of(const struct sl_conv_call *call, bool back)
{
	struct job j = {.call = call, .simd = sl_cpu_simd_of(call->be), .d = call->d, .sum = sum_of(&call->d, back)};

	j.strips = sl_cpu_blocks(j.d.c, SL_DW_LANES);
	j.span_bands = sl_cpu_blocks(j.sum.bands.all, MAX_SPANS);
	j.spans = sl_cpu_blocks(j.sum.bands.all, j.span_bands);
	j.part = call->workspace;
	j.scratch = j.part + MAX_SPANS * part_floats(&j.d);
	j.scratch_floats = scratch_floats(&j.d);
	j.sum.x = back ? call->dy : call->x;
	j.sum.y = back ? call->dx : call->y;
	j.sum.w = call->w;
	return j;
}

/* The first row (or column) of x whose place is at least `at`. */
static int64_t row_from(const struct sum *s, int64_t at)
{
	return at > 0 ? sl_cpu_blocks(at, s->apart) : 0;
}

/* One strip of a band: its first channel `at`, and rows [first, end) of x, which are in the scratch. */
struct strip {
	const struct job *j;
	struct sl_band b;
	int64_t at, first, end;
	float *rows;
	struct sl_dw_window v;
	const float *x[ROWS], *w[ROWS];
	float *dw[ROWS];
};

static void fill(struct strip *t)
{
	const struct job *j = t->j;
	const struct sum *s = &j->sum;
	const int64_t from = row_from(s, -s->left), room = s->columns - 1 - s->left;
	const int64_t end = room < 0 ? 0 : sl_cpu_min(s->w_x, room / s->apart + 1), gap = s->apart * SL_DW_LANES;

	t->first = row_from(s, t->b.from * s->step - s->lead);
	t->end = sl_cpu_min(s->h, row_from(s, (t->b.to - 1) * s->step + (j->d.kh - 1) * j->d.dilation - s->lead + 1));
	for (int64_t r = t->first; r < t->end; r++) {
		float *to = t->rows + ((r - t->first) * s->columns + s->left) * SL_DW_LANES;
		const float *x = s->x + ((t->b.n * s->h + r) * s->w_x) * j->d.c + t->at;

		if (s->apart == 1 && from < end)
			j->simd->dw_fill(to + from * gap, x + from * j->d.c, j->d.c, NULL, (int)(end - from), t->v.l,
					 SL_ACT_NONE);
		for (int64_t c = from; c < end && s->apart > 1; c++)
			j->simd->dw_fill(to + c * gap, x + c * j->d.c, j->d.c, NULL, 1, t->v.l, SL_ACT_NONE);
	}
}

static struct strip open_strip(const struct job *j, struct sl_band b, int64_t strip, int worker)
{
	const struct sl_conv_dims *d = &j->d;
	struct strip t = {.j = j, .b = b, .at = strip * SL_DW_LANES};

	t.rows = j->scratch + worker * j->scratch_floats;
	t.v = (struct sl_dw_window){.ldw = j->sum.turned ? -d->c : d->c,
				    .kw = d->kw,
				    .step = (int)j->sum.step,
				    .dilation = d->dilation,
				    .out_w = (int)j->sum.out_w,
				    .l = (int)sl_cpu_min(SL_DW_LANES, d->c - t.at)};
	fill(&t);
	return t;
}

/* Collects the window rows of output row o that lie in the image, at most ROWS, from window row *k on.
 * Advances *k. `part`: the weight gradients of the span, or NULL. */
static void look(struct strip *t, int64_t o, int *k, float *part)
{
	const struct job *j = t->j;
	const struct sl_conv_dims *d = &j->d;
	const int64_t strip = t->at;

	for (t->v.rows = 0; *k < d->kh && t->v.rows < ROWS; (*k)++) {
		const int64_t at = o * j->sum.step + *k * (int64_t)d->dilation - j->sum.lead, r = at / j->sum.apart;

		if (at < 0 || at % j->sum.apart || r >= j->sum.h)
			continue;
		t->x[t->v.rows] = t->rows + (r - t->first) * j->sum.columns * SL_DW_LANES;
		t->w[t->v.rows] = j->sum.w + (j->sum.turned ? (d->kh - *k) * d->kw - 1 : *k * d->kw) * d->c + strip;
		t->dw[t->v.rows++] = part ? part + *k * d->kw * d->c + strip : NULL;
	}
	t->v.x = t->x;
	t->v.w = t->w;
}

static void sum_strip(struct strip *t)
{
	const struct job *j = t->j;
	const struct sum *s = &j->sum;
	const float *bias = !s->turned && j->call->bias ? j->call->bias + t->at : NULL;

	for (int64_t o = t->b.from; o < t->b.to; o++) {
		float *y = s->y + ((t->b.n * s->out_h + o) * s->out_w) * j->d.c + t->at;
		bool add = s->turned && j->call->add;

		for (int k = 0; k < j->d.kh; add = true) {
			look(t, o, &k, NULL);
			j->simd->dw_any_row(y, j->d.c, &t->v, add ? NULL : bias, add);
		}
	}
}

static void clear_scratch(const struct job *j, int worker)
{
	memset(j->scratch + worker * j->scratch_floats, 0,
	       (size_t)(j->sum.rows * j->sum.columns * SL_DW_LANES) * sizeof(float));
}

static void sum_band(void *arg, int64_t band, struct sl_pool_step *s)
{
	const struct job *j = arg;

	clear_scratch(j, s->worker);
	for (int64_t at = s->at; at < j->strips;) {
		struct strip t = open_strip(j, sl_band_at(&j->sum.bands, band), at, s->worker);

		sum_strip(&t);
		if (++at < j->strips && sl_pool_stop(s, at))
			return;
	}
}

static void weight_strip(struct strip *t, float *part)
{
	const struct job *j = t->j;
	const struct sl_conv_dims *d = &j->d;
	float *bias = part + (int64_t)d->kh * d->kw * d->c + t->at;

	for (int64_t o = t->b.from; o < t->b.to; o++) {
		const float *dy = j->call->dy + (t->b.n * d->out_h + o) * d->out_w * d->c + t->at;

		for (int k = 0; k < d->kh && j->call->dw;) {
			look(t, o, &k, part);
			j->simd->dw_any_weight_row(t->dw, dy, d->c, &t->v);
		}
		for (int64_t w = 0; w < d->out_w && j->call->dbias; w++, dy += d->c)
			j->simd->sum(bias, bias, dy, t->v.l);
	}
}

/* The steps are the strips of all bands of the span. */
static void weight_span(void *arg, int64_t span, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const int64_t first = span * j->span_bands;
	const int64_t steps = (sl_cpu_min(j->sum.bands.all, first + j->span_bands) - first) * j->strips;
	float *part = j->part + span * part_floats(&j->d);

	if (s->at == 0)
		memset(part, 0, (size_t)part_floats(&j->d) * sizeof(float));
	clear_scratch(j, s->worker);
	for (int64_t at = s->at; at < steps;) {
		struct strip t =
			open_strip(j, sl_band_at(&j->sum.bands, first + at / j->strips), at % j->strips, s->worker);

		weight_strip(&t, part);
		if (++at < steps && sl_pool_stop(s, at))
			return;
	}
}

static void forward(const struct sl_conv_call *call)
{
	struct job j = job_of(call, false);

	sl_pool_run_long(call->be->pool, j.sum.bands.all, sum_band, &j);
}

static void backward(const struct sl_conv_call *call)
{
	struct job j = job_of(call, false), back = job_of(call, true);
	const int64_t taps = (int64_t)j.d.kh * j.d.kw * j.d.c;

	if (call->dx != NULL)
		sl_pool_run_long(call->be->pool, back.sum.bands.all, sum_band, &back);
	if (call->dw != NULL || call->dbias != NULL)
		sl_pool_run_long(call->be->pool, j.spans, weight_span, &j);
	if (call->dw != NULL)
		sl_cpu_reduce(call->be, call->dw, j.part, taps, part_floats(&j.d), j.spans);
	if (call->dbias != NULL)
		sl_cpu_reduce(call->be, call->dbias, j.part + taps, j.d.c, part_floats(&j.d), j.spans);
}

const struct sl_conv_kernel sl_conv_dw = {workspace_bytes, forward, backward};
