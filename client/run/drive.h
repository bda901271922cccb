/* Runs a training run or an evaluation to its end: with a server (an event loop, the control socket, signals) or in
 * this process. */
#ifndef SL_CLIENT_RUN_DRIVE_H
#define SL_CLIENT_RUN_DRIVE_H

#include "client/run/predict.h"
#include "client/run/training.h"

struct sl_phase_end; /* phase.h */

struct sl_drive_options {
	bool eval_only;
	bool resume;                /* go on from the newest checkpoint of log.dir; over a link only */
	bool fresh;                 /* a run that log.dir holds is removed; looked at by a local group alone */
	const char *absent;         /* of a local group: as sl_absent_check reads it; NULL: nobody */
	bool json;                  /* the summary goes to stdout as JSON */
	struct sl_phase_end *end;   /* of a local run with phases: what one hands to the next; else NULL */
	struct sl_predict *predict; /* with eval_only: a line per sample, and no summary; NULL: none */
};

/* `setup` has its plan, weights, data and backend. Trained weights end up in setup->weights, and for a training run
 * in log.dir/model.safetensors. A first SIGINT or SIGTERM ends the run after the step under way, in good order. */
enum sl_err sl_drive(struct sl_setup *setup, const struct sl_drive_options *options, bool local,
		     struct sl_fail *fail) SL_MUST_CHECK;
/* The two runs that sl_drive chooses between. Where no server answers, the remote one says what the network does. */
enum sl_err sl_drive_local(struct sl_setup *setup, const struct sl_drive_options *options,
			   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_drive_remote(struct sl_setup *setup, const struct sl_drive_options *options,
			    struct sl_fail *fail) SL_MUST_CHECK;

/* No server answered in time, as *fail says: probes the network and adds what it finds. Where a server answers too
 * slowly for link.connect_timeout_ms, the text has a value that suffices. TIMEOUT, or AUTH where the keys are wrong.
 * Blocks for 2 s or half of link.connect_timeout_ms, at most 10 s, or until a signal. */
enum sl_err sl_drive_explain(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;

/* Writes setup->weights to log.dir/model.safetensors, unless log.dir is "". */
enum sl_err sl_drive_save(const struct sl_setup *setup, uint64_t steps, struct sl_fail *fail) SL_MUST_CHECK;
struct sl_local;
/* The weights of `local` to log.dir/best.safetensors. A file that cannot be written costs these weights, not the run.
 */
enum sl_err sl_drive_keep_best(struct sl_setup *setup, struct sl_local *local, struct sl_training *run,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* Of a run in this process. From the first call on a first SIGINT, SIGTERM or SIGHUP asks for the run's end, and a
 * second one ends the process. */
void sl_drive_catch_signals(void);
bool sl_drive_stopped(void);
/* The summary. No link: what would have crossed it is payload alone. */
void sl_drive_summary(struct sl_training *run, const struct sl_local *local, bool nonfinite, bool json);

#endif
