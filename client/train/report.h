/* The status of a running splitc, for the control socket. */
#ifndef SL_CLIENT_TRAIN_REPORT_H
#define SL_CLIENT_TRAIN_REPORT_H

#include "client/pass/remote.h"
#include "client/train/training.h"

/* JSON (common/telemetry/status.h), malloc'ed; for "run.json" with what the page shows besides (docs/OUTPUT.md); for
 * "log.jsonl" the last 8 MiB of that file; NULL for a request that is not "status" or one of these. `remote`: NULL
 * between two links, when the run is in phase "connect" and has no rates. `link`: totals of the closed links
 * (sl_report_add). */
char *sl_report_status(const struct sl_setup *setup, const struct sl_training *training, const struct sl_remote *remote,
		       const struct sl_training_link *link, const struct sl_checkpoint_state *checkpoint,
		       const char *request);
/* Samples the link's counters for its rates. Call it often enough (common/telemetry/rate.h) while the link is up. */
void sl_report_watch(struct sl_training_link *link, const struct sl_remote *remote);
/* Brings link->traffic up to date. */
void sl_report_count(struct sl_training_link *link, struct sl_remote *remote);
/* Adds the figures of a link that is about to be closed. */
void sl_report_add(struct sl_training_link *link, const struct sl_remote *remote);

#endif
