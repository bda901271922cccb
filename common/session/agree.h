/* What both sides agree on, to and from the payload of a Hello: the agreement (conf/agreed.h), an empty line, the graph
 * of the middle (nn/graph_text.h). */
#ifndef SL_SESSION_AGREE_H
#define SL_SESSION_AGREE_H

#include "common/codec/codec.h"
#include "common/conf/agreed.h"
#include "common/exec/plan.h"
#include "common/link/wire.h"
#include "common/session/mean.h"

struct sl_agreement {
	struct sl_agreed agreed;
	/* These follow from `agreed`: sl_agreement_settle. */
	struct sl_plan_spec plan;
	struct sl_codec_spec codec[SL_DIR_COUNT], end_codec[SL_END_COUNT];
};

/* Before a plan is made, and after every change of `agreed`. Its codecs become canonical. CONFIG with the key of a
 * codec that is none. */
enum sl_err sl_agreement_settle(struct sl_agreement *a, struct sl_fail *fail) SL_MUST_CHECK;

/* The payload, in memory that the caller frees, and what the header says of it: hello->plan_hash, payload_xxh3. `plan`
 * is one with these settings and at least a middle. LIMIT: the middle's text is longer than a payload may be. */
enum sl_err sl_agreement_say(const struct sl_agreement *a, const struct sl_plan *plan, struct sl_bytes *text,
			     struct sl_hello *hello, struct sl_fail *fail) SL_MUST_CHECK;
/* And back: settled, and the plan of the middle. A payload is not to be trusted. Errors of sl_agreed_read,
 * sl_graph_read and sl_plan_open_part. */
enum sl_err sl_agreement_hear(struct sl_agreement *a, struct sl_plan **plan, struct sl_bytes text,
			      struct sl_fail *fail) SL_MUST_CHECK;

/* Where heads and tails are shared (plan.h: shared_ends), the layout that a payload has. It is not to be trusted.
 * Errors of sl_end_layout_read. */
enum sl_err sl_agreement_ends(struct sl_end_layout *out, struct sl_bytes text, struct sl_fail *fail) SL_MUST_CHECK;

/* How a run of such heads and tails is coded; the layout and `be` are borrowed. */
struct sl_end_coder_env sl_agreement_coder(const struct sl_agreement *a, const struct sl_end_layout *layout,
					   enum sl_end end, struct sl_backend *be);

/* The plan of a group's trunk, from a member's payload and what was heard of it: alike for all members that may train
 * together, since what is each one's own is put aside. */
enum sl_err sl_agreement_trunk(const struct sl_agreement *member, struct sl_plan **plan, struct sl_bytes text,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* The largest chunk that crosses at a cut. */
struct sl_extent sl_cut_extent(const struct sl_plan *plan, bool mid);

#endif
