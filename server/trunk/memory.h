/* Checks whether a session fits into the server's memory. */
#ifndef SL_SERVER_TRUNK_MEMORY_H
#define SL_SERVER_TRUNK_MEMORY_H

#include "common/base/budget.h"
#include "common/session/memory.h"

/* `charge` takes `more` bytes, and all of them of `budget`, for memory that outlives sessions. LIMIT, BUSY: as below;
 * the text says that `what` needs them. */
enum sl_err sl_memory_reserve(struct sl_charge *charge, struct sl_budget *budget, uint64_t more, const char *what,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Checks whether a session of this size fits.
 * `budget`: bytes on host and device together, of the client's key, if there are keys, and of all sessions. `back`:
 * what older links of the same session hold of it, and give back first. Also, the host's part must fit this machine,
 * and the device's part its free memory, which other programs use too. LIMIT: the session would not fit even alone.
 * BUSY: it may fit once others have ended. The text has the sum, its parts and the free bytes. `device`: the device's
 * name. */
enum sl_err sl_session_memory_check(const struct sl_session_memory *memory, struct sl_backend *be, const char *device,
				    const struct sl_budget *budget, struct sl_memory back,
				    struct sl_fail *fail) SL_MUST_CHECK;

#endif
