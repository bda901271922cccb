/* Whether the server computes what was agreed. A run is exact, so this side can repeat the server's part of a step and
 * compare bits: what it sends (mid_act, head_grad), and what the step makes of the middle.
 *
 * A stretch of one step or a few begins with the middle's whole state, as a Fetch brings it (the agreement's
 * fetch.state), and ends with another Fetch. Between them every step is first computed here, as by --local, and then
 * with the server: a gradient that differs is never applied. Where stretches begin and end is drawn from the system's
 * random numbers; the server knows train.seed. A server that only listens is not seen by this.
 *
 * Loop thread while no pass is under way, but for what is marked (worker). */
#ifndef SL_CLIENT_RUN_AUDIT_H
#define SL_CLIENT_RUN_AUDIT_H

#include "client/run/feed.h"
#include "client/run/setup.h"

struct sl_audit;
struct sl_remote;

/* What was repeated, and found to be the same. */
struct sl_audit_sum {
	uint64_t steps, stretches, bytes; /* bytes: of the Fetches */
	double seconds;                   /* of this side's computation */
};

/* `every`: a stretch begins at one of so many steps; 0: each step is repeated. Takes memory for the middle. CONFIG:
 * this host's device computes other bits than a CPU. `setup` is borrowed. */
enum sl_err sl_audit_open(struct sl_audit **out, const struct sl_setup *setup, uint64_t every,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_audit_close(struct sl_audit *audit); /* NULL is fine, here and below */

/* Whether a Fetch is due before `step`. */
bool sl_audit_wants(struct sl_audit *audit, uint64_t step);
/* After a Fetch that was answered before `step`: ends a stretch, or begins one. AUDIT: the middle is not what its steps
 * make of it. CONFIG: the server computes with other kernels than this host. */
enum sl_err sl_audit_fetched(struct sl_audit *audit, struct sl_remote *remote, uint64_t step,
			     struct sl_fail *fail) SL_MUST_CHECK;
/* The stretch is given up: a link was lost, or a step left out. */
void sl_audit_drop(struct sl_audit *audit);

/* (worker) Before a step of a stretch begins: computes it here. Does nothing outside a stretch. */
enum sl_err sl_audit_repeat(struct sl_audit *audit, const struct sl_feed *feed, uint64_t step, double lr,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* (worker) What the server sent, decoded. AUDIT: it is something else. */
enum sl_err sl_audit_compare(const struct sl_audit *audit, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			     struct sl_fail *fail) SL_MUST_CHECK;

struct sl_audit_sum sl_audit_sum(const struct sl_audit *audit);

#endif
