/* A run's figures, as training*.c share them; nobody else includes this. */
#ifndef SL_CLIENT_TRAIN_TRAINING_RUN_H
#define SL_CLIENT_TRAIN_TRAINING_RUN_H

#include "client/data/class_name.h"
#include "client/persist/journal.h"
#include "client/train/summary.h"
#include "client/train/training.h"
#include "common/telemetry/progress.h"

/* Sums over the batches of an epoch's training, or of an evaluation. */
struct tally {
	int64_t rows, answers, correct; /* answers: labels */
	double loss;                    /* sum of each batch's loss without its `dice`, times its answers */
	double dice;                    /* sum of each batch's Dice loss times its pictures */
	int64_t pictures;               /* rows of batches that were not skipped */
	uint64_t tx_bytes, rx_bytes;
	double seconds;
};

/* The run right after a step, before the evaluation that may follow: what a checkpoint records. A run that goes on from
 * there evaluates again, and logs the same. */
struct mark {
	uint64_t step, log_bytes, skipped_in_row;
	struct sl_journal_heads heads;
	int epoch;
	int64_t in_epoch;
	struct tally train;
	struct sl_training_totals totals;
	struct sl_jsonl_step last;
};

struct sl_training {
	const struct sl_setup *setup;
	const struct sl_learn_task *task;
	bool eval_only, takes_over; /* takes_over: log.dir is still an earlier run's */
	bool begun;
	char config[SL_CHAIN_TEXT]; /* the hash of the run's record in log.dir; "": it has none */
	struct sl_schedule schedule;
	int64_t steps_per_epoch, eval_batches;
	uint64_t step, total_steps, planned_steps; /* train.stop may end it before the planned ones */
	int64_t in_epoch, in_eval;                 /* batches done of the epoch; of the evaluation */
	int epoch;                                 /* from 0 */
	enum sl_want doing;
	struct tally train, eval;
	struct sl_scores *scores;           /* of the evaluation */
	char majority[SL_CLASS_NAME_BYTES]; /* its largest class; "": it has no classes */
	double majority_share;
	struct sl_training_totals totals;
	struct sl_jsonl_step last; /* unknown if it is of another step than the last */
	uint64_t skipped_in_row;
	bool best_due, report_due; /* report_due: the last evaluation's figures were not reported */
	bool said_long;            /* a warning says that some were too long for that */
	struct mark mark;
	struct sl_traffic traffic[SL_WAYS], before[SL_WAYS]; /* of the run; of processes before this one */
	uint64_t linked_train_samples, linked_eval_samples;  /* of this process: what its links have carried */
	uint64_t linked_train_tokens, linked_eval_tokens;    /* the same in tokens; samples where there are none */
	uint64_t linked_steps, linked_from;                  /* the same in steps; the step from which it went on */
	uint64_t joined; /* the step to which the group was when this member came; it may be beyond the run's end */
	bool bare;       /* it came without the group's head and tail */
	bool took_part;  /* the group has steps of this member, maybe of an earlier process */
	uint64_t missed; /* of its own steps, those that the group did without it, by its record */
	double loss, acc, image_s; /* image_s: seconds per sample; 0: not known */
	struct sl_journal journal;
	struct sl_progress *progress;
	uint64_t started_ns, done_ns; /* the run began; its last batch was done */
};

int64_t sl_run_batches(int64_t samples, int64_t batch, bool drop_last);
enum sl_err sl_run_open_schedule(struct sl_training *r, struct sl_fail *fail) SL_MUST_CHECK;
double sl_run_lr(const struct sl_training *r, uint64_t step);
void sl_run_mark(struct sl_training *r); /* remembers the run as it is right after a step, before its epoch's line */
void sl_run_batch_over(struct sl_training *r); /* logs the epoch if it is over, and no evaluation has to follow */
bool sl_run_epoch_over(const struct sl_training *r);
bool sl_run_phase_over(const struct sl_training *r); /* the run is after a phase's last evaluation */
bool sl_run_wants_eval(const struct sl_training *r); /* after the epoch that is over */
/* training_best.c: chooses the metrics that judge evaluations. CONFIG as sl_training_check_best. */
enum sl_err sl_run_open_best(struct sl_training *r, struct sl_fail *fail) SL_MUST_CHECK;
bool sl_best_is_metric(const char *name); /* of train.best_metric or train.stop.metric: it is one of metric.h */
bool sl_run_keeps_best(const struct sl_training *r);
void sl_run_judge(struct sl_training *r);           /* an evaluation is over: is it the best, and the last? */
void sl_run_check_own(const struct sl_training *r); /* warns of a run that is done and has trained no step of its own */
/* training_sessions.c: the process begins, and keeps its record; it ends, with the head of its log and the hashes of
 * the models. The end sets totals.head. */
void sl_run_log_start(struct sl_training *r);
void sl_run_log_end(struct sl_training *r, const struct sl_jsonl_summary *s);
/* With a run that is over: the last whole evaluation is compared with what a network reaches that has learned nothing.
 */
void sl_run_compared(struct sl_training *r);
/* Whether the run has targets. Without, it has a loss, but no metrics; a party with features has neither. */
static inline bool sl_run_has_labels(const struct sl_training *r)
{
	return sl_conf_learns_labels(r->setup->conf) && !sl_agreed_has_role(&r->setup->conf->agreed, SL_ROLE_FEATURES);
}

/* The metrics that every evaluation has; NULL: none. */
static inline const char *const *sl_run_metrics(const struct sl_training *r)
{
	const char *const *metrics = r->setup->set[SL_SPLIT_TEST].metrics;

	return r->task->perplexity ? NULL : metrics ? metrics : r->task->metrics[0] ? r->task->metrics : NULL;
}
/* _text writes the run's traffic as checkpoints and log.dir note it. _before reads such a text, or NULL, as the traffic
 * of earlier processes, if it is more than what is known. */
void sl_run_traffic_text(const struct sl_training *r, char text[SL_JOURNAL_TRAFFIC]);
void sl_run_traffic_before(struct sl_training *r, const char *text);

#endif
