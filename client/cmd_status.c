#include <stdio.h>

#include "client/command.h"
#include "common/telemetry/show.h"

static const char *const usage[] = {
	"splitc status [CONFIG] [--control PATH] [--json | --prometheus]",
	"Asks the splitc that runs with this config (or listens at PATH) what it is doing: how far it is, loss and "
	"accuracy of the last batch, images a second over the last steps, and what has crossed the link: all of it, "
	"and "
	"MB/s (10^6 bytes) over the last 10 s.",
	NULL,
};

int splitc_status(int argc, char **argv)
{
	/* what a config without `control` has */
	static const char no_config[] = "model: {name: none}\ndata: {dir: none}\n";
	struct sl_options o = {.command = "status", .usage = usage};
	struct sl_conf_client conf;
	struct sl_fail fail;
	enum sl_err err = SL_OK;
	enum sl_show as;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_JSON | SL_OPT_CONTROL, 1);

	if (status >= 0)
		return status;
	as = o.json ? SL_SHOW_JSON : o.prometheus ? SL_SHOW_PROMETHEUS : SL_SHOW_TABLE;
	if (!o.control && o.config)
		err = sl_conf_client_load(&conf, o.config, NULL, 0, &fail);
	else if (!o.control)
		err = sl_conf_parse(&sl_conf_client_schema, &conf, "default", no_config, sizeof no_config - 1, NULL, 0,
				    &fail);
	if (!err)
		err = sl_status_show(o.control ? o.control : conf.control, as, &fail);
	return err ? sl_command_failed(&fail) : 0;
}
