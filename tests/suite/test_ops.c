/* Every op of every backend against tests/ref, and tests/ref against numeric differences. One list of
 * cases (tests/support/op_case.c) is run in the modes below. All of them check guard bytes, poisoned
 * outputs and read-only inputs (tests/support/op_rig.h); tolerances are in tests/support/op_run.h.
 *
 * SPLIT_TEST_BACKEND=ref|cpu|cuda tests that backend alone. If it is missing, the test fails or, with
 * SPLIT_TEST_ABSENT=skip, exits with 77. Without the variable, a missing GPU is a SKIP. */
#include <malloc.h>
#include <math.h>

#include "common/base/pool.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "kernels/module.h"
#include "tests/ref/ref.h"
#include "tests/support/op_run.h"
#include "tests/support/op_update.h"
#include "tests/support/unit.h"

enum { SEED = 20240229, RANDOM_CASES = 200, RANDOM_SEED = 77 };

/* ---- cases */

/* `make test` (SPLIT_QUICK) takes one in SHARE of the cases of each kind of op; each pass takes others. */
enum { SHARE = 4 };

static int share = 1, pass;

static uint32_t random_cases(void)
{
	return RANDOM_CASES / (uint32_t)share;
}

/* Returns the next case from `i` on that this pass takes, or op_case_count. Every pass has the
 * first case of a kind. */
static int next_case(int i)
{
	for (; i < op_case_count; i++) {
		int nth = 0;

		for (int k = 0; k < i; k++)
			nth += op_cases[k].kind == op_cases[i].kind;
		if (!nth || nth % share == pass % share)
			return i;
	}
	return i;
}

/* ---- backends */

struct device {
	struct sl_backend be;
	struct sl_pool *pool;
};

/* Only "cpu" uses `threads`. */
static enum sl_err device_open(struct device *d, const char *name, int threads, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	*d = (struct device){0};
	if (!strcmp(name, "ref"))
		return sl_ref_backend_open(&d->be, fail);
	if (!strcmp(name, "cuda"))
		return sl_module_open(NULL, &d->be, 0, fail);
	if (strcmp(name, "cpu"))
		return sl_fail_set(fail, SL_ERR_USAGE, "no backend is called %s", name);
	err = sl_pool_open(&d->pool, threads, fail);
	if (!err)
		err = sl_cpu_backend_open(&d->be, d->pool, fail);
	if (err)
		sl_pool_close(d->pool);
	return err;
}

static void device_close(struct device *d)
{
	if (d->be.ops)
		d->be.ops->close(&d->be);
	sl_pool_close(d->pool);
	*d = (struct device){0};
}

static void device_must_open(struct device *d, const char *name, int threads)
{
	struct sl_fail fail = {0};

	if (device_open(d, name, threads, &fail))
		fail_msg("%s: %s", name, fail.text);
}

/* ---- modes that compare with the reference */

/* One backend in one mode: the state of a cmocka test. */
struct job {
	const char *backend;
	const struct mode *mode;
	char name[64];
};

struct mode {
	const char *name;
	void (*run)(const struct job *job, struct op_log *log);
	struct op_run_how how;
	const char *backends; /* names of the backends that it is run on */
};

static void compare_case(struct device *got_on, struct device *want_on, const struct op_case *c, uint64_t seed,
			 const struct op_run_how *how, struct op_log *log)
{
	struct op_result got = {0}, want = {0};

	if (op_run(&got, &got_on->be, c, seed, how, log) && want_on->be.ops != got_on->be.ops &&
	    op_run(&want, &want_on->be, c, seed, how, log))
		op_result_compare(&got, &want, log);
	op_result_free(&got);
	op_result_free(&want);
}

static void run_against_ref(const struct job *job, struct op_log *log)
{
	struct device got, want;

	device_must_open(&got, job->backend, 2);
	device_must_open(&want, "ref", 1);
	pass++;
	for (int i = next_case(0); i < op_case_count; i = next_case(i + 1))
		compare_case(&got, &want, &op_cases[i], SEED + (uint64_t)i, &job->mode->how, log);
	device_close(&got);
	device_close(&want);
}

