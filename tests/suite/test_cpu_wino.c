/* Winograd's F(4×4, 3×3), and stride 2, beside the reference in double: tiles that edges cut short, channels that fill
 * no register, one and several rounds of large weights, at each SIMD level. Its errors are larger than a direct sum's,
 * and bounded here: root mean square 2e-6 of that of the tensor, the largest 3e-5. F(4×4) mixes the six inputs of a
 * tile's row. So a large number disturbs the 4×4 outputs of its tile alone, and a NaN spreads to them alone. */
#include <math.h>
#include <stdlib.h>

#include "common/base/pool.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "tests/ref/ref.h"
#include "tests/support/op_run.h"
#include "tests/support/unit.h"

enum { SEED = 5, TILE = 4, C = 33, O = 40 };
static const double most_rms = 2e-6, most = 3e-5;

static struct op_case conv_of(int n, int h, int w, int c, int o, bool bias)
{
	return (struct op_case){
		.kind = SL_OP_CONV2D, .n = n, .h = h, .w = w, .c = c, .u.conv = {c, o, 3, 3, 1, 1, 1, bias, 1}};
}

static struct op_case by_two(struct op_case c)
{
	c.u.conv.stride = 2;
	return c;
}

struct pair {
	struct sl_pool *pool;
	struct sl_backend cpu, ref;
	struct op_result got, want;
};

static void both(struct pair *p, const struct op_case *c, bool backward)
{
	struct sl_op op;
	const struct op_run_how how = {.chunks = 1, .backward = backward, .din = backward ? OP_DIN_ADD : OP_DIN_NONE};
	struct op_log log = {.backend = "cpu", .mode = "Winograd"};
	struct sl_fail fail = {0};

	*p = (struct pair){0};
	assert_int_equal(op_case_op(c, c->n, &op, &fail), SL_OK);
	if (c->h > 4 || c->w > 4)
		assert_true(sl_conv_wino_takes(&op));
	assert_int_equal(sl_pool_open(&p->pool, 2, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&p->cpu, p->pool, &fail), SL_OK);
	assert_int_equal(sl_ref_backend_open(&p->ref, &fail), SL_OK);
	assert_true(op_run(&p->got, &p->cpu, c, SEED, &how, &log));
	assert_true(op_run(&p->want, &p->ref, c, SEED, &how, &log));
	assert_int_equal(log.failures, 0);
	assert_int_equal(p->got.n_part, p->want.n_part);
}

static void close_both(struct pair *p)
{
	op_result_free(&p->got);
	op_result_free(&p->want);
	p->cpu.ops->close(&p->cpu);
	p->ref.ops->close(&p->ref);
	sl_pool_close(p->pool);
}

static void check_part(const struct op_case *c, const struct op_part *got, const struct op_part *want)
{
	double square = 0, error = 0, largest = 0, rms;

	for (int64_t i = 0; i < want->count; i++) {
		const double e = fabs((double)got->v[i] - want->v[i]);

		square += (double)want->v[i] * want->v[i];
		error += e * e;
		largest = fmax(largest, e);
	}
	rms = fmax(want->scale, sqrt(square / (double)want->count));
	if (!(sqrt(error / (double)want->count) <= most_rms * rms && largest <= most * rms))
		fail_msg("%dx%dx%d, %d to %d channels, %s: off by %.2g, at most %.2g", c->n, c->h, c->w, c->c,
			 (int)c->u.conv.out_c, want->name, sqrt(error / (double)want->count) / rms, largest / rms);
}

static void within_bounds(const struct op_case *c)
{
	struct pair p;

	both(&p, c, true);
	for (int i = 0; i < p.want.n_part; i++)
		if (p.want.part[i].count)
			check_part(c, &p.got.part[i], &p.want.part[i]);
	close_both(&p);
}

static void tiles_are_cut_at_edges(void **state)
{
	for (int h = 1; h <= 9; h++)
		for (int w = 1; w <= 9; w++) {
			const struct op_case c = conv_of(2, h, w, C, O, (h + w) % 2);

			within_bounds(&c);
		}
}

static void tiles_of_stride_two_are_cut_at_edges(void **state)
{
	for (int h = 1; h <= 17; h++)
		for (int w = 1 + h % 2; w <= 17; w += 2) {
			const struct op_case c = by_two(conv_of(2, h, w, C, O, w % 4 == 1)),
					     turned = by_two(conv_of(1, w, h, O, C, false));

			within_bounds(&c);
			within_bounds(&turned);
		}
}

