#include <stdio.h>

#include "client/command.h"
#include "client/setup.h"

int sl_command_failed(const struct sl_fail *fail)
{
	return sl_options_failed("splitc", fail);
}

int sl_options_load(const struct sl_options *o, struct sl_conf_client *conf)
{
	struct sl_fail fail;

	if (!o->config)
		return sl_options_missing(o, "CONFIG");
	if (sl_conf_client_load(conf, o->config, o->set, o->n_set, &fail) != SL_OK)
		return sl_command_failed(&fail);
	sl_log_set_level(conf->log.level);
	if (o->print_config)
		return sl_err_exit_status(sl_conf_client_print(conf, stdout));
	if (o->check_config) {
		struct sl_setup setup = {0};
		enum sl_err err = sl_setup_plan(&setup, conf, &fail);

		sl_setup_close(&setup);
		if (err)
			return sl_command_failed(&fail);
		printf("%s: ok\n", o->config);
		return 0;
	}
	return -1;
}
