/* Tables: CSV files with a header line and a column of labels. */
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/data/csv_file.h"
#include "client/data/parts.h"
#include "client/data/sources.h"
#include "common/base/log.h"

enum { MOST_TEXTS = 1000, MOST_FEATURES = 65536 };

/* What training's file says of a column: a number less its mean and by its deviation, or a feature for each text. */
struct column {
	char *name;
	int at; /* its cell in a row of the file that is encoded */
	bool left_out, number;
	double mean, deviation;
	struct sl_names text; /* sorted */
	int first, n;         /* features */
};

/* What a set's `data` points to. */
struct table {
	struct column *column;  /* [columns] */
	struct sl_names labels; /* in the order of the classes; or the names of numbers or labels */
	int columns, features;
	int *target, targets; /* cells [targets]; one of a class */
	bool given;           /* rows have none, and are to be predicted */
	float *x;             /* [rows, features] */
	union sl_label *y;    /* [rows, targets] */
	struct sl_names name; /* [rows]: file and line */
	uint64_t *key;        /* [rows of training's file], with data.split; NULL: without */
	int64_t rows;
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a table");
}

static enum sl_err empty_cell(const struct sl_csv *s, int64_t row, int column, struct sl_fail *fail)
{
	char more[48] = "";
	int64_t n = 0;

	for (int64_t r = row + 1; r < s->rows; r++)
		n += !*sl_csv_cell(s, r, column);
	if (n)
		snprintf(more, sizeof more, ", and %lld below it", (long long)n);
	return sl_fail_set(fail, SL_ERR_DATA,
			   "%s:%zu: the cell of column \"%.60s\" is empty%s; fill such cells, or name the column in "
			   "data.ignore",
			   s->path, s->line[row], sl_name(&s->header, column), more);
}

/* Of the columns that are read, or of all: `t` NULL. */
static enum sl_err check_cells(const struct sl_csv *s, const struct table *t, struct sl_fail *fail)
{
	const int columns = t ? t->columns : s->columns;

	for (int64_t r = 0; r < s->rows; r++)
		for (int i = 0; i < columns; i++) {
			const int at = t ? t->column[i].at : i;

			if ((!t || !t->column[i].left_out) && !*sl_csv_cell(s, r, at))
				return empty_cell(s, r, at, fail);
		}
	return SL_OK;
}

/* ---- what training's file says ---- */

/* The different texts of a column, sorted: by their numbers where all are some, else by bytes. */
static enum sl_err different(struct sl_names *out, const struct sl_csv *s, int column, struct sl_fail *fail)
{
	struct sl_names all = {0};
	bool fits = true;

	for (int64_t r = 0; r < s->rows && fits; r++)
		fits = sl_names_add(&all, sl_csv_cell(s, r, column));
	fits = fits && sl_names_different(out, &all);
	sl_names_close(&all);
	return fits ? SL_OK : no_memory(fail);
}

/* Means and deviations are those of training's part. */
static bool is_own(const struct table *t, const struct sl_parts *parts, int64_t row)
{
	return !t->key || sl_parts_of(parts, t->key[row]) == SL_PARTS_TRAIN;
}

static enum sl_err learn_column(struct table *t, struct column *c, const struct sl_csv *s, int column,
				const struct sl_parts *parts, struct sl_fail *fail)
{
	double sum = 0, squares = 0, own = 0, x;
	enum sl_err err;

	c->name = strdup(sl_name(&s->header, column));
	if (!c->name)
		return no_memory(fail);
	c->number = true;
	for (int64_t r = 0; r < s->rows && c->number; r++) {
		c->number = sl_text_number(sl_csv_cell(s, r, column), &x);
		sum += c->number && is_own(t, parts, r) ? x : 0;
		own += is_own(t, parts, r);
	}
	c->n = 1;
	if (c->number) {
		c->mean = sum / own;
		for (int64_t r = 0; r < s->rows && sl_text_number(sl_csv_cell(s, r, column), &x); r++)
			squares += is_own(t, parts, r) ? (x - c->mean) * (x - c->mean) : 0;
		c->deviation = sqrt(squares / own);
		c->deviation = c->deviation > 0 ? c->deviation : 1;
		return SL_OK;
	}
	err = different(&c->text, s, column, fail);
	if (!err && c->text.n > MOST_TEXTS)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: column \"%.60s\" has %lld different texts, where %d are the most: name it in "
				   "data.ignore, if it tells nothing",
				   s->path, sl_name(&s->header, column), (long long)c->text.n, MOST_TEXTS);
	c->n = (int)c->text.n;
	return err;
}