static void run_updates(const struct job *job, struct op_log *log)
{
	struct device got, want;

	device_must_open(&got, job->backend, 2);
	device_must_open(&want, "ref", 1);
	op_update_compare(&got.be, &want.be, false, log);
	device_close(&got);
	device_close(&want);
}

static void run_updates_repeat(const struct job *job, struct op_log *log)
{
	struct device one, three;

	device_must_open(&one, job->backend, 1);
	device_must_open(&three, job->backend, 3);
	op_update_compare(&one.be, &three.be, true, log);
	device_close(&one);
	device_close(&three);
}

static void run_updates_by_hand(const struct job *job, struct op_log *log)
{
	struct device d;

	device_must_open(&d, job->backend, 1);
	op_update_by_hand(&d.be, log);
	device_close(&d);
}

static void run_random_shapes(const struct job *job, struct op_log *log)
{
	struct device got, want;

	device_must_open(&got, job->backend, 2);
	device_must_open(&want, "ref", 1);
	for (uint32_t i = 0; i < random_cases(); i++) {
		struct op_case c = op_case_random(RANDOM_SEED, i);

		compare_case(&got, &want, &c, RANDOM_SEED + i, &job->mode->how, log);
	}
	device_close(&got);
	device_close(&want);
}

/* The kernels for older CPUs than this one, best first; on arm64, those without fused multiply-add. */
static void run_simd_levels(const struct job *job, struct op_log *log)
{
	static const char variable[] = "SL_CPU_SIMD";
	const char *set = getenv(variable);
	char before[16] = "";

	if (set)
		snprintf(before, sizeof(before), "%s", set);
	for (int i = 1; sl_cpu_levels[i] != NULL; i++) {
		setenv(variable, sl_cpu_levels[i]->simd->name, 1);
		log->mode = sl_cpu_levels[i]->simd->name;
		run_against_ref(job, log);
		run_random_shapes(job, log);
		run_updates(job, log);
	}
	if (set)
		setenv(variable, before, 1);
	else
		unsetenv(variable);
}

static bool is_winograd(const struct op_case *c)
{
	struct sl_op op;
	struct sl_fail fail;

	return c->kind == SL_OP_CONV2D && !op_case_op(c, c->n, &op, &fail) && sl_conv_wino_takes(&op);
}

/* A NaN in the input appears in the output where the reference has it, and nowhere else: no activation
 * or maximum may hide divergence. Only outputs are compared; gradients of a NaN are undefined. Winograd's tiles, in
 * which a NaN spreads, have a test of their own (test_cpu_wino). */
static void run_nan(const struct job *job, struct op_log *log)
{
	struct device got, want;

	device_must_open(&got, job->backend, 2);
	device_must_open(&want, "ref", 1);
	for (int i = 0; i < op_case_count; i++) {
		struct op_case c = op_cases[i];

		if (!strcmp(job->backend, "cpu") && is_winograd(&c))
			continue;
		c.one_nan = true;
		compare_case(&got, &want, &c, SEED, &job->mode->how, log);
	}
	device_close(&got);
	device_close(&want);
}

/* Two runs with 1 thread, and runs with 2 and 3 threads, give the same bits. */
static void run_repeatable(const struct job *job, struct op_log *log)
{
	static const int threads[] = {1, 1, 2, 3};
	static const char *const whose[] = {"", "a second run", "2 threads", "3 threads"};
	struct device d[4];

	for (int t = 0; t < 4; t++)
		device_must_open(&d[t], job->backend, threads[t]);
	pass++;
	for (int i = next_case(0); i < op_case_count; i = next_case(i + 1)) {
		struct op_result first = {0}, other = {0};

		if (op_run(&first, &d[0].be, &op_cases[i], SEED, &job->mode->how, log))
			for (int t = 1; t < 4; t++) {
				if (op_run(&other, &d[t].be, &op_cases[i], SEED, &job->mode->how, log))
					op_result_compare_bits(&other, &first, whose[t], log);
				op_result_free(&other);
			}
		op_result_free(&first);
	}
	for (int t = 0; t < 4; t++)
		device_close(&d[t]);
}

