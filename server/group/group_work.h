/* The functions that a group's files share on the device's worker. All run in jobs and tasks with the group's key, so
 * one at a time and without locks. The loop calls none of them. */
#ifndef SL_SERVER_GROUP_GROUP_WORK_H
#define SL_SERVER_GROUP_GROUP_WORK_H

#include <string.h>

#include "server/group/group_impl.h"

static inline const struct sl_hello *sl_group_hello(const struct sl_group *g, int k)
{
	return &sl_port_session(g->seat[k].m->port)->hello;
}
/* The first member of this rank that has a session; if none has, the rank's last seat (has_sessions is false then). */
static inline int sl_group_first_here(const struct sl_group *g)
{
	int k = g->first;

	while (k < g->end - 1 && !g->seat[k].m)
		k++;
	return k;
}
static inline bool sl_group_has_sessions(const struct sl_group *g)
{
	return g->seat[sl_group_first_here(g)].m != NULL;
}
/* The store for the initial weights of member *m. With auth, each group has files of its own, as each client has
 * (store.h): a client of another group could upload other weights with the same hash. *owner, which the result refers
 * to, gets the group's name in place of a key. */
static inline struct sl_trunk_store sl_group_weights_store(const struct sl_group *g, const struct sl_middle *m,
							   struct sl_key *owner)
{
	struct sl_trunk_store store = g->groups->store;

	*owner = (struct sl_key){{0}};
	memcpy(owner->byte, g->file_name, sizeof g->file_name);
	store.owner = m->owned ? owner : NULL;
	return store;
}
/* group_choose.c: the job CHOOSE. group_come.c: the job REJOIN. */
void sl_group_run_choose(struct sl_group *group);
void sl_group_run_return(struct sl_group *group);
/* group_owner.c. The session of seat k is not the one that the seat belongs to. */
bool sl_group_is_foreign(const struct sl_group *group, int k);
/* MISMATCH: the seat belongs to another client's run, and this session cannot begin it anew. */
enum sl_err sl_group_check_owner(const struct sl_group *group, int k, struct sl_fail *fail) SL_MUST_CHECK;
/* MISMATCH: the session of seat k asks that the group begin anew, and others do not. */
enum sl_err sl_group_check_anew(const struct sl_group *group, int k, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_note_owner(struct sl_group *group, int k); /* from now on the seat belongs to this session */
/* group_keep.c. Copies the state of the session's codecs into the seat, unless the seat is `fresh`. */
enum sl_err sl_group_hold_codecs(struct sl_group_seat *seat) SL_MUST_CHECK;
/* keep stores the state after the last step. False, and logged: it could not. keep_left: writes that file again if its
 * note on who may leave has changed; false: it could not. */
bool sl_group_keep(struct sl_group *group);
bool sl_group_keep_left(struct sl_group *group);
/* As sl_keep_read, for the trunk, the seats and their sessions' codecs. */
enum sl_err sl_group_read(struct sl_group *group, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_forget_codecs(struct sl_group *group, int k); /* group_choose.c: those of k's session and seat */
/* group_step.c: the jobs APPLY and CATCH_UP. */
void sl_group_run_apply(struct sl_group *group);
void sl_group_run_catch_up(struct sl_group *group);
/* In rounds: makes one copy, or all, equal to the trunk again; `moments`: those, too. run_step: the job STEP. */
enum sl_err sl_group_reset_copy(struct sl_group *group, int k, bool moments) SL_MUST_CHECK;
enum sl_err sl_group_reset_copies(struct sl_group *group) SL_MUST_CHECK;
void sl_group_run_step(struct sl_group *group);
/* Floats of a member's moments in a checkpoint, if each member keeps its own; otherwise 0. */
int64_t sl_group_own_moments(const struct sl_group *group);
/* group_ends.c; these do nothing unless heads and tails are shared. _lend: opens them for a member's session. */
enum sl_err sl_group_ends_lend(struct sl_group *group, struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_ends_close(struct sl_group *group);
void sl_group_ends_begin(struct sl_group *group); /* all go on from trunk.r.done: forgets later means */
/* Decodes and checks the member's change in the step under way. NONFINITE, PAYLOAD. */
enum sl_err sl_group_ends_check(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
/* next: takes memory for the mean that the fold makes. settle: the step is done, so members may get that mean. */
enum sl_err sl_group_ends_next(struct sl_group *group, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_ends_settle(struct sl_group *group);
/* group_give.c, for shared heads and tails. give: those before the group's step, to member k; false: they are not here.
 * store_ends writes those of a member for the checkpoint of step `due`, which is then complete. load_ends reads those
 * of `step`. NOINPUT: that checkpoint is not complete. forget_state: the group has done another step since. */
bool sl_group_give(struct sl_group *group, int k);
void sl_group_run_store(struct sl_group *group); /* the job STORE */
enum sl_err sl_group_load_ends(struct sl_group *group, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* group_ranks.c. These are collective: all ranks call them in the same order. Without ranks they change nothing.
 *
 * The bits of `own` that all ranks pass. 0 says that this rank does not take part. */
uint64_t sl_group_all_say(struct sl_group *group, uint64_t own);
/* Combines the ranks' results `err` of taking up `step`: OK if all are, otherwise that of the lowest rank that failed.
 * MISMATCH: the ranks differ in plan, or at step 0 in weights. The branch becomes that of rank 0. */
enum sl_err sl_group_all_took(struct sl_group *group, uint64_t step, enum sl_err err,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Opens the trunk's executor, if this rank has had no member (group_hear.c). It has parameters,
 * but no memory to compute (sl_exec_bare). */
enum sl_err sl_group_open_bare(struct sl_group *group, struct sl_fail *fail) SL_MUST_CHECK;
/* The other ranks, for the fold; NULL without ranks. */
const struct sl_others *sl_group_others(struct sl_group *group, struct sl_others *others);
/* Ends all ranks, since the error `why` leaves them in different states. With ranks it does not return. */
void sl_group_end_ranks(const struct sl_group *group, const char *why);

#endif
