#include "common/link/http.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/link/loop_uv.h"
#include "common/link/request.h"

enum { CLIENTS = 16, CLIENT_MS = 5000, BACKLOG = 64, HEAD_OF_ANSWER = 256, FORGET_MAX = 4 << 20 };

struct client {
	struct sl_http *http;
	struct client *next; /* the one that came after it */
	uv_tcp_t tcp;
	uv_timer_t timer;
	uv_write_t write;
	uv_shutdown_t shutdown;
	int open;                               /* handles that libuv holds */
	bool closing, answered, written, ended; /* ended: nothing more comes from the other side */
	size_t len, forgotten;
	char head[SL_REQUEST_MAX]; /* once it is answered: what else comes, to be forgotten */
	char *answer;
};

struct sl_http {
	uv_tcp_t tcp;
	struct sl_http_page page;
	struct client *first; /* the oldest */
	bool open, closing, loopback;
	char address[SL_HTTP_ADDRESS];
};

/* ---- clients, as a list */

static void free_when_closed(struct sl_http *h)
{
	if (h->closing && !h->open && !h->first)
		free(h);
}

static void client_handle_closed(uv_handle_t *handle)
{
	struct client *client = handle->data;
	struct sl_http *h = client->http;
	struct client **at = &h->first;

	if (--client->open)
		return;
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	free(client->answer);
	free(client);
	free_when_closed(h);
}

static void client_close(struct client *client)
{
	if (client->closing)
		return;
	client->closing = true;
	uv_close((uv_handle_t *)&client->tcp, client_handle_closed);
	uv_close((uv_handle_t *)&client->timer, client_handle_closed);
}

static void client_timed_out(uv_timer_t *timer)
{
	client_close(timer->data);
}

/* The oldest goes where there are too many: first of those that still owe their request. */
static void make_room(struct sl_http *h)
{
	struct client *oldest = NULL;
	int n = 0;

	for (struct client *c = h->first; c; c = c->next) {
		if (c->closing)
			continue;
		n++;
		if (!oldest || (oldest->answered && !c->answered))
			oldest = c;
	}
	if (n >= CLIENTS)
		client_close(oldest);
}

/* ---- the answer */

static const char *reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 431:
		return "Request Header Fields Too Large";
	case 503:
		return "Service Unavailable";
	default:
		return "Bad Request";
	}
}

/* Head and body as they are sent; NULL: no memory. */
static char *make_answer(int status, const char *type, const char *body, bool without_body)
{
	size_t len = strlen(body);
	char *answer = malloc(HEAD_OF_ANSWER + len + 1);
	int n;

	if (!answer)
		return NULL;
	n = snprintf(answer, HEAD_OF_ANSWER,
		     "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n", status,
		     reason(status), type, len, status == 405 ? "Allow: GET\r\n" : "");
	memcpy(answer + n, without_body ? "" : body, without_body ? 1 : len + 1);
	return answer;
}

static void client_shut(uv_shutdown_t *shutdown, int status)
{
}

/* A connection that is closed with bytes unread is reset, and the answer lost on its way: so this side says that it is
 * done, and reads on until the other one, or the time, is. */
static void client_written(uv_write_t *write, int status)
{
	struct client *client = write->data;

	client->written = true;
	if (status || client->ended || uv_shutdown(&client->shutdown, (uv_stream_t *)&client->tcp, client_shut))
		client_close(client);
}

static void client_answer(struct client *client, int status)
{
	const struct sl_http_page *page = &client->http->page;
	char *text = status == 200 ? page->text(page->arg) : NULL;
	char line[64];
	uv_buf_t buf;

	if (status == 200 && !text)
		status = 503;
	snprintf(line, sizeof line, "%s\n", reason(status));
	client->answered = true;
	client->answer = make_answer(status, text ? page->type : "text/plain; charset=utf-8", text ? text : line,
				     sl_request_is_head(client->head, client->len));
	free(text);
	if (!client->answer) {
		client_close(client);
		return;
	}
	buf = uv_buf_init(client->answer, (unsigned)strlen(client->answer));
	client->write.data = client;
	if (uv_write(&client->write, (uv_stream_t *)&client->tcp, &buf, 1, client_written))
		client_close(client);
}

/* ---- the request */

static void client_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct client *client = handle->data;
	size_t from = client->answered ? 0 : client->len;

	*buf = uv_buf_init(client->head + from, (unsigned)(SL_REQUEST_MAX - from));
}

