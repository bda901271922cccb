#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cmd/command.h"
#include "client/predict/cases.h"
#include "client/predict/doubt.h"
#include "client/predict/predict.h"
#include "client/predict/stream.h"
#include "client/setup/about.h"
#include "client/train/drive.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/newfile.h"
#include "common/base/text.h"

static const char *const usage[] = {
	"splitc predict CONFIG [FILE|FOLDER|-]… [--stream | --listen unix:PATH] [--weights FILE] [--local] [--logits] "
	"[--top N] [--csv | --json] "
	"[--out FILE] [--set KEY=VALUE]…",
	"Prints a line for each sample: its number, the predicted class, that class' probability, and names of class "
	"and sample where they are known. --csv and --json print the probabilities of all classes.",
	"FILEs are samples without labels. They are pictures, or folders or tar files of pictures; volumes, or folders "
	"of volumes; CSV files of a "
	"table; or csv, tsv or jsonl files of texts. Any other file has a text on each line. The file - is standard "
	"input. The training data need not be there. Without FILE the command predicts the config's test or validation "
	"part, and "
	"lines have the labels, too.",
	"The config's server computes the middle, with the config's codecs. With --local this process computes the "
	"complete model. The weights are those of the last `train` of this run (log.dir/model.safetensors), or FILE, "
	"for example one that `splitc export` wrote. On that part the share of samples whose predicted class is "
	"the label equals the accuracy that `splitc eval` prints.",
	"With --stream it reads lines from standard input, and answers each with a line of JSON as soon as it comes. A "
	"line "
	"is the path of a picture, a text, or an object: {\"file\": PATH}, a table's columns, or data.columns. Rows of "
	"a "
	"table may be CSV, if the first line has the names of the columns. A line that cannot be predicted gets "
	"{\"error\": …}. With --listen the clients of a socket send such objects.",
	"With model.task: pixels it writes a mask for each sample to the folder --out, and prints its path. A mask is "
	"a PNG as large as the picture, with a class and its colour for each pixel. Of volumes it is CASE.nii.gz, "
	"in the case's own grid; without FILE each case has its Dice and HD95, too. --json prints an object a line.",
	NULL,
};

/* Where lines go: to stdout, or to memory, for a file that appears whole. */
struct output {
	FILE *file;
	char *text;
	size_t len;
};

/* ---- what is to be predicted ---- */

/* The path of the socket in --listen; NULL: there is none. */
static const char *path_of(const struct sl_options *o)
{
	return o->lines.listen ? o->lines.listen + strlen("unix:") : NULL;
}

static bool streams(const struct sl_options *o)
{
	return o->lines.stream || o->lines.listen;
}

/* Sets data.kind to the source that reads the given files, by what the network takes. */
static enum sl_err choose_source(struct sl_conf_client *c, const char *const *given, int n, struct sl_fail *fail)
{
	int tars = 0;

	if (c->data.kind == SL_DATA_VOLUMES)
		return SL_OK;
	for (int i = 0; i < n; i++)
		tars += sl_ends_with(given[i], ".tar");
	if (sl_model_takes_rows(c->model.name))
		return c->data.kind == SL_DATA_CSV ? SL_OK : sl_conf_client_fail(c, "data.kind", fail, "must be csv");
	if (sl_model_takes_tokens(c->model.name))
		return c->data.kind >= SL_DATA_COLA
			       ? SL_OK
			       : sl_conf_client_fail(c, "data.kind", fail, "has no files of texts");
	if (tars && tars < n)
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "predict: give .tar files, or pictures and folders, not both at once");
	c->data.kind = tars ? SL_DATA_WEBDATASET : SL_DATA_IMAGES;
	return SL_OK;
}

/* ---- names of classes ---- */

static void free_names(char **name, int n)
{
	for (int i = 0; name && i < n; i++)
		free(name[i]);
	free(name);
}

/* The name of class `k`, by the model's file or the data; NULL: neither has one. */
static const char *class_name(const json_t *list, const struct sl_set *set, int k)
{
	const char *said = json_string_value(json_array_get(list, (size_t)k));

	const int n = set->classes ? set->classes : set->field[SL_FIELD_TARGET].ndim ? (int)sl_set_targets(set) : 0;

	return said ? said : list || k >= n || !set->source->class_name ? NULL : set->source->class_name(set, k);
}

/* *out [classes] becomes the names of the classes; NULL: they have none. */
static enum sl_err name_classes(char ***out, const struct sl_setup *s, struct sl_fail *fail)
{
	const int n = s->conf->model.classes;
	json_t *about = sl_about_parse(s), *list = json_object_get(about, "classes");
	char **name = class_name(list, &s->set[SL_SPLIT_TEST], 0) ? calloc((size_t)n, sizeof *name) : NULL;
	bool fits = true;

