/* What a session takes of the server's memory, said before any of it is taken. */
#ifndef SL_SERVER_TRUNK_MEMORY_H
#define SL_SERVER_TRUNK_MEMORY_H

#include <stdatomic.h>

#include "common/base/memory.h"
#include "common/exec/exec.h"
#include "common/session/port.h"

/* At most. `weights` with gradients, the optimizer's state and the host's copy for the link; `activations` of all
 * chunks, with the kernels' scratch; `codecs`: places, residuals, factors, staging; `payloads`: the link's buffers. */
struct sl_session_memory {
	struct sl_memory weights, activations, codecs, payloads;
};

/* Nothing is allocated. borrows: the parameters are not the session's own. Errors of sl_port_memory. */
enum sl_err sl_session_memory(struct sl_session_memory *out, const struct sl_exec *exec, bool borrows,
			      struct sl_backend *be, struct sl_backend *host_be,
			      const struct sl_codec_spec codec[SL_DIR_COUNT], struct sl_fail *fail) SL_MUST_CHECK;
/* Of what is no session's: takes `bytes` of the limit, 0: none. LIMIT, BUSY as below; `what` has them. */
enum sl_err sl_memory_reserve(_Atomic uint64_t *used, uint64_t limit, uint64_t bytes, const char *what,
			      struct sl_fail *fail) SL_MUST_CHECK;
struct sl_memory sl_session_memory_sum(const struct sl_session_memory *memory);
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
