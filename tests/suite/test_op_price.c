/* The cost of ops compared with their prices (server/trunk/cost_op.c). For every kind of op, a search over
 * shapes and attributes looks for the op with the highest ratio of time to price, and for the longest piece:
 * at random first, then by small changes of the worst so far. Time is the thread's CPU time. The test
 * replaces the worker that pool and kernels ask, and so sees each place where a kernel gives way.
 * SPLIT_LONG=1 searches for minutes, at each SIMD level; SPLIT_PRICE_SEED changes the numbers. */
#include <math.h>
#include <time.h>

#include "common/base/pool.h"
#include "common/base/rng.h"
#include "common/base/worker.h"
#include "common/graph/graph.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "server/trunk/cost.h"
#include "tests/support/op_point.h"
#include "tests/support/op_run.h"
#include "tests/support/unit.h"

/* ---- replacements of the worker's functions */

static struct {
	bool here, due;
	double since, longest; /* start of the current piece, and the longest piece so far */
} turns;

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void end_piece(void)
{
	const double now = turns.here && !turns.due ? cpu_s() : 0;

	turns.longest = fmax(turns.longest, now - turns.since);
	turns.since = now;
}

struct sl_worker *__wrap_sl_worker_here(void);
void __wrap_sl_worker_turn(void);
bool __wrap_sl_worker_turn_due(struct sl_worker *worker);

struct sl_worker *__wrap_sl_worker_here(void)
{
	return turns.here ? (void *)&turns : NULL;
}

void __wrap_sl_worker_turn(void)
{
	end_piece();
}

bool __wrap_sl_worker_turn_due(struct sl_worker *worker)
{
	(void)worker;
	end_piece();
	return turns.due;
}

/* ---- an op as a plan would describe it */

enum {
	MEMORY = 24 << 20,
	SHARE = 5, /* one in SHARE cases of op_case.c is taken */
	LOOKS = 20,
};
/* Bound of the ratio of time to price on a busy machine: half of the 8 that docs/SECURITY.md allows a piece. */
static const double most_ratio = 4;

struct trial {
	struct sl_op op;
	struct sl_cost cost[2]; /* forward, backward */
	int64_t rows;
	uint32_t *begin, *place;
	int64_t chosen;
};

static int64_t bytes_of(const struct trial *t)
{
	int64_t n = 2 * t->rows * sl_shape_row(&t->op.out_shape);

	for (int i = 0; i < t->op.n_in; i++)
		n += 2 * t->op.in_shape[i].dim[0] * sl_shape_row(&t->op.in_shape[i]);
	for (int i = 0; i < t->op.n_param; i++)
		n += 2 * op_param_count(&t->op, i);
	return n * (int64_t)sizeof(float);
}

/* Makes an op from a point; false if there is none, or if it needs more time or memory than a test has. */
static bool make(struct trial *t, const struct op_point *p, double most_s)
{
	const bool by_token = p->size[FORM] >= 2;

	*t = (struct trial){0};
	if (!op_point_op(p, &t->op))
		return false;
	t->rows = t->op.in_shape[0].dim[0];
	if (p->kind == SL_OP_SELECT || (p->kind == SL_OP_TRANSPOSE && by_token))
		t->rows = p->size[N];
	if (p->kind == SL_OP_GATHER)
		t->rows = t->chosen = p->size[N];
	if (p->kind == SL_OP_TRANSPOSE && !by_token) {
		t->op.most = (int)t->op.in_shape[0].dim[2];
		t->rows *= t->op.most;
	}
	if (!sl_op_is_loss(p->kind))
		t->op.out_shape.dim[0] = t->rows;
	if (bytes_of(t) > MEMORY)
		return false;
	for (int back = 0; back < 2; back++)
		t->cost[back] = sl_op_cost(&t->op, 1 + back);
	return t->cost[1].task_s < most_s;
}

/* ---- running it */

static float *noise, *room; /* noise is read, room is written */
static struct sl_backend be;

