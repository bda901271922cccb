/* libsplit without a server: configs, tokens, waits that fail, and what is left after open and close. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "lib/token.h"
#include "tests/support/fake_peer.h"
#include "tests/support/unit.h"

static const char graph[] = "graph 1\nin head_act f32 R[8]\nparam 0.weight [4,8] zero\nnode 0 linear %0 &0\n"
			    "out mid_act %1\n";
static split_error e;

static split_conf *conf_of(const char *text)
{
	split_conf *c = split_conf_new();

	e.size = sizeof e;
	assert_non_null(c);
	assert_int_equal(split_conf_set(c, "server", "tcp://127.0.0.1:9", &e), SPLIT_OK);
	assert_int_equal(split_conf_set(c, "wait_s", "1", &e), SPLIT_OK);
	assert_int_equal(split_conf_set(c, "link.retry_ms", "10", &e), SPLIT_OK);
	assert_int_equal(split_conf_set(c, "link.connect_timeout_ms", "100", &e), SPLIT_OK);
	if (text)
		assert_int_equal(split_conf_graph(c, text, &e), SPLIT_OK);
	return c;
}

static void refuses(split_conf *c, int code, int status, const char *text)
{
	split_middle *m = NULL;

	assert_int_equal(split_open(&m, c, 0, &e), code);
	assert_null(m);
	assert_int_equal(e.code, code);
	assert_int_equal(e.status, status);
	if (!strstr(e.text, text))
		fail_msg("\"%s\" does not say \"%s\"", e.text, text);
	split_conf_free(c);
}

static void confs_are_refused_with_their_key(void **state)
{
	static const struct {
		const char *key, *value, *text;
	} bad[] = {{"train.optimizer.lr", "1", "comes with each step"},
		   {"data.dir", "x", "no such key"},
		   {"keep_every", "-1", "keep_every: must be a whole number"},
		   {"input_grad", "no", "must be true or false"},
		   {"group.9", "lr=1", "group.1 to group.8"},
		   {"train.precision", "fp16", "take bf16 or fp32"},
		   {"log", "loud", "error, warn, info or debug"}};
	split_conf *c = conf_of(graph);

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(split_conf_set(c, bad[i].key, bad[i].value, &e), SPLIT_CONFIG);
		assert_non_null(strstr(e.text, bad[i].text));
		assert_int_equal(e.status, 78);
	}
	assert_int_equal(split_conf_set(c, "train.batch", "many", &e),
			 SPLIT_OK); /* accepted: the config is checked later */
	refuses(c, SPLIT_CONFIG, 78, "train.batch: must be a whole number");
	refuses(conf_of(NULL), SPLIT_CONFIG, 78, "there is no graph");
	refuses(conf_of("graph 2\n"), SPLIT_PROTOCOL, 76, "");
	c = conf_of(graph);
	assert_int_equal(split_conf_weight(c, "0.weight", (float[3]){0}, 3, &e), SPLIT_OK);
	refuses(c, SPLIT_CONFIG, 78, "0.weight: 3 values, the graph has 32");
	c = conf_of(graph);
	assert_int_equal(split_conf_set(c, "codec.head_act", "gzipp", &e), SPLIT_OK);
	refuses(c, SPLIT_CONFIG, 78, "codec.head_act");
	c = conf_of(graph);
	assert_int_equal(split_conf_set(c, "auth.secret_key", "/none.key", &e), SPLIT_OK);
	assert_int_equal(split_conf_set(c, "auth.server_key", "/none.pub", &e), SPLIT_OK);
	refuses(c, SPLIT_NOINPUT, 66, "auth.secret_key: /none.key");
	assert_memory_equal(e.text, "auth.", 5);
}

static void says_null(int code, const char *names)
{
	assert_int_equal(code, SPLIT_USAGE);
	assert_int_equal(e.status, 64);
	if (!strstr(e.text, names))
		fail_msg("\"%s\" does not say \"%s\"", e.text, names);
}

