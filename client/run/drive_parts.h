/* The run over the link, as the files drive_*.c share it; only they and tests/unit/test_drive.c include this. All of it
 * is of the loop's thread.
 *
 *   drive_table.c   the specification: state × event → actions → next state
 *   drive_event.c   carries a rule out
 *   drive_remote.c  events: what the link, the loader, timers and signals report, as events of the table
 *   drive_act.c     actions of a run that goes on
 *   drive_stop.c    actions of a run that ends */
#ifndef SL_CLIENT_RUN_DRIVE_PARTS_H
#define SL_CLIENT_RUN_DRIVE_PARTS_H

#include "client/link/auth.h"
#include "client/run/answers.h"
#include "client/run/audit.h"
#include "client/run/drive.h"
#include "client/run/publish.h"
#include "client/run/recover.h"
#include "client/run/remote.h"
#include "common/link/loop.h"

enum drive_state {
	DRIVE_LINK,  /* a link is opened, and the server has not welcomed this side yet */
	DRIVE_FEED,  /* the loader is asked for a batch */
	DRIVE_PASS,  /* a step, or a batch of an evaluation, is under way */
	DRIVE_COPY,  /* the middle's weights are fetched for a file that is written while the run goes on */
	DRIVE_WRITE, /* a file is written that the run waits for: COPY's, or a checkpoint */
	DRIVE_FETCH, /* the middle's weights are fetched, and the run ends with them */
	DRIVE_DROP,  /* the link is lost and is being closed; the run goes on with another */
	DRIVE_WAIT,  /* there is no link until the back-off is over */
	DRIVE_QUIT,  /* the link is being closed, and the run ends */
	DRIVE_END,   /* the run has ended, and everything of it can be closed */
	DRIVE_LEAVE, /* the process ends as it is: nothing can be closed while a task hangs */
	DRIVE_STATE_COUNT,
	/* what a rule may name as its next state besides */
	DRIVE_STAY,  /* the same */
	DRIVE_NEXT,  /* what the run wants next: FEED, COPY, WRITE, FETCH or QUIT */
	DRIVE_RESUME /* a link stands: FEED or PASS where the loader owes a batch or there is one, else NEXT */
};

enum drive_event {
	EV_SAME,      /* the server goes on from where this side stands: what was under way begins again */
	EV_AHEAD,     /* the server has applied the step that was in doubt: `result` is its result */
	EV_BACK,      /* both sides go on from an earlier step, or from the start */
	EV_BAD_FILE,  /* a checkpoint cannot be read, and an older one may do */
	EV_BATCH,     /* the loader has a batch, and it is held */
	EV_STALE,     /* the loader has a batch, but of a place that the run has left */
	EV_UNWANTED,  /* the loader has a batch, but the run ends */
	EV_DONE,      /* the step or batch is done: `result` */
	EV_SKIP,      /* the step was abandoned, and the run goes on without it */
	EV_NONFINITE, /* the step was abandoned, and the run ends before it */
	EV_FETCHED,   /* the weights are there; the run is done, or goes on */
	EV_STOPPED,   /* the weights are there; the run ends before its last step */
	EV_UNSAVED,   /* the model of a run that is done could not be written */
	EV_WRITTEN,   /* that file is written, or could not be */
	EV_LOST,      /* the link failed (`cause`), and another may stand */
	EV_OVER,      /* the link failed (`cause`), and the run ends with it */
	EV_CLOSED,    /* the link is closed */
	EV_RETRY,     /* the back-off is over */
	EV_SIGNAL,    /* the first signal */
	EV_DRAIN,     /* drain_s after it; or it is time to look again */
	EV_DRAINED,   /* drain_s is over, and no task runs any more */
	EV_FAULT,     /* the run cannot go on: `err` and `fail` say why */
	EV_LEAVE,     /* a task hangs, or a second signal came: `err` and `fail` say so */
	DRIVE_EVENT_COUNT
};

enum drive_feed {
	FEED_IDLE,  /* nothing is asked of the loaders */
	FEED_OWED,  /* a batch is asked for */
	FEED_HELD,  /* `batch` */
	FEED_STALE, /* a batch is asked for that the run no longer wants */
};

/* Why the run ends before its last step. */
enum drive_why { WHY_NONE, WHY_INTERRUPTED, WHY_NONFINITE };

