/* The server's own tables, with faults that can be planted in them, and faults of what is around them in the models of
 * test_trunk_table.c. Each fault must be found. */
#ifndef SL_TESTS_SUITE_TRUNK_FAULTS_H
#define SL_TESTS_SUITE_TRUNK_FAULTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fault, the kind of group where it is found, what is wrong */
#define FAULTS_OF_TABLES(X)                                                                                         \
	X(AWAY_IS_NOT_OWED, SERVER, "a member that is away is not owed steps")                                      \
	X(BEGINS_WITHOUT, CUTS, "the first step does not wait for a seat that nobody has had")                      \
	X(NO_QUORUM, SERVER, "a step is done by fewer members than share.quorum")                                   \
	X(GOES_BACK_AT_ONCE, LEAST_0, "the group goes back though a member that lost its link has head and tail")   \
	X(LEAVE_AT_ONCE, CUTS, "members leave before the last state is stored")                                     \
	X(GIVEN_STAYS_OUT, CUTS, "heads and tails have come, and nobody takes them")                                \
	X(WRONG_ENDS_ARE_KEPT, CUTS, "heads and tails are taken though most others contradict them")                \
	X(ANY_GOODBYE_ENDS, STOPPED, "a goodbye before the last step ends a run")                                   \
	X(LATE_COUNTS, SERVER, "a late member counts as one that took part")                                        \
	X(OLD_ENDS_ARE_GIVEN, SERVER, "the head and tail of an earlier step are given")                             \
	X(INCOMPLETE_IS_TAKEN, SERVER, "a checkpoint without head and tail is taken")                               \
	X(LOST_GIVER_IS_AWAITED, CUTS, "a lost giver is awaited for ever")                                          \
	X(MISSED_IS_FORGOTTEN, SERVER, "a restarted server forgets who missed what")                                \
	X(THE_COMPLETE_FILE_GOES, CUTS, "the complete checkpoint goes before the next one is complete")             \
	X(COMPLETE_IS_FORGOTTEN, SERVER, "the complete checkpoint is forgotten when all go on from a later one")    \
	X(END_NEEDS_A_QUORUM, GONE_FOR_GOOD, "one that comes after the last step waits for share.quorum")           \
	X(GIVEN_IS_GONE, LEAST_0, "a member that waits for its last state counts as gone when its link is lost")    \
	X(LAST_FILE_GOES, CUTS, "the last file goes though a member may still come for its weights")                \
	X(DONE_CANNOT_GIVE, LIAR, "members that are done are not asked for their head and tail")                    \
	X(MOST_MUST_HOLD, FILES, "an incomplete checkpoint is not taken though one that is here has head and tail") \
	X(FOREIGN_FILES_COUNT, PRIVATE, "a seat's step counts for a new client there")                              \
	X(DOUBT_IS_TAKEN, PRIVATE_CUTS, "a member goes on behind a step that it does not know to be done")          \
	X(MAKER_STAYS, PRIVATE, "a member that went on with an older state passes for one that has the newer")      \
	X(BEGINS_ANEW_WITHOUT, FILES, "a group begins anew while one that has a later state is not here")           \
	X(FIRST_RETURN_COUNTS, PRIVATE_LONG,                                                                        \
	  "a member comes back twice before a step, and the log notes the first state")                             \
	X(DUE_IS_NOT_PINNED, SERVER, "a checkpoint goes while its head and tail are on the way")                    \
	X(BRANCH_IS_NOT_COMPARED, PRIVATE, "a state of an abandoned history is taken for the group's")              \
	X(ONE_TAKES_ALL_BACK, ALL_FILES, "all go back to a step that others do not hold")                           \
	X(NOBODY_NOTES_WHO_LEFT, ALL_PRIVATE, "a restarted server waits for members that have left")                \
	X(LEAVES_ALONE, ALL_PRIVATE, "a member leaves while another one may have to repeat the last steps")         \
	X(ASKING_IS_SAFE, ALL_FULL, "members leave though another one has neither its last state nor its model")    \
	X(OTHER_RANKS_MAY_REDO, RANKS, "a member leaves while one of another rank may have to repeat steps")

enum fault {
	NO_FAULT,
#define FAULT(name, kind, text) name,
	FAULTS_OF_TABLES(FAULT)
#undef FAULT
		FAULTS
};
static enum fault planted;
#define MODEL_PLANTED(fault) (planted == (fault))
#define SL_PLANTED(fault)    (planted == (fault))
#include "server/trunk/trunk_records.c"
#include "server/trunk/trunk_table.c"

#endif
