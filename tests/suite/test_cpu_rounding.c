/* Errors of sums on the CPU backend, at the sizes of real layers, stay within the bounds of short
 * chains of floats that are then summed in double. A plain sum of all terms in float exceeds the
 * bounds below several times. Errors are counted in U, half the spacing of floats at 1. */
#include <math.h>

#include "common/base/pool.h"
#include "common/base/rng.h"
#include "kernels/cpu/bn.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/level.h"
#include "tests/support/unit.h"

#define U 0x1p-24

/* The i-th best SIMD level that this CPU can run; NULL: no more. */
static const struct sl_cpu_simd *level(int i)
{
	for (int l = 0; sl_cpu_levels[l] != NULL; l++)
		if (sl_cpu_levels[l]->runs() && i-- == 0)
			return sl_cpu_levels[l]->simd;
	return NULL;
}

static float *some(int64_t n, uint16_t which, float shift)
{
	const struct sl_rng_key key = {.seed = 7, .tensor = which};
	float *x = malloc((size_t)n * sizeof *x);

	assert_non_null(x);
	for (int64_t i = 0; i < n; i++) {
		float pair[2];

		sl_rng_normal2(sl_rng_u32(&key, 2 * (uint64_t)i), sl_rng_u32(&key, 2 * (uint64_t)i + 1), pair);
		x[i] = pair[0] + shift;
	}
	return x;
}

/* ---- batch normalisation */

/* Rows as a depthwise layer delivers them: image rows of WIDE pixels, in parts of HIGH rows. */
enum { WIDE = 112, HIGH = 28, PARTS = 4, C = 19, ROWS = PARTS * HIGH * WIDE };

struct norm {
	struct sl_op op;
	struct sl_op_call call;
	struct sl_backend be;
	float weight[C], bias[C], mean[C], var[C], grad_weight[C], grad_bias[C], saved[SL_BN_SAVED * C];
	float coef[6 * 32];
	float *part;
	int64_t stride;
};

static void norm_open(struct norm *n)
{
	*n = (struct norm){.op = {.kind = SL_OP_BATCHNORM}};
	n->op.u.bn = (struct sl_bn_attr){.c = C, .eps = 1e-5f, .momentum = 0.1f, .act = SL_ACT_NONE};
	n->call.be = &n->be;
	n->call.op = &n->op;
	n->call.training = true;
	n->call.param[0] = n->weight;
	n->call.param[1] = n->bias;
	n->call.param[2] = n->mean;
	n->call.param[3] = n->var;
	n->call.grad[0] = n->grad_weight;
	n->call.grad[1] = n->grad_bias;
	n->call.saved = n->saved;
	for (int k = 0; k < C; k++)
		n->weight[k] = n->var[k] = 1;
	n->stride = sl_bn_part_floats(C);
	n->part = aligned_alloc(64, (size_t)(PARTS * n->stride) * sizeof(float));
	assert_non_null(n->part);
}

static void norm_statistics(struct norm *n, const struct sl_cpu_simd *simd, const float *x)
{
	const struct sl_bn_range all = {0, C};

	for (int p = 0; p < PARTS; p++)
		for (int h = 0; h < HIGH; h++) {
			const float *row = x + (p * HIGH + h) * WIDE * C;

			if (h == 0)
				sl_bn_begin_stats(n->part + p * n->stride, row, C, all);
			sl_bn_add_stats(simd, n->part + p * n->stride, row, WIDE, C, all);
		}
	sl_bn_finish_stats(&n->call, n->part, PARTS);
}

static void norm_sums(struct norm *n, const struct sl_cpu_simd *simd, const float *dy, const float *x)
{
	const struct sl_bn_range all = {0, C};
	struct sl_cpu_bn coef = sl_bn_load(&n->call, false, n->coef);

	for (int p = 0; p < PARTS; p++) {
		sl_bn_begin_sums(n->part + p * n->stride, C, all);
		for (int h = 0; h < HIGH; h++) {
			int64_t at = (p * HIGH + h) * WIDE * C;

			sl_bn_add_sums(simd, n->part + p * n->stride, dy + at, x + at, &coef, &n->op, WIDE, all);
		}
	}
	sl_bn_finish_sums(&n->call, n->part, PARTS);
}

