/* What a client's config asks for: what both sides agree on, and the network with its cut. */
#ifndef TEST_ASKED_H
#define TEST_ASKED_H

#include "common/session/agree.h"
#include "tests/support/plan_open.h"

struct asked {
	struct sl_agreement agreement;
	struct sl_split_spec split; /* its plan follows from the agreement: asked_settle */
};

/* Both gradients cross, whatever learns. */
static inline enum sl_err asked_settle(struct asked *a, struct sl_fail *fail)
{
	enum sl_err err;

	a->agreement.agreed.cross.mid_grad = a->agreement.agreed.cross.head_grad = true;
	err = sl_agreement_settle(&a->agreement, fail);
	a->split.plan = a->agreement.plan;
	return err;
}

#endif
