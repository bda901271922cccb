/* Groups: a trunk that the sessions of several clients train together, with a seat for each member. A member's session
 * computes with the trunk's parameters (exec.h: sl_exec_borrow). Its COMMIT is held until the group has decided about
 * the step. Loop thread, except for what says (worker). All jobs and tasks of a group have one key, so that none
 * overlap.
 *
 *   group.c        loop: who is there, which job is next, and what follows from its result
 *   trunk_table.c  whom a step waits for, and what is next; trunk_records.c: what survives of a seat. Both are pure
 *   group_await.c  loop: who is awaited, and for how long; who may leave
 *   group_member.c loop: what sessions tell the group: who comes, is ready, leaves
 *   group_enter.c  loop: who may join, and how a group begins
 *   group_letters.c loop: what this rank tells others, and what rank 0 decides for all; group_hear.c: what it hears
 *   group_lr.c     the learning rate of a step
 *   group_task.c   worker: the trunk's memory, the jobs, the end of a session
 *   group_choose.c worker: the step from which all members go on
 *   group_come.c   worker: the step from which a member goes on that comes while others train
 *   group_owner.c  worker: which client a seat belongs to; loop: seats of clients that are not listed any more
 *   group_log.c    both: who took part in which step; pure
 *   group_parts.c  loop: what members and the log hear of that
 *   group_report.c loop: figures that members report
 *   group_step.c   worker: a step; in rounds copies of the trunk, and their average
 *   group_keep.c   worker: writing and reading checkpoints
 *   group_ends.c   worker: shared heads and tails
 *   group_give.c   both: heads and tails that a member, or the store, gets from another member
 *   group_parties.c both: vertical groups, whose members do each pass together
 *   group_ranks.c  worker: members that are on other servers (ranks.h) */
#ifndef SL_SERVER_GROUP_GROUP_H
#define SL_SERVER_GROUP_GROUP_H

#include "common/conf/agreed.h"
#include "common/session/port.h"
#include "common/telemetry/status.h"
#include "server/group/ranks.h"
#include "server/trunk/trunk.h"

struct sl_group;
struct sl_group_list;
struct sl_middle;

/* `store` is copied; what it points to is borrowed. store->owner is ignored: files of a group belong to no client. */
enum sl_err sl_group_list_open(struct sl_group_list **out, struct sl_loop *loop, struct sl_worker *worker,
			       const struct sl_trunk_store *store) SL_MUST_CHECK;
/* Call it before the first member comes: groups have members on other ranks, too. All are borrowed; `be`, `host_be`:
 * the backend of this rank, and the CPU's. */
enum sl_err sl_group_list_ranks(struct sl_group_list *groups, const struct sl_ranks *ranks, struct sl_backend *be,
				struct sl_backend *host_be) SL_MUST_CHECK;
void sl_group_list_close(struct sl_group_list *groups); /* NULL is fine; no group may have sessions */
void sl_group_list_tick(struct sl_group_list *groups);
/* With auth: the list of clients was read, at the start or again. may_join: whether the client with that key may train
 * with that group. Where it may not, its seat is done, once its link is over, if steps may be done without a member. */
void sl_group_list_read(struct sl_group_list *groups,
			bool (*may_join)(void *arg, const struct sl_key *key, const char *group), void *arg);

/* Puts an admitted member into the group that its agreement names; makes the group if there is none. BUSY: another
 * client has its seat; MISMATCH: its settings do not fit the group's. */
enum sl_err sl_group_enter(struct sl_group_list *groups, struct sl_middle *m, const struct sl_agreed *agreed,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* BUSY: session `there` has the member's number, and the one that comes is not a newer link of the same run. Any
 * thread. */
enum sl_err sl_group_check_taken(const struct sl_group *group, const struct sl_middle *there,
				 const struct sl_middle *comes, struct sl_fail *fail) SL_MUST_CHECK;
/* The records of groups (docs/OUTPUT.md), by name, as their members were told last: a new reference. NULL: no memory.
 */
json_t *sl_group_list_records(const struct sl_group_list *groups);
const char *sl_group_name_of(const struct sl_group *group);
const uint8_t *sl_group_file_name(const struct sl_group *group); /* [16], in place of a session's name in its files */
/* The entry `lend` of a member's seat (middle_task.h), and its tasks; all (worker).
 * lend: of the trunk's parameters to the member's executor; makes the trunk for the first member, whose m->group_plan
 * belongs to the group from now on. MISMATCH: the group trains another middle.
 * open: reserves memory for the state of the member's codecs, which outlives its link. It is taken before the first
 * step, so that this state is never lost for lack of memory. LIMIT, BUSY, NOMEM.
 * install, gather, last: as those of a client without a group (alone.c).
 * check, the task PREPARE: whether the member's part of the step may be added. NONFINITE, PAYLOAD: it may not.
 * ends_mean: the task MEAN. */
enum sl_err sl_group_lend(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_group_open(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_group_install(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_group_check(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_group_ends_mean(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_group_gather(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_last(struct sl_middle *m);

/* Fills in the status of a member's session about its group. */
void sl_group_status(const struct sl_group *group, const struct sl_middle *m, struct sl_status_session *out);

#endif