/* The exact mean and Σ (x − mean)² of a channel. */
static void truth(const float *x, int k, double *mean, double *m2)
{
	*mean = *m2 = 0;
	for (int64_t r = 0; r < ROWS; r++)
		*mean += (double)x[r * C + k];
	*mean /= ROWS;
	for (int64_t r = 0; r < ROWS; r++)
		*m2 += ((double)x[r * C + k] - *mean) * ((double)x[r * C + k] - *mean);
}

/* The first row of each part, which serves as its origin, is an outlier, as the corner of an image is. */
static void statistics_of_many_rows(void **state)
{
	float *x = some(ROWS * C, 1, 3);
	double worst_mean = 0, worst_var = 0;

	for (int p = 0; p < PARTS; p++)
		for (int k = 0; k < C; k++)
			x[p * HIGH * WIDE * C + k] += 3;
	for (int l = 0; level(l) != NULL; l++) {
		struct norm n;

		norm_open(&n);
		norm_statistics(&n, level(l), x);
		for (int k = 0; k < C; k++) {
			double mean, m2, sigma, got = (double)n.saved[k] + (double)n.saved[C + k];

			truth(x, k, &mean, &m2);
			sigma = sqrt(m2 / ROWS);
			worst_mean = fmax(worst_mean, fabs(got - mean) / sigma);
			worst_var = fmax(worst_var, fabs((double)n.saved[3 * C + k] * (ROWS - 1) / m2 - 1));
		}
		free(n.part);
	}
	print_message("  statistics: mean off by %.2f U of σ, variance by %.2f U\n", worst_mean / U, worst_var / U);
	assert_true(worst_mean <= 1 * U);
	assert_true(worst_var <= 10 * U);
	free(x);
}

/* Gradients with large values that cancel between the two halves of the rows. */
static void sums_of_many_rows(void **state)
{
	float *x = some(ROWS * C, 2, 0), *dy = some(ROWS * C, 3, 0);
	double worst_g = 0, worst_gx = 0;

	for (int64_t i = 0; i < ROWS * C; i++)
		dy[i] += i % C % 2 == 0 ? 0.0f : i < ROWS * C / 2 ? 10.0f : -10.0f;
	for (int l = 0; level(l) != NULL; l++) {
		struct norm n;

		norm_open(&n);
		norm_statistics(&n, level(l), x);
		norm_sums(&n, level(l), dy, x);
		for (int k = 0; k < C; k++) {
			double mean, m2, g = 0, gx = 0, all_g = 0, all_gx = 0;

			truth(x, k, &mean, &m2);
			for (int64_t r = 0; r < ROWS; r++) {
				double d = (double)dy[r * C + k],
				       s = ((double)x[r * C + k] - mean) / sqrt(m2 / ROWS + (double)n.op.u.bn.eps);

				g += d;
				gx += d * s;
				all_g += fabs(d);
				all_gx += fabs(d * s);
			}
			worst_g = fmax(worst_g, fabs((double)n.grad_bias[k] - g) / all_g);
			worst_gx = fmax(worst_gx, fabs((double)n.grad_weight[k] - gx) / all_gx);
		}
		free(n.part);
	}
	print_message("  sums of backward: off by %.3f and %.3f U of the terms\n", worst_g / U, worst_gx / U);
	assert_true(worst_g <= 0.3 * U);
	assert_true(worst_gx <= 0.08 * U);
	free(x);
	free(dy);
}

/* The result is the float nearest to (1 − m)·old + m·new: rounded once per step, not at every term. */
static void running_statistics_are_rounded_once(void **state)
{
	float *old = some(C, 4, 0), *seen = some(2 * C, 5, 0);
	struct norm n;

	norm_open(&n);
	for (int step = 0; step < 50; step++) {
		for (int k = 0; k < C; k++) {
			double m = (double)n.op.u.bn.momentum, want;

			n.saved[k] = seen[k] + (float)step;
			n.saved[C + k] = 0;
			n.saved[3 * C + k] = fabsf(seen[C + k]) + (float)step;
			n.mean[k] = old[k];
			n.var[k] = fabsf(old[k]);
			want = (1 - m) * (double)old[k] + m * (double)n.saved[k];
			old[k] = (float)want;
		}
		sl_bn_commit(&n.call);
		for (int k = 0; k < C; k++)
			assert_true(n.mean[k] == old[k]);
	}
	free(n.part);
	free(old);
	free(seen);
}