	for (int k = 0; name && k < n; k++) {
		const char *text = class_name(list, &s->set[SL_SPLIT_TEST], k);
		char number[24];

		snprintf(number, sizeof number, "%d", k);
		name[k] = strdup(text ? text : number);
		fits = fits && name[k];
		if (name[k])
			sl_text_make_safe(name[k], '?');
	}
	json_decref(about);
	if (!fits) {
		free_names(name, n);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the names of classes");
	}
	*out = name;
	return SL_OK;
}

/* The decision thresholds of several labels; NULL: the model's file has none. */
static const double *read_thresholds(double out[SL_CONF_LABELS_MAX], const struct sl_setup *s)
{
	json_t *about = sl_about_parse(s), *list = json_object_get(about, "thresholds");
	const int n = s->conf->model.classes;
	const bool known = (int)json_array_size(list) == n && n <= SL_CONF_LABELS_MAX;

	for (int k = 0; k < n && known; k++)
		out[k] = json_number_value(json_array_get(list, (size_t)k));
	json_decref(about);
	return known ? out : NULL;
}

/* ---- output ---- */

/* For masks, --out is a folder, and lines go to stdout. */
static enum sl_err open_output(struct output *out, const struct sl_options *o, bool pixels, struct sl_fail *fail)
{
	*out = (struct output){.file = stdout};
	if (!o->out || pixels)
		return SL_OK;
	out->file = open_memstream(&out->text, &out->len);
	return out->file ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %s", o->out);
}

/* Writes the file, if all went well. */
static enum sl_err end_output(struct output *out, const struct sl_options *o, bool well, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (!out->file || out->file == stdout)
		return SL_OK;
	if (fclose(out->file) != 0)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %s", o->out);
	if (!err && well)
		err = sl_newfile_put(o->out, 0666, SL_FP_NONE, out->text, out->len, fail);
	free(out->text);
	return err;
}

/* ---- the command ---- */

/* Says how the prediction ended. BUSY: a signal came before all samples were predicted. */
static enum sl_err conclude(const struct sl_predict *p, const struct sl_setup *setup, struct sl_fail *fail)
{
	const int64_t all = setup->set[SL_SPLIT_TEST].count;
	const uint64_t read = p->rows - p->unread - p->passed;
	const char *part = sl_setup_part(setup, SL_SPLIT_TEST);

	if (p->fail.code)
		return sl_fail_set(fail, p->fail.code, "%s", p->fail.text);
	if (p->rows < (uint64_t)all)
		return sl_fail_set(fail, SL_ERR_BUSY, "interrupted: %" PRIu64 " of %" PRId64 " samples were predicted",
				   p->rows, all);
	if (p->unread)
		sl_log(SL_LOG_WARN, "not-predicted", "%" PRIu64 " of %" PRId64 " samples cannot be read: no line",
		       p->unread, all);
	if (p->spec.unlabelled || !p->spec.task->met || !(p->spec.task->kind == SL_LEARN_PIXELS ? p->counted : read))
		sl_log(SL_LOG_INFO, "predicted", "%" PRIu64 " sample%s", read, sl_plural(read));
	else if (p->spec.task->kind == SL_LEARN_PIXELS)
		sl_log(SL_LOG_INFO, "predicted", "%" PRIu64 " %s sample%s, accuracy of pixels %.2f %%", read, part,
		       sl_plural(read), 100 * (double)p->correct / (double)p->counted);
	else
		sl_log(SL_LOG_INFO, "predicted", "%" PRIu64 " %s sample%s, accuracy %.2f %%", read, part,
		       sl_plural(read), 100 * (double)p->correct / (double)read);
	if (p->passed)
		return sl_fail_set(fail, p->first.code,
				   "%" PRIu64 " of %" PRId64 " cases have no prediction; the first: %s", p->passed, all,
				   p->first.text);
	return SL_OK;
}

static enum sl_err predict_cases(struct sl_setup *setup, const struct sl_options *o, struct sl_fail *fail)
{
	static struct sl_case_lines lines;
	const struct sl_cases_spec spec = {o->out, o->force, o->local, &lines};
	json_t *doubt = sl_doubt(o->local);
	char **name = NULL;
	enum sl_err err = name_classes(&name, setup, fail);

	lines.json = o->json;
	lines.classes = setup->conf->model.classes;
	lines.class_name = (const char *const *)name;
	lines.doubt = doubt;
	if (!err)
		err = sl_cases_run(setup, &spec, fail);
	free_names(name, lines.classes);
	json_decref(doubt);
	return err;
}

