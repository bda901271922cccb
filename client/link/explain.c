#include "client/link/explain.h"

#include <inttypes.h>

#include "common/base/clock.h"
#include "common/link/probe.h"

enum {
	PROBE_MS = 2000,
	PROBE_MOST_MS = 10000,
	PROBES = 5 /* the time until Welcome, in greetings: a greeting takes two round trips, with keys Welcome takes
		      six, and the rest is a margin */
};

static int probe_ms(int half)
{
	if (half < PROBE_MS)
		return PROBE_MS;
	return half < PROBE_MOST_MS ? half : PROBE_MOST_MS;
}

enum sl_err sl_link_explain(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	const int allowed = conf->link.connect_timeout_ms;
	char why[SL_PROBE_TEXT];
	uint64_t began = sl_now_ms(), would_do;
	enum sl_greeting greeting = sl_probe_wait(conf->server, probe_ms(allowed / 2), why);
	enum sl_err err = sl_greeting_judge(greeting, conf->auth.secret_key[0], NULL, conf->server, fail);

	would_do = ((sl_now_ms() - began) * PROBES + 999) / 1000 * 1000;
	if (err)
		return err;
	if ((greeting == SL_GREETING_NULL || greeting == SL_GREETING_CURVE) && would_do > (uint64_t)allowed)
		return sl_fail_set(fail, fail->code,
				   "%.250s (%.60s, far away: set link.connect_timeout_ms to %" PRIu64 " or more)",
				   fail->text, why, would_do);
	return sl_fail_set(fail, fail->code, "%.300s (%s)", fail->text, why);
}