/* Whether rows have classes, and not numbers or several labels. */
static bool has_classes(const struct sl_set_spec *spec)
{
	return !spec->task || spec->task->met;
}

/* Of each row: the cell of column data.split.by, which is no feature then, or all its cells. */
static enum sl_err make_keys(struct table *t, const struct sl_csv *s, const struct sl_parts *parts,
			     struct sl_fail *fail)
{
	const int by = parts->by[0] ? sl_csv_find(s, parts->by) : -1;

	if (by < 0 && parts->by[0])
		return sl_csv_lacks(s, "data.split.by", parts->by, fail);
	t->key = calloc((size_t)s->rows, sizeof *t->key);
	if (!t->key)
		return no_memory(fail);
	if (by >= 0)
		t->column[by].left_out = true;
	for (int64_t r = 0; r < s->rows; r++)
		for (int i = by < 0 ? 0 : by; i < (by < 0 ? s->columns : by + 1); i++) {
			const uint64_t one = sl_parts_key(sl_csv_cell(s, r, i), strlen(sl_csv_cell(s, r, i)));
			const uint64_t both[2] = {t->key[r], one};

			t->key[r] = by < 0 ? sl_parts_key(both, sizeof both) : one;
		}
	return SL_OK;
}

static enum sl_err learn_labels(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec,
				struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < spec->nlabels && !has_classes(spec); i++)
		if (!sl_names_add(&t->labels, spec->label[i]))
			return no_memory(fail);
	if (has_classes(spec))
		err = different(&t->labels, s, t->target[0], fail);
	if (!err && has_classes(spec) && t->labels.n < 2)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s: all rows have the same label; a classifier needs two classes or more", s->path);
	return err;
}

static enum sl_err learn(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = sl_csv_targets(s, spec, &t->target, fail);

	if (err)
		return err;
	t->columns = s->columns;
	t->column = calloc((size_t)s->columns, sizeof *t->column);
	if (!t->column)
		return no_memory(fail);
	for (int i = 0; i < spec->nlabels; i++)
		t->column[t->target[i]].left_out = true;
	for (int i = 0; i < spec->nignore; i++) {
		const int column = sl_csv_find(s, spec->ignore[i]);

		if (column < 0)
			return sl_csv_lacks(s, "data.ignore", spec->ignore[i], fail);
		t->column[column].left_out = true;
	}
	if (spec->parts)
		err = make_keys(t, s, spec->parts, fail);
	for (int i = 0; i < t->columns && !err; i++) {
		struct column *c = &t->column[i];

		c->at = i;
		if (c->left_out)
			continue;
		err = learn_column(t, c, s, i, spec->parts, fail);
		c->first = t->features;
		t->features += c->n;
	}
	if (!err)
		err = learn_labels(t, s, spec, fail);
	if (!err && (t->features < 1 || t->features > MOST_FEATURES))
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: the columns make %d features, where 1 to %d may be", s->path,
				  t->features, MOST_FEATURES);
	return err;
}

/* ---- the same, between training and whoever predicts ---- */

static void describe(const struct sl_set *set, json_t *about)
{
	const struct table *t = set->data;
	json_t *list = json_array();

	for (int i = 0; i < t->columns; i++) {
		const struct column *c = &t->column[i];
		json_t *texts = c->left_out || c->number ? NULL : json_array(), *one = NULL;

		for (int64_t k = 0; texts && k < c->text.n; k++)
			json_array_append_new(texts, json_string(sl_name(&c->text, k)));
		if (texts)
			one = json_pack("{s:s, s:o}", "name", c->name, "texts", texts);
		else if (!c->left_out)
			one = json_pack("{s:s, s:f, s:f}", "name", c->name, "mean", c->mean, "deviation", c->deviation);
		if (one)
			json_array_append_new(list, one);
	}
	json_object_set_new(about, "columns", list);
}

static enum sl_err recall_column(struct column *c, const json_t *from, struct sl_fail *fail)
{
	const json_t *texts = json_object_get(from, "texts"), *text;
	const char *name = json_string_value(json_object_get(from, "name"));
	size_t i;