/* *well becomes true if all samples were tried: those with a prediction have their lines. */
static enum sl_err predict(struct sl_setup *setup, const struct sl_options *o, FILE *out, bool *well,
			   struct sl_fail *fail)
{
	static struct sl_predict p; /* static, since a task that hangs works on it until the process ends */
	const struct sl_drive_options drive = {.eval_only = true, .predict = &p};
	struct sl_predict_spec spec = {
		.format = o->csv                  ? SL_PREDICT_CSV
			  : o->json || streams(o) ? SL_PREDICT_JSON
						  : SL_PREDICT_TEXT,
		.logits = o->logits,
		.unlabelled = setup->given || sl_conf_lacks_labels(setup->conf),
		.top = o->top ? atoi(o->top) : 0,
		.out = out,
		.h = sl_setup_mask(setup->conf).h,
		.w = sl_setup_mask(setup->conf).w,
		.dir = o->out,
		.transform = setup->transform[SL_SPLIT_TEST],
		.force = o->force,
		.task = sl_setup_task(setup->conf),
		.classes = setup->conf->model.classes,
		.set = &setup->set[SL_SPLIT_TEST],
		.centre = setup->scale ? setup->centre : NULL,
	};
	static double threshold[SL_CONF_LABELS_MAX]; /* static for the same reason as p */
	char **name = NULL;
	char *doubt = sl_doubt_text(sl_doubt(o->local));
	enum sl_err err = name_classes(&name, setup, fail);

	spec.doubt = doubt;
	spec.threshold = read_thresholds(threshold, setup);

	spec.class_name = (const char *const *)name;
	if (!err)
		err = sl_predict_open(&p, &spec, setup->conf->agreed.batch, fail);
	if (!err && streams(o))
		err = sl_stream_run(setup, &(struct sl_stream_spec){&p, path_of(o), o->local}, fail);
	else if (!err)
		err = sl_drive(setup, &drive, o->local, fail);
	if (!err && !streams(o))
		err = conclude(&p, setup, fail);
	*well = !err || (p.passed && p.rows == (uint64_t)setup->set[SL_SPLIT_TEST].count);
	if (!setup->in_use) {
		sl_predict_close(&p);
		free_names(name, spec.classes);
		free(doubt);
	}
	return err;
}

/* Checks what the command line says, as far as no config is needed. */
static enum sl_err check_options(const struct sl_options *o, struct sl_fail *fail)
{
	if (o->csv && o->json)
		return sl_fail_set(fail, SL_ERR_USAGE, "predict: give --csv or --json, not both");
	if (o->lines.listen && (strncmp(o->lines.listen, "unix:", 5) != 0 || o->lines.stream))
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "predict: --listen takes unix:PATH, and no --stream beside it; got \"%.40s\"",
				   o->lines.listen);
	if (o->force && !o->out)
		return sl_fail_set(fail, SL_ERR_USAGE, "predict: --force lets --out FILE be replaced: give --out, too");
	if (streams(o) && (o->csv || o->out || o->n_positional > 1))
		return sl_fail_set(
			fail, SL_ERR_USAGE,
			"predict: --stream and --listen answer lines in JSON: leave out FILE, --csv and --out");
	if (o->top && (strspn(o->top, "0123456789") != strlen(o->top) || strlen(o->top) > 6 || atoi(o->top) < 1))
		return sl_fail_set(fail, SL_ERR_USAGE, "predict: --top takes a number of classes from 1, got \"%.40s\"",
				   o->top);
	return SL_OK;
}

/* Checks that the file can be made: lines wait in memory, maybe for hours, before it is. */
static enum sl_err check_place(const char *out, struct sl_fail *fail)
{
	char folder[PATH_MAX];

	if (!sl_folder_of(out, folder))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "predict: %.96s…: too long a path", out);
	if (sl_newfile_is_special(out))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "predict: %s is no regular file: leave out --out to print",
				   out);
	if (sl_folder_is(out))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "predict: %s is a folder: name a file", out);
	if (access(folder, W_OK) != 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "predict: %s: %s", out, strerror(errno));
	return SL_OK;
}

static bool is_data(const char *path)
{
	return sl_ends_with(path, ".csv") || sl_ends_with(path, ".json") || sl_ends_with(path, ".jsonl");
}

/* Makes the folder of masks, and tries to write in it. */
static enum sl_err try_folder(const char *dir, struct sl_fail *fail)
{
	char path[PATH_MAX];
	int fd = -1;

	if ((mkdir(dir, 0777) == 0 || errno == EEXIST) && snprintf(path, sizeof path, "%s/.try-XXXXXX", dir) < PATH_MAX)
		fd = mkstemp(path);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "predict: %s: %s", dir, strerror(errno));
	close(fd);
	unlink(path);
	return SL_OK;
}

