/* The memory that one side of a session takes, computed before any is taken: by a server from a Hello, by a client from
 * its config. */
#ifndef SL_SESSION_MEMORY_H
#define SL_SESSION_MEMORY_H

#include "common/base/memory.h"
#include "common/exec/exec.h"
#include "common/session/port.h"

/* Upper bounds. `weights`: with gradients, the optimizer's state and the host's copy for the link. `activations`: of
 * all chunks, with the kernels' scratch. `codecs`: places, residuals, factors, staging. `payloads`: the link's
 * buffers. */
struct sl_session_memory {
	struct sl_memory weights, activations, codecs, payloads;
	uint64_t gradients, moments; /* parts of `weights`; host and device together */
	uint64_t state;              /* the codecs' state, which a checkpoint copies: not in the sum */
};

/* Nothing is allocated. exec: a server's middle, or a client's [2] head and tail; a party has one, then NULL. borrows:
 * the parameters belong to another executor. Errors of sl_port_memory. */
enum sl_err sl_session_memory(struct sl_session_memory *out, const struct sl_exec *const *exec,
			      enum sl_session_role role, bool borrows, struct sl_backend *be,
			      struct sl_backend *host_be, const struct sl_codec_spec codec[SL_DIR_COUNT],
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Memory that this process could have if it were alone on its machine: RAM and swap, within its rlimits and cgroups. */
uint64_t sl_host_bytes(void);
/* The least memory.max of a cgroup (version 2) and of those above it. `list`: /proc/self/cgroup, which names it;
 * `mount`: where they are mounted. UINT64_MAX: no limit, or none that can be read. */
uint64_t sl_cgroup_bytes(const char *list, const char *mount);
struct sl_memory sl_session_memory_sum(const struct sl_session_memory *memory);

#endif
