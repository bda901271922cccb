/* What both sides agree on, to and from the payload of a Hello: the agreement (conf/agreed.h), an empty line, the graph
 * of the middle (graph/graph_text.h). */
#ifndef SL_SESSION_AGREE_H
#define SL_SESSION_AGREE_H

#include "common/codec/codec.h"
#include "common/conf/agreed.h"
#include "common/exec/plan.h"
#include "common/link/wire.h"
#include "common/session/mean.h"

struct sl_agreement {
	struct sl_agreed agreed;
	/* sl_agreement_settle derives these from `agreed`. */
	struct sl_plan_spec plan;
	struct sl_codec_spec codec[SL_DIR_COUNT], end_codec[SL_END_COUNT];
};

/* Call it before a plan is made, and after every change of `agreed`. It makes the codecs' spelling canonical. CONFIG
 * with the key of a codec that is invalid. */
enum sl_err sl_agreement_settle(struct sl_agreement *a, struct sl_fail *fail) SL_MUST_CHECK;

/* Writes the payload, in memory that the caller frees, and what the header says of it: hello->plan_hash, payload_xxh3.
 * `plan` was made with these settings, and has at least a middle. LIMIT: the middle's text is longer than a payload may
 * be. */
enum sl_err sl_agreement_say(const struct sl_agreement *a, const struct sl_plan *plan, struct sl_bytes *text,
			     struct sl_hello *hello, struct sl_fail *fail) SL_MUST_CHECK;
/* Reads a payload: the agreement, settled, and the plan of the middle. A payload is untrusted. Errors of
 * sl_agreed_read, sl_graph_read and sl_plan_open_part. */
enum sl_err sl_agreement_hear(struct sl_agreement *a, struct sl_plan **plan, struct sl_bytes text,
			      struct sl_fail *fail) SL_MUST_CHECK;

/* Reads the payload's list of the head's and tail's parameters, where these are shared (plan.h: shared_ends). It is
 * untrusted. Errors of sl_end_layout_read. */
enum sl_err sl_agreement_ends(struct sl_end_layout *out, struct sl_bytes text, struct sl_fail *fail) SL_MUST_CHECK;

/* How runs of shared heads and tails are coded; the layout and `be` are borrowed. */
struct sl_end_coder_env sl_agreement_coder(const struct sl_agreement *a, const struct sl_end_layout *layout,
					   enum sl_ends_run end, struct sl_backend *be);

/* The plan of a group's trunk, from a member's agreement and payload. Settings that each member has of its own are
 * replaced by defaults, so the plan is the same for all members that may train together. */
enum sl_err sl_agreement_trunk(const struct sl_agreement *member, struct sl_plan **plan, struct sl_bytes text,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* The largest chunk that crosses at a cut: mid = false at the head's end, true at the tail's begin. */
struct sl_extent sl_cut_extent(const struct sl_plan *plan, bool mid);

#endif