static void client_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct client *client = stream->data;
	int status;

	client->ended = n < 0;
	if (n < 0 && (n != UV_EOF || client->written || !client->len)) {
		client_close(client);
		return;
	}
	if (client->answered) {
		client->forgotten += n > 0 ? (size_t)n : 0;
		if (client->forgotten > FORGET_MAX)
			uv_read_stop(stream); /* it may wait for its time to be over */
		return;
	}
	client->len += n > 0 ? (size_t)n : 0;
	status = sl_request_status(client->head, client->len, client->http->page.path);
	if (!status && n < 0)
		status = 400; /* its end came before the request's */
	if (status)
		client_answer(client, status);
}

/* ---- the listening socket */

static void connected(uv_stream_t *server, int status)
{
	struct sl_http *h = server->data;
	struct client *client, **last = &h->first;

	if (status < 0)
		return;
	client = malloc(sizeof *client);
	if (!client)
		return; /* libuv waits for it to be accepted: this was the last one */
	make_room(h);
	*client = (struct client){.http = h, .open = 2};
	while (*last)
		last = &(*last)->next;
	*last = client;
	uv_tcp_init(server->loop, &client->tcp);
	uv_timer_init(server->loop, &client->timer);
	client->tcp.data = client->timer.data = client;
	uv_timer_start(&client->timer, client_timed_out, CLIENT_MS, 0);
	if (uv_accept(server, (uv_stream_t *)&client->tcp) ||
	    uv_read_start((uv_stream_t *)&client->tcp, client_buffer, client_read))
		client_close(client);
}

static void listener_closed(uv_handle_t *handle)
{
	struct sl_http *h = handle->data;

	h->open = false;
	free_when_closed(h);
}

static enum sl_err read_address(struct sockaddr_storage *out, const char *address, struct sl_fail *fail)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;
	char host[SL_HTTP_ADDRESS], *end;
	long port = colon ? strtol(colon + 1, &end, 10) : -1;
	int rc = UV_EINVAL;

	if (port >= 0 && port <= 65535 && end != colon + 1 && !*end && len < sizeof host) {
		snprintf(host, sizeof host, "%.*s", (int)len, address);
		if (host[0] == '[' && len > 2 && host[len - 1] == ']') {
			host[len - 1] = 0;
			rc = uv_ip6_addr(host + 1, (int)port, (struct sockaddr_in6 *)out);
		} else {
			rc = uv_ip4_addr(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, (int)port,
					 (struct sockaddr_in *)out);
		}
	}
	if (rc)
		return sl_fail_set(fail, SL_ERR_CONFIG, "\"%.60s\" is no address like 127.0.0.1:9570", address);
	return SL_OK;
}

static void note_address(struct sl_http *h)
{
	struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
	const struct sockaddr_in *four = (const struct sockaddr_in *)&bound;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&bound;
	int len = sizeof bound;
	char host[INET6_ADDRSTRLEN] = "";

	uv_tcp_getsockname(&h->tcp, (struct sockaddr *)&bound, &len);
	if (bound.ss_family == AF_INET6) {
		uv_ip6_name(six, host, sizeof host);
		snprintf(h->address, sizeof h->address, "[%s]:%d", host, ntohs(six->sin6_port));
		h->loopback = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	} else {
		uv_ip4_name(four, host, sizeof host);
		snprintf(h->address, sizeof h->address, "%s:%d", host, ntohs(four->sin_port));
		h->loopback = ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	}
}

enum sl_err sl_http_open(struct sl_http **out, struct sl_loop *loop, const char *address,
			 const struct sl_http_page *page, struct sl_fail *fail)
{
	struct sockaddr_storage where = {.ss_family = AF_UNSPEC};
	enum sl_err err = read_address(&where, address, fail);
	struct sl_http *h;
	int rc;

	if (err)
		return err;
	h = calloc(1, sizeof *h);
	if (!h)
		return sl_fail_set(fail, SL_ERR_NOMEM, "HTTP: out of memory");
	h->page = *page;
	uv_tcp_init(sl_loop_uv(loop), &h->tcp); /* cannot fail: its socket comes with bind */
	h->tcp.data = h;
	h->open = true;
	rc = uv_tcp_bind(&h->tcp, (struct sockaddr *)&where, 0);
	if (!rc)
		rc = uv_listen((uv_stream_t *)&h->tcp, BACKLOG, connected);
	if (rc) {
		sl_http_close(h);
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "cannot listen on %s: %s", address, uv_strerror(rc));
	}
	uv_unref((uv_handle_t *)&h->tcp); /* answering questions alone keeps nobody up */
	note_address(h);
	*out = h;
	return SL_OK;
}

const char *sl_http_address(const struct sl_http *h)
{
	return h->address;
}

bool sl_http_is_loopback(const struct sl_http *h)
{
	return h->loopback;
}

void sl_http_close(struct sl_http *h)
{
	if (!h || h->closing)
		return;
	h->closing = true;
	for (struct client *c = h->first; c; c = c->next)
		client_close(c);
	uv_close((uv_handle_t *)&h->tcp, listener_closed);
}
