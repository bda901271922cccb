/* The client's checkpoints of a run on disk: the list of good files, and the write under way, on a thread of its own.
 * All functions and events are on the loop's thread, except `sync`. */
#ifndef SL_CLIENT_PERSIST_ARCHIVE_H
#define SL_CLIENT_PERSIST_ARCHIVE_H

#include "client/persist/client_state.h"
#include "client/persist/last_run.h"
#include "common/link/loop.h"

enum { SL_ARCHIVE_LAST = 64 };

struct sl_archive;

struct sl_archive_events {
	/* Called on the writing thread before a checkpoint is written: syncs log.jsonl, whose length it records. */
	void (*sync)(void *arg);
	/* A checkpoint could not be written. */
	void (*missed)(void *arg, const struct sl_fail *fail);
	/* A write has ended, with or without success. Never called from within sl_archive_settle. */
	void (*written)(void *arg);
};

/* dir: log.dir, borrowed; "": nothing is on disk. watchdog_s: the longest time that a write may take; 0: no limit. */
enum sl_err sl_archive_open(struct sl_archive **out, struct sl_loop *loop, const char *dir, int watchdog_s,
			    const struct sl_archive_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;
void sl_archive_close(struct sl_archive *a); /* NULL is fine; call sl_archive_settle first */

/* Sets the list of good files as sl_last_run_read found them: their steps, newest first; `confirmed`: how many of them
 * the server has, too. */
void sl_archive_found(struct sl_archive *a, const uint64_t *step, int n, int confirmed);
/* How many files behind step 0 that were found or written so far the server has, too, as it said when it had written
 * its side. 0 again once the run has gone back to step 0. */
int sl_archive_confirmed(const struct sl_archive *a);
/* The steps of the good files, newest first; returns how many there are. */
int sl_archive_files(const struct sl_archive *a, uint64_t step[SL_LAST_RUN_STEPS]);
uint64_t sl_archive_newest(const struct sl_archive *a); /* 0: there is none, or it is of step 0 */
/* Writes "; the last good one is STEP", or that there is none. Returns out. */
const char *sl_archive_last(const struct sl_archive *a, char out[SL_ARCHIVE_LAST]);
/* As sl_archive_files, with the one under way in front; unused entries are 0. True: a file is being written. */
bool sl_archive_kept(const struct sl_archive *a, uint64_t step[SL_CHECKPOINT_KEPT]);
/* Takes the file of `step` off the list: the run cannot go on from it. False: it was not on the list. */
bool sl_archive_refuse(struct sl_archive *a, uint64_t step);
/* The run goes on from `step`: removes the files of later steps, which are no longer part of its history. Going back to
 * step 0 may be a mistake, such as a wrong server: then, unless `sure`, the files stay until another one is written. */
void sl_archive_go_back(struct sl_archive *a, uint64_t step, bool sure);

bool sl_archive_busy(const struct sl_archive *a); /* a file is being written */
/* The state from which the next file is written. The caller fills it, its step too, while no file is being written. */
struct sl_client_state *sl_archive_state(struct sl_archive *a);
/* Begins to write that state, with the notes of *c, which is copied; the files c->pin, at most SL_LAST_RUN_STEPS - 1,
 * stay. `sure`: the server has written its side. A failure is in sl_archive_status, and goes to `missed` unless
 * `quiet`. */
void sl_archive_write(struct sl_archive *a, const struct sl_checkpoint *c, bool sure, bool quiet);
/* How often that write has failed, unless it was `quiet`; 0 once it has succeeded, or the run has gone back behind it.
 */
int sl_archive_tries(const struct sl_archive *a);
/* Begins to write the same state again, if the first try has failed. False: nothing was begun. */
bool sl_archive_again(struct sl_archive *a);
/* Whether the next write first removes all files, since the run has gone back to step 0. */
bool sl_archive_begins_anew(const struct sl_archive *a);
/* How the last write ended. */
enum sl_err sl_archive_result(const struct sl_archive *a, struct sl_fail *fail) SL_MUST_CHECK;
/* Records that the state after `step` has no file and will have none. */
void sl_archive_miss(struct sl_archive *a, uint64_t step, const struct sl_fail *why);
/* Warns where steps from next_step to `held`, which this side could go on from, are run again. given: it got the
 * group's state; common: all of a group go on from there. */
void sl_archive_say_lost(uint64_t held, uint64_t next_step, bool given, bool common);

uint64_t sl_archive_busy_ms(const struct sl_archive *a); /* how long the write under way has taken; 0: there is none */
/* Waits for that write. False: it takes longer than watchdog_s; sl_archive_close would wait for it without limit. */
bool sl_archive_settle(struct sl_archive *a) SL_MUST_CHECK;
struct sl_checkpoint_state sl_archive_status(const struct sl_archive *a);
/* The run is done at `step`: removes its files. With `keep` the file of `step` is renamed instead, if it is the newest
 * good one. False: as sl_last_run_finish. */
bool sl_archive_finish(struct sl_archive *a, uint64_t step, bool keep);

#endif
