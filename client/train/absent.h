/* Which members of a group in one process miss which steps (`--absent`): a list such as "1:3,2:10-25". Its steps count
 * from 1, as in the log. */
#ifndef SL_CLIENT_TRAIN_ABSENT_H
#define SL_CLIENT_TRAIN_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum sl_absence {
	SL_PRESENT,
	SL_LATE, /* MEMBER:STEP: the member computes the step, but the group goes on without it */
	SL_AWAY  /* MEMBER:FROM-TO: the member does not take part at all */
};

/* USAGE: `list` is malformed, or names a member that a group of `clients` lacks. It may be NULL: nobody is absent. */
enum sl_err sl_absent_check(const char *list, int clients, struct sl_fail *fail) SL_MUST_CHECK;
/* `step` counts from 0. */
enum sl_absence sl_absent_look(const char *list, int member, uint64_t step);
bool sl_absent_has_ranges(const char *list);
uint64_t sl_absent_last(const char *list); /* the highest step, counted from 1, with which an absence begins; 0: none */

#endif
