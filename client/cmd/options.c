#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/before.h"
#include "client/cmd/command.h"
#include "client/cmd/memory.h"
#include "client/cmd/patch_cost.h"
#include "client/cmd/preset.h"
#include "client/cmd/preset_find.h"
#include "client/data/picture.h"
#include "client/figures/metric.h"
#include "client/link/auth.h"
#include "client/model/weights_file.h"
#include "client/persist/journal.h"
#include "client/persist/last_run.h"
#include "client/persist/model_file.h"
#include "client/setup/about.h"
#include "client/train/phase.h"
#include "client/train/privacy.h"
#include "client/train/training.h"
#include "common/base/log.h"
#include "common/base/stop.h"
#include "common/base/wrap.h"
#include "common/session/checkpoint.h"
#include "common/telemetry/json.h"

void sl_command_print_text(const char *text, const char *as_is)
{
	for (size_t left = strlen(text); left;) {
		const size_t n = strchr(as_is, *text) ? 1 : sl_text_character(text, left);

		if (n)
			fwrite(text, 1, n, stdout);
		else
			putchar('?');
		text += n ? n : 1;
		left -= n ? n : 1;
	}
}

void sl_command_print_json(json_t *root, size_t flags)
{
	sl_json_print(root, flags, stdout);
}

int sl_command_failed(const struct sl_fail *fail)
{
	return sl_options_failed("splitc", fail);
}

int sl_command_refuse(const char *format, ...)
{
	char text[SL_FAIL_TEXT];
	struct sl_fail fail;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	(void)!sl_fail_set(&fail, SL_ERR_USAGE, "%s", text);
	return sl_command_failed(&fail);
}

/* Warns if the run was killed: it has not written its model yet, so the file there is an older one. */
static void warn_of_older(const char *dir, int64_t trained)
{
	uint64_t step = UINT64_MAX;

	if (trained != INT64_MAX && sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &step) && (int64_t)step != trained)
		sl_log(SL_LOG_WARN, "unfinished",
		       "%s/" SL_MODEL_FILE " is of step %" PRId64
		       ": it lacks what the unfinished run there has learned up to step %" PRIu64,
		       dir, trained, step);
}

void sl_options_tell_best(const struct sl_conf_client *conf, int64_t trained)
{
	char *note = conf->log.dir[0] ? sl_model_file_note(conf, SL_MODEL_BEST, SL_MODEL_SCORE) : NULL;
	char by[32], figure[SL_FIGURE_TEXT];
	uint64_t step;
	double value;

	if (note && sscanf(note, "%" SCNu64 " %la %31s", &step, &value, by) == 3 && (int64_t)step != trained)
		sl_log(SL_LOG_INFO, "last-weights",
		       "these are the run's last weights; %s/" SL_MODEL_BEST " holds those after step %" PRIu64
		       ", with %s %s: --weights best takes them",
		       conf->log.dir, step, by,
		       (strcmp(by, "accuracy") == 0 ? sl_share_text : sl_figure_text)(value, figure));
	free(note);
}

