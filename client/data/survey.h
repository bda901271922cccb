/* Reads every sample of a set. Pictures: which can be read, sizes, labels, mean and deviation. Tables: labels. */
#ifndef SL_CLIENT_DATA_SURVEY_H
#define SL_CLIENT_DATA_SURVEY_H

#include "client/data/source.h"
#include "client/data/transform.h"
#include "common/base/pool.h"

enum { SL_SURVEY_NAMED = 20 };

struct sl_survey {
	int64_t samples, bad; /* bad: those that cannot be read */
	int64_t *of_class;    /* [classes], readable samples of each class */
	int classes;
	int least_h, least_w, median_h, median_w, most_h, most_w; /* of each side separately, in pixels of the files */
	/* Of all pixels of the images that `transform` makes, where 0 is black and 1 white: as torchvision's
	 * Normalize takes them. */
	double mean[3], deviation[3]; /* [channels] */
	int channels;
	int n_why; /* why: the first bad samples, in the set's order */
	struct sl_fail why[SL_SURVEY_NAMED];
};

/* Surveys pictures. `transform` has no random steps. `pool` NULL: one thread. The result is the same for any number
 * of threads. NOMEM, and errors that do not concern a single sample. Close *out after success. */
enum sl_err sl_survey_take(struct sl_survey *out, const struct sl_set *set, const struct sl_transform *transform,
			   struct sl_pool *pool, struct sl_fail *fail) SL_MUST_CHECK;
/* Surveys a table: fills samples, classes and of_class alone. NOMEM; errors of reading a sample. */
enum sl_err sl_survey_rows(struct sl_survey *out, const struct sl_set *set, struct sl_fail *fail) SL_MUST_CHECK;
void sl_survey_close(struct sl_survey *survey);

#endif
