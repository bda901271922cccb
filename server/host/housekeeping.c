#include "server/host/housekeeping.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"

enum { EVERY_MS = 60000, PRIORITY = 9 };

enum sl_err sl_housekeeping_open(struct sl_housekeeping *k, const struct sl_conf_server *conf)
{
	int64_t quarter_ms = conf->store_ttl_s * 250;
	size_t places = 2 * (size_t)conf->limits.sessions; /* as many as the host has */

	*k = (struct sl_housekeeping){
		.what = {.dir = conf->store,
			 .ttl_s = conf->store_ttl_s,
			 .bytes = conf->store_bytes,
			 .bytes_per_key = conf->store_bytes_per_key,
			 .n_live = (int)places,
			 .live = calloc(places, sizeof *k->what.live)},
		.opened_ms = sl_now_ms(),
		.every_ms = quarter_ms && quarter_ms < EVERY_MS ? quarter_ms : EVERY_MS,
	};
	k->opened_s = sl_retention_opened(&k->what, sl_wall_s());
	return k->what.live ? SL_OK : SL_ERR_NOMEM;
}

void sl_housekeeping_close(struct sl_housekeeping *k)
{
	free(k->what.live);
	k->what.live = NULL;
}

static void run(struct sl_job *job)
{
	struct sl_housekeeping *k = (struct sl_housekeeping *)(void *)job;

	k->found = sl_retention_run(
		&k->what, sl_retention_now(sl_wall_s(), k->opened_s, (int64_t)(sl_now_ms() - k->opened_ms) / 1000));
}

static void done(struct sl_job *job)
{
	struct sl_housekeeping *k = (struct sl_housekeeping *)(void *)job;

	k->result = k->found;
	k->busy = false;
}

void sl_housekeeping_measure(struct sl_housekeeping *k)
{
	sl_retention_set_limits(&k->what);
	if (k->what.bytes)
		sl_log(SL_LOG_INFO, "store",
		       "%s may hold %.1f GB (store_bytes), %.1f GB of one key (store_bytes_per_key)", k->what.dir,
		       (double)k->what.bytes / 1e9, (double)k->what.bytes_per_key / 1e9);
}

void sl_housekeeping_tick(struct sl_housekeeping *k, struct sl_worker *worker, uint64_t now_ms)
{
	if (k->busy || now_ms < k->due_ms || !k->what.dir[0])
		return;
	k->due_ms = now_ms + (uint64_t)k->every_ms;
	k->busy = true;
	k->job = (struct sl_job){.run = run, .done = done, .priority = PRIORITY};
	sl_worker_post(worker, &k->job);
}