enum sl_err sl_options_trained(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
			       bool check, struct sl_fail *fail)
{
	const bool best = o->weights && strcmp(o->weights, "best") == 0;
	const char *network = !o->weights && !conf->log.dir[0] ? conf->model.network : "";
	const char *given = network[0] ? network : best ? NULL : o->weights;
	const bool of_run = !given;
	char path[PATH_MAX];
	enum sl_err err;

	if (of_run && !conf->log.dir[0])
		return sl_fail_set(fail, SL_ERR_NOINPUT, "log.dir is empty: name the model with --weights");
	if (!of_run ? snprintf(path, sizeof path, "%s", given) >= PATH_MAX
		    : snprintf(path, sizeof path, "%s/%s", conf->log.dir, best ? SL_MODEL_BEST : SL_MODEL_FILE) >=
			      PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of the weights is too long");
	setup->trained = sl_weights_steps(path);
	setup->conf = conf;
	free(setup->weights_file);
	setup->weights_file = strdup(path);
	if (!o->weights && of_run)
		warn_of_older(conf->log.dir, setup->trained);
	err = sl_about_of_model(setup, path, fail);
	if (err)
		return err;
	sl_about_check_end(path);
	setup->weights_from = path;
	err = sl_setup_plan(setup, conf, fail);
	setup->weights_from = NULL;
	if (err)
		return err;
	err = check ? sl_setup_check_weights(setup, path, true, fail) : sl_setup_weights(setup, path, true, fail);
	if (err == SL_ERR_NOINPUT && !o->weights)
		return sl_fail_set(fail, err,
				   "%s cannot be read: `splitc train` writes it; or name another file with --weights",
				   path);
	if (err == SL_ERR_DATA && sl_agreed_is_vertical(&conf->agreed)) {
		const struct sl_fail why = *fail;

		return sl_fail_set(fail, err,
				   "%.400s. A member's model has its part of the network: `splitc export CONFIG OUT "
				   "--join FILE` makes one of both members' models",
				   why.text);
	}
	if (err == SL_ERR_NOINPUT && best)
		return sl_fail_set(
			fail, err,
			"%s cannot be read: a run with train.keep_best writes it; a file of your own that is "
			"called so is ./best",
			path);
	if (!err)
		sl_about_check_network(setup);
	if (!err && !o->weights && !check)
		sl_options_tell_best(conf, setup->trained);
	return err;
}

enum sl_err sl_options_evaluation(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
				  struct sl_fail *fail)
{
	static struct sl_conf_client last;
	enum sl_err err;

	if (conf->train.phases.n) { /* batches and chunks as in the run's last evaluation; model.image stays */
		sl_phase_conf(&last, conf, conf->train.phases.n - 1);
		last.model.image = conf->model.image;
		conf = &last;
	}
	setup->reads = setup->streams ? SL_READS_NONE : SL_READS_TEST;
	err = sl_options_trained(o, conf, setup, false, fail);
	if (!err)
		err = sl_setup_data(setup, false, fail);
	if (!err)
		err = sl_about_check(setup, fail);
	if (!err)
		err = sl_setup_backend(setup, fail);
	setup->be.evaluates = true;
	return err;
}

/* Puts the members into `all`, that with labels first. */
static enum sl_err order_parties(struct sl_conf_client *all[SL_MAX_PARTIES + 1], int n, struct sl_fail *fail)
{
	struct sl_conf_client *mine = all[0];
	unsigned taken = 0;
	int labels = 0;

	for (int k = 0; k < n; k++) {
		const unsigned member = 1U << (all[k]->agreed.share.member % 32);

		if (!sl_agreed_is_vertical(&all[k]->agreed) || (taken & member)) {
			labels = n;
		} else if (sl_agreed_has_role(&all[k]->agreed, SL_ROLE_LABELS)) {
			struct sl_conf_client *first = all[0];

			all[0] = all[k];
			all[k] = first;
			labels++;
		}
		taken |= member;
	}
	return n > 1 && labels == 1
		       ? SL_OK
		       : sl_conf_client_fail(mine, "share.role", fail,
					     "--party needs configs with share.mode: vertical, one with share.role: "
					     "labels, the others with features, each with a share.member of its own");
}

/* All inputs of the network must be some member's, and what crosses from all of them is coded as one. */
static enum sl_err check_inputs(struct sl_conf_client *const all[SL_MAX_PARTIES + 1], int n,
				const struct sl_graph *network, struct sl_fail *fail)
{
	unsigned given = 1U << SL_BUILD_LABEL;

	for (int k = network->n_in > 2 ? 0 : n; k < n; k++) {
		const int input = sl_conf_input(all[k]) ? sl_model_input(network, sl_conf_input(all[k])) : -1;

		if (input >= 0 && (given >> input & 1))
			return sl_conf_client_fail(all[k], "share.inputs", fail, "another member has %s, too",
						   network->in[input].name);
		if (input < 0)
			continue;
		given |= 1U << input;
		if (all[k]->noise.head_act > 0)
			return sl_conf_client_fail(all[k], "noise.head_act", fail,
						   "--party computes it where the network has one input");
		for (int dir = SL_DIR_HEAD_ACT; dir <= SL_DIR_HEAD_GRAD; dir += SL_DIR_HEAD_GRAD - SL_DIR_HEAD_ACT)
			if (strcmp(all[k]->agreed.codec[dir], all[1]->agreed.codec[dir]) != 0)
				return sl_conf_client_fail(all[k], "codec", fail,
							   "--party computes head_act and head_grad of all members "
							   "with one codec: %s here, %s there",
							   all[k]->agreed.codec[dir], all[1]->agreed.codec[dir]);
	}
	for (int k = 0; k < network->n_in && network->n_in > 2; k++)
		if (!(given >> k & 1))
			return sl_conf_client_fail(all[0], "share.inputs", fail,
						   "no member has %s: give --party its config", network->in[k].name);
	return SL_OK;
}

enum sl_err sl_options_party(const struct sl_options *o, struct sl_conf_client *mine, struct sl_parties *p,
			     struct sl_setup *setup, enum sl_setup_reads reads, const struct sl_conf_client **conf,
			     struct sl_fail *fail)
{
	struct sl_conf_client *all[SL_MAX_PARTIES + 1] = {mine};
	enum sl_err err = SL_OK;
	int n = 1;

	for (; o->party[n - 1] && !err; n++) {
		all[n] = &p->other[n - 1];
		err = sl_conf_client_load(all[n], o->party[n - 1], NULL, 0, fail);
		if (!err)
			err = sl_setup_sizes(all[n], fail);
	}
	if (err || (n == 1 && !sl_agreed_is_vertical(&mine->agreed)))
		return err;
	if (n == 1)
		return sl_conf_client_fail(mine, "share.mode", fail,
					   "a vertical group in one process needs the other members' configs: --party");
	err = order_parties(all, n, fail);
	if (err)
		return err;
	all[0]->log = mine->log;
	*conf = all[0];
	setup->alone = true;
	setup->features = p->features;
	setup->n_features = n - 1;
	for (int k = 1; k < n && !err; k++) {
		struct sl_setup *features = &p->features[k - 1];

		features->alone = true;
		features->reads = reads;
		err = sl_setup_plan(features, all[k], fail);
		if (!err && k == 1)
			err = check_inputs(all, n, &features->plan->model->graph, fail);
		if (!err)
			err = sl_setup_data(features, reads == SL_READS_ALL, fail);
	}
	for (int dir = SL_DIR_HEAD_ACT; dir <= SL_DIR_HEAD_GRAD; dir += SL_DIR_HEAD_GRAD - SL_DIR_HEAD_ACT)
		memcpy(all[0]->agreed.codec[dir], all[1]->agreed.codec[dir], sizeof all[0]->agreed.codec[dir]);
	return err;
}

void sl_parties_close(struct sl_parties *p)
{
	for (int k = 0; k < SL_MAX_PARTIES; k++)
		sl_setup_close(&p->features[k]);
}

/* Refuses other files that are given in place of the config. */
static enum sl_err check_name(const struct sl_options *o, struct sl_fail *fail)
{
	static const char *const ends[] = {".safetensors", ".onnx", ".pt", ".tar", ".csv", ".tsv", ".jsonl", ".txt"};
	const char *dot = o->config ? strrchr(o->config, '.') : NULL;
	bool other = dot && sl_picture_name(dot);

	for (size_t i = 0; dot && !other && i < sizeof ends / sizeof ends[0]; i++)
		other = strcmp(dot, ends[i]) == 0;
	if (!other)
		return SL_OK;
	if (strcmp(o->command, "predict") == 0)
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "%.200s is no config: write splitc predict CONFIG %.200s, with the config that the "
				   "model was trained with",
				   o->config, o->config);
	return sl_fail_set(fail, SL_ERR_USAGE,
			   "%.200s is no config, which is a YAML file: `splitc init` writes one, and %s", o->config,
			   strcmp(dot, ".safetensors") == 0 ? "weights are named in it by model.weights, a network by "
							      "model.network"
			   : strcmp(dot, ".onnx") == 0
				   ? "python3 -m split.onnx makes of this file one for model.network"
				   : "data are named in it by data.dir");
}

