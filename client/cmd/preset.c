#include "client/cmd/preset.h"

#include <string.h>

#include "client/cmd/preset_columns.h"
#include "client/cmd/preset_find.h"
#include "client/cmd/preset_keys.h"
#include "client/cmd/preset_party.h"
#include "client/cmd/preset_table.h"
#include "client/cmd/preset_volumes.h"
#include "client/data/parts.h"
#include "client/setup/setup.h"
#include "client/setup/setup_volumes.h"
#include "client/text/records.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/conf/key.h"
#include "common/conf/networks.h"
#include "common/weights/safetensors.h"

/* Prefixes of the names of networks that a folder, or a file, describes. */
static const char of_folder[] = SL_CONF_HUGGINGFACE ":";
/* The same of files, which may also be known by their ends. */
static const char of_file[] = SL_CONF_NETWORK ":", of_onnx[] = "onnx:";

/* Keys that a task usually has. */
enum { OF_PICTURES, OF_TABLES, OF_TEXTS, OF_DECODERS, OF_VOLUMES, MOST_USUAL = 16 };
#define SMALL "codec.head_act=small", "codec.mid_act=small", "codec.mid_grad=small", "codec.head_grad=small"
/* clang-format off */
static const char *const usual_keys[][MOST_USUAL] = {
	[OF_PICTURES] = {"train.chunks=4", "train.epochs=2", "train.optimizer.kind=sgd", "train.optimizer.lr=0.1",
		"train.optimizer.momentum=0.9", "train.optimizer.weight_decay=0.0001", "train.optimizer.nesterov=true",
		"train.schedule.kind=cosine", "train.schedule.warmup_epochs=0.5", SMALL, "threads=1"},
	[OF_TABLES] = {"train.batch=32", "train.epochs=20", "train.optimizer.kind=adam", "train.optimizer.lr=0.003", "threads=1"},
	[OF_TEXTS] = {"train.batch=32", "train.chunks=4", "train.epochs=3", "train.optimizer.kind=adamw",
		"train.optimizer.lr=2e-5", "train.optimizer.eps=1e-6", "train.optimizer.weight_decay=0.01",
		"train.schedule.kind=polynomial", "train.schedule.warmup_epochs=0.3", "train.keep_best=true",
		SMALL},
	[OF_DECODERS] = {"model.head=causal_lm", "train.batch=8", "train.chunks=4", "train.epochs=3",
		"train.optimizer.kind=adamw", "train.optimizer.lr=1e-4", "train.schedule.kind=cosine",
		"train.schedule.warmup_epochs=0.1", SMALL},
	[OF_VOLUMES] = {"train.batch=2", "train.chunks=1", "train.epochs=100", "train.loss=dice_ce", "train.optimizer.kind=adamw",
		"train.optimizer.lr=1e-3", "train.schedule.kind=cosine", "codec.head_act=quant:8", "codec.mid_act=quant:8",
		"codec.mid_grad=quant:8", "codec.head_grad=quant:8"},
};
/* clang-format on */

/* A config in the making: which keys are set, and to what. */
struct making {
	const struct sl_preset *preset;
	struct sl_conf_client *conf;
	struct sl_conf_client *user; /* the preset's, without keys of other data */
	const struct sl_preset_kind *kind;
	struct sl_preset_data at;
	const char *tokenizer, *by; /* by: data.split.by */
	struct sl_model_takes takes;
	struct sl_set_spec spec; /* of the data */
	struct sl_setup_volume volume;
	const char *label[SL_CONF_LIST_MAX], *ignore[SL_CONF_LIST_MAX], *date[SL_CONF_LIST_MAX], *ids[SL_CONF_LIST_MAX],
		*column[SL_CONF_LIST_MAX], *file[SL_CONF_LIST_MAX];
	struct sl_preset_table table;
	struct sl_preset_columns columns;
	struct sl_fail *fail; /* the first error, if its code is set */
};

static enum sl_err refuse(struct making *m, const char *key, const char *why)
{
	return m->fail->code ? m->fail->code : sl_fail_set(m->fail, SL_ERR_CONFIG, "%s: %s", key, why);
}

