/* Serves pages over HTTP/1, for a collector of metrics and a browser on this host. A GET of its path is answered with
 * text made at that moment, then the connection closes. A request may take 8 KiB (request.h), and 5 s with its answer.
 * Of 16 connections the oldest is closed for a new one (listener.h), so that silent ones block nobody for long. No
 * authentication. */
#ifndef SL_LINK_HTTP_H
#define SL_LINK_HTTP_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/link/request.h"

struct sl_loop;
struct sl_http;

struct sl_http_page {
	/* "/metrics"; its Content-Type, and behind a CRLF other fields of the answer's head, of at most 300 bytes.
	 * These and the names outlive the server */
	const char *path, *type;
	const char (
		*name)[SL_REQUEST_NAME]; /* n_name host names for which it is served, besides addresses and localhost */
	int n_name;
	char *(*text)(void *arg); /* malloc'ed, freed by the server; NULL: the answer is 503 */
	void *arg;
	const struct sl_http_page *next; /* another path, with its own `name`; outlives the server. NULL: none */
};

enum { SL_HTTP_ADDRESS = 64 };

/* `address`: HOST:PORT. The host is an IPv4 address, an IPv6 address in brackets, or localhost, which is 127.0.0.1.
 * Port 0: any free port. CONFIG: `address` is none of these; UNAVAILABLE: cannot listen there. */
enum sl_err sl_http_open(struct sl_http **out, struct sl_loop *loop, const char *address,
			 const struct sl_http_page *page, struct sl_fail *fail) SL_MUST_CHECK;
/* The address where it listens: "127.0.0.1:9570", "[::1]:9570". */
const char *sl_http_address(const struct sl_http *http);
bool sl_http_is_loopback(const struct sl_http *http);
void sl_http_close(struct sl_http *http); /* NULL is fine */

#endif