	c->name = name ? strdup(name) : NULL;
	c->mean = json_number_value(json_object_get(from, "mean"));
	c->deviation = json_number_value(json_object_get(from, "deviation"));
	c->number = !texts;
	c->n = texts ? (int)json_array_size(texts) : 1;
	if (!c->name || (c->number && !(c->deviation > 0)) || c->n > MOST_TEXTS)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "the model's file says of a column neither mean and deviation nor its texts");
	json_array_foreach(
		(json_t *)texts, i,
		text) if (!json_is_string(text) ||
			  !sl_names_add(&c->text,
					json_string_value(text))) return sl_fail_set(fail, SL_ERR_DATA,
										     "column \"%.60s\" of the model's "
										     "file has no texts",
										     name);
	return SL_OK;
}

/* What describe has said. */
static enum sl_err recall(struct table *t, const json_t *about, struct sl_fail *fail)
{
	const json_t *list = json_object_get(about, "columns");
	const size_t n = json_array_size(list);
	enum sl_err err = SL_OK;

	if (!n || n > MOST_FEATURES)
		return sl_fail_set(fail, SL_ERR_DATA, "the model's file says nothing of the columns of a table");
	t->column = calloc(n, sizeof *t->column);
	if (!t->column)
		return no_memory(fail);
	t->columns = (int)n;
	for (int i = 0; i < t->columns && !err; i++) {
		err = recall_column(&t->column[i], json_array_get(list, (size_t)i), fail);
		t->column[i].first = t->features;
		t->features += t->column[i].n;
	}
	if (!err && t->features > MOST_FEATURES)
		err = sl_fail_set(fail, SL_ERR_DATA, "the model's file has %d features, where %d are the most",
				  t->features, MOST_FEATURES);
	return err;
}

/* Columns of a file that is to be predicted go by their names: others may stand beside them, in any order. */
static enum sl_err find_columns(struct table *t, const struct sl_csv *s, struct sl_fail *fail)
{
	for (int i = 0; i < t->columns; i++) {
		struct column *c = &t->column[i];

		if (c->left_out)
			continue;
		c->at = sl_csv_find(s, c->name);
		if (c->at < 0)
			return sl_csv_lacks(s, "training has it", c->name, fail);
	}
	return check_cells(s, t, fail);
}

/* ---- rows ---- */

static int place_in(const struct sl_names *list, const char *text)
{
	for (int64_t i = 0; i < list->n; i++)
		if (strcmp(sl_name(list, i), text) == 0)
			return (int)i;
	return -1;
}

static enum sl_err unknown(const struct sl_csv *s, int64_t row, int column, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: column \"%.60s\": \"%.60s\" does not occur in training", s->path,
			   s->line[row], sl_name(&s->header, column), sl_csv_cell(s, row, column));
}

/* The row's class, numbers or labels. */
static enum sl_err encode_target(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, int64_t from,
				 union sl_label *y, struct sl_fail *fail)
{
	if (t->given)
		return SL_OK;
	if (!has_classes(spec))
		return sl_csv_target(s, spec, from, t->target, y, fail);
	y->label = place_in(&t->labels, sl_csv_cell(s, from, t->target[0]));
	return y->label < 0 ? unknown(s, from, t->target[0], fail) : SL_OK;
}

static enum sl_err encode_row(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, int64_t from,
			      int64_t to, struct sl_fail *fail)
{
	float *x = t->x + to * t->features;
	enum sl_err err = encode_target(t, s, spec, from, t->y + to * t->targets, fail);

	if (err)
		return err;
	for (int i = 0; i < t->columns; i++) {
		const struct column *c = &t->column[i];
		double value = 0;
		int place = 0;

		if (c->left_out)
			continue;
		if (!c->number)
			place = place_in(&c->text, sl_csv_cell(s, from, c->at));
		else if (!sl_text_number(sl_csv_cell(s, from, c->at), &value))
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s:%zu: column \"%.60s\": \"%.60s\" is no number, as all of training's are",
					   s->path, s->line[from], c->name, sl_csv_cell(s, from, c->at));
		if (place < 0)
			return unknown(s, from, c->at, fail);
		x[c->first + place] = c->number ? (float)((value - c->mean) / c->deviation) : 1;
	}
	return SL_OK;
}

