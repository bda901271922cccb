/* Runs a training run or an evaluation to its end: with a server (an event loop, the control socket, signals) or in
 * this process. */
#ifndef SL_CLIENT_TRAIN_DRIVE_H
#define SL_CLIENT_TRAIN_DRIVE_H

#include "client/predict/predict.h"
#include "client/train/training.h"

struct sl_phase_end; /* phase.h */

struct sl_drive_options {
	bool eval_only;
	bool resume;        /* go on from the newest checkpoint of log.dir; over a link only */
	bool fresh;         /* replace a run that log.dir holds; a local group, and a member of a group, look at it */
	const char *absent; /* for a local group: the list of --absent (absent.h); NULL: nobody */
	bool json;          /* the summary goes to stdout as JSON */
	struct sl_phase_end *end;   /* for a local run with phases: what a phase hands to the next; else NULL */
	struct sl_predict *predict; /* with eval_only: prints a line per sample in place of the summary; else NULL */
};

/* `setup` has its plan, weights, data and backend. Trained weights end up in setup->weights, and for a training run
 * in log.dir/model.safetensors. A first SIGINT or SIGTERM ends the run after the step under way, in good order. */
enum sl_err sl_drive(struct sl_setup *setup, const struct sl_drive_options *options, bool local,
		     struct sl_fail *fail) SL_MUST_CHECK;
/* The two runs that sl_drive chooses between. If no server answers, the remote one calls sl_link_explain. */
enum sl_err sl_drive_local(struct sl_setup *setup, const struct sl_drive_options *options,
			   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_drive_remote(struct sl_setup *setup, const struct sl_drive_options *options,
			    struct sl_fail *fail) SL_MUST_CHECK;

/* Writes setup->weights, as they are now in the run, to log.dir/model.safetensors, unless log.dir is "". made: as for
 * sl_about_text. */
enum sl_err sl_drive_save(const struct sl_setup *setup, const struct sl_training *run, uint64_t made,
			  struct sl_fail *fail) SL_MUST_CHECK;
struct sl_local;
/* Writes the weights of `local` to log.dir/best.safetensors. If the file cannot be written, the run goes on without. */
enum sl_err sl_drive_keep_best(struct sl_setup *setup, struct sl_local *local, struct sl_training *run,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* For a run in this process. Once it is called, a first SIGINT, SIGTERM or SIGHUP makes sl_drive_stopped true, and a
 * second one ends the process. */
void sl_drive_catch_signals(void);
bool sl_drive_stopped(void);
/* BUSY: such a run was stopped before its end (sl_training_unfinished). */
enum sl_err sl_drive_stopped_early(const struct sl_training *run, struct sl_fail *fail) SL_MUST_CHECK;
/* Writes the summary of a run without a link: its bytes are those of payloads alone. */
void sl_drive_summary(struct sl_training *run, const struct sl_local *local, bool nonfinite, bool json);

#endif
