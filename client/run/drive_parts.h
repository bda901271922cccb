/* The run over the link, as drive_remote.c and drive_stop.c share it; nobody else includes this. All of
 * it is of the loop's thread. */
#ifndef SL_CLIENT_RUN_DRIVE_PARTS_H
#define SL_CLIENT_RUN_DRIVE_PARTS_H

#include "client/run/answers.h"
#include "client/run/auth.h"
#include "client/run/drive.h"
#include "client/run/publish.h"
#include "client/run/recover.h"
#include "client/run/remote.h"
#include "common/link/loop.h"

struct drive {
	struct sl_setup *setup;
	const struct sl_drive_options *options;
	struct sl_loop *loop;
	struct sl_async *loaded;
	struct sl_answers answers;
	struct sl_client_auth auth;
	struct sl_remote *remote; /* NULL between two links */
	struct sl_recover *recover;
	struct sl_publish *publish; /* NULL: nothing is, without a log.dir or in an evaluation */
	struct sl_training *run;
	struct sl_loader *loader[SL_SPLIT_COUNT];
	struct sl_loader *from;       /* whose batch is under way */
	const struct sl_batch *batch; /* … and the batch; NULL while `requested` */
	bool requested;               /* the loader owes a batch */
	bool linked, closing;         /* a session stands; is being closed */
	bool astray;                  /* the loaders stand elsewhere than the run: what they owe is of no use */
	bool due;                     /* the step under way ends with a checkpoint */
	bool publishing, waits;       /* the weights that are fetched are to be published; the run waits for the file */
	bool signalled, stop, ending, paused;
	bool concluded; /* the run is done: summary, log, checkpoints */
	bool at_once;   /* the process ends as it is */
	struct sl_timer *retry, *watch, *drain;
	bool nonfinite;               /* the run ends before the step under way, which was abandoned */
	struct sl_fail why;           /* … of that */
	struct sl_training_link link; /* figures of the links that are closed */
	enum sl_err err;
	struct sl_fail *fail;
};

void sl_drive_release_batch(struct drive *d); /* back to its loader, if there is one */

/* The run ends. The link is closed first: with goodbye, or as a pause where the run failed. */
void sl_drive_close_link(struct drive *d);
void sl_drive_end(struct drive *d);                      /* again: does nothing */
void sl_drive_give_up(struct drive *d, enum sl_err err); /* with this error, whose text is in d->fail */
void sl_drive_hung(struct drive *d, uint64_t busy_ms);   /* at once: a task does not end */
void sl_drive_pause(struct drive *d);                    /* both sides keep their state */
void sl_drive_blame_nonfinite(struct drive *d);          /* the error of a step that was abandoned, unless one is set */

void sl_drive_on_watch(void *drive);      /* timer: is there a task that hangs? */
void sl_drive_on_drain_over(void *drive); /* timer: drain_s after a signal */
void sl_drive_on_signal(void *drive, int signum);

#endif
