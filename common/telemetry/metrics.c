#include "common/telemetry/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/telemetry/status.h"

enum { PAGES = 4 };

struct sl_metrics {
	struct sl_http *http;
	struct sl_http_page page[PAGES]; /* of which the first two are always served */
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

static char *metrics(void *arg)
{
	const struct sl_metrics *m = arg;
	char *json = m->answer(m->arg, "status"), *text = json ? sl_status_metrics(json) : NULL;

	free(json);
	return text;
}

static char *page(void *arg)
{
	return strdup(((const struct sl_metrics *)arg)->web ? sl_web_page : front);
}

static char *run(void *arg)
{
	const struct sl_metrics *m = arg;

	return m->answer(m->arg, "run.json");
}

static char *log_lines(void *arg)
{
	const struct sl_metrics *m = arg;

	return m->answer(m->arg, "log.jsonl");
}

enum sl_err sl_metrics_open(struct sl_metrics **out, struct sl_loop *loop, const char *address,
			    const char (*name)[SL_REQUEST_NAME], int n_name, bool web,
			    char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	static const struct sl_http_page pages[PAGES] = {
		{.path = "/metrics", .type = "text/plain; version=0.0.4; charset=utf-8", .text = metrics},
		{.path = "/", .type = html, .text = page},
		{.path = "/run.json", .type = "application/json", .text = run},
		{.path = "/log.jsonl", .type = "application/x-ndjson", .text = log_lines}};
	struct sl_metrics *m;
	enum sl_err err;

	*out = NULL;
	if (!address[0])
		return SL_OK;
	m = malloc(sizeof *m);
	if (!m)
		return sl_fail_set(fail, SL_ERR_NOMEM, "metrics: out of memory");
	*m = (struct sl_metrics){.answer = answer, .arg = arg, .web = web};
	memcpy(m->page, pages, sizeof pages);
	for (int i = 0; i < PAGES; i++) {
		m->page[i].arg = m;
		m->page[i].next = i + 1 < (web ? PAGES : 2) ? &m->page[i + 1] : NULL;
	}
	m->page[0].name = name;
	m->page[0].n_name = n_name;
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
