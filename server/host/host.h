/* The host: one socket, the sessions behind it, and the device they share. Loop thread. */
#ifndef SL_SERVER_HOST_HOST_H
#define SL_SERVER_HOST_HOST_H

#include "common/conf/conf.h"
#include "common/link/loop.h"
#include "server/host/auth.h"
#include "server/host/device.h"
#include "server/trunk/ranks.h"

struct sl_host;

/* Everything is borrowed. `auth` NULL, or without a gate: nobody is asked for a key. */
enum sl_err sl_host_open(struct sl_host **out, struct sl_loop *loop, const struct sl_conf_server *conf,
			 struct sl_server_auth *auth, struct sl_device *device, struct sl_fail *fail) SL_MUST_CHECK;
/* Before the loop runs: groups have members on other servers, too. Borrowed; NULL: they do not. */
enum sl_err sl_host_ranks(struct sl_host *host, const struct sl_ranks *ranks) SL_MUST_CHECK;
const char *sl_host_endpoint(const struct sl_host *host);
/* `fn` is called once, when a task has run for longer than watchdog_s or the device has failed for good. What the host
 * holds cannot be freed then: the process should end as it is, with why's status, and be started again. Set before the
 * loop runs. */
void sl_host_on_broken(struct sl_host *host, void (*fn)(void *arg, const struct sl_fail *why), void *arg);
/* Reads the list of clients again; whose key is no longer on it is told so, and its session ends now. A list that
 * cannot be read is logged, and changes nothing. */
void sl_host_reload(struct sl_host *host);
/* Refuses every session ("the server shuts down"), then calls `closed` from the loop. */
void sl_host_close(struct sl_host *host, void (*closed)(void *arg), void *arg);

/* The status as JSON, malloc'ed. */
char *sl_host_status(const struct sl_host *host);

#endif
