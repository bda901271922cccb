/* What holds of a group between its jobs, and of what each job has done: assertions. No member can break them: what one
 * says wrongly is a typed error. Only for the files group*.c. */
#ifndef SL_SERVER_GROUP_GROUP_CHECK_H
#define SL_SERVER_GROUP_GROUP_CHECK_H

#include "server/group/group_work.h"

/* Loop, while no job runs: references, links and sessions, answers, copies of what the worker knows. */
void sl_group_check_idle(const struct sl_group *group);
/* Loop, behind APPLY, before the table hears of it: records, log and table tell of the same members. _missed: once the
 * table has heard. */
void sl_group_check_applied(const struct sl_group *group);
void sl_group_check_missed(const struct sl_group *group);
/* Loop: member k is welcomed, and goes on from the state of step `held` with step `begin`. */
void sl_group_check_welcome(const struct sl_group *group, int k, uint64_t held, uint64_t begin);
/* Loop: no session knows the group any more. */
void sl_group_check_unused(const struct sl_group *group);
/* (worker) Behind each job: sessions, records, log, and what is particular to the job. */
void sl_group_check_job(const struct sl_group *group);
/* (worker) Before a checkpoint is written: no member is inside a round. _records: what members' codecs keep has the
 * bytes that were counted. */
void sl_group_check_border(const struct sl_group *group);
void sl_group_check_records(const struct sl_group *group, const struct sl_buf *records);
/* (worker) Shared heads and tails: the means that members may get. */
void sl_group_check_means(const struct sl_group *group);

#endif
