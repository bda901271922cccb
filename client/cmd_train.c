#include <stdio.h>

#include "client/command.h"
#include "client/drive.h"

static const char *const usage[] = {
	"splitc train CONFIG [--local | --resume] [--set key=value]… [--json] [--check-config] [--print-config]",
	"Trains with the server of the config; --local computes head, middle and tail in this process.",
	"log.dir gets log.jsonl (a line per step) and, at the end, model.safetensors. A first Ctrl-C ends the run",
	"after the step under way and keeps its weights; a second one at once.",
	"--resume goes on from the newest checkpoint that client and server both hold: after Ctrl-C, or a crash.",
	NULL,
};

static enum sl_err open_setup(struct sl_setup *setup, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	enum sl_err err = sl_setup_plan(setup, conf, fail);

	if (!err)
		err = sl_setup_weights(setup, conf->model.weights, false, fail);
	if (!err)
		err = sl_setup_data(setup, true, fail);
	return err ? err : sl_setup_backend(setup, fail);
}

int splitc_train(int argc, char **argv)
{
	struct sl_options o = {.command = "train", .usage = usage};
	struct sl_drive_options drive = {.eval_only = false};
	static struct sl_conf_client conf;
	static struct sl_setup setup; /* as in sl_drive_remote */
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_LOCAL | SL_OPT_RESUME, 1);

	if (status < 0)
		status = sl_options_load(&o, &conf);
	if (status >= 0)
		return status;
	if (o.local && o.resume)
		return sl_command_failed(&(struct sl_fail){
			SL_ERR_USAGE, "train: --local keeps no checkpoints, there is nothing to --resume"});
	drive.json = o.json;
	drive.resume = o.resume;
	err = open_setup(&setup, &conf, &fail);
	if (!err)
		err = sl_drive(&setup, &drive, o.local, &fail);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
