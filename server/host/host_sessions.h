/* What a status may see of a host. */
#ifndef SL_SERVER_HOST_HOST_SESSIONS_H
#define SL_SERVER_HOST_HOST_SESSIONS_H

#include "common/telemetry/rate.h"
#include "server/host/host.h"
#include "server/store/tidy.h"
#include "server/trunk/middle.h"

/* As in struct sl_status. */
struct sl_host_counts {
	uint64_t links, lost, frames, bytes, rejected, stale;
};

struct sl_host_view {
	struct sl_middle *const *session; /* [n_session]; NULL: a free place */
	const bool *second;               /* [n_session]: a new link of one that is still there */
	const struct sl_rate *rate;       /* [n_session]: bytes sent and received */
	const struct sl_key *key;         /* [n_session] of their clients; NULL: no auth */
	const struct sl_allow *allow;     /* with auth */
	int n_session, threads;           /* n_session: places, of which limits.sessions may be taken */
	int sessions_limit;               /* limits.sessions */
	bool shut;                        /* no session is taken any more */
	int closing;                      /* sessions that have left their place, and wait for the worker */
	uint64_t now_ms;
	double uptime_s;
	const char *device;
	uint64_t malformed, turned_away;
	struct sl_host_counts counts;
	uint64_t memory_bytes, memory_limit_bytes;
	double task_s;               /* how long the running task has run */
	struct sl_tidy_result store; /* as it was at the last housekeeping */
	int64_t store_limit_bytes, not_stored;
};

struct sl_host_view sl_host_view(const struct sl_host *host);

#endif
