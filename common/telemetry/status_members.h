/* The members of a status: JSON and metrics both come from these tables. */
#ifndef SL_TELEMETRY_STATUS_MEMBERS_H
#define SL_TELEMETRY_STATUS_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

struct sl_status_member {
	const char *name;
	enum { TEXT, WHOLE, REAL } type; /* char[SL_STATUS_TEXT], int64_t, double */
	size_t offset;
	bool of_server;                   /* a client has none: no metric of it, and 0 in JSON */
	bool younger;                     /* added after this schema's first daemons: may be missing */
	const char *metric, *kind, *help; /* for Prometheus; NULL: it is no metric */
};

/* The last entry has no name. */
extern const struct sl_status_member sl_status_of_daemon[], sl_status_of_session[];

#endif
