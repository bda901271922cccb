#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/cmd/command.h"
#include "client/leak/leak.h"
#include "client/setup/about.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/telemetry/progress.h"

enum { STEPS = 500 };

static const char *const usage[] = {
	"splitc leak CONFIG [--party CONFIG] [--weights FILE] [--steps N] [--minutes M] [--out DIR] [--json] "
	"[--set KEY=VALUE]…",
	"Measures what the server could learn about your data from what crosses the link at this cut and with these "
	"codecs. It needs no server, and sends nothing. The attacker trains a decoder on some samples of the part "
	"that is evaluated, and reconstructs pictures, rows of a table or tokens of the others. It also reads classes "
	"from gradients "
	"and "
	"activations.",
	"The weights are those of the config's run, or FILE. Without either they are those that a run would begin "
	"with. The attacker `informed` knows the head as it is. The attacker `start` knows only the weights that the "
	"run began with.",
	"With --party the two configs are those of a vertical pair: member A has the data, member B the labels. This "
	"also "
	"measures what each member learns of the other: A labels or masks from head_grad, B data from mid_act.",
	"DIR gets leak.html, a report to hand on, and leak.json, leak.csv and sheet.png for programs. With --minutes a "
	"decoder may end early. Otherwise the same config, weights and data give the same figures.",
	"A good reconstruction proves a leak. A bad one proves only that this decoder failed.",
	NULL,
};

static enum sl_err read_number(const char *option, const char *text, double *value, struct sl_fail *fail)
{
	static const double most = 1e6;
	char *end = NULL;
	const double x = text ? strtod(text, &end) : *value;

	if (text && (end == text || *end || !(x > 0) || x > most))
		return sl_fail_set(fail, SL_ERR_USAGE, "leak %s: '%.40s' is no number above 0 and up to %g", option,
				   text, most);
	*value = x;
	return SL_OK;
}

static void on_progress(void *arg, int done, int all, double loss)
{
	const struct sl_progress_state state = {.phase = "decoder",
						.epoch = 1,
						.epochs = 1,
						.step = (uint64_t)done,
						.steps = (uint64_t)all,
						.steps_left = (uint64_t)(all - done),
						.samples = (uint64_t)done * 32,
						.loss = loss,
						.acc = NAN};

	sl_progress_update(arg, &state, sl_now_ms());
}

/* Reads the run's weights into setup->weights, and those that it began with into *start. Without a trained model,
 * setup->weights are the initial ones, and *start stays empty. */
static enum sl_err read_weights(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
				struct sl_weights *start, struct sl_fail *fail)
{
	const struct sl_setup *features = setup->features;
	const int n_features = setup->n_features;
	struct sl_weights run;
	enum sl_err err;

	setup->reads = SL_READS_TEST;
	err = sl_options_trained(o, conf, setup, false, fail);
	if ((err == SL_ERR_NOINPUT || (err && !conf->log.dir[0])) && !o->weights && setup->plan) {
		sl_log(SL_LOG_INFO, "untrained",
		       "there is no trained model in %s: a run would begin with these weights",
		       conf->log.dir[0] ? conf->log.dir : "log.dir, which is empty");
		sl_setup_close(setup); /* it was planned with inserts of the final width */
		setup->features = features;
		setup->n_features = n_features;
		setup->alone = features != NULL;
		setup->reads = SL_READS_TEST;
		err = sl_setup_plan(setup, conf, fail);
		if (!err)
			err = sl_setup_weights(setup, conf->model.weights, false, fail);
		return err ? err : sl_weights_widen(&setup->weights, setup->plan->model, fail);
	}
	if (err)
		return err;
	run = setup->weights;
	setup->weights = (struct sl_weights){0};
	err = sl_setup_weights(setup, conf->model.weights, false, fail);
	*start = setup->weights;
	setup->weights = run;
	if (!err)
		err = sl_weights_widen(start, setup->plan->model, fail);
	return err ? err : sl_weights_widen(&setup->weights, setup->plan->model, fail);
}

static enum sl_err measure(struct sl_leak *leak, struct sl_setup *setup, struct sl_weights *start, int steps,
			   double minutes, struct sl_fail *fail)
{
	const struct sl_progress_options shown = {.fd = 2};
	struct sl_progress *progress = NULL;
	enum sl_err err = sl_progress_open(&progress, &shown, fail);
	const struct sl_leak_options options = {steps, minutes, on_progress, progress};

	if (!err)
		err = sl_leak_measure(leak, setup, start->value ? start : NULL, &options, fail);
	sl_progress_close(progress);
	return err;
}

