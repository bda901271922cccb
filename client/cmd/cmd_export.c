#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cmd/command.h"
#include "client/cmd/fetch_pair.h"
#include "client/model/adapter_file.h"
#include "client/model/network_file.h"
#include "client/model/onnx_write.h"
#include "client/model/weights_file.h"
#include "client/persist/model_file.h"
#include "client/setup/about.h"
#include "client/train/phase.h"
#include "client/train/training.h"
#include "common/base/log.h"
#include "common/base/newfile.h"
#include "common/base/text.h"
#include "common/base/version.h"
#include "common/codec/stage.h"
#include "common/link/control.h"
#include "common/session/checkpoint.h"

enum { TRIES = 3, TIMEOUT_MS = 10000, PAUSE_MS = 50 };

static const char *const usage[] = {
	"splitc export CONFIG OUT [--weights FILE] [--join FILE] [--adapter] [--training] [--set KEY=VALUE]…",
	"Writes the complete model with torchvision's or transformers' names and layouts to the safetensors file OUT. "
	"The file also holds the network, so model.network reads it without the config's other keys of the model. "
	"The weights are the newest of the config's run, or FILE. They are checked against the config's model.",
	"If OUT ends with .onnx, it writes the network with its weights as an ONNX file that predicts, for ONNX "
	"Runtime and others. --training marks its batch norms and dropout as in training. `python3 -m split.onnx` "
	"converts both files back (docs/howto-onnx.md).",
	"In a run that goes on, the weights are those after the step under way. The run's process fetches the middle "
	"from the server; export asks it over its control socket. After a crash or a kill, they are those of the "
	"newest checkpoint that client and server both have. Then export calls the server as --resume does, and the "
	"run stays as it is. A group's member has to --resume first. After a run that ended or was paused, they are "
	"those in log.dir/model.safetensors. With --weights best they are those in log.dir/best.safetensors.",
	"The model of a vertical group's member has that member's part of the network. --join FILE adds the other "
	"member's part, from its model of the same step.",
	"Adapters of lora are added to the weights that they belong to, unless --adapter asks for PEFT's files alone.",
	"A state_dict holds no strides. With form: imagenet it computes the same in torchvision's mobilenet_v2. With "
	"form: cifar it fits there too, but computes something else until you change three layers "
	"(docs/howto-pytorch.md). The file's metadata record model, width and form, and of pictures image and "
	"normalize.",
	NULL,
};

static const char *form_text(const struct sl_conf_client *conf)
{
	if (sl_conf_client_is_idle(conf, "model.form"))
		return "only";
	return conf->model.form == SL_FORM_CIFAR ? "cifar" : "imagenet";
}

/* How the pictures of training were normalised: as the model's own file says, else by the config. */
static const char *normalize_text(const struct sl_conf_client *conf, const json_t *about)
{
	static const char *const text[] = {[SL_NORMALIZE_NONE] = "none",
					   [SL_NORMALIZE_CIFAR10] = "cifar10",
					   [SL_NORMALIZE_CIFAR100] = "cifar100",
					   [SL_NORMALIZE_IMAGENET] = "imagenet"};
	const json_t *steps = json_object_get(about, "transforms");
	const char *said = json_string_value(json_array_get(steps, json_array_size(steps) - 1));
	char word[SL_CONF_TEXT];
	float mean[3], std[3];

	sl_norm_values(conf->data.normalize, mean, std);
	sl_about_norm(word, mean, std, false);
	if (said)
		return strcmp(said, word) == 0 ? text[conf->data.normalize] : said;
	for (int i = 0; i < conf->data.test_transforms.n; i++)
		if (strstr(conf->data.test_transforms.item[i], "Normalize"))
			return conf->data.test_transforms.item[i];
	return text[conf->data.normalize];
}

/* Saves the whole model. Adapters are merged into the weights that they belong to. */
static enum sl_err save_merged(const struct sl_setup *setup, const char *out, const struct sl_st_note *note, int notes,
			       struct sl_fail *fail)
{
	const struct sl_model *model = setup->plan->model;
	struct sl_weights weights = setup->weights;
	const float **param = malloc((size_t)model->graph.n_param * sizeof *param);
	enum sl_err err;

