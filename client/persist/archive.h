/* The checkpoints of a run on this side's disk: which files are good, and the one that is being written, on a thread of
 * its own. Loop thread, but for `sync`. */
#ifndef SL_CLIENT_PERSIST_ARCHIVE_H
#define SL_CLIENT_PERSIST_ARCHIVE_H

#include "client/persist/client_state.h"
#include "client/persist/last_run.h"
#include "common/link/loop.h"

struct sl_archive;

struct sl_archive_events {
	/* On the writing thread, before a checkpoint: the log that it counts on goes to the disk. */
	void (*sync)(void *arg);
	/* A checkpoint could not be written. On the loop. */
	void (*missed)(void *arg, const struct sl_fail *fail);
	/* A write has ended, well or not. From the loop, never from within sl_archive_settle. */
	void (*written)(void *arg);
};

/* dir: log.dir, borrowed; "": nothing is on disk. watchdog_s: the longest time that a write may take; 0: any time. */
enum sl_err sl_archive_open(struct sl_archive **out, struct sl_loop *loop, const char *dir, int watchdog_s,
			    const struct sl_archive_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;
void sl_archive_close(struct sl_archive *a); /* NULL is fine; behind sl_archive_settle */

/* Files that are good, newest first, as sl_last_run_read found them. */
void sl_archive_found(struct sl_archive *a, const uint64_t *step, int n);
/* Their steps, newest first; returns how many. */
int sl_archive_files(const struct sl_archive *a, uint64_t step[SL_LAST_RUN_STEPS]);
uint64_t sl_archive_newest(const struct sl_archive *a); /* 0: there is none, or it is of the beginning */
/* As sl_archive_files, with the one that is being written in front; the rest is 0. True: it is being written. */
bool sl_archive_kept(const struct sl_archive *a, uint64_t step[SL_CHECKPOINT_KEPT]);
/* The run cannot go on from the file of `step`. False: that file was not among the good ones. */
bool sl_archive_refuse(struct sl_archive *a, uint64_t step);
/* The run goes on from `step`: files of later steps are no longer part of its history, and are removed. Where it goes
 * back to step 0, that may be a mistake, such as a wrong server: unless it is `sure`, the files stay then until another
 * one is written. */
void sl_archive_go_back(struct sl_archive *a, uint64_t step, bool sure);

bool sl_archive_busy(const struct sl_archive *a); /* a file is being written */
/* The state that the next file is written from. The caller fills it, step included, while no file is being written. */
struct sl_client_state *sl_archive_state(struct sl_archive *a);
/* Begins to write it, with the notes of *c, which is copied. `missed` is told of a failure unless `quiet`; a status is
 * in any case. */
void sl_archive_write(struct sl_archive *a, const struct sl_checkpoint *c, bool quiet);
/* How the last write ended. */
enum sl_err sl_archive_result(const struct sl_archive *a, struct sl_fail *fail) SL_MUST_CHECK;
/* Records that the state after `step` has no file and will have none. */
void sl_archive_miss(struct sl_archive *a, uint64_t step, const struct sl_fail *why);

uint64_t sl_archive_busy_ms(const struct sl_archive *a); /* how long the file has been being written; 0: none is */
/* Waits for that file. False: it takes longer than watchdog_s; sl_archive_close would wait for it without limit. */
bool sl_archive_settle(struct sl_archive *a) SL_MUST_CHECK;
struct sl_checkpoint_state sl_archive_status(const struct sl_archive *a);
/* The run is done at `step`: its files go, but the last one, which gets another name (`keep`). */
void sl_archive_finish(struct sl_archive *a, uint64_t step, bool keep);

#endif
