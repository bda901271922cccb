/* Large weights: U of all places is larger than a core's cache, so blocks would read it from memory again and again. A
 * round of tiles is transformed once for all threads, then each place is one product, then the outputs are made. If
 * one round has all tiles, some columns of U are made, used at every place and forgotten in a core's cache: U never
 * reaches memory. dW's rounds are alike. y and dX have the bits of blocks. */
#include <string.h>

#include "kernels/cpu/conv_wino_impl.h"

enum {
	COLUMNS = 128, /* of dU, input channels and at most OUTER output channels at a time */
	OUTER = 56,
	CHAIN = 128 /* gemm_rows sums so many products in one chain */
};

struct round {
	const struct sl_wino_job *j;
	struct sl_wino_pass *p; /* NULL: dW */
	int64_t row, rows;
};

/* ---- memory */

static int64_t place_floats(const struct sl_wino_job *j, int64_t c)
{
	return sl_wino_apart(j->round_rows * j->tiles_w * (c + SL_WINO_PAD));
}

static int64_t panel_place(const struct sl_wino_job *j)
{
	return sl_wino_apart(j->round_rows * j->tiles_w * SL_WINO_PANEL);
}

int64_t sl_wino_round_floats(const struct sl_wino_job *j)
{
	return j->large_dw ? j->units * (place_floats(j, sl_wino_most_in(j)) + place_floats(j, sl_wino_most_out(j)))
			   : 0;
}

int64_t sl_wino_round_worker_floats(const struct sl_wino_job *j)
{
	const int64_t panel = SL_WINO_PLACES * sl_wino_apart(CHAIN * SL_WINO_PANEL) + j->units * panel_place(j);

	return j->large ? sl_cpu_max(panel, SL_WINO_PLACES * sl_wino_apart(OUTER * COLUMNS)) : 0;
}

/* ---- forward and dX */

static void round_in(void *arg, int64_t at, int worker)
{
	const struct round *r = arg;
	const struct sl_wino_job *j = r->j;
	const struct sl_wino_pass *p = r->p;
	const int64_t row = r->row + at;
	float *memory = j->scratch + worker * sl_wino_worker_floats(j);
	const struct sl_wino_pixels from = p->back ? sl_wino_gradient(j, row, 1, 1, memory)
						   : (struct sl_wino_pixels){j->call->x, p->in / j->d.taps};

	sl_wino_in(j, &from, p->back, (struct sl_wino_part){r->row, row, 1, place_floats(j, p->in)}, j->round);
}

static void round_product(void *arg, int64_t place, int worker)
{
	const struct round *r = arg;
	const struct sl_wino_job *j = r->j;
	const struct sl_wino_pass *p = r->p;
	const int64_t unit = sl_wino_unit(j, place);
	const float *v = j->round + unit * place_floats(j, p->in);
	float *m = j->round + j->units * place_floats(j, p->in) + unit * place_floats(j, p->out);

	sl_gemm_rows(&p->u[place], m, p->out + SL_WINO_PAD, &v, 1, p->in + SL_WINO_PAD,
		     sl_wino_tiles(j, place, r->row, r->row + r->rows), false, &(struct sl_prefetch){0});
}

static void round_out(void *arg, int64_t at, int worker)
{
	const struct round *r = arg;
	const struct sl_wino_job *j = r->j;
	const struct sl_wino_pass *p = r->p;
	const float *m = j->round + j->units * place_floats(j, p->in);

	sl_wino_out(p, (struct sl_wino_part){r->row, r->row + at, 1, place_floats(j, p->out)}, m, p->out + SL_WINO_PAD,
		    0, p->out);
}

/* M's columns at … at + n − 1 += V's columns k … k + deep − 1 times U's rows. */
static void panel_products(const struct sl_wino_pass *p, const float *u, float *m, int64_t at, int64_t n, int64_t k,
			   int64_t deep)
{
	const struct sl_wino_job *j = p->j;
	const int64_t most = j->simd->panel, panels = sl_cpu_blocks(n, most);

	for (int64_t i = 0; i < SL_WINO_PLACES * panels; i++) {
		const int64_t place = i / panels, a = i % panels * most;
		const float *v = j->round + sl_wino_unit(j, place) * place_floats(j, p->in) + k;

		j->simd->gemm_rows(m + sl_wino_unit(j, place) * panel_place(j) + a, SL_WINO_PANEL, &v, 1,
				   p->in + SL_WINO_PAD, deep,
				   u + place * sl_wino_apart(CHAIN * SL_WINO_PANEL) + a * CHAIN,
				   sl_wino_tiles(j, place, 0, j->rows), (int)sl_cpu_min(most, n - a), k > 0,
				   &(struct sl_prefetch){0});
	}
}

/* Of the one round: SL_WINO_PANEL columns of the output. */
static void whole_panels(void *arg, int64_t index, int worker)
{
	const struct sl_wino_pass *p = ((const struct round *)arg)->p;
	const struct sl_wino_job *j = p->j;
	const int64_t chain = sl_cpu_blocks(p->in, sl_cpu_blocks(p->in, CHAIN)), most = j->simd->panel;
	const int64_t at = index * SL_WINO_PANEL, n = sl_cpu_min(SL_WINO_PANEL, p->out - at);
	const int64_t place_u = sl_wino_apart(CHAIN * SL_WINO_PANEL);
	float *u = j->scratch + worker * sl_wino_worker_floats(j), *m = u + SL_WINO_PLACES * place_u;

	for (int64_t k = 0; k < p->in; k += chain) {
		const int64_t deep = sl_cpu_min(chain, p->in - k);

		for (int64_t i = 0; i * most < n; i++) {
			const struct sl_wino_panel a = sl_wino_panel_at(p, at / most + i);

			sl_wino_weights(p, &a, k, deep, u + i * most * CHAIN, place_u);
		}
		panel_products(p, u, m, at, n, k, deep);
	}
	sl_wino_out(p, (struct sl_wino_part){0, 0, j->rows, panel_place(j)}, m, SL_WINO_PANEL, at, n);
}

