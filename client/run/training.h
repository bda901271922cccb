/* A training run as a sequence of things to do, independent of who computes them: steps, evaluations after epochs, the
 * end. Keeps the books: log.jsonl, the progress bar, the figures of the summary. One thread, the caller's. */
#ifndef SL_CLIENT_RUN_TRAINING_H
#define SL_CLIENT_RUN_TRAINING_H

#include "client/run/schedule.h"
#include "client/run/setup.h"
#include "client/run/step.h"
#include "common/link/traffic.h"
#include "common/session/checkpoint.h"
#include "common/telemetry/rate.h"
#include "common/telemetry/status.h"

struct sl_training;

/* Steps that may be skipped one after another: beyond it is the run that is wrong, not a batch. */
/* SCALED: more of them in fp16, whose loss scale may have to fall from 2^16 to 1 first */
enum { SL_TRAINING_MAX_SKIPPED = 10, SL_TRAINING_MAX_SCALED = 16 };

/* PASS: a step of the group that is another member's; it is done without a batch. */
enum sl_want { SL_WANT_STEP, SL_WANT_PASS, SL_WANT_EVAL, SL_WANT_FINISH };

struct sl_training_state {
	uint64_t step, total_steps; /* done and all */
};

/* The link's part of the summary. A local run has no peaks, and its bytes are payloads that no link has carried. */
struct sl_training_link {
	double peak_tx, peak_rx; /* bytes/s: peak client and, as this side receives, peak server */
	uint64_t wire[SL_CROSS_COUNT], payload[SL_CROSS_COUNT]; /* bytes by tensor, evaluation included */
	double nominal[SL_CROSS_COUNT];
	uint64_t links, lost, frames, bytes, rejected, stale; /* as in struct sl_status */
	struct sl_rate rate;                                  /* bytes sent and received on the link that stands */
	struct sl_traffic traffic[SL_WAYS];                   /* of this process' links, as sl_report_count left it */
	uint64_t weights[SL_WAYS];                            /* of those that are closed */
};

/* `mode`: "local" or "remote", for the log. eval_only: one evaluation, then the end. resume: the log goes on. Else an
 * earlier run in log.dir stays until sl_training_begin. */
enum sl_err sl_training_open(struct sl_training **out, const struct sl_setup *setup, const char *mode, bool eval_only,
			     bool resume, struct sl_fail *fail) SL_MUST_CHECK;
/* Before the first step or batch: the run can begin, and a new one takes log.dir over. Later calls do nothing. */
enum sl_err sl_training_begin(struct sl_training *run, struct sl_fail *fail) SL_MUST_CHECK;
void sl_training_close(struct sl_training *run); /* NULL is fine */
/* Without a progress bar from here on: stdout is lines that somebody may read on the same terminal. */
void sl_training_hush(struct sl_training *run);

/* How many steps a run on so many training samples has, or one phase of it (else NULL). An epoch has of_group steps; 0:
 * the batches of the samples. CONFIG where there is none, or the schedule does not fit it. */
enum sl_err sl_training_steps(const struct sl_conf_client *conf, const struct sl_phase *phase, int64_t samples,
			      int64_t of_group, uint64_t *steps, struct sl_fail *fail) SL_MUST_CHECK;

enum sl_want sl_training_next(struct sl_training *run);
/* For a wanted step, own or not: its number and learning rate. For a wanted evaluation: the number of the batch. */
uint64_t sl_training_number(const struct sl_training *run);
double sl_training_lr(const struct sl_training *run);
/* Where the tail's outputs of an evaluation batch are to be written, [batch, classes]; NULL: nowhere. Before it is
 * done, they are compared with its labels or numbers. */
float *sl_training_outputs(struct sl_training *run);
void sl_training_score(struct sl_training *run, const void *target, int64_t rows);
/* A wanted step or evaluation batch is done. */
void sl_training_done(struct sl_training *run, const struct sl_step_result *result);
/* train.keep_best: the last evaluation was better than what best.safetensors holds, and the weights are still those.
 * Whoever has them writes the file, or could not, before the next step. */
bool sl_training_best_due(const struct sl_training *run);
void sl_training_best_kept(struct sl_training *run, bool written);
/* Names that train.best_metric and train.stop.metric may have. CONFIG names the key. */
enum sl_err sl_training_check_best(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* The step that is about to begin may be the run's last. */
bool sl_training_may_end(const struct sl_training *run);
/* A wanted step was abandoned, `why` says for what. OK: it is to be skipped, and done. NONFINITE: the run ends, by its
 * config or after SL_TRAINING_MAX_SKIPPED in a row (in fp16 MAX_SCALED more), and *fail says what could be tried. */
enum sl_err sl_training_abandoned(const struct sl_training *run, const struct sl_fail *why,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* The summary, to the log and to stdout (as one JSON object where `json`). `outcome`: "finished", "interrupted",
 * "nonfinite". */
void sl_training_finish(struct sl_training *run, const struct sl_training_link *link, const char *outcome, bool json);
/* What this process' links carried adds to what those before it did. `now` is of sl_training_link, and noted in
 * log.dir, so that a process that is killed loses little of it. */
void sl_training_carried(struct sl_training *run, const struct sl_traffic now[SL_WAYS]);
/* Brings the log to the disk. Any thread, while the run is open; a failure is logged. */
void sl_training_sync(const struct sl_training *run);
/* The run's position as notes of a checkpoint, and back: everything that the next step's and the next epoch's lines
 * depend on. Steps begin again where the notes say; the log is cut back to there. To restore, *c is read with the same
 * notes, empty: sl_training_notes before, sl_training_restore after; NULL: to the run's start. */
void sl_training_save(const struct sl_training *run, struct sl_checkpoint *c);
void sl_training_notes(struct sl_checkpoint *c);
enum sl_err sl_training_restore(struct sl_training *run, const struct sl_checkpoint *c,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Sets both loaders, of which none owes a batch, to where the run stands. BUG */
enum sl_err sl_training_seek(const struct sl_training *run, struct sl_loader *const loader[SL_SPLIT_COUNT],
			     struct sl_fail *fail) SL_MUST_CHECK;
/* The group did the steps before `step` without this member: the run goes on there. Where they left its state alone,
 * that is still of step sl_training_held until a step is done, and a checkpoint says so. `has_ends`: it is the group's
 * state of `step`. */
void sl_training_join(struct sl_training *run, uint64_t step, bool has_ends);
uint64_t sl_training_held(const struct sl_training *run);
/* A phase is done, its last evaluation included: from here on sl_training_save says so. */
void sl_training_end_phase(struct sl_training *run);
struct sl_training_state sl_training_state(const struct sl_training *run);
/* Fills a status with what the run knows: all but the link's part, checkpoints and names. samples_per_s is over the
 * last ten steps or so, the one under way too where that takes longer; 0 before the first. left_s counts no
 * evaluations. */
void sl_training_report(const struct sl_training *run, struct sl_status_session *out);

#endif
