/* Finds the name that a user probably meant by a name that does not exist. */
#ifndef SL_BASE_NEAREST_H
#define SL_BASE_NEAREST_H

#include <stddef.h>

enum { SL_NEAREST_LONGEST = 96 };

/* The edit distance of a, of `len` bytes, and b: insertions, deletions, substitutions and swaps of neighbours
 * (optimal string alignment). Neither text is longer than SL_NEAREST_LONGEST. */
int sl_nearest_edits(const char *a, size_t len, const char *b);

/* The nearest candidate so far; begin with zeros. */
struct sl_nearest {
	const char *name; /* the candidate's own memory; NULL: none is near enough */
	int edits;
};

/* Keeps `candidate` if it is nearer to `name` (of `len` bytes) than the earlier ones, and near enough. Near enough
 * is about one edit for every three letters, at least one and at most three. Nothing longer than SL_NEAREST_LONGEST
 * is near. */
void sl_nearest_offer(struct sl_nearest *best, const char *name, size_t len, const char *candidate);

#endif