static void show(const struct sl_leak *l, const struct sl_setup *setup, const char *dir, bool json)
{
	json_t *root = json ? sl_leak_json(l, setup) : NULL;
	char text[SL_LEAK_TEXT], range[SL_LEAK_RANGE_TEXT], classes[SL_LEAK_CLASSES_TEXT], brief[SL_LEAK_SHORT_TEXT];

	if (root) {
		sl_command_print_json(root, JSON_INDENT(2));
		return;
	}
	for (int of = 0; of < SL_LEAK_OFS; of++)
		printf("in short  %s: %s\n", sl_leak_of_words[of], sl_leak_in_short(&l->figures, of, brief));
	for (int i = 0; i < l->figures.n; i++) {
		const struct sl_leak_figure *f = &l->figures.item[i];

		if (f->kind == SL_LEAK_R2_COLUMN)
			continue;
		printf("%-9s %s: %s", f->group, sl_leak_kinds[f->kind].name, sl_leak_text(f, f->value, text));
		if (*sl_leak_range_text(f, range))
			printf(" (%s)", range);
		if (!isnan(f->chance))
			printf("; chance %s", sl_leak_text(f, f->chance, text));
		if (*sl_leak_classes_text(f, classes))
			printf("; %s", classes);
		putchar('\n');
	}
	if (l->joint[0])
		printf("%s\n", l->joint);
	for (int i = 0; i < SL_LEAK_OMISSIONS; i++)
		if (l->omitted[i])
			printf("not measured: %s\n", l->omitted[i]);
	printf("the report: %s/leak.html\n", dir);
}

static enum sl_err write_report(const struct sl_leak *leak, const struct sl_options *o, const struct sl_setup *setup,
				int steps, const char *dir, struct sl_fail *fail)
{
	struct sl_leak_report report = {.steps = steps, .set = o->set, .n_set = o->n_set};
	uint8_t *text = NULL;
	size_t len;
	enum sl_err err = sl_file_read(o->config, SL_CONF_MAX_BYTES, &text, &len, fail);

	report.config = (const char *)text; /* a NUL stands behind it */
	if (!err)
		err = sl_leak_write(leak, setup, &report, dir, fail);
	free(text);
	return err;
}

static enum sl_err run(const struct sl_options *o, struct sl_conf_client *mine, struct sl_setup *setup,
		       struct sl_parties *parties, struct sl_fail *fail)
{
	const struct sl_conf_client *conf = mine;
	const char *dir = o->out ? o->out : "leak";
	double steps = STEPS, minutes = 0;
	struct sl_weights start = {0};
	struct sl_leak leak = {0};
	enum sl_err err = read_number("--steps", o->steps, &steps, fail);

	if (!err && steps != floor(steps)) /* 0.5 would be an attacker that has learned nothing */
		err = sl_fail_set(fail, SL_ERR_USAGE, "leak --steps: '%.40s' is no whole number", o->steps);
	if (!err)
		err = read_number("--minutes", o->minutes, &minutes, fail);
	if (!err)
		err = sl_options_party(o, mine, parties, setup, SL_READS_TEST, &conf, fail);
	if (!err && (conf->data.also.n || (setup->features && setup->features->plan->model->graph.n_in > 2)))
		err = sl_conf_client_fail(conf, conf->data.also.n ? "data.also" : "share.inputs", fail,
					  "leak measures networks with one input%s",
					  conf->data.also.n ? ", whose data are of one source" : "");
	if (!err)
		err = read_weights(o, conf, setup, &start, fail);
	if (!err)
		err = sl_setup_data(setup, false, fail);
	if (!err)
		err = sl_about_check(setup, fail);
	if (!err)
		err = sl_setup_class_weights(setup, fail);
	if (!err)
		err = sl_setup_backend(setup, fail);
	if (!err)
		err = measure(&leak, setup, &start, (int)steps, minutes, fail);
	if (!err)
		err = write_report(&leak, o, setup, (int)steps, dir, fail);
	if (!err)
		show(&leak, setup, dir, o->json);
	sl_weights_close(&start);
	sl_leak_close(&leak);
	return err;
}

int splitc_leak(int argc, char **argv)
{
	struct sl_options o = {.command = "leak", .usage = usage, .keys = &sl_conf_client_schema};
	static struct sl_conf_client conf;
	static struct sl_parties parties;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv,
				      SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_WEIGHTS | SL_OPT_PARTY | SL_OPT_LEAK, 1);

	if (status < 0)
		status = sl_options_load(&o, SL_USES_TEST_SET, &conf);
	if (status >= 0)
		return status;
	status = run(&o, &conf, &setup, &parties, &fail) ? sl_command_failed(&fail) : 0;
	sl_parties_close(&parties);
	sl_setup_close(&setup);
	return status;
}
