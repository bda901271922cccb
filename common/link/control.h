/* The control socket: a Unix stream socket (mode 0600) that answers requests for a status. A request is one line
 * ("status\n", at most 64 bytes), the answer one JSON document, then the connection closes. The asking process has a
 * second to send its request, and one to read the answer; see listener.h. The asking process believes only a process
 * of its own user or of root. Root also believes the owner of the folder that holds the socket: a service. */
#ifndef SL_LINK_CONTROL_H
#define SL_LINK_CONTROL_H

#include "common/base/err.h"

struct sl_loop;
struct sl_control;

/* `answer` returns malloc'ed text that the control socket frees, or NULL for an unknown request. A stale socket file
 * is replaced. UNAVAILABLE: another process answers there. Also CONFIG, CANTCREATE. */
enum sl_err sl_control_open(struct sl_control **out, struct sl_loop *loop, const char *path,
			    char *(*answer)(void *arg, const char *request), void *arg,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_control_close(struct sl_control *control); /* removes the socket file */

/* Blocking, for the status commands: sends `request`, and returns the answer, which the caller frees, without
 * control characters but newlines. UNAVAILABLE: nobody listens at `path`, or the connection closed; TIMEOUT; LIMIT: the
 * answer is longer than 8 MiB; AUTH: another user's process listens there, or could. */
enum sl_err sl_control_ask(const char *path, const char *request, int timeout_ms, char **answer,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
