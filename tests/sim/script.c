/* A script's middle: a process that trains by the calls of lib/split.h, and keeps tokens. While a call waits, the
 * events of libsplit's loop happen, which has no thread here. Each step gives what it gave in a run without faults. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/log.h"
#include "common/base/newfile.h"
#include "lib/split.h"
#include "tests/sim/sim.h"

enum { ROWS = 6, IN = 4, OUT = 3, HIDDEN = 8, CALLS = 2, STEPS = 20, KEEP_EVERY = 4, DROPPED = 6, TOKEN = 1 << 14 };
uint64_t *sim_script;
static const char model[] = "client/run0/model";

static const char graph[] = "graph 1\n"
			    "in head_act f32 R[4]\n"
			    "param 0.weight [8,4] uniform:0.35:0\n"
			    "param 2.weight [3,8] uniform:0.25:1\n"
			    "node 0 linear %0 &0\n"
			    "node 1 act %1\n"
			    "node 2 linear %2 &1\n"
			    "out mid_act %3\n";
static const char *const key[][2] = {{"server", "tcp://127.0.0.1:5570"},
				     {"train.batch", "6"},
				     {"train.chunks", "2"},
				     {"train.seed", "3"},
				     {"train.optimizer.kind", "adamw"},
				     {"calls", "2"},
				     {"codec.head_act", "topk:0.5,ef=true"},
				     {"codec.mid_act", "quant:8"},
				     {"codec.mid_grad", "topk:0.5,ef=true"},
				     {"codec.head_grad", "quant:6"},
				     {"link.retry_ms", "20"},
				     {"link.heartbeat_ms", "100"},
				     {"link.timeout_ms", "2000"},
				     {"link.connect_timeout_ms", "2000"},
				     {"keep_every", "3"},
				     {"wait_s", "0"},
				     {"log", "info"}};

/* ---- libsplit's thread */

static struct {
	void *(*fn)(void *arg);
	void *arg;
} loop;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg)
{
	loop.fn = fn;
	loop.arg = arg;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	(void)loop.fn(loop.arg);
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	pthread_mutex_unlock(mutex);
	sim_wait();
	pthread_mutex_lock(mutex);
	return 0;
}

/* ---- tokens on the disk */

static void name_token(char out[48], uint64_t step)
{
	snprintf(out, 48, "client/run0/token-%02d", (int)step);
}

static size_t read_token(uint64_t step, uint8_t token[TOKEN])
{
	char path[48];
	size_t n;
	FILE *f;

	name_token(path, step);
	f = fopen(path, "r");
	n = f ? fread(token, 1, TOKEN, f) : 0;
	if (f)
		fclose(f);
	return n;
}

/* The newest; 0: there is none. */
static size_t find_token(uint8_t token[TOKEN], int *step)
{
	size_t n = 0;

	for (*step = STEPS; *step >= 0 && !(n = read_token((uint64_t)*step, token)); --*step)
		;
	return n;
}

static int put_file(const char *path, const void *from, size_t len, split_error *e)
{
	struct sl_fail fail;

	if (!sl_newfile_put(path, 0600, SL_FP_NONE, from, len, &fail))
		return SPLIT_OK;
	e->status = 74;
	return SPLIT_IO;
}

/* Where the server cannot store its side, the tokens before still hold. */
static int keep(split_middle *m, split_error *e)
{
	const uint64_t step = split_step_number(m);
	uint8_t token[TOKEN];
	size_t n = sizeof token;
	char path[48];
	int code = split_keep(m, token, &n, -1, e);

	if (code)
		return code == SPLIT_IO ? SPLIT_OK : code;
	name_token(path, step);
	code = put_file(path, token, n, e);
	if (!code && step > 2 * KEEP_EVERY) { /* the server keeps the states of the last two */
		name_token(path, step - 2 * KEEP_EVERY);
		unlink(path);
	}
	return code;
}

/* ---- a run */

/* What a step gives, or the run in the end, which is number STEPS. */
static void compare(uint64_t number, uint64_t is)
{
	if (sim.learns)
		sim_script[number] = is;
	else if (sim_script[number] != is)
		sim_fail(number == STEPS ? "other weights than without faults"
					 : "step %llu gives other values than without faults",
			 (unsigned long long)number + 1);
}

static void fill(float *x, int n, uint64_t seed)
{
	for (int i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		x[i] = (float)(seed >> 40) / (1 << 23) - 1;
	}
}

static int evaluate(split_middle *m, uint64_t number, XXH64_hash_t *sum, split_error *e)
{
	float x[ROWS * IN], y[ROWS * OUT];
	int call, code;

	fill(x, ROWS * IN, ~number);
	code = split_forward(m, 0, ROWS, NULL, x, &call, e);
	if (!code)
		code = split_output(m, call, y, -1, e);
	if (!code)
		*sum = XXH3_64bits_withSeed(y, sizeof y, *sum);
	return code;
}

