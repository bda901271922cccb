/* Parameters held in 16 bits: kernels compute the same bits as with the same values in
 * fp32, at every SIMD level, and on a backend that has to widen them to fp32 first. */
#include <math.h>

#include "common/base/half.h"
#include "common/base/pool.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "common/weights/weights.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "tests/ref/ref.h"
#include "tests/support/unit.h"

enum { IN = 850, OUT = 70, LAST = 33, ROWS = 19, WORDS = 40 };

static struct sl_graph graph_read(const char *text)
{
	struct sl_graph g = {0};
	struct sl_fail fail = {0};

	if (sl_graph_read(&g, text, strlen(text), &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return g;
}

/* A middle of two layers, the second with a transposed weight [in, out]; or a head that is an embedding. */
static struct sl_graph graph_of(bool head, const char *held)
{
	char text[512];

	if (head)
		snprintf(text, sizeof text,
			 "graph 1\nin words i32 T[] most=4\nparam e.weight [%d,%d] frozen %s\n"
			 "node e embedding %%0 &0\nout head_act %%1\n",
			 WORDS, IN, held);
	else
		snprintf(text, sizeof text,
			 "graph 1\nin head_act f32 R[%d]\nparam a.weight [%d,%d] frozen %s\nparam a.bias [%d] frozen "
			 "zero\nparam b.weight [%d,%d] frozen %s\nnode a linear %%0 &0 &1\nnode b linear %%1 &2 "
			 "transposed=1\nout mid_act %%2\n",
			 IN, OUT, IN, held, OUT, OUT, LAST, held);
	return graph_read(text);
}

struct side {
	struct sl_plan *plan;
	struct sl_exec *exec;
	const struct sl_plan_segment *s;
};

static struct side side_open(struct sl_backend *be, bool head, const char *held)
{
	const struct sl_plan_spec spec = {
		.batch = ROWS, .chunks = 1, .seed = 4, .row_tokens = head ? 4 : 0, .chunk_tokens = head ? ROWS : 0};
	const enum sl_segment which = head ? SL_HEAD : SL_MIDDLE;
	struct sl_graph g = graph_of(head, held);
	struct sl_fail fail = {0};
	struct side x;

	if (sl_plan_open_part(&x.plan, &spec, which, &g, &fail) != SL_OK ||
	    sl_exec_open(&x.exec, x.plan, which, be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	x.s = &x.plan->segment[which];
	return x;
}

static void side_close(struct side *x)
{
	sl_exec_close(x->exec);
	sl_plan_close(x->plan);
}

/* A 16-bit number of ordinary size, from i. */
static uint16_t some(int64_t i, bool f16)
{
	const uint16_t sign = (uint16_t)(i * 7919 % 2 << 15);

	return f16 ? (uint16_t)(sign | (0x2c00 + i * 131 % 0x0fff)) : (uint16_t)(sign | (0x3d00 + i * 37 % 0x1ff));
}

static float wide(uint16_t x, bool f16)
{
	return f16 ? sl_float_of_f16(x) : sl_float_of_bf16(x);
}

/* Sets the same values, whether parameters are held or not: in 16 bits where they are, else in fp32. */
static void set_weights(struct side *x, bool f16)
{
	float *range = calloc((size_t)x->s->weight_count + 1, sizeof *range);

	for (int i = 0; i < x->s->n_param; i++) {
		const struct sl_segment_param *p = &x->s->param[i];

		for (int64_t k = 0; k < p->count; k++)
			if (p->held)
				((uint16_t *)(void *)(range + p->offset))[k] = some(k + p->graph_param, f16);
			else
				range[p->offset + k] = wide(some(k + p->graph_param, f16), f16);
	}
	assert_int_equal(sl_exec_set_weights(x->exec, range), SL_OK);
	free(range);
}

static void step(struct side *x, float *out, float *din)
{
	const struct sl_exec_call call = {.dims = sl_dims_rows(ROWS), .training = true};
	float *in = sl_exec_input(x->exec, 0, ROWS).data, *dout = sl_exec_dout(x->exec, 0, ROWS).data;

	for (int i = 0; i < ROWS * IN; i++)
		in[i] = sinf((float)i);
	for (int i = 0; i < ROWS * LAST; i++)
		dout[i] = cosf((float)i);
	assert_int_equal(sl_exec_begin(x->exec), SL_OK);
	assert_int_equal(sl_exec_forward(x->exec, &call, NULL), SL_OK);
	memcpy(out, sl_exec_output(x->exec, 0, ROWS).data, ROWS * LAST * sizeof *out);
	assert_int_equal(sl_exec_backward(x->exec, &call, NULL), SL_OK);
	memcpy(din, sl_exec_din(x->exec, 0, ROWS).data, ROWS * IN * sizeof *din);
}

/* The first rows alone give the same outputs as among others. */
static void first_rows(struct side *x, const float *out)
{
	for (int rows = 1; rows < 7; rows++) {
		const struct sl_exec_call call = {.dims = sl_dims_rows(rows), .training = true};
		float *in = sl_exec_input(x->exec, 0, rows).data;

		for (int i = 0; i < rows * IN; i++)
			in[i] = sinf((float)i);
		assert_int_equal(sl_exec_forward(x->exec, &call, NULL), SL_OK);
		assert_memory_equal(sl_exec_output(x->exec, 0, rows).data, out, (size_t)(rows * LAST) * sizeof *out);
	}
}

static void compare(struct sl_backend *be, bool f16)
{
	static float out[2][ROWS * LAST], din[2][ROWS * IN];
	struct side held = side_open(be, false, f16 ? "f16 file" : "bf16 file"), plain = side_open(be, false, "zero");

	set_weights(&held, f16);
	set_weights(&plain, f16);
	step(&held, out[0], din[0]);
	step(&plain, out[1], din[1]);
	assert_memory_equal(out[0], out[1], sizeof out[0]);
	assert_memory_equal(din[0], din[1], sizeof din[0]);
	assert_true(out[0][5] != 0 && din[0][5] != 0);
	first_rows(&held, out[0]);
	first_rows(&plain, out[0]);
	/* two 16-bit values in the place of one float */
	assert_in_range(held.s->weight_count, (IN * OUT + OUT * LAST) / 2 + OUT, plain.s->weight_count * 6 / 10);
	side_close(&held);
	side_close(&plain);
}

static void layers_compute_the_same(void **state)
{
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_fail fail;

	assert_int_equal(sl_pool_open(&pool, 2, &fail), SL_OK);
	for (int l = 0; sl_cpu_levels[l] != NULL; l++) {
		if (!sl_cpu_levels[l]->runs())
			continue;
		setenv("SL_CPU_SIMD", sl_cpu_levels[l]->simd->name, 1);
		assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
		compare(&be, false);
		compare(&be, true);
		be.ops->close(&be);
	}
	unsetenv("SL_CPU_SIMD");
	sl_pool_close(pool);
	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	compare(&be, false);
	compare(&be, true);
	be.ops->close(&be);
}

/* A head's held parameters lie outside of its range of weights. */
static void an_embedding_reads_them_where_they_lie(void **state)
{
	static uint16_t table[WORDS * IN];
	const uint16_t *held[] = {table};
	const uint32_t begin[] = {0, 2, 3};
	const struct sl_exec_call call = {.dims = {.rows = 2, .tokens = 3, .begin = begin}, .training = true};
	struct sl_backend be[2];
	struct sl_fail fail;

	for (int i = 0; i < WORDS * IN; i++)
		table[i] = some(i, false);
	assert_int_equal(sl_cpu_backend_open(&be[0], NULL, &fail), SL_OK);
	assert_int_equal(sl_ref_backend_open(&be[1], &fail), SL_OK);
	for (int b = 0; b < 2; b++) {
		struct side x = side_open(&be[b], true, "bf16 file");
		const float none = 0, *out;
		int32_t *id;

		assert_int_equal(x.s->weight_count, 0);
		sl_exec_hold(x.exec, held);
		assert_int_equal(sl_exec_set_weights(x.exec, &none), SL_OK);
		id = sl_exec_input(x.exec, 0, 3).data;
		for (int t = 0; t < 3; t++)
			id[t] = 13 * t + 1;
		assert_int_equal(sl_exec_forward(x.exec, &call, NULL), SL_OK);
		out = sl_exec_output(x.exec, 0, 3).data;
		for (int i = 0; i < 3 * IN; i++)
			assert_true(out[i] == sl_float_of_bf16(table[(13 * (i / IN) + 1) * IN + i % IN]));
		side_close(&x);
		be[b].ops->close(&be[b]);
	}
}

/* One layer in precision bf16_factors: sums of products of rounded factors, whatever the other rows contain. */
enum { MOST = 151 };

static float rounded(float x)
{
	return sl_float_of_bf16(sl_bf16_of_float(x));
}

static enum sl_err open_layer(struct side *x, struct sl_backend *be, int in, int out, bool transposed, const char *held,
			      struct sl_fail *fail)
{
	const struct sl_plan_spec spec = {.batch = ROWS, .chunks = 1, .precision = SL_PRECISION_BF16_FACTORS};
	struct sl_graph g;
	char text[256];

	snprintf(text, sizeof text,
		 "graph 1\nin head_act f32 R[%d]\nparam a.weight [%d,%d] frozen %s\nnode a linear %%0 "
		 "&0%s\nout mid_act %%1\n",
		 in, transposed ? in : out, transposed ? out : in, held, transposed ? " transposed=1" : "");
	g = graph_read(text);
	if (sl_plan_open_part(&x->plan, &spec, SL_MIDDLE, &g, fail) != SL_OK)
		fail_msg("%s", fail->text);
	x->s = &x->plan->segment[SL_MIDDLE];
	return sl_exec_open(&x->exec, x->plan, SL_MIDDLE, be, fail);
}

/* Expects y [rows, n] = x [rows, depth]·w, with w[k][j] at k·row
 * + j·col, within 1e-6 of the sum of the products' magnitudes. */
static void is_product(const float *y, const float *x, const float *w, int rows, int depth, int n, int row, int col)
{
	for (int r = 0; r < rows; r++)
		for (int j = 0; j < n; j++) {
			double sum = 0, all = 0;

			for (int k = 0; k < depth; k++) {
				const double p =
					(double)rounded(x[r * depth + k]) * (double)rounded(w[k * row + j * col]);

				sum += p;
				all += fabs(p);
			}
			if (!(fabs(sum - (double)y[r * n + j]) <= 1e-6 * all))
				fail_msg("row %d, column %d: %g, not %g", r, j, (double)y[r * n + j], sum);
		}
}

static void layer(struct sl_backend *be, int in, int out, bool transposed, bool f16)
{
	static float w[MOST * MOST], x[ROWS * MOST], y[ROWS * MOST], dy[ROWS * MOST];
	const struct sl_exec_call call = {.dims = sl_dims_rows(ROWS), .training = true},
				  alone = {.dims = sl_dims_rows(1), .training = true};
	struct sl_fail fail = {0};
	struct side s;

	if (open_layer(&s, be, in, out, transposed, f16 ? "f16 file" : "bf16 file", &fail) != SL_OK)
		fail_msg("%s", fail.text);
	set_weights(&s, f16);
	for (int i = 0; i < in * out; i++)
		w[i] = wide(some(i + s.s->param[0].graph_param, f16), f16);
	for (int i = 0; i < ROWS * in; i++)
		x[i] = sinf((float)i);
	for (int i = 0; i < ROWS * out; i++)
		dy[i] = cosf((float)i);
	memcpy(sl_exec_input(s.exec, 0, ROWS).data, x, (size_t)(ROWS * in) * sizeof *x);
	memcpy(sl_exec_dout(s.exec, 0, ROWS).data, dy, (size_t)(ROWS * out) * sizeof *dy);
	assert_int_equal(sl_exec_begin(s.exec), SL_OK);
	assert_int_equal(sl_exec_forward(s.exec, &call, NULL), SL_OK);
	memcpy(y, sl_exec_output(s.exec, 0, ROWS).data, (size_t)(ROWS * out) * sizeof *y);
	is_product(y, x, w, ROWS, in, out, transposed ? out : 1, transposed ? 1 : in);
	assert_int_equal(sl_exec_backward(s.exec, &call, NULL), SL_OK);
	is_product(sl_exec_din(s.exec, 0, ROWS).data, dy, w, ROWS, out, in, transposed ? 1 : in, transposed ? out : 1);
	x[0] = NAN;
	memcpy(sl_exec_input(s.exec, 0, 1).data, x + in, (size_t)in * sizeof *x);
	assert_int_equal(sl_exec_forward(s.exec, &alone, NULL), SL_OK);
	assert_memory_equal(sl_exec_output(s.exec, 0, 1).data, y + out, (size_t)out * sizeof *y);
	memcpy(sl_exec_input(s.exec, 0, 1).data, x, (size_t)in * sizeof *x);
	assert_int_equal(sl_exec_forward(s.exec, &alone, NULL), SL_OK);
	assert_true(isnan(((const float *)sl_exec_output(s.exec, 0, 1).data)[out - 1]));
	side_close(&s);
}

static void factors_are_rounded(void **state)
{
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_fail fail = {0};
	struct side s;

	assert_int_equal(sl_pool_open(&pool, 2, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	if (be.ops->precisions >> SL_PRECISION_BF16_FACTORS & 1) {
		for (int i = 0; i < 4; i++) {
			layer(&be, 150, 70, i & 1, i >> 1);
			layer(&be, 33, MOST, i & 1, i >> 1);
		}
	} else {
		print_message("SKIP this CPU has no %s\n", sl_precision_name(SL_PRECISION_BF16_FACTORS));
		assert_int_equal(open_layer(&s, &be, 3, 2, false, "bf16 file", &fail), SL_ERR_CONFIG);
		assert_non_null(strstr(fail.text, "a server with a CPU that has it"));
		sl_plan_close(s.plan);
	}
	be.ops->close(&be);
	sl_pool_close(pool);
}

static void every_pattern_becomes_its_float(void **state)
{
	static uint16_t x[1 << 16];
	static float y[1 << 16];

	for (int i = 0; i < 1 << 16; i++)
		x[i] = (uint16_t)i;
	for (int l = 0; sl_cpu_levels[l] != NULL; l++)
		for (int f16 = 0; f16 < 2 && sl_cpu_levels[l]->runs(); f16++) {
			sl_cpu_levels[l]->simd->widen(y, x, 1 << 16, f16);
			for (int i = 0; i < 1 << 16; i++) {
				const float want = wide(x[i], f16);

				assert_memory_equal(&y[i], &want, sizeof want);
			}
		}
}

static void a_server_draws_none_of_them(void **state)
{
	struct sl_backend be;
	struct sl_fail fail;
	struct side x;
	float *range;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	x = side_open(&be, false, "bf16 file");
	range = malloc((size_t)x.s->weight_count * sizeof *range);
	sl_weights_init_range(x.s, 1, range); /* sanitizers see a write behind its end */
	for (int64_t i = x.s->float_count; i < x.s->weight_count; i++)
		assert_true(range[i] == 0);
	free(range);
	side_close(&x);
	be.ops->close(&be);
}

/* Weights that are packed in pieces, or hashed, without a range equal those of a range, whatever the pieces. */
static void a_range_is_packed_piece_by_piece(void **state)
{
	static const size_t cut[] = {1, 63, 64, 4096, 14 * 1000 + 3, 1 << 20};
	static uint16_t held[2][IN * OUT];
	static float bias[OUT];
	float *value[3] = {NULL, bias, NULL};
	const uint16_t *in_file[3] = {held[0], NULL, held[1]};
	const struct sl_weights w = {.n_param = 3, .value = value, .held = in_file};
	uint8_t whole[16], packed[16];
	struct sl_backend be;
	struct sl_fail fail;
	struct side x;
	size_t bytes;
	char *range, *pieces;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	x = side_open(&be, false, "bf16 file");
	bytes = (size_t)x.s->weight_count * sizeof(float);
	range = calloc(1, bytes);
	pieces = malloc(bytes);
	for (int64_t i = 0; i < IN * OUT; i++)
		held[0][i] = held[1][i] = some(i, false);
	for (int i = 0; i < OUT; i++)
		bias[i] = (float)i;
	for (int i = 0; i < x.s->n_param; i++) {
		struct sl_segment_param *p = &x.plan->segment[SL_MIDDLE].param[i];

		p->model_param = p->graph_param;
		memcpy(range + (size_t)p->offset * sizeof(float),
		       p->held ? (const void *)in_file[p->model_param] : value[p->model_param],
		       (size_t)p->count * (p->held ? sizeof(uint16_t) : sizeof(float)));
	}
	for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
		for (size_t at = 0; at < bytes; at += cut[i])
			sl_weights_pack_piece(&w, x.s, at, bytes - at < cut[i] ? bytes - at : cut[i], pieces + at);
		assert_memory_equal(pieces, range, bytes);
	}
	sl_weights_hash((const float *)(const void *)range, x.s->weight_count, whole);
	sl_weights_hash_packed(&w, x.s, packed);
	assert_memory_equal(packed, whole, sizeof whole);
	free(pieces);
	free(range);
	side_close(&x);
	be.ops->close(&be);
}

/* The answer to a Fetch may be only the front of a range: the values behind its end come from `rest`. */
static void a_front_is_unpacked(void **state)
{
	float here[2][4] = {{0}}, there[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, *value[2] = {here[0], here[1]};
	float *other[2] = {there[0], there[1]};
	const float range[16] = {9, 10, 11, 12};
	struct sl_weights w = {.n_param = 2, .value = value};
	const struct sl_weights rest = {.n_param = 2, .value = other};
	struct sl_segment_param param[2] = {{.model_param = 0, .count = 4},
					    {.model_param = 1, .offset = 16, .count = 4}};
	const struct sl_plan_segment s = {.which = SL_MIDDLE, .param = param, .n_param = 2, .weight_count = 32};

	sl_weights_unpack(&w, &s, range, 16, &rest);
	assert_memory_equal(here[0], range, sizeof here[0]);
	assert_memory_equal(here[1], there[1], sizeof here[1]);
	here[1][2] = -1;
	sl_weights_unpack(&w, &s, range, 16, &w);
	assert_true(here[1][2] == -1);
}

static void refused(const char *param, enum sl_err want)
{
	char text[256];
	struct sl_graph g = {0};
	struct sl_fail fail = {0};

	snprintf(text, sizeof text, "graph 1\nin x f32 R[3]\nparam w %s\nnode a linear %%0 &0\nout y %%1\n", param);
	assert_int_equal(sl_graph_read(&g, text, strlen(text), &fail), want);
	sl_graph_close(&g);
}

static void only_what_is_frozen_and_of_a_file_is_held(void **state)
{
	refused("[2,3] frozen bf16 file", SL_OK);
	refused("[2,3] frozen f16 file", SL_OK);
	refused("[2,3] frozen bf16 zero", SL_ERR_CONFIG);
	refused("[2,3] tied bf16 file", SL_ERR_CONFIG);
	refused("[2,3] bf16 file", SL_ERR_PROTOCOL);
	refused("[2,3] frozen f32 file", SL_ERR_PROTOCOL);
	refused("[2,3] frozen bf16", SL_ERR_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_compute_the_same),
		cmocka_unit_test(an_embedding_reads_them_where_they_lie),
		cmocka_unit_test(factors_are_rounded),
		cmocka_unit_test(every_pattern_becomes_its_float),
		cmocka_unit_test(a_range_is_packed_piece_by_piece),
		cmocka_unit_test(a_front_is_unpacked),
		cmocka_unit_test(a_server_draws_none_of_them),
		cmocka_unit_test(only_what_is_frozen_and_of_a_file_is_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