static void set(struct making *m, const char *key, const char *value)
{
	const int i = sl_conf_find(&sl_conf_client_schema, key);
	char why[SL_CONF_WHY];

	if (sl_conf_value_set(&sl_conf_client_schema.key[i], m->conf, value, true, why))
		(void)refuse(m, key, why);
	m->conf->origin.mark[i].line = -1;
}

static void set_number(struct making *m, const char *key, long long value)
{
	char text[24];

	snprintf(text, sizeof text, "%lld", value);
	set(m, key, text);
}

static void set_list(struct making *m, const char *key, const char *const *item, int n)
{
	const int k = sl_conf_find(&sl_conf_client_schema, key);
	char why[SL_CONF_WHY];

	set(m, key, "");
	for (int i = 0; i < n; i++)
		if (sl_conf_value_append(&sl_conf_client_schema.key[k], m->conf, item[i], why))
			(void)refuse(m, key, why);
}

static int point_to(const char *out[SL_CONF_LIST_MAX], const struct sl_conf_list *list)
{
	for (int i = 0; i < list->n; i++)
		out[i] = list->item[i];
	return list->n;
}

/* Sets the number of classes, and for a table that of features, as the data have them, unless the network's file
 * defines them. If the data cannot be read yet, the defaults stay. */
static void set_counted(struct making *m, struct sl_fail *counted)
{
	static const char *const metrics[] = {"balanced_accuracy", "auc"};
	const bool file = m->conf->model.network[0];
	struct sl_set there;

	if (m->spec.volume) { /* opening would prepare them */
		if (sl_set_check(&there, &m->spec, counted) == SL_OK)
			counted->text[0] = 0;
		return;
	}
	if (sl_set_open(&there, &m->spec, counted) != SL_OK)
		return;
	if (m->at.masks)
		counted->text[0] = 0;
	else
		sl_preset_name_classes(&there, counted);
	if (there.classes && !file)
		set_number(m, "model.classes", there.classes);
	else if (m->spec.task && m->spec.task->each && there.field[SL_FIELD_TARGET].ndim && !file)
		set_number(m, "model.classes", sl_set_targets(&there)); /* data.label may have patterns */
	if (m->kind->input == SL_NETWORK_ROWS && !file && !m->spec.blind)
		set_number(m, "model.features", there.field[SL_FIELD_INPUT].dim[0]);
	if (!m->spec.task && sl_setup_is_unequal(&there)) {
		set_list(m, "train.metrics", metrics, 2);
		if (m->preset->found)
			m->preset->found->unequal = true;
	}
	sl_set_close(&there);
}

/* Sets sizes that suit data and network: CIFAR's pictures are small, others as large as most networks were made for. */
static void set_sizes(struct making *m, const char *model, bool small)
{
	const bool cifar = m->kind->classes != NULL;

	if (!m->conf->model.network[0]) /* the network's file defines the size */
		set(m, "model.image", cifar || small ? "32" : "224");
	if (sl_network_has(model) & SL_NETWORK_FORM)
		set(m, "model.form", cifar || small ? "cifar" : "imagenet");
	if (sl_network_has(model) & SL_NETWORK_WIDTH)
		set(m, "model.width", cifar && strcmp(model, "mobilenet_v2") == 0 ? "0.35" : "1");
	if (sl_network_has(model) & SL_NETWORK_DROPOUT)
		set(m, "model.dropout", "0");
	set(m, "train.batch", cifar || small ? "128" : "32");
	set(m, "data.normalize", cifar ? m->kind->kind : "imagenet");
}

/* Chooses the keys of volumes. */
static void choose_volumes(struct making *m)
{
	static const char *const steps[] = {"RandomFlip()", "RandomIntensity(0.1, 0.1)"};
	struct sl_preset_volumes v;
	const char *patch[] = {v.patch[0], v.patch[1], v.patch[2]};
	const char *spacing[] = {v.spacing[0], v.spacing[1], v.spacing[2]};

	if (sl_preset_volumes_look(&v, m->at.dir, m->conf, m->fail) != SL_OK)
		return;
	set_list(m, "data.patch", patch, 3);
	if (v.spacing[0][0])
		set_list(m, "data.spacing", spacing, 3);
	set_list(m, "data.transforms", steps, 2);
	set(m, "data.intensity", v.ct ? "ct:-200,300" : "mri");
	m->spec.volume = sl_setup_volume(&m->volume, m->conf);
}

