#include "common/link/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/link/loop_uv.h"

enum { HOST = 256, PORT = 8 };

enum stage { LOOKING_UP, CONNECTING, LISTENING, OVER };

struct sl_probe {
	uv_timer_t timer;
	uv_getaddrinfo_t lookup;
	uv_tcp_t tcp;
	uv_connect_t connect;
	int open; /* how many of timer, lookup and tcp libuv still holds */
	enum stage stage;
	size_t len;
	uint8_t heard[SL_GREETING_BYTES];
	char host[HOST], port[PORT];
	void (*done)(void *arg, enum sl_greeting greeting, const char *text);
	void *arg;
};

/* Splits tcp://host:port or tcp://[host]:port. */
static bool split(const char *endpoint, char host[HOST], char port[PORT])
{
	const char *at = strncmp(endpoint, "tcp://", 6) == 0 ? endpoint + 6 : "", *colon = strrchr(at, ':');
	size_t len = colon ? (size_t)(colon - at) : 0;

	if (len >= 2 && at[0] == '[' && at[len - 1] == ']') {
		at++;
		len -= 2;
	}
	if (!len || len >= HOST || strlen(colon + 1) >= PORT)
		return false;
	snprintf(host, HOST, "%.*s", (int)len, at);
	snprintf(port, PORT, "%s", colon + 1);
	return true;
}

bool sl_probe_has_name(const char *endpoint)
{
	char host[HOST], port[PORT];
	struct in_addr in;

	return split(endpoint, host, port) && !strchr(host, ':') && inet_pton(AF_INET, host, &in) != 1;
}

static void let_go(struct sl_probe *p)
{
	if (--p->open == 0)
		free(p);
}

static void handle_closed(uv_handle_t *handle)
{
	let_go(handle->data);
}

static void stop(struct sl_probe *p)
{
	if (p->stage == LOOKING_UP)
		(void)uv_cancel((uv_req_t *)&p->lookup); /* works only while queued; found() is called in any case */
	uv_close((uv_handle_t *)&p->tcp, handle_closed);
	uv_close((uv_handle_t *)&p->timer, handle_closed);
	p->stage = OVER;
}

static void tell(struct sl_probe *p, enum sl_greeting greeting, const char *text)
{
	void (*done)(void *, enum sl_greeting, const char *) = p->done;
	void *arg = p->arg;

	stop(p);
	done(arg, greeting, text);
}

static void tell_about_host(struct sl_probe *p, const char *what)
{
	char text[SL_PROBE_TEXT];

	snprintf(text, sizeof text, "%.60s: %.60s", p->host, what);
	tell(p, SL_GREETING_PART, text);
}

static void timed_out(uv_timer_t *timer)
{
	struct sl_probe *p = timer->data;

	if (p->stage == LOOKING_UP)
		tell_about_host(p, "its address could not be looked up in time");
	else if (p->stage == CONNECTING)
		tell(p, SL_GREETING_PART, strerror(ETIMEDOUT));
	else
		tell(p, SL_GREETING_PART,
		     p->len ? sl_greeting_text(SL_GREETING_PART)
			    : "the port is open, but the program that listens there sends nothing");
}

static void take_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct sl_probe *p = handle->data;

	*buf = uv_buf_init((char *)p->heard + p->len, (unsigned)(sizeof p->heard - p->len));
}

static void was_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct sl_probe *p = stream->data;
	enum sl_greeting greeting;

	if (n < 0) {
		tell(p, SL_GREETING_PART,
		     p->len ? sl_greeting_text(SL_GREETING_PART)
			    : "the program that listens there closes the connection at once");
		return;
	}
	p->len += (size_t)n;
	greeting = sl_greeting_read((struct sl_bytes){p->heard, p->len});
	if (greeting != SL_GREETING_PART)
		tell(p, greeting, sl_greeting_text(greeting));
}

