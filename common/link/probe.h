/* Finds out why nobody answers at an endpoint, or whether it requires keys, by a TCP connection of its own. A
 * connection of ZeroMQ's learns that only by chance. If the peer closes it because mechanisms differ, while this end
 * still sends, TCP resets the connection, and the peer's greeting may be lost on its way. */
#ifndef SL_LINK_PROBE_H
#define SL_LINK_PROBE_H

#include "common/link/greeting.h"

enum { SL_PROBE_TEXT = 128 };

struct sl_loop;
struct sl_probe;

/* `endpoint`: tcp://host:port. Looks the host up as ZeroMQ does, with or without ZMQ_IPV6, connects, and reads the
 * greeting; trusts no byte of it. Never blocks. Calls `done` once, from the loop, at most `timeout_ms` later, and frees
 * the probe. greeting: PART if none was received; text: a phrase such as "Connection refused", in any case. Loop
 * thread. */
enum sl_err sl_probe_open(struct sl_probe **out, struct sl_loop *loop, const char *endpoint, bool ipv4, int timeout_ms,
			  void (*done)(void *arg, enum sl_greeting greeting, const char *text), void *arg,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Ends a probe before `done`, which is then not called; NULL is fine. A lookup that has begun cannot be cancelled:
 * closing the loop waits for it. */
void sl_probe_close(struct sl_probe *probe);

/* Whether a tcp:// endpoint has a host's name, and not an address. */
bool sl_probe_has_name(const char *endpoint);

/* The same for callers without a loop: blocks until the answer, or SIGINT or SIGTERM: then returns PART, and `out` says
 * so. Afterwards these signals are ignored, as after any loop (sl_loop_on_signals). */
enum sl_greeting sl_probe_wait(const char *endpoint, int timeout_ms, char out[SL_PROBE_TEXT]);

#endif
