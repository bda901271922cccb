/* What somebody may have meant by a name that does not exist. */
#ifndef SL_BASE_NEAREST_H
#define SL_BASE_NEAREST_H

#include <stddef.h>

/* The nearest of the names so far; begin with zeros. */
struct sl_nearest {
	const char *name; /* the candidate's own memory; NULL: none is near enough */
	int edits;
};

/* Takes `candidate` where it is nearer to `name` (of `len` bytes) than what was offered before, and near enough: at
 * most one letter in three inserted, dropped, changed or swapped with its neighbour, and three in all. */
void sl_nearest_offer(struct sl_nearest *best, const char *name, size_t len, const char *candidate);

#endif
