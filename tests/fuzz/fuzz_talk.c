/* Lines that clients send, on a socket or on standard input: torn, huge, with NUL bytes, many at once. Byte 0 of the
 * input chooses the streams; the others say what clients and the user of sl_talks do. Each client must get an answer to
 * each of its lines, in order, with that line's number, length and hash, and none besides. Each line is read as JSON,
 * too, as lines that name pictures are. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/data/stream_set.h"
#include "common/base/grow.h"
#include "common/link/loop_uv.h"
#include "common/link/talk.h"

enum { CLIENTS = 8, BATCH = 64, SENT_MOST = 6 << 20, PIECE = 9000, ANSWER = 1100, QUIET = 200 };

struct line {
	size_t len;
	uint32_t hash;
};

struct client {
	int fd; /* -1: closed, or not connected */
	bool ended;
	struct line *want; /* [lines] that it has sent */
	size_t lines, cap, got;
	struct line now; /* the line that is not complete */
	char answer[ANSWER];
	size_t len;
};

static struct sl_loop *loop;
static struct sl_talks *talks;
static struct sl_set set; /* reads a line as JSON */
static struct sockaddr_un at = {.sun_family = AF_UNIX};
static struct client client[CLIENTS];
static struct held {
	struct sl_talk *from;
	char text[ANSWER];
} held[BATCH]; /* lines that were taken, the oldest first */
static size_t n_held;
static size_t sent;

static void must(bool good)
{
	if (!good)
		abort();
}

static void nothing(void *arg)
{
}

static void turn(void)
{
	(void)uv_run(sl_loop_uv(loop), UV_RUN_NOWAIT);
}

static uint32_t hash_of(uint32_t hash, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ data[i]) * 16777619u;
	return hash;
}

/* ---- a line as JSON */

static enum sl_err no_sample(const struct sl_set *one, int64_t index, struct sl_room *room,
			     struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	return SL_OK;
}

static void no_close(struct sl_set *one)
{
}

static const struct sl_source source = {.name = "picture", .sample = no_sample, .close = no_close};

static enum sl_err open_picture(const void *arg, const char *name, const struct sl_set_rows *rows,
				const struct sl_tokenizer *tokenizer, struct sl_set *out, struct sl_fail *fail)
{
	must(!rows && (!name || (name[0] && strlen(name) < 4096)));
	*out = (struct sl_set){.source = &source, .count = 1};
	return SL_OK;
}

static void read_json(const struct sl_bytes *line, uint64_t number)
{
	struct sl_value value[SL_FIELD_COUNT] = {{0}};
	struct sl_fail fail = {0};
	enum sl_err err;

	sl_stream_set_put(&set, 0, &(struct sl_stream_line){*line, number, true, {NULL, 0}});
	err = set.source->sample(&set, 0, NULL, value, &fail);
	must(err == fail.code && (err == SL_OK || (fail.text[0] && !strchr(fail.text, '\n'))));
	must(line->data || (err == SL_ERR_DATA && strstr(fail.text, ": the line is too long")));
}

/* ---- the user of sl_talks */

static void take(int n)
{
	struct sl_bytes line;
	uint64_t number;

	while (n-- > 0 && n_held < BATCH && sl_talks_next(talks, &held[n_held].from, &line, &number)) {
		const uint32_t hash = line.data ? hash_of(0, line.data, line.len) : 0;

		must(!line.data || line.len <= SL_TALK_LINE_MOST);
		snprintf(held[n_held++].text, ANSWER, "%" PRIu64 " %zu %u %*s\n", number, line.data ? line.len : 0,
			 hash, (int)(hash % 1000), "");
		read_json(&line, number);
	}
}

static void answer(size_t n)
{
	n = n < n_held ? n : n_held;
	for (size_t i = 0; i < n; i++)
		sl_talk_answer(held[i].from, held[i].text, strlen(held[i].text));
	n_held -= n;
	memmove(held, held + n, n_held * sizeof *held);
}

