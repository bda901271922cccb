/* A training run as a sequence of things to do, independent of who computes them: steps, evaluations after epochs, the
 * end. Keeps the books: log.jsonl, the progress bar, the figures of the summary. One thread, the caller's. */
#ifndef SL_CLIENT_TRAIN_TRAINING_H
#define SL_CLIENT_TRAIN_TRAINING_H

#include "client/pass/audit.h"
#include "client/persist/jsonl.h"
#include "client/setup/about.h"
#include "client/setup/setup.h"
#include "client/step/step.h"
#include "client/train/group_record.h"
#include "client/train/schedule.h"
#include "common/link/traffic.h"
#include "common/session/checkpoint.h"
#include "common/telemetry/rate.h"
#include "common/telemetry/status.h"

struct sl_training;

/* The most steps that may be skipped in a row. If more are, the run is at fault, not a batch. SCALED: additional ones
 * in fp16, whose loss scale may have to fall from 2^16 to 1 first. */
enum { SL_TRAINING_MAX_SKIPPED = 10, SL_TRAINING_MAX_SCALED = 16 };

/* PASS: the step is another member's, and is done without a batch. */
enum sl_want { SL_WANT_STEP, SL_WANT_PASS, SL_WANT_EVAL, SL_WANT_FINISH };

struct sl_training_state {
	uint64_t step, total_steps; /* steps done; steps in all */
};

/* The link's part of the summary. A local run has no peaks, and its bytes are payloads that no link has carried. */
struct sl_training_link {
	double peak_tx, peak_rx; /* bytes/s of the fastest transfer sent (peak client) and received (peak server) */
	uint64_t wire[SL_CROSS_COUNT], payload[SL_CROSS_COUNT]; /* bytes by tensor, evaluation included */
	double nominal[SL_CROSS_COUNT];
	uint64_t links, lost, frames, bytes, rejected, stale; /* as in struct sl_status */
	struct sl_rate rate;                                  /* bytes sent and received on the current link */
	struct sl_traffic traffic[SL_WAYS];                   /* of this process' links, as sl_report_count left it */
	uint64_t weights[SL_WAYS];                            /* bytes of weights on the closed links */
	char *record;              /* of a group's steps, the newest that came (group_record.h); NULL: none */
	struct sl_group_says says; /* of it */
	bool audits;               /* the run audits its server */
	struct sl_audit_share audited;
};

/* `mode`: "local" or "remote", for the log. eval_only: one evaluation, then the end. resume: appends to the log.
 * Otherwise an earlier run in log.dir stays until sl_training_begin. */
enum sl_err sl_training_open(struct sl_training **out, const struct sl_setup *setup, const char *mode, bool eval_only,
			     bool resume, struct sl_fail *fail) SL_MUST_CHECK;
/* Call it before the first step or batch: a new run takes log.dir over from an earlier one. Later calls do nothing. */
enum sl_err sl_training_begin(struct sl_training *run, struct sl_fail *fail) SL_MUST_CHECK;
/* For sessions.jsonl: the link to `server` is up, and was lost. The keys' fingerprints; NULL: there are none. */
void sl_training_linked(struct sl_training *run, const char *server, const char *key, const char *server_key);
void sl_training_unlinked(struct sl_training *run, const char *why);
void sl_training_close(struct sl_training *run); /* NULL is fine */
/* Draws the progress anew, also during a step: on a slow link it can take minutes. */
void sl_training_show(struct sl_training *run);
/* Ends the progress bar, since lines of stdout may go to the same terminal. */
void sl_training_hush(struct sl_training *run);

/* Gets the number of steps of a run on `samples` training samples or, unless `phase` is NULL, of that phase. of_group:
 * steps of an epoch; 0: the samples' batches. CONFIG: there is no batch, or the schedule or rounds do not fit. */
enum sl_err sl_training_steps(const struct sl_conf_client *conf, const struct sl_phase *phase, int64_t samples,
			      int64_t of_group, uint64_t *steps, struct sl_fail *fail) SL_MUST_CHECK;

enum sl_want sl_training_next(struct sl_training *run);
/* training_figures.c: the figures of an evaluation that is over, once, for share.report (docs/WIRE.md). False: there
 * are none. */
bool sl_training_figures(struct sl_training *run, char out[SL_WIRE_REPORT + 1]);
/* For the plan of setup: refuses a training batch that has a chunk in which a batch norm would see one value for each
 * channel. `steps`: of the run. CONFIG names the key. A member of a group is warned. */
enum sl_err sl_training_check_norms(const struct sl_setup *setup, int64_t samples, uint64_t steps,
				    struct sl_fail *fail) SL_MUST_CHECK;
/* An evaluation has found NaN or Inf: *fail, which says where, also says what could be tried. */
void sl_training_eval_nonfinite(const struct sl_training *run, struct sl_fail *fail);
/* After sl_training_next: number and learning rate of the step, own or not; or the batch's place in the evaluation.
 * Codecs draw by it, so the same weights have the same figures in any evaluation, whatever command does it. */
