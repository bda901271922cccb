/* Transforms of weights and of tiles, for Winograd's F(4×4, 3×3) and for stride 2. */
#include <string.h>

#include "kernels/cpu/conv_wino_impl.h"

enum { STEP = 16 }; /* channels of weights that are transformed at a time */

/* ---- weights */

struct sl_wino_panel sl_wino_panel_at(const struct sl_wino_pass *p, int64_t index)
{
	const int64_t most = p->j->simd->panel, n = sl_cpu_min(most, p->out - index * most);

	return (struct sl_wino_panel){index * most, n, n > most / 2 ? most : most / 2};
}

static void (*transform_of(const struct sl_wino_job *j))(float *, int64_t, const float *, int64_t, int, bool)
{
	return j->d.stride == 2 ? j->simd->wino2_weights : j->simd->wino_weights;
}

/* U [C, O]: each tap is transposed first, which leaves the transform whole registers to read and write. */
static void weights_forward(const struct sl_wino_pass *p, const struct sl_wino_panel *a, int64_t k, int64_t deep,
			    float *to, int64_t place)
{
	const struct sl_wino_job *j = p->j;
	const int64_t c = j->d.c, width = a->width;
	float taps[9 * STEP * SL_WINO_PANEL];

	for (int64_t end = k + deep; k < end; k += STEP, to += STEP * width) {
		const int64_t some = sl_cpu_min(STEP, end - k), tap = some * width;

		for (int t = 0; t < 9; t++)
			j->simd->transpose(taps + t * tap, (int)width, j->call->w + (a->at * 9 + t) * c + k, 9 * c,
					   a->n, some);
		transform_of(j)(to, place, taps, tap, (int)tap, false);
	}
}

/* The same for dX, U [O, C]; with taps along the depth [taps·O, C / taps]. */
static void weights_back(const struct sl_wino_pass *p, const struct sl_wino_panel *a, int64_t k, int64_t deep,
			 float *to, int64_t place)
{
	const struct sl_wino_job *j = p->j;
	const int64_t n = a->n, width = a->width, c = j->d.c;

	for (int64_t i = k; i < k + deep; i++, to += width) {
		const int64_t o = i % j->d.o, part = i / j->d.o * p->out;

		transform_of(j)(to, place, j->call->w + o * 9 * c + part + a->at, c, (int)n, true);
		for (int m = 0; m < SL_WINO_PLACES && n < width; m++)
			memset(to + m * place + n, 0, (size_t)(width - n) * sizeof(float));
	}
}

void sl_wino_weights(const struct sl_wino_pass *p, const struct sl_wino_panel *a, int64_t k, int64_t deep, float *to,
		     int64_t place)
{
	(p->back ? weights_back : weights_forward)(p, a, k, deep, to, place);
}

void sl_wino_weights_back(const struct sl_wino_job *j, float *dw, const float *du, int64_t place, int64_t c)
{
	(j->d.stride == 2 ? j->simd->wino2_weights_back : j->simd->wino_weights_back)(dw, j->d.c, du, place, (int)c);
}

/* ---- tiles */

/* Pointers to size × size pixels of image n of x or dy from (h, w) on; outside the image, and of image -1, to zeros. */
static void point(const struct sl_wino_job *j, const struct sl_wino_pixels *from, bool is_dy, int64_t n, int64_t h,
		  int64_t w, int size, const float **to)
{
	const int64_t high = is_dy ? j->d.out_h : j->d.h, wide = is_dy ? j->d.out_w : j->d.w;

	for (int a = 0; a < size; a++) {
		const bool outside = n < 0 || h + a < 0 || h + a >= high;
		const float *row = from->base + ((n * high + h + a) * wide + w) * from->c;

		for (int b = 0; b < size; b++)
			*to++ = outside || w + b < 0 || w + b >= wide ? j->zero : row + b * from->c;
	}
}

/* One tile, and where its places lie. */
struct tile {
	int64_t n, h, w; /* image, first output pixel */
	int64_t first;   /* of places that all tiles have, in floats from V or M on */
	struct sl_wino_places places;
	int64_t at[SL_WINO_LONG * SL_WINO_LONG];
};

