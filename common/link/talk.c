#include "common/link/talk.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/grow.h"
#include "common/link/loop_uv.h"
#include "common/link/unix.h"

enum { CHUNK = 4096, BACKLOG = 128 };

union handle {
	uv_handle_t handle;
	uv_stream_t stream;
	uv_pipe_t pipe;
};

struct sl_talk {
	struct sl_talks *all;
	struct sl_talk *next;
	union handle in, out;   /* out: standard output; a socket is `in` alone */
	bool file_in, file_out; /* standard streams that are files, which need no waiting and no handle */
	char *text;             /* bytes [at, len) of [cap] wait to be taken */
	size_t at, len, cap;
	size_t searched;  /* of the bytes before it, those from `at` on have no newline */
	uint64_t served;  /* when it came, or a line of it was taken last, as a number of t->served */
	uint64_t lines;   /* taken so far */
	unsigned pending; /* of these, without an answer: they hold this memory */
	unsigned skipped; /* lines that were too long, before those that wait */
	bool skips;       /* the rest of one is being dropped */
	int open;         /* handles that libuv still holds: so do they */
	bool ended;       /* the client will send nothing more */
	bool closing;     /* nor will it read anything */
};

struct sl_talks {
	union handle listener;
	struct sl_unix file;
	bool socket, closed;
	bool waits;                   /* a client waits to be accepted */
	struct sl_talk *first, *turn; /* turn: who is served next; NULL: the first */
	uint64_t served;              /* clients that came and lines that were taken */
	int clients, users;           /* users: clients, the listener and the owner, who hold this memory */
	const char *failed;           /* why lines or answers of the standard streams are lost; NULL: none are */
	int flags[2];                 /* of the standard streams, which libuv makes non-blocking */
	void (*fn)(void *arg);
	void *arg;
};

struct answer {
	uv_write_t write; /* first, so that a pointer to it is one to the answer */
	char text[];
};

static void on_connect(uv_stream_t *server, int status);

static void check(const struct sl_talk *k)
{
	sl_assert(k->at <= k->len && k->len <= k->cap);
	sl_assert_int(k->searched, <=, k->len);
	sl_assert_int(k->pending, <=, k->lines);
	sl_assert_int(k->open, >=, 0);
	sl_assert_if(k->closing, k->ended);
	sl_assert_int(k->all->clients, >, 0);
	sl_assert_int(k->all->users, >=, k->all->clients); /* each client holds the others' memory */
}

/* ---- closing */

static void let_go(struct sl_talks *t)
{
	if (--t->users == 0)
		free(t);
}

static void free_if_unused(struct sl_talk *k)
{
	struct sl_talks *t = k->all;
	struct sl_talk **at = &t->first;

	if (!k->closing || k->open || (k->pending && !t->closed))
		return;
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	t->turn = t->turn == k ? k->next : t->turn;
	check(k);
	t->clients--;
	free(k->text);
	free(k);
	if (t->waits)
		on_connect(&t->listener.stream, 0);
	let_go(t);
}

static void handle_closed(uv_handle_t *handle)
{
	struct sl_talk *k = handle->data;

	k->open--;
	free_if_unused(k);
}

static void talk_close(struct sl_talk *k)
{
	if (k->closing)
		return;
	k->closing = k->ended = true;
	if (k->in.handle.data)
		uv_close(&k->in.handle, handle_closed);
	if (k->out.handle.data)
		uv_close(&k->out.handle, handle_closed);
}

static void note_lost(struct sl_talk *k, const char *why)
{
	if (!k->all->socket && !k->all->failed)
		k->all->failed = why;
}

static void note_unwritten(struct sl_talk *k)
{
	note_lost(k, "standard output takes no more answers: is its reader gone, or the disk full?");
	talk_close(k);
}

/* ---- what a client has sent */

/* Where the first line ends; NULL: none is complete. Each byte is searched once, however often clients with half a
 * line are asked. */
static const char *line_end(struct sl_talk *k)
{
	const size_t from = k->searched > k->at ? k->searched : k->at;
	const char *end = k->len > from ? memchr(k->text + from, '\n', k->len - from) : NULL;

	k->searched = end ? (size_t)(end - k->text) : k->len;
	return end || !k->ended || k->at == k->len ? end : k->text + k->len;
}

static bool has_line(struct sl_talk *k)
{
	return k->skipped || line_end(k);
}

/* Takes `n` bytes that were read behind the others. Drops a line that is too long, with which they all begin. */
static void take(struct sl_talk *k, ssize_t n)
{
	const char *end;

	k->ended |= n < 0;
	k->len += n > 0 ? (size_t)n : 0;
	end = line_end(k);
	if (!k->skips && (end || k->len - k->at <= SL_TALK_LINE_MOST))
		return;
	k->skips = !end && !k->ended;
	k->skipped += !k->skips;
	k->at = end && end < k->text + k->len ? (size_t)(end - k->text) + 1 : k->len;
	check(k);
}

