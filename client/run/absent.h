/* Who has no part in which steps of a group in one process (`--absent`): a list such as "1:3,2:10-25". Steps count from
 * 1, as in the log. */
#ifndef SL_CLIENT_RUN_ABSENT_H
#define SL_CLIENT_RUN_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum sl_absence {
	SL_PRESENT,
	SL_LATE, /* MEMBER:STEP: it computes the step, and is left out of it */
	SL_AWAY  /* MEMBER:FROM-TO: it is not there at all */
};

/* USAGE: it is no such list. `list` may be NULL: nobody. */
enum sl_err sl_absent_check(const char *list, struct sl_fail *fail) SL_MUST_CHECK;
/* `step`: from 0. */
enum sl_absence sl_absent_look(const char *list, int member, uint64_t step);
bool sl_absent_has_ranges(const char *list);

#endif
