/* log.jsonl: one JSON object per line, with "type" first: a "step" for each step, an "epoch" for each epoch, an
 * "audit" for each audit, one "summary". A number read back is the same double; what is unknown or undefined (NaN, Inf)
 * is null. Times are in seconds, sizes in bytes. Each line ends with the hash of the line before it (link/chain.h). One
 * thread per log. */
#ifndef SL_CLIENT_PERSIST_JSONL_H
#define SL_CLIENT_PERSIST_JSONL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* The tensors that cross, in the order of their numbers on the wire: four at the cuts, and end_grad and end_mean. */
enum { SL_JSONL_DIRECTIONS = 6, SL_JSONL_SCORES = 24 };

/* A metric of an evaluation; name NULL: there is none. */
struct sl_jsonl_score {
	const char *name;
	double value;
};

struct sl_jsonl_step {
	uint64_t step; /* from 1, over the whole run */
	bool skipped;  /* NaN or Inf: nothing was applied, and loss and acc are NaN */
	double loss;   /* mean over the batch */
	double acc;    /* share of the batch whose largest logit is its label, 0 … 1 */
	double lr;
	double grad_norm;                      /* before clipping; NaN: left out */
	uint64_t wire_tx_bytes, wire_rx_bytes; /* of this step, headers included */
	double t_step_s, t_compute_s, t_wait_s, t_data_s;
};

/* NaN: not evaluated. */
struct sl_jsonl_epoch {
	uint64_t epoch, steps; /* from 1; steps so far */
	double train_loss, train_acc, test_loss, test_acc, lr;
	double epsilon;      /* so far (train/privacy.h); NaN: not accounted */
	double dcor_squared; /* squared distance correlation of the evaluation's inputs and head_act */
	uint64_t wire_tx_bytes, wire_rx_bytes; /* of the epoch's training */
	double t_train_s, t_eval_s, samples_per_s;
	const char *evaluated_part;                   /* "validation", "test"; NULL: none */
	struct sl_jsonl_score score[SL_JSONL_SCORES]; /* of the evaluation */
};

/* An audit that has ended, or was given up. */
struct sl_jsonl_audit {
	uint64_t step, steps, fetched_bytes; /* the first step, from 1; how many were computed here */
	double t_s;                          /* for that */
	char found[SL_FAIL_TEXT];            /* "as agreed", or a sentence */
};

/* wire_bytes: with headers; payload_bytes: what the codec wrote; raw_bytes: the tensor as fp32; nominal_bytes: as the
 * authors of the codec's method count. */
struct sl_jsonl_direction {
	const char *name, *codec;
	uint64_t wire_bytes, payload_bytes, raw_bytes;
	double nominal_bytes;
};

/* What the releases of one sample come to (figures/epsilon.h). */
struct sl_jsonl_privacy {
	double epsilon, evaluated_epsilon;     /* of a sample in training; of the evaluated part */
	uint64_t releases, evaluated_releases; /* tensors that such a sample has sent */
	double delta, budget;                  /* delta 0: nothing is accounted; budget 0: none */
	double act_clipped, grad_clipped;      /* shares of this process's releases; NaN: there were none */
	bool spent;                            /* the budget has ended the run */
};

enum { SL_JSONL_WORDS = 8 };

/* Rates as in published tables: average = bytes sent / compute time; peak client = max over sends of bytes / send time;
 * peak server = max over receives of bytes / receive time. MB = 1e6 bytes. */
struct sl_jsonl_summary {
	uint64_t epochs, steps, samples, skipped; /* skipped: steps with NaN or Inf */
	double test_loss, test_acc, best_test_acc;
	struct sl_jsonl_score score[SL_JSONL_SCORES]; /* of the last evaluation, if this process made it */
	uint64_t best_step;                           /* the step whose weights were kept; 0: none */
	double t_total_s, t_per_batch_s, t_compute_per_batch_s;
	double avg_mb_s, peak_client_mb_s, peak_server_mb_s;
	double tx_mb_s, rx_mb_s; /* of the steps: bytes over wall clock; NaN: no link */
	uint64_t wire_tx_bytes, wire_rx_bytes;
	/* parts of the above, over a link: the middle's weights, ZMTP's framing, and what encryption adds */
	uint64_t weights_tx_bytes, weights_rx_bytes, framing_tx_bytes, framing_rx_bytes, curve_tx_bytes, curve_rx_bytes;
	uint64_t audits_begun, audits_ended;
	/* audited of all: steps, batches of evaluations, batches of the last one; of this process */
	struct sl_jsonl_share {
		uint64_t part, of;
	} audited[3];
	bool audits;    /* the run has audits */
	uint64_t still; /* steps that somebody else's norm has left nearly without effect; of this process */
	struct sl_jsonl_privacy privacy;
	const char *group;                /* the record of a group's steps, as JSON; NULL: none */
	const char *word[SL_JSONL_WORDS]; /* what nothing checks: the server's word; NULL: no more */
	struct sl_jsonl_direction direction[SL_JSONL_DIRECTIONS]; /* name NULL: left out */
	const char *evaluated_part;                               /* "validation", "test" */
	/* What the last evaluation is compared with; NULL, NaN: there is no such figure. Intervals are [low, high] */
	const char *majority; /* the largest class */
	double majority_share, spread, acc_interval[2], auc_interval[2];
	uint64_t groups, evaluated; /* of these samples; 0: in no groups */
	const char *outcome;        /* "finished", "interrupted", "server lost" … */
	const char *undefined;      /* why figures of the last evaluation are undefined; NULL: none is */
	const char *best_metric;    /* by which weights are kept; NULL: they are not */
	const double *rounding;     /* [numbers] to what floats round each number to be predicted; NULL: unknown */
	int numbers;
};

