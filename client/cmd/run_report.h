/* The report of a run: sections with facts and tables, made of what the run wrote to its log.dir. docs/OUTPUT.md has
 * the JSON form. One thread. */
#ifndef SL_CLIENT_CMD_RUN_REPORT_H
#define SL_CLIENT_CMD_RUN_REPORT_H

#include <jansson.h>

#include "common/base/err.h"

/* A report (telemetry/report.h), with "schema", "run", "summary" and "sessions". *out is the caller's.
 * unfit->code: DATA where the logs or files of the run do not fit, which the report says; OK: they do.
 * NOINPUT: `dir` holds no log; DATA: a line of it cannot be read. */
enum sl_err sl_run_report_make(json_t **out, struct sl_fail *unfit, const char *dir,
			       struct sl_fail *fail) SL_MUST_CHECK;

#endif