/* Splits the training set if there is no set for validation. */
static void set_split(struct making *m, const struct sl_parts *parts)
{
	const enum sl_log_level level = sl_log_level();
	const struct sl_set_spec train = m->spec;
	struct sl_set there;
	struct sl_fail why;
	enum sl_err err;

	sl_log_set_level(SL_LOG_ERROR); /* warnings come again when the classes are counted */
	m->spec.split = SL_SPLIT_TEST;
	m->spec.files = NULL;
	m->spec.nfiles = 0;
	err = sl_set_check(&there, &m->spec, &why);
	m->spec = train;
	if (err == SL_ERR_NOINPUT) { /* a set that is there but invalid is not replaced */
		m->spec.parts = parts;
		err = sl_set_check(&there, &m->spec, &why);
		if (err &&
		    !(err == SL_ERR_DATA && m->spec.labels)) /* a fault of the table is its own, and not of parts */
			m->spec = train;
	}
	sl_log_set_level(level);
	if (m->spec.parts) {
		set(m, "data.split.train", "0.8");
		set(m, "data.split.val", "0.2");
	}
}

/* Takes the label that the user has named, or else `found`; NULL: it is not clear which, and then it is `last`. */
static void take_label(struct making *m, const char *found, const char *last)
{
	struct sl_preset_found *out = m->preset->found;
	char names[SL_FAIL_TEXT - 200];

	sl_preset_columns_list(&m->columns, names, sizeof names);
	if (m->preset->label)
		m->label[0] = m->preset->label;
	else if (sl_preset_has(m->user, "data.label"))
		m->spec.nlabels = point_to(m->label, &m->user->data.label);
	else if (found || m->preset->lenient || !m->columns.n)
		m->label[0] = found ? found : last;
	else if (!m->fail->code)
		(void)sl_fail_set(m->fail, SL_ERR_CONFIG,
				  "%s: which column is the label? Give --set data.label=NAME with one of: %s",
				  m->at.dir, names);
	set_list(m, "data.label", m->label, m->spec.nlabels);
	if (!out)
		return;
	snprintf(out->columns, sizeof out->columns, "%s", names);
	snprintf(out->label, sizeof out->label, "%s", m->label[0]);
}

/* Chooses the keys of a table of labels, beside the label. */
static void take_labels(struct making *m)
{
	const char *patient = sl_preset_table_patient(&m->table, m->at.label_id);

	set(m, "data.labels", m->at.labels);
	set(m, "data.label_id", m->at.label_id);
	m->spec.labels = m->at.labels;
	m->spec.label_id = m->at.label_id;
	if (patient && !m->by[0])
		m->by = patient;
}

