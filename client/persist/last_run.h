/* Reads what earlier processes of a run left in log.dir: the session's secret, and the checkpoints to go on from. */
#ifndef SL_CLIENT_PERSIST_LAST_RUN_H
#define SL_CLIENT_PERSIST_LAST_RUN_H

#include "client/persist/same_run.h"
#include "common/conf/conf.h"
#include "common/exec/plan.h"
#include "common/link/proof.h"
#include "common/link/wire.h"

enum { SL_LAST_RUN_STEPS = SL_WIRE_HELD_MAX - 3 }; /* Hello offers these, step 0, and two in memory */

/* The note of a checkpoint whose counterpart may not be on the server's disk. */
#define SL_LAST_RUN_UNSURE "unsure"

struct sl_last_run {
	struct sl_secret secret;          /* the session's; the caller wipes it */
	uint64_t step[SL_LAST_RUN_STEPS]; /* steps of good files, newest first: whole, of this plan and this session */
	int n;
	int confirmed; /* of so many behind step 0 the server has confirmed that its side is on its disk */
	bool done;     /* the last one is the end of a finished run that is made longer; its file has another name */
};

/* A run in log.dir that has no checkpoints. */
struct sl_past_run {
	bool done;      /* the run is done, or `stopped`: its model, its last state or its summary is there */
	bool model;     /* model.safetensors is there; else somebody has moved it */
	bool stopped;   /* a local run whose summary says that it ended early */
	bool resumable; /* the run is done, and its last state is there */
	uint64_t steps; /* that the model was trained for; 0: unknown */
};
struct sl_past_run sl_past_run(const char *dir);
/* Whether a checkpoint, or the log's last line, says that the run in log.dir is not done. */
bool sl_past_run_is_open(const char *dir);
/* The summary at the end of the run's log, as JSON; NULL: there is none. The caller frees it. */
char *sl_past_run_summary(const char *dir);
/* The same as sl_same_run_changed for the run in log.dir that is done after `steps`, and left its last state. */
bool sl_past_run_changed(const struct sl_conf_client *conf, uint64_t steps, char out[SL_SAME_RUN_TEXT]);
/* Sets *epochs to the number of epochs of a finished run whose last state is that of step `steps`. */
enum sl_err sl_past_run_epochs(const char *dir, uint64_t steps, int *epochs, struct sl_fail *fail) SL_MUST_CHECK;

/* Reads and checks the checkpoints in conf->log.dir, newest first, until SL_LAST_RUN_STEPS are good. A warning names
 * each bad one. After them it takes the last state of a finished run, if `total_steps` is more than that run's length:
 * the server may have no later one. NOINPUT: there is neither; the text says what is there and what can be done. DATA
 * or MISMATCH: no checkpoint is good; the error is that of the newest. Otherwise errors of sl_run_secret_read. */
enum sl_err sl_last_run_read(struct sl_last_run *out, const struct sl_conf_client *conf, const struct sl_plan *plan,
			     uint64_t total_steps, struct sl_fail *fail) SL_MUST_CHECK;

/* The server did not go on from the client's file of `step`, for the reason in *fail: adds to MISMATCH which settings
 * changed since that file and, where `done`, what the user can do to make a finished run longer. */
void sl_last_run_explain(const struct sl_conf_client *conf, bool done, uint64_t step, struct sl_fail *fail);
/* Logs that the state behind the last step was not kept, and what follows; waits: of a group's member. */
void sl_last_run_say_unkept(const struct sl_fail *why, bool waits);
/* The run is done: removes its checkpoints. With `keep` the one of `step`, its last state, is renamed instead; without
 * it the session's secret goes too. False: one could not be removed, so the run does not pass for done. */
bool sl_last_run_finish(const char *dir, uint64_t step, bool keep);

#endif
