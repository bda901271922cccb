/* Opens a plan of a network in three parts in one call. */
#ifndef SL_TESTS_PLAN_OPEN_H
#define SL_TESTS_PLAN_OPEN_H

#include "client/model/split.h"

/* Uses spec->plan as it is. */
static inline SL_MUST_CHECK enum sl_err plan_open(struct sl_plan **out, const struct sl_split_spec *spec,
						  struct sl_fail *fail)
{
	struct sl_parts parts;
	enum sl_err err = sl_parts_open(&parts, spec, fail);

	if (err)
		return err;
	err = sl_plan_open_parts(out, &parts, &spec->plan, fail);
	sl_parts_close(&parts);
	return err;
}

#endif
