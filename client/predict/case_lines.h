/* What is said of predicted cases of volumes: a line for each and, where masks are known, its figures, and at last
 * their means. */
#ifndef SL_CLIENT_PREDICT_CASE_LINES_H
#define SL_CLIENT_PREDICT_CASE_LINES_H

#include <jansson.h>

#include "client/data/volume.h"
#include "client/figures/overlap.h"

struct sl_case_lines {
	bool json;
	int classes;
	const char *const *class_name; /* [classes]; NULL: their numbers. Borrowed */
	const json_t *doubt;           /* members of each object in JSON (doubt.h). Borrowed */
	struct sl_case_sums {
		int64_t cases, empty, distances; /* with a Dice; in which no mask has the class; with an HD95 */
		double dice, square, hd95;       /* sums of Dice, of its squares, and of HD95 */
	} sum[SL_VOLUME_CLASSES];
};

/* Prints what is known of case `i`: its mask's path or, if `why` is not NULL, why it has none. of [classes]: figures,
 * which are added to the sums; NULL: the true mask is not known. */
void sl_case_lines_put(struct sl_case_lines *l, int64_t i, const char *name, const char *mask,
		       const struct sl_fail *why, const struct sl_overlap *of);
/* Prints a table of means over cases, if there are figures; not in JSON. */
void sl_case_lines_end(const struct sl_case_lines *l);

#endif
