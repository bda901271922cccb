#include "kernels/cpu/gemm.h"

#include <string.h>

#include "common/base/half.h"

enum { STRIP = 64, PANEL_MOST = 32 }; /* factors of a panel's columns copied at a time: they stay in the L1 cache */

struct pack_job {
	struct sl_gemm_weights to;
	const float *w;
	int64_t depth, row, col; /* depth: factors, even if `to` counts pairs */
};

static int64_t columns_at(const struct sl_gemm_weights *b, int64_t at)
{
	return sl_cpu_min(b->simd->panel, b->n - at);
}

/* Rows k and k + 1 of B's columns become a row of pairs. */
static void pack_pair_row(const struct pack_job *j, uint32_t *to, const float *w, int64_t k, int64_t n)
{
	const float zero = 0, *a = w + k * j->row, *b = k + 1 < j->depth ? a + j->row : NULL;

	if (j->col == 1)
		j->to.simd->pair_floats(to, a, b, n);
	for (int64_t i = 0; i < n && j->col != 1; i++)
		j->to.simd->pair_floats(to + i, a + i * j->col, b ? b + i * j->col : &zero, 1);
}

/* One panel of n columns as pairs, in rows of `width`. */
static void pack_pairs_panel(const struct pack_job *j, float *to, const float *w, int64_t n, int64_t width)
{
	uint16_t strip[PANEL_MOST * STRIP];

	for (int64_t k = 0; k < j->depth && j->row != 1; k += 2, to += width) {
		memset(to + n, 0, (size_t)(width - n) * sizeof *to);
		pack_pair_row(j, (uint32_t *)(void *)to, w, k, n);
	}
	for (int64_t k = 0; k < j->depth && j->row == 1; k += STRIP, to += STRIP / 2 * width) {
		const int64_t deep = sl_cpu_min(STRIP, j->depth - k);

		for (int64_t i = 0; i < n; i++) {
			if (deep % 2)
				strip[i * STRIP + deep] = 0;
			j->to.simd->narrow(strip + i * STRIP, w + i * j->col + k, deep);
		}
		j->to.simd->transpose(to, (int)width, (const float *)(const void *)strip, STRIP / 2, n, (deep + 1) / 2);
	}
}

static void pack_panel(void *arg, int64_t panel, int worker)
{
	const struct pack_job *j = arg;
	int64_t at = panel * j->to.simd->panel, n = columns_at(&j->to, at);
	int64_t width = n > j->to.simd->panel / 2 ? j->to.simd->panel : j->to.simd->panel / 2;
	float *to = j->to.packed + at * j->to.depth;
	const float *w = j->w + at * j->col;

	if (j->to.pairs) {
		pack_pairs_panel(j, to, w, n, width);
		return;
	}
	if (j->row == 1) {
		j->to.simd->transpose(to, (int)width, w, j->col, n, j->to.depth);
		return;
	}
	if (j->col == 1 && n == width) {
		for (int64_t k = 0; k < j->to.depth; k++, to += width)
			memcpy(to, w + k * j->row, (size_t)width * sizeof *to);
		return;
	}
	for (int64_t k = 0; k < j->to.depth; k++, to += width) {
		for (int64_t i = 0; i < n; i++)
			to[i] = w[k * j->row + i * j->col];
		for (int64_t i = n; i < width; i++)
			to[i] = 0.0f;
	}
}

/* Packs contiguous rows (col = 1) into whole panels. A row is copied to all its panels before the next one,
 * so that memory is read in order. */
static void pack_rows(const struct pack_job *j)
{
	enum { AHEAD = 12, EIGHT = 8 };
	const int64_t width = j->to.simd->panel, panels = j->to.n / width;

	for (int64_t k = 0; k < j->to.depth; k++) {
		const float *w = j->w + k * j->row;
		float *to = j->to.packed + k * width;

		for (int64_t p = 0; p < panels; p++, w += width, to += width * j->to.depth) {
			for (int64_t at = 0; at < width; at += SL_CPU_LINE)
				__builtin_prefetch(w + AHEAD * j->row + at, 0, 3);
			for (int64_t at = 0; at < width; at += EIGHT) /* of constant size: a call of memcpy would take
								       * as long as the copy */
				memcpy(to + at, w + at, EIGHT * sizeof *to);
		}
	}
}

struct sl_gemm_weights sl_gemm_pack(struct sl_backend *be, float *packed, const float *w, int64_t depth, int64_t n,
				    int64_t row, int64_t col, bool pairs)
{
	struct pack_job job = {{sl_cpu_simd_of(be), packed, sl_gemm_depth(depth, pairs), n, pairs}, w, depth, row, col};

	sl_pool_run(be->pool, sl_cpu_blocks(n, job.to.simd->panel), pack_panel, &job);
	return job.to;
}

struct sl_gemm_weights sl_gemm_pack_here(const struct sl_cpu_simd *simd, float *packed, const float *w, int64_t depth,
					 int64_t n, int64_t row, int64_t col, bool pairs)
{
	struct pack_job job = {{simd, packed, sl_gemm_depth(depth, pairs), n, pairs}, w, depth, row, col};

	if (col == 1 && n % simd->panel == 0 && !pairs) {
		pack_rows(&job);
		return job.to;
	}
	for (int64_t panel = 0; panel < sl_cpu_blocks(n, simd->panel); panel++)
		pack_panel(&job, panel, 0);
	return job.to;
}