	if (!param)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to write %s", out);
	sl_lora_merge(model, &weights);
	for (int i = 0; i < model->graph.n_param; i++)
		param[i] = sl_lora_has(model, i) ? NULL : weights.value[i];
	err = sl_weights_save(model, out, param, setup->trained < INT64_MAX ? setup->trained : 0, note, notes, fail);
	free(param);
	return err;
}

/* Warns of a codec that the network learned behind and the file lacks, if it does more than round to 16 bits. */
static void warn_of_codec(const json_t *about)
{
	struct sl_codec_spec spec[2];
	struct sl_fail why;
	bool alters = false;

	for (size_t i = 0; i < 2; i++) {
		const char *text = json_string_value(json_array_get(json_object_get(about, SL_ABOUT_CODEC), i));

		if (!text || sl_codec_parse(text, &spec[i], &why) != SL_OK)
			return;
		for (int k = 0; k < spec[i].n_stage; k++)
			alters = alters || !strstr("none f16 bf16 zstd", spec[i].stage[k].stage->name);
	}
	if (alters)
		sl_log(SL_LOG_WARN, "codec-left-out",
		       "the network learned behind the codecs %s and %s, before and after its middle, which the file "
		       "lacks: `splitc eval` with --set codec=none measures it so",
		       spec[0].text, spec[1].text);
}

static enum sl_err write_model(const struct sl_options *o, const struct sl_setup *setup, struct sl_fail *fail)
{
	const struct sl_conf_client *conf = setup->conf;
	const char *out = o->operand;
	char steps[24], width[32], image[16];
	struct sl_st_note network[SL_NETWORK_NOTES] = {{NULL}};
	struct sl_st_note note[9 + SL_NETWORK_NOTES] = {{"software", "splitc " SL_VERSION},
							{"model", setup->plan->model->name},
							{"width", width},
							{"form", form_text(conf)}};
	const struct sl_graph *g = &setup->plan->model->graph;
	json_t *about = sl_about_parse(setup);
	int notes = 4;
	const int more = setup->plan->model->n_adapter ? 0 : SL_NETWORK_NOTES;
	enum sl_err err = sl_network_notes_make(network, setup->plan->model, &setup->takes, fail);

	snprintf(steps, sizeof steps, "%" PRId64, setup->trained);
	snprintf(width, sizeof width, "%g", conf->model.width);
	snprintf(image, sizeof image, conf->model.image.h == conf->model.image.w ? "%d" : "%dx%d", conf->model.image.h,
		 conf->model.image.w);
	if (g->value[g->in[0].value].shape.ndim == 4) {
		note[notes++] = (struct sl_st_note){"image", image};
		note[notes++] = (struct sl_st_note){"normalize", normalize_text(conf, about)};
	}
	if (setup->trained < INT64_MAX)
		note[notes++] = (struct sl_st_note){SL_WEIGHTS_STEPS, steps};
	if (setup->about)
		note[notes++] = (struct sl_st_note){SL_MODEL_DATA, setup->about};
	warn_of_codec(about);
	if (json_object_get(about, SL_SETUP_SCALE))
		sl_log(SL_LOG_WARN, "scaled-outputs",
		       "the network's outputs are scaled: a number is output * deviation + mean; `" SL_SETUP_SCALE
		       "` in the file's metadata \"" SL_MODEL_DATA "\" has [mean, deviation] of each");
	note[notes] = (struct sl_st_note){"format", "pt"}; /* transformers reads no safetensors file without it */
	memcpy(note + notes + 1, network, sizeof network);
	if (!err && sl_ends_with(out, ".onnx"))
		err = sl_onnx_write(setup->plan->model, out, (const float *const *)setup->weights.value,
				    o->export.training, note, notes, fail);
	else if (!err)
		err = save_merged(setup, out, note, notes + 1 + more, fail);
	sl_network_notes_free(network);
	json_decref(about);
	return err;
}

/* A new reference to the answer; NULL: nobody answers, or the answer is not JSON. */
static json_t *ask(const struct sl_conf_client *conf, const char *request)
{
	struct sl_fail fail;
	json_t *answer;
	char *text;

	if (sl_control_ask(conf->control, request, TIMEOUT_MS, &text, &fail) != SL_OK)
		return NULL;
	answer = json_loads(text, 0, NULL);
	free(text);
	return answer;
}

static const char *text_of(const json_t *answer, const char *key)
{
	const char *text = json_string_value(json_object_get(answer, key));

	return text ? text : "";
}