/* The parameters that have a gradient, as a mask. */
static unsigned learning(const struct op_case *c)
{
	struct sl_op op;
	struct sl_fail fail;

	if (op_case_op(c, c->n, &op, &fail))
		fail_msg("infer: %s", fail.text);
	return (1u << (op.kind == SL_OP_BATCHNORM ? 2 : op.n_param)) - 1;
}

/* With any parameters frozen, every other gradient keeps its bits. */
static void run_frozen(const struct job *job, struct op_log *log)
{
	struct device d;

	device_must_open(&d, job->backend, 2);
	pass++;
	for (int i = next_case(0); i < op_case_count; i = next_case(i + 1)) {
		struct op_result plain = {0}, frozen = {0};
		struct op_run_how how = job->mode->how;
		bool ok = op_run(&plain, &d.be, &op_cases[i], SEED, &how, log);

		for (how.frozen = learning(&op_cases[i]); ok && how.frozen; how.frozen--) {
			if (op_run(&frozen, &d.be, &op_cases[i], SEED, &how, log))
				op_result_compare_bits(&frozen, &plain, "a run with frozen parameters", log);
			op_result_free(&frozen);
		}
		op_result_free(&plain);
	}
	device_close(&d);
}

/* The precisions beside fp32. The inputs are exact in them, so errors come only from stores and sums. */
static void run_precision(const struct job *job, struct op_log *log)
{
	const enum sl_precision p = job->mode->how.precision;
	struct device got, want;
	bool has;

	device_must_open(&got, job->backend, 2);
	has = got.be.ops->precisions >> p & 1;
	device_must_open(&want, "ref", 1);
	for (int i = next_case(0); i < op_case_count && has; i = next_case(i + 1))
		if (!sl_op_is_loss(op_cases[i].kind))
			compare_case(&got, &want, &op_cases[i], SEED + (uint64_t)i, &job->mode->how, log);
	for (uint32_t i = 0; i < random_cases() && has; i++) {
		struct op_case c = op_case_random(RANDOM_SEED, i);

		if (!sl_op_is_loss(c.kind))
			compare_case(&got, &want, &c, RANDOM_SEED + i, &job->mode->how, log);
	}
	device_close(&got);
	device_close(&want);
	if (!has) {
		print_message("SKIP this device has no %s\n", sl_precision_name(p));
		skip();
	}
}

/* ---- the reference's gradients against numeric differences */

/* Five-point differences with step h: (−f(2h) + 8f(h) − 8f(−h) + f(−2h)) / 12h, exact to h⁴. */
static const double numeric_step = 0x1p-4;
/* Distance from kinks: more than two steps of an input move an output; γ is up to 3, 1 / deviation up to about 1.5. */
static const double numeric_margin = 0.75;
static const double numeric_tolerance = 2e-4;

enum { NUMERIC_SAMPLES = 10, NUMERIC_MAX_WORK = 400000 };

struct numeric {
	struct op_rig rig;
	struct op_chunk chunk;
	struct op_host host;
	struct op_host_params params;
	struct op_log *log;
};

/* The function that is differentiated: Σ out · dout, or the loss. */
static double objective(struct numeric *n)
{
	const float *out;
	double sum = 0;

	if (!op_rig_forward(&n->rig, &n->chunk))
		return NAN;
	if (sl_op_is_loss(n->rig.op.kind))
		return n->chunk.loss_sum * n->chunk.call.loss_scale;
	out = op_area_read(&n->chunk.out, "out", n->log);
	for (int64_t i = 0; i < n->host.out_count; i++)
		sum += (double)out[i] * n->host.dout[i];
	return sum;
}

