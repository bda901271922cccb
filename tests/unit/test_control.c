/* The control socket: requests and answers, which clients are dropped, and whose socket file it is. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/guard.h"
#include "common/link/control.h"
#include "common/link/loop.h"
#include "tests/support/still_clock.h"
#include "tests/support/unit.h"

enum { ASK_MS = 60000, MOST = 8 << 20, TURN_MS = 10 /* one step of the test's clock */ };

/* A daemon whose loop runs in a thread of its own. */
struct daemon {
	char dir[64], path[96];
	struct sl_loop *loop;
	struct sl_control *control;
	struct sl_async *quit, *turn;
	pthread_t thread;
	_Atomic bool holds, lets_go;
	_Atomic int turns;
};

static char *answer(void *arg, const char *request)
{
	struct daemon *d = arg;

	if (strcmp(request, "hold") == 0) { /* blocks the loop */
		d->holds = true;
		while (!d->lets_go)
			usleep(1000);
		return strdup("held\n");
	}
	if (strcmp(request, "status") == 0)
		return strdup("{\"schema\":1}\n");
	if (strcmp(request, "large") == 0 || strcmp(request, "too large") == 0) {
		size_t len = MOST - (*request == 'l');
		char *text = malloc(len + 1);

		memset(text, 'x', len);
		text[len] = 0;
		return text;
	}
	return NULL;
}

static void quit(void *arg)
{
	sl_loop_stop(((struct daemon *)arg)->loop);
}

static void turned(void *arg)
{
	((struct daemon *)arg)->turns++;
}

static void *run(void *arg)
{
	sl_loop_run(((struct daemon *)arg)->loop);
	return NULL;
}

static void make_path(struct daemon *d)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(d->dir, sizeof d->dir, "%s/control.XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	assert_non_null(mkdtemp(d->dir));
	snprintf(d->path, sizeof d->path, "%s/socket", d->dir);
}