/* ---- products */

enum { DEPTH = 960, TALL = 504, NA = 17, NB = 21 };

/* Sums for √ of the mean of (got − want)², relative to the size of a sum of random terms. */
struct error {
	double off, size;
};

static void count(struct error *e, double got, double want, double squares)
{
	e->off += (got - want) * (got - want);
	e->size += squares;
}

static double relative(const struct error *e)
{
	return sqrt(e->off / e->size);
}

static void products_of_rows(void **state)
{
	float *x = some(NA * DEPTH, 6, 0), *w = some(DEPTH * NB, 7, 0), y[NA * NB];
	float *packed = aligned_alloc(64, (size_t)sl_gemm_packed_floats(DEPTH, NB) * sizeof *packed);
	struct error e = {0, 0};

	for (int l = 0; level(l) != NULL; l++) {
		struct sl_cpu cpu = {.simd = level(l)};
		struct sl_backend be = {.impl = &cpu};
		struct sl_gemm_weights b = sl_gemm_pack(&be, packed, w, DEPTH, NB, NB, 1, false);
		const float *seg = x;
		struct sl_prefetch none = {.n = 0};

		sl_gemm_rows(&b, y, NB, &seg, 1, DEPTH, NA, false, &none);
		for (int i = 0; i < NA; i++)
			for (int j = 0; j < NB; j++) {
				double want = 0, squares = 0;

				for (int k = 0; k < DEPTH; k++) {
					double p = (double)x[i * DEPTH + k] * (double)w[k * NB + j];

					want += p;
					squares += p * p;
				}
				count(&e, (double)y[i * NB + j], want, squares);
			}
	}
	print_message("  products of rows: off by %.1f U\n", relative(&e) / U);
	assert_true(relative(&e) <= 6 * U);
	free(x);
	free(w);
	free(packed);
}

static void outer_products(void **state)
{
	enum { BLOCKS = 6 };
	float *a = some(BLOCKS * TALL * NA, 8, 0), *b = some(BLOCKS * TALL * NB, 9, 0), c[NA * NB];
	struct error e = {0, 0};

	for (int l = 0; level(l) != NULL; l++) {
		struct sl_prefetch none = {.n = 0};

		memset(c, 0, sizeof c);
		for (int block = 0; block < BLOCKS; block++)
			level(l)->gemm_outer(c, NB, a + block * TALL * NA, NA, NA, b + block * TALL * NB, NB, NB, TALL,
					     &none);
		for (int i = 0; i < NA; i++)
			for (int j = 0; j < NB; j++) {
				double want = 0, squares = 0;

				for (int m = 0; m < BLOCKS * TALL; m++) {
					double p = (double)a[m * NA + i] * (double)b[m * NB + j];

					want += p;
					squares += p * p;
				}
				count(&e, (double)c[i * NB + j], want, squares);
			}
	}
	print_message("  outer products: off by %.1f U\n", relative(&e) / U);
	assert_true(relative(&e) <= 6 * U);
	free(a);
	free(b);
}

/* A wide product, whose factors are copied, has the same bits as its small parts, whose factors are read in place. */
static void wide_outer_products(void **state)
{
	enum { ROWS = 200, HIGH = 256, WIDTH = 131, PART = 20 };
	float *a = some(ROWS * HIGH, 12, 0), *b = some(ROWS * WIDTH, 13, 0);
	float *whole = some(HIGH * WIDTH, 14, 0), *parts = some(HIGH * WIDTH, 14, 0);

	for (int l = 0; level(l) != NULL; l++) {
		struct sl_prefetch none = {.n = 0};

		level(l)->gemm_outer(whole, WIDTH, a, HIGH, HIGH, b, WIDTH, WIDTH, ROWS, &none);
		for (int i = 0; i < HIGH; i += PART)
			for (int k = 0; k < WIDTH; k += PART)
				level(l)->gemm_outer(parts + i * WIDTH + k, WIDTH, a + i, HIGH,
						     sl_cpu_min(PART, HIGH - i), b + k, WIDTH,
						     sl_cpu_min(PART, WIDTH - k), ROWS, &none);
		assert_memory_equal(whole, parts, HIGH * WIDTH * sizeof *whole);
	}
	free(a);
	free(b);
	free(whole);
	free(parts);
}