static void arguments_that_are_null_are_usage(void **state)
{
	split_conf *c = conf_of(graph);
	split_middle *m = NULL;
	float x[8] = {0};
	int call;

	says_null(split_conf_set(NULL, "server", "x", &e), "conf, key and value");
	says_null(split_conf_set(c, NULL, "x", &e), "conf, key and value");
	says_null(split_conf_set(c, "server", NULL, &e), "conf, key and value");
	says_null(split_conf_graph(NULL, graph, &e), "conf and text");
	says_null(split_conf_graph(c, NULL, &e), "conf and text");
	says_null(split_conf_weight(NULL, "a", x, 8, &e), "conf, param and values");
	says_null(split_conf_weight(c, NULL, x, 8, &e), "conf, param and values");
	says_null(split_conf_weight(c, "a", NULL, 8, &e), "conf, param and values");
	says_null(split_conf_resume(NULL, x, 8, &e), "conf and token");
	says_null(split_conf_resume(c, NULL, 8, &e), "conf and token");
	says_null(split_open(NULL, c, 0, &e), "out and conf");
	says_null(split_open(&m, NULL, 0, &e), "out and conf");
	assert_int_equal(split_conf_set(c, "server", NULL, NULL), SPLIT_USAGE);
	split_conf_free(NULL);
	assert_int_equal(split_fd(NULL), -1);
	assert_int_equal(split_open(&m, c, 0, &e), SPLIT_AGAIN);
	assert_int_equal(e.code, SPLIT_AGAIN);
	says_null(split_forward(m, 1, 1, NULL, NULL, &call, &e), "x and call");
	says_null(split_forward(m, 1, 1, NULL, x, NULL, &e), "x and call");
	says_null(split_keep(m, NULL, NULL, 0, &e), "n must not be");
	says_null(split_resume(m, NULL, 0, 0, &e), "token");
	says_null(split_weight(m, NULL, x, 8, 0, &e), "param and values");
	split_close(m, 0);
	split_conf_free(c);
}

static void a_server_that_is_not_there_is_unavailable(void **state)
{
	split_conf *c = conf_of(graph);
	split_middle *m = NULL;
	const uint64_t began_ms = sl_now_ms();

	assert_int_equal(split_open(&m, c, 0, &e), SPLIT_AGAIN);
	assert_non_null(m);
	assert_true(split_fd(m) >= 0);
	assert_int_equal(split_open(&m, c, -1, &e), SPLIT_UNAVAILABLE);
	assert_null(m);
	assert_int_equal(e.status, 69);
	assert_non_null(strstr(e.text, "tcp://127.0.0.1:9 has not answered for 1 s"));
	assert_in_range(sl_now_ms() - began_ms, 900, 20000);
	split_conf_free(c);
}

static void answers_with(struct fake_peer peer)
{
	split_conf *c = conf_of(graph);
	split_middle *m = NULL;

	fake_peer_open(&peer);
	assert_int_equal(split_conf_set(c, "server", peer.endpoint, &e), SPLIT_OK);
	assert_int_equal(split_open(&m, c, -1, &e), SPLIT_UNAVAILABLE);
	assert_null(m);
	assert_true(peer.accepted > 0);
	assert_non_null(strstr(e.text, peer.endpoint));
	fake_peer_close(&peer);
	split_conf_free(c);
}

