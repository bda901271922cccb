#include <string.h>

#include "common/conf/conf.h"
#include "common/telemetry/show.h"
#include "server/command.h"

static const char *const usage[] = {
	"splits status [CONFIG] [--control PATH] [--json | --prometheus | --live | --ready] [--quiet] [--watch] "
	"[--set KEY=VALUE]…",
	"Asks the splits that runs with this config (or listens at PATH) what it is doing. Shows its sessions, its "
	"store and the peers that it turned away. For each session it shows samples per second over the last steps, "
	"all bytes that crossed the link, and MB/s (10^6 bytes) over the last 10 s.",
	"--live and --ready are for the probes of a service manager. A server is ready while it would accept another "
	"session: it is not shutting down, and it has fewer than limits.sessions sessions.",
	NULL,
};

int splits_status(int argc, char **argv)
{
	static const char service[] = "/run/split/splits.sock";
	struct sl_options o = {.command = "status", .usage = usage, .keys = &sl_conf_server_schema};
	struct sl_conf_server conf;
	struct sl_fail fail, other;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_JSON | SL_OPT_CONTROL, 1);
	const struct sl_status_how how = {o.json, o.prometheus, o.live, o.ready, o.quiet, o.watch};

	if (status >= 0)
		return status;
	err = sl_options_whom(&o, &sl_conf_server_schema, &conf, "", &fail);
	if (!err)
		err = sl_status_show(o.control ? o.control : conf.control, &how, &fail);
	/* The default path depends on $XDG_RUNTIME_DIR, which root's shell has and a service has not. So without an
	 * explicit path also try the one of the service. */
	if (err == SL_ERR_UNAVAILABLE && !o.control && !o.config && strcmp(conf.control, service) != 0 &&
	    sl_status_show(service, &how, &other) == SL_OK)
		return 0;
	return err ? sl_options_failed("splits", &fail) : 0;
}
