#include <inttypes.h>
#include <stdio.h>

#include "client/cmd/command.h"
#include "client/run/drive.h"
#include "client/run/predict.h"
#include "common/base/log.h"

static const char *const usage[] = {
	"splitc predict CONFIG [--weights FILE] [--local] [--logits] [--csv | --json] [--set KEY=VALUE]…",
	"Prints a line for each image of the test set, in its order: number, label, predicted class and the "
	"probability of that class. --csv and --json print the probabilities of all classes.",
	"The config's server computes the middle, with the config's codecs. With --local this process computes the "
	"whole model. The weights are those of the last `train` of this run (log.dir/model.safetensors), or FILE, "
	"for example one that `splitc export` wrote. The share of samples whose predicted class is the label equals "
	"the accuracy that `splitc eval` prints.",
	NULL,
};

static enum sl_predict_format format_of(const struct sl_options *o)
{
	return o->csv ? SL_PREDICT_CSV : o->json ? SL_PREDICT_JSON : SL_PREDICT_TEXT;
}

/* Lines are no prediction of all samples where a signal came between. */
static enum sl_err conclude(const struct sl_predict *p, const struct sl_setup *setup, struct sl_fail *fail)
{
	int64_t all = setup->set[SL_SPLIT_TEST].count;

	if (p->rows < (uint64_t)all)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
				   "interrupted: %" PRIu64 " of %" PRId64 " samples were predicted", p->rows, all);
	if (!p->task->met)
		sl_log(SL_LOG_INFO, "predicted", "%" PRIu64 " samples", p->rows);
	else
		sl_log(SL_LOG_INFO, "predicted", "%" PRIu64 " samples, accuracy %.2f %%", p->rows,
		       100 * (double)p->correct / (double)p->rows);
	return SL_OK;
}

static enum sl_err predict(struct sl_setup *setup, const struct sl_options *o, struct sl_fail *fail)
{
	static struct sl_predict p; /* as in sl_drive_remote */
	const struct sl_drive_options drive = {.eval_only = true, .predict = &p};
	enum sl_err err = sl_predict_open(&p, format_of(o), o->logits, stdout, setup->conf->agreed.batch,
					  sl_setup_task(setup->conf), setup->conf->model.classes, fail);

	if (!err)
		err = sl_drive(setup, &drive, o->local, fail);
	if (!err)
		err = conclude(&p, setup, fail);
	if (!setup->in_use)
		sl_predict_close(&p);
	return err;
}

int splitc_predict(int argc, char **argv)
{
	struct sl_options o = {.command = "predict", .usage = usage};
	static struct sl_conf_client conf;
	static struct sl_setup setup;
	struct sl_fail fail;
	enum sl_err err;
	int status =
		sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_LOCAL | SL_OPT_WEIGHTS | SL_OPT_PREDICT, 1);

	if (status < 0 && o.csv && o.json)
		return sl_command_failed(
			&(struct sl_fail){.code = SL_ERR_USAGE, .text = "predict: give --csv or --json, not both"});
	if (status < 0)
		status = sl_options_load(&o, SL_USES_TRAINED | SL_USES_TEST_SET | SL_USES_LINK, &conf);
	if (status >= 0)
		return status;
	if (conf.train.loss != SL_CONF_LABELS) {
		(void)sl_conf_client_fail(&conf, "train.loss", &fail, "predict needs the network's own loss: labels");
		return sl_command_failed(&fail);
	}
	if (!sl_setup_task(&conf)->labelled) {
		(void)sl_conf_client_fail(&conf, "model.head", &fail, "predict needs a classifier");
		return sl_command_failed(&fail);
	}
	err = sl_options_evaluation(&o, &conf, &setup, &fail);
	if (!err)
		err = predict(&setup, &o, &fail);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