/* Chooses the label and the columns of a table, or of one of pictures' labels. */
static void choose_table(struct making *m)
{
	struct sl_preset_table *t = &m->table;
	const bool labels = m->at.labels[0], features = m->spec.unlabelled;
	const char *label = features                               ? ""
			    : m->preset->label                     ? m->preset->label
			    : sl_preset_has(m->user, "data.label") ? m->user->data.label.item[0]
								   : NULL;

	sl_preset_table_read(t, labels ? m->at.labels : m->at.dir, label);
	for (int i = 0; i < t->table.columns && i < SL_CONF_LIST_MAX; i++)
		snprintf(m->columns.name[m->columns.n++], SL_CONF_TEXT, "%s", sl_name(&t->table.header, i));
	if (!features)
		take_label(m, t->unclear ? NULL : t->label, t->label);
	if (label && !features && t->table.columns && sl_csv_next(&t->table, label, 0) < 0 && !m->fail->code)
		(void)!sl_csv_lacks(&t->table, "data.label", label, m->fail);
	if (sl_agreed_is_vertical(&m->user->agreed) && !m->fail->code &&
	    sl_preset_party_id(&m->spec.id, t, m->user, &m->columns, m->fail) == SL_OK)
		set(m, "data.id", m->spec.id);
	if (!labels && !features && sl_preset_table_hides(m->at.dir, t->label)) /* its rows are to be predicted */
		snprintf(m->at.dir, sizeof m->at.dir, "%s", t->table.path);
	if (!m->spec.task && t->numbers)
		m->spec.task = &sl_learn_tasks[SL_LEARN_NUMBER];
	sl_preset_table_spare(t, &m->user->data.ids);
	if (t->nignored && !labels)
		set_list(m, "data.ignore", t->ignored, t->nignored);
	if (t->ndates && !labels)
		set_list(m, "data.dates", t->dates, t->ndates);
	if (t->missing && !labels)
		set(m, "data.missing", "mean");
	if (t->table.form.separator && t->table.form.separator != ',')
		set(m, "data.separator", sl_records_separator(t->table.form.separator));
	if (t->table.form.comma)
		set(m, "data.decimal", "comma");
	m->spec.form = t->table.form;
	if (sl_preset_has(m->user, "data.separator"))
		m->spec.form.separator = ",;\t"[m->user->data.separator];
	if (sl_preset_has(m->user, "data.decimal"))
		m->spec.form.comma = m->user->data.decimal == SL_DECIMAL_COMMA;
	if (labels) {
		take_labels(m);
		return;
	}
	m->spec.ignore = sl_preset_has(m->user, "data.ignore") ? m->ignore : t->ignored;
	m->spec.nignore = m->spec.ignore == t->ignored ? t->nignored : point_to(m->ignore, &m->user->data.ignore);
	m->spec.date = sl_preset_has(m->user, "data.dates") ? m->date : t->dates;
	m->spec.ndates = m->spec.date == t->dates ? t->ndates : point_to(m->date, &m->user->data.dates);
	m->spec.id_column = m->ids;
	m->spec.nid_columns = point_to(m->ids, &m->user->data.ids);
	m->spec.buckets = m->user->data.buckets;
	m->spec.fill = sl_preset_has(m->user, "data.missing") ? m->user->data.missing == SL_MISSING_MEAN : t->missing;
}

/* Chooses the columns of texts, and their label. */
static void choose_texts(struct making *m)
{
	static const char *const ends[] = {".tsv", ".csv", ".jsonl"};
	struct sl_preset_columns *columns = &m->columns;
	char path[PATH_MAX] = "";
	int text = 0, label = -1;

	if (sl_folder_is_file(m->at.dir))
		snprintf(path, sizeof path, "%s", m->at.dir);
	for (size_t i = 0; !path[0] && i < sizeof ends / sizeof ends[0]; i++)
		if (!sl_set_usual(path, m->at.dir, SL_SPLIT_TRAIN, ends[i]))
			path[0] = 0;
	sl_preset_columns_read(columns, path);
	sl_preset_columns_choose(columns, &text, &label);
	m->column[0] = columns->n ? columns->name[text] : "text";
	set_list(m, "data.columns", m->column, 1);
	if (sl_preset_has(m->user, "data.columns"))
		m->spec.ncolumns = point_to(m->column, &m->user->data.columns);
	if (!m->takes.decoder)
		take_label(m, label < 0 ? NULL : columns->name[label],
			   columns->n ? columns->name[columns->n - 1] : "label");
}

/* Sets the keys of the data. A decoder learns from texts without labels, and has no classes. */
static enum sl_err set_data(struct making *m, struct sl_fail *counted)
{
	const struct sl_preset_kind *k = m->kind;
	const bool decoder = m->takes.decoder, pixels = m->at.masks || strcmp(k->kind, "volumes") == 0;
	struct sl_parts parts = {.share = {0.8, 0.2}};

