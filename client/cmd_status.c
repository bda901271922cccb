#include <stdio.h>

#include "client/command.h"
#include "common/telemetry/show.h"

static const char *const usage[] = {
	"splitc status [CONFIG] [--control PATH] [--json | --prometheus]",
	"Asks the splitc that runs with this config (or listens at PATH) what it is doing: how far it is, loss and "
	"accuracy of the last batch, images a second over the last steps, and what has crossed the link: all of it, "
	"and MB/s (10^6 bytes) over the last 10 s.",
	NULL,
};

int splitc_status(int argc, char **argv)
{
	/* what a config without `control` has */
	static const char no_config[] = "model: {name: none}\ndata: {dir: none}\n";
	struct sl_options o = {.command = "status", .usage = usage};
	struct sl_conf_client conf;
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_JSON | SL_OPT_CONTROL, 1);

	if (status >= 0)
		return status;
	err = sl_options_whom(&o, &sl_conf_client_schema, &conf, no_config, &fail);
	if (!err)
		err = sl_status_show(o.control ? o.control : conf.control, o.json, o.prometheus, &fail);
	return err ? sl_command_failed(&fail) : 0;
}
