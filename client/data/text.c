/* Texts as rows of token ids: the tasks of GLUE, and the user's own files of TSV, CSV and JSON Lines. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/data/centre.h"
#include "client/data/csv_column.h"
#include "client/data/parts.h"
#include "client/data/sources.h"
#include "client/data/text_files.h"
#include "client/text/glue.h"
#include "client/text/token_set.h"
#include "common/base/folder.h"
#include "common/base/log.h"

enum { MOST_CLASSES = 1000 };

/* What a set's `data` points to. */
struct texts {
	struct sl_token_set **part; /* [parts], one for each file */
	int64_t *end;               /* [parts], samples of this part and all before it */
	char **path;                /* [parts] */
	int parts;
	bool given;             /* texts that are to be predicted */
	struct sl_names label;  /* of own files: names of the classes, or of the target's numbers or labels */
	struct sl_names by;     /* of own files: each row's cell in column data.split.by; empty: without */
	const char **name;      /* the names in `label`, as sl_labels wants them */
	union sl_label *target; /* of own files: [samples, targets], several numbers or labels; NULL: a row has one */
	int targets;            /* named in `label` */
	struct sl_labels value; /* how a label is read; its names are those of the task, or `name` */
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a set of texts");
}

static void texts_close(struct texts *t)
{
	if (!t)
		return;
	for (int i = 0; i < t->parts; i++) {
		sl_token_set_close(t->part ? t->part[i] : NULL);
		free(t->path ? t->path[i] : NULL);
	}
	free(t->part);
	free(t->path);
	free(t->end);
	sl_names_close(&t->label);
	sl_names_close(&t->by);
	free(t->target);
	free(t->name);
	free(t);
}

/* The source's task of GLUE; NULL: the source of own files. */
static const struct sl_glue_task *task_of(const struct sl_source *self)
{
	const struct sl_glue_task *task = sl_glue_tasks;

	while (task->name && strcmp(task->name, self->name) != 0)
		task++;
	return task->name ? task : NULL;
}

/* ---- own files ---- */

/* Adds the cell to the list `all`. */
static enum sl_err add_key(void *all, const char *path, const struct sl_record *row, struct sl_fail *fail)
{
	enum sl_err err = sl_csv_check(path, row->line, row->a, fail);
	char *text = err ? NULL : strndup((const char *)row->a.data, row->a.len);

	if (!err && (!text || !sl_names_add(all, text)))
		err = no_memory(fail);
	free(text);
	return err;
}

static enum sl_err add_label(void *all, const char *path, const struct sl_record *row, struct sl_fail *fail)
{
	const struct sl_names *labels = all;
	enum sl_err err = row->a.len ? add_key(all, path, row, fail)
				     : sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: an empty label", path, row->line);
	const char *text = err ? "" : sl_name(labels, labels->n - 1);

	if (!err && sl_csv_lacks_label(text))
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s:%zu: the label is missing: %s; leave such rows out, or rename the class", path,
				  row->line, text);
	return err;
}

/* Reads the column data.split.by of all rows. */
static enum sl_err read_keys(struct texts *t, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < t->parts && !err; i++)
		err = sl_text_column(t->path[i], spec->parts->by, add_key, &t->by, fail);
	if (!err && t->by.n != t->end[t->parts - 1])
		err = sl_fail_at(fail, "data.split.by", SL_ERR_DATA,
				 "%s: column \"%.60s\" has %lld values for %lld texts", t->path[0], spec->parts->by,
				 (long long)t->by.n, (long long)t->end[t->parts - 1]);
	return err ? err : sl_csv_check_keys(t->path[0], &t->by, fail);
}

/* Whether a row has several numbers or labels. The set of tokens keeps a single one. */
static bool has_several(const struct sl_set_spec *spec)
{
	return spec->task && spec->task->each && (spec->nlabels > 1 || spec->task->kind == SL_LEARN_LABELS);
}

/* Where add_target puts the next row's number or label. */
struct cells {
	const struct sl_set_spec *spec;
	const char *column;
	double centre;
	union sl_label *at, *end;
};

static enum sl_err add_target(void *arg, const char *path, const struct sl_record *row, struct sl_fail *fail)
{
	struct cells *c = arg;
	const struct sl_labels number = {.regression = true, .centre = c->centre};
	enum sl_err err = c->at < c->end ? sl_label_read(&number, row->a, c->at, fail)
					 : sl_fail_set(fail, SL_ERR_DATA, "more rows than texts");

