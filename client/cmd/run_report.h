/* The report of a run: sections with facts and tables, made of what the run wrote to its log.dir. docs/OUTPUT.md has
 * the JSON form. One thread. */
#ifndef SL_CLIENT_CMD_RUN_REPORT_H
#define SL_CLIENT_CMD_RUN_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/base/err.h"

/* {"schema", "run", "sections": [{"title", "facts": [[name, text] …], "columns": [text …], "rows": [[text …] …],
 * "text"}], "summary", "sessions"}. All texts are from files, so a printer has to escape them. *out is the caller's.
 * NOINPUT: `dir` holds no log; DATA: a line of it cannot be read. */
enum sl_err sl_run_report_make(json_t **out, const char *dir, struct sl_fail *fail) SL_MUST_CHECK;
/* Prints a report as one page that loads nothing, which is also well-formed XML, or as Markdown. */
void sl_run_report_print(const json_t *report, bool as_html, FILE *to);

#endif
