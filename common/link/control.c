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
#include "common/link/loop_uv.h"

enum { CLIENTS = 8, CLIENT_MS = 1000, REQUEST_MAX = 64, ANSWER_MAX = 8 << 20, BACKLOG = 8, CHUNK = 65536 };

struct client {
	struct sl_control *control;
	uv_pipe_t pipe;
	uv_timer_t timer;
	uv_write_t write;
	int open;           /* handles that libuv holds; 0: the slot is free */
	bool closing, late; /* late: its time was over a turn of the loop ago */
	size_t len;
	char request[REQUEST_MAX + 1];
	char *answer;
};

struct sl_control {
	uv_pipe_t pipe;
	char *(*answer)(void *arg, const char *request);
	void *arg;
	struct sockaddr_un address;
	dev_t dev; /* of our socket file: another one in its place is not ours to remove */
	ino_t ino;
	bool closing, pipe_open;
	struct client client[CLIENTS];
};

/* ---- one client */

static void free_when_closed(struct sl_control *c)
{
	if (!c->closing || c->pipe_open)
		return;
	for (int i = 0; i < CLIENTS; i++)
		if (c->client[i].open)
			return;
	free(c);
}

static void client_handle_closed(uv_handle_t *handle)
{
	struct client *client = handle->data;

	if (--client->open)
		return;
	free(client->answer);
	client->answer = NULL;
	free_when_closed(client->control);
}

static void client_close(struct client *client)
{
	if (!client->open || client->closing)
		return;
	client->closing = true;
	uv_close((uv_handle_t *)&client->pipe, client_handle_closed);
	uv_close((uv_handle_t *)&client->timer, client_handle_closed);
}

/* Where the loop has stood still, what came in time is not yet read, for timers come first: one turn more. */
static void client_timed_out(uv_timer_t *timer)
{
	struct client *client = timer->data;

	if (client->late) {
		client_close(client);
		return;
	}
	client->late = true;
	uv_timer_start(timer, client_timed_out, 1, 0);
}

static void client_give_time(struct client *client)
{
	client->late = false;
	uv_timer_start(&client->timer, client_timed_out, CLIENT_MS, 0);
}

static void client_written(uv_write_t *write, int status)
{
	(void)status; /* gone or done: either way this is the end */
	client_close(write->data);
}

static void client_answer(struct client *client)
{
	struct sl_control *c = client->control;
	uv_buf_t buf;

	uv_read_stop((uv_stream_t *)&client->pipe);
	client_give_time(client); /* to take the answer */
	client->answer = c->answer(c->arg, client->request);
	if (!client->answer) {
		client_close(client);
		return;
	}
	buf = uv_buf_init(client->answer, (unsigned)strlen(client->answer));
	client->write.data = client;
	if (uv_write(&client->write, (uv_stream_t *)&client->pipe, &buf, 1, client_written))
		client_close(client);
}

static void client_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct client *client = handle->data;

	*buf = uv_buf_init(client->request + client->len, (unsigned)(REQUEST_MAX - client->len));
}

static void client_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct client *client = stream->data;
	char *newline;

	if (n < 0) { /* ENOBUFS, too: 64 bytes and no newline */
		client_close(client);
		return;
	}
	client->len += (size_t)n;
	client->request[client->len] = 0;
	newline = memchr(client->request, '\n', client->len);
	if (!newline)
		return;
	*newline = 0;
	client_answer(client);
}

/* ---- the listening socket */

static struct client *free_slot(struct sl_control *c)
{
	for (int i = 0; i < CLIENTS; i++)
		if (!c->client[i].open)
			return &c->client[i];
	return NULL;
}

static void refused_closed(uv_handle_t *handle)
{
	free(handle);
}

/* A connection that is not accepted would keep the listening socket readable: take it, drop it. */
static void refuse(struct sl_control *c)
{
	uv_pipe_t *pipe = malloc(sizeof *pipe);

	if (!pipe)
		return;
	uv_pipe_init(c->pipe.loop, pipe, 0);
	(void)!uv_accept((uv_stream_t *)&c->pipe, (uv_stream_t *)pipe);
	uv_close((uv_handle_t *)pipe, refused_closed);
}

static void connected(uv_stream_t *server, int status)
{
	struct sl_control *c = server->data;
	struct client *client = free_slot(c);

	if (status < 0)
		return;
	if (!client) {
		refuse(c);
		return;
	}
	*client = (struct client){.control = c, .open = 2};
	uv_pipe_init(server->loop, &client->pipe, 0);
	uv_timer_init(server->loop, &client->timer);
	client->pipe.data = client->timer.data = client;
	client_give_time(client);
	if (uv_accept(server, (uv_stream_t *)&client->pipe) ||
	    uv_read_start((uv_stream_t *)&client->pipe, client_buffer, client_read))
		client_close(client);
}

static void listener_closed(uv_handle_t *handle)
{
	struct sl_control *c = handle->data;

	c->pipe_open = false;
	free_when_closed(c);
}

