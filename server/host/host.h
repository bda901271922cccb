/* The host: one listening socket, the sessions of its connections, and the device that they share. Loop thread. */
#ifndef SL_SERVER_HOST_HOST_H
#define SL_SERVER_HOST_HOST_H

#include "common/conf/conf.h"
#include "common/link/loop.h"
#include "server/group/ranks.h"
#include "server/host/auth.h"
#include "server/host/device.h"

struct sl_host;

/* Everything is borrowed. `auth` NULL, or without a gate: clients need no key. */
enum sl_err sl_host_open(struct sl_host **out, struct sl_loop *loop, const struct sl_conf_server *conf,
			 struct sl_server_auth *auth, struct sl_device *device, struct sl_fail *fail) SL_MUST_CHECK;
/* Call it before the loop runs if groups have members on other ranks, too. `ranks` is borrowed; NULL: there are none.
 */
enum sl_err sl_host_ranks(struct sl_host *host, const struct sl_ranks *ranks) SL_MUST_CHECK;
const char *sl_host_endpoint(const struct sl_host *host);
/* `fn` is called once: when a task has run for longer than watchdog_s, or when the device has failed for good. The
 * host's memory cannot be freed then. So the process should exit at once, with why's status, and be started again. Call
 * this before the loop runs. */
void sl_host_on_broken(struct sl_host *host, void (*fn)(void *arg, const struct sl_fail *why), void *arg);
/* Reads the list of clients again. Ends the sessions of clients whose key is no longer on it, or no longer allowed in
 * their group, and tells them. If the list cannot be read, this logs the error and changes nothing. */
void sl_host_reload(struct sl_host *host);
/* Ends every session with "the server shuts down", then frees the host and calls `closed` from the loop. */
void sl_host_close(struct sl_host *host, void (*closed)(void *arg), void *arg);
/* The same, but first waits for `most_ms` at most until every client has left by itself. A goodbye that is still on its
 * way is heard, and that session's files are removed. */
void sl_host_close_after(struct sl_host *host, uint64_t most_ms, void (*closed)(void *arg), void *arg);

/* The status as JSON; the caller frees it. NULL: no memory. */
char *sl_host_status(const struct sl_host *host);

#endif
