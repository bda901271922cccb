/* /metrics: a daemon's status over HTTP, as Prometheus reads it; and a page of a run, for browsers. Loop thread. */
#ifndef SL_TELEMETRY_METRICS_H
#define SL_TELEMETRY_METRICS_H

#include "common/base/err.h"
#include "common/link/http.h"

struct sl_loop;
struct sl_metrics;

/* `address` and the n_name names as in link/http.h; "": nothing is opened, and *out is NULL. `answer` is that of the
 * control socket: for the request "status" it returns JSON. web: the page at / shows the run, by the answers to the
 * requests "run.json" and "log.jsonl"; else it is a sentence. Logs the address; as a warning if it is not on loopback.
 * CONFIG, UNAVAILABLE. */
enum sl_err sl_metrics_open(struct sl_metrics **out, struct sl_loop *loop, const char *address,
			    const char (*name)[SL_REQUEST_NAME], int n_name, bool web,
			    char *(*answer)(void *arg, const char *request), void *arg,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_metrics_close(struct sl_metrics *metrics); /* NULL is fine */

#endif