static void start(struct daemon *d)
{
	struct sl_fail fail;

	assert_int_equal(sl_loop_open(&d->loop, NULL), SL_OK);
	if (sl_control_open(&d->control, d->loop, d->path, answer, d, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(sl_async_open(&d->quit, d->loop, quit, d, NULL), SL_OK);
	assert_int_equal(sl_async_open(&d->turn, d->loop, turned, d, NULL), SL_OK);
	assert_int_equal(pthread_create(&d->thread, NULL, run, d), 0);
}

static void stop(struct daemon *d)
{
	sl_async_wake(d->quit);
	pthread_join(d->thread, NULL);
	sl_async_close(d->quit);
	sl_async_close(d->turn);
	sl_control_close(d->control);
	sl_loop_close(d->loop);
}

static int set_up(void **state)
{
	struct daemon *d = calloc(1, sizeof *d);

	make_path(d);
	still_clock_stop();
	start(d);
	*state = d;
	return 0;
}

static int tear_down(void **state)
{
	struct daemon *d = *state;

	stop(d);
	assert_int_equal(access(d->path, F_OK), -1); /* the daemon removed the socket file */
	assert_int_equal(rmdir(d->dir), 0);
	free(d);
	still_clock_start();
	return 0;
}

static int raw_connect(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(to.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

static bool is_closed(int fd)
{
	struct pollfd end = {.fd = fd};

	return poll(&end, 1, 0) == 1 && end.revents & (POLLHUP | POLLERR);
}

/* Returns when the daemon's loop has answered, or turned away, one more client and then turned
 * once more. While clients connect, the loop accepts them without running timers. So two wakes
 * force the last turn: each has a turn of its own, and timers run before the second one. */
static void let_it_turn(struct daemon *d)
{
	int fd = raw_connect(d->path);
	char text[64];

	(void)!send(fd, "status\n", 7, MSG_NOSIGNAL);
	while (recv(fd, text, sizeof text, 0) > 0)
		;
	close(fd);
	for (int i = 0; i < 2; i++) {
		int turns = d->turns;

		sl_async_wake(d->turn);
		while (d->turns == turns)
			usleep(100);
	}
}

static int closed_of(const int *fd, int n)
{
	int closed = 0;

	for (int i = 0; i < n; i++)
		closed += is_closed(fd[i]);
	return closed;
}

/* Milliseconds of the test's clock until the daemon has closed all n connections; then closes them here. */
static int ms_to_close(struct daemon *d, const int *fd, int n)
{
	int ms = 0;

	for (let_it_turn(d); closed_of(fd, n) < n && ms < 10000; ms += TURN_MS) {
		still_clock_go_on(TURN_MS);
		let_it_turn(d);
	}
	for (int i = 0; i < n; i++)
		close(fd[i]);
	return ms;
}

static void a_question_is_answered(void **state)
{
	struct daemon *d = *state;
	struct sl_fail fail;
	char *text = NULL;

	for (int i = 0; i < 50; i++) {
		assert_int_equal(sl_control_ask(d->path, "status", ASK_MS, &text, &fail), SL_OK);
		assert_string_equal(text, "{\"schema\":1}\n");
		free(text);
	}
	assert_int_equal(sl_control_ask(d->path, "large", ASK_MS, &text, &fail), SL_OK);
	assert_int_equal(strlen(text), MOST - 1);
	free(text);
}

static void questions_that_have_no_answer(void **state)
{
	struct daemon *d = *state;
	struct sl_fail fail;
	char *text = NULL, longest[65], path[sizeof((struct sockaddr_un *)0)->sun_path + 1];

	assert_int_equal(sl_control_ask(d->path, "what?", ASK_MS, &text, &fail), SL_ERR_UNAVAILABLE);
	assert_int_equal(sl_control_ask(d->path, "too large", ASK_MS, &text, &fail), SL_ERR_LIMIT);
	memset(longest, 'a', 64);
	longest[64] = 0;
	assert_int_equal(sl_control_ask(d->path, longest, ASK_MS, &text, &fail), SL_ERR_LIMIT);
	assert_int_equal(sl_control_ask("/nowhere/at/all", "status", ASK_MS, &text, &fail), SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "/nowhere/at/all"));
	memset(path, 'a', sizeof path);
	path[sizeof path - 1] = 0; /* leaves no room for the NUL in an address */
	assert_int_equal(sl_control_ask(path, "status", ASK_MS, &text, &fail), SL_ERR_CONFIG);
	assert_null(text);
}

static void silent_slow_and_greedy_clients_are_dropped(void **state)
{
	struct daemon *d = *state;
	int silent = raw_connect(d->path), lazy = raw_connect(d->path), greedy = raw_connect(d->path);
	char flood[4096];

	memset(flood, 'a', sizeof flood);
	assert_true(send(greedy, flood, sizeof flood, MSG_NOSIGNAL) > 0);
	assert_in_range(ms_to_close(d, &greedy, 1), 0, 100);
	assert_false(is_closed(silent));
	assert_in_range(ms_to_close(d, &silent, 1), 800, 1100);
	assert_true(is_closed(lazy)); /* it had sent no request either */
	close(lazy);
	lazy = raw_connect(d->path);
	assert_int_equal(send(lazy, "large\n", 6, MSG_NOSIGNAL), 6); /* but does not read the answer */
	assert_in_range(ms_to_close(d, &lazy, 1), 900, 1100);
}

static void who_asked_in_time_is_answered_by_a_loop_that_stood_still(void **state)
{
	struct daemon *d = *state;
	int fd = raw_connect(d->path), holder = raw_connect(d->path);
	char text[64];

	let_it_turn(d); /* both connections are accepted */
	assert_int_equal(send(holder, "hold\n", 5, MSG_NOSIGNAL), 5);
	while (!d->holds)
		usleep(1000);
	assert_int_equal(send(fd, "status\n", 7, MSG_NOSIGNAL), 7);
	still_clock_go_on(1500);
	d->lets_go = true;
	assert_int_equal(recv(fd, text, sizeof text, 0), strlen("{\"schema\":1}\n"));
	close(fd);
	close(holder);
}

static void waiting_connections_are_bounded_and_expire(void **state)
{
	enum { CROWD = 100, LET_IN = 8 };
	struct daemon *d = *state;
	int fd[CROWD];
	char *text;

	for (int i = 0; i < CROWD; i++)
		fd[i] = raw_connect(d->path);
	let_it_turn(d);
	assert_int_equal(closed_of(fd, CROWD), CROWD - LET_IN + 1); /* at once; let_it_turn's client took a place */
	assert_in_range(ms_to_close(d, fd, CROWD), 900, 1100);
	assert_int_equal(sl_control_ask(d->path, "status", ASK_MS, &text, NULL), SL_OK);
	free(text);
}

static void the_file_is_for_its_owner_alone(void **state)
{
	struct daemon *d = *state;
	struct stat st;

	assert_int_equal(stat(d->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_living_socket_is_respected_and_a_dead_one_replaced(void **state)
{
	struct daemon *d = *state, second = {.thread = 0};
	struct sl_control *control;
	struct sl_fail fail;
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char *text;
	int fd;

	assert_int_equal(sl_loop_open(&second.loop, NULL), SL_OK);
	assert_int_equal(sl_control_open(&control, second.loop, d->path, answer, NULL, &fail), SL_ERR_UNAVAILABLE);
	assert_int_equal(sl_control_ask(d->path, "status", ASK_MS, &text, NULL), SL_OK); /* the first still serves */
	free(text);
	sl_loop_close(second.loop);

	/* A killed daemon leaves a socket file on which nobody listens. */
	make_path(&second);
	strcpy(to.sun_path, second.path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
	close(fd);
	start(&second);
	assert_int_equal(sl_control_ask(second.path, "status", ASK_MS, &text, NULL), SL_OK);
	free(text);
	stop(&second);
	rmdir(second.dir);
}

static void other_files_are_left_alone(void **state)
{
	struct daemon *d = *state;
	struct sl_loop *loop;
	struct sl_control *control;
	struct sl_fail fail;
	char path[128], overlong[200];
	FILE *file;

	snprintf(path, sizeof path, "%s/file", d->dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(sl_loop_open(&loop, NULL), SL_OK);
	assert_int_equal(sl_control_open(&control, loop, path, answer, NULL, &fail), SL_ERR_CANTCREATE);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(sl_control_open(&control, loop, "/no/such/folder/s", answer, NULL, &fail), SL_ERR_CANTCREATE);
	memset(overlong, 'a', sizeof overlong - 1);
	overlong[sizeof overlong - 1] = 0;
	assert_int_equal(sl_control_open(&control, loop, overlong, answer, NULL, &fail), SL_ERR_CONFIG);
	sl_loop_close(loop);
}

static void a_file_that_another_put_there_is_not_removed(void **state)
{
	struct daemon d;
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd;

	make_path(&d);
	start(&d);
	assert_int_equal(unlink(d.path), 0);
	strcpy(to.sun_path, d.path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
	stop(&d);
	assert_int_equal(unlink(d.path), 0);
	close(fd);
	rmdir(d.dir);
}

static void asking_a_daemon_that_hangs_times_out(void **state)
{
	struct daemon d;
	struct sl_fail fail;
	char *text;

	make_path(&d);
	assert_int_equal(sl_loop_open(&d.loop, NULL), SL_OK);
	assert_int_equal(sl_control_open(&d.control, d.loop, d.path, answer, NULL, NULL), SL_OK);
	assert_int_equal(sl_control_ask(d.path, "status", 100, &text, &fail), SL_ERR_TIMEOUT);
	sl_control_close(d.control);
	sl_loop_close(d.loop);
	rmdir(d.dir);
}

enum { OTHER = 54321 };

/* Another user's process, which answers with escapes for a terminal. Returns its pid. */
static pid_t another_user_listens(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), ready[2];
	char byte, request[64];
	pid_t pid;

	strcpy(to.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGPIPE, SIG_IGN);
		if (setuid(OTHER) != 0 || listen(fd, 4) != 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;) {
			int asks = accept(fd, NULL, NULL);

			(void)!read(asks, request, sizeof request);
			(void)!write(asks, "{\033]0;x\007\n}\n", 10);
			close(asks);
		}
	}
	close(fd);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* In a folder where everybody may make sockets another user's process is not believed. It may be a service in a folder
 * of its own, but its text does not reach a terminal as it is. */
static void another_user_s_answer_is_not_believed(void **state)
{
	struct daemon d;
	struct sl_fail fail;
	char *text;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	make_path(&d);
	assert_int_equal(chmod(d.dir, 01777), 0);
	pid = another_user_listens(d.path);
	assert_int_equal(sl_control_ask(d.path, "status", ASK_MS, &text, &fail), SL_ERR_AUTH);
	assert_non_null(strstr(fail.text, "another user (uid 54321) listens at"));
	assert_int_equal(chown(d.dir, OTHER, OTHER), 0);
	assert_int_equal(sl_control_ask(d.path, "status", ASK_MS, &text, &fail), SL_ERR_AUTH);
	assert_int_equal(chmod(d.dir, 0755), 0);
	assert_int_equal(sl_control_ask(d.path, "status", ASK_MS, &text, &fail), SL_OK);
	assert_string_equal(text, "{?]0;x?\n}\n");
	free(text);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(unlink(d.path), 0);
	assert_int_equal(rmdir(d.dir), 0);
}

/* The user's own folder is made where it is missing. */
static void the_usual_folder_is_this_user_s(void **state)
{
	struct daemon d;
	struct stat st;
	char *text;

	sl_guard_own_folder(d.dir, sizeof d.dir);
	snprintf(d.path, sizeof d.path, "%s/test-%d.sock", d.dir, (int)getpid());
	start(&d);
	assert_int_equal(lstat(d.dir, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(sl_control_ask(d.path, "status", ASK_MS, &text, NULL), SL_OK);
	free(text);
	stop(&d);
	(void)!rmdir(d.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_question_is_answered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(questions_that_have_no_answer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(silent_slow_and_greedy_clients_are_dropped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_asked_in_time_is_answered_by_a_loop_that_stood_still, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(waiting_connections_are_bounded_and_expire, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_file_is_for_its_owner_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_living_socket_is_respected_and_a_dead_one_replaced, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(other_files_are_left_alone, set_up, tear_down),
		cmocka_unit_test(a_file_that_another_put_there_is_not_removed),
		cmocka_unit_test(asking_a_daemon_that_hangs_times_out),
		cmocka_unit_test(another_user_s_answer_is_not_believed),
		cmocka_unit_test(the_usual_folder_is_this_user_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