/* Where to read: behind the bytes that wait. Without memory there is no room, and reading ends. */
static uv_buf_t room_of(struct sl_talk *k)
{
	if (k->at)
		memmove(k->text, k->text + k->at, k->len - k->at);
	k->len -= k->at;
	k->searched -= k->searched > k->at ? k->at : k->searched;
	k->at = 0;
	if (!k->len && k->cap > SL_TALK_UNREAD_MOST) {
		free(k->text);
		k->text = NULL;
		k->cap = 0;
	}
	if (sl_grow(&k->text, &k->cap, k->len + CHUNK, 1))
		return uv_buf_init(k->text + k->len, (unsigned)(k->cap - k->len));
	note_lost(k, "no memory for the lines of standard input");
	return uv_buf_init(NULL, 0);
}

static void make_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	*buf = room_of(handle->data);
}

static void read_file(struct sl_talk *k)
{
	const uv_buf_t buf = room_of(k);
	const ssize_t n = read(STDIN_FILENO, buf.base, buf.len);

	if (n < 0)
		note_lost(k, "standard input cannot be read to its end");
	take(k, n ? n : -1);
}

static uv_stream_t *out_of(const struct sl_talk *k)
{
	return (uv_stream_t *)(k->all->socket ? &k->in.stream : &k->out.stream);
}

