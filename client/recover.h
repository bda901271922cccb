/* The client's memory across links and processes: which steps it can go on from, the state that belongs to each, and
 * the checkpoints on disk. It is the authority of a recovery: the server takes the newest of the steps offered here.
 *
 * A step is offered where its state is at hand: the one under way (nothing of it has been applied), the one behind it
 * where only the server's answer to COMMIT is missing, and two checkpoints. Loop thread; files are written by a worker
 * of its own. */
#ifndef SL_CLIENT_RECOVER_H
#define SL_CLIENT_RECOVER_H

#include "client/remote.h"
#include "client/training.h"
#include "common/link/loop.h"

struct sl_recover;

/* resume: the session, and its checkpoints, are those of log.dir; NOINPUT where there are none. Otherwise a new
 * session, and old checkpoints are removed. Without `keep`, or with an empty log.dir, nothing is kept on disk. */
enum sl_err sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup, bool keep,
			    bool resume, struct sl_fail *fail) SL_MUST_CHECK;
void sl_recover_close(struct sl_recover *r); /* NULL is fine; waits for a file being written */

/* Fills session, epoch and held of a link about to be opened. */
void sl_recover_offer(struct sl_recover *r, struct sl_remote_conf *conf);

/* The link is lost: takes the state out of it before it is closed. *done: the step under way turned out to be applied
 * on both sides; *result is its result, and the run has not heard of it. */
enum sl_err sl_recover_lost(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool *done,
			    struct sl_step_result *result, struct sl_fail *fail) SL_MUST_CHECK;

enum sl_restored {
	SL_RESTORED_SAME,  /* as it was when the link was lost: what was under way begins again */
	SL_RESTORED_AHEAD, /* the step under way took place: *result is its result */
	SL_RESTORED_BACK   /* the run stands at an earlier step, or at its start: loaders must follow */
};
/* The link stands and goes on from next_step: gives it the state, and sets the run back where need be. */
enum sl_err sl_recover_restore(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run,
			       uint64_t next_step, enum sl_restored *how, struct sl_step_result *result,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* Whether the step that is about to begin ends with a checkpoint. */
bool sl_recover_due(const struct sl_recover *r, const struct sl_training *run);
/* Behind such a step, if the server has kept its side; or at a pause, `wait` for the file. Failures are logged. */
void sl_recover_keep(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool wait);
/* The run is over: its checkpoints are of no more use. */
void sl_recover_forget(struct sl_recover *r);

#endif