/* dw of a depthwise layer over image rows whose padding columns are zero. */
static void depthwise_weights(void **state)
{
	enum { L = SL_DW_LANES, PADDED = (WIDE + 2) * L, MANY = 56 };
	float *x = some((MANY + 2) * PADDED, 10, 0), *dy = some(MANY * PADDED, 11, 0), dw[10 * L];
	struct error e = {0, 0};

	for (int l = 0; level(l) != NULL; l++) {
		struct sl_prefetch none = {.n = 0};

		memset(dw, 0, sizeof dw);
		for (int h = 0; h < MANY; h++) {
			const float *rows[3] = {x + h * PADDED, x + (h + 1) * PADDED, x + (h + 2) * PADDED};

			level(l)->dw_weight_row(dw, L, dy + h * PADDED + L, rows, WIDE, L, 1, &none);
		}
		for (int tap = 0; tap < 9; tap++)
			for (int k = 0; k < L; k++) {
				double want = 0, squares = 0;

				for (int h = 0; h < MANY; h++)
					for (int o = 0; o < WIDE; o++) {
						double p = (double)x[(h + tap / 3) * PADDED + (o + tap % 3) * L + k] *
							   (double)dy[h * PADDED + (o + 1) * L + k];

						want += p;
						squares += p * p;
					}
				count(&e, (double)dw[tap * L + k], want, squares);
			}
	}
	print_message("  depthwise weights: off by %.1f U\n", relative(&e) / U);
	assert_true(relative(&e) <= 6 * U);
	free(x);
	free(dy);
}

/* The mean of 7×7 planes whose values are all positive. */
static void means_of_planes(void **state)
{
	enum { SIDE = 7, PLANE = SIDE * SIDE };
	float *x = some(PLANE * C, 12, 6), y[C];
	double worst = 0;

	for (int l = 0; level(l) != NULL; l++) {
		level(l)->window_sum(y, x, SIDE * C, C, SIDE, SIDE, C, 1.0 / PLANE);
		for (int k = 0; k < C; k++) {
			double want = 0;

			for (int i = 0; i < PLANE; i++)
				want += (double)x[i * C + k] / PLANE;
			worst = fmax(worst, fabs((double)y[k] / want - 1));
		}
	}
	print_message("  means of planes: off by %.1f U\n", worst / U);
	assert_true(worst <= 2 * U);
	free(x);
}

/* ---- linear layers */

enum { LINEAR_ROWS = 300, LINEAR_O = 70 };

/* Computes y and dx of rows [from, from + rows) of a layer of f features. */
static void linear(int threads, int64_t f, int64_t from, int64_t rows, float *const data[4], float *y, float *dx)
{
	const struct sl_shape in = sl_shape2(rows, f), out = sl_shape2(rows, LINEAR_O);
	struct sl_op op = {.kind = SL_OP_LINEAR, .name = "linear", .n_in = 1, .n_param = 2, .in_shape = {in}};
	struct sl_backend be;
	struct sl_pool *pool;
	struct sl_fail fail;
	struct sl_op_call call = {.be = &be, .op = &op, .param = {data[2], data[3]}};
	struct sl_op_prepare prepare = {.be = &be, .op = &op, .fail = &fail};
	const struct sl_kernel *kernel;

	op.out_shape = out;
	op.u.linear = (struct sl_linear_attr){.in_f = f, .out_f = LINEAR_O, .bias = true};
	assert_int_equal(sl_pool_open(&pool, threads, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	kernel = be.ops->kernel[SL_OP_LINEAR];
	assert_int_equal(kernel->prepare(&prepare), SL_OK);
	call.workspace = aligned_alloc(64, (prepare.sizes.workspace_bytes + 63) & ~(size_t)63);
	assert_non_null(call.workspace);
	call.in[0] = (struct sl_tensor){SL_F32, in, data[0] + from * f, &be};
	call.out = (struct sl_tensor){SL_F32, out, y, &be};
	call.dout = (struct sl_tensor){SL_F32, out, data[1] + from * LINEAR_O, &be};
	call.din[0] = (struct sl_tensor){SL_F32, in, dx, &be};
	assert_int_equal(kernel->forward(&call), SL_OK);
	assert_int_equal(kernel->backward(&call), SL_OK);
	free(call.workspace);
	be.ops->close(&be);
	sl_pool_close(pool);
}

/* Returns Σ over n of a[i·step_a]·b[i·step_b]; *size: the size of the products. */
static double product_of(const float *a, int64_t step_a, const float *b, int64_t step_b, int64_t n, double *size)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++) {
		const double product = (double)a[i * step_a] * (double)b[i * step_b];

		sum += product;
		*size += fabs(product);
	}
	return sum;
}

