#include "common/link/control.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/link/listener.h"
#include "common/link/unix.h"

enum { REQUEST_MAX = 64, ANSWER_MAX = 8 << 20, CHUNK = 65536 };

struct sl_control {
	struct sl_listener listener;
	char *(*answer)(void *arg, const char *request);
	void *arg;
	struct sl_unix socket;
};

static bool hear(void *arg, char *line, size_t len, bool ended, char **answer)
{
	const struct sl_control *c = arg;
	char *newline = memchr(line, '\n', len);

	if (newline) {
		*newline = 0;
		*answer = c->answer(c->arg, line);
	}
	return newline || ended;
}

enum sl_err sl_control_open(struct sl_control **out, struct sl_loop *loop, const char *path,
			    char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	static const struct sl_listener_kind kind = {
		.clients = 8, .most = REQUEST_MAX, .ask_ms = 1000, .answer_ms = 1000, .hear = hear};
	struct sl_control *c = calloc(1, sizeof *c);
	enum sl_err err;
	int fd = -1, rc;

	if (!c)
		return sl_fail_set(fail, SL_ERR_NOMEM, "control socket: out of memory");
	c->answer = answer;
	c->arg = arg;
	err = sl_unix_bind(&fd, &c->socket, "control socket", path, 0600, fail);
	if (err == SL_ERR_UNAVAILABLE)
		(void)sl_fail_set(fail, err, "%s; give this one a `control` of its own", fail->text);
	if (err) {
		free(c);
		return err;
	}
	c->listener.kind = &kind;
	c->listener.arg = c;
	uv_pipe_init(sl_loop_uv(loop), &c->listener.pipe, 0);
	rc = uv_pipe_open(&c->listener.pipe, fd);
	if (rc)
		close(fd);
	else
		rc = sl_listener_listen(&c->listener);
	if (rc) {
		err = sl_uv_fail(fail, rc, "control socket");
		sl_control_close(c);
		return err;
	}
	*out = c;
	return SL_OK;
}

void sl_control_close(struct sl_control *c)
{
	if (!c || c->listener.closing)
		return;
	sl_unix_remove(&c->socket);
	sl_listener_close(&c->listener);
}

/* ---- asking */

static enum sl_err wait_for(int fd, short events, uint64_t deadline_ms, const char *path, struct sl_fail *fail)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = sl_now_ms();
		int rc = now < deadline_ms ? poll(&p, 1, (int)(deadline_ms - now)) : 0;

		if (rc > 0)
			return SL_OK;
		if (rc == 0)
			return sl_fail_set(fail, SL_ERR_TIMEOUT, "no answer at %s in time", path);
		if (errno != EINTR)
			return sl_fail_set(fail, SL_ERR_OS, "poll: %s", strerror(errno));
	}
}

static enum sl_err ask_connect(int fd, const struct sockaddr_un *address, uint64_t deadline_ms, struct sl_fail *fail)
{
	while (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) {
		struct timespec pause = {.tv_nsec = 10000000};

		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
					   "nobody answers at %s: %s; is the program running? If it has another "
					   "socket, name its CONFIG, or the socket by --control PATH",
					   address->sun_path, strerror(errno));
		if (sl_now_ms() >= deadline_ms) /* EAGAIN: a full backlog, for which there is no event to wait for */
			return sl_fail_set(fail, SL_ERR_TIMEOUT, "no answer at %s in time", address->sun_path);
		nanosleep(&pause, NULL);
	}
	return SL_OK;
}

/* Only root or this user may answer; to root also a service, which is the only one that can make sockets in its folder.
 */
static enum sl_err check_peer(int fd, const char *path, struct sl_fail *fail)
{
	struct stat in;
	struct ucred peer;
	char folder[PATH_MAX];

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &(socklen_t){sizeof peer}) < 0)
		return sl_fail_set(fail, SL_ERR_OS, "%s: %s", path, strerror(errno));
	if (!sl_guard_is_foreign(peer.uid) || (geteuid() == 0 && sl_folder_of(path, folder) && stat(folder, &in) == 0 &&
					       in.st_uid == peer.uid && !(in.st_mode & (S_IWGRP | S_IWOTH))))
		return SL_OK;
	return sl_fail_set(
		fail, SL_ERR_AUTH,
		"a process of another user (uid %u) listens at %s, and is not believed: ask as that user, or "
		"name another socket by --control PATH",
		(unsigned)peer.uid, path);
}

static enum sl_err ask_send(int fd, const char *request, const char *path, struct sl_fail *fail)
{
	char line[REQUEST_MAX];
	size_t len = strlen(request);

	if (len + 1 > sizeof line)
		return sl_fail_set(fail, SL_ERR_LIMIT, "a request has at most %zu bytes", sizeof line - 1);
	memcpy(line, request, len);
	line[len++] = '\n';
	/* the empty buffer of a new socket accepts a whole line */
	if (send(fd, line, len, MSG_NOSIGNAL) != (ssize_t)len)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no answer from %s: the connection closed", path);
	return SL_OK;
}

static enum sl_err ask_receive(int fd, uint64_t deadline_ms, const char *path, char **answer, struct sl_fail *fail)
{
	size_t len = 0, cap = CHUNK;
	char *text = malloc(cap + 1);
	enum sl_err err;

	for (;;) {
		ssize_t n;

		if (!text)
			return sl_fail_set(fail, SL_ERR_NOMEM, "answer: out of memory");
		err = wait_for(fd, POLLIN, deadline_ms, path, fail);
		if (err)
			break;
		n = recv(fd, text + len, cap - len, 0);
		if (n == 0 && len) {
			text[len] = 0;
			for (char *line = text, *end; line; line = end) { /* it may go to a terminal */
				end = strchr(line, '\n');
				if (end)
					*end = 0;
				sl_text_make_safe(line, '?');
				if (end)
					*end++ = '\n';
			}
			*answer = text;
			return SL_OK;
		}
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
			err = sl_fail_set(fail, SL_ERR_UNAVAILABLE, "%s closed the connection without an answer", path);
			break;
		}
		len += n > 0 ? (size_t)n : 0;
		if (len == ANSWER_MAX) {
			err = sl_fail_set(fail, SL_ERR_LIMIT, "the answer of %s is longer than 8 MiB", path);
			break;
		}
		if (len == cap) {
			char *grown = realloc(text, 2 * cap + 1);

			if (!grown)
				free(text);
			text = grown;
			cap *= 2;
		}
	}
	free(text);
	return err;
}

enum sl_err sl_control_ask(const char *path, const char *request, int timeout_ms, char **answer, struct sl_fail *fail)
{
	uint64_t deadline_ms = sl_now_ms() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0);
	struct sockaddr_un address;
	enum sl_err err = sl_unix_address(&address, "control socket", path, false, fail);
	int fd;

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "control socket: %s", strerror(errno));
	err = ask_connect(fd, &address, deadline_ms, fail);
	if (!err)
		err = check_peer(fd, path, fail);
	if (!err)
		err = ask_send(fd, request, path, fail);
	if (!err)
		err = ask_receive(fd, deadline_ms, path, answer, fail);
	close(fd);
	return err;
}
