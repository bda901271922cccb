#include <stdio.h>

#include "client/cmd/command.h"
#include "client/train/answers.h"
#include "client/train/phase.h"
#include "common/telemetry/show.h"

enum { MOST_RUNS = 64 };

static const char *const usage[] = {
	"splitc status [CONFIG] [--control PATH] [--json | --prometheus | --live | --ready] [--quiet] [--watch] "
	"[--set KEY=VALUE]…",
	"Asks the splitc that runs with this config (or listens at PATH) what it is doing. Shows its progress, loss "
	"and accuracy of the last batch, samples per second over the last steps, all bytes that crossed the link, and "
	"MB/s (10^6 bytes) over the last 10 s. --watch also draws the loss. Without CONFIG it asks the splitc that "
	"this user runs on this host. If the run was given a log.dir or control by --set, give it here, too.",
	"--live and --ready are for the probes of a service manager. A client is ready while it has a link to its "
	"server. With CONFIG it is also ready once that run is done, although no splitc runs any more.",
	NULL,
};

static const struct sl_status_how is_there = {.live = true, .quiet = true};

/* Shows the status of the client that answers. `any_run`: that of any config; USAGE: several answer. */
static enum sl_err show_usual(const struct sl_conf_client *conf, bool any_run, const struct sl_status_how *how,
			      struct sl_fail *fail)
{
	char found[MOST_RUNS][SL_CONF_SOCKET_PATH];
	int n = sl_answers_find(conf->control, any_run, found, MOST_RUNS), live = 0, last = 0;
	struct sl_fail why;

	for (int i = 0; i < n; i++)
		if (sl_status_show(found[i], &is_there, &why) == SL_OK) {
			live++;
			last = i;
		}
	if (live > 1 && any_run)
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "status: %d clients run here: name one by its CONFIG, or by --control, such as %s",
				   live, found[last]);
	return sl_status_show(live ? found[last] : conf->control, how, fail);
}

static enum sl_err show(const struct sl_options *o, const struct sl_conf_client *conf, const struct sl_status_how *how,
			struct sl_fail *fail)
{
	if (o->control)
		return sl_status_show(o->control, how, fail);
	return sl_conf_is_default(&sl_conf_client_schema, conf, "control") ? show_usual(conf, !o->config, how, fail)
									   : sl_status_show(conf->control, how, fail);
}

int splitc_status(int argc, char **argv)
{
	/* a config without `control`, for its default */
	static const char no_config[] = "model: {name: none}\ndata: {dir: none}\n";
	struct sl_options o = {.command = "status", .usage = usage, .keys = &sl_conf_client_schema};
	struct sl_conf_client conf;
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_JSON | SL_OPT_CONTROL, 1);
	const struct sl_status_how how = {o.json, o.prometheus, o.live, o.ready, o.quiet, o.watch};

	if (status >= 0)
		return status;
	err = sl_options_whom(&o, &sl_conf_client_schema, &conf, no_config, &fail);
	if (err)
		return sl_command_failed(&fail);
	err = show(&o, &conf, &how, &fail);
	/* nobody answers, because the run has ended */
	if (err && o.ready && o.config && sl_run_rest(&conf) == SL_RUN_DONE) {
		struct sl_fail why;

		if (show(&o, &conf, &is_there, &why) == SL_OK)
			return sl_command_failed(&fail);
		if (!o.quiet)
			printf("ready: the run in %s is done\n", conf.log.dir);
		return 0;
	}
	return err ? sl_command_failed(&fail) : 0;
}
