#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/conf/conf.h"
#include "common/telemetry/show.h"
#include "server/command.h"

static const char usage[] = "splits status [CONFIG] [--control PATH] [--json]";

int splits_status(int argc, char **argv)
{
	const char *config = NULL, *control = NULL;
	struct sl_conf_server conf;
	struct sl_fail fail;
	enum sl_err err = SL_OK;
	bool json = false;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			printf("usage: %s\n  Asks the splits that runs with this config (or listens at PATH) what it "
			       "is doing.\n",
			       usage);
			return 0;
		}
		if (strcmp(argv[i], "--json") == 0) {
			json = true;
		} else if (strcmp(argv[i], "--control") == 0 && i + 1 < argc) {
			control = argv[++i];
		} else if (argv[i][0] != '-' && !config) {
			config = argv[i];
		} else {
			fprintf(stderr, "splits status: unexpected '%s'; usage: %s\n", argv[i], usage);
			return sl_err_exit_status(SL_ERR_USAGE);
		}
	}
	if (!control && config)
		err = sl_conf_server_load(&conf, config, NULL, 0, &fail);
	else if (!control)
		err = sl_conf_parse(&sl_conf_server_schema, &conf, "default", "", 0, NULL, 0, &fail);
	if (!err)
		err = sl_status_show(control ? control : conf.control, json, &fail);
	if (err)
		fprintf(stderr, "splits: %s\n", fail.text);
	return sl_err_exit_status(err);
}
