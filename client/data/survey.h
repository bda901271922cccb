/* Looks at every sample of a set of pictures: what can be read, sizes, labels, mean and deviation; of a table: labels.
 */
#ifndef SL_CLIENT_DATA_SURVEY_H
#define SL_CLIENT_DATA_SURVEY_H

#include "client/data/source.h"
#include "client/data/transform.h"
#include "common/base/pool.h"

enum { SL_SURVEY_NAMED = 20 };

struct sl_survey {
	int64_t samples, bad; /* bad: of these, cannot be read */
	int64_t *of_class;    /* [classes], samples that can be */
	int classes;
	int least_h, least_w, median_h, median_w, most_h, most_w; /* each side by itself, in pixels of the files */
	/* Of all pixels of the images that `transform` makes, as fractions of white: torchvision's Normalize. */
	double mean[3], deviation[3]; /* [channels] */
	int channels;
	int n_why; /* the first bad samples, in the set's order */
	struct sl_fail why[SL_SURVEY_NAMED];
};

/* `transform`: a fixed one. `pool` NULL: one thread. The same result for any number of threads. NOMEM, and errors that
 * are not of a sample. *out is to be closed where this succeeds. */
enum sl_err sl_survey_take(struct sl_survey *out, const struct sl_set *set, const struct sl_transform *transform,
			   struct sl_pool *pool, struct sl_fail *fail) SL_MUST_CHECK;
/* Of a table: samples, classes and of_class alone. */
enum sl_err sl_survey_rows(struct sl_survey *out, const struct sl_set *set, struct sl_fail *fail) SL_MUST_CHECK;
void sl_survey_close(struct sl_survey *survey);

#endif
