/* The status of a running splitc, for the control socket. */
#ifndef SL_CLIENT_RUN_REPORT_H
#define SL_CLIENT_RUN_REPORT_H

#include "client/run/remote.h"
#include "client/run/training.h"

/* JSON (common/telemetry/status.h), malloc'ed; NULL for a request that is not "status". `remote`: NULL between two
 * links, where the run is in phase "connect" and has no rates; `link`: what sl_report_add has added up of those before.
 */
char *sl_report_status(const struct sl_setup *setup, const struct sl_training *training, const struct sl_remote *remote,
		       const struct sl_training_link *link, const struct sl_checkpoint_state *checkpoint,
		       const char *request);
/* For the link's rates: often enough (common/telemetry/rate.h), while it stands. */
void sl_report_watch(struct sl_training_link *link, const struct sl_remote *remote);
/* Brings link->traffic up to date. */
void sl_report_count(struct sl_training_link *link, struct sl_remote *remote);
/* Adds the figures of a link that is closed next. */
void sl_report_add(struct sl_training_link *link, const struct sl_remote *remote);

#endif
