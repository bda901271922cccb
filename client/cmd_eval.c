#include <stdio.h>

#include "client/child.h"
#include "client/command.h"
#include "client/drive.h"
#include "common/base/wrap.h"

static const char *const usage[] = {
	"splitc eval CONFIG [--weights FILE] [--local] [--parity] [--set KEY=VALUE]… [--json]",
	"Loss and accuracy on the test set, over the link unless --local. The weights are those of the run's last "
	"`train` (log.dir/model.safetensors), or FILE; a decaying insert is as wide as it was behind their last step "
	"(FILE says which; where it does not, behind the last fall).",
	NULL,
};

static enum sl_err open_setup(struct sl_setup *setup, const struct sl_options *o, const struct sl_conf_client *conf,
			      struct sl_fail *fail)
{
	enum sl_err err = sl_options_trained(o, conf, setup, false, fail);

	if (!err)
		err = sl_setup_data(setup, false, fail);
	return err ? err : sl_setup_backend(setup, fail);
}

/* Loss and accuracy of an evaluation with these codecs (NULL: the config's). */
static enum sl_err evaluate(const struct sl_options *o, const char *codec, double *acc, double *loss,
			    struct sl_fail *fail)
{
	struct sl_child child;
	json_t *summary;
	enum sl_err err;

	sl_child_open(&child, o);
	if (codec)
		sl_child_set(&child, "codec", codec);
	err = sl_child_run(&child, NULL, &summary, fail);
	if (err)
		return err;
	*acc = json_number_value(json_object_get(summary, "test_acc"));
	*loss = json_number_value(json_object_get(summary, "test_loss"));
	json_decref(summary);
	return SL_OK;
}

static void print_parity(const struct sl_conf_client *conf, bool json, const double acc[2], const double loss[2])
{
	if (json) {
		printf("{\"schema\":1,\"codec\":{");
		for (int dir = 0; dir < SL_DIR_COUNT; dir++)
			printf("%s\"%s\":\"%s\"", dir ? "," : "", sl_dir_name((enum sl_dir)dir), conf->codec[dir]);
		printf("},\"with\":{\"test_acc\":%.17g,\"test_loss\":%.17g},\"without\":{\"test_acc\":%.17g,"
		       "\"test_loss\":%.17g}}\n",
		       acc[0], loss[0], acc[1], loss[1]);
		return;
	}
	printf("%-48s %10s %10s\n", "codecs of head_act, mid_act at inference", "accuracy", "loss");
	sl_print_cell(stdout, conf->codec[0], 0, 23);
	sl_print_cell(stdout, conf->codec[1], 23, 25);
	printf(" %8.2f %% %10.4f\n", 100 * acc[0], loss[0]);
	printf("%-22s %-25s %8.2f %% %10.4f\n", "none", "none", 100 * acc[1], loss[1]);
	printf("%-48s %+8.2f   %+10.4f\n", "difference (points)", 100 * (acc[0] - acc[1]), loss[0] - loss[1]);
}

/* The two sessions differ in what they agree on, so each is a run of its own. */
static int parity(const struct sl_options *o, const struct sl_conf_client *conf)
{
	double acc[2], loss[2];
	struct sl_fail fail;
	enum sl_err err = evaluate(o, NULL, &acc[0], &loss[0], &fail);

	if (!err)
		err = evaluate(o, "none", &acc[1], &loss[1], &fail);
	if (err)
		return sl_command_failed(&fail);
	print_parity(conf, o->json, acc, loss);
	return 0;
}

int splitc_eval(int argc, char **argv)
{
	struct sl_options o = {.command = "eval", .usage = usage};
	struct sl_drive_options drive = {.eval_only = true};
	static struct sl_conf_client conf;
	static struct sl_setup setup; /* as in sl_drive_remote */
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv,
				      SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_LOCAL | SL_OPT_WEIGHTS | SL_OPT_PARITY, 1);

	if (status < 0)
		status = sl_options_load(&o, SL_USES_TRAINED | SL_USES_TEST_SET | SL_USES_LINK, &conf);
	if (status >= 0)
		return status;
	if (o.parity)
		return parity(&o, &conf);
	drive.json = o.json;
	err = open_setup(&setup, &o, &conf, &fail);
	if (!err)
		err = sl_drive(&setup, &drive, o.local, &fail);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
