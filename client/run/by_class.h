/* How an evaluation went for each class. */
#ifndef SL_CLIENT_RUN_BY_CLASS_H
#define SL_CLIENT_RUN_BY_CLASS_H

#include <jansson.h>

#include "client/data/source.h"
#include "client/run/metric.h"

/* To stdout: a line for each class, with its samples, precision, recall, F1, and what else was said of it most often.
 * Nothing where they were not counted. `set` names the classes. */
void sl_by_class_print(const struct sl_scores *scores, const struct sl_set *set);
/* "classes", "confusion", "roc" and "calibration" into the object, where they were counted (docs/OUTPUT.md). */
void sl_by_class_json(json_t *root, const struct sl_scores *scores, const struct sl_set *set);

/* Of several numbers or labels: their names, and each one's metrics; "targets" in the object. `score`: of all. */
void sl_by_target_print(const struct sl_scores *scores, const struct sl_score score[SL_SCORES_MOST],
			const struct sl_set *set);
void sl_by_target_json(json_t *root, const struct sl_scores *scores, const struct sl_score score[SL_SCORES_MOST],
		       const struct sl_set *set);

#endif
