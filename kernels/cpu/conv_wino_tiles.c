/* Transforms of weights and of tiles, for Winograd's F(4×4, 3×3). */
#include <string.h>

#include "kernels/cpu/conv_wino_impl.h"

enum { STEP = 16 }; /* channels of weights that are transformed at a time */

/* ---- weights */

struct sl_wino_panel sl_wino_panel_at(const struct sl_wino_pass *p, int64_t index)
{
	const int64_t most = p->j->simd->panel, n = sl_cpu_min(most, p->out - index * most);

	return (struct sl_wino_panel){index * most, n, n > most / 2 ? most : most / 2};
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
		j->simd->wino_weights(to, place, taps, tap, (int)tap, false);
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

		j->simd->wino_weights(to, place, j->call->w + o * 9 * c + part + a->at, c, (int)n, true);
		for (int m = 0; m < SL_WINO_PLACES && n < width; m++)
			memset(to + m * place + n, 0, (size_t)(width - n) * sizeof(float));
	}
}

void sl_wino_weights(const struct sl_wino_pass *p, const struct sl_wino_panel *a, int64_t k, int64_t deep, float *to,
		     int64_t place)
{
	(p->back ? weights_back : weights_forward)(p, a, k, deep, to, place);
}

/* ---- tiles */

int64_t sl_wino_first_row(const struct sl_wino_job *j, int64_t tile_row)
{
	return tile_row / j->tiles_h * j->d.h + tile_row % j->tiles_h * SL_WINO_OUT;
}

/* Pointers to size × size pixels of image n from (h, w) on; outside the image, and of image -1, to zeros. */
static void point(const struct sl_wino_job *j, const struct sl_wino_pixels *from, int64_t n, int64_t h, int64_t w,
		  int size, const float **to)
{
	for (int a = 0; a < size; a++) {
		const bool outside = n < 0 || h + a < 0 || h + a >= j->d.h;
		const float *row = from->base + ((n * j->d.h + h + a) * j->d.w + w) * from->c;

		for (int b = 0; b < size; b++)
			*to++ = outside || w + b < 0 || w + b >= j->d.w ? j->zero : row + b * from->c;
	}
}

/* One tile, and where its places lie. */
struct tile {
	int64_t n, h, w; /* image, first output pixel */
	int64_t first;   /* of places that all tiles have, in floats from V or M on */
	struct sl_wino_places places;
	int64_t at[SL_WINO_PLACES];
};

static bool is_cut(const struct sl_wino_job *j)
{
	return j->last_h < SL_WINO_OUT || j->last_w < SL_WINO_OUT;
}

/* Lists where the places of tile t of row r lie. */
static void list_places(const struct sl_wino_job *j, const struct sl_wino_part *p, int64_t r, int64_t t, int64_t ld,
			struct tile *to)
{
	const int64_t high = r % j->tiles_h < j->tiles_h - 1 ? SL_WINO_OUT : j->last_h;
	const int64_t wide = t < j->tiles_w - 1 ? SL_WINO_OUT : j->last_w;

	for (int64_t a = 0; a < SL_WINO_SIDE; a++) {
		const int64_t rows = sl_wino_rows(j, a, p->first, r);

		for (int64_t b = 0; b < SL_WINO_SIDE; b++) {
			const int64_t i = a * SL_WINO_SIDE + b;

			to->at[i] = sl_wino_lacks(high, a) || sl_wino_lacks(wide, b)
					    ? -1
					    : i * p->place + (rows * sl_wino_columns(j, b) + t) * ld;
		}
	}
	to->first = 0;
	to->places =
		(struct sl_wino_places){p->place, to->at, high <= SL_WINO_OUT / 2, wide <= SL_WINO_OUT / 2};
}

/* Tile `index` of the part. V or M has rows of ld floats. */
static void tile_at(const struct sl_wino_job *j, const struct sl_wino_part *p, int64_t index, int64_t ld,
		    struct tile *to)
{
	const int64_t r = p->row + index / j->tiles_w, t = index % j->tiles_w;

