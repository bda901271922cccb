/* What audit.c, which begins and ends stretches, and audit_step.c, which computes their steps, share. */
#ifndef SL_CLIENT_PASS_AUDIT_IMPL_H
#define SL_CLIENT_PASS_AUDIT_IMPL_H

#include "client/pass/audit.h"
#include "client/pass/local.h"
#include "client/persist/audit_note.h"

/* What crosses: in a step, mid_act and head_grad; in an evaluation, mid_act. A step may be repeated after an
 * evaluation. */
enum { SENT, GRADIENT, EVALUATED, WATCHED };

struct sl_audit {
	const struct sl_setup *setup;
	uint64_t every, total; /* total: the run's steps */
	struct sl_local *local;
	struct sl_client_state client;
	struct sl_carried carried; /* the layout of the state that a Fetch brings */
	float *weights;            /* [weight_count] the middle as computed here; a Fetch brings only its first part */
	uint8_t *room;             /* [carried.bytes] */
	bool on;                   /* a stretch is under way */
	uint64_t begin, end;       /* steps, end excluded, of this stretch or of the next one */
	uint64_t step;             /* the step that was computed last */
	uint64_t done;             /* steps before the state that was computed here */
	bool nonfinite;            /* `step` has NaN or Inf, and was not passed over yet */
	bool evaluates;            /* the pass under way is an evaluation's */
	bool asked;                /* a Fetch was sent that begins a stretch, or ends one of an earlier process */
	unsigned cuts;             /* links lost in this audit since its last step or Fetch */
	char there[SL_WIRE_DEVICE];
	struct sl_audit_note note; /* its secret: a server that knew it could forge a tensor with the same hash */
	struct sl_jsonl_audit found;
	bool has_found;
	uint64_t seen[WATCHED][SL_PLAN_MAX_CHUNKS]; /* hashes; 0: not computed */
	struct sl_audit_sum sum, held;              /* held: of the stretch under way */
	struct sl_audit_share share;
	uint64_t first;     /* hash of the state before step 0; 0: not computed yet */
	uint64_t evaluated; /* 1 + the step after which an evaluation was last drawn, or not; 0: none */
};

/* AUDIT, with a sentence: `what` is not what was computed here. */
enum sl_err sl_audit_differs(const struct sl_audit *a, const char *what, struct sl_fail *fail);
/* Before `step`: if the step ahead of it had NaN or Inf, here too, it was skipped. The state stays as it was, and the
 * stretch goes on. */
enum sl_err sl_audit_pass_over(struct sl_audit *a, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;
sl_local_crossed sl_audit_crossed; /* notes the hash of what crosses here */

#endif