static void assert_linear(int64_t f, float *const data[4], const float *y, const float *dx)
{
	for (int64_t r = 0; r < LINEAR_ROWS; r += 7) {
		for (int64_t o = 0; o < LINEAR_O; o++) {
			double size = 1;
			double sum = product_of(data[0] + r * f, 1, data[2] + o * f, 1, f, &size) + (double)data[3][o];

			assert_true(fabs((double)y[r * LINEAR_O + o] - sum) < size * 8 * U);
		}
		for (int64_t c = 0; c < f; c++) {
			double size = 1;
			double sum = product_of(data[1] + r * LINEAR_O, 1, data[2] + c, f, LINEAR_O, &size);

			assert_true(fabs((double)dx[r * f + c] - sum) < size * 8 * U);
		}
	}
}

/* A row's bits depend neither on other rows nor on threads, so chunks and evaluations give the
 * same. */
static void rows_stand_alone(int64_t f)
{
	static const struct {
		int threads;
		int64_t from, rows;
	} cases[] = {{1, 0, 300}, {3, 0, 300}, {16, 0, 300}, {1, 131, 5}, {2, 299, 1}, {1, 13, 128}};
	float *data[4] = {some(LINEAR_ROWS * f, 50, 0), some(LINEAR_ROWS * LINEAR_O, 51, 0), some(LINEAR_O * f, 52, 0),
			  some(LINEAR_O, 53, 0)};
	float *y = some(LINEAR_ROWS * LINEAR_O, 54, 0), *dx = some(LINEAR_ROWS * f, 55, 0);
	float *y2 = some(LINEAR_ROWS * LINEAR_O, 56, 0), *dx2 = some(LINEAR_ROWS * f, 57, 0);

	linear(2, f, 0, LINEAR_ROWS, data, y, dx);
	assert_linear(f, data, y, dx);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const int64_t from = cases[i].from, rows = cases[i].rows;

		linear(cases[i].threads, f, from, rows, data, y2, dx2);
		assert_memory_equal(y2, y + from * LINEAR_O, (size_t)(rows * LINEAR_O) * sizeof *y);
		assert_memory_equal(dx2, dx + from * f, (size_t)(rows * f) * sizeof *dx);
	}
	for (int i = 0; i < 4; i++)
		free(data[i]);
	free(y);
	free(dx);
	free(y2);
	free(dx2);
}

/* 1024: rows are copied. 300: the weights are contiguous and prefetched. */
static void rows_of_a_linear_layer_stand_alone(void **state)
{
	rows_stand_alone(1024);
	rows_stand_alone(300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statistics_of_many_rows),
		cmocka_unit_test(sums_of_many_rows),
		cmocka_unit_test(running_statistics_are_rounded_once),
		cmocka_unit_test(products_of_rows),
		cmocka_unit_test(outer_products),
		cmocka_unit_test(wide_outer_products),
		cmocka_unit_test(depthwise_weights),
		cmocka_unit_test(means_of_planes),
		cmocka_unit_test(rows_of_a_linear_layer_stand_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
