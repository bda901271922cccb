/* The control socket: a Unix stream socket (mode 0600) on which a status is asked for. A request is one line
 * ("status\n", at most 64 bytes), the answer one JSON document, then the connection closes. A client has a second to
 * ask, and one to take the answer; see listener.h. */
#ifndef SL_LINK_CONTROL_H
#define SL_LINK_CONTROL_H

#include "common/base/err.h"

struct sl_loop;
struct sl_control;

/* `answer` returns malloc'ed text that the control socket frees, or NULL for an unknown request. A stale socket file
 * is replaced; a live one (something answers) is UNAVAILABLE. */
enum sl_err sl_control_open(struct sl_control **out, struct sl_loop *loop, const char *path,
			    char *(*answer)(void *arg, const char *request), void *arg,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_control_close(struct sl_control *control); /* removes the socket file */

/* Blocking, for the status commands: sends `request`, returns the answer (malloc'ed, caller frees).
 * UNAVAILABLE: nobody listens at `path`; TIMEOUT. At most 8 MiB. */
enum sl_err sl_control_ask(const char *path, const char *request, int timeout_ms, char **answer,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