static enum sl_err check_auth(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	struct sl_client_auth auth;
	enum sl_err err = sl_client_auth_open(&auth, conf, fail);

	sl_client_auth_close(&auth);
	return err;
}

/* Checks log.dir, and what --resume needs, as `train` does and in its order. Writes nothing. */
static enum sl_err check_log(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
			     uint64_t steps, struct sl_fail *fail)
{
	enum sl_err err = sl_journal_check(conf, fail);
	static struct sl_conf_client own;
	struct sl_setup phase = {0};
	struct sl_last_run run;
	uint64_t step;
	int index;

	if (err || !o->resume || !conf->train.phases.n)
		return err || !o->resume ? err : sl_last_run_read(&run, setup->conf, setup->plan, steps, fail);
	err = sl_phases_done(conf, &index, &step, fail);
	if (err)
		return err;
	sl_phase_conf(&own, conf, index);
	phase.phase = sl_phase_at(conf, index, step);
	err = sl_setup_plan(&phase, &own, fail);
	if (!err)
		err = sl_last_run_read(&run, &own, phase.plan, steps, fail);
	sl_setup_close(&phase);
	return err;
}

/* Checks that the metrics of evaluations suit what the network predicts. */
static enum sl_err check_metrics(const struct sl_conf_client *c, struct sl_fail *fail)
{
	const struct sl_learn_task *task = sl_setup_task(c);
	const struct sl_metric *metric;
	struct sl_fail why;
	enum sl_err err = sl_training_check_best(c, fail);