	if (!err && c->spec->task->kind == SL_LEARN_LABELS && c->at->target != 0 && c->at->target != 1)
		err = sl_fail_set(fail, SL_ERR_DATA, "\"%g\" is no label: 1, the row has it, or 0",
				  (double)c->at->target);
	c->at += c->spec->nlabels;
	return err ? sl_fail_set(fail, err, "%s:%zu: column \"%.60s\": %s", path, row->line, c->column, fail->text)
		   : SL_OK;
}

/* Reads the numbers or labels of all rows. Texts to predict have zeros. */
static enum sl_err read_targets(struct texts *t, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const int64_t all = t->end[t->parts - 1] * spec->nlabels;
	enum sl_err err = SL_OK;

	t->targets = spec->nlabels;
	t->target = calloc((size_t)all, sizeof *t->target);
	if (!t->target)
		return no_memory(fail);
	for (int k = 0; k < t->targets && !err; k++) {
		struct cells c = {spec, spec->label[k], spec->centre ? spec->centre[k] : 0, t->target + k,
				  t->target + all};

		if (!sl_names_add(&t->label, spec->label[k]))
			return no_memory(fail);
		for (int i = 0; i < t->parts && !spec->given && !err; i++)
			err = sl_text_column(t->path[i], spec->label[k], add_target, &c, fail);
	}
	return err;
}

static enum sl_err name_classes(struct texts *t, struct sl_names *all, const char *path, const char *column,
				struct sl_fail *fail)
{
	if (!sl_names_different(&t->label, all))
		return no_memory(fail);
	if (t->label.n < 2 || t->label.n > MOST_CLASSES)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: column \"%.60s\" has %lld different labels: 2 to %d are classes", path, column,
				   (long long)t->label.n, MOST_CLASSES);
	t->name = calloc((size_t)t->label.n + 1, sizeof *t->name);
	if (!t->name)
		return no_memory(fail);
	for (int64_t i = 0; i < t->label.n; i++)
		t->name[i] = sl_name(&t->label, i);
	t->value = (struct sl_labels){.name = t->name, .classes = (int)t->label.n};
	return sl_csv_check_alike(path, "labels", &t->label, fail);
}

static enum sl_err add_number(void *centre, const char *path, const struct sl_record *row, struct sl_fail *fail)
{
	double x;

	if (sl_label_number(row->a, &x))
		sl_centre_add(centre, x);
	return SL_OK;
}

/* Chooses the centre of each column of numbers, from the training files. */
static enum sl_err choose_centre(const struct sl_set_spec *spec, struct sl_fail *fail)
{
	char path[PATH_MAX];
	enum sl_err err = SL_OK;

	for (int k = 0; k < spec->nlabels && !err; k++) {
		struct sl_centre centre = {.any = false};

		err = sl_text_training(path, spec, spec->label[k], add_number, &centre, fail);
		spec->chosen[k] = sl_centre_of(&centre);
	}
	return err;
}

/* Classes are those of the training files, whichever split is opened. */
static enum sl_err learn_classes(struct texts *t, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	struct sl_names all = {0};
	char path[PATH_MAX];
	enum sl_err err = SL_OK;

	t->value.regression = spec->task && !spec->task->met;
	if (t->value.regression && !spec->unlabelled && spec->chosen)
		err = choose_centre(spec, fail);
	if (t->value.regression && !has_several(spec) && spec->centre)
		t->value.centre = spec->centre[0];
	if (spec->unlabelled || spec->given || t->value.regression)
		return err;
	err = sl_text_training(path, spec, spec->label[0], add_label, &all, fail);
	if (!err)
		err = name_classes(t, &all, path, spec->label[0], fail);
	sl_names_close(&all);
	return err;
}

/* ---- own files and tasks of GLUE ---- */

