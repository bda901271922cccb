/* Ranges of scratch memory that are in use for a while: those that are in use at once share no byte, others may. */
#ifndef SL_EXEC_LEASES_H
#define SL_EXEC_LEASES_H

#include <stddef.h>

#include "common/base/err.h"

struct sl_lease {
	size_t bytes, offset;
	int birth, death; /* times, both included */
	void *owner;
};

/* The most ranges that are compared, of all together: then the rest, the smallest, lie above all others. No network
 * that comes with Split compares a tenth of that. */
enum { SL_LEASES_LOOKS = 1 << 21 };

/* Gives each range an offset, and sorts them by size. The largest comes first, and each lies as low as it can. *bytes:
 * of all. It takes n log n, and the comparisons. NOMEM. */
enum sl_err sl_leases_place(struct sl_lease *lease, int n, size_t *bytes) SL_MUST_CHECK;

#endif
