#include "common/telemetry/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/telemetry/status.h"

enum { PAGES = 4 };

struct sl_metrics {
	struct sl_http *http;
	struct sl_http_page page[PAGES]; /* of which the first two are always served */
	struct ask {
		const struct sl_metrics *of;
		const char *request; /* to `answer`; "": none, for the page itself */
	} ask[PAGES];
	bool web;
	char *(*answer)(void *arg, const char *request);
	void *arg;
};

/* The page of a run, web.html: all of it is in the program. */
extern const char sl_web_page[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n.global sl_web_page\n.hidden sl_web_page\nsl_web_page: .incbin "
	"\"common/telemetry/web.html\"\n.byte 0\n"
	".popsection");

/* Its Content-Type, and what a browser may do with it: ask this port, and nothing else. */
static const char html[] =
	"text/html; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
	"Content-Security-Policy: default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
	"style-src 'unsafe-inline'";

static const char front[] =
	"<!doctype html><meta charset=\"utf-8\"><title>Split</title><p>This port serves "
	"<a href=\"/metrics\">/metrics</a> for Prometheus. With <code>web: true</code> in its config "
	"splitc shows its run here.\n";

static char *text(void *arg)
{
	const struct ask *a = arg;
	const struct sl_metrics *m = a->of;
	char *answer = a->request[0] ? m->answer(m->arg, a->request) : strdup(m->web ? sl_web_page : front), *metrics;

	if (!answer || strcmp(a->request, "status") != 0)
		return answer;
	metrics = sl_status_metrics(answer);
	free(answer);
	return metrics;
}

enum sl_err sl_metrics_open(struct sl_metrics **out, struct sl_loop *loop, const char *address,
			    const char (*name)[SL_REQUEST_NAME], int n_name, bool web,
			    char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	static const struct {
		const char *path, *type, *request;
	} pages[PAGES] = {{"/metrics", "text/plain; version=0.0.4; charset=utf-8", "status"},
			  {"/", html, ""},
			  {"/run.json", "application/json", "run.json"},
			  {"/log.jsonl", "application/x-ndjson", "log.jsonl"}};
	struct sl_metrics *m;
	enum sl_err err;

	*out = NULL;
	if (!address[0])
		return SL_OK;
	m = malloc(sizeof *m);
	if (!m)
		return sl_fail_set(fail, SL_ERR_NOMEM, "metrics: out of memory");
	*m = (struct sl_metrics){.answer = answer, .arg = arg, .web = web};
	for (int i = 0; i < PAGES; i++) {
		m->ask[i] = (struct ask){m, pages[i].request};
		m->page[i] = (struct sl_http_page){.path = pages[i].path,
						   .type = pages[i].type,
						   .name = name,
						   .n_name = n_name,
						   .text = text,
						   .arg = &m->ask[i],
						   .next = i + 1 < (web ? PAGES : 2) ? &m->page[i + 1] : NULL};
	}
	err = sl_http_open(&m->http, loop, address, &m->page[0], fail);
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
