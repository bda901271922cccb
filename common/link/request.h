/* The head of an HTTP/1 request (RFC 9112), read as far as a server needs it that has one page, takes no body, and
 * closes the connection behind its answer. Never trusts it. */
#ifndef SL_LINK_REQUEST_H
#define SL_LINK_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum { SL_REQUEST_MAX = 8192 }; /* bytes of a head */

/* How `head`, the first `len` bytes of a connection, is to be answered: 200, 400, 404 (another path than `path`; what
 * follows a '?' does not count), 405 (another method than GET), 431 (no end within SL_REQUEST_MAX); 0: not known before
 * more has come. Once it is known, bytes that follow do not change it. */
int sl_request_status(const char *head, size_t len, const char *path);
/* HEAD: an answer has no body. */
bool sl_request_is_head(const char *head, size_t len);

#endif