static void large_weights_take_rounds(void **state)
{
	const struct op_case cases[] = {
		conv_of(1, 7, 7, 176, 168, true),   /* U and dU are made in the cache */
		conv_of(3, 5, 60, 176, 168, false), /* 90 tiles: U alone is */
		conv_of(3, 1, 256, 176, 168, true), /* two rounds */
		conv_of(2, 7, 9, 130, 120, true),   /* dU alone is large */
		by_two(conv_of(1, 14, 13, 176, 168, true)), by_two(conv_of(3, 9, 120, 176, 168, false)),
		by_two(conv_of(3, 2, 512, 176, 168, true)), by_two(conv_of(2, 14, 18, 130, 120, true)),
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		within_bounds(&cases[i]);
}

/* Whether an output of the tile that has output i, of any channel, is marked. */
static bool is_tile_marked(const struct op_case *c, const bool *mark, int64_t i)
{
	const int64_t step = c->u.conv.stride, h = (c->h + step - 1) / step, w = (c->w + step - 1) / step;
	const int64_t px = i / O, n = px / (h * w), y = px / w % h / TILE * TILE, x = px % w / TILE * TILE;

	for (int64_t a = y; a < y + TILE && a < h; a++)
		for (int64_t b = x; b < x + TILE && b < w; b++)
			for (int64_t o = 0; o < O; o++)
				if (mark[((n * h + a) * w + b) * O + o])
					return true;
	return false;
}

static void nan_stays_in_its_tiles(struct op_case c)
{
	struct pair p;
	bool *mark;

	c.one_nan = true;
	both(&p, &c, false);
	mark = malloc((size_t)p.want.part[0].count * sizeof *mark);
	assert_non_null(mark);
	for (int64_t i = 0; i < p.want.part[0].count; i++)
		mark[i] = isnan(p.want.part[0].v[i]);
	for (int64_t i = 0; i < p.want.part[0].count; i++)
		if (mark[i] ? !isnan(p.got.part[0].v[i]) : isnan(p.got.part[0].v[i]) && !is_tile_marked(&c, mark, i))
			fail_msg("output %lld is %g", (long long)i, (double)p.got.part[0].v[i]);
	free(mark);
	close_both(&p);
}

static void a_nan_stays_in_its_tiles(void **state)
{
	nan_stays_in_its_tiles(conv_of(3, 11, 13, C, O, true));
	nan_stays_in_its_tiles(by_two(conv_of(3, 21, 26, C, O, true)));
}

/* Outputs of the tiles that do not read it keep their bits; the others' errors grow with it. */
static void large_number_disturbs_its_tiles_alone(struct op_case c)
{
	struct pair p, before;
	int64_t count;
	bool *mark;

	both(&before, &c, false);
	c.one_large = true;
	both(&p, &c, false);
	count = p.want.part[0].count;
	mark = malloc((size_t)count * sizeof *mark);
	assert_non_null(mark);
	for (int64_t i = 0; i < count; i++)
		mark[i] = p.want.part[0].v[i] != before.want.part[0].v[i];
	for (int64_t i = 0; i < count; i++) {
		const float got = p.got.part[0].v[i];

		if (is_tile_marked(&c, mark, i) ? !(fabs((double)got - p.want.part[0].v[i]) <= 1000 * most)
						: got != before.got.part[0].v[i])
			fail_msg("output %lld is %.9g, not %.9g", (long long)i, (double)got,
				 (double)p.want.part[0].v[i]);
	}
	free(mark);
	close_both(&p);
	close_both(&before);
}

static void a_large_number_disturbs_its_tiles_alone(void **state)
{
	large_number_disturbs_its_tiles_alone(conv_of(3, 11, 13, C, O, false));
	large_number_disturbs_its_tiles_alone(by_two(conv_of(3, 21, 26, C, O, false)));
}

static void each_level(void **state)
{
	static const char variable[] = "SL_CPU_SIMD";
	const struct op_case cases[] = {conv_of(2, 6, 9, C, O, true), conv_of(1, 7, 7, 176, 168, false),
					by_two(conv_of(2, 11, 14, C, O, true)),
					by_two(conv_of(1, 14, 14, 176, 168, false))};

	for (int l = 0; sl_cpu_levels[l] != NULL; l++) {
		if (!sl_cpu_levels[l]->runs())
			continue;
		setenv(variable, sl_cpu_levels[l]->simd->name, 1);
		for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
			within_bounds(&cases[i]);
	}
	unsetenv(variable);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiles_are_cut_at_edges),
		cmocka_unit_test(tiles_of_stride_two_are_cut_at_edges),
		cmocka_unit_test(large_weights_take_rounds),
		cmocka_unit_test(a_nan_stays_in_its_tiles),
		cmocka_unit_test(a_large_number_disturbs_its_tiles_alone),
		cmocka_unit_test(each_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