struct room {
	int64_t used;
};

static float *take(struct room *r, int64_t bytes)
{
	float *at = (float *)(void *)((char *)room + r->used);

	r->used += (bytes + 63) / 64 * 64;
	return r->used <= 3 * (int64_t)MEMORY ? at : NULL;
}

static struct sl_tensor tensor_of(const struct sl_shape *shape, float *data)
{
	return (struct sl_tensor){SL_F32, *shape, data, &be};
}

struct ran {
	double task[2], piece[2];
};

/* Takes the least time of `tries` calls. */
static void time_call(enum sl_err (*fn)(const struct sl_op_call *), const struct sl_op_call *call, int tries,
		      double *task, double *piece)
{
	*task = *piece = INFINITY;
	for (int i = 0; i < tries; i++) {
		double began = cpu_s(), ended;

		turns.here = true;
		turns.longest = 0;
		turns.since = cpu_s();
		assert_int_equal(fn(call), SL_OK);
		end_piece();
		turns.here = false;
		*piece = fmin(*piece, turns.longest);
		began = cpu_s();
		assert_int_equal(fn(call), SL_OK);
		ended = cpu_s();
		*task = fmin(*task, ended - began);
	}
}

static bool open_call(struct sl_op_call *call, struct trial *t, struct room *r)
{
	float *data;

	for (int i = 0; i < t->op.n_in; i++) {
		call->in[i] = tensor_of(&t->op.in_shape[i], noise);
		data = take(r, sl_shape_count(&t->op.in_shape[i]) * 4);
		if (!data)
			return false;
		call->din[i] = tensor_of(&t->op.in_shape[i], t->op.kind == SL_OP_EMBEDDING ? NULL : data);
	}
	data = take(r, sl_shape_count(&t->op.out_shape) * 4);
	if (!data)
		return false;
	call->out = tensor_of(&t->op.out_shape, data);
	call->dout = tensor_of(&t->op.out_shape, noise);
	for (int i = 0; i < t->op.n_param; i++) {
		call->param[i] = noise;
		call->grad[i] = i < 2 ? take(r, op_param_count(&t->op, i) * 4) : NULL;
		if (i < 2 && !call->grad[i])
			return false;
		if (i < 2)
			memset(call->grad[i], 0, (size_t)op_param_count(&t->op, i) * 4);
	}
	return true;
}

static void open_rows(struct sl_op_call *call, struct trial *t, const struct op_point *p)
{
	const int64_t rows = p->size[N], each = p->size[H];

	call->dims = sl_dims_rows(rows);
	if (p->size[FORM] < 2)
		return;
	t->begin = op_xalloc((size_t)(rows + 1) * sizeof *t->begin);
	t->place = op_xalloc((size_t)rows * sizeof *t->place);
	for (int64_t i = 0; i <= rows; i++)
		t->begin[i] = (uint32_t)(i * each);
	for (int64_t i = 0; i < rows; i++)
		t->place[i] = (uint32_t)(i * each);
	call->dims = (struct sl_dims){.rows = rows, .tokens = rows * each, .begin = t->begin};
	if (t->chosen) {
		call->dims.chosen = t->chosen;
		call->dims.place = t->place;
	}
}

static int32_t *zeros_of(int64_t n)
{
	return op_xalloc((size_t)n * sizeof(int32_t));
}

