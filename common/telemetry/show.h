/* The `status` sub-command of both daemons: asks a control socket and prints what it says. */
#ifndef SL_TELEMETRY_SHOW_H
#define SL_TELEMETRY_SHOW_H

#include <stdbool.h>

#include "common/base/err.h"

/* To stdout: a table, or the JSON as it came, or metrics. */
enum sl_err sl_status_show(const char *control_path, bool json, bool prometheus, struct sl_fail *fail) SL_MUST_CHECK;

#endif
