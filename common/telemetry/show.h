/* The `status` sub-command of both daemons: asks a control socket and prints what it says, or answers a probe. */
#ifndef SL_TELEMETRY_SHOW_H
#define SL_TELEMETRY_SHOW_H

#include <stdbool.h>

#include "common/base/err.h"

/* At most one of the first four is set; without them a table is printed. */
struct sl_status_how {
	bool json;       /* the answer as it came */
	bool prometheus; /* metrics */
	bool live;       /* a probe: one line if the daemon answers, so its event loop runs */
	bool ready;      /* a probe: one line if the daemon says that it is ready */
	bool quiet;      /* no line if the probe succeeds */
	bool watch;      /* a table or JSON, again and again, until the daemon has ended */
};

/* Prints to stdout. UNAVAILABLE or TIMEOUT if no daemon answers within 2 s; for `ready` also UNAVAILABLE if it is
 * not ready. *fail says why. */
enum sl_err sl_status_show(const char *control_path, const struct sl_status_how *how,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