/* Whether the run in this log.dir has answered: another run may use the same control socket. */
static bool of_this_run(const json_t *answer, const struct sl_conf_client *conf)
{
	char dir[PATH_MAX];

	return realpath(conf->log.dir, dir) && strcmp(text_of(answer, "dir"), dir) == 0;
}

/* Asks the process that trains the run in conf->log.dir, and waits until it has written asked.safetensors
 * (client/train/publish.h): until the step under way ends and the file is complete. *there false: no process of the run
 * answers, or it ended meanwhile. UNAVAILABLE: it answers that it cannot, and *fail says why. */
static enum sl_err ask_model(const struct sl_conf_client *conf, bool *there, struct sl_fail *fail)
{
	const struct timespec moment = {0, PAUSE_MS * 1000000};
	json_t *answer = ask(conf, "export");
	enum sl_err err = SL_OK;
	char request[48];

	*there = answer && of_this_run(answer, conf);
	snprintf(request, sizeof request, "export %" PRIu64,
		 (uint64_t)json_integer_value(json_object_get(answer, "number")));
	while (*there && strcmp(text_of(answer, "state"), "waiting") == 0) {
		json_decref(answer);
		nanosleep(&moment, NULL);
		answer = ask(conf, request);
		*there = answer && of_this_run(answer, conf);
	}
	if (*there && strcmp(text_of(answer, "state"), "done") != 0)
		err = sl_fail_set(fail, SL_ERR_UNAVAILABLE,
				  "the run in '%.200s' goes on, but cannot give its model now: %.200s", conf->log.dir,
				  text_of(answer, "why"));
	json_decref(answer);
	return err;
}

/* Reads the model that the run's process has written on request, and removes when it ends. */
static enum sl_err read_asked(const struct sl_conf_client *conf, struct sl_setup *setup, struct sl_fail *fail)
{
	struct sl_options asked = {.command = "export"};
	char path[PATH_MAX];
	enum sl_err err = sl_log_dir_path(path, conf, SL_MODEL_ASKED, fail);

	asked.weights = path;
	if (!err)
		err = sl_options_trained(&asked, conf, setup, false, fail);
	free(setup->weights_file); /* it is removed when the run ends */
	setup->weights_file = NULL;
	return err;
}

/* Whether the run was killed: it has a newest checkpoint, of *step, and the model file, if any, is not of that step. */
static bool unfinished(const struct sl_conf_client *conf, uint64_t *step)
{
	*step = UINT64_MAX;
	return conf->log.dir[0] && sl_checkpoint_older(conf->log.dir, SL_CHECKPOINT_CLIENT, step) &&
	       sl_model_file_steps(conf, SL_MODEL_FILE) != (int64_t)*step;
}

/* Refuses a group's member: if it connected, it would take part in its group, and the others would go back to its
 * step or wait for more steps. */
static enum sl_err refuse_member(const struct sl_conf_client *conf, uint64_t newest, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
			   "the run in '%.150s', member %d of group %s, was not ended at step %" PRIu64
			   ": go on with it (splitc train --resume), and export while it trains or once it has "
			   "ended; or --weights FILE",
			   conf->log.dir, conf->agreed.share.member, conf->agreed.share.group, newest);
}

/* Whether parts of the network are frozen, as the run began with them: no checkpoint and no Fetch contains them. */
static bool has_frozen(const struct sl_plan *plan)
{
	bool frozen = false;

	for (int i = 0; i < plan->model->graph.n_param; i++)
		frozen = frozen || plan->model->graph.param[i].held;
	return frozen || plan->segment[SL_MIDDLE].weight_count > plan->segment[SL_MIDDLE].moving_count;
}

/* Plans the network as the run does: if it has phases, as the one under way. */
static enum sl_err plan_run(struct sl_setup *setup, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	static struct sl_conf_client own;
	uint64_t step;
	int index;
	enum sl_err err;

	setup->reads = SL_READS_ALL; /* the run's own plan */
	if (!conf->train.phases.n)
		return sl_setup_plan(setup, conf, fail);
	err = sl_phases_done(conf, &index, &step, fail);
	if (err)
		return err;
	sl_phase_conf(&own, conf, index);
	setup->phase = sl_phase_at(conf, index, step);
	return sl_setup_plan(setup, &own, fail);
}