/* The gradients of CALLS calls, the last one's first. */
static int differentiate(split_middle *m, const int call[CALLS], float y[CALLS][ROWS * OUT], float x[CALLS][ROWS * IN],
			 split_error *e)
{
	int code = SPLIT_OK;

	for (int c = CALLS - 1; c >= 0 && !code; c--) {
		for (int i = 0; i < ROWS * OUT; i++)
			y[c][i] = (y[c][i] - x[c][i / OUT * IN + i % OUT]) / (CALLS * ROWS);
		code = split_backward(m, call[c], y[c], e);
	}
	for (int c = 0; c < CALLS && !code; c++)
		code = split_input_grad(m, call[c], x[c], -1, e);
	return code;
}

static int one_step(split_middle *m, uint64_t number, split_error *e)
{
	float x[CALLS][ROWS * IN], y[CALLS][ROWS * OUT];
	XXH64_hash_t sum = 0;
	double norm = 1;
	int call[CALLS], code = number % 5 == 2 ? evaluate(m, number, &sum, e) : SPLIT_OK;

	fill(x[0], CALLS * ROWS * IN, number);
	for (int c = 0; c < CALLS && !code; c++)
		code = split_forward(m, 1, ROWS - c, NULL, x[c], &call[c], e);
	memset(y, 0, sizeof y); /* the second call has fewer rows */
	for (int c = 0; c < CALLS && !code; c++)
		code = split_output(m, call[c], y[c], -1, e);
	sum = code ? 0 : XXH3_64bits_withSeed(y, sizeof y, sum);
	if (!code && number == DROPPED)
		code = split_drop(m, -1, e);
	else if (!code)
		code = differentiate(m, call, y, x, e);
	if (!code && number != DROPPED && number % 3 == 1)
		code = split_norm(m, &norm, -1, e);
	if (!code && number != DROPPED)
		code = split_step(m, 0.05, norm > 1 ? 1 / norm : 1, -1, e);
	sum = XXH3_64bits_withSeed(x, sizeof x, XXH3_64bits_withSeed(&norm, sizeof norm, sum));
	if (!code)
		compare(number, sum);
	return code;
}

/* The weights are on the disk before the goodbye, so that a run that is done is known as such. */
static int finish(split_middle *m, split_error *e)
{
	float weights[HIDDEN * IN + OUT * HIDDEN];
	int code = split_weight(m, "0.weight", weights, HIDDEN * IN, -1, e);

	if (!code)
		code = split_weight(m, "2.weight", weights + HIDDEN * IN, OUT * HIDDEN, -1, e);
	if (!code)
		compare(STEPS, XXH3_64bits(weights, sizeof weights));
	return code ? code : put_file(model, weights, sizeof weights, e);
}

static int open_middle(split_middle **m, split_error *e)
{
	split_conf *conf = split_conf_new();
	uint8_t token[TOKEN];
	int step;
	const size_t n = find_token(token, &step);
	int code = split_conf_graph(conf, graph, e);

	for (size_t i = 0; i < sizeof key / sizeof *key && !code; i++)
		code = split_conf_set(conf, key[i][0], key[i][1], e);
	sim_hear_log(); /* the library has set a sink of its own */
	if (!code && n)
		code = split_conf_resume(conf, token, n, e);
	if (!code)
		code = split_open(m, conf, -1, e);
	split_conf_free(conf);
	return code;
}

int sim_script_main(struct sim_proc *p)
{
	split_error e = {.size = sizeof e, .status = 78};
	split_middle *m = NULL;
	uint8_t token[TOKEN];
	uint64_t step = 0;
	int code = SPLIT_OK, kept;
	size_t n;

	mkdir("client/run0", 0700);
	if (access(model, F_OK))
		code = open_middle(&m, &e);
	for (bool ended = false; m && !code && !ended;) {
		ended = (step = split_step_number(m)) == STEPS;
		if (!ended && step % KEEP_EVERY == 0)
			code = keep(m, &e);
		if (!code)
			code = ended ? finish(m, &e) : one_step(m, step, &e);
		ended = ended && !code;
		if (code == SPLIT_ROLLED_BACK && (n = read_token(e.step, token)))
			code = split_resume(m, token, n, -1, &e);
	}
	if (code == SPLIT_MISMATCH &&
	    (!find_token(token, &kept) || !kept)) /* it has nothing to go on from, and begins again */
		e.status = 75;
	sim_trace("the script ends in step %llu: %s", (unsigned long long)step + 1, code ? e.text : "done");
	split_close(m, !code);
	p->done = !code;
	return code ? e.status : 0;
}
