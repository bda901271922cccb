#include "common/link/listener.h"

#include <stdlib.h>
#include <string.h>

enum { BACKLOG = 64, FORGET_MAX = 512 /* bytes discarded after the request, as a multiple of the longest request */ };

/* A connection. */
struct sl_asker {
	struct sl_listener *listener;
	struct sl_asker *next; /* the next newer one */
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	};
	uv_timer_t timer;
	uv_write_t write;
	uv_shutdown_t shutdown;
	int open; /* handles that libuv still holds */
	bool closing, answered, written;
	bool ended; /* the peer will send nothing more */
	bool late;  /* its time was over in an earlier turn of the loop */
	size_t len, forgotten;
	char *answer;
	char text[]; /* [most]: the request; after the answer, bytes that are discarded */
};

/* ---- connections, as a list */

static void free_when_closed(struct sl_listener *l)
{
	if (l->closed && !l->first)
		free(l->arg);
}

static void asker_handle_closed(uv_handle_t *handle)
{
	struct sl_asker *a = handle->data;
	struct sl_listener *l = a->listener;
	struct sl_asker **at = &l->first;

	if (--a->open)
		return;
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	free(a->answer);
	free(a);
	free_when_closed(l);
}

static void asker_close(struct sl_asker *a)
{
	if (a->closing)
		return;
	a->closing = true;
	uv_close(&a->handle, asker_handle_closed);
	uv_close((uv_handle_t *)&a->timer, asker_handle_closed);
}

/* If the loop was blocked, bytes that came in time may not have been read yet, because libuv runs timers first. So the
 * connection gets one more turn. */
static void asker_timed_out(uv_timer_t *timer)
{
	struct sl_asker *a = timer->data;

	if (a->late) {
		asker_close(a);
		return;
	}
	a->late = true;
	uv_timer_start(timer, asker_timed_out, 1, 0);
}

static void asker_give_time(struct sl_asker *a, uint64_t ms)
{
	a->late = false;
	uv_timer_start(&a->timer, asker_timed_out, ms, 0);
}

static void make_room(struct sl_listener *l)
{
	struct sl_asker *oldest = NULL;
	int n = 0;

	for (struct sl_asker *a = l->first; a; a = a->next) {
		if (a->closing)
			continue;
		n++;
		if (!oldest || (oldest->answered && !a->answered))
			oldest = a;
	}
	if (n >= l->kind->clients)
		asker_close(oldest);
}

/* ---- question and answer */

static void asker_shut(uv_shutdown_t *shutdown, int status)
{
}

/* Closing a connection with unread bytes would reset it, and the answer could be lost. So this side shuts down sending,
 * and reads on until the peer closes or the time is over. */
static void asker_written(uv_write_t *write, int status)
{
	struct sl_asker *a = write->data;

	a->written = true;
	if (status || a->ended || uv_shutdown(&a->shutdown, &a->stream, asker_shut))
		asker_close(a);
}

static void asker_answer(struct sl_asker *a)
{
	uv_buf_t buf;

	a->answered = true;
	if (a->listener->kind->answer_ms)
		asker_give_time(a, a->listener->kind->answer_ms);
	if (!a->answer) {
		asker_close(a);
		return;
	}
	buf = uv_buf_init(a->answer, (unsigned)strlen(a->answer));
	a->write.data = a;
	if (uv_write(&a->write, &a->stream, &buf, 1, asker_written))
		asker_close(a);
}

static void asker_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct sl_asker *a = handle->data;
	size_t from = a->answered ? 0 : a->len;

	*buf = uv_buf_init(a->text + from, (unsigned)(a->listener->kind->most - from));
}

/* A request that is too long ends with ENOBUFS, since its buffer is full. */
static void asker_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct sl_asker *a = stream->data;
	const struct sl_listener_kind *kind = a->listener->kind;

	a->ended = n < 0;
	if (n < 0 && (n != UV_EOF || a->written || !a->len)) {
		asker_close(a);
		return;
	}
	if (a->answered) {
		a->forgotten += n > 0 ? (size_t)n : 0;
		if (a->forgotten > FORGET_MAX * kind->most)
			uv_read_stop(stream); /* the timer will close it */
		return;
	}
	a->len += n > 0 ? (size_t)n : 0;
	if (kind->hear(a->listener->arg, a->text, a->len, a->ended, &a->answer))
		asker_answer(a);
}

/* ---- the listening socket */

static void connected(uv_stream_t *server, int status)
{
	struct sl_listener *l = server->data;
	struct sl_asker *a, **last = &l->first;

	if (status < 0)
		return;
	a = calloc(1, sizeof *a + l->kind->most);
	if (!a)
		return; /* without uv_accept libuv announces no more connections */
	make_room(l);
	a->listener = l;
	a->open = 2;
	while (*last)
		last = &(*last)->next;
	*last = a;
	if (server->type == UV_TCP)
		uv_tcp_init(server->loop, &a->tcp);
	else
		uv_pipe_init(server->loop, &a->pipe, 0);
	uv_timer_init(server->loop, &a->timer);
	a->handle.data = a->timer.data = a;
	asker_give_time(a, l->kind->ask_ms);
	if (uv_accept(server, &a->stream) || uv_read_start(&a->stream, asker_buffer, asker_read))
		asker_close(a);
}

static void listener_closed(uv_handle_t *handle)
{
	struct sl_listener *l = handle->data;

	l->closed = true;
	free_when_closed(l);
}

int sl_listener_listen(struct sl_listener *l)
{
	int rc = uv_listen(&l->stream, BACKLOG, connected);

	l->handle.data = l;
	uv_unref(&l->handle); /* a listener alone must not keep the loop running */
	return rc;
}

void sl_listener_close(struct sl_listener *l)
{
	if (l->closing)
		return;
	l->closing = true;
	l->handle.data = l; /* sl_listener_listen may not have been called */
	for (struct sl_asker *a = l->first; a; a = a->next)
		asker_close(a);
	uv_close(&l->handle, listener_closed);
}
