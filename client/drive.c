#include "client/drive.h"

#include "common/link/probe.h"

enum { PROBE_MS = 2000 };

/* Nobody answered: what the network says to that. */
static enum sl_err explain(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	char why[SL_PROBE_TEXT];
	enum sl_greeting greeting = sl_probe_wait(conf->server, PROBE_MS, why);
	enum sl_err err = sl_greeting_judge(greeting, conf->auth.secret_key[0], NULL, conf->server, fail);

	return err ? err : sl_fail_set(fail, fail->code, "%.300s (%s)", fail->text, why);
}

enum sl_err sl_drive(struct sl_setup *setup, const struct sl_drive_options *options, bool local, struct sl_fail *fail)
{
	enum sl_err err;

	if (local)
		return sl_drive_local(setup, options, fail);
	err = sl_drive_remote(setup, options, fail);
	return err == SL_ERR_TIMEOUT ? explain(setup->conf, fail) : err;
}