/* Another service, noise after a greeting, and a peer that falls silent or resets. */
static void a_peer_that_is_no_server_is_unavailable(void **state)
{
	static const char web[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	struct fake_greeting greeting = fake_greeting("NULL");
	uint8_t noise[4096];

	memset(noise, 0xff, sizeof noise);
	memcpy(noise, greeting.byte, sizeof greeting.byte);
	answers_with((struct fake_peer){.say = (const uint8_t *)web, .len = sizeof web - 1, .end = FAKE_CLOSE});
	answers_with((struct fake_peer){.say = noise, .len = sizeof noise, .end = FAKE_HOLD});
	answers_with((struct fake_peer){.say = noise, .len = sizeof greeting.byte, .end = FAKE_RESET});
	answers_with((struct fake_peer){.say = noise, .len = 20, .at_once = 1, .pause_ms = 5, .end = FAKE_HOLD});
}

static int entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Waits, since ZeroMQ's threads end some time after the close. */
static void settles_at(const char *folder, int n)
{
	for (int i = 0; i < 500 && entries(folder) > n; i++)
		usleep(10000);
	assert_int_equal(entries(folder), n);
}

static void opens_and_closes_leave_nothing(void **state)
{
	const int opens = getenv("SPLIT_LONG") ? 1000 : 60;
	split_conf *c = conf_of(graph);
	int descriptors = 0, threads = 0;

	for (int i = 0; i < opens; i++) {
		split_middle *m = NULL;

		if (i == 5) {
			descriptors = entries("/proc/self/fd");
			threads = entries("/proc/self/task");
		}
		assert_int_equal(split_open(&m, c, i % 3, &e), SPLIT_AGAIN);
		split_close(m, i % 2);
	}
	settles_at("/proc/self/fd", descriptors);
	settles_at("/proc/self/task", threads);
	split_close(NULL, 1);
	split_conf_free(c);
}

/* Whether the thread blocks SIGINT and SIGTERM. */
static bool blocks(const char *thread)
{
	const unsigned long long both = 1ull << (SIGINT - 1) | 1ull << (SIGTERM - 1);
	unsigned long long mask = 0;
	char path[300], line[256];
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "SigBlk:", 7) == 0)
			mask = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return (mask & both) == both;
}

static int that_block(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	for (struct dirent *one; (one = readdir(d));)
		n += one->d_name[0] != '.' && blocks(one->d_name);
	closedir(d);
	return n;
}

static void no_thread_takes_a_signal(void **state)
{
	const int threads = entries("/proc/self/task"), blocked = that_block();
	split_conf *c = conf_of(graph);
	split_middle *m = NULL;

	assert_int_equal(split_open(&m, c, 50, &e), SPLIT_AGAIN);
	assert_true(entries("/proc/self/task") > threads);
	assert_int_equal(that_block() - blocked, entries("/proc/self/task") - threads);
	split_close(m, 0);
	split_conf_free(c);
}

static void calls_out_of_turn_are_usage(void **state)
{
	split_conf *c = conf_of(graph);
	split_middle *m = NULL;
	float x[8] = {0};
	int call;

	assert_int_equal(split_open(&m, c, 0, &e), SPLIT_AGAIN);
	assert_int_equal(split_forward(NULL, 1, 1, NULL, x, &call, &e), SPLIT_USAGE);
	assert_int_equal(split_forward(m, 1, 0, NULL, x, &call, &e), SPLIT_USAGE);
	assert_int_equal(split_forward(m, 1, 129, NULL, x, &call, &e), SPLIT_USAGE);
	assert_int_equal(split_output(m, 1, x, 0, &e), SPLIT_USAGE);
	assert_int_equal(split_step(m, 0.1, 1, 0, &e), SPLIT_USAGE);
	assert_int_equal(split_step(m, -1, 1, 0, &e), SPLIT_USAGE);
	assert_int_equal(split_forward(m, 1, 1, NULL, x, &call, &e), SPLIT_OK);
	assert_int_equal(split_forward(m, 1, 100, NULL, x, &call, &e),
			 SPLIT_USAGE); /* needs four chunks, three are left */
	assert_non_null(strstr(e.text, "room for 4 chunks"));
	assert_int_equal(split_forward(m, 0, 1, NULL, x, &call, &e), SPLIT_USAGE);
	assert_int_equal(split_backward(m, call, x, &e), SPLIT_USAGE);
	e.code = 0;
	assert_int_equal(split_output(m, call, x, 0, &e), SPLIT_AGAIN);
	assert_int_equal(e.code, SPLIT_AGAIN);
	assert_non_null(strstr(e.text, "not yet: "));
	assert_string_equal(e.name, "again");
	split_close(m, 0);
	split_conf_free(c);
}

