#include "client/cmd/preset.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/preset_table.h"
#include "client/cmd/preset_templates.h"
#include "client/data/class_name.h"
#include "client/data/parts.h"
#include "client/run/setup.h"
#include "client/text/records.h"
#include "common/base/text.h"
#include "common/conf/key.h"
#include "common/conf/networks.h"

/* Prefixes of the names of networks that a folder, or a file, describes. */
static const char of_folder[] = SL_CONF_HUGGINGFACE ":", of_file[] = SL_CONF_ONNX ":";

/* Kinds of data. The first kind of each input is the usual one. */
static const struct kind {
	const char *kind, *folder, *classes; /* classes NULL: they are counted */
	unsigned input;                      /* SL_NETWORK_…: the networks that take it */
	const char *model;                   /* the usual network; NULL: the user must name a folder */
} kinds[] = {
	{"cifar10", "data/cifar-10-batches-bin", "10", SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"cifar100", "data/cifar-100-binary", "100", SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"images", "data/photos", NULL, SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"webdataset", "data/shards", NULL, SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"csv", "data/table", NULL, SL_NETWORK_ROWS, "mlp"},
	{"cola", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"sst2", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"mrpc", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"qqp", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"mnli", "glue", "3", SL_NETWORK_TOKENS, NULL},
	{"mnli-mm", "glue", "3", SL_NETWORK_TOKENS, NULL},
	{"qnli", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"rte", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"wnli", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"stsb", "glue", "1", SL_NETWORK_TOKENS, NULL},
	{"text", "data/texts", NULL, SL_NETWORK_TOKENS, NULL},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], MOST_SETS = 16, ROW_TOKENS = 128, NAMED = 5 };

struct sets {
	char text[MOST_SETS][PATH_MAX + 32];
	const char *at[MOST_SETS];
	int n;
};

static void set(struct sets *s, const char *key, const char *value)
{
	snprintf(s->text[s->n], sizeof s->text[0], "%s=%s", key, value);
	s->at[s->n] = s->text[s->n];
	s->n++;
}

static bool sets_has(const struct sets *sets, const char *begin)
{
	for (int i = 0; i < sets->n; i++)
		if (strncmp(sets->at[i], begin, strlen(begin)) == 0)
			return true;
	return false;
}

/* Writes the names of the first classes, and how many more there are. */
static void name_classes(const struct sl_set *set, struct sl_fail *out)
{
	char name[SL_CLASS_NAME_BYTES];
	size_t n = 0;

	for (int i = 0; i < set->classes && i < NAMED; i++)
		n += (size_t)snprintf(out->text + n, sizeof out->text - n, "%s%.40s", i ? ", " : "",
				      sl_class_name(set, i, name));
	if (set->classes > NAMED)
		snprintf(out->text + n, sizeof out->text - n, " and %d more", set->classes - NAMED);
}

/* Sets the number of classes, and for a table that of features, as the data have them, unless the network's file
 * defines them. If the data cannot be read yet, the defaults stay. */
static void set_counted(struct sets *s, const struct sl_set_spec *spec, struct sl_fail *counted)
{
	const bool onnx = sets_has(s, "model.onnx=");
	struct sl_set there;
	char count[24];

	if (sl_set_open(&there, spec, counted) != SL_OK)
		return;
	name_classes(&there, counted);
	snprintf(count, sizeof count, "%d", there.classes);
	if (there.classes && !onnx)
		set(s, "model.classes", count);
	snprintf(count, sizeof count, "%lld", (long long)there.field[SL_FIELD_INPUT].dim[0]);
	if (strcmp(spec->source, "csv") == 0 && !onnx)
		set(s, "model.features", count);
	sl_set_close(&there);
}

