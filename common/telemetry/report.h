/* Reports of what was done, for people: {"sections": [{"title", "facts": [[name, text] …], "columns": [text …],
 * "rows": [[text …] …], "text"}], …}, printed as a page, as Markdown or as JSON. All texts may be from files: the
 * printers escape them. One thread. */
#ifndef SL_TELEMETRY_REPORT_H
#define SL_TELEMETRY_REPORT_H

#include <jansson.h>
#include <stdint.h>

#include "common/base/err.h"

enum { SL_REPORT_TEXT = 1024, SL_REPORT_TIME = 32 };

/* A section without facts and rows; NULL: no memory. The caller's. */
json_t *sl_report_section(const char *title);
void sl_report_fact(json_t *section, const char *name, const char *format, ...) SL_PRINTF(3, 4);
/* Appends n texts as the table's columns, or as one of its rows. NULL: a dash. */
void sl_report_line(json_t *section, const char *what, int n, ...);
/* A member as text: numbers with six digits. "-": it is not there. */
const char *sl_report_show(const json_t *of, const char *key, char out[SL_REPORT_TEXT]);
/* A member, such as "time" of a line, seconds since 1970, in UTC. "-": it is not there. */
const char *sl_report_time(const json_t *line, const char *key, char out[SL_REPORT_TIME]);
/* Writes it as "html", which is one page that loads nothing and is well-formed XML, "md" or "json", to the file `out`;
 * NULL: to standard output. format NULL: as the file's name ends, else "md". `title`: of the page. USAGE: no such
 * format; CANTCREATE, IO, NOMEM. */
enum sl_err sl_report_write(json_t *report, const char *title, const char *format, const char *out,
			    struct sl_fail *fail) SL_MUST_CHECK;

#endif