void sl_wino_pass_rounds(struct sl_wino_pass *p)
{
	const struct sl_wino_job *j = p->j;
	struct sl_pool *pool = j->call->be->pool;

	for (struct round r = {j, p, 0, 0}; r.row < j->rows; r.row += r.rows) {
		r.rows = sl_cpu_min(j->round_rows, j->rows - r.row);
		sl_pool_run(pool, r.rows, round_in, &r);
		if (j->whole) {
			sl_pool_run(pool, sl_cpu_blocks(p->out, SL_WINO_PANEL), whole_panels, &r);
			continue;
		}
		sl_pool_run(pool, SL_WINO_PLACES, round_product, &r);
		sl_pool_run(pool, r.rows, round_out, &r);
	}
}

/* ---- dW */

static void round_gradient(void *arg, int64_t at, int worker)
{
	const struct round *r = arg;
	const struct sl_wino_job *j = r->j;
	const int64_t c = j->d.c, o = j->d.o, row = r->row + at;
	float *memory = j->scratch + worker * sl_wino_worker_floats(j), *v = j->round;
	float *m = v + j->units * place_floats(j, c), *db = j->bias + row * sl_cpu_line(o);
	const struct sl_wino_pixels x = {j->call->x, c / j->d.taps}, dy = sl_wino_gradient(j, row, 1, 0, memory);

	sl_wino_in(j, &x, false, (struct sl_wino_part){r->row, row, 1, place_floats(j, c)}, v);
	sl_wino_grad(j, &dy, (struct sl_wino_part){r->row, row, 1, place_floats(j, o)}, m);
	if (j->call->dbias == NULL)
		return;
	memset(db, 0, (size_t)o * sizeof *db);
	sl_wino_add_bias(j, db, &dy, row, 1);
}

/* Output channels of a task: whole tiles of gemm_outer's. */
static int64_t outer_rows(const struct sl_wino_job *j)
{
	return OUTER / j->simd->tile_rows * j->simd->tile_rows;
}

static int64_t column_blocks(const struct sl_wino_job *j)
{
	return sl_cpu_blocks(j->d.c, COLUMNS);
}

/* Of the one round: dU of outer_rows × COLUMNS channels, and their dw. */
static void whole_outer(void *arg, int64_t task, int worker)
{
	const struct round *r = arg;
	const struct sl_wino_job *j = r->j;
	const int64_t c = j->d.c, o = j->d.o, at = task / column_blocks(j) * outer_rows(j);
	const int64_t k = task % column_blocks(j) * COLUMNS, some = sl_cpu_min(COLUMNS, c - k);
	const int64_t n = sl_cpu_min(outer_rows(j), o - at), place = sl_wino_apart(OUTER * COLUMNS);
	const int64_t place_v = place_floats(j, c), place_m = place_floats(j, o);
	const float *v = j->round + k, *m = j->round + j->units * place_v + at;
	float *du = j->scratch + worker * sl_wino_worker_floats(j);

	memset(du, 0, (size_t)(SL_WINO_PLACES * place) * sizeof *du);
	for (int i = 0; i < SL_WINO_PLACES; i++)
		j->simd->gemm_outer(du + i * place, COLUMNS, m + sl_wino_unit(j, i) * place_m, o + SL_WINO_PAD, n,
				    v + sl_wino_unit(j, i) * place_v, c + SL_WINO_PAD, some,
				    sl_wino_tiles(j, i, r->row, r->row + r->rows), &(struct sl_prefetch){0});
	for (int64_t a = 0; a < n; a++)
		sl_wino_weights_back(j, j->call->dw + (at + a) * 9 * c + k, du + a * COLUMNS, place, some);
}

static void round_outer(void *arg, int64_t i, int worker)
{
	const struct round *r = arg;
	const struct sl_wino_job *j = r->j;
	const int64_t c = j->d.c, o = j->d.o, place_v = place_floats(j, c), unit = sl_wino_unit(j, i);
	const float *v = j->round + unit * place_v, *m = j->round + j->units * place_v + unit * place_floats(j, o);
	float *du = j->part + i * sl_wino_gradient_place(j);

	if (r->row == 0)
		memset(du, 0, (size_t)(o * c) * sizeof *du);
	j->simd->gemm_outer(du, c, m, o + SL_WINO_PAD, o, v, c + SL_WINO_PAD, c,
			    sl_wino_tiles(j, i, r->row, r->row + r->rows), &(struct sl_prefetch){0});
}

void sl_wino_weight_rounds(struct sl_wino_job *j)
{
	struct sl_pool *pool = j->call->be->pool;

	for (struct round r = {j, NULL, 0, 0}; r.row < j->rows; r.row += r.rows) {
		r.rows = sl_cpu_min(j->round_rows, j->rows - r.row);
		sl_pool_run(pool, r.rows, round_gradient, &r);
		if (j->call->dw == NULL)
			continue;
		if (j->whole_dw)
			sl_pool_run(pool, sl_cpu_blocks(j->d.o, outer_rows(j)) * column_blocks(j), whole_outer, &r);
		else
			sl_pool_run(pool, SL_WINO_PLACES, round_outer, &r);
	}
}
