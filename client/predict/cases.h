/* Predictions of volumes: each case becomes a mask in its file's own grid. A case is prepared in memory as in training,
 * and the network computes windows of it (windows.h), train.batch at a time. A case that cannot be read or predicted is
 * named, and the others go on. Where the data have masks, figures follow (overlap.h). */
#ifndef SL_CLIENT_PREDICT_CASES_H
#define SL_CLIENT_PREDICT_CASES_H

#include "client/predict/case_lines.h"
#include "client/setup/setup.h"

struct sl_cases_spec {
	const char *dir;             /* the folder of the masks, which exists */
	bool force;                  /* a mask may replace a file */
	bool local;                  /* this process computes the middle, too */
	struct sl_case_lines *lines; /* borrowed */
};

/* setup->cases is set, and all is open. Returns after the last case, or after a signal (BUSY). A case without a mask:
 * the first one's error. IO, CANTCREATE, NOMEM: the others were not tried. */
enum sl_err sl_cases_run(struct sl_setup *setup, const struct sl_cases_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;

#endif