/* Replaces the phase's plan by the config's own, and keeps the weights: both lay out the parameters alike. */
static enum sl_err leave_phase(struct sl_setup *setup, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	struct sl_setup whole = {.trained = setup->trained};
	enum sl_err err = sl_setup_plan(&whole, conf, fail);

	if (err) {
		sl_setup_close(&whole);
		return err;
	}
	whole.weights = setup->weights;
	whole.about = setup->about;
	setup->weights = (struct sl_weights){0};
	setup->about = NULL;
	sl_setup_close(setup);
	*setup = whole;
	return SL_OK;
}

/* The step at which the run, or its phase, ends by its own word of its samples; 0: not known. */
static uint64_t last_step(const struct sl_setup *setup)
{
	json_t *about = sl_about_parse(setup);
	const json_t *train = json_object_get(about, sl_about_split[SL_SPLIT_TRAIN]);
	const int64_t samples = json_integer_value(json_object_get(train, "samples"));
	const struct sl_phase *phase = setup->phase.count ? &setup->phase : NULL;
	uint64_t steps = 0;
	struct sl_fail why;

	json_decref(about);
	if (samples <= 0 || sl_training_steps(setup->conf, phase, samples, 0, &steps, &why) != SL_OK)
		return 0;
	return setup->phase.step + steps;
}

/* The file that is written says that the run was not ended. */
static void note_unfinished(struct sl_setup *setup)
{
	const struct sl_about_reached at = {.step = (uint64_t)setup->trained, .of = last_step(setup)};
	char *about = sl_about_text(setup, &at);

	free(setup->about);
	setup->about = about;
	sl_log(SL_LOG_WARN, "unfinished", "the run in '%.200s' was not ended: these are its weights of step %" PRId64,
	       setup->conf->log.dir, setup->trained);
}

static enum sl_err read_pair(const struct sl_conf_client *conf, struct sl_setup *setup, uint64_t newest,
			     struct sl_fail *fail)
{
	uint64_t step = 0;
	struct sl_fail why;
	enum sl_err err;

	if (conf->agreed.share.group[0])
		return refuse_member(conf, newest, fail);

	err = plan_run(setup, conf, fail);
	if (!err)
		err = has_frozen(setup->plan) ? sl_setup_weights(setup, conf->model.weights, false, fail)
					      : sl_setup_weights(setup, "", true, fail);
	if (!err)
		err = sl_setup_backend(setup, fail);
	if (err)
		return err;
	err = sl_about_of_model(setup, NULL, fail);
	if (err)
		return err;
	sl_about_check_network(setup);
	err = sl_fetch_pair(setup, &step, &why);
	setup->trained = (int64_t)step;
	if (!err)
		note_unfinished(setup);
	if (!err && conf->train.phases.n)
		return leave_phase(setup, conf, fail);
	return err ? sl_fail_set(fail, err,
				 "the run in '%.150s' was not ended. The server has the middle of its checkpoint at "
				 "step %" PRIu64 ": %.280s",
				 conf->log.dir, newest, why.text)
		   : SL_OK;
}

/* Takes over what `other` has and `setup` lacks, and notes it in `own`. `last`: nothing may lack then. MISMATCH: both
 * have a tensor, and not the same one. */
static enum sl_err join_weights(struct sl_setup *s, bool *own, const struct sl_weights *other, const bool *there,
				const char *path, bool last, struct sl_fail *fail)
{
	const struct sl_model *model = s->plan->model;

	for (int i = 0; i < model->graph.n_param; i++) {
		const size_t bytes = (size_t)sl_shape_count(&model->graph.param[i].shape) * sizeof(float);

		if ((last && !own[i] && !there[i]) || !s->weights.value[i])
			return sl_fail_set(fail, SL_ERR_DATA, "neither this run's model nor %s gives \"%s\" in fp32",
					   path, model->graph.param[i].name);
		if (own[i] && there[i] && memcmp(s->weights.value[i], other->value[i], bytes) != 0)
			return sl_fail_set(fail, SL_ERR_MISMATCH,
					   "%s has another \"%s\" than this run's model: take both models of one run, "
					   "after the same step",
					   path, model->graph.param[i].name);
		if (!own[i] && there[i])
			memcpy(s->weights.value[i], other->value[i], bytes);
		own[i] = own[i] || there[i];
	}
	return SL_OK;
}

