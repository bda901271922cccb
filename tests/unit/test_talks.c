/* Clients of a socket: lines in pieces, and clients with half a line that hold all places. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/link/loop_uv.h"
#include "common/link/talk.h"
#include "tests/support/unit.h"

static struct sl_loop *loop;
static struct sl_talks *talks;
static struct sockaddr_un at = {.sun_family = AF_UNIX};

static void nothing(void *arg)
{
}

static void begin(void **unused)
{
	struct rlimit fds = {4096, 4096};
	struct sl_fail fail;

	(void)!setrlimit(RLIMIT_NOFILE, &fds);
	snprintf(at.sun_path, sizeof at.sun_path, "/tmp/test_talks.%d", (int)getpid());
	assert_int_equal(sl_loop_open(&loop, &fail), SL_OK);
	assert_int_equal(sl_talks_open(&talks, loop, at.sun_path, nothing, NULL, &fail), SL_OK);
}

static void finish(void)
{
	sl_talks_close(talks);
	sl_loop_close(loop);
}

static void turn(void)
{
	uv_run(sl_loop_uv(loop), UV_RUN_NOWAIT);
}

static int come(const char *text)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	while (connect(fd, (const struct sockaddr *)&at, sizeof at) < 0)
		turn(); /* the backlog is full */
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

/* Answers lines until this client has read an answer, or finds its connection closed. Returns the bytes it has read. */
static ssize_t served(int fd, char *answer, size_t room)
{
	for (;;) {
		struct sl_talk *from;
		struct sl_bytes line;
		uint64_t number;
		ssize_t n;

		turn();
		while (sl_talks_next(talks, &from, &line, &number)) {
			char text[64];

			sl_talk_answer(from, text,
				       (size_t)snprintf(text, sizeof text, "%zu %.*s\n", line.len,
							line.len < 20 ? (int)line.len : 20, (const char *)line.data));
		}
		n = recv(fd, answer, room - 1, 0);
		if (n >= 0) {
			answer[n] = 0;
			return n;
		}
	}
}

static void half_a_line_holds_no_place(void **state)
{
	static int fd[SL_TALK_CLIENTS];
	char answer[64];
	int honest, busy;

	begin(state);
	for (int i = 0; i < SL_TALK_CLIENTS; i++)
		fd[i] = come(i == 1 ? "mine" : "half");
	busy = fd[1];
	assert_int_equal(send(busy, "\n", 1, MSG_NOSIGNAL), 1);
	assert_true(served(busy, answer, sizeof answer) > 0);
	assert_string_equal(answer, "4 mine\n");
	honest = come("hello\n");
	assert_true(served(honest, answer, sizeof answer) > 0);
	assert_string_equal(answer, "5 hello\n");
	assert_int_equal(served(fd[0], answer, sizeof answer), 0); /* the oldest gave up its place */
	assert_int_equal(send(busy, "again\n", 6, MSG_NOSIGNAL), 6);
	assert_true(served(busy, answer, sizeof answer) > 0);
	assert_string_equal(answer, "5 again\n");
	for (int i = 0; i < SL_TALK_CLIENTS; i++)
		close(fd[i]);
	close(honest);
	finish();
}

/* Lines of all lengths, in pieces of all lengths, beside each other. */
static void lines_in_pieces_are_whole(void **state)
{
	enum { LINES = 60 };
	char text[LINES * LINES], want[64], answer[64];
	const int fd = (begin(state), come(""));

	for (int piece = 1; piece < 40; piece += 3) {
		size_t len = 0, sent = 0;

		for (int i = 0; i < LINES; i++) {
			memset(text + len, 'a' + i % 26, (size_t)i);
			text[len + (size_t)i] = '\n';
			len += (size_t)i + 1;
		}
		for (int i = 0; i < LINES; i++) {
			char *from = answer;

			snprintf(want, sizeof want, "%d ", i);
			for (; sent < len; sent += (size_t)piece) {
				const size_t n = len - sent < (size_t)piece ? len - sent : (size_t)piece;

				assert_int_equal(send(fd, text + sent, n, MSG_NOSIGNAL), n);
				turn();
			}
			do { /* one answer, byte by byte */
				assert_int_equal(served(fd, from, 2), 1);
			} while (*from++ != '\n');
			assert_memory_equal(answer, want, strlen(want));
		}
	}
	close(fd);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_a_line_holds_no_place),
		cmocka_unit_test(lines_in_pieces_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