static void set_columns(struct sets *s, struct sl_preset_table *c)
{
	char list[PATH_MAX], label[SL_CONF_TEXT + 2];
	size_t n = 0;

	snprintf(label, sizeof label, strchr(c->label, '"') ? "%s" : "\"%s\"", c->label);
	set(s, "data.label", label);
	if (c->numbers)
		set(s, "model.task", "numbers");
	if (c->numbers)
		set(s, "data.scale_label", "true");
	for (int i = 0; i < c->nignored; i++) {
		const size_t more = strlen(c->ignored[i]) + 4;

		if (n + more >= sizeof list)
			c->nignored = i;
		else
			n += (size_t)sprintf(list + n, "%s\"%s\"", i ? ", " : "", c->ignored[i]);
	}
	if (c->nignored)
		set(s, "data.ignore", list);
	if (c->missing)
		set(s, "data.missing", "mean");
	if (c->table.form.separator && c->table.form.separator != ',')
		set(s, "data.separator", sl_records_separator(c->table.form.separator));
	if (c->table.form.comma)
		set(s, "data.decimal", "comma");
}

/* Sets sizes that suit data and network: CIFAR's pictures are small, others as large as most networks were made for. */
static void set_sizes(struct sets *s, const struct kind *k, const char *model, bool small)
{
	const bool cifar = k->classes != NULL;

	if (strcmp(model, SL_CONF_ONNX) != 0) /* the network's file defines the size */
		set(s, "model.image", cifar || small ? "32" : "224");
	if (sl_network_has(model) & SL_NETWORK_FORM)
		set(s, "model.form", cifar || small ? "cifar" : "imagenet");
	if (sl_network_has(model) & SL_NETWORK_WIDTH)
		set(s, "model.width", cifar && strcmp(model, "mobilenet_v2") == 0 ? "0.35" : "1");
	set(s, "train.batch", cifar || small ? "128" : "32");
	set(s, "data.normalize", cifar ? k->kind : "imagenet");
}

/* Guesses the kind of a folder: the first kind whose pictures lie in it, or a table, which may be a file. Else, or
 * if no folder was given, `usual`. */
static const struct kind *kind_inside(const char *folder, unsigned input, const struct kind *usual)
{
	char table[PATH_MAX];
	struct sl_set there;
	struct sl_fail why;

	if (usual->input != SL_NETWORK_IMAGES || !folder[0])
		return usual;
	for (const struct kind *k = kinds; k < kinds + KINDS && k->input == SL_NETWORK_IMAGES; k++) {
		const struct sl_set_spec spec = {.source = k->kind, .split = SL_SPLIT_TRAIN, .dir = folder};

		if (sl_set_check(&there, &spec, &why) == SL_OK)
			return k;
	}
	for (const struct kind *k = kinds; k < kinds + KINDS; k++)
		if (k->input == SL_NETWORK_ROWS && (!input || (k->input & input)))
			return sl_set_usual(table, folder, SL_SPLIT_TRAIN, ".csv") ||
					       (sl_ends_with(folder, ".csv") && access(folder, F_OK) == 0)
				       ? k
				       : usual;
	return usual;
}

/* Reads KIND:FOLDER, KIND, or FOLDER, whose kind is guessed among those that the network takes. */
static enum sl_err find_kind(const struct kind **out, const char **folder, const char *data, unsigned input,
			     struct sl_fail *fail)
{
	const size_t len = strcspn(data, ":"), slash = strcspn(data, "/");
	char known[256] = "";
	const struct kind *usual = NULL;

	for (const struct kind *k = kinds; k < kinds + KINDS; k++) {
		const size_t n = strlen(known);

		usual = !usual && (!input || (k->input & input)) ? k : usual;
		snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", k->kind);
		if (strlen(k->kind) != len || strncmp(data, k->kind, len) != 0)
			continue;
		*out = k;
		*folder = data[len] && data[len + 1] ? data + len + 1 : k->folder;
		return SL_OK;
	}
	if (data[len] && len < slash && access(data, F_OK) != 0)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "data are KIND:FOLDER, and there is no kind \"%.*s\"; known: %s",
				   (int)(len < 40 ? len : 40), data, known);
	*out = kind_inside(data, input, usual);
	*folder = data;
	return SL_OK;
}