/* Returns false if the op needs more memory than there is. */
static bool measure(struct trial *t, const struct op_point *p, int tries, struct ran *ran)
{
	const struct sl_kernel *kernel = be.ops->kernel[t->op.kind];
	struct sl_fail fail;
	struct sl_op_prepare prepare = {.be = &be, .op = &t->op, .fail = &fail};
	struct room r = {0};
	double loss;
	int64_t correct;
	struct sl_op_call call = {.be = &be,
				  .op = &t->op,
				  .training = true,
				  .loss_scale = 1,
				  .loss_sum = &loss,
				  .correct = &correct,
				  .rng = {.seed = 1}};
	int32_t *zeros = zeros_of(sl_shape_count(&t->op.in_shape[0])); /* labels, or tokens */
	bool fits;

	assert_int_equal(sl_kernel_open(kernel, &prepare), SL_OK);
	call.state = prepare.state;
	call.saved = take(&r, (int64_t)prepare.sizes.saved_bytes);
	call.workspace = take(&r, (int64_t)prepare.sizes.workspace_bytes);
	call.labels = zeros;
	open_rows(&call, t, p);
	fits = call.saved && call.workspace && open_call(&call, t, &r);
	if (t->op.kind == SL_OP_EMBEDDING || t->op.kind == SL_OP_LOOKUP)
		call.in[0].data = zeros;
	if (fits) {
		time_call(kernel->forward, &call, tries, &ran->task[0], &ran->piece[0]);
		time_call(kernel->backward, &call, tries, &ran->task[1], &ran->piece[1]);
	}
	if (kernel->release)
		kernel->release(prepare.state);
	free(zeros);
	free(t->begin);
	free(t->place);
	return fits;
}

/* ---- the search */

static struct sl_rng_key key = {.tensor = SL_RNG_TEST};
static uint32_t drawn;

static uint32_t below(uint32_t n)
{
	return sl_rng_below(sl_rng_u32(&key, drawn++), n);
}

static double log_uniform(double least, double most)
{
	const double u = (double)below(1 << 20) / (1 << 20);

	return floor(exp(log(least) + u * (log(most + 1) - log(least))));
}

/* Mostly draws small values, because large ones seldom fit the shapes. */
static double draw_attr(const struct sl_attr *attr)
{
	const double least = attr->least, most = attr->most;

	if (attr->type == SL_ATTR_REAL)
		return least + (most - least) * (double)below(1024) / 1024;
	if (below(4) == 0)
		return attr->standard;
	return least + log_uniform(1, fmin(most - least, below(4) ? 16 : most - least) + 1) - 1;
}

static void draw_size(struct op_point *p, int which)
{
	static const double most[SIZES] = {[N] = 64,   [H] = 4096, [W] = 1024, [C] = 1024,  [OUT] = 1024,
					   [KH] = 512, [KW] = 512, [FORM] = 4, [FLAGS] = 64};

	p->size[which] = which >= FORM ? below((uint32_t)most[which]) : (int64_t)log_uniform(1, most[which]);
}

static struct op_point draw(enum sl_op_kind kind)
{
	struct op_point p = {.kind = kind};
	const struct sl_attr *attr;

	for (int i = 0; i < SIZES; i++)
		draw_size(&p, i);
	for (int i = 0; (attr = sl_op_attr(kind, i)); i++)
		p.attr[i][0] = p.attr[i][1] = draw_attr(attr);
	return p;
}

/* Doubles, halves, slightly changes or redraws one or two numbers of a point. */
static struct op_point change(struct op_point p)
{
	int n_attr = 0;

	while (sl_op_attr(p.kind, n_attr))
		n_attr++;
	for (uint32_t i = 0; i <= below(2); i++) {
		uint32_t which = below((uint32_t)(SIZES + n_attr)), how = below(4);
		int64_t *size = &p.size[which < SIZES ? which : 0];

		if (which >= SIZES) {
			const int a = (int)which - SIZES;

			p.attr[a][0] = how == 0   ? 2 * p.attr[a][0] + 1
				       : how == 1 ? floor(p.attr[a][0] / 2)
						  : draw_attr(sl_op_attr(p.kind, a));
		} else if (which >= FORM || how == 3) {
			draw_size(&p, (int)which);
		} else {
			*size = how == 0 ? 2 * *size : how == 1 ? (*size + 1) / 2 : *size + (int64_t)below(5) - 2;
			*size = *size < 1 ? 1 : *size;
		}
	}
	return p;
}

