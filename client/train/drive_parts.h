/* A run over the link: what the files drive_*.c share. Only they and tests/unit/test_drive.c include this. Everything
 * runs on the loop thread.
 *
 *   drive_table.c   the specification: state × event → actions → next state
 *   drive_event.c   carries out a rule of the table
 *   drive_judge.c   what follows from the loss of a link
 *   drive_remote.c  events: what the link, the loader, timers and signals report, as events of the table
 *   drive_act.c     actions of a run that goes on
 *   drive_stop.c    actions of a run that ends */
#ifndef SL_CLIENT_TRAIN_DRIVE_PARTS_H
#define SL_CLIENT_TRAIN_DRIVE_PARTS_H

#include "client/link/auth.h"
#include "client/pass/audit.h"
#include "client/pass/remote.h"
#include "client/train/answers.h"
#include "client/train/drive.h"
#include "client/train/publish.h"
#include "client/train/recover.h"
#include "common/link/loop.h"

enum drive_state {
	DRIVE_LINK,  /* a link is being opened, and the server has not sent Welcome yet */
	DRIVE_FEED,  /* waits for a batch of the loader */
	DRIVE_PASS,  /* a step, or a batch of an evaluation, is under way */
	DRIVE_COPY,  /* the middle is being fetched for a file or an audit; then the run goes on */
	DRIVE_WRITE, /* waits until a file is written: COPY's, or a checkpoint */
	DRIVE_FETCH, /* the middle is being fetched, and the run ends with it */
	DRIVE_DROP,  /* the link is lost and is being closed; the run goes on with another */
	DRIVE_WAIT,  /* there is no link until the back-off is over */
	DRIVE_QUIT,  /* the link is being closed, and the run ends */
	DRIVE_END,   /* the run has ended, and everything of it can be closed */
	DRIVE_LEAVE, /* the process ends as it is: nothing can be closed while a task hangs */
	DRIVE_STATE_COUNT,
	/* a rule may also have one of these as its next state */
	DRIVE_STAY,  /* the state stays */
	DRIVE_NEXT,  /* what the run wants next: FEED, PASS, COPY, WRITE, FETCH or QUIT */
	DRIVE_RESUME /* after a new link: FEED if a batch is requested, PASS if one is held, else as NEXT */
};

enum drive_event {
	EV_SAME,      /* the server goes on from the client's step: what was under way begins again */
	EV_AHEAD,     /* the server has applied the step that was in doubt: `result` is its result */
	EV_BACK,      /* both sides go on from an earlier step, or from the start */
	EV_BAD_FILE,  /* a checkpoint cannot be read; an older one is to be tried */
	EV_BATCH,     /* the loader has delivered a batch */
	EV_STALE,     /* the loader has delivered a batch, but from a position that the run has left */
	EV_UNWANTED,  /* the loader has delivered a batch, but the run ends */
	EV_DONE,      /* the step or batch is done: `result` */
	EV_SKIP,      /* the step was abandoned, and the run goes on without it */
	EV_NONFINITE, /* the step was abandoned, and the run ends before it */
	EV_FETCHED,   /* the weights are there; the run is done, or goes on */
	EV_STOPPED,   /* the weights are there; the run ends before its last step */
	EV_UNSAVED,   /* the model of a run that is done could not be written */
	EV_WRITTEN,   /* the file that WRITE waits for is written, or could not be */
	EV_LOST,      /* the link failed (`cause`), and another is to be tried */
	EV_OVER,      /* the link failed (`cause`), and the run ends with it */
	EV_CLOSED,    /* the link is closed */
	EV_RETRY,     /* the back-off is over */
	EV_SIGNAL,    /* the first signal */
	EV_DRAIN,     /* drain_s has passed since the signal, or it is time to look again for a running task */
	EV_DRAINED,   /* drain_s is over, and no task runs any more */
	EV_FAULT,     /* the run cannot go on: `err` and `fail` say why */
	EV_LEAVE,     /* a task hangs, or a second signal came: `err` and `fail` say so */
	DRIVE_EVENT_COUNT
};

enum drive_feed {
	FEED_IDLE,  /* no batch is requested */
	FEED_OWED,  /* a batch is requested */
	FEED_HELD,  /* `batch` has been delivered */
	FEED_STALE, /* a batch is requested that the run no longer wants */
};

/* Why the run ends before its last step. */
enum drive_why { WHY_NONE, WHY_INTERRUPTED, WHY_NONFINITE };

enum drive_books {
	BOOKS_OPEN,
	BOOKS_PAUSED, /* the client's state was saved, or could not be */
	BOOKS_CLOSED  /* the summary is written */
};

struct drive;

/* An action. False: it has raised an event that takes over; the rule's other actions and its next state are ignored. */
typedef bool sl_drive_act(struct drive *d);

enum { DRIVE_ACTS = 7 };

struct drive_rule {
	sl_drive_act *act[DRIVE_ACTS]; /* in this order; NULL after the last */
	uint8_t next;                  /* enum drive_state */
	bool there;                    /* false: the event is ignored in this state */
};

