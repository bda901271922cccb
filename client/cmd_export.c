#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/command.h"
#include "client/setup.h"
#include "common/base/version.h"
#include "common/nn/weights_file.h"

static const char *const usage[] = {
	"splitc export CONFIG OUT.safetensors [--weights FILE] [--set key=value]…",
	"Writes the whole model with torchvision's names and layouts. The weights are those of the run's last",
	"`train` (log.dir/model.safetensors), or FILE; they are checked against the config's model.",
	NULL,
};

int splitc_export(int argc, char **argv)
{
	struct sl_options o = {.command = "export", .usage = usage};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	char path[PATH_MAX];
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_WEIGHTS, 2);
	const struct sl_st_note note = {"software", "splitc " SL_VERSION};

	if (status < 0)
		status = sl_options_load(&o, &conf);
	if (status >= 0)
		return status;
	if (!o.operand) {
		fprintf(stderr, "splitc export: missing argument 'OUT.safetensors'; usage: %s\n", usage[0]);
		return sl_err_exit_status(SL_ERR_USAGE);
	}
	if (o.weights ? snprintf(path, sizeof path, "%s", o.weights) >= PATH_MAX
		      : snprintf(path, sizeof path, "%s/model.safetensors", conf.log.dir) >= PATH_MAX)
		sl_fail_set(&fail, SL_ERR_NOINPUT, "the path of the weights is too long");
	else if (sl_setup_plan(&setup, &conf, &fail) == SL_OK && sl_setup_weights(&setup, path, true, &fail) == SL_OK &&
		 sl_weights_save(setup.plan->model, o.operand, (const float *const *)setup.weights.value, 0, &note, 1,
				 &fail) == SL_OK)
		fail.code = SL_OK;
	status = fail.code ? sl_command_failed(&fail) : 0;
	if (!status)
		printf("%s: %s, %d tensors\n", o.operand, setup.plan->model->name, setup.plan->model->n_param);
	sl_setup_close(&setup);
	return status;
}