/* Checks --out: a folder for masks, else a file. */
static enum sl_err check_out(const struct sl_conf_client *conf, const struct sl_options *o, struct sl_fail *fail)
{
	const bool pixels = conf->model.task == SL_CONF_PIXELS, volumes = conf->data.kind == SL_DATA_VOLUMES;

	if (pixels && (o->csv || (o->json && !volumes) || o->logits || o->top))
		return sl_fail_set(fail, SL_ERR_USAGE, "predict: masks are written as %s --logits and --top",
				   volumes ? "NIfTI: leave out --csv," : "PNG: leave out --csv, --json,");
	if (pixels && !o->out)
		return sl_fail_set(fail, SL_ERR_USAGE, "predict: give --out FOLDER, where the masks are written");
	if (!pixels && o->out && !o->force && access(o->out, F_OK) == 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE,
				   "predict: %s exists already: give --force to replace it, or name another FILE",
				   o->out);
	if (!pixels && o->out && !o->csv && !o->json && is_data(o->out))
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "predict: %s: by its name this is CSV or JSON: give --csv or --json, or another "
				   "name for lines of text",
				   o->out);
	return pixels ? try_folder(o->out, fail) : o->out ? check_place(o->out, fail) : SL_OK;
}

static enum sl_err suits(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	if (o->top && !sl_setup_task(conf)->met)
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "predict: --top needs a network of classes, and this one predicts %s",
				   sl_setup_task(conf)->name);
	if (o->logits && sl_setup_task(conf)->kind == SL_LEARN_NUMBER)
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "predict: this network predicts numbers, which have no logits: leave out --logits");
	if (conf->data.also.n && (streams(o) || o->n_positional > 1))
		return sl_conf_client_fail(
			conf, "data.also", fail,
			"a sample has parts in several files: leave FILE out, and name the folders of "
			"other samples in data and here");
	if (streams(o) && conf->model.task == SL_CONF_PIXELS)
		return sl_conf_client_fail(conf, "model.task", fail,
					   "masks are written to files: give FILEs, no --stream");
	if (streams(o) && conf->data.kind == SL_DATA_VOLUMES)
		return sl_conf_client_fail(conf, "data.kind", fail,
					   "volumes are no lines: give FILEs or folders, no --stream");
	if (!sl_conf_learns_labels(conf))
		return sl_conf_client_fail(conf, "train.loss", fail, "predict needs the network's own loss: labels");
	if (!sl_setup_task(conf)->labelled)
		return sl_conf_client_fail(conf, "model.head", fail,
					   "predict needs a network of classes, numbers or labels, and this one %s",
					   conf->model.head == SL_CONF_CAUSAL_LM
						   ? "continues texts: use splitc generate"
						   : "guesses tokens");
	return SL_OK;
}

int splitc_predict(int argc, char **argv)
{
	struct sl_options o = {.command = "predict", .usage = usage, .keys = &sl_conf_client_schema, .suits = suits};
	static struct sl_conf_client conf;
	static struct sl_setup setup;
	struct output out = {.file = NULL};
	struct sl_fail fail, end;
	bool well = false;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_LOCAL | SL_OPT_WEIGHTS | SL_OPT_PREDICT,
				      SL_ANY_OPERANDS);
	const bool given = o.n_positional > 1 || streams(&o);

	if (status < 0 && check_options(&o, &fail) != SL_OK)
		return sl_command_failed(&fail);
	if (status < 0)
		status = sl_options_load(&o, SL_USES_TRAINED | SL_USES_LINK | (given ? 0 : SL_USES_TEST_SET), &conf);
	if (status >= 0)
		return status;
	err = check_out(&conf, &o, &fail);
	if (!err && given) {
		setup.given = o.positional + 1;
		setup.ngiven = o.n_positional - 1;
		setup.streams = streams(&o);
		err = choose_source(&conf, setup.given, setup.ngiven, &fail);
	}
	if (conf.data.kind == SL_DATA_VOLUMES)
		setup.cases = conf.model.task == SL_CONF_PIXELS ? SL_CASES_FILES : SL_CASES_EACH;
	if (!err)
		err = sl_options_evaluation(&o, &conf, &setup, &fail);
	if (!err && setup.cases == SL_CASES_FILES)
		err = predict_cases(&setup, &o, &fail);
	else if (!err)
		err = open_output(&out, &o, conf.model.task == SL_CONF_PIXELS, &fail);
	if (!err && setup.cases != SL_CASES_FILES)
		err = predict(&setup, &o, out.file, &well, &fail);
	if (!setup.in_use && end_output(&out, &o, well, &end) != SL_OK && !err) {
		fail = end;
		err = end.code;
	}
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
