/* Places buffers with lifetimes in one memory area: buffers that live at the same time share no byte, others may. */
#ifndef SL_EXEC_LEASES_H
#define SL_EXEC_LEASES_H

#include <stddef.h>

#include "common/base/err.h"

struct sl_lease {
	size_t bytes, offset;
	int birth, death; /* it lives from `birth` to `death`, both included */
	void *owner;      /* the caller's */
};

/* A bound on comparisons between buffers, all together. Beyond it the remaining buffers, which are the smallest, lie
 * above all others. No network that comes with Split needs a tenth of it. */
enum { SL_LEASES_LOOKS = 1 << 21 };

/* Sorts the buffers by size, the largest first, and gives each the lowest offset at which it fits. *bytes = size of the
 * area. Takes O(n log n), and time for the comparisons. NOMEM. */
enum sl_err sl_leases_place(struct sl_lease *lease, int n, size_t *bytes) SL_MUST_CHECK;

#endif