static size_t unread(const struct sl_talk *k)
{
	return k->file_out ? 0 : uv_stream_get_write_queue_size(out_of(k));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

/* Reads on, or waits until lines are taken. A client of a socket that is done is closed. */
static void settle(struct sl_talk *k)
{
	if (k->closing || k->file_in)
		return;
	if (k->ended && k->all->socket && !has_line(k) && !k->pending && !unread(k))
		talk_close(k);
	else if (!k->ended && (!has_line(k) || k->len - k->at < CHUNK))
		(void)!uv_read_start(&k->in.stream, make_room, on_read);
	else
		(void)!uv_read_stop(&k->in.stream);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct sl_talk *k = stream->data;

	take(k, n);
	if (n < 0 && n != UV_EOF)
		note_lost(k, "standard input cannot be read to its end");
	if (n < 0 && n != UV_EOF && k->all->socket)
		talk_close(k);
	settle(k);
	k->all->fn(k->all->arg);
}

/* ---- clients */

static bool open_stream(struct sl_talk *k, union handle *h, uv_loop_t *loop, int fd)
{
	if (uv_pipe_init(loop, &h->pipe, 0))
		return false;
	h->handle.data = k;
	k->open++;
	return fd < 0 || !uv_pipe_open(&h->pipe, fd);
}

static struct sl_talk *talk_new(struct sl_talks *t)
{
	struct sl_talk *k = calloc(1, sizeof *k);

	if (!k)
		return NULL;
	k->all = t;
	k->served = ++t->served;
	k->next = t->first;
	t->first = k;
	t->clients++;
	t->users++;
	return k;
}

/* All places are taken: closes the client that has had no complete line for longest, if there is one, and that has read
 * its answers. Bytes of half a line do not count, so sending them slowly holds no place. */
static void close_idle(struct sl_talks *t)
{
	struct sl_talk *idle = NULL;

	for (struct sl_talk *k = t->first; k; k = k->next) {
		if (k->closing)
			return; /* its place is free soon */
		if (!k->pending && !unread(k) && !has_line(k) && (!idle || k->served < idle->served))
			idle = k;
	}
	if (idle)
		talk_close(idle);
}

static void on_connect(uv_stream_t *server, int status)
{
	struct sl_talks *t = server->data;
	struct sl_talk *k = status || t->closed || t->clients >= SL_TALK_CLIENTS ? NULL : talk_new(t);

	t->waits = !status && !k;
	if (t->waits && !t->closed)
		close_idle(t);
	if (!k)
		return;
	if (!open_stream(k, &k->in, server->loop, -1) || uv_accept(server, &k->in.stream))
		talk_close(k);
	settle(k);
	free_if_unused(k);
}

static enum sl_err open_standard(struct sl_talks *t, uv_loop_t *loop, struct sl_fail *fail)
{
	struct sl_talk *k = talk_new(t);
	struct stat in;
	bool fits = k;

	if (fstat(STDIN_FILENO, &in) || S_ISDIR(in.st_mode))
		return sl_fail_set(fail, SL_ERR_NOINPUT, "standard input is closed, or a folder: lines are read there");

	if (k) {
		for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
			t->flags[fd] = fcntl(fd, F_GETFL);
		k->file_in = uv_guess_handle(STDIN_FILENO) == UV_FILE;
		k->file_out = uv_guess_handle(STDOUT_FILENO) == UV_FILE;
		fits = (k->file_in || open_stream(k, &k->in, loop, STDIN_FILENO)) &&
		       (k->file_out || open_stream(k, &k->out, loop, STDOUT_FILENO));
		settle(k);
	}
	return fits ? SL_OK : sl_fail_set(fail, SL_ERR_OS, "standard input and output cannot be watched");
}

static enum sl_err listen_at(struct sl_talks *t, uv_loop_t *loop, const char *path, struct sl_fail *fail)
{
	int fd, rc;
	enum sl_err err = sl_unix_bind(&fd, &t->file, "--listen", path, 0660, fail);

	if (err)
		return err;
	rc = uv_pipe_init(loop, &t->listener.pipe, 0);
	t->listener.handle.data = t;
	t->users++;
	rc = rc ? rc : uv_pipe_open(&t->listener.pipe, fd);
	rc = rc ? rc : uv_listen(&t->listener.stream, BACKLOG, on_connect);
	return rc ? sl_uv_fail(fail, rc, "--listen") : SL_OK;
}

/* ---- the user's calls */

enum sl_err sl_talks_open(struct sl_talks **out, struct sl_loop *loop, const char *path, void (*fn)(void *arg),
			  void *arg, struct sl_fail *fail)
{
	struct sl_talks *t = calloc(1, sizeof *t);
	enum sl_err err;

	if (!t)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for clients");
	*t = (struct sl_talks){.socket = path != NULL, .users = 1, .fn = fn, .arg = arg};
	err = path ? listen_at(t, sl_loop_uv(loop), path, fail) : open_standard(t, sl_loop_uv(loop), fail);
	if (err)
		sl_talks_close(t);
	else
		*out = t;
	return err;
}

bool sl_talks_next(struct sl_talks *t, struct sl_talk **from, struct sl_bytes *line, uint64_t *number)
{
	for (int n = t->clients; n > 0; n--) {
		struct sl_talk *k = t->turn ? t->turn : t->first;
		const char *end;

		t->turn = k->next;
		while (k->file_in && !k->ended && !has_line(k))
			read_file(k);
		if (k->closing || unread(k) >= SL_TALK_UNREAD_MOST || !has_line(k))
			continue;
		end = k->skipped ? NULL : line_end(k);
		*line = (struct sl_bytes){(const uint8_t *)k->text + k->at,
					  end ? (size_t)(end - (k->text + k->at)) : 0};
		k->at += end ? line->len + (end < k->text + k->len) : 0;
		k->skipped -= !end;
		if (!end || line->len > SL_TALK_LINE_MOST)
			line->data = NULL;
		*number = k->lines++;
		k->served = ++t->served;
		*from = k;
		k->pending++;
		check(k);
		settle(k);
		return true;
	}
	return false;
}

static void on_written(uv_write_t *write, int status)
{
	struct sl_talk *k = write->handle->data;

	free(write);
	if (status < 0 && status != UV_ECANCELED)
		note_unwritten(k);
	else if (status < 0)
		talk_close(k);
	settle(k);
	if (status != UV_ECANCELED)
		k->all->fn(k->all->arg);
}

static void send_text(struct sl_talk *k, const char *text, size_t len)
{
	struct answer *a = k->file_out ? NULL : malloc(sizeof *a + len);
	uv_buf_t buf;

	for (ssize_t n = 0; k->file_out && len && n >= 0; text += n, len -= (size_t)n)
		n = write(STDOUT_FILENO, text, len);
	if (k->file_out && len)
		note_unwritten(k);
	if (!a)
		return;
	memcpy(a->text, text, len);
	buf = uv_buf_init(a->text, (unsigned)len);
	if (uv_write(&a->write, out_of(k), &buf, 1, on_written)) {
		free(a);
		note_unwritten(k);
	}
}

void sl_talk_answer(struct sl_talk *k, const char *text, size_t len)
{
	sl_assert_int(k->pending, >, 0); /* a line is answered once */
	k->pending--;
	if (len && !k->closing)
		send_text(k, text, len);
	settle(k);
	free_if_unused(k);
}

bool sl_talks_over(const struct sl_talks *t)
{
	struct sl_talk *k = t->first;

	return !t->socket && (!k || k->closing || (k->ended && !has_line(k) && !k->pending && !unread(k)));
}

enum sl_err sl_talks_check(const struct sl_talks *t, struct sl_fail *fail)
{
	return t->failed ? sl_fail_set(fail, SL_ERR_IO, "%s", t->failed) : SL_OK;
}

static void listener_closed(uv_handle_t *handle)
{
	let_go(handle->data);
}

void sl_talks_close(struct sl_talks *t)
{
	if (!t)
		return;
	t->closed = true;
	for (struct sl_talk *k = t->first, *next; k; k = next) {
		next = k->next;
		for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO && !t->socket; fd++) /* others share them */
			(void)!fcntl(fd, F_SETFL, t->flags[fd]);
		talk_close(k);
		free_if_unused(k);
	}
	if (t->listener.handle.data) {
		sl_unix_remove(&t->file);
		uv_close(&t->listener.handle, listener_closed);
	}
	let_go(t);
}