	if (err || !sl_conf_learns_labels(c) || task->perplexity)
		return err;
	for (int i = 0; i < c->train.metrics.n; i++)
		if (sl_metric_find(&metric, c->train.metrics.item[i], task, &why) != SL_OK)
			return sl_conf_client_fail(c, "train.metrics", fail, "%s", why.text);
	return SL_OK;
}

/* Plans the network. A run with phases begins with the first one's sizes. */
static enum sl_err check_plan(const struct sl_options *o, unsigned uses, const struct sl_conf_client *conf,
			      struct sl_setup *setup, struct sl_fail *fail)
{
	static struct sl_conf_client first;
	enum sl_err err;

	if (uses & SL_USES_TRAINED)
		return sl_options_trained(o, conf, setup, true, fail);
	if (!conf->train.phases.n || !(uses & SL_USES_TRAIN_SET))
		return sl_setup_plan(setup, conf, fail);
	err = sl_phases_check(conf, o->local, fail);
	if (err)
		return err;
	sl_phase_conf(&first, conf, 0);
	setup->phase = sl_phase_at(conf, 0, 0);
	return sl_setup_plan(setup, &first, fail);
}

/* What a check finds out. */
struct found {
	int64_t samples[SL_SPLIT_COUNT];
	uint64_t steps;
	struct sl_memory_need need;
	json_t *bytes, *server; /* NULL: not asked for */
	json_t *patch;          /* NULL: no volumes */
	bool whole;             /* patch is of whole cases */
	bool taken;             /* only a note: the config is right, whatever its last run has left */
	struct sl_fail why;
};

static void print_found(const struct sl_options *o, unsigned uses, const struct found *f)
{
	const int64_t *samples = f->samples;

	printf("%s: ok", o->config ? o->config : "the demo's run");
	if (uses & SL_USES_TRAIN_SET)
		printf(", %" PRIu64 " step%s on %" PRId64 " sample%s", f->steps, sl_plural(f->steps),
		       samples[SL_SPLIT_TRAIN], sl_plural(samples[SL_SPLIT_TRAIN]));
	if (uses & SL_USES_TEST_SET)
		printf(", %" PRId64 " sample%s to evaluate with", samples[SL_SPLIT_TEST],
		       sl_plural(samples[SL_SPLIT_TEST]));
	putchar('\n');
	if ((uses & SL_USES_LINK) && !o->local)
		sl_memory_print(&f->need);
	if (f->bytes)
		sl_before_print_bytes(f->bytes);
	if (f->patch)
		sl_patch_cost_print(f->patch, f->whole);
	if (f->server)
		sl_before_print_server(f->server);
	if (f->taken)
		printf("note: %s\n", f->why.text);
}

