/* The store's housekeeping (tidy.h) as a job of the device's worker, now and then: there no session writes beside it.
 * Loop thread. */
#ifndef SL_SERVER_HOST_HOUSEKEEPING_H
#define SL_SERVER_HOST_HOUSEKEEPING_H

#include "common/base/worker.h"
#include "common/conf/conf.h"
#include "server/store/tidy.h"

struct sl_housekeeping {
	struct sl_job job;            /* first */
	struct sl_tidy what;          /* its places are twice limits.sessions: sl_tidy_join, even during a job */
	struct sl_tidy_result result; /* of the last one that is done */
	struct sl_tidy_result found;  /* (worker) */
	uint64_t due_ms, opened_ms;
	int64_t opened_s; /* by the clock that files have their times from */
	int64_t every_ms;
	bool busy;
};

/* `conf` is borrowed. NOMEM */
enum sl_err sl_housekeeping_open(struct sl_housekeeping *keeping, const struct sl_conf_server *conf) SL_MUST_CHECK;
void sl_housekeeping_close(struct sl_housekeeping *keeping); /* no job may be under way; zeroed is fine */

/* The store is there: its limits, where the config leaves them open. */
void sl_housekeeping_measure(struct sl_housekeeping *keeping);
/* Starts the job where it is time. */
void sl_housekeeping_tick(struct sl_housekeeping *keeping, struct sl_worker *worker, uint64_t now_ms);

#endif
