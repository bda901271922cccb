/* Checks that the server computes what was agreed. Runs are reproducible to the bit, so the client can repeat the
 * server's part of a step. It compares what the server sends (mid_act, head_grad), and the middle after the step.
 *
 * A stretch is one audited step, or a few in a row. It begins with a Fetch of the middle's whole state (the agreement's
 * fetch.state), and ends with another Fetch. The client computes each of its steps first by itself, as --local does,
 * and then with the server. So a gradient that differs is never applied. The system's random numbers choose the
 * stretches, since the server knows train.seed. Audits do not detect a server that only records what it receives.
 *
 * Loop thread while no pass is under way, except for functions marked (worker). */
#ifndef SL_CLIENT_RUN_AUDIT_H
#define SL_CLIENT_RUN_AUDIT_H

#include "client/run/feed.h"
#include "client/run/setup.h"

struct sl_audit;
struct sl_remote;

/* Totals of the stretches that showed no difference. */
struct sl_audit_sum {
	uint64_t steps, stretches, bytes; /* bytes: received by Fetches */
	double seconds;                   /* of the client's own computation */
};

/* `every`: on average one in so many steps begins a stretch; 0: every step is audited. Allocates memory for the middle.
 * CONFIG: the client's device is not a CPU, so its bits may differ. `setup` is borrowed. */
enum sl_err sl_audit_open(struct sl_audit **out, const struct sl_setup *setup, uint64_t every,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_audit_close(struct sl_audit *audit); /* NULL is fine, here and below */

/* Whether the caller must fetch the middle before `step`. */
bool sl_audit_wants(struct sl_audit *audit, uint64_t step);
/* After a Fetch before `step`: ends the stretch under way, and begins one if it is due. AUDIT: the server's middle is
 * not the one that was computed here. CONFIG: the server's kernels are not those of this host. */
enum sl_err sl_audit_fetched(struct sl_audit *audit, struct sl_remote *remote, uint64_t step,
			     struct sl_fail *fail) SL_MUST_CHECK;
/* Gives up the stretch under way, because a link was lost or a step is skipped. */
void sl_audit_drop(struct sl_audit *audit);

/* (worker) Computes a step of a stretch here, before the server does. Does nothing outside a stretch. */
enum sl_err sl_audit_repeat(struct sl_audit *audit, const struct sl_feed *feed, uint64_t step, double lr,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* (worker) Compares x, decoded from what the server sent, with what was computed here. AUDIT: they differ. */
enum sl_err sl_audit_compare(const struct sl_audit *audit, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			     struct sl_fail *fail) SL_MUST_CHECK;

struct sl_audit_sum sl_audit_sum(const struct sl_audit *audit);

#endif