/* How to read a file that the user named: by its ending, else as a text in each line, or a pair with a tab between. */
static enum sl_err choose_given(struct sl_records_spec *out, char path[PATH_MAX], const struct sl_glue_task *task,
				const struct sl_set_spec *spec, int i, struct sl_fail *fail)
{
	const char *b = task ? task->b : spec->ncolumns > 1 ? spec->column[1] : NULL;

	if (snprintf(path, PATH_MAX, "%s", spec->given[i]) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", spec->given[i]);
	if (sl_records_ends(path, ".json") || sl_records_ends(path, ".ndjson"))
		return sl_fail_set(fail, SL_ERR_DATA, "%s: if it has an object in each line, name it .jsonl", path);
	*out = (struct sl_records_spec){.path = path,
					.format = !spec->rows        ? sl_records_format_of(path)
						  : spec->rows->json ? SL_RECORDS_JSONL
								     : SL_RECORDS_LINES,
					.above = spec->rows ? spec->rows->above : 0,
					.header = true,
					.exact = !task,
					.b.number = -1,
					.label = {NULL, -1}};
	if (out->format < SL_RECORDS_FORMAT_COUNT && out->format != SL_RECORDS_LINES) {
		out->a.name = task ? task->a : spec->column[0];
		out->b.name = b;
		return SL_OK;
	}
	out->format = b ? SL_RECORDS_TSV : SL_RECORDS_LINES;
	out->header = false;
	out->checks_form = !spec->rows;
	out->named[0] = task ? task->a : spec->column[0];
	out->named[1] = b;
	if (strcmp(path, "-") == 0)
		sl_log(SL_LOG_INFO, "form", "standard input: %s on each line",
		       b ? "two texts with a tab between" : "a text");
	out->b.number = b ? 1 : -1;
	return SL_OK;
}

/* How to read the file of part i. */
static enum sl_err choose(struct sl_records_spec *out, char path[PATH_MAX], const struct sl_glue_task *task,
			  const struct sl_set_spec *spec, int i, struct sl_fail *fail)
{
	enum sl_err err;

	if (spec->given)
		return choose_given(out, path, task, spec, i, fail);
	if (task)
		return sl_glue_records(task, spec->split == SL_SPLIT_TRAIN ? SL_GLUE_TRAIN : SL_GLUE_DEV,
				       spec->dir ? spec->dir : ".", path, out, fail);
	err = sl_text_path(path, spec, spec->split, i, fail);
	if (!err)
		err = sl_text_records(out, path, spec->unlabelled, fail);
	if (err || out->format == SL_RECORDS_LINES)
		return err;
	out->a.name = spec->column[0];
	out->b.name = spec->ncolumns > 1 ? spec->column[1] : NULL;
	out->label.name = spec->unlabelled || has_several(spec) ? NULL : spec->label[0];
	return SL_OK;
}

/* Tokens have type 0 up to the first mark, and 1 after it. DATA: the tokenizer's first text ends elsewhere. */
static enum sl_err check_types(const struct sl_token_set *set, const struct sl_set_spec *spec, const char *path,
			       struct sl_fail *fail)
{
	const int64_t count = sl_token_set_count(set);
	int32_t *id = malloc((size_t)sl_token_set_longest(set) * sizeof *id + 1);
	enum sl_err err = id ? SL_OK : no_memory(fail);

	for (int64_t i = 0; i < count && !err; i++) {
		const struct sl_token_sample row = sl_token_set_sample(set, i, id);
		int32_t first = 0;

		while (first < row.n && id[first] != spec->mark)
			first++;
		if (first + 1 < row.first || (row.first < row.n && first + 1 > row.first))
			err = sl_fail_set(
				fail, SL_ERR_DATA, "%s: text %lld %s", path, (long long)i + 1,
				first + 1 < row.first
					? "spells the special token that ends a text, which BERT takes for the "
					  "beginning of a second one"
					: "does not end with the network's [SEP] (sep_token_id): give its tokenizer");
	}
	free(id);
	return err;
}

_Static_assert((int)SL_TOKEN_SET_PARTS == SL_PARTS_COUNT, "they are the same");

static int part_of_text(const void *parts, uint64_t key)
{
	return sl_parts_of(parts, key);
}

static enum sl_err read_part(struct texts *t, int i, const struct sl_glue_task *task, const struct sl_set_spec *spec,
			     const struct sl_tokenizer *tokenizer, struct sl_fail *fail)
{
	struct sl_token_set_spec of = {
		.tokenizer = tokenizer,
		.labels = t->value,
		.max_length = spec->max_tokens,
		.next = spec->next,
		.cache = spec->cache,
		.text = spec->rows ? spec->rows->text : (struct sl_bytes){NULL, 0},
	};
	char path[PATH_MAX];
	int least;
	enum sl_err err = choose(&of.records, path, task, spec, i, fail);

	if (err)
		return err;
	if (spec->parts && spec->next.pack == SL_TOKEN_PACK_JOIN)
		of.parts = (struct sl_token_parts){part_of_text, spec->parts,
						   sl_parts_key(spec->parts, offsetof(struct sl_parts, by))};
	least = sl_tokenizer_specials(tokenizer, !spec->next.on && (of.records.b.name || of.records.b.number >= 0));
	if (spec->max_tokens <= least)
		return sl_fail_at(fail, "data.max_length", SL_ERR_CONFIG,
				  "rows of %d tokens have no room for text: the tokenizer adds %d special ones",
				  spec->max_tokens, least);
	err = sl_token_set_open(&t->part[i], &of, fail);
	if (!err && spec->types)
		err = check_types(t->part[i], spec, path, fail);
	if (err)
		return err;
	t->path[i] = strdup(path);
	if (!t->path[i])
		return no_memory(fail);
	t->end[i] = (i ? t->end[i - 1] : 0) + sl_token_set_count(t->part[i]);
	if (t->end[i] > SL_SET_MAX_SAMPLES)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d rows in all files", path, SL_SET_MAX_SAMPLES);
	return SL_OK;
}

static enum sl_err read_all(struct texts *t, const struct sl_glue_task *task, const struct sl_set_spec *spec,
			    const struct sl_tokenizer *tokenizer, struct sl_fail *fail)
{
	enum sl_err err = task ? SL_OK : learn_classes(t, spec, fail);

	if (err)
		return err;
	if (task)
		t->value = task->labels;
	t->given = spec->given != NULL;
	t->parts = spec->given ? spec->ngiven ?: 1 : task ? 1 : sl_text_files(spec, spec->split);
	t->part = calloc((size_t)t->parts, sizeof *t->part);
	t->end = calloc((size_t)t->parts, sizeof *t->end);
	t->path = calloc((size_t)t->parts, sizeof *t->path);
	if (!t->part || !t->end || !t->path)
		return no_memory(fail);
	for (int i = 0; i < t->parts && !err && !(spec->given && !spec->ngiven); i++)
		err = read_part(t, i, task, spec, tokenizer, fail);
	if (!err && spec->parts && spec->parts->by[0])
		err = read_keys(t, spec, fail);
	if (!err && !task && has_several(spec))
		err = read_targets(t, spec, fail);
	return err;
}

static void describe(struct sl_set *out, const struct sl_source *self, struct texts *t, const struct sl_set_spec *spec,
		     const struct sl_tokenizer *tokenizer)
{
	const struct sl_glue_task *task = task_of(self);
	const struct sl_learn_task *of = &sl_learn_tasks[t->value.regression ? SL_LEARN_NUMBER : SL_LEARN_CLASSES];

	*out = (struct sl_set){
		.source = self,
		.data = t,
		.count = t->end[t->parts - 1],
		.classes = t->given || spec->next.on ? 0 : t->value.classes,
		.vocab = sl_tokenizer_size(tokenizer),
		.tokenizer = sl_tokenizer_hash(tokenizer),
		.next = spec->next.on,
		.pad = sl_tokenizer_pad(tokenizer) < 0 ? 0 : sl_tokenizer_pad(tokenizer),
		.part = t->path[0] ? sl_set_part_of(t->path[0]) : NULL,
		.metrics = t->target ? NULL : sl_glue_metrics(task, !of->met),
		.mask = {.mask = sl_tokenizer_mask(tokenizer)},
		.field = {{"tokens", SL_I32, 1, {0}}, {of->target, of->dtype, 0, {0}}},
	};
	if (t->target)
		out->field[SL_FIELD_TARGET] = sl_csv_target_type(spec);
	out->mask.n_special = sl_tokenizer_special_ids(tokenizer, out->mask.special, SL_MASK_SPECIALS);
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	const struct sl_glue_task *task = task_of(self);
	struct sl_tokenizer *own = NULL;
	const struct sl_tokenizer *tokenizer = spec->opened;
	struct sl_fail why = {0};
	struct texts *t;
	enum sl_err err = SL_OK;

	if (task && task->b && spec->next.on)
		return sl_fail_at(fail, "data.kind", SL_ERR_CONFIG,
				  "%s has pairs of texts, and a causal language model reads one: data.kind: text has "
				  "prompts with completions",
				  self->name);
	if (task && spec->files)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s has files of fixed names", self->name);
	if (!task && (spec->ncolumns < 1 || spec->ncolumns > 2))
		return sl_fail_at(fail, "data.columns", SL_ERR_CONFIG, "one column of text, or two of pairs");
	if (!tokenizer)
		err = sl_tokenizer_open(&own, spec->tokenizer ? spec->tokenizer : "", &why);
	if (err)
		return sl_fail_at(fail, "data.tokenizer", err, "%s", why.text);
	tokenizer = own ? own : tokenizer;
	t = calloc(1, sizeof *t);
	err = t ? read_all(t, task, spec, tokenizer, fail) : no_memory(fail);
	if (err)
		texts_close(t);
	else
		describe(out, self, t, spec, tokenizer);
	sl_tokenizer_close(own);
	return err;
}

static void close_set(struct sl_set *set)
{
	texts_close(set->data);
}

/* The part that has sample *index; *index becomes the sample's number in it. */
static int part_of(const struct texts *t, int64_t *index)
{
	int i = 0;

	while (*index >= t->end[i])
		i++;
	*index -= i ? t->end[i - 1] : 0;
	return i;
}

static int64_t extent(const struct sl_set *set, int64_t index)
{
	const struct texts *t = set->data;
	const struct sl_token_set *part = t->part[part_of(t, &index)];

	return sl_token_set_length(part, index);
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct texts *t = set->data;
	union sl_label *several = t->target ? t->target + index * t->targets : NULL;
	const struct sl_token_set *part = t->part[part_of(t, &index)];
	const int64_t n = sl_token_set_length(part, index);
	struct sl_token_sample read;
	union sl_label *label;
	int32_t *id;

	if (sl_room_need(room, sizeof *label + (size_t)n * sizeof *id))
		return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a row of %lld tokens", (long long)n);
	label = (union sl_label *)(void *)room->data;
	id = (int32_t *)(void *)(label + 1);
	read = sl_token_set_sample(part, index, id);
	*label = set->next ? (union sl_label){.label = read.first} : read.value;
	out[SL_FIELD_INPUT] = (struct sl_value){.data = id, .dim = {n}};
	out[SL_FIELD_TARGET] = several    ? (struct sl_value){.data = several, .dim = {t->targets}}
			       : t->given ? sl_value_unlabelled()
					  : (struct sl_value){.data = label};
	return SL_OK;
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct texts *t = set->data;
	const char *path = t->path[part_of(t, &index)];

	snprintf(out, size, "%s:%lld", path, (long long)index + 1);
	return out;
}

static const char *class_name(const struct sl_set *set, int label)
{
	const struct texts *t = set->data;

	return t->target ? sl_name(&t->label, label) : t->value.regression ? NULL : t->value.name[label];
}

static const float *targets(const struct sl_set *set, int64_t index)
{
	const struct texts *t = set->data;
	const union sl_label *several = t->target ? &t->target[index * t->targets] : NULL;
	const struct sl_token_set *part = t->part[part_of(t, &index)];

	return several ? &several->target : &sl_token_set_value(part, index)->target;
}

static uint64_t key(const struct sl_set *set, int64_t index)
{
	const struct texts *t = set->data;
	const char *by = t->by.n ? sl_name(&t->by, index) : NULL;
	const struct sl_token_set *part = t->part[part_of(t, &index)];

	return by ? sl_parts_key(by, strlen(by)) : sl_token_set_key(part, index);
}

static uint64_t fingerprint(const struct sl_set *set)
{
	const struct texts *t = set->data;
	uint64_t hash = XXH3_64bits_withSeed(t->label.text, t->label.bytes, 0);

	for (int i = 0; i < t->parts; i++)
		hash = sl_token_set_hash(t->part[i], hash);
	if (t->target)
		hash = XXH3_64bits_withSeed(t->target, (size_t)(t->end[t->parts - 1] * t->targets) * sizeof *t->target,
					    hash);
	return hash;
}

#define SOURCE(id, of)                                                       \
	const struct sl_source sl_source_##id = {.name = of,                 \
						 .open = open_set,           \
						 .sample = sample,           \
						 .close = close_set,         \
						 .class_name = class_name,   \
						 .sample_name = sample_name, \
						 .extent = extent,           \
						 .targets = targets,         \
						 .key = key,                 \
						 .fingerprint = fingerprint}

/* Texts as rows of token ids, special tokens included, cut at max_tokens. `cache` keeps them beside the text. Tasks
 * of GLUE: train.tsv, and dev.tsv for the other split, in the task's folder or the one above it. Own texts:
 * train_files and `files`, or a split's usual file that ends in .tsv, .csv or .jsonl. The first line, or each
 * object, names the columns. `column` has one or two texts; `label` a class, a number, or several. Classes are in
 * the order of their values if all are numbers, else of their bytes. DATA: an empty text, one that is not UTF-8, too
 * few or too many columns, a label that training lacks; *fail names file and line. */
SOURCE(text, "text");
/* Tasks of GLUE, named as in sl_glue_tasks. */
SOURCE(cola, "cola");
SOURCE(sst2, "sst2");
SOURCE(mrpc, "mrpc");
SOURCE(qqp, "qqp");
SOURCE(mnli, "mnli");
SOURCE(mnli_mm, "mnli-mm");
SOURCE(qnli, "qnli");
SOURCE(rte, "rte");
SOURCE(stsb, "stsb");
SOURCE(wnli, "wnli");