/* How the user names data for networks with this input. */
static const char *data_of(unsigned input)
{
	return input & SL_NETWORK_TOKENS      ? "texts: text:FOLDER, or TASK:FOLDER with a task of GLUE"
	       : !(input & SL_NETWORK_IMAGES) ? "a table: csv:FOLDER"
	       : input & SL_NETWORK_ROWS
		       ? "pictures or a table: cifar10, cifar100, images, webdataset or csv, each with :FOLDER"
		       : "pictures: cifar10, cifar100, images or webdataset, each with :FOLDER";
}

/* Splits the training set if there is no set for validation. */
static void set_split(struct sets *s, struct sl_set_spec *spec, const struct sl_parts *parts)
{
	const enum sl_log_level level = sl_log_level();
	const struct sl_set_spec train = *spec;
	struct sl_set there;
	struct sl_fail why;
	enum sl_err err;

	sl_log_set_level(SL_LOG_ERROR); /* warnings come again when the classes are counted */
	spec->split = SL_SPLIT_TEST;
	err = sl_set_check(&there, spec, &why);
	*spec = train;
	if (err == SL_ERR_NOINPUT) { /* a set that is there but invalid is not replaced */
		spec->parts = parts;
		err = sl_set_check(&there, spec, &why);
		if (err)
			*spec = train;
	}
	sl_log_set_level(level);
	if (spec->parts) {
		set(s, "data.split.train", "0.8");
		set(s, "data.split.val", "0.2");
	}
}

/* Sets the keys of the data. A decoder learns from texts without labels, and has no classes. */
static void set_data(struct sets *s, const struct kind *k, const char *folder, const char *tokenizer,
		     const struct sl_model_takes *takes, struct sl_fail *counted)
{
	const bool decoder = takes->decoder;
	static const char *const column[] = {"text"};
	struct sl_preset_table of = {.label = "label"};
	struct sl_parts parts = {.share = {0.8, 0.2}, .by = ""};
	struct sl_set_spec spec = {.source = k->kind,
				   .split = SL_SPLIT_TRAIN,
				   .dir = folder,
				   .label = &of.label,
				   .nlabels = 1,
				   .tokenizer = tokenizer,
				   .max_tokens = takes->tokens,
				   .column = column,
				   .ncolumns = 1,
				   .unlabelled = decoder,
				   .next = {.on = decoder, .end = -1}};

	set(s, "data.kind", k->kind);
	set(s, "data.dir", folder);
	if (k->classes && !decoder)
		set(s, "model.classes", k->classes);
	if (k->classes)
		return;
	if (k->input == SL_NETWORK_ROWS) {
		sl_preset_table_read(&of, folder);
		set_columns(s, &of);
		spec.ignore = of.ignored;
		spec.nignore = of.nignored;
		spec.fill = of.missing;
		spec.form = of.table.form;
		spec.task = of.numbers ? &sl_learn_tasks[SL_LEARN_NUMBER] : NULL;
	}
	set_split(s, &spec, &parts);
	if (!decoder)
		set_counted(s, &spec, counted);
	sl_csv_close(&of.table);
}

static enum sl_err set_cut(struct sets *s, const char *cut, struct sl_fail *fail)
{
	const char *comma = strchr(cut, ',');
	char head[SL_CONF_TEXT];

	if (!comma) {
		set(s, "partition", cut);
		return SL_OK;
	}
	if (comma == cut || !comma[1] || strchr(comma + 1, ',') || comma - cut >= (long)sizeof head)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "the cut must be A:-B, such as 1:-1, or HEAD_END,TAIL_BEGIN, such as "
				   "features.0.1,classifier; got \"%.60s\"",
				   cut);
	snprintf(head, sizeof head, "%.*s", (int)(comma - cut), cut);
	set(s, "head_end", head);
	set(s, "tail_begin", comma + 1);
	return SL_OK;
}