static bool is_listed(const struct sl_wino_job *j)
{
	return j->d.stride == 2 || j->last_h < SL_WINO_OUT || j->last_w < SL_WINO_OUT;
}

/* Where the values of a tile's row, or column, lie among those of a place of U: -1 if the tile, with `size` outputs,
 * has none. at: of the tile's places; begin: values of other tiles before. */
static int64_t index_in(const struct sl_wino_job *j, int64_t at, int64_t size, int64_t begin)
{
	const int64_t u = sl_cpu_min(at, SL_WINO_SIDE - 1);

	if (sl_wino_is_even(j, u))
		return at - u < size ? begin + at - u : -1;
	return sl_wino_lacks(j, size, u) ? -1 : begin;
}

/* Lists where the places of tile t of row r lie. */
static void list_places(const struct sl_wino_job *j, const struct sl_wino_part *p, int64_t r, int64_t t, int64_t ld,
			struct tile *to)
{
	const int64_t high = r % j->tiles_h < j->tiles_h - 1 ? SL_WINO_OUT : j->last_h;
	const int64_t wide = t < j->tiles_w - 1 ? SL_WINO_OUT : j->last_w;
	const int64_t side = j->d.stride == 2 ? SL_WINO_LONG : SL_WINO_SIDE;
	int64_t column[SL_WINO_LONG], *at = to->at;

	for (int64_t b = 0; b < side; b++)
		column[b] = index_in(j, b, wide, b >= SL_WINO_EVEN && j->d.stride == 2 ? SL_WINO_OUT * t : t);
	for (int64_t a = 0; a < side; a++) {
		const int64_t u = sl_cpu_min(a, SL_WINO_SIDE - 1);
		const int64_t row = index_in(j, a, high, sl_wino_rows(j, u, p->first, r));

		for (int64_t b = 0; b < side; b++) {
			const int64_t v = sl_cpu_min(b, SL_WINO_SIDE - 1);

			*at++ = row < 0 || column[b] < 0 ? -1
							 : sl_wino_unit(j, u * SL_WINO_SIDE + v) * p->unit +
								   (row * sl_wino_columns(j, v) + column[b]) * ld;
		}
	}
	to->first = 0;
	to->places = (struct sl_wino_places){p->unit, to->at, high <= SL_WINO_OUT / 2, wide <= SL_WINO_OUT / 2};
}

/* Tile `index` of the part. V or M has rows of ld floats. */
static void tile_at(const struct sl_wino_job *j, const struct sl_wino_part *p, int64_t index, int64_t ld,
		    struct tile *to)
{
	const int64_t r = p->row + index / j->tiles_w, t = index % j->tiles_w;

	to->n = r / j->tiles_h;
	to->h = r % j->tiles_h * SL_WINO_OUT;
	to->w = t * SL_WINO_OUT;
	if (is_listed(j)) {
		list_places(j, p, r, t, ld, to);
		return;
	}
	to->first = ((r - p->first) * j->tiles_w + t) * ld;
	to->places = (struct sl_wino_places){.plane = p->unit};
}

static void in_tile(const struct sl_wino_job *j, const struct sl_wino_pixels *x, bool back, int64_t n,
		    const struct tile *t, float *v)
{
	const float *d[SL_WINO_LONG * SL_WINO_LONG];

	if (j->d.stride == 1) {
		point(j, x, back, n, t->h - 1, t->w - 1, SL_WINO_SIDE, d);
		j->simd->wino_in(v, &t->places, d, (int)x->c);
	} else if (back) {
		point(j, x, true, n, t->h, t->w, SL_WINO_OUT + 1, d);
		j->simd->wino2_in_back(v, t->at, d, (int)x->c);
	} else {
		point(j, x, false, n, 2 * t->h - 1, 2 * t->w - 1, SL_WINO_LONG, d);
		j->simd->wino2_in(v, t->at, d, (int)x->c);
	}
}

