/* Why nobody answers at an endpoint, and whether keys are asked for there: what a TCP connection of its own hears. A
 * connection of ZeroMQ's is told the same only by chance: who is turned away for another mechanism sends on, and a
 * connection that is closed with bytes unread is reset, with the greeting that was on its way. */
#ifndef SL_LINK_PROBE_H
#define SL_LINK_PROBE_H

#include "common/link/greeting.h"

enum { SL_PROBE_TEXT = 128 };

struct sl_loop;
struct sl_probe;

/* `endpoint`: tcp://host:port. Looks the host up as ZeroMQ does, connects, and reads the greeting; trusts no byte of
 * it. Never blocks. `done` comes once, from the loop, `timeout_ms` later at most, and the probe is gone with it: with
 * PART where no greeting was heard, and in any case with a text such as "Connection refused". Loop thread. */
enum sl_err sl_probe_open(struct sl_probe **out, struct sl_loop *loop, const char *endpoint, int timeout_ms,
			  void (*done)(void *arg, enum sl_greeting greeting, const char *text), void *arg,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Before `done`, which then does not come; NULL is fine. A lookup under way cannot be broken off: closing the loop
 * waits for it. */
void sl_probe_close(struct sl_probe *probe);

/* The same for who has no loop (any more): blocks, until SIGINT or SIGTERM at most, which are then ignored as they are
 * behind any loop's end; PART, and `out` says so. */
enum sl_greeting sl_probe_wait(const char *endpoint, int timeout_ms, char out[SL_PROBE_TEXT]);

#endif