static void put_value(FILE *file, const struct sl_conf_client *conf, const char *key)
{
	char value[PATH_MAX + 64];

	if (sl_conf_value_text(&sl_conf_client_schema, conf, key, value, sizeof value) == SL_OK)
		fputs(value, file);
}

/* Writes a key with its value, indented if it is of a section. */
static void put_key(FILE *file, const struct sl_conf_client *conf, const char *key)
{
	const char *dot = strchr(key, '.');

	fprintf(file, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : key);
	put_value(file, conf, key);
	fputc('\n', file);
}

static void put_cut(FILE *file, const struct sl_conf_client *conf)
{
	if (conf->head_end[0]) {
		put_key(file, conf, "head_end");
		put_key(file, conf, "tail_begin");
	} else {
		put_key(file, conf, "partition");
	}
}

static void put_option(FILE *file, const struct sl_conf_client *conf, const char *what)
{
	const bool onnx = conf->model.onnx[0];

	if (strcmp(what, "name") == 0) {
		put_key(file, conf, onnx ? "model.onnx" : "model.name");
		if (conf->model.task == SL_CONF_NUMBERS)
			fputs("  task: numbers\n", file);
		else if (!onnx) /* an ONNX file defines how many */
			put_key(file, conf, "model.classes");
	} else if (strcmp(what, "columns") == 0 && conf->model.head == SL_CONF_CAUSAL_LM) {
		fputs(conf->data.kind == SL_DATA_TEXT ? "  columns: [text]  # or two: a prompt, its completion\n" : "",
		      file);
	} else if (strcmp(what, "columns") == 0 && conf->data.kind == SL_DATA_TEXT) {
		fputs("  columns: [text]  # two names for pairs of texts\n  label: label     # the column of the "
		      "classes\n",
		      file);
	} else if (strcmp(what, "features") == 0 && !onnx) {
		fprintf(file,
			"  features: %-6d # numbers that the network gets for a row; `splitc data FILE` counts them\n",
			conf->model.features);
	} else if (strcmp(what, "split") == 0 && conf->data.split.train > 0) {
		fputs("  split: {train: 0.8, val: 0.2}   # of the one set that is there\n", file);
	} else if (strcmp(what, "ignored") == 0) {
		if (conf->data.scale_label == SL_LABEL_SCALED)
			fputs("  scale_label: true   # learned scaled; predictions are in the label's own units\n",
			      file);
		fputs(conf->data.ignore.n ? "  ignore: " : "  # ignore: [id]", file);
		if (conf->data.ignore.n)
			put_value(file, conf, "data.ignore");
		fputs("   # columns that tell nothing\n", file);
		if (conf->data.separator != SL_SEPARATOR_COMMA)
			put_key(file, conf, "data.separator");
		if (conf->data.decimal != SL_DECIMAL_POINT)
			put_key(file, conf, "data.decimal");
		if (conf->data.missing == SL_MISSING_MEAN)
			fputs("  missing: mean   # of a number's column; a text that is missing is none of its "
			      "column's\n",
			      file);
	} else if (strcmp(what, "form") == 0 && !sl_conf_client_is_idle(conf, "model.form")) {
		fprintf(file, "  form: %-11s # cifar: strides for small images; imagenet: torchvision's\n",
			conf->model.form == SL_FORM_CIFAR ? "cifar" : "imagenet");
	} else if (strcmp(what, "width") == 0 && !sl_conf_client_is_idle(conf, "model.width")) {
		fprintf(file, "  width: %-9g # of the channels; 1: the whole network\n", conf->model.width);
	} else if (strcmp(what, "dropout") == 0 && !sl_conf_client_is_idle(conf, "model.dropout")) {
		fputs("  dropout: 0\n", file);
	}
}

static void put_crop(FILE *file, const struct sl_conf_client *conf)
{
	fputs(sl_conf_client_is_idle(conf, "data.flip") ? "  # transforms:    # instead of the usual ones\n"
							: "  crop_padding: 4\n  flip: true\n",
	      file);
}