/* Behind the rows that are there. */
static enum sl_err encode(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, int64_t most,
			  struct sl_fail *fail)
{
	const int64_t more = most && most < s->rows ? most : s->rows, all = t->rows + more;
	float *x = realloc(t->x, (size_t)all * (size_t)t->features * sizeof *x);
	union sl_label *y;
	enum sl_err err = SL_OK;

	t->x = x ? x : t->x;
	y = realloc(t->y, (size_t)(all * t->targets) * sizeof *y);
	t->y = y ? y : t->y;
	if (!x || !y)
		return no_memory(fail);
	memset(x + t->rows * t->features, 0, (size_t)more * (size_t)t->features * sizeof *x);
	memset(y + t->rows * t->targets, 0, (size_t)(more * t->targets) * sizeof *y);
	for (int64_t r = 0; r < more && !err; r++, t->rows++) {
		const int64_t from = sl_set_spread(r, more, s->rows);
		char name[PATH_MAX + 32];

		snprintf(name, sizeof name, "%s:%zu", s->path, s->line[from]);
		err = sl_names_add(&t->name, name) ? encode_row(t, s, spec, from, t->rows, fail) : no_memory(fail);
	}
	return err;
}

/* A few cells such as "NA" make words of a column of numbers, with a feature for each number. */
static void warn_of_words(const struct table *t, const struct sl_csv *s)
{
	for (int i = 0; i < t->columns; i++) {
		const struct column *c = &t->column[i];
		int64_t numbers = 0, word = 0;
		double x;

		for (int64_t r = 0; r < s->rows && !c->left_out && !c->number; r++)
			if (sl_text_number(sl_csv_cell(s, r, c->at), &x))
				numbers++;
			else
				word = r;
		if (2 * numbers > s->rows)
			sl_log(SL_LOG_WARN, "column-of-words",
			       "%s:%zu: column \"%.60s\": \"%.60s\" is no number, but %lld of %lld cells are: the "
			       "column is read as words, with %d features; give a number here, or leave the row out",
			       s->path, s->line[word], c->name, sl_csv_cell(s, word, c->at), (long long)numbers,
			       (long long)s->rows, c->n);
	}
}

/* ---- the source ---- */

static void table_close(struct table *t)
{
	if (!t)
		return;
	for (int i = 0; i < t->columns && t->column; i++) {
		sl_names_close(&t->column[i].text);
		free(t->column[i].name);
	}
	free(t->column);
	sl_names_close(&t->labels);
	free(t->target);
	sl_names_close(&t->name);
	free(t->x);
	free(t->y);
	free(t->key);
	free(t);
}

/* Both of the same columns, in the same order. */
static enum sl_err same_header(const struct sl_csv *a, const struct sl_csv *b, struct sl_fail *fail)
{
	for (int i = 0; i < a->columns && i < b->columns; i++)
		if (strcmp(sl_name(&a->header, i), sl_name(&b->header, i)) != 0)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s:1: column %d is \"%.60s\", where train.csv has \"%.60s\"", b->path,
					   i + 1, sl_name(&b->header, i), sl_name(&a->header, i));
	if (a->columns != b->columns)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %d columns, where train.csv has %d", b->path, b->columns,
				   a->columns);
	return SL_OK;
}

/* Files of any names, which have no labels. */
static enum sl_err fill_given(struct table *t, struct sl_csv *sheet, const struct sl_set_spec *spec,
			      struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < spec->ngiven && !err; i++) {
		if (snprintf(sheet->path, sizeof sheet->path, "%s", spec->given[i]) >= PATH_MAX)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", spec->given[i]);
		err = sl_csv_read(sheet, fail);
		if (!err)
			err = find_columns(t, sheet, fail);
		if (!err)
			err = encode(t, sheet, spec, 0, fail);
		sl_csv_close(sheet);
		*sheet = (struct sl_csv){.rows = 0};
	}
	return err;
}

