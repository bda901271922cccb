/* What the processes before this one left of a run in log.dir: its session, and the checkpoints to go on from. */
#ifndef SL_CLIENT_LAST_RUN_H
#define SL_CLIENT_LAST_RUN_H

#include "client/setup.h"
#include "common/link/wire.h"

enum { SL_LAST_RUN_STEPS = SL_WIRE_HELD_MAX - 1 }; /* beside them Hello offers step 0 */

struct sl_last_run {
	uint8_t session[16];
	uint64_t step[SL_LAST_RUN_STEPS]; /* newest first, of files that are whole and of this plan and session */
	int n;
};

/* Reads every file of conf->log.dir whole, the newest first, until so many are good; a warning names each that is not.
 * NOINPUT where there are none, with a sentence that says whether the run of `total_steps` is done; DATA or MISMATCH,
 * the newest one's, where none is good. */
enum sl_err sl_last_run_read(struct sl_last_run *out, const struct sl_setup *setup, uint64_t total_steps,
			     struct sl_fail *fail) SL_MUST_CHECK;

#endif