void sl_wino_in(const struct sl_wino_job *j, const struct sl_wino_pixels *x, bool back, struct sl_wino_part p, float *v)
{
	struct tile t;

	for (int64_t at = 0; at < p.count * j->tiles_w; at++) {
		tile_at(j, &p, at, j->d.taps * x->c + SL_WINO_PAD, &t);
		for (int i = 0; i < j->d.taps; i++)
			in_tile(j, x, back, (back ? sl_conv_slice_back : sl_conv_slice)(&j->d, t.n, i), &t,
				v + t.first + i * x->c);
	}
}

void sl_wino_grad(const struct sl_wino_job *j, const struct sl_wino_pixels *dy, struct sl_wino_part p, float *m)
{
	const float *d[SL_WINO_OUT * SL_WINO_OUT];
	struct tile t;

	for (int64_t at = 0; at < p.count * j->tiles_w; at++) {
		tile_at(j, &p, at, dy->c + SL_WINO_PAD, &t);
		point(j, dy, true, t.n, t.h, t.w, SL_WINO_OUT, d);
		if (j->d.stride == 2)
			j->simd->wino2_grad(m, t.at, d, (int)dy->c);
		else
			j->simd->wino_grad(m + t.first, &t.places, d, (int)dy->c);
	}
}

void sl_wino_out(const struct sl_wino_pass *p, struct sl_wino_part part, const float *m, int64_t ldm, int64_t at,
		 int64_t n)
{
	const struct sl_wino_job *j = p->j;
	const struct sl_conv_call *call = j->call;
	const bool add = p->back && call->add;
	const int step = p->back ? j->d.stride : 1, size = step * SL_WINO_OUT;
	const int64_t high = p->back ? j->d.h : j->d.out_h, wide = p->back ? j->d.w : j->d.out_w;
	const float *bias = p->back || call->bias == NULL ? NULL : call->bias + at;
	float *to = (p->back ? call->dx : call->y) + at, *y[4 * SL_WINO_OUT * SL_WINO_OUT];
	struct tile t;

	for (int64_t i = 0; i < part.count * j->tiles_w; i++) {
		float *first;

		tile_at(j, &part, i, ldm, &t);
		first = to + ((t.n * high + step * t.h) * wide + step * t.w) * p->out;
		for (int a = 0; a < size; a++)
			for (int b = 0; b < size; b++)
				y[a * size + b] = step * t.h + a < high && step * t.w + b < wide
							  ? first + (a * wide + b) * p->out
							  : NULL;
		if (j->d.stride == 2)
			(p->back ? j->simd->wino2_out_back : j->simd->wino2_out)(y, m, t.at, bias, (int)n, add);
		else
			j->simd->wino_out(y, m + t.first, &t.places, bias, (int)n, add);
	}
}

struct sl_wino_pixels sl_wino_gradient(const struct sl_wino_job *j, int64_t row, int64_t count, int halo, float *memory)
{
	const struct sl_conv_call *call = j->call;
	const int64_t o = j->d.o, all = j->d.n * j->d.out_h;
	const int64_t from = sl_cpu_max(0, sl_wino_first_row(j, row) - halo) * j->d.out_w;
	const int64_t to = sl_cpu_min(all, sl_wino_first_row(j, row + count) + halo) * j->d.out_w;

	if (call->post == NULL)
		return (struct sl_wino_pixels){call->dy, o};
	j->simd->bn_backward(memory, call->dy + from * o, call->out + from * o, &j->bn.post, to - from, (int)o,
			     j->bn.act_post, false);
	return (struct sl_wino_pixels){memory - from * o, o};
}

void sl_wino_add_bias(const struct sl_wino_job *j, float *to, const struct sl_wino_pixels *dy, int64_t row,
		      int64_t count)
{
	const int64_t o = j->d.o, end = sl_wino_first_row(j, row + count) * j->d.out_w;

	for (int64_t px = sl_wino_first_row(j, row) * j->d.out_w; px < end; px++)
		j->simd->sum(to, to, dy->base + px * o, o);
}