static enum sl_err fill_table(struct table *t, struct sl_csv sheet[2], const struct sl_set_spec *spec,
			      struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";
	enum sl_err err = SL_OK;

	t->targets = spec->nlabels;
	t->given = spec->given != NULL;
	if (spec->about) {
		err = recall(t, spec->about, fail);
		return err ? err : fill_given(t, &sheet[1], spec, fail);
	}
	err = sl_csv_name(&sheet[0], dir, "train.csv", NULL, fail);
	if (!err)
		err = sl_csv_read(&sheet[0], fail);
	if (!err)
		err = check_cells(&sheet[0], NULL, fail);
	if (!err)
		err = learn(t, &sheet[0], spec, fail);
	if (!err && spec->given)
		return fill_given(t, &sheet[1], spec, fail);
	if (!err && spec->split == SL_SPLIT_TRAIN && (!spec->parts || spec->parts->own == SL_PARTS_TRAIN))
		warn_of_words(t, &sheet[0]);
	if (err || spec->split == SL_SPLIT_TRAIN)
		return err ? err : encode(t, &sheet[0], spec, spec->max_samples, fail);
	err = sl_csv_name(&sheet[1], dir, "val.csv", "test.csv", fail);
	if (!err)
		err = sl_csv_read(&sheet[1], fail);
	if (!err)
		err = check_cells(&sheet[1], NULL, fail);
	if (!err)
		err = same_header(&sheet[0], &sheet[1], fail);
	return err ? err : encode(t, &sheet[1], spec, spec->max_samples, fail);
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct table *t = calloc(1, sizeof *t);
	struct sl_csv *sheet = calloc(2, sizeof *sheet);
	enum sl_err err = t && sheet ? SL_OK : no_memory(fail);

	if (!err && spec->files)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "a table is train.csv and val.csv (or test.csv)");
	if (!err)
		err = fill_table(t, sheet, spec, fail);
	for (int i = 0; i < 2 && sheet; i++)
		sl_csv_close(&sheet[i]);
	free(sheet);
	if (err) {
		table_close(t);
		return err;
	}
	*out = (struct sl_set){
		.source = self,
		.data = t,
		.count = t->rows,
		.classes = t->given || !has_classes(spec) ? 0 : (int)t->labels.n,
		.field = {{"row", SL_F32, 1, {t->features}}, {"label", SL_I32, 0, {0}}},
	};
	if (!has_classes(spec))
		out->field[SL_FIELD_TARGET] = sl_csv_target_type(spec);
	return SL_OK;
}

static uint64_t fingerprint(const struct sl_set *set)
{
	const struct table *t = set->data;
	uint64_t hash = XXH3_64bits(t->x, (size_t)t->rows * (size_t)t->features * sizeof *t->x);

	for (int i = 0; i < t->columns; i++) /* rows are less the mean and by the deviation */
		if (!t->column[i].left_out) {
			hash = XXH3_64bits_withSeed(&t->column[i].mean, sizeof(double), hash);
			hash = XXH3_64bits_withSeed(&t->column[i].deviation, sizeof(double), hash);
		}
	hash = XXH3_64bits_withSeed(t->labels.text, t->labels.bytes, hash);
	return XXH3_64bits_withSeed(t->y, (size_t)(t->rows * t->targets) * sizeof *t->y, hash);
}

static bool key(const struct sl_set *set, int64_t index, uint64_t *out)
{
	*out = ((const struct table *)set->data)->key[index];
	return true;
}

static void close_set(struct sl_set *set)
{
	table_close(set->data);
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct table *t = set->data;

	out[SL_FIELD_INPUT] = (struct sl_value){.data = t->x + index * t->features, .dim = {t->features}};
	out[SL_FIELD_TARGET] = (struct sl_value){.data = t->y + index * t->targets, .dim = {t->targets}};
	return SL_OK;
}

static const float *targets(const struct sl_set *set, int64_t index)
{
	const struct table *t = set->data;

	return &t->y[index * t->targets].target;
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct table *t = set->data;

	snprintf(out, size, "%s", sl_name(&t->name, index));
	return out;
}

static const char *class_name(const struct sl_set *set, int label)
{
	const struct table *t = set->data;

	return sl_name(&t->labels, label);
}

/* Tables: train.csv, and val.csv or test.csv, in `dir`. The first line names the columns; the column `label` holds the
 * classes, which count from 0 in the order of their numbers, or else of their bytes. A column of numbers becomes one
 * feature, less its mean and by its deviation in training; any other a feature for each of its texts there, 0 or 1. The
 * set is in memory. DATA: an empty cell, too few, a text that training lacks; *fail names file, line and column. */
const struct sl_source sl_source_csv = {.name = "csv",
					.open = open_set,
					.sample = sample,
					.targets = targets,
					.close = close_set,
					.sample_name = sample_name,
					.class_name = class_name,
					.key = key,
					.describe = describe,
					.fingerprint = fingerprint};
