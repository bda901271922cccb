#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/command.h"
#include "client/setup.h"
#include "common/base/version.h"
#include "common/nn/weights_file.h"

static const char *const usage[] = {
	"splitc export CONFIG OUT.safetensors [--weights FILE] [--set KEY=VALUE]…",
	"Writes the whole model with torchvision's names and layouts. The weights are those of the run's last "
	"`train` (log.dir/model.safetensors), or FILE; they are checked against the config's model.",
	NULL,
};

static enum sl_err export_model(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
				struct sl_fail *fail)
{
	char path[PATH_MAX], steps[24];
	const struct sl_st_note note[] = {{"software", "splitc " SL_VERSION}, {SL_WEIGHTS_STEPS, steps}};
	int64_t trained;
	enum sl_err err;

	if (o->weights ? snprintf(path, sizeof path, "%s", o->weights) >= PATH_MAX
		       : snprintf(path, sizeof path, "%s/model.safetensors", conf->log.dir) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of the weights is too long");
	trained = sl_weights_steps(path);
	snprintf(steps, sizeof steps, "%" PRId64, trained);
	err = sl_setup_plan(setup, conf, fail);
	if (!err)
		err = sl_setup_weights(setup, path, true, fail);
	if (err == SL_ERR_NOINPUT && !o->weights)
		return sl_fail_set(fail, err,
				   "%s cannot be read: `splitc train` writes it, --weights names another file", path);
	return err ? err
		   : sl_weights_save(setup->plan->model, o->operand, (const float *const *)setup->weights.value, 0,
				     note, trained < INT64_MAX ? 2 : 1, fail);
}

int splitc_export(int argc, char **argv)
{
	struct sl_options o = {.command = "export", .usage = usage};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_WEIGHTS, 2);

	if (status < 0)
		status = sl_options_load(&o, &conf);
	if (status >= 0)
		return status;
	if (!o.operand)
		return sl_options_missing(&o, "OUT.safetensors");
	status = export_model(&o, &conf, &setup, &fail) ? sl_command_failed(&fail) : 0;
	if (!status)
		printf("%s: %s, %d tensors\n", o.operand, setup.plan->model->name, setup.plan->model->n_param);
	sl_setup_close(&setup);
	return status;
}
