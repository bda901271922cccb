#include "common/base/budget.h"

#include <stddef.h>

void sl_charge_set(struct sl_charge *c, struct sl_budget *budget, uint64_t bytes)
{
	const struct sl_charge before = *c;

	*c = (struct sl_charge){budget, bytes};
	for (struct sl_budget *b = budget; b; b = b->whole) {
		atomic_fetch_add(&b->used, bytes);
		atomic_fetch_add(&b->charges, 1);
	}
	for (struct sl_budget *b = before.budget, *whole; b; b = whole) {
		whole = b->whole; /* without charges `b` may be freed */
		atomic_fetch_sub(&b->used, before.bytes);
		atomic_fetch_sub(&b->charges, 1);
	}
}

uint64_t sl_budget_left(const struct sl_budget *b, uint64_t back)
{
	const uint64_t used = atomic_load(&b->used), limit = atomic_load(&b->limit),
		       taken = used > back ? used - back : 0;

	return !limit ? UINT64_MAX : taken > limit ? 0 : limit - taken;
}

const struct sl_budget *sl_budget_lacks(const struct sl_budget *b, uint64_t bytes, uint64_t back)
{
	while (b && bytes <= sl_budget_left(b, back))
		b = b->whole;
	return b;
}
