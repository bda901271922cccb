/* What earlier processes of a run left in log.dir: its session, and the checkpoints to go on from. */
#ifndef SL_CLIENT_PERSIST_LAST_RUN_H
#define SL_CLIENT_PERSIST_LAST_RUN_H

#include "common/conf/conf.h"
#include "common/exec/plan.h"
#include "common/link/proof.h"
#include "common/link/wire.h"

enum { SL_LAST_RUN_STEPS = SL_WIRE_HELD_MAX - 1 }; /* beside them Hello offers step 0 */

/* The note of a checkpoint whose other side may not be on the server's disk. */
#define SL_LAST_RUN_UNSURE "unsure"

struct sl_last_run {
	struct sl_secret secret;          /* of its session: the caller wipes it */
	uint64_t step[SL_LAST_RUN_STEPS]; /* newest first, of files that are whole and of this plan and session */
	int n;
	bool certain; /* of one of them the server has said that its side is on its disk */
	bool done;    /* the last of them is the end of a run that is to be longer: that file has another name */
};

/* What lies in log.dir of a run that has no checkpoints. */
struct sl_past_run {
	bool model;     /* model.safetensors: that run is done, or `stopped` */
	bool stopped;   /* its summary says that it did not come to its end: a local one */
	bool resumable; /* the run is done, and its last state is there */
	uint64_t steps; /* that the model has been trained; 0: it does not say */
};
struct sl_past_run sl_past_run(const char *dir);
/* How many epochs the run had whose last state is that of `steps`. */
enum sl_err sl_past_run_epochs(const char *dir, uint64_t steps, int *epochs, struct sl_fail *fail) SL_MUST_CHECK;

/* Reads the checkpoints in conf->log.dir whole, newest first, until SL_LAST_RUN_STEPS are good. A warning names each
 * bad one. Behind them it takes the last state of a finished run, if `total_steps` is more than that run's length: the
 * server may hold no later one. NOINPUT: there is neither; the text says what is there and what can be done. DATA or
 * MISMATCH: no checkpoint is good; the error is that of the newest. Otherwise errors of sl_run_secret_read. */
enum sl_err sl_last_run_read(struct sl_last_run *out, const struct sl_conf_client *conf, const struct sl_plan *plan,
			     uint64_t total_steps, struct sl_fail *fail) SL_MUST_CHECK;

/* The server refused to make a finished run longer, for the reason in *fail: adds what the user can do. */
void sl_last_run_explain(struct sl_fail *fail);
/* A run is done: removes its checkpoints; the one of `step`, its last state, gets another name instead (`keep`). */
void sl_last_run_finish(const char *dir, uint64_t step, bool keep);

#endif
