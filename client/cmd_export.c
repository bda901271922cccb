#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/command.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/nn/weights_file.h"

static const char *const usage[] = {
	"splitc export CONFIG OUT.safetensors [--weights FILE] [--set KEY=VALUE]…",
	"Writes the whole model with torchvision's names and layouts. The weights are those of the run's last "
	"`train` (log.dir/model.safetensors), or FILE; they are checked against the config's model.",
	"A state_dict has no strides: that of form: cifar fits torchvision's mobilenet_v2 and computes something else "
	"there "
	"until features.0.0 and features.2.conv.1.0 have stride 1, and features.2 its sum, where it has as many "
	"channels out "
	"as in (README.md, In PyTorch). The file's metadata say model, width, form, image and normalize.",
	NULL,
};

static const char *form_text(const struct sl_conf_client *conf)
{
	return conf->model.form == SL_FORM_CIFAR ? "cifar" : "imagenet";
}

static const char *normalize_text(const struct sl_conf_client *conf)
{
	static const char *const text[] = {[SL_NORMALIZE_NONE] = "none",
					   [SL_NORMALIZE_CIFAR10] = "cifar10",
					   [SL_NORMALIZE_CIFAR100] = "cifar100",
					   [SL_NORMALIZE_IMAGENET] = "imagenet"};

	return text[conf->data.normalize];
}

static enum sl_err export_model(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
				struct sl_fail *fail)
{
	char steps[24], width[32], image[16];
	const struct sl_st_note note[] = {{"software", "splitc " SL_VERSION},
					  {"model", conf->model.name},
					  {"width", width},
					  {"form", form_text(conf)},
					  {"image", image},
					  {"normalize", normalize_text(conf)},
					  {SL_WEIGHTS_STEPS, steps}};
	const int notes = sizeof note / sizeof note[0];
	enum sl_err err = sl_options_trained(o, conf, setup, false, fail);

	snprintf(steps, sizeof steps, "%" PRId64, setup->trained);
	snprintf(width, sizeof width, "%g", conf->model.width);
	snprintf(image, sizeof image, "%d", conf->model.image);
	return err ? err
		   : sl_weights_save(setup->plan->model, o->operand, (const float *const *)setup->weights.value, 0,
				     note, setup->trained < INT64_MAX ? notes : notes - 1, fail);
}

/* What the file holds, and what a state_dict cannot say. */
static void say(const char *path, const struct sl_conf_client *conf, const struct sl_model *model)
{
	static const char mean[] = ".running_mean", insert[] = "insert.";
	int tensors = model->n_param, inserted = 0;

	for (int i = 0; i < model->n_param; i++) {
		const char *name = model->param[i].name;
		size_t len = strlen(name);

		/* beside each a num_batches_tracked */
		tensors += len >= sizeof mean && strcmp(name + len - (sizeof mean - 1), mean) == 0;
		inserted += strncmp(name, insert, sizeof insert - 1) == 0;
	}
	printf("%s: %s, %d tensors\n", path, model->name, tensors);
	if (conf->model.form == SL_FORM_CIFAR)
		sl_log(SL_LOG_WARN, "form-cifar",
		       "model.form is cifar: in torchvision's %s other strides than its own belong to these weights; "
		       "`splitc help export` says which",
		       model->name);
	if (inserted)
		sl_log(SL_LOG_WARN, "inserts", "%d of the tensors, insert.*, are layers that torchvision's %s has not",
		       inserted, model->name);
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
		say(o.operand, &conf, setup.plan->model);
	sl_setup_close(&setup);
	return status;
}