/* A graph of two inputs, of which the second has no gradient, and two outputs. */
static void calls_of_several_values_take_arrays(void **state)
{
	static const char two[] = "graph 1\nin head_act f32 R[8]\nin head_act.1 f32 R[3] still\nparam a [4,8] zero\n"
				  "param b [2,3] zero\nnode a linear %0 &0\nnode b linear %1 &1\n"
				  "out mid_act %2\nout mid_act.1 %3\n";
	split_conf *c = conf_of(two);
	split_middle *m = NULL;
	float x[8] = {0}, *none[2] = {NULL}, *both[2] = {x, x};
	const float *const in[2] = {x, x}, *const half[2] = {x, NULL};
	int64_t dim[4];
	int call, per_token;

	assert_int_equal(split_open(&m, c, 0, &e), SPLIT_AGAIN);
	assert_int_equal(split_fields(m, 0), 2);
	assert_int_equal(split_fields(m, 1), 2);
	assert_int_equal(split_shape_of(m, 0, 1, &per_token, dim), 2);
	assert_int_equal(dim[1], 3);
	assert_int_equal(split_shape_of(m, 1, 1, &per_token, dim), 2);
	assert_int_equal(dim[1], 2);
	assert_int_equal(split_shape_of(m, 1, 2, &per_token, dim), 0);
	assert_int_equal(split_shape_of(m, 1, -1, &per_token, dim), 0);
	says_null(split_forward(m, 1, 1, NULL, x, &call, &e), "has 2 inputs: call split_forward_all");
	says_null(split_output(m, 1, x, 0, &e), "has 2 outputs: call split_output_all");
	says_null(split_backward(m, 1, x, &e), "has 2 outputs: call split_backward_all");
	says_null(split_input_grad(m, 1, x, 0, &e), "has 2 inputs: call split_input_grad_all");
	says_null(split_forward_all(m, 1, 1, NULL, half, &call, &e), "x has 2 arrays");
	says_null(split_forward_all(m, 1, 1, NULL, NULL, &call, &e), "x has 2 arrays");
	says_null(split_forward_all(m, 1, 1, NULL, in, NULL, &e), "call must not be");
	says_null(split_output_all(m, 1, none, 0, &e), "y has 2 arrays");
	says_null(split_backward_all(m, 1, (const float *const *)none, &e), "no output has a gradient");
	says_null(split_backward_all(m, 1, NULL, &e), "no output has a gradient");
	says_null(split_input_grad_all(m, 1, both, 0, &e), "graph calls still has no gradient");
	assert_int_equal(split_forward_all(m, 1, 1, NULL, in, &call, &e), SPLIT_OK);
	assert_int_equal(split_output_all(m, call, both, 0, &e), SPLIT_AGAIN);
	split_close(m, 0);
	split_conf_free(c);
}

struct waiter {
	split_conf *conf; /* waits in split_open; NULL: in split_output */
	split_middle *m;
	int call, code;
	split_error e;
	pthread_t thread;
};

static void *waits(void *arg)
{
	struct waiter *w = arg;
	split_middle *m = w->m;
	float y[4];

	w->e.size = sizeof w->e;
	w->code = w->conf ? split_open(&m, w->conf, -1, &w->e) : split_output(m, w->call, y, -1, &w->e);
	return NULL;
}

static void a_close_ends_the_call_of_another_thread(void **state)
{
	split_conf *c = conf_of(graph);
	float x[8] = {0};

	assert_int_equal(split_conf_set(c, "wait_s", "0", &e), SPLIT_OK);
	for (int i = 0; i < 20; i++) {
		struct waiter w = {.conf = i % 2 ? c : NULL};

		assert_int_equal(split_open(&w.m, c, 0, &e), SPLIT_AGAIN);
		assert_int_equal(split_forward(w.m, 1, 1, NULL, x, &w.call, &e), SPLIT_OK);
		assert_int_equal(pthread_create(&w.thread, NULL, waits, &w), 0);
		while (split_statistics(w.m, &(struct split_stats){.size = sizeof(struct split_stats)}) == SPLIT_OK)
			usleep(1000); /* until the thread is in its call */
		split_close(w.m, i % 3 == 0);
		pthread_join(w.thread, NULL);
		assert_int_equal(w.code, SPLIT_USAGE);
		assert_non_null(strstr(w.e.text, "another thread has closed this middle"));
	}
	split_conf_free(c);
}

