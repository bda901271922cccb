/* Checks whether a session fits into the server's memory. */
#ifndef SL_SERVER_TRUNK_MEMORY_H
#define SL_SERVER_TRUNK_MEMORY_H

#include <stdatomic.h>

#include "common/session/memory.h"

/* Adds `bytes` to *used, for memory that belongs to no session. `limit`: as below. LIMIT, BUSY: as below; the text says
 * that `what` needs them. */
enum sl_err sl_memory_reserve(_Atomic uint64_t *used, uint64_t limit, uint64_t bytes, const char *what,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Checks whether a session of this size fits.
 * `limit`: bytes for all sessions on host and device together; 0: none. `used`: bytes that are taken. `back`: the part
 * of these that older links of the same session hold, and give back first. Also, the host's part must fit this machine,
 * and the device's part its free memory, which other programs use too.
 * LIMIT: the session would not fit even alone. BUSY: it may fit once others have ended. The text has the sum, its parts
 * and the free bytes. `device`: the device's name. */
enum sl_err sl_session_memory_check(const struct sl_session_memory *memory, struct sl_backend *be, const char *device,
				    uint64_t limit, uint64_t used, struct sl_memory back,
				    struct sl_fail *fail) SL_MUST_CHECK;

#endif