	m->by = sl_preset_has(m->user, "data.split.by") ? m->user->data.split.by : "";
	m->label[0] = "label";
	m->spec = (struct sl_set_spec){.source = k->kind,
				       .split = SL_SPLIT_TRAIN,
				       .label = m->label,
				       .nlabels = 1,
				       .tokenizer = m->tokenizer,
				       .max_tokens = m->takes.tokens,
				       .masks = "masks",
				       .mask_classes = 2,
				       .column = m->column,
				       .ncolumns = 1,
				       .unlabelled = decoder || sl_preset_party_has(m->user, SL_ROLE_FEATURES),
				       .blind = sl_preset_party_has(m->user, SL_ROLE_LABELS),
				       .next = {.on = decoder, .end = -1},
				       .task = pixels ? &sl_learn_tasks[SL_LEARN_PIXELS] : NULL};
	if (sl_preset_has(m->user, "model.task") && m->user->model.task != SL_CONF_CLASSES)
		m->spec.task = &sl_learn_tasks[m->user->model.task];
	set(m, "data.kind", k->kind);
	if (k->classes && !decoder)
		set(m, "model.classes", k->classes);
	if (strcmp(k->kind, "volumes") == 0)
		choose_volumes(m);
	if (m->fail->code)
		return m->fail->code;
	if (!k->classes && (k->input == SL_NETWORK_ROWS || m->at.labels[0]))
		choose_table(m);
	else if (!k->classes && k->input == SL_NETWORK_TOKENS)
		choose_texts(m);
	else if (sl_preset_has(m->user, "data.label"))
		m->spec.nlabels = point_to(m->label, &m->user->data.label);
	set(m, "data.dir", m->at.dir);
	m->spec.dir = m->at.dir;
	if (m->fail->code || k->classes)
		return m->fail->code;
	if (m->spec.task)
		set(m, "model.task",
		    sl_conf_client_schema.key[sl_conf_find(&sl_conf_client_schema, "model.task")]
			    .choices[m->spec.task->kind]);
	if (m->spec.task && m->spec.task->kind == SL_LEARN_NUMBER)
		set(m, "data.scale_label", "true");
	if (m->spec.task && m->spec.task->kind == SL_LEARN_NUMBER && k->input == SL_NETWORK_IMAGES)
		set(m, "train.optimizer.lr", "0.01"); /* a squared error's gradients are larger */
	if (m->spec.nlabels > 1)
		set_number(m, "model.classes", m->spec.nlabels);
	if (m->at.files.n) {
		m->spec.nfiles = m->spec.ntrain_files = point_to(m->file, &m->at.files);
		m->spec.files = m->spec.train_files = m->file;
		set_list(m, "data.train_files", m->file, m->spec.nfiles);
	}
	parts.by = m->by;
	if (sl_preset_has(m->user, "data.split.train") || sl_preset_has(m->user, "data.split.folds"))
		m->spec.parts = &parts;
	else
		set_split(m, &parts);
	if (m->spec.parts && m->by[0])
		set(m, "data.split.by", m->by);
	if (!decoder)
		set_counted(m, counted);
	return m->fail->code;
}

