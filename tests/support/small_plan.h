/* Plans of a small MobileNetV2 (0.25, 32², in its CIFAR form): batches of SMALL_BATCH images. */
#ifndef SL_TESTS_SMALL_PLAN_H
#define SL_TESTS_SMALL_PLAN_H

#include "tests/support/plan_open.h"

enum { SMALL_BATCH = 8, SMALL_IMAGE = 32, SMALL_CLASSES = 10 };

/* Fails the test where the plan cannot be opened. */
struct sl_plan *small_plan_open(const char *partition, int chunks);
/* The same with that optimizer, and layers inserted at the head's end. */
struct sl_plan *small_plan_open_as(const char *partition, int chunks, const struct sl_optimizer *optimizer,
				   const char *insert_head);

/* The same with frozen parameters; NULL: none. */
struct sl_plan *small_plan_open_freezing(const char *partition, int chunks, const struct sl_optimizer *optimizer,
					 const char *insert_head, const struct sl_conf_list *freeze);

static inline size_t small_plan_bytes(const struct sl_shape *shape)
{
	return (size_t)sl_shape_count(shape) * sizeof(float);
}

#endif
