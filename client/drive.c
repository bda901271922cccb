#include "client/drive.h"

#include "common/link/probe.h"

enum { PROBE_MS = 1000 };

enum sl_err sl_drive(struct sl_setup *setup, const struct sl_drive_options *options, bool local, struct sl_fail *fail)
{
	const char *server = setup->conf->server;
	char why[SL_PROBE_TEXT];
	enum sl_err err;

	if (local)
		return sl_drive_local(setup, options, fail);
	err = sl_drive_remote(setup, options, fail);
	if (err == SL_ERR_TIMEOUT)
		sl_fail_set(fail, err, "%.300s (%s)", fail->text, sl_probe(server, PROBE_MS, why));
	return err;
}
