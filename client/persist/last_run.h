/* What the processes before this one left of a run in log.dir: its session, and the checkpoints to go on from. */
#ifndef SL_CLIENT_PERSIST_LAST_RUN_H
#define SL_CLIENT_PERSIST_LAST_RUN_H

#include "common/conf/conf.h"
#include "common/link/proof.h"
#include "common/link/wire.h"
#include "common/nn/plan.h"

enum { SL_LAST_RUN_STEPS = SL_WIRE_HELD_MAX - 1 }; /* beside them Hello offers step 0 */

struct sl_last_run {
	struct sl_secret secret;          /* of its session: the caller wipes it */
	uint64_t step[SL_LAST_RUN_STEPS]; /* newest first, of files that are whole and of this plan and session */
	int n;
	bool done; /* the run came to its end, and goes on from there because it is to be longer; n is 1 */
};

/* What lies in log.dir of a run that has no checkpoints. */
struct sl_past_run {
	bool model;     /* model.safetensors: that run is done, or was a local one that was interrupted */
	bool resumable; /* … and its last state is there */
	uint64_t steps; /* that the model has been trained; 0: it does not say */
};
struct sl_past_run sl_past_run(const char *dir);

/* Reads every file of conf->log.dir whole, the newest first, until so many are good; a warning names each that is not.
 * Where there is none, the last state of a run that is done, if `total_steps` are more than it has. NOINPUT: neither,
 * with a sentence that says what is there and what can be done; DATA or MISMATCH, the newest one's, where none is
 * good. Where there is something to go on from, errors of sl_run_secret_read. */
enum sl_err sl_last_run_read(struct sl_last_run *out, const struct sl_conf_client *conf, const struct sl_plan *plan,
			     uint64_t total_steps, struct sl_fail *fail) SL_MUST_CHECK;

/* *fail is what the server says as it refuses a run that was done, and is to be longer: adds what can be done. */
void sl_last_run_explain(struct sl_fail *fail);
/* A run is done: removes its checkpoints; the one of `step`, its last state, gets another name instead (`keep`). */
void sl_last_run_finish(const char *dir, uint64_t step, bool keep);

#endif
