/* One page over HTTP/1, for whoever collects metrics: GET of its path is answered with text made at that moment, and
 * the connection closes. A request has at most 8 KiB (request.h) and 5 s, its answer included; of 16 connections the
 * oldest goes for one more (listener.h), so that silent ones keep nobody out for long. Nobody is authenticated. */
#ifndef SL_LINK_HTTP_H
#define SL_LINK_HTTP_H

#include <stdbool.h>

#include "common/base/err.h"

struct sl_loop;
struct sl_http;

struct sl_http_page {
	const char *path, *type;  /* "/metrics", its Content-Type; both outlive the server */
	char *(*text)(void *arg); /* malloc'ed, freed by the server; NULL: the answer is 503 */
	void *arg;
};

enum { SL_HTTP_ADDRESS = 64 };

/* `address`: HOST:PORT, the host an IPv4 address, an IPv6 one in brackets, or localhost, which is 127.0.0.1; port 0:
 * any free one. CONFIG: none of these; UNAVAILABLE: cannot listen there. */
enum sl_err sl_http_open(struct sl_http **out, struct sl_loop *loop, const char *address,
			 const struct sl_http_page *page, struct sl_fail *fail) SL_MUST_CHECK;
/* Where it listens: "127.0.0.1:9570", "[::1]:9570". */
const char *sl_http_address(const struct sl_http *http);
bool sl_http_is_loopback(const struct sl_http *http);
void sl_http_close(struct sl_http *http); /* NULL is fine */

#endif
