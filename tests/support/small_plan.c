#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

struct sl_plan *small_plan_open(const char *partition, int chunks)
{
	return small_plan_open_as(partition, chunks, &(struct sl_optimizer){.kind = SL_OPTIMIZER_SGD}, "");
}

struct sl_plan *small_plan_open_as(const char *partition, int chunks, const struct sl_optimizer *optimizer,
				   const char *insert_head)
{
	return small_plan_open_freezing(partition, chunks, optimizer, insert_head, NULL);
}

struct sl_plan *small_plan_open_freezing(const char *partition, int chunks, const struct sl_optimizer *optimizer,
					 const char *insert_head, const struct sl_conf_list *freeze)
{
	struct sl_split_spec spec = {.model = {"mobilenet_v2", 0.25, SMALL_CLASSES, SMALL_IMAGE, true, 0.2, 0, 0, 0, 0},
				     .freeze = freeze,
				     .plan.batch = SMALL_BATCH,
				     .plan.chunks = chunks,
				     .plan.seed = 11,
				     .plan.optimizer = *optimizer};
	struct sl_plan *plan;
	struct sl_fail fail;

	snprintf(spec.cut.partition, sizeof spec.cut.partition, "%s", partition);
	snprintf(spec.insert_head, sizeof spec.insert_head, "%s", insert_head);
	if (plan_open(&plan, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}
