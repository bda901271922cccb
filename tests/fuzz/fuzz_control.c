/* The control socket. Bit 0 of byte 0 of the input chooses the side. 0: the rest goes to a daemon's socket, in pieces
 * whose length is in byte 1. The daemon must hear exactly the first line or nothing, and answer it completely. 1: the
 * rest is a daemon's answer to `status`. If it parses, it must render as JSON that parses to the same. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/link/control.h"
#include "common/link/loop.h"
#include "common/telemetry/status.h"

enum { REQUEST_MAX = 64, GREETING = 7 };

static struct sockaddr_un at = {.sun_family = AF_UNIX};
static char heard[4096];
static int times;

static char *answer(void *arg, const char *request)
{
	(void)arg;
	times++;
	if (strlen(request) >= REQUEST_MAX)
		abort();
	strcpy(heard, request);
	return *request == '!' ? NULL : strdup("answer\n");
}

static void *run(void *loop)
{
	sl_loop_run(loop);
	return NULL;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void must(bool good)
{
	if (!good)
		abort();
}

static void remove_dir(void)
{
	unlink(at.sun_path);
	*strrchr(at.sun_path, '/') = 0;
	rmdir(at.sun_path);
}

static void start(void)
{
	static struct sl_control *control;
	static struct sl_async *stays_up;
	char dir[] = "/tmp/fuzz_control.XXXXXX";
	struct sl_loop *loop;
	struct sl_fail fail;
	pthread_t thread;

	must(mkdtemp(dir) != NULL);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", dir);
	must(sl_loop_open(&loop, &fail) == SL_OK && sl_async_open(&stays_up, loop, nothing, NULL, &fail) == SL_OK);
	must(sl_control_open(&control, loop, at.sun_path, answer, NULL, &fail) == SL_OK);
	must(pthread_create(&thread, NULL, run, loop) == 0);
	atexit(remove_dir);
}

/* libFuzzer's timer is a signal that interrupts system calls, so each is retried. */
static void ask(const uint8_t *data, size_t size, size_t piece)
{
	const uint8_t *newline = size ? memchr(data, '\n', size < REQUEST_MAX ? size : REQUEST_MAX) : NULL;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char got[2 * GREETING];
	size_t len = 0;
	ssize_t n;

	must(fd >= 0 && TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&at, sizeof at)) == 0);
	times = 0;
	/* a daemon may close before it has read everything */
	for (size_t from = 0; from < size; from += piece) {
		size_t some = size - from < piece ? size - from : piece;

		if (TEMP_FAILURE_RETRY(send(fd, data + from, some, MSG_NOSIGNAL)) < 0)
			break;
	}
	shutdown(fd, SHUT_WR);
	while (len < sizeof got && (n = TEMP_FAILURE_RETRY(recv(fd, got + len, sizeof got - len, 0))) > 0)
		len += (size_t)n;
	close(fd);
	must(times == (newline != NULL));
	if (!newline) {
		must(len == 0);
		return;
	}
	must(strlen(heard) == strnlen((const char *)data, (size_t)(newline - data)));
	must(memcmp(heard, data, strlen(heard)) == 0);
	/* with unread bytes the kernel resets the connection, and the answer may be lost */
	must(len == (*heard == '!' ? 0 : GREETING) || newline + 1 < data + size);
}

static void parse(const char *text)
{
	struct sl_status one = {0}, two = {0};
	struct sl_fail fail = {0};
	char *again, *and_again;

	if (sl_status_parse(text, &one, &fail) != SL_OK) {
		must(fail.text[0] && !strchr(fail.text, '\n'));
		return;
	}
	again = sl_status_json(&one, 0);
	must(again && sl_status_parse(again, &two, &fail) == SL_OK);
	and_again = sl_status_json(&two, 0);
	must(and_again && strcmp(again, and_again) == 0);
	free(again);
	free(and_again);
	sl_status_free(&one);
	sl_status_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 2)
		return 0;
	if (!*at.sun_path)
		start();
	if (!(data[0] & 1)) {
		ask(data + 2, size - 2, 1 + data[1]);
		return 0;
	}
	text = strndup((const char *)data + 1, size - 1);
	must(text != NULL);
	parse(text);
	free(text);
	return 0;
}