static void expand(FILE *file, const struct sl_conf_client *conf)
{
	char key[SL_CONF_TEXT];

	for (const char *at = conf->model.head == SL_CONF_CAUSAL_LM ? decoder_template
			      : conf->model.huggingface[0]          ? text_template
			      : conf->data.kind == SL_DATA_CSV      ? table_template
								    : template;
	     *at;) {
		size_t len = strcspn(at, "@");

		fwrite(at, 1, len, file);
		at += len;
		if (!*at)
			break;
		len = strcspn(at + 1, "@");
		snprintf(key, sizeof key, "%.*s", (int)len, at + 1);
		at += len + 2;
		if (strcmp(key, "cut") == 0)
			put_cut(file, conf);
		else if (strcmp(key, "crop") == 0)
			put_crop(file, conf);
		else if (!strchr(key, '.') && sl_conf_find(&sl_conf_client_schema, key) < 0)
			put_option(file, conf, key);
		else
			put_value(file, conf, key);
	}
}

/* Plans the network, and so checks, among others, that it has this cut. */
static enum sl_err try_plan(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	struct sl_setup setup = {0};
	enum sl_err err = sl_setup_plan(&setup, conf, fail);

	sl_setup_close(&setup);
	return err;
}

/* Removes "--set " from a message: the user gave an answer, not an option, and the key says which. */
static enum sl_err key_alone(struct sl_fail *fail)
{
	static const char place[] = "--set ";
	const struct sl_fail why = *fail;

	if (strncmp(why.text, place, sizeof place - 1) == 0)
		sl_fail_set(fail, why.code, "%s", why.text + sizeof place - 1);
	return why.code;
}

/* What the network in a folder takes, with at most ROW_TOKENS tokens in a row. If the folder cannot be read, its
 * plan fails later, and says why. */
static struct sl_model_takes takes_of(const char *folder)
{
	struct sl_model_takes takes = {.tokens = 0};
	struct sl_fail why;

	if (folder)
		(void)!sl_model_takes(&takes, &(struct sl_model_spec){.huggingface = folder}, &why);
	if (!takes.tokens || takes.tokens > ROW_TOKENS)
		takes.tokens = ROW_TOKENS;
	return takes;
}

/* Turns a preset into keys of a config. `small`: pictures of 32 pixels, if they may have any size. */
static enum sl_err set_all(struct sets *sets, const struct sl_preset *preset, bool small, struct sl_fail *fail)
{
	const char *model = preset->model, *folder = "", *file = NULL, *tokenizer = NULL;
	const struct kind *k = kinds;
	unsigned input = 0;
	struct sl_model_takes takes;
	char tokens[24];
	struct sl_fail why, *counted = preset->counted ? preset->counted : &why;
	enum sl_err err;