static double slope(struct numeric *n, struct op_area *area, float *values, int64_t i)
{
	static const double weight[] = {1, -8, 8, -1}, at[] = {-2, -1, 1, 2};
	const float keep = values[i];
	double sum = 0;

	for (int k = 0; k < 4; k++) {
		values[i] = (float)(keep + at[k] * numeric_step);
		op_area_set(area, values, n->log);
		sum += weight[k] * objective(n);
	}
	values[i] = keep;
	op_area_set(area, values, n->log);
	return sum / (12 * numeric_step);
}

static void check_slopes(struct numeric *n, const char *name, struct op_area *area, float *values,
			 const float *gradient, int64_t count)
{
	double square = 0, size;
	int64_t stride = count / NUMERIC_SAMPLES + 1;

	for (int64_t i = 0; i < count; i++)
		square += (double)gradient[i] * gradient[i];
	size = sqrt(square / (double)count);
	for (int64_t i = 0; i < count; i += stride) {
		double numeric = slope(n, area, values, i);

		if (!(fabs(numeric - gradient[i]) <=
		      numeric_tolerance * (fabs((double)gradient[i]) + fmax(size, 0.01))))
			op_log_fail(n->log, "%s: element %lld is %.9g, numerically %.9g", name, (long long)i,
				    (double)gradient[i], numeric);
	}
}

static void numeric_case(struct numeric *n)
{
	float *din[SL_OP_MAX_IN] = {0}, *grad[SL_OP_MAX_PARAM] = {0};

	if (!op_rig_backward(&n->rig, &n->chunk, &n->host, OP_DIN_SET))
		return;
	for (int i = 0; i < n->rig.op.n_in; i++) {
		din[i] = op_xalloc(n->chunk.din[i].bytes);
		memcpy(din[i], op_area_read(&n->chunk.din[i], "din", n->log), n->chunk.din[i].bytes);
	}
	for (int i = 0; i < n->rig.op.n_param; i++) {
		grad[i] = op_xalloc(n->rig.grad[i].bytes);
		memcpy(grad[i], op_area_read(&n->rig.grad[i], "grad", n->log), n->rig.grad[i].bytes);
	}
	for (int i = 0; i < n->rig.op.n_in && n->rig.op.kind != SL_OP_EMBEDDING && n->rig.op.kind != SL_OP_LOOKUP;
	     i++) /* ids have no gradient */
		check_slopes(n, "din", &n->chunk.in[i], n->host.in[i], din[i], n->host.in_count[i]);
	for (int i = 0; i < n->rig.op.n_param; i++)
		if (n->chunk.call.grad[i])
			check_slopes(n, i ? "gradient of parameter 1" : "gradient of parameter 0", &n->rig.param[i],
				     n->params.param[i], grad[i], op_param_count(&n->rig.op, i));
	for (int i = 0; i < SL_OP_MAX_IN; i++)
		free(din[i]);
	for (int i = 0; i < SL_OP_MAX_PARAM; i++)
		free(grad[i]);
}

/* Excluded: norms over one or two values, whose gradient a finite step cannot see; large cases,
 * which take too long; and logits of thousands, in which a step is lost. */
static bool numeric_applies(const struct op_case *c, const struct sl_op *op)
{
	int64_t work = sl_op_macs(op, c->n) + sl_shape_count(&op->in_shape[0]);

	if (c->kind == SL_OP_BATCHNORM && !c->eval && sl_shape_count(&op->in_shape[0]) / c->c < 9)
		return false;
	if (sl_op_is_norm(c->kind) && c->c < 9)
		return false;
	return work <= NUMERIC_MAX_WORK && c->data != DATA_LARGE && c->data != DATA_OFFSET;
}