/* Reads this member's model and, from o->export.join, those of the others. What is known of the data of more than two
 * is said where the labels are. */
static enum sl_err read_joined(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
			       struct sl_fail *fail)
{
	const bool labels = sl_agreed_has_role(&conf->agreed, SL_ROLE_LABELS);
	struct sl_weights other = {0};
	char path[PATH_MAX];
	bool *loaded = NULL; /* [2 n] of this model, of the other one */
	int n, others = 0;
	enum sl_err err = sl_log_dir_path(path, conf, SL_MODEL_FILE, fail);

	if (!err && o->weights)
		snprintf(path, sizeof path, "%s", o->weights);
	if (!err)
		sl_about_check_end(path);
	setup->trained = sl_weights_steps(path);
	if (!err)
		err = sl_setup_plan(setup, conf, fail);
	if (err)
		return err;
	n = setup->plan->model->graph.n_param;
	loaded = calloc(2 * (size_t)n + 1, sizeof *loaded);
	err = loaded ? sl_weights_open(&setup->weights, setup->plan->model, fail)
		     : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");
	if (!err)
		err = sl_weights_open(&other, setup->plan->model, fail);
	if (!err)
		err = sl_weights_load(setup->plan->model, path, SL_WEIGHTS_OF_PARTY, setup->weights.value, loaded,
				      fail);
	for (const char *const *from = o->export.join; *from && !err; from++, others++) {
		err = sl_weights_load(setup->plan->model, *from, SL_WEIGHTS_OF_PARTY, other.value, loaded + n, fail);
		if (!err)
			err = join_weights(setup, loaded, &other, loaded + n, *from, !from[1], fail);
		if (!err)
			err = sl_about_same_run(path, *from, fail);
		if (!err)
			sl_about_check_end(*from);
	}
	if (!err && labels)
		err = sl_about_join(setup, path, o->export.join, others, fail);
	else if (!err && others == 1)
		err = sl_about_join(setup, o->export.join[0], (const char *const[]){path}, 1, fail);
	sl_weights_close(&other);
	free(loaded);
	return err;
}

/* Reads the newest weights: those of the process that trains, else those of a killed run's checkpoints, else the
 * model file. A run may end or begin while it is asked, so it is asked up to TRIES times. */
static enum sl_err read_newest(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
			       struct sl_fail *fail)
{
	uint64_t step;

	for (int tries = 0; tries < TRIES; tries++) {
		bool there = false;
		enum sl_err err = conf->log.dir[0] ? ask_model(conf, &there, fail) : SL_OK;

		if (err)
			return err;
		if (there) {
			err = read_asked(conf, setup, fail);
			if (err != SL_ERR_NOINPUT)
				return err;
			sl_setup_close(setup);
		}
		if (!there)
			break;
	}
	return unfinished(conf, &step) ? read_pair(conf, setup, step, fail)
				       : sl_options_trained(o, conf, setup, false, fail);
}

/* Warns if the adapters and model.huggingface's weights do not make the whole network that was trained. */
static void warn_of_base(const struct sl_setup *setup)
{
	const char *base = setup->conf->model.huggingface, *first = NULL;
	const int n = sl_adapter_lacks(setup->plan->model, base, (const float *const *)setup->weights.value, &first);

	if (n)
		sl_log(SL_LOG_WARN, "adapter-base",
		       "%d of the network's tensors, %.96s first, are neither in the adapter nor with these values in "
		       "%.200s: with that folder the adapter computes something else. Without --adapter, export writes "
		       "all tensors",
		       n, first, base);
}

static enum sl_err export_model(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
				struct sl_fail *fail)
{
	enum sl_err err = o->export.join[0] ? read_joined(o, conf, setup, fail)
			  : o->weights      ? sl_options_trained(o, conf, setup, false, fail)
					    : read_newest(o, conf, setup, fail);

	if (!err && !o->weights && !o->export.join[0] &&
	    !setup->weights_file) /* else that was said when the file was read */
		sl_options_tell_best(conf, setup->trained);
	if (!err)
		err = sl_weights_widen(&setup->weights, setup->plan->model, fail);
	if (!err)
		err = sl_weights_check_finite(setup->plan->model, &setup->weights, fail);
	if (err || !o->export.adapter)
		return err ? err : write_model(o, setup, fail);
	err = sl_adapter_write(setup->plan->model, &setup->lora, o->operand, conf->model.huggingface,
			       (const float *const *)setup->weights.value,
			       setup->about ? &(struct sl_st_note){SL_MODEL_DATA, setup->about} : NULL, fail);
	if (!err)
		warn_of_base(setup);
	return err;
}