enum drive_books {
	BOOKS_OPEN,
	BOOKS_PAUSED, /* this side's state is kept, or could not be */
	BOOKS_CLOSED  /* the run is done: the summary is written, and the checkpoints are gone */
};

struct drive {
	struct sl_setup *setup;
	const struct sl_drive_options *options;
	struct sl_loop *loop;
	struct sl_async *loaded;
	struct sl_answers answers;
	struct sl_client_auth auth;
	struct sl_remote *remote; /* NULL in WAIT and END */
	struct sl_recover *recover;
	struct sl_audit *audit;     /* NULL: none */
	struct sl_publish *publish; /* NULL: nothing is published, without a log.dir or in an evaluation */
	struct sl_training *run;
	struct sl_timer *retry, *watch, *drain;
	/* where it stands */
	enum drive_state state;
	unsigned moves; /* so many events have led to another state */
	enum drive_feed feed;
	enum drive_why why;
	enum drive_books books;
	bool joined; /* a link was welcomed */
	int signum;  /* of the first signal; 0: none came */
	/* the batch under way, or asked for */
	struct sl_loader *loader[SL_SPLIT_COUNT];
	struct sl_loader *from;
	const struct sl_batch *batch; /* FEED_HELD */
	bool due;                     /* the step under way ends with a checkpoint */
	/* what events bring along */
	struct sl_step_result result;
	struct sl_fail cause;
	struct sl_fail abandoned; /* WHY_NONFINITE: what the run ends with */
	/* what the run has come to */
	struct sl_training_link link; /* figures of the links that are closed */
	enum sl_err err;
	struct sl_fail *fail;
	uint64_t waits_ms; /* since when it waits for the weights of its last step, and for its group; 0: it does not */
};

/* Carries out the rule of d->state and this event. Without one the event means nothing. An action may cause another
 * event: where that one leads to a state, this one's next state is void. */
void sl_drive_event(struct drive *d, enum drive_event ev);
/* EV_FAULT with this error, whose text is in d->fail. */
void sl_drive_fault(struct drive *d, enum sl_err err);
/* EV_LEAVE with this error, whose text is in d->fail. */
void sl_drive_leave(struct drive *d, enum sl_err err);
/* Brings the run's traffic up to date, and notes it. */
void sl_drive_count(struct drive *d);
/* EV_LEAVE: a task has run for so long. */
void sl_drive_hung(struct drive *d, uint64_t busy_ms);

/* An action. False: the rule's other actions and its next state are void, since an event decided otherwise. */
typedef bool sl_drive_act(struct drive *d);

enum { DRIVE_ACTS = 6 };

struct drive_rule {
	sl_drive_act *act[DRIVE_ACTS]; /* in this order; NULL behind the last */
	uint8_t next;                  /* enum drive_state */
	bool there;                    /* false: the event means nothing in this state */
};

extern const struct drive_rule sl_drive_table[DRIVE_STATE_COUNT][DRIVE_EVENT_COUNT];

bool sl_drive_is_open(const struct drive *d); /* a link is opened or stands: LINK … FETCH */
bool sl_drive_is_up(const struct drive *d);   /* a link stands: FEED … FETCH */

/* drive_act.c: a run that goes on */
sl_drive_act sl_act_note_link, sl_act_note_ahead, sl_act_join, sl_act_go_back, sl_act_seek, sl_act_release,
	sl_act_begin;
sl_drive_act sl_act_book, sl_act_keep_if_due, sl_act_skip, sl_act_fetch, sl_act_publish;
sl_drive_act sl_act_hold_state, sl_act_back_off, sl_act_open_link;
void sl_drive_next(struct drive *d);   /* enters the state that DRIVE_NEXT stands for */
void sl_drive_resume(struct drive *d); /* enters the state that DRIVE_RESUME stands for */

/* drive_stop.c: a run that ends */
sl_drive_act sl_act_pause_link, sl_act_close_link, sl_act_stop_loop, sl_act_leave;
sl_drive_act sl_act_save, sl_act_save_anyway, sl_act_end_phase, sl_act_settle, sl_act_summarize, sl_act_forget;
sl_drive_act sl_act_keep_last, sl_act_keep_certain, sl_act_blame_nonfinite;
sl_drive_act sl_act_arm_drain, sl_act_end_early, sl_act_give_up;
sl_drive_act sl_act_look_idle, sl_act_look_again, sl_act_end_drained;

#endif