	to->n = r / j->tiles_h;
	to->h = r % j->tiles_h * SL_WINO_OUT;
	to->w = t * SL_WINO_OUT;
	if (is_cut(j)) {
		list_places(j, p, r, t, ld, to);
		return;
	}
	to->first = ((r - p->first) * j->tiles_w + t) * ld;
	to->places = (struct sl_wino_places){.plane = p->place};
}

void sl_wino_in(const struct sl_wino_job *j, const struct sl_wino_pixels *x, bool back, struct sl_wino_part p, float *v)
{
	const float *d[SL_WINO_PLACES];
	struct tile t;

	for (int64_t at = 0; at < p.count * j->tiles_w; at++) {
		tile_at(j, &p, at, j->d.taps * x->c + SL_WINO_PAD, &t);
		for (int i = 0; i < j->d.taps; i++) {
			const int64_t n = (back ? sl_conv_slice_back : sl_conv_slice)(&j->d, t.n, i);

			point(j, x, n, t.h - 1, t.w - 1, SL_WINO_SIDE, d);
			j->simd->wino_in(v + t.first + i * x->c, &t.places, d, (int)x->c);
		}
	}
}

void sl_wino_grad(const struct sl_wino_job *j, const struct sl_wino_pixels *dy, struct sl_wino_part p, float *m)
{
	const float *d[SL_WINO_PLACES];
	struct tile t;

	for (int64_t at = 0; at < p.count * j->tiles_w; at++) {
		tile_at(j, &p, at, dy->c + SL_WINO_PAD, &t);
		point(j, dy, t.n, t.h, t.w, SL_WINO_OUT, d);
		j->simd->wino_grad(m + t.first, &t.places, d, (int)dy->c);
	}
}

void sl_wino_out(const struct sl_wino_pass *p, struct sl_wino_part part, const float *m, int64_t ldm, int64_t at,
		 int64_t n)
{
	const struct sl_wino_job *j = p->j;
	const struct sl_conv_call *call = j->call;
	const float *bias = p->back || call->bias == NULL ? NULL : call->bias + at;
	float *to = (p->back ? call->dx : call->y) + at, *y[SL_WINO_OUT * SL_WINO_OUT];
	struct tile t;

	for (int64_t i = 0; i < part.count * j->tiles_w; i++) {
		float *first;

		tile_at(j, &part, i, ldm, &t);
		first = to + ((t.n * j->d.h + t.h) * j->d.w + t.w) * p->out;
		for (int a = 0; a < SL_WINO_OUT; a++)
			for (int b = 0; b < SL_WINO_OUT; b++)
				y[a * SL_WINO_OUT + b] = t.h + a < j->d.h && t.w + b < j->d.w
								 ? first + (a * j->d.w + b) * p->out
								 : NULL;
		j->simd->wino_out(y, m + t.first, &t.places, bias, (int)n, p->back && call->add);
	}
}

struct sl_wino_pixels sl_wino_gradient(const struct sl_wino_job *j, int64_t row, int64_t count, int halo, float *memory)
{
	const struct sl_conv_call *call = j->call;
	const int64_t o = j->d.o, all = j->d.n * j->d.h;
	const int64_t from = sl_cpu_max(0, sl_wino_first_row(j, row) - halo) * j->d.w;
	const int64_t to = sl_cpu_min(all, sl_wino_first_row(j, row + count) + halo) * j->d.w;

	if (call->post == NULL)
		return (struct sl_wino_pixels){call->dy, o};
	j->simd->bn_backward(memory, call->dy + from * o, call->out + from * o, &j->bn.post, to - from, (int)o,
			     j->bn.act_post, false);
	return (struct sl_wino_pixels){memory - from * o, o};
}

void sl_wino_add_bias(const struct sl_wino_job *j, float *to, const struct sl_wino_pixels *dy, int64_t row,
		      int64_t count)
{
	const int64_t o = j->d.o, end = sl_wino_first_row(j, row + count) * j->d.w;

	for (int64_t px = sl_wino_first_row(j, row) * j->d.w; px < end; px++)
		j->simd->sum(to, to, dy->base + px * o, o);
}
