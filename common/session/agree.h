/* What both sides agree on, to and from a Hello: model, cut, chunks, codecs, optimizer, seed. Both build their plan
 * through here, so that its hash covers all of it. */
#ifndef SL_SESSION_AGREE_H
#define SL_SESSION_AGREE_H

#include "common/codec/codec.h"
#include "common/link/wire.h"
#include "common/model/split.h"

struct sl_agreement {
	struct sl_split_spec split; /* its plan.note is written by sl_agreement_seal */
	struct sl_codec_spec codec[SL_DIR_COUNT];
};

/* Writes split.plan.note from the rest: call before sl_plan_open. */
void sl_agreement_seal(struct sl_agreement *a);

/* The agreement's part of a Hello; `plan` was opened from a->split. */
void sl_agreement_to_hello(const struct sl_agreement *a, const struct sl_plan *plan, struct sl_hello *hello);
/* And back, sealed. CONFIG or LIMIT with a sentence where a value is not one: a Hello is not to be trusted. */
enum sl_err sl_agreement_from_hello(struct sl_agreement *a, const struct sl_hello *hello,
				    struct sl_fail *fail) SL_MUST_CHECK;

#endif
