/* Groups: a trunk that several sessions train, its members' seats, and what they wait for. A session of a member
 * computes with the trunk's parameters (nn/exec.h: sl_exec_borrow), and its COMMIT is held until the group has decided
 * about the step. Loop thread, but for what says (worker); all jobs and tasks of a group have one key, so that none
 * overlap.
 *
 *   group.c       the loop's part: who is there, who is awaited, which job is next
 *   trunk_table.c whom a step waits for, and what is next; trunk_records.c what of a seat survives: both pure
 *   group_await.c the loop's: who is awaited, who comes and goes, and who may leave; other ranks' words
 *   group_enter.c who may join, and how a group begins
 *   group_intro.c groups of other ranks, where all members of this one are done
 *   group_lr.c    the learning rate of a step
 *   group_task.c  the worker's: the trunk's memory, jobs, and the end of a session
 *   group_choose.c the worker's: where members go on from, and whose a seat is
 *   group_step.c  the worker's: a step; in rounds copies of the trunk, and their average
 *   group_keep.c  the worker's: checkpoints, and what is read from one
 *   group_ends.c  the worker's: heads and tails that are shared
 *   group_give.c  both's: heads and tails that one who comes gets of the others
 *   group_ranks.c the worker's: members that other servers have (ranks.h) */
#ifndef SL_SERVER_TRUNK_GROUP_H
#define SL_SERVER_TRUNK_GROUP_H

#include "common/conf/agreed.h"
#include "common/session/port.h"
#include "common/telemetry/status.h"
#include "server/trunk/ranks.h"
#include "server/trunk/trunk.h"

struct sl_group;
struct sl_group_list;
struct sl_middle;

/* `store` and what it points to are borrowed; its owner says nothing: a group's files are its own. */
enum sl_err sl_group_list_open(struct sl_group_list **out, struct sl_loop *loop, struct sl_worker *worker,
			       const struct sl_trunk_store *store) SL_MUST_CHECK;
/* Before the first member: the groups' other members are other ranks'. Borrowed. */
enum sl_err sl_group_list_ranks(struct sl_group_list *groups, const struct sl_ranks *ranks, struct sl_backend *be,
				struct sl_backend *host_be) SL_MUST_CHECK;
void sl_group_list_close(struct sl_group_list *groups); /* NULL is fine; no session of any is left */
void sl_group_list_tick(struct sl_group_list *groups);

/* A member is admitted: the group of its agreement, which is begun where there is none. BUSY: another client has its
 * seat; MISMATCH: it would not fit. */
enum sl_err sl_group_enter(struct sl_group_list *groups, struct sl_middle *m, const struct sl_agreed *agreed,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Its session ended with *why. Where that kept it from joining, those who wait for it are told. */
void sl_group_refused(struct sl_group *group, const struct sl_middle *m, const struct sl_fail *why);
/* Of all jobs of its sessions; and of its files, in place of a session's name. */
uint64_t sl_group_key(const struct sl_group *group);
const char *sl_group_name_of(const struct sl_group *group);
const uint8_t *sl_group_file_name(const struct sl_group *group); /* [16] */
/* The session's news: open, and waits to be welcomed; its part is done; it fetches weights; over; freed, and the last
 * one frees the group. */
void sl_group_joining(struct sl_group *group, struct sl_middle *m);
void sl_group_prepared(struct sl_group *group, struct sl_middle *m);
void sl_group_asked(struct sl_group *group, struct sl_middle *m);
void sl_group_given(struct sl_group *group, struct sl_middle *m); /* its head and tail, or their hash, have come */
void sl_group_over(struct sl_group *group, struct sl_middle *m);
void sl_group_leave(struct sl_group *group, struct sl_middle *m);

/* (worker) The member's executor borrows the trunk's parameters, which the first member brings. `plan` is the trunk's
 * (sl_agreement_trunk): it is taken over or closed. MISMATCH: the group trains another middle. */
enum sl_err sl_group_lend(struct sl_group *group, struct sl_middle *m, struct sl_plan *plan,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* (worker) Room for what the codecs of the member keep when its link is over: taken before its first step, so that
 * nothing they keep is ever lost for lack of it. LIMIT, BUSY, NOMEM. */
enum sl_err sl_group_room_for_codecs(struct sl_group *group, struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
/* (worker) Where heads and tails are shared (group_ends.c): what of a Hello's payload says, with its part of m->memory;
 * the task MEAN; and when the session is freed. */
enum sl_err sl_member_ends_hear(struct sl_middle *m, struct sl_bytes text, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_group_ends_mean(struct sl_group *group, struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void sl_member_ends_close(struct sl_middle *m);
/* (worker) As sl_trunk_install, sl_trunk_gather and sl_trunk_last; and whether the member's part may be added:
 * NONFINITE.
 */
enum sl_err sl_group_install(struct sl_group *group, struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_group_gather(struct sl_group *group, struct sl_middle *m, bool *checkpointed) SL_MUST_CHECK;
enum sl_err sl_group_check(struct sl_group *group, struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_last(struct sl_group *group, struct sl_middle *m);

/* What the status of a member's session says of its group. */
void sl_group_status(const struct sl_group *group, const struct sl_middle *m, struct sl_status_session *out);
const struct sl_checkpoint_state *sl_group_checkpoints(const struct sl_group *group);

#endif