static void run_numeric(const struct job *job, struct op_log *log)
{
	struct device d;
	int checked[SL_OP_COUNT] = {0};

	device_must_open(&d, job->backend, 1);
	pass++;
	for (int i = 0; i < op_case_count; i++) {
		struct numeric n = {.log = log};
		struct sl_op op;
		struct sl_fail fail;

		if (next_case(i) != i && checked[op_cases[i].kind])
			continue;
		op_case_text(&op_cases[i], log->op);
		if (op_case_op(&op_cases[i], op_cases[i].n, &op, &fail))
			op_log_fail(log, "infer: %s", fail.text);
		if (!numeric_applies(&op_cases[i], &op))
			continue;
		op_host_params_fill(&n.params, &op, SEED);
		for (int k = 0; k < op.n_param; k++) /* so that the gradient alone is seen */
			memset(n.params.grad_start[k], 0, (size_t)op_param_count(&op, k) * sizeof(float));
		op_host_fill(&n.host, &op_cases[i], &op, op_cases[i].n, SEED, 0);
		op_avoid_kinks(&n.host, &op_cases[i], &op, &n.params, numeric_margin, true);
		if (op_rig_open(&n.rig, &d.be, &op_cases[i], &op, &n.params, log)) {
			op_chunk_open(&n.rig, &n.chunk, &n.host, 0);
			if (op_rig_forward(&n.rig, &n.chunk))
				numeric_case(&n);
			checked[op.kind]++;
		}
		op_chunk_close(&n.chunk);
		op_rig_close(&n.rig);
		op_host_free(&n.host);
		op_host_params_free(&n.params);
	}
	for (int k = 0; k < SL_OP_COUNT; k++)
		if (!checked[k])
			op_log_fail(log, "no case of %s was checked", sl_op_kind_name((enum sl_op_kind)k));
	device_close(&d);
}

/* ---- main */

/* The reference is not compared with itself; it is run for guards, poison and read-only inputs. */
static const struct mode modes[] = {
	{"forward", run_against_ref, {.chunks = 1}, "cpu cuda"},
	{"backward", run_against_ref, {.chunks = 1, .backward = true}, "cpu cuda"},
	{"backward, din added to", run_against_ref, {.chunks = 1, .backward = true, .din = OP_DIN_ADD}, "cpu cuda"},
	{"backward, din not wanted",
	 run_against_ref,
	 {.chunks = 1, .backward = true, .din = OP_DIN_NONE},
	 "ref cpu cuda"},
	{"fewer rows than prepared",
	 run_against_ref,
	 {.chunks = 1, .extra_rows = 3, .backward = true, .commit = true},
	 "ref cpu cuda"},
	{"two chunks in flight",
	 run_against_ref,
	 {.chunks = 2, .backward = true, .commit = true, .din = OP_DIN_ADD},
	 "ref cpu cuda"},
	{"frozen parameters",
	 run_frozen,
	 {.chunks = 1, .backward = true, .commit = true, .din = OP_DIN_ADD},
	 "ref cpu cuda"},
	{"a NaN stays one", run_nan, {.chunks = 1}, "cpu cuda"},
	{"random shapes",
	 run_random_shapes,
	 {.chunks = 2, .extra_rows = 1, .backward = true, .commit = true},
	 "cpu cuda"},
	{"same bits for any threads", run_repeatable, {.chunks = 2, .backward = true, .commit = true}, "cpu cuda"},
	{"lower SIMD levels", run_simd_levels, {.chunks = 2, .extra_rows = 1, .backward = true, .commit = true}, "cpu"},
	{"tf32",
	 run_precision,
	 {.chunks = 2, .backward = true, .commit = true, .din = OP_DIN_ADD, .precision = SL_PRECISION_TF32},
	 "cuda"},
	{"bf16",
	 run_precision,
	 {.chunks = 2, .extra_rows = 1, .backward = true, .commit = true, .precision = SL_PRECISION_BF16},
	 "cuda"},
	{"bf16, din added to",
	 run_precision,
	 {.chunks = 1, .backward = true, .din = OP_DIN_ADD, .precision = SL_PRECISION_BF16},
	 "cuda"},
	{"fp16",
	 run_precision,
	 {.chunks = 2, .extra_rows = 1, .backward = true, .commit = true, .precision = SL_PRECISION_FP16},
	 "cuda"},
	{"fp16, din added to",
	 run_precision,
	 {.chunks = 1, .backward = true, .din = OP_DIN_ADD, .precision = SL_PRECISION_FP16},
	 "cuda"},
	{"bf16 factors",
	 run_precision,
	 {.chunks = 2, .backward = true, .commit = true, .din = OP_DIN_ADD, .precision = SL_PRECISION_BF16_FACTORS},
	 "cpu"},
	{"bf16 factors, same bits for any threads",
	 run_repeatable,
	 {.chunks = 2, .backward = true, .commit = true, .precision = SL_PRECISION_BF16_FACTORS},
	 "cpu"},
	{"optimizers", run_updates, {0}, "cpu cuda"},
	{"optimizers, same bits for any threads", run_updates_repeat, {0}, "cpu cuda"},
	{"optimizers by hand", run_updates_by_hand, {0}, "ref cpu cuda"},
	{"numeric gradients", run_numeric, {0}, "ref"},
};
enum { MODES = sizeof(modes) / sizeof(modes[0]), BACKENDS = 3 };

