#include "common/telemetry/metrics.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/telemetry/status.h"

struct sl_metrics {
	struct sl_http *http;
	char *(*answer)(void *arg, const char *request);
	void *arg;
};

static char *text(void *arg)
{
	const struct sl_metrics *m = arg;
	char *json = m->answer(m->arg, "status"), *metrics = json ? sl_status_metrics(json) : NULL;

	free(json);
	return metrics;
}

enum sl_err sl_metrics_open(struct sl_metrics **out, struct sl_loop *loop, const char *address,
			    const char (*name)[SL_REQUEST_NAME], int n_name,
			    char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	struct sl_http_page page = {.path = "/metrics",
				    .type = "text/plain; version=0.0.4; charset=utf-8",
				    .name = name,
				    .n_name = n_name,
				    .text = text};
	struct sl_metrics *m;
	enum sl_err err;

	*out = NULL;
	if (!address[0])
		return SL_OK;
	page.arg = m = malloc(sizeof *m);
	if (!m)
		return sl_fail_set(fail, SL_ERR_NOMEM, "metrics: out of memory");
	*m = (struct sl_metrics){.answer = answer, .arg = arg};
	err = sl_http_open(&m->http, loop, address, &page, fail);
	if (err) {
		free(m);
		return err;
	}
	if (sl_http_is_loopback(m->http))
		sl_log(SL_LOG_INFO, "metrics", "on http://%s/metrics", sl_http_address(m->http));
	else
		sl_log(SL_LOG_WARN, "metrics", "on http://%s/metrics, for everybody who can reach it",
		       sl_http_address(m->http));
	*out = m;
	return SL_OK;
}

void sl_metrics_close(struct sl_metrics *m)
{
	if (!m)
		return;
	sl_http_close(m->http);
	free(m); /* nothing asks for the page any more */
}
