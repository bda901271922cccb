/* The `status` sub-command of both daemons: asks a control socket and prints what it says. */
#ifndef SL_TELEMETRY_SHOW_H
#define SL_TELEMETRY_SHOW_H

#include <stdbool.h>

#include "common/base/err.h"

enum sl_show { SL_SHOW_TABLE, SL_SHOW_JSON, SL_SHOW_PROMETHEUS };

/* To stdout: a table, the JSON as it came, or metrics. */
enum sl_err sl_status_show(const char *control_path, enum sl_show as, struct sl_fail *fail) SL_MUST_CHECK;

#endif
