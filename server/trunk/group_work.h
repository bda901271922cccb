/* What of a group its files do on the device's worker. All of it runs in jobs and tasks of the group's key, one at a
 * time, so it needs no locks; the loop calls none of it. */
#ifndef SL_SERVER_TRUNK_GROUP_WORK_H
#define SL_SERVER_TRUNK_GROUP_WORK_H

#include <string.h>

#include "server/trunk/group_impl.h"

static inline const struct sl_hello *sl_group_hello(const struct sl_group *g, int k)
{
	return &sl_port_session(g->seat[k].m->port)->hello;
}
/* The lowest member of this rank that has a session; has_sessions false: it may have none. */
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
/* The store that has the first weights of *m, a member. With keys each group has its own there, as each client has
 * (store.h): a client of another group may upload other weights of the same hash. *owner stands for the group's key,
 * and lasts as long as the result. */
static inline struct sl_trunk_store sl_group_weights_store(const struct sl_group *g, const struct sl_middle *m,
							   struct sl_key *owner)
{
	struct sl_trunk_store store = g->groups->store;

	*owner = (struct sl_key){{0}};
	memcpy(owner->byte, g->file_name, sizeof g->file_name);
	store.owner = m->owned ? owner : NULL;
	return store;
}
/* group_choose.c. All go on from one step; member `which` comes while others train. */
void sl_group_run_choose(struct sl_group *group);
void sl_group_run_return(struct sl_group *group);
/* group_owner.c. The session of the seat is not its owner's. */
bool sl_group_is_foreign(const struct sl_group *group, int k);
/* MISMATCH: the seat is another client's run, and this session cannot begin it anew. */
enum sl_err sl_group_check_owner(const struct sl_group *group, int k, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_note_owner(struct sl_group *group, int k); /* the seat is this session's from now on */
/* group_keep.c. The codecs of a seat's session, into the seat, unless they are fresh. */
enum sl_err sl_group_hold_codecs(struct sl_group_seat *seat) SL_MUST_CHECK;
/* Writes what was applied to the store; false, and logged: it is not there. _left: who may leave, into the file of the
 * last step, where that does not say it yet. */
bool sl_group_keep(struct sl_group *group);
void sl_group_keep_left(struct sl_group *group);
/* As sl_keep_read, for the trunk, the seats and their sessions' codecs. */
enum sl_err sl_group_read(struct sl_group *group, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* group_choose.c. Member k is another client, or the same one without its files; it goes on from `step`, though it has
 * done others since. */
void sl_group_begin_anew(struct sl_group *group, int k);
void sl_group_go_on_behind(struct sl_group *group, int k, uint64_t step);
void sl_group_list_stored(struct sl_group *group); /* trunk.r.stored */
/* group_step.c. The step of those in `part`; and of member `which`, which skipped one that the group had done
 * without it. */
void sl_group_run_apply(struct sl_group *group);
void sl_group_run_catch_up(struct sl_group *group);
/* In rounds: all copies, or one, are the trunk's again; member `which` is a step further, inside the round. */
enum sl_err sl_group_reset_copy(struct sl_group *group, int k, bool moments) SL_MUST_CHECK;
enum sl_err sl_group_reset_copies(struct sl_group *group) SL_MUST_CHECK;
void sl_group_run_step(struct sl_group *group);
/* Its moments where each member keeps its own, for the checkpoint: floats of all of them. */
int64_t sl_group_own_moments(const struct sl_group *group);
/* group_ends.c; all of them do nothing where heads and tails are not shared. A member's session borrows. */
enum sl_err sl_group_ends_lend(struct sl_group *group, struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_ends_close(struct sl_group *group);
void sl_group_ends_begin(struct sl_group *group); /* it goes on from `done` */
/* What the member told of the step under way. NONFINITE, PAYLOAD. */
enum sl_err sl_group_ends_check(struct sl_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
/* Room for the mean that the fold makes; then, with the step, it is one that members hear. */
enum sl_err sl_group_ends_next(struct sl_group *group, struct sl_fail *fail) SL_MUST_CHECK;
void sl_group_ends_settle(struct sl_group *group);
/* Whether a member at this step can go on from there. */
bool sl_group_ends_reach(const struct sl_group *group, uint64_t step);
/* group_give.c, where heads and tails are shared; elsewhere false. Member k, `came`, needs the others', which are not
 * here: it comes later. Else it gets them where it needs them (gift). `newest`: of sl_record_come. */
bool sl_group_comes_later(struct sl_group *group, int k, uint64_t newest);
/* All go on from the step, and the member has the heads and tails of it. Nobody has those of the file that was read,
 * but somebody who is not here. */
bool sl_group_holds_ends(const struct sl_group *group, int k, uint64_t step);
bool sl_group_ends_elsewhere(const struct sl_group *group);
/* group_ranks.c. All ranks call each of these, or none. Without ranks they change nothing.
 *
 * Steps that all ranks' members hold, newest first; and whose turns all members have. */
enum { SL_GROUP_STEPS = SL_WIRE_HELD_MAX };
int sl_group_common_steps(struct sl_group *group, uint64_t step[SL_GROUP_STEPS], int n);
/* How it went to take up step `step`: `err` where all ranks say so, else the first rank's that is not OK. All begin
 * with the same weights; the branch is rank 0's. */
enum sl_err sl_group_all_took(struct sl_group *group, uint64_t step, enum sl_err err,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* The ranks meet: those in `part` are ready here; `back` ≥ 0: all should go back with that member, which holds no step
 * behind `newest`. Behind GO the learning rate, and whether there is to be a checkpoint, are all ranks'. MISMATCH. */
enum sl_err sl_group_meet(struct sl_group *group, int back, uint64_t newest) SL_MUST_CHECK;
void sl_group_run_meet(struct sl_group *group);
/* For the fold; NULL without ranks. */
const struct sl_others *sl_group_others(struct sl_group *group, struct sl_others *others);
/* Whether all ranks have written their checkpoint. */
bool sl_group_all_kept(struct sl_group *group, bool kept);
/* Ends all ranks where `why` cannot be one rank's alone. Does not return where there are ranks. */
void sl_group_end_ranks(const struct sl_group *group, const char *why);

#endif