/* Says what the file contains, and what a state_dict cannot say. */
static void say(const char *path, const struct sl_setup *setup)
{
	const struct sl_conf_client *conf = setup->conf;
	const struct sl_model *model = setup->plan->model;
	static const char mean[] = ".running_mean", insert[] = "insert.";
	int tensors = model->graph.n_param - 2 * model->n_adapter, inserted = 0;

	for (int i = 0; i < model->graph.n_param; i++) {
		const char *name = model->graph.param[i].name;
		size_t len = strlen(name);

		/* each has a num_batches_tracked beside it */
		tensors += len >= sizeof mean && strcmp(name + len - (sizeof mean - 1), mean) == 0;
		inserted += strncmp(name, insert, sizeof insert - 1) == 0;
	}
	printf("%s: %s, %d tensor%s", path, model->name, tensors, sl_plural(tensors));
	if (setup->trained < INT64_MAX)
		printf(", after step %" PRId64, setup->trained);
	putchar('\n');
	if (strcmp(form_text(conf), "cifar") == 0)
		sl_log(SL_LOG_WARN, "form-cifar",
		       "model.form is cifar: torchvision's %s needs other strides for these weights; "
		       "`splitc help export` says which",
		       model->name);
	if (inserted)
		sl_log(SL_LOG_WARN, "inserts",
		       "%d of the tensors (insert.*) belong to layers that %s has only here, not where it comes from",
		       inserted, model->name);
}

/* Whether the name promises a format that is not written, or one of the two in capitals. */
static bool other_form(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strrchr(slash ? slash : path, '.') && !sl_ends_with(path, ".onnx") &&
	       !sl_ends_with(path, ".safetensors");
}

/* Refuses a name that may be a config or data, given in the wrong place. */
static enum sl_err check_out(const struct sl_options *o, struct sl_fail *fail)
{
	if (o->export.adapter)
		return SL_OK;
	if (sl_newfile_is_special(o->operand))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "export: %s is no regular file: name a file", o->operand);
	if (sl_model_file_is_of_run(o->operand))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "export: %.200s is a run's own: name another file",
				   o->operand);
	if (!sl_ends_with(o->operand, ".onnx") && !sl_ends_with(o->operand, ".safetensors") &&
	    access(o->operand, F_OK) == 0)
		return sl_fail_set(
			fail, SL_ERR_CANTCREATE,
			"export: %.200s exists already, and by its name it is no model: name a file that ends "
			"with .safetensors or .onnx",
			o->operand);
	if (other_form(o->operand))
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "export: %.200s: models are written as .safetensors, which PyTorch reads "
				   "(docs/howto-pytorch.md), or as .onnx: name a file that ends so",
				   o->operand);
	return SL_OK;
}

int splitc_export(int argc, char **argv)
{
	struct sl_options o = {.command = "export", .usage = usage, .keys = &sl_conf_client_schema};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_WEIGHTS | SL_OPT_EXPORT, 2);

	if (status < 0)
		status = sl_options_load(&o, o.export.join[0] ? 0 : SL_USES_TRAINED, &conf);
	if (status >= 0)
		return status;
	if (!o.operand)
		return sl_options_missing(&o, "OUT");
	if (check_out(&o, &fail))
		return sl_command_failed(&fail);
	if (o.export.training && !sl_ends_with(o.operand, ".onnx"))
		return sl_command_refuse("export --training: name a file that ends with .onnx");
	if (o.export.adapter && !conf.lora.rank)
		return sl_command_refuse("export --adapter: this config has no lora.rank");
	status = export_model(&o, &conf, &setup, &fail) ? sl_command_failed(&fail) : 0;
	if (!status && o.export.adapter)
		printf("%s: adapters of %d layer%s%s\n", o.operand, setup.plan->model->n_adapter,
		       sl_plural(setup.plan->model->n_adapter),
		       setup.plan->model->task->kind == SL_LEARN_NEXT ? "" : " and the head");
	else if (!status)
		say(o.operand, &setup);
	sl_setup_close(&setup);
	return status;
}
