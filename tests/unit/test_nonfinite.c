/* NaN and Inf in training, wherever they arise. A distributed run that skips those steps equals its
 * local twin byte for byte, with stateful codecs too. A run that stops there has the weights from
 * before. Also tests the checks themselves. */
#include <math.h>

#include "client/pass/local.h"
#include "client/pass/remote.h"
#include "common/base/rng.h"
#include "common/exec/finite.h"
#include "kernels/cpu/cpu.h"
#include "server/host/host.h"
#include "tests/support/asked.h"
#include "tests/support/unit.h"

enum { BATCH = 12, CHUNKS = 3, IMAGE = 32, ROW = IMAGE * IMAGE * 3, STEPS = 8, PART = 1 << 16 };

/* The fault in a step's batch; break_batch() chooses the chunk. */
enum fault { FINE, NAN_IN, INF_IN, HUGE_IN };

struct run_case {
	const char *cut; /* head_end */
	const char *codec[SL_DIR_COUNT];
	enum fault fault[STEPS];
	const char *found; /* expected in the first error message */
	float huge;        /* the factor of HUGE_IN */
};

struct outcome {
	struct sl_step_result result[STEPS];
	struct sl_weights weights;
	char why[STEPS][SL_FAIL_TEXT];
	int steps; /* steps that were completed */
};

static struct sl_backend cpu;
static struct sl_plan *plan;
static struct asked asked;
static struct sl_weights first;
static float images[STEPS][BATCH * ROW];
static int32_t labels[BATCH];
static const struct run_case *now;

/* Step 5 has a batch of one chunk only: what an abandoned step left in the other chunks must not count. */
static int64_t rows_of(int step)
{
	return step == 5 ? BATCH / CHUNKS : BATCH;
}

static void break_batch(float *x, enum fault fault)
{
	float *chunk = x + BATCH / CHUNKS * ROW; /* the second chunk */

	for (int i = 0; i < BATCH / CHUNKS * ROW && fault == HUGE_IN; i++)
		chunk[i] *= now->huge;
	if (fault == NAN_IN)
		chunk[77] = NAN;
	if (fault == INF_IN)
		chunk[BATCH / CHUNKS * ROW + 5] = -INFINITY; /* the third chunk */
}

