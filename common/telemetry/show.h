/* The `status` sub-command of both daemons: asks a control socket and prints what it says, or answers a probe. */
#ifndef SL_TELEMETRY_SHOW_H
#define SL_TELEMETRY_SHOW_H

#include <stdbool.h>

#include "common/base/err.h"

/* One of the first four, or none: a table. */
struct sl_status_how {
	bool json;       /* as it came */
	bool prometheus; /* metrics */
	bool live;       /* one line where the daemon answers at all: its loop turns */
	bool ready;      /* one line where the daemon says that it is ready */
	bool quiet;      /* no line where the probe's answer is yes */
	bool watch;      /* a table or JSON, again and again, until the daemon has ended */
};

/* To stdout. UNAVAILABLE or TIMEOUT where nobody answers within 2 s, and for `ready` where the answer is no: *fail says
 * why. */
enum sl_err sl_status_show(const char *control_path, const struct sl_status_how *how,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