struct drive {
	const struct drive_rule (*table)[DRIVE_EVENT_COUNT]; /* sl_drive_table */
	struct sl_setup *setup;
	const struct sl_drive_options *options;
	struct sl_loop *loop;
	struct sl_async *loaded;
	struct sl_answers answers;
	struct sl_client_auth auth;
	struct sl_remote *remote; /* NULL in WAIT and END */
	struct sl_recover *recover;
	struct sl_audit *audit;     /* NULL: none */
	struct sl_publish *publish; /* NULL: there is no log.dir, or this is an evaluation */
	struct sl_training *run;
	struct sl_timer *retry, *watch, *drain;
	/* where it stands */
	enum drive_state state;
	unsigned moves; /* changes of state so far: by it an event sees that an action has caused another one */
	enum drive_feed feed;
	enum drive_why why;
	enum drive_books books;
	bool joined;            /* the server has welcomed a link */
	bool written;           /* a model was written: setup->weights are not those that the run began with */
	uint8_t first_hash[16]; /* of the middle's weights that the run began with */
	bool saved;             /* the model is written, and this member waits until those of its group are */
	int signum;             /* of the first signal; 0: none came */
	/* the batch under way, or requested */
	struct sl_loader *loader[SL_SPLIT_COUNT];
	struct sl_loader *from;
	const struct sl_batch *batch; /* set while FEED_HELD */
	bool due;                     /* the step under way ends with a checkpoint */
	/* set by whoever raises an event */
	struct sl_step_result result;
	struct sl_fail cause;
	struct sl_retry failed;   /* links since the last batch that was done */
	uint64_t lost_before;     /* the first step that no lost link has reached; 0: none was lost */
	struct sl_fail abandoned; /* WHY_NONFINITE: what the run ends with */
	/* the run's outcome so far */
	struct sl_training_link link; /* figures of the links that are closed */
	enum sl_err err;
	struct sl_fail *fail;
	uint64_t waits_ms; /* when it began to wait for its last step's weights, and for its group; 0: it does not */
};

/* Carries out the rule for d->state and this event. Without a rule the event is ignored. An action may cause another
 * event; if that one sets the state, this rule's next state is ignored. */
void sl_drive_event(struct drive *d, enum drive_event ev);
/* Raises EV_FAULT with this error, whose text is in d->fail. */
void sl_drive_fault(struct drive *d, enum sl_err err);
/* Raises EV_LEAVE with this error, whose text is in d->fail. */
void sl_drive_leave(struct drive *d, enum sl_err err);
/* Updates the run's counters of traffic, and notes them in log.dir. */
void sl_drive_count(struct drive *d);
/* Logs what an audit has found, and counts audits. Raises EV_FAULT if `err` is an error, whose text is in d->fail, and
 * returns whether it is. */
bool sl_drive_handle_audit(struct drive *d, enum sl_err err);
/* Raises EV_LEAVE, because a task has run for busy_ms. */
void sl_drive_hung(struct drive *d, uint64_t busy_ms);
const char *sl_drive_outcome(const struct drive *d); /* as sl_training_finish takes it */

extern const struct drive_rule sl_drive_table[DRIVE_STATE_COUNT][DRIVE_EVENT_COUNT];

bool sl_drive_is_open(const struct drive *d); /* a link is being opened, or is up: LINK … FETCH */
bool sl_drive_is_up(const struct drive *d);   /* a link is up: FEED … FETCH */

/* A link that failed, and its run. */
enum {
	LOSS_WAITS = 1,         /* link.on_server_lost: wait */
	LOSS_MEMBER = 2,        /* of a group whose members have the same steps; the server has welcomed it */
	LOSS_STALLED = 4,       /* link.stall_s */
	LOSS_RESTARTED = 8,     /* the server answers, but has no session: the first loss since the run got further */
	LOSS_RETRIED = 16,      /* another link has failed since a batch was done */
	LOSS_AGAIN = 32,        /* sl_retry_failed */
	LOSS_KNOWN = 64,        /* the server has welcomed this run before */
	LOSS_AT_DOOR = 128,     /* but not this link */
	LOSS_ENDS = 256,        /* the run is being stopped */
	LOSS_MAY_BE_LAST = 512, /* of a group: the run is done, and others may be gone */
	LOSS_TRAINS = 1024,     /* in a step, not in an evaluation */
	LOSS_GAVE_UP = 2048,    /* the group has waited for share.wait_s */
};
struct sl_loss {
	enum sl_err code;
	unsigned is; /* LOSS_ */
};
enum sl_explain { SL_EXPLAIN_NOTHING, SL_EXPLAIN_EVALUATION, SL_EXPLAIN_LAST };
struct sl_verdict {
	bool wait; /* for the server: another link is tried */
	enum sl_err code;
	enum sl_explain explain; /* what the sentence adds */
};
struct sl_verdict sl_drive_judge(const struct sl_loss *loss);

/* drive_act.c: a run that goes on */
sl_drive_act sl_act_note_link, sl_act_note_ahead, sl_act_join, sl_act_go_back, sl_act_seek, sl_act_release,
	sl_act_begin;
sl_drive_act sl_act_book, sl_act_keep_if_due, sl_act_keep_ahead, sl_act_skip, sl_act_fetch, sl_act_publish;
sl_drive_act sl_act_hold_state, sl_act_back_off, sl_act_open_link;
void sl_drive_next(struct drive *d);   /* enters the state that DRIVE_NEXT stands for */
void sl_drive_resume(struct drive *d); /* enters the state that DRIVE_RESUME stands for */

/* drive_stop.c: a run that ends */
sl_drive_act sl_act_pause_link, sl_act_close_link, sl_act_stop_loop, sl_act_leave;
sl_drive_act sl_act_save, sl_act_tell_saved, sl_act_save_anyway, sl_act_end_phase, sl_act_settle, sl_act_summarize;
sl_drive_act sl_act_forget;
sl_drive_act sl_act_keep_last, sl_act_keep_certain, sl_act_blame_nonfinite;
sl_drive_act sl_act_arm_drain, sl_act_end_early, sl_act_give_up;
sl_drive_act sl_act_look_idle, sl_act_look_again, sl_act_end_drained;

#endif
