#include <stdio.h>

#include "client/command.h"
#include "client/drive.h"

static const char *const usage[] = {
	"splitc eval CONFIG [--weights FILE] [--local] [--set key=value]… [--json]",
	"Loss and accuracy on the test set, over the link unless --local. The weights are those of the run's last",
	"`train` (log.dir/model.safetensors), or FILE.",
	NULL,
};

static enum sl_err open_setup(struct sl_setup *setup, const struct sl_options *o, const struct sl_conf_client *conf,
			      struct sl_fail *fail)
{
	char path[PATH_MAX];
	enum sl_err err = sl_setup_plan(setup, conf, fail);

	if (err)
		return err;
	if (o->weights ? snprintf(path, sizeof path, "%s", o->weights) >= PATH_MAX
		       : snprintf(path, sizeof path, "%s/model.safetensors", conf->log.dir) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of the weights is too long");
	err = sl_setup_weights(setup, path, true, fail);
	if (err == SL_ERR_NOINPUT && !o->weights)
		return sl_fail_set(fail, err,
				   "%s cannot be read: `splitc train` writes it, --weights names another file", path);
	if (!err)
		err = sl_setup_data(setup, false, fail);
	return err ? err : sl_setup_backend(setup, fail);
}

int splitc_eval(int argc, char **argv)
{
	struct sl_options o = {.command = "eval", .usage = usage};
	struct sl_drive_options drive = {.eval_only = true};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_LOCAL | SL_OPT_WEIGHTS, 1);

	if (status < 0)
		status = sl_options_load(&o, &conf);
	if (status >= 0)
		return status;
	drive.json = o.json;
	err = open_setup(&setup, &o, &conf, &fail);
	if (!err)
		err = o.local ? sl_drive_local(&setup, &drive, &fail) : sl_drive_remote(&setup, &drive, &fail);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