static void print(const struct op_point *p, const struct trial *t)
{
	char in[SL_SHAPE_TEXT], out[SL_SHAPE_TEXT];
	const struct sl_attr *attr;

	printf("%s %s -> %s", sl_op_kind_name(p->kind), sl_shape_text(&t->op.in_shape[0], in),
	       sl_shape_text(&t->op.out_shape, out));
	if (p->kind == SL_OP_CONV2D || p->kind == SL_OP_CONVT2D)
		printf(" window=%dx%d", (int)p->size[KH], (int)p->size[KW]);
	if (p->kind == SL_OP_CONV2D)
		printf(" groups=%d", t->op.u.conv.groups);
	for (int i = 0; (attr = sl_op_attr(p->kind, i)); i++)
		printf(" %s=%g", attr->key, p->attr[i][0]);
}

struct worst {
	struct op_point p;
	double ratio, piece_s; /* ratio of time to price; piece_s: of a piece, overall */
	int tried;
};

enum { TASK_FORWARD, TASK_BACKWARD, PIECE_FORWARD, PIECE_BACKWARD, RATIOS };

static double ratio_of(const struct trial *t, const struct ran *r, int *which)
{
	double worst = 0;

	for (int i = 0; i < RATIOS; i++) {
		double ratio = i < PIECE_FORWARD ? r->task[i] / t->cost[i].task_s
						 : r->piece[i - PIECE_FORWARD] / t->cost[i - PIECE_FORWARD].piece_s;

		if (ratio > worst) {
			worst = ratio;
			*which = i;
		}
	}
	return worst;
}

/* Searches for `seconds` of CPU time; a point worse than the worst so far is measured again. */
static struct worst search(enum sl_op_kind kind, double seconds, double most_s)
{
	struct worst worst = {.ratio = 0};
	const double began = cpu_s();

	while (cpu_s() - began < seconds) {
		struct op_point p = worst.tried && below(2) ? change(worst.p) : draw(kind);
		struct trial t;
		struct ran r;
		int which;
		double ratio;

		if (!make(&t, &p, most_s) || !measure(&t, &p, 1, &r))
			continue;
		worst.tried++;
		if (ratio_of(&t, &r, &which) <= worst.ratio)
			continue;
		if (!make(&t, &p, most_s) || !measure(&t, &p, 3, &r))
			continue;
		ratio = ratio_of(&t, &r, &which);
		worst.piece_s = fmax(worst.piece_s, fmax(r.piece[0], r.piece[1]));
		if (ratio <= worst.ratio)
			continue;
		worst.ratio = ratio;
		worst.p = p;
	}
	return worst;
}

/* A neighbouring virtual machine may slow all runs for a while, which CPU time does not show. So a
 * ratio above the bound must remain in the best of many runs, at several times. */
static void look_again(struct worst *w, double most_s)
{
	struct trial t;
	struct ran r;
	int which;

	for (int i = 0; i < LOOKS && w->ratio > most_ratio; i++) {
		if (make(&t, &w->p, most_s) && measure(&t, &w->p, 40, &r))
			w->ratio = fmin(w->ratio, ratio_of(&t, &r, &which));
		if (w->ratio > most_ratio)
			nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
	}
}

static const char *const ratio_name[RATIOS] = {"forward", "backward", "a piece forward", "a piece backward"};

static void show(const struct worst *w, const char *level, double most_s)
{
	struct trial t;
	struct ran r;
	int which = 0;
	double ratio;

	if (!make(&t, &w->p, most_s) || !measure(&t, &w->p, 3, &r))
		return;
	ratio = ratio_of(&t, &r, &which);
	printf("%-8s ", level);
	print(&w->p, &t);
	printf(": %s %.2f of its price, %.3f of %.3f ms; %d tried, longest piece %.1f ms\n", ratio_name[which], ratio,
	       1e3 * (which < PIECE_FORWARD ? r.task[which] : r.piece[which - PIECE_FORWARD]),
	       1e3 * (which < PIECE_FORWARD ? t.cost[which].task_s : t.cost[which - PIECE_FORWARD].piece_s), w->tried,
	       1e3 * w->piece_s);
	fflush(stdout);
}