uint64_t sl_training_number(const struct sl_training *run);
double sl_training_lr(const struct sl_training *run);
/* Where the tail's outputs of an evaluation's batch are to be written, [batch, classes]; NULL: nowhere. _score, to be
 * called before _done, compares them with the batch's labels or numbers. */
float *sl_training_outputs(struct sl_training *run);
void sl_training_score(struct sl_training *run, const void *target, int64_t rows);
/* The step or evaluation batch that sl_training_next wanted is done. */
void sl_training_done(struct sl_training *run, const struct sl_step_result *result);
/* train.keep_best: whether the last evaluation was better than best.safetensors, and the weights are still the same.
 * The caller writes the file before the next step, and says by _best_kept whether it could. */
bool sl_training_best_due(const struct sl_training *run);
/* Writes the last evaluation's note SL_MODEL_SCORE: step, value and metric. */
enum { SL_TRAINING_SCORE = 96 };
void sl_training_best_score(const struct sl_training *run, char out[SL_TRAINING_SCORE]);
void sl_training_best_kept(struct sl_training *run, bool written);
/* Checks the names in train.best_metric and train.stop.metric. CONFIG names the key. */
enum sl_err sl_training_check_best(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether the step that is about to begin may be the run's last. */
bool sl_training_may_end(const struct sl_training *run);
/* Logs what an audit has found. */
void sl_training_audited(struct sl_training *run, const struct sl_jsonl_audit *audit);
/* The step was abandoned for the reason `why`. OK: the caller skips it, and then calls sl_training_done. NONFINITE: the
 * run ends, by its config or after SL_TRAINING_MAX_SKIPPED in a row (in fp16 MAX_SCALED more), and *fail says what
 * could be tried. */
enum sl_err sl_training_abandoned(const struct sl_training *run, const struct sl_fail *why,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* Writes the summary to the log and to stdout (json: as one JSON object). `outcome`: "finished", "interrupted",
 * "nonfinite". */
void sl_training_finish(struct sl_training *run, const struct sl_training_link *link, const char *outcome, bool json);
/* BUSY: the run, or its evaluation, was stopped before its end, in good order. Its exit status asks for another start,
 * since 0 would say that it is done. `how`: how it goes on. */
enum sl_err sl_training_unfinished(const struct sl_training *run, const char *how, struct sl_fail *fail) SL_MUST_CHECK;
/* Adds `now`, the traffic of this process' links (struct sl_training_link), to that of earlier processes. Notes the sum
 * in log.dir, so that a process that is killed loses little of it. */
void sl_training_carried(struct sl_training *run, const struct sl_traffic now[SL_WAYS]);
/* Brings the log to the disk. Any thread, while the run is open; a failure is logged. */
void sl_training_sync(const struct sl_training *run);
/* Save the run's position as notes of a checkpoint, and restore it: everything on which the log's lines for the next
 * step and epoch depend. Restoring also cuts the log back. Before *c is read, sl_training_notes asks it for these
 * notes; then sl_training_restore takes them. NULL: goes back to the run's start. */
void sl_training_save(const struct sl_training *run, struct sl_checkpoint *c);
void sl_training_notes(struct sl_checkpoint *c);
enum sl_err sl_training_restore(struct sl_training *run, const struct sl_checkpoint *c,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Sets both loaders to the run's position. BUG: a batch is requested of one. */
enum sl_err sl_training_seek(const struct sl_training *run, struct sl_loader *const loader[SL_SPLIT_COUNT],
			     struct sl_fail *fail) SL_MUST_CHECK;
/* The group did the steps before `step` without this member: the run goes on there. has_ends: the member has received
 * the group's state of `step`. Otherwise its state is still that of step sl_training_held until a step is done, and a
 * checkpoint says so. */
void sl_training_join(struct sl_training *run, uint64_t step, bool has_ends);
uint64_t sl_training_held(const struct sl_training *run);
/* What the group's record says: whether this member took part in a step, and the list of those that miss some. */
void sl_training_took_part(struct sl_training *run, bool took, const char *absent);
/* A phase is done, its last evaluation included: from here on sl_training_save says so. */
void sl_training_end_phase(struct sl_training *run);
bool sl_training_says_end(const struct sl_training *run); /* sl_training_save says so */
struct sl_training_state sl_training_state(const struct sl_training *run);
/* What a file of the weights as they are now says of them (about.h). best: an evaluation chose them. */
struct sl_about_reached sl_training_reached(const struct sl_training *run, bool best, uint64_t made);
/* Fills a status with what the run knows: all but the link's part, checkpoints and names. samples_per_s is over the
 * last ten steps or so, the one under way too where that takes longer; 0 before the first. left_s counts no
 * evaluations. */
void sl_training_report(const struct sl_training *run, struct sl_status_session *out);

#endif