static void connected(uv_connect_t *connect, int status)
{
	struct sl_probe *p = connect->handle->data;
	uv_os_fd_t fd;

	if (p->stage == OVER)
		return;
	if (!status)
		status = uv_fileno((uv_handle_t *)&p->tcp, &fd);
	if (!status)
		status = uv_read_start((uv_stream_t *)&p->tcp, take_buffer, was_read);
	if (status) {
		tell(p, SL_GREETING_PART, strerror(-status));
		return;
	}
	p->stage = LISTENING;
	/* a new connection accepts these few bytes; if it is closed again, reading reports that */
	(void)send(fd, sl_greeting_opening.data, sl_greeting_opening.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Connects. An IPv4-mapped IPv6 address is used as IPv4, which works on a host without IPv6, too. */
static int connect_to(struct sl_probe *p, const struct sockaddr *to)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)to;
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six->sin6_port};

	if (to->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], sizeof four.sin_addr);
		to = (const struct sockaddr *)&four;
	}
	return uv_tcp_connect(&p->connect, &p->tcp, to, connected);
}

static void found(uv_getaddrinfo_t *lookup, int status, struct addrinfo *address)
{
	struct sl_probe *p = lookup->data;

	if (p->stage != OVER && status) {
		p->stage = CONNECTING;
		tell_about_host(p, uv_strerror(status));
	} else if (p->stage != OVER) {
		p->stage = CONNECTING;
		status = connect_to(p, address->ai_addr); /* the first address, as ZeroMQ does */
		if (status)
			tell(p, SL_GREETING_PART, strerror(-status));
	}
	uv_freeaddrinfo(address);
	let_go(p);
}

enum sl_err sl_probe_open(struct sl_probe **out, struct sl_loop *loop, const char *endpoint, bool ipv4, int timeout_ms,
			  void (*done)(void *arg, enum sl_greeting greeting, const char *text), void *arg,
			  struct sl_fail *fail)
{
	/* the same hints as ZeroMQ's */
	const struct addrinfo hints = {
		.ai_family = ipv4 ? AF_INET : AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = ipv4 ? 0 : AI_V4MAPPED};
	struct sl_probe *p = calloc(1, sizeof *p);
	uv_loop_t *uv = sl_loop_uv(loop);
	int rc;

	if (!p)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a connection");
	if (!split(endpoint, p->host, p->port)) {
		free(p);
		return sl_fail_set(fail, SL_ERR_CONFIG, "no address");
	}
	p->done = done;
	p->arg = arg;
	uv_timer_init(uv, &p->timer);
	uv_tcp_init(uv, &p->tcp);
	p->timer.data = p->tcp.data = p->lookup.data = p;
	p->open = 3;
	rc = uv_getaddrinfo(uv, &p->lookup, found, p->host, p->port, &hints);
	if (rc) {
		p->open--;
		p->stage = CONNECTING;
		stop(p);
		return sl_uv_fail(fail, rc, "lookup of an address");
	}
	uv_update_time(uv);
	uv_timer_start(&p->timer, timed_out, (uint64_t)timeout_ms, 0);
	*out = p;
	return SL_OK;
}

void sl_probe_close(struct sl_probe *p)
{
	if (p)
		stop(p);
}

/* ---- the blocking call */

struct answer {
	struct sl_loop *loop;
	enum sl_greeting greeting;
	char *text;
	bool came;
};

static void answered(void *arg, enum sl_greeting greeting, const char *text)
{
	struct answer *a = arg;

	a->came = true;
	a->greeting = greeting;
	snprintf(a->text, SL_PROBE_TEXT, "%s", text);
	sl_loop_stop(a->loop);
}

static void interrupted(void *arg, int signum)
{
	struct answer *a = arg;

	snprintf(a->text, SL_PROBE_TEXT, "interrupted by signal %d", signum);
	sl_loop_stop(a->loop);
}

enum sl_greeting sl_probe_wait(const char *endpoint, int timeout_ms, char out[SL_PROBE_TEXT])
{
	struct answer a = {.greeting = SL_GREETING_PART, .text = out};
	struct sl_probe *probe = NULL;
	struct sl_fail fail;
	enum sl_err err = sl_loop_open(&a.loop, &fail);

	if (!err)
		err = sl_loop_on_signals(a.loop, interrupted, &a, &fail);
	if (!err)
		err = sl_probe_open(&probe, a.loop, endpoint, false, timeout_ms, answered, &a, &fail);
	if (err)
		snprintf(out, SL_PROBE_TEXT, "%.*s", SL_PROBE_TEXT - 1, fail.text);
	else
		sl_loop_run(a.loop);
	if (!err && !a.came)
		sl_probe_close(probe);
	sl_loop_close(a.loop);
	return a.greeting;
}