void sl_gemm_pack_held(const struct sl_cpu_simd *simd, float *packed, struct sl_held w, int64_t depth, int64_t n,
		       int64_t row, int64_t col)
{
	const struct sl_gemm_weights to = {simd, packed, depth, n, false};
	float strip[PANEL_MOST * STRIP];

	for (int64_t at = 0; at < n; at += simd->panel, packed += simd->panel * depth) {
		const int64_t wide = columns_at(&to, at);
		const int64_t width = wide > simd->panel / 2 ? simd->panel : simd->panel / 2;
		const uint16_t *from = w.data + at * col;

		for (int64_t k = 0; k < depth && row != 1; k++) {
			simd->widen(packed + k * width, from + k * row, wide, w.f16);
			memset(packed + k * width + wide, 0, (size_t)(width - wide) * sizeof *packed);
		}
		for (int64_t k = 0; k < depth && row == 1; k += STRIP) {
			const int64_t deep = sl_cpu_min(STRIP, depth - k);

			for (int64_t i = 0; i < wide; i++)
				simd->widen(strip + i * STRIP, from + i * col + k, deep, w.f16);
			simd->transpose(packed + k * width, (int)width, strip, STRIP, wide, deep);
		}
	}
}

static uint16_t factor_at(struct sl_held w, int64_t at)
{
	return w.f16 ? sl_bf16_of_float(sl_float_of_f16(w.data[at])) : w.data[at];
}

void sl_gemm_pack_pairs(const struct sl_cpu_simd *simd, float *packed, struct sl_held w, int64_t depth, int64_t n,
			int64_t row, int64_t col)
{
	const struct sl_gemm_weights to = {simd, packed, sl_gemm_depth(depth, true), n, true};
	const bool whole = row == 1 && !w.f16 && depth % 2 == 0 && col % 2 == 0;

	for (int64_t at = 0; at < n; at += simd->panel, packed += simd->panel * to.depth) {
		const int64_t wide = columns_at(&to, at);
		const int64_t width = wide > simd->panel / 2 ? simd->panel : simd->panel / 2;
		const struct sl_held from = {w.data + at * col, w.f16};
		uint32_t *pair = (uint32_t *)(void *)packed;

		if (whole) /* each pair is already one word, as a float would be */
			simd->transpose(packed, (int)width, (const float *)(const void *)from.data, col / 2, wide,
					to.depth);
		for (int64_t k = 0; k < depth && !whole; k += 2, pair += width) {
			const uint16_t *a = from.data + k * row;

			memset(pair + wide, 0, (size_t)(width - wide) * sizeof *pair);
			if (col == 1 && !w.f16) {
				simd->pair_rows(pair, a, k + 1 < depth ? a + row : NULL, wide);
				continue;
			}
			for (int64_t i = 0; i < wide; i++)
				pair[i] =
					factor_at(from, k * row + i * col) |
					(k + 1 < depth ? (uint32_t)factor_at(from, (k + 1) * row + i * col) << 16 : 0);
		}
	}
}

struct sl_gemm_weights sl_gemm_columns(const struct sl_gemm_weights *b, int64_t at, int64_t n)
{
	return (struct sl_gemm_weights){b->simd, b->packed + at * b->depth, b->depth, n, b->pairs};
}

/* As sl_gemm_rows, with rows [k, k + n_seg·depth) of B; with pairs, all count pairs. */
static void part_rows(const struct sl_gemm_weights *b, int64_t k, int64_t depth, float *y, int64_t ldy,
		      const float *const *seg, int n_seg, int64_t lda, int64_t rows, bool add, struct sl_prefetch *next)
{
	const int64_t panel = b->simd->panel;

	for (int64_t at = 0; at < b->n; at += panel) {
		const int64_t n = columns_at(b, at), width = n > panel / 2 ? panel : panel / 2;

		(b->pairs ? b->simd->gemm_pairs : b->simd->gemm_rows)(y + at, ldy, seg, n_seg, lda, depth,
								      b->packed + at * b->depth + k * width, rows,
								      (int)n, add, next);
	}
}

void sl_gemm_rows(const struct sl_gemm_weights *b, float *y, int64_t ldy, const float *const *seg, int n_seg,
		  int64_t lda, int64_t rows, bool add, struct sl_prefetch *next)
{
	part_rows(b, 0, b->depth / n_seg, y, ldy, seg, n_seg, lda, rows, add, next);
}

/* Not inlined: a function with a large frame touches all of it at each call, which plain products would pay for. */
static __attribute__((noinline)) void rounded_rows(const struct sl_gemm_weights *b, int64_t k, int64_t depth, float *y,
						   int64_t ldy, const float *x, int64_t lda, int64_t rows, bool add,
						   struct sl_prefetch *next)
{
	enum { ROWS = 56 /* four tiles of 14 */, DEEP = 384, LD = DEEP + 16 /* rows lie in different cache sets */ };
	float pairs[ROWS * LD];
	const float *from = pairs;

	for (int64_t m = 0; m < rows; m += ROWS)
		for (int64_t at = 0; at < depth; at += 2 * DEEP) {
			const int64_t deep = sl_cpu_min(2 * DEEP, depth - at), high = sl_cpu_min(ROWS, rows - m);

			for (int64_t r = 0; r < high; r++)
				sl_gemm_round_row(b->simd, pairs + r * LD, x + (m + r) * lda + at, deep);
			part_rows(b, (k + at) / 2, sl_gemm_depth(deep, true), y + m * ldy, ldy, &from, 1, LD, high,
				  add || at > 0, next);
		}
}

void sl_gemm_float_rows(const struct sl_gemm_weights *b, int64_t k, int64_t depth, float *y, int64_t ldy,
			const float *x, int64_t lda, int64_t rows, bool add, struct sl_prefetch *next)
{
	if (b->pairs)
		rounded_rows(b, k, depth, y, ldy, x, lda, rows, add, next);
	else
		part_rows(b, k, depth, y, ldy, &x, 1, lda, rows, add, next);
}
