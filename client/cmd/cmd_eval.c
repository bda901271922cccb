#include <math.h>
#include <stdio.h>

#include "client/cmd/child.h"
#include "client/cmd/command.h"
#include "client/train/drive.h"
#include "common/base/wrap.h"
#include "common/telemetry/json.h"

static const char *const usage[] = {
	"splitc eval [CONFIG] [--weights FILE] [--local [--party CONFIG]] [--parity] [--set KEY=VALUE]… [--json]",
	"Computes loss and accuracy on the test part of the data, or else on the validation part. The server computes "
	"the middle, unless --local is given. The "
	"weights are those of the last `train` of this run (log.dir/model.safetensors), or FILE.",
	"--party, once for each other member of a vertical group, reads the data of all: the model of all, which "
	"`export --join` writes, is FILE.",
	"A decaying insert has the width that it had after the last step of these weights. FILE records that step. A "
	"FILE that does not record it is evaluated at the final width.",
	NULL,
};

/* Loss and accuracy of an evaluation with these codecs (NULL: the config's); a loss of NaN or Inf is NaN. *said: its
 * summary, which the caller drops. BUSY: it was stopped. */
static enum sl_err evaluate(const struct sl_options *o, const char *codec, double *acc, double *loss, json_t **said,
			    int *status, struct sl_fail *fail)
{
	struct sl_child child;
	json_t *summary;
	enum sl_err err;

	sl_child_open(&child, o);
	if (codec)
		sl_child_set(&child, "codec", codec);
	err = sl_child_run(&child, NULL, &summary, fail);
	*status = child.status;
	if (err)
		return err;
	if (sl_child_asked_to_end() || child.status) {
		*status = sl_err_exit_status(SL_ERR_BUSY);
		json_decref(summary);
		return SL_ERR_BUSY;
	}
	*acc = sl_json_number(summary, "test_acc");
	*loss = sl_json_number(summary, "test_loss");
	*said = summary;
	return SL_OK;
}

static void print_json(const struct sl_conf_client *conf, const double acc[2], const double loss[2], json_t *said)
{
	static const char *const side[2] = {"with", "without"};
	json_t *root = json_pack("{s:i}", "schema", 1), *codec = json_object();

	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		json_object_set_new(codec, sl_dir_name((enum sl_dir)dir), json_string(conf->agreed.codec[dir]));
	json_object_set_new(root, "codec", codec);
	for (int i = 0; i < 2; i++)
		json_object_set_new(
			root, side[i],
			json_pack("{s:o, s:o}", "test_acc", sl_json_real(acc[i]), "test_loss", sl_json_real(loss[i])));
	json_object_set(root, "evaluated_part", json_object_get(said, "evaluated_part"));
	json_object_set(root, "servers_word", json_object_get(said, "servers_word"));
	json_object_set(root, "warnings", json_object_get(said, "warnings"));
	sl_json_print(root, JSON_COMPACT, stdout);
}

/* Without an accuracy, as of numbers, its cells are "-". */
static void print_row(bool met, double acc, double loss, bool difference)
{
	char share[SL_FIGURE_TEXT], figure[SL_FIGURE_TEXT + 1] = "+";

	if (!met)
		snprintf(share, sizeof share, "-");
	else if (difference && isfinite(acc))
		snprintf(share, sizeof share, "%+.2f  ", 100 * acc);
	else
		(void)sl_share_text(acc, share);
	(void)sl_figure_text(loss, figure + 1);
	printf(" %10s %10s\n", share, difference && loss > 0 ? figure : figure + 1);
}

static void print_table(const struct sl_conf_client *conf, const double acc[2], const double loss[2], json_t *said)
{
	const bool met = sl_conf_learns_labels(conf) && sl_setup_task(conf)->met;

	printf("%-48s %10s %10s\n", "codecs of head_act, mid_act at inference", "accuracy", "loss");
	sl_print_cell(stdout, conf->agreed.codec[0], 0, 22);
	putchar(' ');
	sl_print_cell(stdout, conf->agreed.codec[1], 23, 25);
	print_row(met, acc[0], loss[0], false);
	printf("%-22s %-25s", "none", "none");
	print_row(met, acc[1], loss[1], false);
	printf("%-48s", "difference (points)");
	print_row(met, acc[0] - acc[1], loss[0] - loss[1], true);
	if (json_array_size(json_object_get(said, "servers_word")))
		puts("all of it is the server's word");
}

/* Evaluates with the config's codecs and with none. The two sessions agree on different codecs, so each is a run of
 * its own. */
static int parity(const struct sl_options *o, const struct sl_conf_client *conf)
{
	double acc[2], loss[2];
	struct sl_fail fail;
	int status;
	json_t *said[2] = {NULL};
	enum sl_err err = evaluate(o, NULL, &acc[0], &loss[0], &said[0], &status, &fail);

	if (!err)
		err = evaluate(o, "none", &acc[1], &loss[1], &said[1], &status, &fail);
	if (!err)
		(o->json ? print_json : print_table)(conf, acc, loss, said[0]);
	json_decref(said[0]);
	json_decref(said[1]);
	if (err) /* with a status the child has said why */
		return status ? status : sl_command_failed(&fail);
	return 0;
}

int splitc_eval(int argc, char **argv)
{
	struct sl_options o = {.command = "eval", .usage = usage, .keys = &sl_conf_client_schema};
	struct sl_drive_options drive = {.eval_only = true};
	static struct sl_conf_client conf;
	static struct sl_parties parties;
	const struct sl_conf_client *use = &conf;
	static struct sl_setup setup; /* static, since a task that hangs works on it until the process ends */
	unsigned uses = SL_USES_TRAINED | SL_USES_TEST_SET | SL_USES_LINK;
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(
		&o, argc, argv,
		SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_LOCAL | SL_OPT_WEIGHTS | SL_OPT_PARITY | SL_OPT_PARTY, 1);

	if (!o.parity) /* whose child processes need a config file */
		uses |= SL_USES_DEMO;
	if (status < 0)
		status = sl_options_load(&o, uses, &conf);
	if (status >= 0)
		return status;
	if (o.party[0] && (!o.local || o.parity))
		return sl_command_refuse("eval: --party needs --local, and does not go with --parity");
	if (o.parity)
		return parity(&o, &conf);
	drive.json = o.json;
	err = o.party[0] ? sl_options_party(&o, &conf, &parties, &setup, SL_READS_TEST, &use, &fail) : SL_OK;
	if (!err)
		err = sl_options_evaluation(&o, use, &setup, &fail);
	if (!err)
		err = sl_drive(&setup, &drive, o.local, &fail);
	sl_parties_close(&parties);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