/* Replaces the child by another program: a leak checker would report the memory of the parent's threads. */
static _Noreturn void end_child(bool ok)
{
	execl("/bin/sh", "sh", "-c", ok ? "exit 0" : "exit 1", (char *)NULL);
	_exit(127);
}

static void a_forked_child_only_closes(void **state)
{
	split_conf *c = conf_of(graph);
	split_middle *m = NULL;
	int status;
	pid_t child;

	assert_int_equal(split_open(&m, c, 0, &e), SPLIT_AGAIN);
	child = fork();
	if (child == 0) {
		float x[8] = {0};
		int call, code = split_forward(m, 1, 1, NULL, x, &call, &e);

		split_close(m, 1);
		end_child(code == SPLIT_USAGE);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	split_close(m, 0);
	split_conf_free(c);
}

static atomic_bool logs_on;

static void *logs(void *arg)
{
	while (atomic_load(&logs_on))
		sl_log(SL_LOG_ERROR, "test", "a line of a thread that does not end up in a child");
	return arg;
}

/* A child may use the log after fork(), whatever another thread was doing at that moment. */
static void a_forked_child_reads_and_writes_the_log(void **state)
{
	split_conf *c = conf_of(graph);
	char line[512];
	pthread_t thread;

	atomic_store(&logs_on, true);
	assert_int_equal(pthread_create(&thread, NULL, logs, NULL), 0);
	for (int i = 0; i < 200; i++) {
		const pid_t child = fork();
		int status;

		if (child == 0) {
			alarm(30);
			sl_log(SL_LOG_ERROR, "test", "a line of a child");
			while (split_log(line, sizeof line))
				;
			end_child(true);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&logs_on, false);
	pthread_join(thread, NULL);
	while (split_log(line, sizeof line))
		;
	split_conf_free(c);
}

static void damaged_tokens_are_refused(void **state)
{
	uint8_t feedback[] = {1, 2, 3}, bytes[512];
	const struct sl_token t = {.seed = {7},
				   .epoch = 5,
				   .step = 500,
				   .made = 4,
				   .train_seed = 9,
				   .codec = {{feedback, 3}, {feedback, 0}, {feedback, 2}, {feedback, 1}}};
	const size_t n = sl_token_bytes(&t);
	split_conf *c = split_conf_new();
	struct sl_fail fail;
	struct sl_token read;

	e.size = sizeof e;
	assert_true(n <= sizeof bytes);
	sl_token_write(&t, bytes);
	assert_int_equal(sl_token_read(&read, bytes, n, &fail), SL_OK);
	assert_true(read.epoch == 5 && read.step == 500 && read.made == 4 && read.train_seed == 9 &&
		    read.codec[2].len == 2);
	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= 0x40;
		assert_int_equal(split_conf_resume(c, bytes, n, &e), SPLIT_DATA);
		bytes[i] ^= 0x40;
		assert_int_equal(split_conf_resume(c, bytes, i, &e), SPLIT_DATA);
	}
	assert_int_equal(split_conf_resume(c, bytes, n, &e), SPLIT_OK);
	split_conf_free(c);
	c = conf_of(graph); /* the token is of another network */
	assert_int_equal(split_conf_resume(c, bytes, n, &e), SPLIT_OK);
	refuses(c, SPLIT_MISMATCH, 78, "is of another network or other settings");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(confs_are_refused_with_their_key),
		cmocka_unit_test(arguments_that_are_null_are_usage),
		cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
		cmocka_unit_test(a_peer_that_is_no_server_is_unavailable),
		cmocka_unit_test(opens_and_closes_leave_nothing),
		cmocka_unit_test(no_thread_takes_a_signal),
		cmocka_unit_test(calls_out_of_turn_are_usage),
		cmocka_unit_test(calls_of_several_values_take_arrays),
		cmocka_unit_test(a_close_ends_the_call_of_another_thread),
		cmocka_unit_test(a_forked_child_only_closes),
		cmocka_unit_test(a_forked_child_reads_and_writes_the_log),
		cmocka_unit_test(damaged_tokens_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
