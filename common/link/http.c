#include "common/link/http.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/link/listener.h"

enum { HEAD_OF_ANSWER = 512 };

struct sl_http {
	struct sl_listener listener;
	struct sl_http_page page;
	bool loopback;
	char address[SL_HTTP_ADDRESS];
};

static const char *reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 421:
		return "Misdirected Request";
	case 431:
		return "Request Header Fields Too Large";
	case 503:
		return "Service Unavailable";
	default:
		return "Bad Request";
	}
}

/* The whole answer, head and body; NULL: no memory. */
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

static bool hear(void *arg, char *head, size_t len, bool ended, char **answer)
{
	const struct sl_http_page *page = &((const struct sl_http *)arg)->page;
	int status;
	char *text, line[80];

	while ((status = sl_request_status(head, len, page->path)) == 404 && page->next)
		page = page->next;
	if (!status && ended)
		status = 400; /* the connection ended before the request did */
	if (!status)
		return false;
	if (status == 200 && !sl_request_is_for(head, len, page->name, page->n_name))
		status = 421;
	text = status == 200 ? page->text(page->arg) : NULL;
	if (status == 200 && !text)
		status = 503;
	snprintf(line, sizeof line, "%s%s\n", reason(status), status == 421 ? ": metrics_hosts has no such name" : "");
	*answer = make_answer(status, text ? page->type : "text/plain; charset=utf-8", text ? text : line,
			      sl_request_is_head(head, len));
	free(text);
	return true;
}

/* ---- the address */

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

	uv_tcp_getsockname(&h->listener.tcp, (struct sockaddr *)&bound, &len);
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
	static const struct sl_listener_kind kind = {
		.clients = 16, .most = SL_REQUEST_MAX, .ask_ms = 5000, .hear = hear};
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
	h->listener.kind = &kind;
	h->listener.arg = h;
	uv_tcp_init(sl_loop_uv(loop), &h->listener.tcp); /* cannot fail: bind makes the socket */
	rc = uv_tcp_bind(&h->listener.tcp, (struct sockaddr *)&where, 0);
	if (!rc)
		rc = sl_listener_listen(&h->listener);
	if (rc) {
		sl_http_close(h);
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "cannot listen on %s: %s", address, uv_strerror(rc));
	}
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
	if (h)
		sl_listener_close(&h->listener);
}