/* ---- clients */

static void end_line(struct client *c)
{
	must(sl_grow(&c->want, &c->cap, c->lines + 1, sizeof *c->want));
	c->want[c->lines++] = c->now.len <= SL_TALK_LINE_MOST ? c->now : (struct line){0, 0};
	c->now = (struct line){0, 0};
}

/* Notes what the client has sent. */
static void note(struct client *c, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n') {
			end_line(c);
			continue;
		}
		c->now.len++;
		c->now.hash = hash_of(c->now.hash, data + i, 1);
	}
	sent += n;
}

static bool say(struct client *c, const uint8_t *data, size_t n)
{
	const ssize_t went =
		c->fd < 0 || c->ended || sent + n > SENT_MOST ? -1 : send(c->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (went > 0)
		note(c, data, (size_t)went);
	return went == (ssize_t)n;
}

static void say_nothing_more(struct client *c)
{
	if (c->fd < 0 || c->ended)
		return;
	c->ended = true;
	if (c->now.len)
		end_line(c);
	must(shutdown(c->fd, SHUT_WR) == 0);
}

static void check_answer(struct client *c)
{
	uint64_t number;
	struct line is;

	must(sscanf(c->answer, "%" SCNu64 " %zu %u ", &number, &is.len, &is.hash) == 3 && c->got < c->lines);
	must(number == c->got && is.len == c->want[c->got].len && is.hash == c->want[c->got].hash);
	c->got++;
	c->len = 0;
}

static void check_answers(struct client *c, const char *text, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++) {
		must(c->len + 1 < ANSWER);
		c->answer[c->len++] = text[i];
		c->answer[c->len] = 0;
		if (text[i] == '\n')
			check_answer(c);
	}
}

/* Reads n + 1 bytes of answers at most. True: there were some. */
static bool hear(struct client *c, size_t n)
{
	char text[4096];
	const ssize_t got = c->fd < 0 ? -1 : recv(c->fd, text, n < sizeof text ? n + 1 : sizeof text, MSG_DONTWAIT);

	check_answers(c, text, got);
	if (got == 0) {
		must(c->ended && c->got == c->lines && c->len == 0);
		close(c->fd);
		c->fd = -1;
	}
	return got > 0;
}

