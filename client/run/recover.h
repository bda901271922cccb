/* The client's memory across links and processes: which steps it can go on from, the state that belongs to each, and
 * the checkpoints on disk. It is the authority of a recovery: the server takes the newest of the steps offered here.
 *
 * A step is offered where its state is at hand: the one under way (nothing of it has been applied), the one behind it
 * where only the server's answer to COMMIT is missing, and checkpoints. Loop thread; files are written by a worker of
 * its own. */
#ifndef SL_CLIENT_RUN_RECOVER_H
#define SL_CLIENT_RUN_RECOVER_H

#include "client/run/remote.h"
#include "client/run/training.h"
#include "common/link/loop.h"

struct sl_recover;

struct sl_recover_events {
	/* A checkpoint is not there: on this side, or because the server has none. On the loop; may end the run. */
	void (*missed)(void *arg, const struct sl_fail *fail);
};

/* resume: the session, and its checkpoints, are those of log.dir; each file is read once here, with the errors of
 * sl_last_run_read. Otherwise a new session. Without `keep`, or with an empty log.dir, nothing is kept on disk. */
enum sl_err sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup,
			    const struct sl_training *run, bool keep, bool resume,
			    const struct sl_recover_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;
void sl_recover_close(struct sl_recover *r); /* NULL is fine; behind sl_recover_settle */

/* Fills session, epoch and held of a link about to be opened. */
void sl_recover_offer(struct sl_recover *r, struct sl_remote_conf *conf);

/* The link is lost: takes the state out of it before it is closed; none where a step was applied in part. *done: the
 * step under way turned out to be applied on both sides; *result is its result, and the run has not heard of it. */
enum sl_err sl_recover_lost(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool *done,
			    struct sl_step_result *result, struct sl_fail *fail) SL_MUST_CHECK;

/* A link failed with `err`: whether the next one may stand. A link that is merely lost may be lost any number of times.
 * Refused and broken frames may end 5 links since the last sl_recover_progress, however many were lost between them. A
 * refusal of all that was offered is answered once by an offer that has room for step 0. Counts the failure. */
bool sl_recover_failed(struct sl_recover *r, enum sl_err err);
/* A batch is done: failures are counted from here. */
void sl_recover_progress(struct sl_recover *r);
/* How long until the next link: 1, 2, 4 … times the configured pause by the number of failures, at most 32 s, each
 * shortened by up to a quarter. */
uint64_t sl_recover_retry_ms(const struct sl_recover *r, const struct sl_training *run);

enum sl_restored {
	SL_RESTORED_SAME,  /* as it was when the link was lost: what was under way begins again */
	SL_RESTORED_AHEAD, /* the step under way took place: *result is its result */
	SL_RESTORED_BACK   /* the run stands at an earlier step, or at its start: loaders must follow */
};
/* The link stands and goes on from next_step: gives it the state, and sets the run back where need be. */
enum sl_err sl_recover_restore(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run,
			       uint64_t next_step, enum sl_restored *how, struct sl_step_result *result,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* After a failed restore: where that was a file's fault, the step is no longer offered, and a new link may do better.
 */
bool sl_recover_refuse(struct sl_recover *r, uint64_t next_step, enum sl_err err);

/* Steps whose checkpoints are on the disk, or on their way to it, newest first; 0: none. */
void sl_recover_kept(const struct sl_recover *r, uint64_t kept[SL_CHECKPOINT_KEPT]);
/* Whether the step that is about to begin ends with a checkpoint. */
bool sl_recover_due(const struct sl_recover *r, const struct sl_training *run);
/* Behind such a step: keeps it, if the server has kept its side. */
void sl_recover_keep(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run);
/* At a pause: waits for the file. IO: it is not there, and what is left is an older one. */
enum sl_err sl_recover_keep_last(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* The link is lost (`why`), and the run ends with it: keeps what it has done, as the server does that lives. Not where
 * COMMIT has no answer: the server may be a step ahead, and then could not go on from what was kept. */
void sl_recover_end(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run, enum sl_err why);
/* How long the file that is being written has been; 0: none is. */
uint64_t sl_recover_busy_ms(const struct sl_recover *r);
/* Waits for that file. False: it takes longer than watchdog_s, and whoever closes waits for ever. */
bool sl_recover_settle(struct sl_recover *r) SL_MUST_CHECK;
struct sl_checkpoint_state sl_recover_state(const struct sl_recover *r);
/* What a message that ends the run adds: whether --resume has a checkpoint to go on from. "" where nothing is kept on
 * disk, as by an evaluation, or r is NULL. Static. */
const char *sl_recover_outlook(const struct sl_recover *r);
/* The run was done, and goes on from there: without the server's side of that state it does not go on at all. */
bool sl_recover_longer(const struct sl_recover *r);
/* The run has come to its end at `step`, and no file is being written: its checkpoints are of no more use, and go for
 * good; the last one stays under another name, for a longer run, if the server has its side too. Before
 * goodbye: the server, which has its own, removes them then, and these alone could only begin anew. */
void sl_recover_finish(struct sl_recover *r, const struct sl_remote *remote, uint64_t step);

#endif