static void open_backend(struct sl_pool **pool, const char *level)
{
	setenv("SL_CPU_SIMD", level, 1);
	assert_int_equal(sl_pool_open(pool, 1, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, *pool, NULL), SL_OK);
}

static void close_backend(struct sl_pool *pool)
{
	be.ops->close(&be);
	sl_pool_close(pool);
	unsetenv("SL_CPU_SIMD");
}

static bool is_long(void)
{
	return getenv("SPLIT_LONG") && *getenv("SPLIT_LONG");
}

/* Ops with many shapes and kernels are searched for longer. */
static double seconds_for(enum sl_op_kind kind)
{
	const bool many = kind == SL_OP_CONV2D || kind == SL_OP_CONVT2D || kind == SL_OP_ATTENTION ||
			  kind == SL_OP_MAXPOOL || kind == SL_OP_AVGPOOL || kind == SL_OP_LINEAR;

	return is_long() ? (many ? 20 : 5) : (many ? 0.3 : 0.05);
}

static void every_op_has_a_price(void **state)
{
	for (int k = 0; k < SL_OP_COUNT; k++) {
		if (!sl_op_has_price((enum sl_op_kind)k))
			fail_msg("%s has no price in server/trunk/cost_op.c", sl_op_kind_name((enum sl_op_kind)k));
		assert_null(sl_op_attr((enum sl_op_kind)k, MOST_ATTR)); /* the most that an op_point holds */
	}
}

static void a_kind_without_a_price_is_refused(void **state)
{
	const struct sl_op op = {.kind = SL_OP_COUNT};
	const struct sl_cost cost = sl_op_cost(&op, 1);
	struct sl_fail fail;

	assert_int_equal(sl_session_cost_check(&cost, 120, 0, &fail), SL_ERR_LIMIT);
	assert_int_equal(sl_session_cost_check(&cost, 0, 1000, &fail), SL_ERR_LIMIT);
}