static void leave(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static void begin(struct client *c, int fd)
{
	c->fd = fd;
	c->ended = false;
	c->lines = c->got = c->len = 0;
	c->now = (struct line){0, 0};
}

static void come(struct client *c)
{
	if (c->fd >= 0)
		return;
	begin(c, socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (connect(c->fd, (struct sockaddr *)&at, sizeof at) < 0) { /* too many wait to be accepted */
		must(errno == EAGAIN);
		leave(c);
	}
}

/* ---- an input */

/* `more`: on a socket, where clients come again. */
static void play(const uint8_t *data, size_t size, bool more)
{
	static const uint8_t long_line[PIECE] = {'['};

	while (size >= 2) {
		struct client *c = &client[more ? data[0] % CLIENTS : 0];
		const size_t n = data[1] < size - 2 ? data[1] : size - 2;
		size_t took = 2;

		switch (data[0] / CLIENTS % 8) {
		case 0:
			if (more)
				come(c);
			break;
		case 1:
			(void)say(c, data + 2, n);
			took += n;
			break;
		case 2:
			for (int i = 0; i < data[1] && say(c, long_line, PIECE); i++)
				turn();
			break;
		case 3:
			say_nothing_more(c);
			break;
		case 4:
			leave(c);
			break;
		case 5:
			take(data[1]);
			break;
		case 6:
			answer(data[1]);
			break;
		default:
			(void)hear(c, data[1] * (size_t)16);
		}
		if (data[0] & 64)
			turn();
		data += took;
		size -= took;
	}
}

/* All lines that were sent are answered, and the answers read. */
static void finish(bool more)
{
	int quiet = 0;

	for (bool open = true; open; quiet++) {
		open = !more && client[0].fd >= 0 && !sl_talks_over(talks);
		for (int i = 0; i < CLIENTS; i++) {
			say_nothing_more(&client[i]);
			while (hear(&client[i], SIZE_MAX))
				quiet = 0;
			open |= more && client[i].fd >= 0;
		}
		quiet = n_held ? 0 : quiet;
		answer(BATCH);
		turn();
		take(BATCH);
		must(quiet < QUIET);
	}
	while (!more && hear(&client[0], SIZE_MAX)) {
	}
	must(more || client[0].fd < 0 || (client[0].got == client[0].lines && !client[0].len));
}

static void close_all(void)
{
	sl_talks_close(talks);
	n_held = 0;
	for (int i = 0; i < 4; i++)
		turn();
	for (int i = 0; i < CLIENTS; i++)
		leave(&client[i]);
}

static void standard(int fd)
{
	must(fd >= 0 && dup2(fd, STDIN_FILENO) == STDIN_FILENO && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
	close(fd);
}

/* Standard input is a file that begins with `huge` × PIECE bytes; standard output is another. */
static void files(const uint8_t *data, size_t size, size_t huge)
{
	static const uint8_t long_line[PIECE] = {'{'};
	struct client *c = &client[0];
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC), read_end;
	char text[4096];
	ssize_t n;

	begin(c, -1);
	for (size_t i = 0; i < huge; i++) {
		must(write(in, long_line, PIECE) == PIECE);
		note(c, long_line, PIECE);
	}
	must(write(in, data, size) == (ssize_t)size && lseek(in, 0, SEEK_SET) == 0);
	note(c, data, size);
	if (c->now.len)
		end_line(c);
	read_end = dup(out);
	must(dup2(in, STDIN_FILENO) == STDIN_FILENO && dup2(out, STDOUT_FILENO) == STDOUT_FILENO && read_end >= 0);
	close(in);
	close(out);
	must(sl_talks_open(&talks, loop, NULL, nothing, NULL, &(struct sl_fail){0}) == SL_OK);
	do {
		take(BATCH);
		must(n_held || sl_talks_over(talks));
		answer(BATCH);
	} while (!sl_talks_over(talks));
	close_all();
	for (off_t from = 0; (n = pread(read_end, text, sizeof text, from)) > 0; from += n)
		check_answers(c, text, n);
	must(c->got == c->lines && !c->len);
	close(read_end);
}

static void start(void)
{
	const struct sl_stream_set_spec spec = {.most = 1, .pictures = true, .open = open_picture};
	struct sl_fail fail;

	signal(SIGPIPE, SIG_IGN); /* as the programs do */
	must(sl_loop_open(&loop, &fail) == SL_OK && sl_stream_set_open(&set, &spec, &fail) == SL_OK);
	snprintf(at.sun_path, sizeof at.sun_path, "/tmp/fuzz_talk.%ld", (long)getpid());
	for (int i = 0; i < CLIENTS; i++)
		client[i].fd = -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pair[2];
	bool more;

	if (size < 2)
		return 0;
	if (!loop)
		start();
	sent = 0;
	if (data[0] % 4 == 3) {
		files(data + 2, size - 2, data[1]);
	} else {
		more = data[0] % 4 != 2;
		if (!more) {
			must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
			standard(pair[1]);
			begin(&client[0], pair[0]);
		}
		must(sl_talks_open(&talks, loop, more ? at.sun_path : NULL, nothing, NULL, &(struct sl_fail){0}) ==
		     SL_OK);
		play(data + 1, size - 1, more);
		if (data[0] & 4) /* else closed with lines that nobody has answered */
			finish(more);
		close_all();
	}
	standard(open("/dev/null", O_RDWR));
	return 0;
}
