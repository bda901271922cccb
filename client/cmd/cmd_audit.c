#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/cmd/fetch_pair.h"

static const char *const usage[] = {
	"splitc audit CONFIG [--steps N] [--json] [--set KEY=VALUE]…",
	"Checks whether the server computes what was agreed. It continues the config's run for a few steps from the "
	"newest checkpoint that client and server both have, as --resume would. This process repeats each step and "
	"compares bit by bit: first what the server sends, then the weights of the middle. A difference ends the "
	"command with status 79 and a sentence that names step and tensor.",
	"The run stays as it is: --resume goes on from its checkpoint. The samples that cross are those that the run "
	"sends next. In a run, train.audit.every does the same at steps that the server cannot know beforehand.",
	"An audit shows that the server computed these steps as agreed. It does not show what else the server does "
	"with what it receives: splitc leak measures that.",
	NULL,
};

static enum sl_err read_steps(const char *text, uint64_t *steps, struct sl_fail *fail)
{
	*steps = 4;
	if (!text)
		return SL_OK;
	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 6 || atoi(text) < 1)
		return sl_fail_set(fail, SL_ERR_USAGE, "audit --steps: '%.40s' is no number from 1 to 999999", text);
	*steps = (uint64_t)atoi(text);
	return SL_OK;
}

static enum sl_err suits(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	if (conf->agreed.share.group[0])
		return sl_conf_client_fail(
			conf, "share.group", fail,
			"a group's steps cannot be audited: a member cannot repeat the others' part");
	if (conf->agreed.ema > 0)
		return sl_conf_client_fail(conf, "train.ema", fail,
					   "a run with averages cannot be audited: the server gives them in place of "
					   "the weights that learn");
	if (conf->train.phases.n)
		return sl_conf_client_fail(conf, "train.phases", fail,
					   "a run with phases is audited while it trains, by train.audit.every");
	return SL_OK;
}

static enum sl_err open_setup(struct sl_setup *setup, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	enum sl_err err;

	setup->reads = SL_READS_ALL;
	setup->audits = true;
	err = sl_setup_plan(setup, conf, fail);
	if (!err)
		err = sl_setup_weights(setup, conf->model.weights, false, fail);
	if (!err)
		err = sl_setup_data(setup, true, fail);
	return err ? err : sl_setup_backend(setup, fail);
}

static void say(uint64_t step, const struct sl_audit_sum *sum, bool json)
{
	const char *format =
		json ? "{\"schema\": 1, \"first_step\": %" PRIu64 ", \"steps\": %" PRIu64
		       ", \"seconds\": %.3f, \"bytes\": %" PRIu64 "}\n"
		     : "from step %" PRIu64 ", %" PRIu64
		       " steps: the server computed what was agreed, to the bit; %.3f s on this host, %" PRIu64
		       " bytes fetched\n";

	printf(format, step + 1, sum->steps, sum->seconds, sum->bytes);
}

int splitc_audit(int argc, char **argv)
{
	struct sl_options o = {.command = "audit", .usage = usage, .keys = &sl_conf_client_schema, .suits = suits};
	static struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_audit_sum sum;
	uint64_t steps, step;
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_AUDIT, 1);

	if (status >= 0)
		return status;
	if (read_steps(o.steps, &steps, &fail) != SL_OK)
		return sl_command_failed(&fail);
	status = sl_options_load(&o, SL_USES_TRAIN_SET | SL_USES_TEST_SET | SL_USES_LINK, &conf);
	if (status >= 0)
		return status;
	if (open_setup(&setup, &conf, &fail) || sl_audit_pair(&setup, steps, &step, &sum, &fail))
		status = sl_command_failed(&fail);
	else
		say(step, &sum, o.json);
	sl_setup_close(&setup);
	return status < 0 ? 0 : status;
}
