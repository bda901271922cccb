/* What the client can go on from when a link or a process ends: steps, the state of each, and the checkpoints on disk.
 * The client offers these steps, and the server takes the newest of them that it has too.
 *
 * A step is offered if its state is at hand. The client has the state of the step under way, as nothing of it has been
 * applied. It has that of the next step if only the server's answer to COMMIT is missing. And it has checkpoints.
 * Loop thread; a worker of its own writes the files. */
#ifndef SL_CLIENT_TRAIN_RECOVER_H
#define SL_CLIENT_TRAIN_RECOVER_H

#include "client/pass/remote.h"
#include "client/train/training.h"
#include "common/link/loop.h"

struct sl_recover;

struct sl_recover_events {
	/* A checkpoint could not be written on this side, or the server has none. `needed`: its group cannot go on
	 * without it, and a second try has failed. On the loop; may end the run. */
	void (*missed)(void *arg, const struct sl_fail *fail, bool needed);
	/* A checkpoint is written, or could not be: sl_recover_must_wait may have changed. On the loop. */
	void (*written)(void *arg);
};

/* ANEW: a new session. SAME: that whose secret is in log.dir, if there is one; it has no checkpoint. FILES: that
 * session with its checkpoints; each file is read once, with the errors of sl_last_run_read. */
enum sl_recover_as { SL_RECOVER_ANEW, SL_RECOVER_SAME, SL_RECOVER_FILES };
/* Without `keep`, or with an empty log.dir, nothing is kept on disk. */
enum sl_err sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup,
			    const struct sl_training *run, bool keep, enum sl_recover_as as,
			    const struct sl_recover_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;
void sl_recover_close(struct sl_recover *r); /* after sl_recover_settle; NULL is fine */

/* Fills in what the link about to be opened offers. */
void sl_recover_offer(struct sl_recover *r, struct sl_offer *offer);

/* The link is lost: copies its state before it is closed, unless a step was applied in part. *done: both sides have
 * applied the step under way, which the run has not counted yet; *result is its result. */
enum sl_err sl_recover_lost(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool *done,
			    struct sl_step_result *result, struct sl_fail *fail) SL_MUST_CHECK;

enum sl_restored {
	SL_RESTORED_SAME,  /* as it was when the link was lost: what was under way begins again */
	SL_RESTORED_AHEAD, /* the step under way took place: *result is its result */
	SL_RESTORED_BACK   /* the run stands at an earlier step, or at its start: loaders must follow */
};
/* The link is up and goes on from next_step: gives it the state of that step, and sets the run back if necessary. */
enum sl_err sl_recover_restore(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run,
			       uint64_t next_step, enum sl_restored *how, struct sl_step_result *result,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* Checks *s, the state of the step from which the link goes on, before it is given to the link; _restore does so by
 * itself. MISMATCH: the server's state of that step was made by another link than *s. */
enum sl_err sl_recover_check_made(const struct sl_remote *remote, const struct sl_client_state *s,
				  struct sl_fail *fail) SL_MUST_CHECK;

/* After a failed restore. True: it was a file's fault; its step is no longer offered, and a new link may succeed. */
bool sl_recover_refuse(struct sl_recover *r, uint64_t next_step, enum sl_err err);

/* Steps whose checkpoints are on the disk, newest first; 0: none. True: the newest is still being written. */
bool sl_recover_kept(const struct sl_recover *r, uint64_t kept[SL_CHECKPOINT_KEPT]);
/* Whether the step that is about to begin ends with a checkpoint. A longer run goes on from that of the last step. */
bool sl_recover_due(const struct sl_recover *r, const struct sl_training *run);
/* Whether that step cannot begin yet, because the checkpoint before it is still being written. The last step
 * waits, too: a run that is made longer goes on from its state. Members of a group always wait: the others keep no
 * older checkpoint once that step is done. */
bool sl_recover_must_wait(struct sl_recover *r, const struct sl_training *run);
/* After a step that was due: writes the checkpoint, if the server has written its side. `ahead`: the link was lost
 * while the step was in doubt, so that is not known. A member of a group writes it even so: the others have theirs
 * of this step, and remove their older ones with their next checkpoint. */
void sl_recover_keep(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool ahead);
/* At a pause: writes a checkpoint, and waits for it. IO: it could not be written, and at best an older one is left. */
enum sl_err sl_recover_keep_last(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* After the last step and sl_recover_settle: writes its checkpoint, if the file is missing and the server has its side.
 * A member of a group of fixed size writes it anyhow: its model alone would pass for that of a run that is done, while
 * others may have to begin anew with it. IO: it could not be written. */
enum sl_err sl_recover_keep_done(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* Whether the checkpoint of the last step is on both sides' disks, or the run keeps none. */
bool sl_recover_has_end(const struct sl_recover *r, const struct sl_remote *remote, const struct sl_training *run);
/* The link is lost (`why`), and the run ends with it: writes a checkpoint, as a server that is alive does, too. Not so
 * if the answer to COMMIT is missing: the server may be a step ahead, and could then not go on from that checkpoint. */
void sl_recover_end(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run, enum sl_err why);
/* Like sl_recover_end, where the run goes on: writes what sl_recover_lost copied, in case no other link ever comes. */
void sl_recover_keep_held(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run);
/* For how long the current file has been written; 0: none is being written. */
uint64_t sl_recover_busy_ms(const struct sl_recover *r);
/* Waits for that file. False: it takes longer than watchdog_s; sl_recover_close would wait without limit. */
bool sl_recover_settle(struct sl_recover *r) SL_MUST_CHECK;
struct sl_checkpoint_state sl_recover_state(const struct sl_recover *r);
/* The end of a message about the end of the run: whether --resume has a checkpoint to go on from. "" if nothing is kept
 * on disk, as in an evaluation, or r is NULL. Static. */
const char *sl_recover_outlook(const struct sl_recover *r);
/* The server did not take a run that goes on from files: adds to MISMATCH which settings changed since, and what the
 * user can do where a finished run is made longer, which needs the server's side of its last state. */
void sl_recover_explain(const struct sl_recover *r, struct sl_fail *fail);
/* The run has finished at `step`, and no file is being written: removes its checkpoints. The last one stays under
 * another name, for a longer run, if the server has its side too. Call before goodbye: the server then removes its
 * checkpoints, and a client that has its own alone could only start over. IO: one could not be removed. */
enum sl_err sl_recover_finish(struct sl_recover *r, const struct sl_remote *remote, uint64_t step,
			      struct sl_fail *fail) SL_MUST_CHECK;

#endif
