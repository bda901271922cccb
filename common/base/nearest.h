/* What somebody may have meant by a name that does not exist. */
#ifndef SL_BASE_NEAREST_H
#define SL_BASE_NEAREST_H

#include <stddef.h>

enum { SL_NEAREST_LONGEST = 96 };

/* Edits between a, of `len` bytes, and b: insert, drop, change, swap neighbours (optimal string alignment). Neither is
 * longer than SL_NEAREST_LONGEST. */
int sl_nearest_edits(const char *a, size_t len, const char *b);

/* The nearest of the names so far; begin with zeros. */
struct sl_nearest {
	const char *name; /* the candidate's own memory; NULL: none is near enough */
	int edits;
};

/* Takes `candidate` where it is nearer to `name` (of `len` bytes) than what was offered before, and near enough: at
 * most one edit for three letters, and three in all. Nothing longer than SL_NEAREST_LONGEST is near. */
void sl_nearest_offer(struct sl_nearest *best, const char *name, size_t len, const char *candidate);

#endif
