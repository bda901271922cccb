#include <stdio.h>

#include "client/cmd/command.h"
#include "client/persist/journal.h"
#include "client/run/drive.h"
#include "client/run/local_group.h"

static const char *const usage[] = {
	"splitc train [CONFIG] [--local | --resume | --fresh] [--set KEY=VALUE]… [--json]",
	"Trains with the config's server. In log.dir it writes log.jsonl (a line per step and per epoch, and a "
	"summary), checkpoints, and at the end model.safetensors.",
	"Without CONFIG it trains the demo in runs/demo: a small MobileNetV2 on CIFAR-10, with splits on this host. "
	"The data must be in data/cifar-10-batches-bin or in $XDG_DATA_HOME/split (~/.local/share/split). `splitc "
	"init` writes a config.",
	"The first Ctrl-C, SIGTERM or SIGHUP ends the run after the step under way and keeps its weights. A second "
	"one ends it at once. --resume goes on with the run.",
	"A finished run is kept. To train another one in the same log.dir, give --fresh. To train the finished one "
	"further, give --resume --set train.epochs=N.",
	"The table at the end has a row for each of the four tensors. wire MB is what crossed the link, headers of "
	"messages included; up goes to the server, down comes from it. fp32 MB is the size without codec and insert. "
	"real is the ratio of the two; nominal is the ratio by the codec's own count. Average MB/s is what a step "
	"sent, divided by the computation time of both sides. Peak client and server MB/s are those of the fastest "
	"tensor sent and received.",
	NULL,
};

static enum sl_err open_setup(struct sl_setup *setup, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	enum sl_err err;

	setup->reads = SL_READS_ALL;
	err = sl_setup_plan(setup, conf, fail);

	if (!err)
		err = sl_setup_weights(setup, conf->model.weights, false, fail);
	if (!err)
		err = sl_setup_data(setup, true, fail);
	return err ? err : sl_setup_backend(setup, fail);
}

/* A group in one process: members make their own setups, on this one's backend. */
static enum sl_err open_run(struct sl_setup *setup, const struct sl_conf_client *conf, bool local, struct sl_fail *fail)
{
	if (!local || !conf->agreed.share.group[0])
		return open_setup(setup, conf, fail);
	setup->conf = conf;
	return sl_setup_backend(setup, fail);
}

/* --clients is short for two keys. */
static int take_clients(struct sl_options *o, char set[SL_CONF_TEXT])
{
	struct sl_fail fail = {0};

	if ((o->clients || o->absent) && !o->local)
		return sl_command_failed(
			&(struct sl_fail){.code = SL_ERR_USAGE, .text = "train: --clients and --absent need --local"});
	if (sl_absent_check(o->absent, &fail) != SL_OK)
		return sl_command_failed(&fail);
	if (!o->clients)
		return -1;
	if (o->n_set + 2 > SL_MAX_SETS)
		return sl_command_failed(&(struct sl_fail){.code = SL_ERR_USAGE, .text = "train: too many --set"});
	snprintf(set, SL_CONF_TEXT, "share.clients=%.100s", o->clients);
	o->set[o->n_set++] = "share.group=local";
	o->set[o->n_set++] = set;
	return -1;
}

int splitc_train(int argc, char **argv)
{
	struct sl_options o = {.command = "train", .usage = usage};
	struct sl_drive_options drive = {.eval_only = false};
	static struct sl_conf_client conf;
	static struct sl_setup setup; /* as in sl_drive_remote */
	char clients[SL_CONF_TEXT];
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv,
				      SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_LOCAL | SL_OPT_RESUME | SL_OPT_GROUP, 1);

	if (status >= 0)
		return status;
	status = take_clients(&o, clients);
	if (status >= 0)
		return status;
	if (o.local && o.resume)
		return sl_command_failed(&(struct sl_fail){
			.code = SL_ERR_USAGE,
			.text = "train: --local keeps no checkpoints, so there is nothing to --resume"});
	if (o.resume && o.fresh)
		return sl_command_failed(
			&(struct sl_fail){.code = SL_ERR_USAGE, .text = "train: give --resume or --fresh, not both"});
	status = sl_options_load(&o, SL_USES_FOR_TRAINING | SL_USES_LOG | SL_USES_DEMO, &conf);
	if (status >= 0)
		return status;
	if (!o.resume && !o.fresh && sl_journal_taken(&conf, &fail) != SL_OK)
		return sl_command_failed(&fail);
	drive.json = o.json;
	drive.resume = o.resume;
	drive.fresh = o.fresh;
	drive.absent = o.absent;
	err = open_run(&setup, &conf, o.local, &fail);
	if (!err)
		err = sl_drive(&setup, &drive, o.local, &fail);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