static void a_window_of_a_pool_can_be_counted(void **state)
{
	struct sl_op op = {.kind = SL_OP_AVGPOOL, .name = "p", .n_in = 1, .u.pool = {.k = 32769, .stride = 1}};
	struct sl_fail fail;

	op.in_shape[0] = sl_shape4(1, 32769, 32769, 1);
	assert_int_equal(sl_op_infer_shape(&op, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "p (avgpool): a window of 32769x32769 is too large: 32768 is the most");
	op.u.pool.k = 32768;
	assert_int_equal(sl_op_infer_shape(&op, &fail), SL_OK);
}

/* Points at which a search met a wrong price. Attributes are in the order of ops.def. */
static const struct op_point met[] = {
	/* stride 368, pad 5, 2 groups, dilation 2: backward has a window for each pixel of x, forward a single one */
	{SL_OP_CONV2D, {32, 137, 1, 2, 10, 37, 4}, {{368}, {5}, {2}, {2}}},
};
enum { MET = sizeof met / sizeof met[0] };

static void none_takes_longer_than_its_price(void **state)
{
	const double most_s = is_long() ? 0.5 : 0.02;
	int failed = 0;

	for (int l = 0; sl_cpu_levels[l]; l++) {
		struct sl_pool *pool;

		if (!sl_cpu_levels[l]->runs() || (!is_long() && sl_cpu_levels[l] != sl_cpu_level_best()))
			continue;
		open_backend(&pool, sl_cpu_levels[l]->simd->name);
		for (int k = -MET; k < SL_OP_COUNT; k++) {
			const enum sl_op_kind kind = k < 0 ? met[MET + k].kind : (enum sl_op_kind)k;
			const double limit_s = k < 0 ? INFINITY : most_s;
			struct worst w = k < 0 ? (struct worst){met[MET + k], INFINITY, 0, 1}
					       : search(kind, seconds_for(kind), most_s);

			if (w.tried == 0)
				fail_msg("no shape of %s was found", sl_op_kind_name(kind));
			look_again(&w, limit_s);
			show(&w, sl_cpu_levels[l]->simd->name, limit_s);
			failed += w.ratio > most_ratio;
		}
		close_backend(pool);
	}
	assert_int_equal(failed, 0);
}

/* Kernels that give way wherever they may, with one thread and with three, compute the same bits. */
static void stopping_changes_no_bit(void **state)
{
	static const int threads[] = {1, 3};
	static const struct op_run_how how = {.chunks = 2, .backward = true, .commit = true};
	struct op_log log = {.backend = "cpu", .mode = "stopping"};

	for (int t = 0; t < 2; t++) {
		struct sl_pool *pool;

		assert_int_equal(sl_pool_open(&pool, threads[t], NULL), SL_OK);
		assert_int_equal(sl_cpu_backend_open(&be, pool, NULL), SL_OK);
		for (int i = is_long() ? 0 : (int)below(SHARE); i < op_case_count; i += is_long() ? 1 : SHARE) {
			struct op_result straight = {0}, stopped = {0};

			op_case_text(&op_cases[i], log.op);
			assert_true(op_run(&straight, &be, &op_cases[i], 1, &how, &log));
			turns.here = turns.due = true;
			assert_true(op_run(&stopped, &be, &op_cases[i], 1, &how, &log));
			turns.here = turns.due = false;
			op_result_compare_bits(&stopped, &straight, "what stopped", &log);
			op_result_free(&straight);
			op_result_free(&stopped);
		}
		close_backend(pool);
	}
	assert_int_equal(log.failures, 0);
}

/* Every block has three steps. The first writes the block's number into its scratch; the others check it. */
enum { STEPS = 3, BLOCKS = 40, THREADS = 3 };

struct ours {
	int64_t scratch[THREADS];
	int done[BLOCKS];
	_Atomic int lost;
};

static void three_steps(void *arg, int64_t block, struct sl_pool_step *s)
{
	struct ours *o = arg;

	for (int64_t at = s->at; at < STEPS; at++) {
		if (at == 0)
			o->scratch[s->worker] = block;
		o->lost += o->scratch[s->worker] != block;
		o->done[block] += at == STEPS - 1;
		if (at < STEPS - 1 && sl_pool_stop(s, at + 1))
			return;
	}
}

static void what_stops_keeps_its_scratch(void **state)
{
	struct sl_pool *pool;

	assert_int_equal(sl_pool_open(&pool, THREADS, NULL), SL_OK);
	turns.here = turns.due = true;
	for (int run = 0; run < 400; run++) {
		struct ours o = {.lost = 0};

		sl_pool_run_long(pool, BLOCKS, three_steps, &o);
		assert_int_equal(o.lost, 0);
		for (int i = 0; i < BLOCKS; i++)
			assert_int_equal(o.done[i], 1);
	}
	turns.here = turns.due = false;
	sl_pool_close(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_op_has_a_price),
		cmocka_unit_test(a_kind_without_a_price_is_refused),
		cmocka_unit_test(a_window_of_a_pool_can_be_counted),
		cmocka_unit_test(what_stops_keeps_its_scratch),
		cmocka_unit_test(stopping_changes_no_bit),
		cmocka_unit_test(none_takes_longer_than_its_price),
	};
	const char *seed = getenv("SPLIT_PRICE_SEED");

	key.seed = seed ? strtoull(seed, NULL, 10) : 1;
	noise = malloc(MEMORY);
	room = malloc(3 * (size_t)MEMORY);
	if (!noise || !room)
		return 1;
	memset(room, 0, 3 * (size_t)MEMORY);
	for (size_t i = 0; i < MEMORY / sizeof *noise; i++)
		noise[i] = 2 * sl_rng_unit(sl_rng_u32(&key, i)) - 1;
	drawn = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
