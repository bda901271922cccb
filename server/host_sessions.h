/* What a status may see of a host. */
#ifndef SL_SERVER_HOST_SESSIONS_H
#define SL_SERVER_HOST_SESSIONS_H

#include "server/host.h"
#include "server/middle.h"

struct sl_host_view {
	struct sl_middle *const *session; /* [n_session]; NULL: a free place */
	const struct sl_key *key;         /* [n_session] of their clients; NULL: no auth */
	const struct sl_allow *allow;     /* with auth */
	int n_session, threads;
	uint64_t now_ms;
	double uptime_s;
	const char *device;
	uint64_t malformed, turned_away;
};

struct sl_host_view sl_host_view(const struct sl_host *host);

#endif