static void set_cut(struct making *m, const char *cut)
{
	const char *comma = strchr(cut, ',');
	char head[SL_CONF_TEXT];

	if (!comma) {
		set(m, "partition", cut);
	} else if (comma == cut || !comma[1] || strchr(comma + 1, ',') || comma - cut >= (long)sizeof head) {
		(void)sl_fail_set(m->fail, SL_ERR_CONFIG,
				  "the cut must be A:-B, such as 1:-1, or HEAD_END,TAIL_BEGIN, such as "
				  "features.0.1,classifier; got \"%.60s\"",
				  cut);
	} else {
		snprintf(head, sizeof head, "%.*s", (int)(comma - cut), cut);
		set(m, "head_end", head);
		set(m, "tail_begin", comma + 1);
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

/* Drops the user's keys of other data, and of another network. */
static void forget(struct making *m, const char *network)
{
	const struct sl_conf_client *u = m->user;
	const char *was = u->model.huggingface[0] ? u->model.huggingface
			  : u->model.network[0]   ? u->model.network
						  : u->model.name;
	const bool same =
		strcmp(sl_conf_data_kinds[u->data.kind], m->kind->kind) == 0 && strcmp(u->data.dir, m->at.dir) == 0;

	if (!same)
		sl_preset_forget_section(m->user, "data.");
	if (!same || strcmp(was, network) != 0)
		sl_preset_forget_section(m->user, "model.");
}

/* The file that --model names by this prefix, or by its end; NULL: it names none so. */
static const char *file_of(const char *model, const char *prefix, const char *end)
{
	if (strncmp(model, prefix, strlen(prefix)) == 0)
		return model + strlen(prefix);
	return sl_ends_with(model, end) ? model : NULL;
}

/* The row of usual_keys. */
static int usual_of(const struct making *m)
{
	return m->takes.decoder                        ? OF_DECODERS
	       : strcmp(m->kind->kind, "volumes") == 0 ? OF_VOLUMES
	       : m->kind->input == SL_NETWORK_IMAGES   ? OF_PICTURES
	       : m->kind->input == SL_NETWORK_ROWS     ? OF_TABLES
						       : OF_TEXTS;
}

/* Sets the keys that the preset's answers give. `small`: pictures of 32 pixels, if they may have any size. */
static enum sl_err set_all(struct making *m, bool small, struct sl_fail *counted)
{
	const struct sl_preset *p = m->preset;
	const char *model = p->model, *file = NULL, *folder = NULL;
	unsigned input = 0;
	int usual, n = 0;
	enum sl_err err;

	if (model && strncmp(model, of_folder, strlen(of_folder)) == 0) {
		folder = model + strlen(of_folder);
		model = SL_CONF_HUGGINGFACE;
	}
	file = model ? file_of(model, of_onnx, ".onnx") : NULL;
	if (file)
		return sl_fail_set(m->fail, SL_ERR_CONFIG, "--model: " SL_CONF_ONNX_HOW, 150, file);
	file = model && !folder ? file_of(model, of_file, ".safetensors") : NULL;
	if (file)
		model = SL_CONF_NETWORK;
	input = model ? sl_network_has(model) & (SL_NETWORK_IMAGES | SL_NETWORK_TOKENS | SL_NETWORK_ROWS) : 0;
	input |= file ? SL_NETWORK_ROWS : 0;
	m->takes = sl_preset_takes_of(folder);
	err = sl_preset_find_kind(&m->kind, &m->at, p->data ? p->data : sl_preset_usual_kind(input, m->takes.decoder),
				  input & SL_NETWORK_TOKENS, m->fail);
	if (err)
		return err;
	if (sl_agreed_is_vertical(&m->user->agreed) && strcmp(m->kind->kind, "csv") != 0)
		return refuse(m, "data.kind",
			      "--party writes the configs of two tables, --data csv:FILE; for pictures copy those in "
			      "docs/howto-vertical.md");
	if (p->found)
		*p->found = (struct sl_preset_found){.what = m->at.what};
	if (file && (m->kind->input & SL_NETWORK_TOKENS))
		return refuse(m, "model.network",
			      "texts for a network's file also need a tokenizer: docs/howto-onnx.md, "
			      "\"Texts\", has such a config to copy");
	if (input && !(m->kind->input & input))
		return sl_fail_set(m->fail, SL_ERR_CONFIG, "this network needs data of %s; got \"%.60s\"",
				   sl_preset_data_of(input), p->data ? p->data : "");
	if (m->at.masks && !file)
		return refuse(m, "model.network",
			      "masks need a network that gives a class for each pixel or voxel: --model network:FILE");
	model = model ? model : m->kind->model;
	if (!model)
		return m->kind->input & SL_NETWORK_IMAGES
			       ? refuse(m, "model.network", "volumes need a network's file: --model network:FILE")
			       : refuse(m, "model.huggingface", "texts need a network: --model huggingface:FOLDER");
	forget(m, folder ? folder : file ? file : model);
	m->tokenizer = sl_preset_has(m->user, "data.tokenizer") ? m->user->data.tokenizer : folder;
	usual = usual_of(m);
	while (n < MOST_USUAL && usual_keys[usual][n])
		n++;
	err = sl_conf_parse(&sl_conf_client_schema, m->conf, "init", NULL, 0, usual_keys[usual], n, m->fail);
	if (err)
		return err;
	m->fail->code = SL_OK;
	if (folder && !sl_st_in_folder(folder)) /* the usual rate is for weights that have learned */
		set(m, "train.optimizer.lr", "1e-3");
	if (m->takes.decoder && sl_st_in_folder(folder)) { /* adapters need the weights that they train beside */
		set(m, "lora.rank", "16");
		set(m, "lora.alpha", "32");
	}
	set(m, "server", p->server ? p->server : "tcp://127.0.0.1:5570");
	if (folder)
		set(m, "model.huggingface", folder);
	else
		set(m, file ? "model.network" : "model.name", file ? file : model);
	if (folder) {
		set_number(m, "model.tokens", m->takes.tokens);
		set(m, "data.tokenizer", folder);
	}
	set(m, "train.seed", "1");
	set_cut(m, p->cut ? p->cut : m->takes.decoder ? "2:-3" : folder ? "2:-1" : "1:-1");
	if (m->kind->input == SL_NETWORK_IMAGES && strcmp(m->kind->kind, "volumes") != 0)
		set_sizes(m, model, small);
	set(m, "log.dir", p->log_dir ? p->log_dir : "runs/demo");
	return m->fail->code ? m->fail->code : set_data(m, counted);
}

/* Writes the text of the config, with all keys of the user, and loads it again. */
static enum sl_err write_text(char text[SL_PRESET_TEXT], struct making *m, struct sl_fail *fail)
{
	static struct sl_conf_client sized;
	FILE *file = fmemopen(text, SL_PRESET_TEXT, "w");
	enum sl_err err;

	if (!file)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the config");
	sl_preset_take(m->conf, m->user);
	fputs("# A run of splitc. `splitc train FILE --print-config` prints every key with what it means.\n", file);
	err = sl_conf_print_set(&sl_conf_client_schema, m->conf, file);
	sl_preset_party_comment(m->conf, file);
	fputs("# For a server on another host: `splitc keygen`, then\n"
	      "# auth: {secret_key: splitc.key, server_key: splits.pub}\n"
	      "# Wait for a server that is lost, instead of ending with status 69:\n"
	      "# link: {on_server_lost: wait}\n",
	      file);
	if (fclose(file) != 0 || err)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the names in it are too long for a config");
	err = sl_conf_parse(&sl_conf_client_schema, m->conf, "init", text, strlen(text), NULL, 0, fail);
	if (err)
		return err;
	sized = *m->conf;
	err = sl_setup_sizes(&sized, fail);
	return err ? err : try_plan(&sized, fail);
}

/* Removes the place in a text that the user does not see from a message: the key says which. */
static enum sl_err key_alone(struct sl_fail *fail)
{
	const struct sl_fail why = *fail;
	int place = 0;

	(void)sscanf(why.text, "init:%*d:%*d: %n", &place);
	return place ? sl_fail_set(fail, why.code, "%s", why.text + place) : why.code;
}

static enum sl_err try_preset(char text[SL_PRESET_TEXT], struct sl_conf_client *conf, const struct sl_preset *preset,
			      bool small, struct sl_fail *fail)
{
	static struct sl_conf_client user;
	static struct making m;
	struct sl_fail why, *counted = preset->counted ? preset->counted : &why;
	enum sl_err err;

	memset(&user, 0, sizeof user);
	if (preset->user)
		user = *preset->user;
	m = (struct making){.preset = preset, .conf = conf, .user = &user, .fail = fail};
	fail->code = SL_OK;
	*counted = (struct sl_fail){.code = SL_OK};
	err = set_all(&m, small, counted);
	if (!err)
		err = write_text(text, &m, fail);
	sl_csv_close(&m.table.table);
	return err ? key_alone(fail) : SL_OK;
}

enum sl_err sl_preset_make(char text[SL_PRESET_TEXT], struct sl_conf_client *conf, const struct sl_preset *preset,
			   struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = try_preset(text, conf, preset, false, fail);

	/* some networks take only small images */
	if (err == SL_ERR_CONFIG && try_preset(text, conf, preset, true, &why) == SL_OK)
		err = SL_OK;
	return err;
}