struct sl_jsonl;
struct json_t;

/* What floats round each of n numbers to, as an array; null: all are 0. */
struct json_t *sl_jsonl_rounding(const double *rounding, int n);
/* What the evaluation is compared with, and intervals of its figures; null: they are not known. */
struct json_t *sl_jsonl_baseline(const struct sl_jsonl_summary *s);
struct json_t *sl_jsonl_intervals(const struct sl_jsonl_summary *s);
/* s->audited as an object; null: the run has no audits. */
struct json_t *sl_jsonl_audited(const struct sl_jsonl_summary *s);
/* s->privacy as an object; null: nothing is accounted. */
struct json_t *sl_jsonl_privacy(const struct sl_jsonl_summary *s);
/* s->word as an array. */
struct json_t *sl_jsonl_words(const struct sl_jsonl_summary *s);
/* The warnings of this process that the log kept (log.h), each with its id and text. */
struct json_t *sl_jsonl_warnings(void);

/* Opens the file to append; creates it and its folders if needed. CANTCREATE; BUSY: another process has it open. */
enum sl_err sl_jsonl_open(struct sl_jsonl **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* Checks whether sl_jsonl_open would succeed, with its errors; it makes and writes nothing. */
enum sl_err sl_jsonl_check(const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* Removes all lines. IO. */
enum sl_err sl_jsonl_empty(struct sl_jsonl *log) SL_MUST_CHECK;
/* Each writes its whole line before it returns. IO: it was not written (disk full), and errno says why. The file keeps
 * no part of it, and the log can still be used. `log` NULL, for runs without a log: OK, nothing done. */
enum sl_err sl_jsonl_step(struct sl_jsonl *log, const struct sl_jsonl_step *step) SL_MUST_CHECK;
enum sl_err sl_jsonl_epoch(struct sl_jsonl *log, const struct sl_jsonl_epoch *epoch) SL_MUST_CHECK;
enum sl_err sl_jsonl_audit(struct sl_jsonl *log, const struct sl_jsonl_audit *audit) SL_MUST_CHECK;
enum sl_err sl_jsonl_summary(struct sl_jsonl *log, const struct sl_jsonl_summary *summary) SL_MUST_CHECK;
/* Another line, whose "type" comes first. Takes over `line`. */
enum sl_err sl_jsonl_line(struct sl_jsonl *log, struct json_t *line) SL_MUST_CHECK;
/* The tensors as an object: codec and bytes of each. */
struct json_t *sl_jsonl_directions(const struct sl_jsonl_direction *direction);
/* The hash of the last line, valid until the next call with `log`. "": no log, or it cannot be read. */
const char *sl_jsonl_head(struct sl_jsonl *log);
/* _tell: the length of the log in bytes (0: no log). _cut: cuts it back to `offset`, since steps that are run again are
 * logged again. `head`: the hash of the last line that stays, as somebody noted it; "": as the file has it. So a line
 * that was changed meanwhile does not fit the next one. IO, for a pipe too. */
enum sl_err sl_jsonl_tell(struct sl_jsonl *log, uint64_t *offset) SL_MUST_CHECK;
enum sl_err sl_jsonl_cut(struct sl_jsonl *log, uint64_t offset, const char *head) SL_MUST_CHECK;
/* Brings what was written to the disk, or fails with IO. Any thread, while the log is open. */
enum sl_err sl_jsonl_sync(struct sl_jsonl *log) SL_MUST_CHECK;
/* fsync and close; IO: the data may not be on the disk. NULL is fine. */
enum sl_err sl_jsonl_close(struct sl_jsonl *log) SL_MUST_CHECK;

#endif