static void print_json(unsigned uses, const struct found *f)
{
	sl_command_print_json(json_pack("{s:i, s:b, s:I, s:I, s:I, s:o?, s:O?, s:O?, s:O?, s:s?}", "schema", 1, "ok",
					true, "steps", (json_int_t)f->steps, "train_samples",
					(json_int_t)f->samples[SL_SPLIT_TRAIN], "eval_samples",
					(json_int_t)f->samples[SL_SPLIT_TEST], "memory",
					uses & SL_USES_LINK ? sl_memory_json(&f->need) : NULL, "link_bytes", f->bytes,
					"patch", f->patch, "server", f->server, "note", f->taken ? f->why.text : NULL),
			      JSON_INDENT(2));
}

/* Samples that this process trains on: of an opened set, else as sl_setup_check_data counted them. */
static int64_t trained_on(const struct sl_setup *s, const int64_t *samples)
{
	return s->set[SL_SPLIT_TRAIN].source ? s->set[SL_SPLIT_TRAIN].count : samples[SL_SPLIT_TRAIN];
}

static enum sl_err check_all(const struct sl_options *o, unsigned uses, struct sl_conf_client *mine,
			     struct sl_parties *parties, struct sl_setup *setup, struct sl_fail *fail)
{
	const bool trains = uses & SL_USES_TRAIN_SET, counts = uses & SL_USES_LINK;
	const struct sl_conf_client *conf = mine;
	struct found found = {.steps = 0};
	int64_t *samples = found.samples;
	enum sl_err err = SL_OK;

	found.whole = mine->data.size.n > 0;
	setup->alone = o->alone != NULL;
	setup->reads = trains ? SL_READS_ALL : uses & SL_USES_TEST_SET ? SL_READS_TEST : SL_READS_NONE;
	if (o->party[0] || (o->local && trains && !mine->train.phases.n))
		err = sl_options_party(o, mine, parties, setup, setup->reads, &conf, fail);
	if (!err)
		err = check_plan(o, uses, conf, setup, fail);
	if (!err && (uses & SL_USES_WEIGHTS))
		err = sl_setup_check_weights(setup, conf->model.weights, false, fail);
	if (!err && (uses & (SL_USES_TRAIN_SET | SL_USES_TEST_SET)))
		err = sl_setup_check_data(setup, trains, samples, fail);
	if (setup->alone && setup->set[SL_SPLIT_TRAIN].source) /* one member's part of the samples */
		samples[SL_SPLIT_TRAIN] = setup->set[SL_SPLIT_TRAIN].count;
	if (!err && (uses & (SL_USES_TEST_SET | SL_USES_LINK))) /* also of predictions for given files */
		err = check_metrics(conf, fail);
	if (!err && trains)
		err = conf->train.phases.n ? sl_phases_steps(conf, samples[SL_SPLIT_TRAIN], &found.steps, fail)
					   : sl_training_steps(conf, NULL, samples[SL_SPLIT_TRAIN], setup->epoch_steps,
							       &found.steps, fail);
	if (!err && trains)
		err = sl_training_check_norms(setup, trained_on(setup, samples), found.steps, fail);
	if (!err && counts) {
		err = sl_memory_find(&found.need, setup, o->local || (trains && conf->train.audit_every), fail);
		if (err)
			sl_setup_blame(setup, fail);
		else
			sl_memory_warn(&found.need, o->local);
	}
	if (!err && (uses & SL_USES_LINK))
		err = sl_noise_read(&setup->noise, conf, conf, fail);
	if (!err && trains)
		err = sl_privacy_check(setup, trained_on(setup, samples), fail);
	if (!err && (uses & SL_USES_LINK) && !o->local)
		err = check_auth(conf, fail);
	if (!err && (uses & SL_USES_LOG))
		err = check_log(o, conf, setup, found.steps, fail);
	if (!err && counts && trains && !o->local)
		err = sl_before_bytes(&found.bytes, setup, found.steps, samples, fail);
	if (!err && counts && trains && setup->plan)
		err = sl_patch_cost(&found.patch, setup, o->local, fail);
	if (!err && o->check.connect)
		err = sl_before_connect(&found.server, o, mine, found.steps, fail);
	found.taken = (uses & SL_USES_LOG) && !o->resume && !o->fresh && sl_journal_taken(conf, &found.why) != SL_OK;
	if (!err && o->json)
		print_json(uses, &found);
	else if (!err)
		print_found(o, uses, &found);
	json_decref(found.bytes);
	json_decref(found.patch);
	json_decref(found.server);
	return err;
}