	*counted = (struct sl_fail){.code = SL_OK};
	if (model && strncmp(model, of_folder, strlen(of_folder)) == 0) {
		tokenizer = model + strlen(of_folder);
		model = SL_CONF_HUGGINGFACE;
	} else if (model && strncmp(model, of_file, strlen(of_file)) == 0) {
		file = model + strlen(of_file);
		model = SL_CONF_ONNX;
	}
	input = model ? sl_network_has(model) & (SL_NETWORK_IMAGES | SL_NETWORK_TOKENS | SL_NETWORK_ROWS) : 0;
	input |= file ? SL_NETWORK_ROWS : 0;
	takes = takes_of(tokenizer);
	err = set_cut(sets, preset->cut ? preset->cut : takes.decoder ? "2:-3" : tokenizer ? "2:-1" : "1:-1", fail);
	if (!err)
		err = find_kind(&k, &folder, preset->data ? preset->data : takes.decoder ? "text" : "", input, fail);
	if (err)
		return err;
	if (!preset->data)
		folder = k->folder;
	if (file && (k->input & SL_NETWORK_TOKENS))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "texts for an ONNX file also need a tokenizer: docs/howto-onnx.md, \"Texts\", has "
				   "such a config to copy");
	if (input && !(k->input & input))
		return sl_fail_set(fail, SL_ERR_CONFIG, "this network needs data of %s; got \"%.60s\"", data_of(input),
				   preset->data);
	model = model ? model : k->model;
	if (!model)
		return sl_fail_set(fail, SL_ERR_CONFIG, "texts need a network: --model huggingface:FOLDER");
	if (preset->server)
		set(sets, "server", preset->server);
	set(sets,
	    tokenizer ? "model.huggingface"
	    : file    ? "model.onnx"
		      : "model.name",
	    tokenizer ? tokenizer
	    : file    ? file
		      : model);
	if (tokenizer) {
		snprintf(tokens, sizeof tokens, "%d", takes.tokens);
		set(sets, "data.tokenizer", tokenizer);
		set(sets, "model.tokens", tokens);
	}
	if (takes.decoder)
		set(sets, "model.head", "causal_lm");
	if (k->input == SL_NETWORK_IMAGES)
		set_sizes(sets, k, model, small);
	set_data(sets, k, folder, tokenizer, &takes, counted);
	set(sets, "log.dir", preset->log_dir ? preset->log_dir : "runs/demo");
	return SL_OK;
}

/* The text of a config that the keys are then set in. It has what a config must have. */
static const char *base_of(const struct sets *sets)
{
	const bool onnx = sets_has(sets, "model.onnx=");

	if (sets_has(sets, "model.huggingface="))
		return "model: {huggingface: x}\ndata: {dir: x, kind: cola, tokenizer: x}\n";
	if (sets_has(sets, "data.kind=csv"))
		return onnx ? "model: {onnx: x}\ndata: {dir: x, kind: csv}\n"
			    : "model: {name: mlp, features: 1}\ndata: {dir: x, kind: csv}\n";
	if (onnx)
		return "model: {onnx: x}\ndata: {dir: x}\n";
	return "model: {name: mobilenet_v2}\ndata: {dir: x}\n";
}

static enum sl_err try_preset(struct sl_conf_client *conf, const struct sl_preset *preset, bool small,
			      struct sl_fail *fail)
{
	struct sets sets = {.n = 0};
	const char *base;
	enum sl_err err = set_all(&sets, preset, small, fail);

	if (err)
		return err;
	base = base_of(&sets);
	err = sl_conf_parse(&sl_conf_client_schema, conf, "init", base, strlen(base), sets.at, sets.n, fail);
	if (!err)
		err = sl_setup_sizes(conf, fail);
	if (!err)
		err = try_plan(conf, fail);
	return err ? key_alone(fail) : SL_OK;
}

enum sl_err sl_preset_make(char text[SL_PRESET_TEXT], struct sl_conf_client *conf, const struct sl_preset *preset,
			   struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = try_preset(conf, preset, false, fail);
	FILE *file;

	/* some networks take only small images */
	if (err == SL_ERR_CONFIG && try_preset(conf, preset, true, &why) == SL_OK)
		err = SL_OK;
	if (err)
		return err;
	file = fmemopen(text, SL_PRESET_TEXT, "w");
	if (!file)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the config");
	expand(file, conf);
	if (fclose(file) != 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the names in it are too long for a config");
	return sl_conf_parse(&sl_conf_client_schema, conf, "default", text, strlen(text), NULL, 0, fail);
}

bool sl_preset_place(int n, char out[PATH_MAX])
{
	const char *share = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int len = -1;

	if (n == 0)
		len = snprintf(out, PATH_MAX, "%s", kinds[0].folder);
	else if (n == 1 && share && share[0] == '/')
		len = snprintf(out, PATH_MAX, "%s/split/cifar-10-batches-bin", share);
	else if (n == 1 && home && home[0] == '/')
		len = snprintf(out, PATH_MAX, "%s/.local/share/split/cifar-10-batches-bin", home);
	return len >= 0 && len < PATH_MAX;
}
