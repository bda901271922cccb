#include <inttypes.h>
#include <stdio.h>

#include "client/command.h"
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
	char steps[24];
	const struct sl_st_note note[] = {{"software", "splitc " SL_VERSION}, {SL_WEIGHTS_STEPS, steps}};
	enum sl_err err = sl_options_trained(o, conf, setup, false, fail);

	snprintf(steps, sizeof steps, "%" PRId64, setup->trained);
	return err ? err
		   : sl_weights_save(setup->plan->model, o->operand, (const float *const *)setup->weights.value, 0,
				     note, setup->trained < INT64_MAX ? 2 : 1, fail);
}

int splitc_export(int argc, char **argv)
{
	struct sl_options o = {.command = "export", .usage = usage};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_WEIGHTS, 2);

	if (status < 0)
		status = sl_options_load(&o, SL_USES_TRAINED, &conf);
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
