/* A client's configuration for tests: the agreement with the server, and the network with its cut. */
#ifndef TEST_ASKED_H
#define TEST_ASKED_H

#include "common/session/agree.h"
#include "tests/support/plan_open.h"

struct asked {
	struct sl_agreement agreement;
	struct sl_split_spec split; /* its plan is copied from the agreement by asked_settle */
};

/* Settles the agreement and fills split.plan. Both gradients cross the link, whichever parameters are trained. */
static inline enum sl_err asked_settle(struct asked *a, struct sl_fail *fail)
{
	enum sl_err err;

	a->agreement.agreed.cross.mid_grad = a->agreement.agreed.cross.head_grad = true;
	err = sl_agreement_settle(&a->agreement, fail);
	a->split.plan = a->agreement.plan;
	return err;
}

#endif
