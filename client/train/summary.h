/* The summary of a run: the figures of published tables, beside the bytes that really crossed. */
#ifndef SL_CLIENT_TRAIN_SUMMARY_H
#define SL_CLIENT_TRAIN_SUMMARY_H

#include "client/figures/metric.h"
#include "client/persist/jsonl.h"
#include "client/train/training.h"
#include "common/link/chain.h"

/* The state of train.stop. */
struct sl_training_stop {
	const char *by; /* the metric */
	double best;    /* its best value; NaN: it was undefined in all evaluations */
	uint64_t step;  /* after which step that was */
	int waited;     /* evaluations since */
	bool stopped;   /* train.stop has ended the run */
};

struct sl_training_totals {
	const char *mode;         /* "local", "remote" */
	const char *part;         /* of the data, that is evaluated (sl_setup_part) */
	char head[SL_CHAIN_TEXT]; /* of the run's logs, at its end (link/chain.h); "": there are none */
	const struct sl_learn_task *task;
	uint64_t epochs, steps, skipped, samples, train_samples, eval_samples;
	uint64_t own_steps;                                 /* of the steps, those that are this member's own */
	uint64_t late_steps;                                /* of these, those that the group did without it */
	uint64_t still;                                     /* as in struct sl_jsonl_summary */
	uint64_t test_samples;                              /* of the last evaluation, if this process made it */
	uint64_t linked_train_samples, linked_eval_samples; /* of this process alone, as the link's figures are */
	uint64_t linked_train_tokens, linked_eval_tokens;   /* the same in tokens; samples where there are none */
	uint64_t linked_from;                               /* the step from which it went on; 0: the start */
	uint64_t tx_bytes, rx_bytes;                        /* headers and payloads of steps and evaluations */
	uint64_t train_tx_bytes, train_rx_bytes;            /* steps alone */
	struct sl_traffic traffic[SL_WAYS];                 /* what the links carried in all */
	double total_s, train_s;                            /* wall clock: in all; in steps */
	double compute_s;                                   /* this side's kernels and codecs in the steps */
	double server_s;       /* the server's kernels, in the steps for which it reported them */
	uint64_t server_steps; /* how many steps those are */
	uint64_t test_step;    /* after which the last evaluation was; 0: not known, or none */
	double test_loss, test_acc, best_test_acc;
	/* what the last evaluation is to be compared with (sl_run_compared); NaN: there is no such figure */
	const char *majority;          /* the largest class; NULL: none */
	uint64_t compared;             /* samples of the evaluation that the next ones are of; 0: none was whole */
	double majority_share, spread; /* spread: the rmse of numbers' own mean */
	struct sl_interval acc_interval, auc_interval;
	int groups;                            /* that acc_interval counts; 0: it counts samples */
	bool has_accuracy;                     /* the network learns classes: labels can be met */
	bool blind;                            /* another member has the labels */
	char undefined[SL_UNDEFINED_TEXT];     /* why figures of that evaluation are undefined; "": none is */
	double dcor_squared;                   /* of the last evaluation (dcor.h); NAN: not known */
	struct sl_score score[SL_SCORES_MOST]; /* of the last evaluation, if this process made it */
	const struct sl_scores *scores;        /* of the last evaluation; NULL: none */
	const struct sl_set *labels;           /* names the classes */
	uint64_t best_step;                    /* after which best.safetensors was taken; 0: there is none */
	double kept;          /* the score of best.safetensors, the run's best unless the file was lost; NAN: none */
	const char *kept_by;  /* the score's metric */
	bool no_best;         /* train.keep_best has kept nothing, since that metric was undefined in all evaluations */
	const char *weights;  /* of an evaluation alone: their file; else NULL */
	int64_t weights_step; /* how many steps they were trained for; INT64_MAX: not known */
	struct sl_training_stop stop;
	struct sl_jsonl_privacy privacy; /* at the end */
};

enum { SL_SCORE_TEXT = 48, SL_STOP_TEXT = 160 };

/* "r2 was 0.9 after step 30; evaluations since then, none of them better: 5" */
const char *sl_summary_stop_text(const struct sl_training_stop *s, char out[SL_STOP_TEXT]);

/* "top5 98.21 %", "matthews 0.6134" */
const char *sl_summary_score_text(const struct sl_score *score, char out[SL_SCORE_TEXT]);
void sl_summary_scores(struct sl_jsonl_score out[SL_JSONL_SCORES], const struct sl_score score[SL_SCORES_MOST]);
/* Fills in the figures of published tables. Computation time of a batch: the client's plus the server's. Average: the
 * bytes sent in a step, divided by that time. Peak client, peak server: the fastest transfer sent, received. */
void sl_summary_fill(struct sl_jsonl_summary *out, const struct sl_setup *setup,
		     const struct sl_training_totals *totals, const struct sl_training_link *link, const char *outcome);
/* To stdout: a table, or one JSON object. */
void sl_summary_print(const struct sl_jsonl_summary *s, const struct sl_training_totals *totals,
		      const struct sl_training_link *link, bool json);

#endif
