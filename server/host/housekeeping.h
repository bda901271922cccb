/* Runs the store's housekeeping (retention.h) from time to time, as a job of the device's worker: sessions write to the
 * store on the same worker, so not at the same time. Loop thread. */
#ifndef SL_SERVER_HOST_HOUSEKEEPING_H
#define SL_SERVER_HOST_HOUSEKEEPING_H

#include "common/base/worker.h"
#include "common/conf/conf.h"
#include "server/store/retention.h"

struct sl_housekeeping {
	struct sl_job job; /* must be first */
	struct sl_retention
		what; /* has 2 · limits.sessions places for sl_retention_join, which may be called during a job */
	struct sl_retention_result result; /* of the last job that is done */
	struct sl_retention_result found;  /* (worker) of the job under way */
	uint64_t due_ms, opened_ms;
	int64_t opened_s; /* the same moment as opened_ms, by the clock of files' times */
	int64_t every_ms;
	bool busy;
};

/* `conf` is borrowed. NOMEM. */
enum sl_err sl_housekeeping_open(struct sl_housekeeping *keeping, const struct sl_conf_server *conf) SL_MUST_CHECK;
void sl_housekeeping_close(struct sl_housekeeping *keeping); /* no job may be under way; zeroed is fine */

/* Sets the limits that the config leaves open, from the size of the disk (sl_retention_set_limits). Call it once the
 * store's folder exists. */
void sl_housekeeping_measure(struct sl_housekeeping *keeping);
/* Starts the job if it is due. */
void sl_housekeeping_tick(struct sl_housekeeping *keeping, struct sl_worker *worker, uint64_t now_ms);

#endif
