/* The results of an evaluation for each class, or for each of several numbers or labels. */
#ifndef SL_CLIENT_FIGURES_BY_CLASS_H
#define SL_CLIENT_FIGURES_BY_CLASS_H

#include <jansson.h>

#include "client/data/source.h"
#include "client/figures/metric.h"

/* Prints a line for each class: its samples, precision, recall, F1, and the class for which it was most often taken.
 * Prints nothing unless sl_scores_confuse had them counted. `set` names the classes. */
void sl_by_class_print(const struct sl_scores *scores, const struct sl_set *set);
/* Adds "classes", "confusion", "roc" and "calibration" to `root` if they were counted (docs/OUTPUT.md). */
void sl_by_class_json(json_t *root, const struct sl_scores *scores, const struct sl_set *set);

/* Of how many numbers or labels a table or line for people has figures: the first ten of more than 32, else all. */
static inline int sl_by_target_shown(int targets)
{
	return targets > 32 ? 10 : targets;
}

/* For several numbers or labels: prints the metrics of each, or adds them to `root` as "targets". `score`: the metrics
 * of all together. */
void sl_by_target_print(const struct sl_scores *scores, const struct sl_score score[SL_SCORES_MOST],
			const struct sl_set *set);
void sl_by_target_json(json_t *root, const struct sl_scores *scores, const struct sl_score score[SL_SCORES_MOST],
		       const struct sl_set *set);

#endif