/* Loads the demo's config, with the folder that has its data. */
static enum sl_err load_demo(const struct sl_options *o, unsigned uses, struct sl_conf_client *conf,
			     struct sl_fail *fail)
{
	char place[PATH_MAX], data[PATH_MAX + 8], text[SL_PRESET_TEXT], first[PATH_MAX] = "", second[PATH_MAX] = "";
	struct sl_preset preset = {.data = NULL};
	enum sl_err err;

	for (int n = 0; !preset.data && sl_preset_place(n, place); n++) {
		snprintf(n ? second : first, PATH_MAX, "%s", place);
		snprintf(data, sizeof data, "cifar10:%s", place);
		if (access(place, R_OK) == 0)
			preset.data = data;
	}
	err = sl_preset_make(text, conf, &preset, fail);
	if (!err)
		err = sl_conf_parse(&sl_conf_client_schema, conf, "default", text, strlen(text), o->set, o->n_set,
				    fail);
	if (err || preset.data || !(uses & SL_USES_TEST_SET) || o->print_config || strcmp(conf->data.dir, first) != 0)
		return err;
	return sl_fail_set(
		fail, SL_ERR_NOINPUT,
		"%s: no CONFIG, and no CIFAR-10 in %.100s or %.200s. scripts/fetch-cifar10.sh DIR fetches it. "
		"`splitc init` writes a config; these three lines are enough of one:",
		o->command, first, second);
}

static int demo_failed(const struct sl_fail *fail)
{
	int status = sl_command_failed(fail);

	if (fail->code == SL_ERR_NOINPUT)
		fputs("  server: tcp://127.0.0.1:5570\n  model: {name: mobilenet_v2}\n  data: {dir: DIR}\n", stderr);
	return status;
}

int sl_options_load(const struct sl_options *o, unsigned uses, struct sl_conf_client *conf)
{
	static struct sl_parties parties;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	enum sl_err err;

	/* from here on data are read, which can take minutes */
	sl_stop_with(o->lines.listen ? 0 : sl_err_exit_status(SL_ERR_BUSY));
	if (!o->config && !(uses & SL_USES_DEMO))
		return sl_options_missing(o, "CONFIG");
	if (!o->config && load_demo(o, uses, conf, &fail) != SL_OK)
		return demo_failed(&fail);
	if (check_name(o, &fail) != SL_OK)
		return sl_command_failed(&fail);
	if (o->config && sl_conf_client_load(conf, o->config, o->set, o->n_set, &fail) != SL_OK)
		return sl_command_failed(&fail);
	sl_log_set_level(conf->log.level);
	err = sl_setup_sizes(conf, &fail);
	if (o->print_config) {
		(void)!sl_conf_print(&sl_conf_client_schema, conf, stdout); /* sl_command_run checks stdout */
		return 0;
	}
	if (!err && o->suits)
		err = o->suits(o, conf, &fail);
	if (err)
		return sl_command_failed(&fail);
	if (!o->check_config)
		return -1;
	err = check_all(o, uses, conf, &parties, &setup, &fail);
	sl_parties_close(&parties);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
