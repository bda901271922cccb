/* Who took part in the steps of a group, as its server says it (docs/WIRE.md, Record). It is the server's
 * word. Any thread. */
#ifndef SL_CLIENT_TRAIN_GROUP_RECORD_H
#define SL_CLIENT_TRAIN_GROUP_RECORD_H

#include <jansson.h>

#include "common/base/err.h"
#include "common/telemetry/status.h"

/* The record as a new reference; NULL: `text` is NULL, or no record. */
json_t *sl_group_record_read(const char *text);
/* What it says of the group as it is now. waits: the members for which it waits; away: those without a link; "": none.
 * unkept: no checkpoint of the server holds the group's state. Zeros where `text` is no record. */
struct sl_group_says {
	char waits[SL_STATUS_TEXT], away[SL_STATUS_TEXT];
	bool unkept;
};
struct sl_group_says sl_group_record_says(const char *text);
/* Prints a row for each member to stdout, and how to repeat the run in one process. */
void sl_group_record_print(const json_t *record);
/* UNMET: a member took part in a smaller share of the steps than share.least. */
enum sl_err sl_group_record_check(const json_t *record, struct sl_fail *fail) SL_MUST_CHECK;

#endif
