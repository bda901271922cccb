/* Which members of a group in one process miss which steps (`--absent`), as the server's record says it. Its steps
 * count from 1, as in the log:
 *
 *   1:300           late: the member computes step 300 in vain, and its codecs stay as they are
 *   2:703-1890      away: it computes none of these steps, and its codecs begin anew in step 1891
 *   2:1891-1890     it came back before step 1891 without a missed step: its codecs begin anew
 *   2:703-1890@600  where heads and tails are private: it goes on with its own of step 600 */
#ifndef SL_CLIENT_TRAIN_ABSENT_H
#define SL_CLIENT_TRAIN_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/session/turns.h"

enum sl_absence {
	SL_PRESENT,
	SL_LATE, /* MEMBER:STEP: the member computes the step, but the group goes on without it */
	SL_AWAY  /* MEMBER:FROM-TO: the member does not take part at all */
};

/* USAGE: `list` is malformed, or names a member that a group of `clients` lacks. It may be NULL: nobody is absent. */
enum sl_err sl_absent_check(const char *list, int clients, struct sl_fail *fail) SL_MUST_CHECK;
/* `step` counts from 0. */
enum sl_absence sl_absent_look(const char *list, int member, uint64_t step);
/* Whether the member comes back before `step`, which counts from 0. *own: the step of its own head and tail with which
 * it goes on; `step` if the list names none. */
bool sl_absent_returns(const char *list, int member, uint64_t step, uint64_t *own);
/* Whether the member goes on with the head and tail of `step` at some time. */
bool sl_absent_needs(const char *list, int member, uint64_t step);
/* How many of its own steps the member misses; the list has each once. turns: NULL: all steps are its own. */
uint64_t sl_absent_own(const char *list, int member, const struct sl_turns *turns);
uint64_t sl_absent_last(const char *list); /* the highest step, counted from 1, with which an absence begins; 0: none */

#endif