static void open_case(const struct run_case *c)
{
	struct sl_fail fail;

	now = c;
	asked = (struct asked){.agreement.agreed = {.batch = BATCH,
						    .accumulate = 1,
						    .chunks = CHUNKS,
						    .seed = 9,
						    .optimizer = {.momentum = 0.9, .weight_decay = 1e-4}},
			       .split.model = {"mobilenet_v2", 0.25, 10, IMAGE, false, 0.2, 0, 0, 0, 0}};
	snprintf(asked.split.cut.head_end, sizeof asked.split.cut.head_end, "%s", c->cut);
	snprintf(asked.split.cut.tail_begin, sizeof asked.split.cut.tail_begin, "classifier");
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		snprintf(asked.agreement.agreed.codec[dir], sizeof asked.agreement.agreed.codec[dir], "%s",
			 c->codec[dir]);
	if (asked_settle(&asked, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(sl_cpu_backend_open(&cpu, NULL, &fail), SL_OK);
	if (plan_open(&plan, &asked.split, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_weights_open(&first, plan->model, &fail), SL_OK);
	sl_weights_init(&first, plan->model, 9);
	for (int step = 0; step < STEPS; step++) {
		const struct sl_rng_key key = {.seed = 4, .step = (uint64_t)step, .tensor = SL_RNG_TEST};

		for (int i = 0; i < BATCH * ROW; i++)
			images[step][i] = (float)(int32_t)sl_rng_u32(&key, (uint64_t)i) * 0x1p-31f;
		break_batch(images[step], c->fault[step]);
	}
	for (int i = 0; i < BATCH; i++)
		labels[i] = i % 10;
}

static void close_case(void)
{
	sl_weights_close(&first);
	sl_plan_close(plan);
	cpu.ops->close(&cpu);
}

/* ---- the two ways to train */

static void run_local(struct outcome *o, bool stop)
{
	struct sl_local *local;
	struct sl_fail fail;

	*o = (struct outcome){0};
	assert_int_equal(sl_weights_open(&o->weights, plan->model, &fail), SL_OK);
	assert_int_equal(sl_local_open(&local, plan, &asked.agreement, NULL, &cpu, &fail), SL_OK);
	assert_int_equal(sl_local_set_weights(local, &first, &fail), SL_OK);
	for (int step = 0; step < STEPS; step++) {
		enum sl_err err = sl_local_step(
			local, &(struct sl_feed){.input = images[step], .target = labels, .rows = rows_of(step)},
			(uint64_t)step, 0.05, &o->result[step], &fail);

		if (err)
			snprintf(o->why[step], SL_FAIL_TEXT, "%s", fail.text);
		assert_true(err == SL_OK || err == SL_ERR_NONFINITE);
		assert_int_equal(o->result[step].skipped, err != SL_OK);
		if (err && stop)
			break;
		if (err) /* skipped: it counts as done */
			assert_int_equal(sl_local_set_done(local, (uint64_t)step + 1, &fail), SL_OK);
		o->steps++;
	}
	assert_int_equal(sl_local_get_weights(local, &o->weights), SL_OK);
	sl_local_close(local);
}

struct driver {
	struct sl_loop *loop;
	struct sl_remote *remote;
	struct outcome *o;
	bool stop, host_gone, gone;
};

static void next(struct driver *d)
{
	if (d->o->steps == STEPS)
		sl_link_fetch(sl_remote_link(d->remote));
	else
		sl_remote_step(
			d->remote,
			&(struct sl_feed){.input = images[d->o->steps], .target = labels, .rows = rows_of(d->o->steps)},
			(uint64_t)d->o->steps, 0.05, false);
}

static void on_ready(void *arg, uint64_t next_step)
{
	assert_int_equal(next_step, 0);
	next(arg);
}

static void on_done(void *arg)
{
	struct driver *d = arg;

	d->o->result[d->o->steps++] = sl_remote_result(d->remote);
	next(d);
}

static void on_abandoned(void *arg, const struct sl_fail *why)
{
	struct driver *d = arg;

	assert_int_equal(why->code, SL_ERR_NONFINITE);
	snprintf(d->o->why[d->o->steps], SL_FAIL_TEXT, "%s", why->text);
	if (d->stop)
		sl_link_fetch(sl_remote_link(d->remote));
	else
		sl_link_skip(sl_remote_link(d->remote));
}

static void on_fetched(void *arg)
{
	struct driver *d = arg;
	struct sl_fail fail;

	assert_int_equal(sl_remote_get_weights(d->remote, &d->o->weights, &fail), SL_OK);
	sl_remote_close(d->remote);
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	(void)arg;
	fail_msg("%s", fail->text);
}

static void on_closed(void *arg)
{
	struct driver *d = arg;

	d->gone = true;
	sl_loop_stop(d->loop);
}

static void host_closed(void *arg)
{
	struct driver *d = arg;

	d->host_gone = true;
	sl_loop_stop(d->loop);
}

static void run_remote(struct outcome *o, bool stop, bool upload)
{
	static const struct sl_link_events events = {.ready = on_ready,
						     .done = on_done,
						     .abandoned = on_abandoned,
						     .fetched = on_fetched,
						     .failed = on_failed,
						     .closed = on_closed};
	static int opened;
	struct sl_conf_server conf = {.link = {.part_bytes = PART, .window_bytes = 4 * PART},
				      .limits = {.sessions = 1, .part_bytes = PART, .memory_bytes = 1 << 28}};
	struct sl_device device = {.cpu = cpu, .be = cpu, .text = "cpu"};
	struct driver d = {.o = o, .stop = stop};
	const uint8_t seed[SL_SECRET_BYTES] = {7};
	struct sl_secret secret;
	struct sl_remote_conf remote = {.link = {.plan = plan,
						 .agreement = &asked.agreement,
						 .be = &cpu,
						 .weights = &first,
						 .weights_from_seed = !upload,
						 .part_bytes = PART,
						 .window_bytes = 4 * PART,
						 .heartbeat_ms = 100,
						 .timeout_ms = 20000,
						 .connect_timeout_ms = 20000,
						 .offer = {.secret = &secret, .first = true, .epoch = 1, .n_held = 1}}};
	struct sl_host *host;
	struct sl_fail fail;

	sl_secret_from(&secret, seed);
	*o = (struct outcome){0};
	assert_int_equal(sl_weights_open(&o->weights, plan->model, &fail), SL_OK);
	snprintf(conf.listen, sizeof conf.listen, "inproc://nonfinite-%d", opened++);
	assert_int_equal(sl_loop_open(&d.loop, &fail), SL_OK);
	if (sl_host_open(&host, d.loop, &conf, NULL, &device, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	remote.link.endpoint = sl_host_endpoint(host);
	if (sl_remote_open(&d.remote, d.loop, &remote, &events, &d, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	sl_loop_run(d.loop);
	assert_true(d.gone);
	sl_host_close(host, host_closed, &d);
	sl_loop_run(d.loop);
	assert_true(d.host_gone);
	sl_loop_close(d.loop);
}

/* ---- comparison */

static void assert_same_weights(const struct sl_weights *a, const struct sl_weights *b)
{
	for (int i = 0; i < a->n_param; i++) {
		const struct sl_param *p = &plan->model->graph.param[i];

		assert_true(sl_finite_host(a->value[i], sl_shape_count(&p->shape)));
		if (memcmp(a->value[i], b->value[i], (size_t)sl_shape_count(&p->shape) * sizeof(float)) != 0)
			fail_msg("%s differs", p->name);
	}
}

static void assert_same(const struct outcome *local, const struct outcome *remote)
{
	assert_int_equal(local->steps, remote->steps);
	for (int i = 0; i < local->steps; i++) {
		assert_int_equal(local->result[i].skipped, now->fault[i] != FINE);
		assert_int_equal(remote->result[i].skipped, now->fault[i] != FINE);
		if (now->fault[i] == FINE)
			assert_memory_equal(&local->result[i].loss, &remote->result[i].loss, sizeof(double));
	}
	assert_same_weights(&local->weights, &remote->weights);
}

static void assert_found(const struct outcome *o)
{
	int i = 0;

	while (now->fault[i] == FINE)
		i++;
	if (!strstr(o->why[i], now->found))
		fail_msg("'%s' does not say '%s'", o->why[i], now->found);
}

#define PLAIN                                  \
	{                                      \
		"none", "none", "none", "none" \
	}
#define STATEFUL                                                                \
	{                                                                       \
		"topk:0.3,ef=true", "quant:8", "quant:6", "lowrank:3,warm=true" \
	}

static const struct run_case cases[] = {
	{"features.0.2", PLAIN, {FINE, FINE, NAN_IN, FINE, INF_IN, FINE, NAN_IN, FINE}, "head_act of chunk 1", 0},
	{"features.0.2", STATEFUL, {FINE, FINE, NAN_IN, FINE, INF_IN, FINE, NAN_IN, FINE}, "head_act of chunk 1", 0},
	{"features.0.2", PLAIN, {NAN_IN, NAN_IN, NAN_IN, FINE, FINE, FINE, FINE, NAN_IN}, "head_act of chunk 1", 0},
	/* Finite where it crosses, but too large for the server: in what it sends, or only in what
	 * its commit would have stored. */
	{"features.0.0", PLAIN, {FINE, FINE, HUGE_IN, FINE, HUGE_IN, FINE, FINE, FINE}, "head_grad of chunk 1", 1e25f},
	{"features.0.0",
	 STATEFUL,
	 {FINE, FINE, HUGE_IN, HUGE_IN, FINE, FINE, FINE, FINE},
	 "the statistics of features.0.1.running_var",
	 1e17f},
};

static void a_run_that_skips_is_its_local_twin(void **state)
{
	static struct outcome local, remote;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		open_case(&cases[i]);
		run_local(&local, false);
		run_remote(&remote, false, i % 2);
		assert_same(&local, &remote);
		assert_found(&local);
		assert_found(&remote);
		sl_weights_close(&local.weights);
		sl_weights_close(&remote.weights);
		close_case();
	}
}

static void a_run_that_stops_has_the_weights_before(void **state)
{
	static struct outcome local, remote;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		open_case(&cases[i]);
		run_local(&local, true);
		run_remote(&remote, true, i % 2);
		assert_int_equal(local.steps, cases[i].fault[0] == FINE ? 2 : 0);
		assert_same(&local, &remote);
		sl_weights_close(&local.weights);
		sl_weights_close(&remote.weights);
		close_case();
	}
}

/* ---- the checks */

static void every_place_is_looked_at(void **state)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	enum { N = 70001 };
	float *x = calloc(N, sizeof *x);
	struct sl_fail fail;
	bool finite;

	assert_int_equal(sl_cpu_backend_open(&cpu, NULL, &fail), SL_OK);
	for (int i = 0; i < N; i++)
		x[i] = i % 2 ? 3.4028235e38f : -1e-42f; /* FLT_MAX and a denormal are finite */
	assert_int_equal(sl_finite(&cpu, x, N, &finite), SL_OK);
	assert_true(finite && sl_finite_host(x, N));
	assert_int_equal(sl_finite_find(x, N), N);
	for (int64_t at = 0; at < N; at += at < 40 || at > N - 1040 ? 1 : 997) { /* up to the last element */
		float was = x[at];

		x[at] = bad[at % 3];
		assert_int_equal(sl_finite(&cpu, x, N, &finite), SL_OK);
		assert_false(finite || sl_finite_host(x, N));
		assert_int_equal(sl_finite_find(x, N), at);
		x[at] = was;
	}
	cpu.ops->close(&cpu);
	free(x);
}

/* For a backend that lacks the check, the host does it. */
static void a_backend_may_lack_it(void **state)
{
	static const int places[] = {0, 4095, 4096, 5000, 8191, 8192, 8999}; /* around the host's blocks of 4096 */
	struct sl_backend_ops ops;
	struct sl_backend plain;
	float x[9000] = {0};
	struct sl_fail fail;
	bool finite;

	assert_int_equal(sl_cpu_backend_open(&cpu, NULL, &fail), SL_OK);
	ops = *cpu.ops;
	ops.finite = NULL;
	plain = cpu;
	plain.ops = &ops;
	assert_int_equal(sl_finite(&plain, x, 9000, &finite), SL_OK);
	assert_true(finite);
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		x[places[i]] = NAN;
		assert_int_equal(sl_finite(&plain, x, 9000, &finite), SL_OK);
		assert_false(finite);
		x[places[i]] = 0;
	}
	cpu.ops->close(&cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_place_is_looked_at),
		cmocka_unit_test(a_backend_may_lack_it),
		cmocka_unit_test(a_run_that_skips_is_its_local_twin),
		cmocka_unit_test(a_run_that_stops_has_the_weights_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
