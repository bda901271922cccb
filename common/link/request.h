/* Reads the head of an HTTP/1 request (RFC 9112), as far as a server needs that has one page, accepts no body, and
 * closes the connection after its answer. The head is untrusted. */
#ifndef SL_LINK_REQUEST_H
#define SL_LINK_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum { SL_REQUEST_MAX = 8192, SL_REQUEST_NAME = 256 }; /* bytes of a head; of a name, with its NUL */

/* The HTTP status for `head`, the first `len` bytes of a connection: 200, 400, 404 (another path than `path`; a query
 * is ignored), 405 (another method than GET), 431 (no end within SL_REQUEST_MAX); 0: more bytes are needed. Once it is
 * not 0, more bytes do not change it. */
int sl_request_status(const char *head, size_t len, const char *path);
/* Whether a complete head asks this host: its Host field is an address, localhost or one of `n` names, with any port or
 * none; or it has none, as in HTTP/1.0. A browser sends the name of a page that was pointed to this address later. */
bool sl_request_is_for(const char *head, size_t len, const char (*name)[SL_REQUEST_NAME], int n);
/* Whether the method is HEAD: the answer then has no body. */
bool sl_request_is_head(const char *head, size_t len);

#endif
