/* Memory that is counted against limits: a budget may be a part of a whole, such as one client's of the server's.
 * Budgets may be read, and charges set, on any thread. */
#ifndef SL_BASE_BUDGET_H
#define SL_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdint.h>

struct sl_budget {
	struct sl_budget *whole; /* what is counted here counts there, too; NULL: this is the whole */
	_Atomic uint64_t limit;  /* bytes; 0: none */
	_Atomic uint64_t used;
	_Atomic int charges; /* that name this budget; it must stay as long as there are any */
};

/* What something takes of a budget. Zeros: nothing, of none. One thread at a time. */
struct sl_charge {
	struct sl_budget *budget;
	uint64_t bytes;
};

/* The charge takes `bytes` of `budget` in place of what it took before. budget NULL: of none; bytes must be 0. */
void sl_charge_set(struct sl_charge *charge, struct sl_budget *budget, uint64_t bytes);
/* Bytes that are left, once `back` of them have been given back. UINT64_MAX: no limit. */
uint64_t sl_budget_left(const struct sl_budget *budget, uint64_t back);
/* The first of a budget and its wholes that has not `bytes` left. NULL: there is room. */
const struct sl_budget *sl_budget_lacks(const struct sl_budget *budget, uint64_t bytes, uint64_t back);

#endif
