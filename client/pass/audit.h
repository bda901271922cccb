/* Checks that the server computes what was agreed. Runs are reproducible to the bit, so the client can repeat the
 * server's part of a step. It compares what the server sends (mid_act, head_grad), and the middle after the step.
 *
 * A stretch is one audited step, or a few in a row. It begins with a Fetch of the middle's whole state (the agreement's
 * fetch.state), and ends with another Fetch. The client computes each of its steps first by itself, as --local does,
 * and then with the server. So a gradient that differs is never applied. The system's random numbers choose the
 * stretches, since the server knows train.seed. Audits do not detect a server that only records what it receives.
 *
 * The first stretch begins with the run, where the middle must be the one of the first weights. Evaluations in a
 * stretch are computed here, too, and one in `every` begins a stretch.
 *
 * A server cannot end an audit by other means. A stretch goes on over the next link where that begins with the same
 * step. Otherwise it is owed: another one begins at once, also in a process that is resumed. If the state of that step
 * was computed here, the server must have the same. An abandoned step must have NaN or Inf here, too. The last stretch
 * ends with the run's last evaluation.
 *
 * Loop thread while no pass is under way, except for functions marked (worker). */
#ifndef SL_CLIENT_PASS_AUDIT_H
#define SL_CLIENT_PASS_AUDIT_H

#include "client/persist/jsonl.h"
#include "client/setup/setup.h"
#include "client/step/feed.h"

struct sl_audit;
struct sl_remote;

/* Totals of the stretches of this process that showed no difference. */
struct sl_audit_sum {
	uint64_t steps, stretches, bytes; /* bytes: received by Fetches */
	double seconds;                   /* of the client's own computation */
};

/* How much of the run the audits have covered. begun, ended: audits in all processes of the run. The others are of this
 * process: training steps and batches of evaluations, those that were computed here and all. */
struct sl_audit_share {
	uint64_t begun, ended, steps, all_steps, evals, all_evals;
	uint64_t last_evals, all_last; /* batches of the last evaluation */
};

/* `every`: on average one in so many steps begins a stretch, and the last stretch ends with step `total`. every 0: one
 * stretch, of all steps from the first Fetch to the next. Allocates memory for the middle. `resume`: what log.dir says
 * of the run's audits holds. CONFIG: the client's device is not a CPU, so its bits may differ. `setup` is borrowed. */
enum sl_err sl_audit_open(struct sl_audit **out, const struct sl_setup *setup, uint64_t every, uint64_t total,
			  bool resume, struct sl_fail *fail) SL_MUST_CHECK;
void sl_audit_close(struct sl_audit *audit); /* NULL is fine, here and below */

/* Whether the caller must fetch the middle before `step`, or before a batch of an evaluation ahead of it. Then an audit
 * is owed from here on. */
bool sl_audit_wants(struct sl_audit *audit, uint64_t step, bool evaluates);
/* After a Fetch before `step`: ends the stretch under way and, if the run goes on, begins one if it is due. AUDIT: the
 * server's middle is not the one that was computed here. CONFIG: the server's kernels are not those of this host. */
enum sl_err sl_audit_fetched(struct sl_audit *audit, struct sl_remote *remote, uint64_t step, bool goes_on,
			     struct sl_fail *fail) SL_MUST_CHECK;
/* A link goes on from `step`. A stretch under way does, too, if it stands there; otherwise it is given up, and owed.
 * AUDIT: it is the third in a row. */
enum sl_err sl_audit_linked(struct sl_audit *audit, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
/* `step` was abandoned for the reason `why`. AUDIT: it has neither NaN nor Inf here. */
enum sl_err sl_audit_abandoned(struct sl_audit *audit, uint64_t step, const char *why,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* A link that was up is lost, for the reason *fail; `for_good`: the run ends with it. *fail becomes AUDIT if it is the
 * third audit in a row that ends so, or the third link without a step between. Returns its code. */
enum sl_err sl_audit_lost(struct sl_audit *audit, bool for_good, struct sl_fail *fail);
/* The run is done, and its last Fetch was compared. AUDIT: an audit is owed. */
enum sl_err sl_audit_done(const struct sl_audit *audit, struct sl_fail *fail) SL_MUST_CHECK;
/* Notes in log.dir what the next Fetch must bring, so that a process that is resumed can compare it. */
void sl_audit_park(struct sl_audit *audit);
/* A checkpoint of the state after `step` steps is being written: a server that goes back to it must have the middle
 * that was computed here. */
void sl_audit_kept(struct sl_audit *audit, uint64_t step);
/* Whether an audit has come to an end, or was given up, since the last call: *out says what it found. */
bool sl_audit_found(struct sl_audit *audit, struct sl_jsonl_audit *out);

/* (worker) Computes a step of a stretch here, or an evaluation's batch, before the server does. `number`: of either.
 * Only counts it outside a stretch. */
enum sl_err sl_audit_repeat(struct sl_audit *audit, const struct sl_feed *feed, uint64_t number, bool training,
			    double lr, struct sl_fail *fail) SL_MUST_CHECK;
/* (worker) Compares x, decoded from what the server sent, with what was computed here. AUDIT: they differ. */
enum sl_err sl_audit_compare(const struct sl_audit *audit, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			     struct sl_fail *fail) SL_MUST_CHECK;

/* (worker) The step is about to be applied: compares the middle's sum of squares, as the server has sent it. AUDIT. */
enum sl_err sl_audit_applies(const struct sl_audit *audit, double squares, struct sl_fail *fail) SL_MUST_CHECK;

struct sl_audit_sum sl_audit_sum(const struct sl_audit *audit);
struct sl_audit_share sl_audit_share(const struct sl_audit *audit);

#endif
