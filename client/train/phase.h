/* Phases of a run (train.phases): each is a run of its own, which goes on from the last state of the one before with
 * another plan. Its config is the user's with the phase's sizes. */
#ifndef SL_CLIENT_TRAIN_PHASE_H
#define SL_CLIENT_TRAIN_PHASE_H

#include "client/pass/local.h"
#include "client/setup/setup.h"

/* The config of phase `index`, with its own epochs. */
void sl_phase_conf(struct sl_conf_client *out, const struct sl_conf_client *conf, int index);
/* Phase `index`, which begins with `step`. */
struct sl_phase sl_phase_at(const struct sl_conf_client *conf, int index, uint64_t step);

/* The run in log.dir. NONE: there is none to go on with; OPEN: --resume goes on, maybe with the next phase; DONE. */
enum sl_run_rest { SL_RUN_NONE, SL_RUN_OPEN, SL_RUN_DONE };
enum sl_run_rest sl_run_rest(const struct sl_conf_client *conf);
/* Checks that every phase has a valid plan and transforms, and the parameters of the phase before it. CONFIG names the
 * phase and what is wrong. `local`: no checkpoint is needed. */
enum sl_err sl_phases_check(const struct sl_conf_client *conf, bool local, struct sl_fail *fail) SL_MUST_CHECK;
/* Steps of all phases. */
enum sl_err sl_phases_steps(const struct sl_conf_client *conf, int64_t samples, uint64_t *steps,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Where the run in log.dir stands: the first phase that is not done, and the step that it begins with. NOINPUT: all
 * are done. CONFIG: the run there does not stand at the end of a phase. */
enum sl_err sl_phases_done(const struct sl_conf_client *conf, int *index, uint64_t *step,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* What a phase of a local run leaves to the next. */
struct sl_phase_end {
	bool done; /* the phase has come to its end */
	uint64_t step;
	struct sl_local_state state;
	struct sl_checkpoint notes;
};
void sl_phase_end_close(struct sl_phase_end *end); /* a zeroed one is fine */

#endif