static void test_job(void **state)
{
	const struct job *job = *state;
	struct op_log log = {.backend = job->backend, .mode = job->mode->name};

	job->mode->run(job, &log);
	if (log.failures)
		fail_msg("%d failures", log.failures);
}

/* Stands for all modes of a backend that this host lacks. */
static void test_absent(void **state)
{
	skip();
}

/* usage: test_ops [TEST], such as 'cuda, two chunks*' */
int main(int argc, char **argv)
{
	static const char *const names[BACKENDS] = {"ref", "cpu", "cuda"};
	static struct job jobs[BACKENDS * MODES + 1];
	struct CMUnitTest tests[BACKENDS * MODES + 1] = {0};
	const char *only = getenv("SPLIT_TEST_BACKEND"), *absent = getenv("SPLIT_TEST_ABSENT");
	const bool must = only && !(absent && !strcmp(absent, "skip"));
	size_t count = 0;

	if (getenv("SPLIT_QUICK") && *getenv("SPLIT_QUICK"))
		share = SHARE;
	mallopt(M_MMAP_THRESHOLD, 1 << 30); /* keeps the pages of thousands of short-lived areas */
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (size_t b = 0; b < BACKENDS; b++) {
		struct device probe;
		struct sl_fail fail = {0};

		if (only && strcmp(only, names[b]))
			continue;
		if (!must && device_open(&probe, names[b], 1, &fail) == SL_ERR_UNAVAILABLE) {
			snprintf(jobs[count].name, sizeof(jobs[count].name), "all modes on %s: none here", names[b]);
			fprintf(stderr, "SKIP %s: %s\n", names[b], fail.text);
			if (only)
				return 77;
			tests[count] = (struct CMUnitTest){.name = jobs[count].name, .test_func = test_absent};
			count++;
			continue;
		}
		if (!must)
			device_close(&probe);
		for (size_t m = 0; m < MODES; m++) {
			if (!strstr(modes[m].backends, names[b]))
				continue;
			jobs[count].backend = names[b];
			jobs[count].mode = &modes[m];
			snprintf(jobs[count].name, sizeof(jobs[count].name), "%s, %s", names[b], modes[m].name);
			tests[count] = (struct CMUnitTest){
				.name = jobs[count].name, .test_func = test_job, .initial_state = &jobs[count]};
			count++;
		}
	}
	if (!count)
		fprintf(stderr, "SPLIT_TEST_BACKEND=%s: no such backend; ref, cpu or cuda\n", only);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return count ? _cmocka_run_group_tests("ops", tests, count, NULL, NULL) : 1;
}