static enum sl_err address_of(struct sockaddr_un *out, const char *path, struct sl_fail *fail)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!*path || strlen(path) >= sizeof out->sun_path)
		return sl_fail_set(fail, SL_ERR_CONFIG, "control socket \"%s\": a path of 1 to %zu bytes is needed",
				   path, sizeof out->sun_path - 1);
	strcpy(out->sun_path, path);
	return SL_OK;
}

/* A socket file that nobody answers at is what a killed daemon left: removed. */
static enum sl_err clear_path(const struct sockaddr_un *address, struct sl_fail *fail)
{
	const char *path = address->sun_path;
	struct stat st;
	int fd, rc;

	if (lstat(path, &st) < 0)
		return SL_OK; /* bind will say what is wrong */
	if (!S_ISSOCK(st.st_mode))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "control socket %s: there is a file that is not a socket",
				   path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "control socket: %s", strerror(errno));
	rc = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? errno : 0;
	close(fd);
	if (rc == 0 || rc == EAGAIN) /* EAGAIN: its backlog is full */
		return sl_fail_set(
			fail, SL_ERR_UNAVAILABLE,
			"control socket %s: another process answers there; give this one a `control` of its own", path);
	if (rc == ECONNREFUSED && unlink(path) == 0)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CANTCREATE, "control socket %s: cannot be replaced: %s", path,
			   strerror(rc == ECONNREFUSED ? errno : rc));
}

/* A bound socket whose file has mode 0600 from its first moment (Linux takes it from the socket's own mode). */
static enum sl_err bind_socket(int *out, struct sl_control *c, struct sl_fail *fail)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "control socket: %s", strerror(errno));
	if (fchmod(fd, S_IRUSR | S_IWUSR) < 0 || bind(fd, (struct sockaddr *)&c->address, sizeof c->address) < 0 ||
	    stat(c->address.sun_path, &st) < 0) {
		enum sl_err err = sl_fail_set(fail, SL_ERR_CANTCREATE, "control socket %s: %s", c->address.sun_path,
					      strerror(errno));

		close(fd);
		return err;
	}
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	*out = fd;
	return SL_OK;
}

enum sl_err sl_control_open(struct sl_control **out, struct sl_loop *loop, const char *path,
			    char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	struct sl_control *c = calloc(1, sizeof *c);
	enum sl_err err;
	int fd = -1, rc;

	if (!c)
		return sl_fail_set(fail, SL_ERR_NOMEM, "control socket: out of memory");
	c->answer = answer;
	c->arg = arg;
	err = address_of(&c->address, path, fail);
	if (!err)
		err = clear_path(&c->address, fail);
	if (!err)
		err = bind_socket(&fd, c, fail);
	if (err) {
		free(c);
		return err;
	}
	uv_pipe_init(sl_loop_uv(loop), &c->pipe, 0);
	c->pipe.data = c;
	c->pipe_open = true;
	rc = uv_pipe_open(&c->pipe, fd);
	if (rc)
		close(fd);
	else
		rc = uv_listen((uv_stream_t *)&c->pipe, BACKLOG, connected);
	if (rc) {
		err = sl_uv_fail(fail, rc, "control socket");
		sl_control_close(c);
		return err;
	}
	uv_unref((uv_handle_t *)&c->pipe); /* answering questions alone keeps nobody up */
	*out = c;
	return SL_OK;
}

void sl_control_close(struct sl_control *c)
{
	struct stat st;

	if (!c || c->closing)
		return;
	if (stat(c->address.sun_path, &st) == 0 && st.st_dev == c->dev && st.st_ino == c->ino)
		unlink(c->address.sun_path);
	c->closing = true;
	for (int i = 0; i < CLIENTS; i++)
		client_close(&c->client[i]);
	uv_close((uv_handle_t *)&c->pipe, listener_closed);
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
					   "nobody answers at %s: %s; name the CONFIG of a program that runs with "
					   "another one, or its "
					   "socket by --control PATH",
					   address->sun_path, strerror(errno));
		if (sl_now_ms() >= deadline_ms) /* a full backlog has no event to wait for */
			return sl_fail_set(fail, SL_ERR_TIMEOUT, "no answer at %s in time", address->sun_path);
		nanosleep(&pause, NULL);
	}
	return SL_OK;
}

static enum sl_err ask_send(int fd, const char *request, const char *path, struct sl_fail *fail)
{
	char line[REQUEST_MAX];
	size_t len = strlen(request);

	if (len + 1 > sizeof line)
		return sl_fail_set(fail, SL_ERR_LIMIT, "a request has at most %zu bytes", sizeof line - 1);
	memcpy(line, request, len);
	line[len++] = '\n';
	/* a fresh socket's buffer takes a line whole */
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
	enum sl_err err = address_of(&address, path, fail);
	int fd;

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "control socket: %s", strerror(errno));
	err = ask_connect(fd, &address, deadline_ms, fail);
	if (!err)
		err = ask_send(fd, request, path, fail);
	if (!err)
		err = ask_receive(fd, deadline_ms, path, answer, fail);
	close(fd);
	return err;
}
