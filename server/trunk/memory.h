/* Whether what a session takes can be had of the server's memory. */
#ifndef SL_SERVER_TRUNK_MEMORY_H
#define SL_SERVER_TRUNK_MEMORY_H

#include <stdatomic.h>

#include "common/session/memory.h"

/* Of what is no session's: takes `bytes` of the limit, 0: none. LIMIT, BUSY as below; `what` has them. */
enum sl_err sl_memory_reserve(_Atomic uint64_t *used, uint64_t limit, uint64_t bytes, const char *what,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Whether a session of this size fits, on the host and on the device together.
 * `limit`: bytes for all sessions; 0: none. `used`: what other sessions have taken. `back`: what the session's own last
 * link still holds, which is given back first. The host's part must also fit this machine, and the device's part what
 * is free there, where other programs count, too.
 * LIMIT: the session would not fit alone. BUSY: it may fit once others have ended. The text has the sum, its parts and
 * what is free. `device`: the device's name. */
enum sl_err sl_session_memory_check(const struct sl_session_memory *memory, struct sl_backend *be, const char *device,
				    uint64_t limit, uint64_t used, struct sl_memory back,
				    struct sl_fail *fail) SL_MUST_CHECK;

#endif
