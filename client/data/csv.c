/* Tables: CSV files with a header line and a column of labels. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/data/name_list.h"
#include "client/data/sources.h"
#include "client/text/records.h"

enum { MOST_TEXTS = 1000, MOST_FEATURES = 65536 };

/* A file as it is. */
struct sheet {
	char path[PATH_MAX];
	struct sl_names header, cell; /* cell: [rows · columns] */
	size_t *line;                 /* [rows] */
	int64_t rows, cap;
	int columns;
};

/* What training's file says of a column: a number less its mean and by its deviation, or a feature for each text. */
struct column {
	bool left_out, number;
	double mean, deviation;
	struct sl_names text; /* sorted */
	int first, n;         /* features */
};

/* What a set's `data` points to. */
struct table {
	struct column *column;  /* [columns] */
	struct sl_names labels; /* in the order of the classes */
	int columns, label, features;
	float *x;   /* [rows, features] */
	int32_t *y; /* [rows] */
	int64_t rows;
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a table");
}

static const char *cell(const struct sheet *s, int64_t row, int column)
{
	return sl_name(&s->cell, row * s->columns + column);
}

static void sheet_close(struct sheet *s)
{
	sl_names_close(&s->header);
	sl_names_close(&s->cell);
	free(s->line);
}

/* The fields of the record that was read, as texts. */
static enum sl_err add_fields(const struct sheet *s, struct sl_names *out, const struct sl_records *records,
			      size_t line, struct sl_fail *fail)
{
	for (int i = 0; i < sl_records_fields(records); i++) {
		const struct sl_bytes field = sl_records_field(records, i);
		char *text;
		bool fits;

		if (memchr(field.data, 0, field.len))
			return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: a NUL character", s->path, line);
		text = strndup((const char *)field.data, field.len);
		fits = text && sl_names_add(out, text);
		free(text);
		if (!fits)
			return no_memory(fail);
	}
	return SL_OK;
}

static enum sl_err add_row(struct sheet *s, const struct sl_records *records, size_t line, struct sl_fail *fail)
{
	enum sl_err err;

	if (!s->columns) {
		err = add_fields(s, &s->header, records, line, fail);
		s->columns = (int)s->header.n;
		return err;
	}
	if (sl_records_fields(records) != s->columns)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: %d cells, where the header has %d", s->path, line,
				   sl_records_fields(records), s->columns);
	if (s->rows == SL_SET_MAX_SAMPLES)
		return sl_fail_set(fail, SL_ERR_LIMIT, "%s: more than %d rows", s->path, SL_SET_MAX_SAMPLES);
	if (!sl_grow((void **)&s->line, &s->cap, s->rows, sizeof *s->line))
		return no_memory(fail);
	s->line[s->rows] = line;
	err = add_fields(s, &s->cell, records, line, fail);
	s->rows += !err;
	return err;
}

static enum sl_err read_sheet(struct sheet *s, struct sl_fail *fail)
{
	const struct sl_records_spec spec = {
		.path = s->path, .format = SL_RECORDS_CSV, .a = {NULL, 0}, .b = {NULL, -1}, .label = {NULL, -1}};
	struct sl_records *records;
	struct sl_record row;
	enum sl_err err = sl_records_open(&records, &spec, fail);

	if (err)
		return err;
	do {
		err = sl_records_next(records, &row, fail);
		if (!err && row.a.data)
			err = add_row(s, records, row.line, fail);
	} while (!err && row.a.data);
	sl_records_close(records);
	if (!err && !s->rows)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: no rows below a header", s->path);
	for (int64_t i = 0; i < s->cell.n && !err; i++)
		if (!*sl_name(&s->cell, i))
			err = sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: the cell of column \"%.60s\" is empty", s->path,
					  s->line[i / s->columns], sl_name(&s->header, i % s->columns));
	return err;
}

/* ---- what training's file says ---- */

/* The different texts of a column, sorted: by their numbers where all are some, else by bytes. */
static enum sl_err different(struct sl_names *out, const struct sheet *s, int column, struct sl_fail *fail)
{
	struct sl_names all = {0};
	bool fits = true;

	for (int64_t r = 0; r < s->rows && fits; r++)
		fits = sl_names_add(&all, cell(s, r, column));
	fits = fits && sl_names_different(out, &all);
	sl_names_close(&all);
	return fits ? SL_OK : no_memory(fail);
}

static enum sl_err learn_column(struct column *c, const struct sheet *s, int column, struct sl_fail *fail)
{
	double sum = 0, squares = 0, x;
	enum sl_err err;

	c->number = true;
	for (int64_t r = 0; r < s->rows && c->number; r++) {
		c->number = sl_text_number(cell(s, r, column), &x);
		sum += c->number ? x : 0;
	}
	c->n = 1;
	if (c->number) {
		c->mean = sum / (double)s->rows;
		for (int64_t r = 0; r < s->rows && sl_text_number(cell(s, r, column), &x); r++)
			squares += (x - c->mean) * (x - c->mean);
		c->deviation = sqrt(squares / (double)s->rows);
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

static int find_column(const struct sheet *s, const char *name)
{
	for (int i = 0; i < s->columns; i++)
		if (strcmp(sl_name(&s->header, i), name) == 0)
			return i;
	return -1;
}

static enum sl_err no_column(const struct sheet *s, const char *key, const char *name, struct sl_fail *fail)
{
	char names[200] = "";

	for (int i = 0; i < s->columns && strlen(names) < sizeof names - 70; i++)
		snprintf(names + strlen(names), 70, "%s%.60s", i ? ", " : "", sl_name(&s->header, i));
	return sl_fail_set(fail, SL_ERR_DATA, "%s: no column \"%.60s\" (%s); the header names %s", s->path, name, key,
			   names);
}

static enum sl_err learn(struct table *t, const struct sheet *s, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	t->columns = s->columns;
	t->column = calloc((size_t)s->columns, sizeof *t->column);
	t->label = find_column(s, spec->label);
	if (!t->column)
		return no_memory(fail);
	if (t->label < 0)
		return no_column(s, "data.label", spec->label, fail);
	t->column[t->label].left_out = true;
	for (int i = 0; i < spec->nignore; i++) {
		const int column = find_column(s, spec->ignore[i]);

		if (column < 0)
			return no_column(s, "data.ignore", spec->ignore[i], fail);
		t->column[column].left_out = true;
	}
	for (int i = 0; i < t->columns && !err; i++) {
		struct column *c = &t->column[i];

		if (c->left_out)
			continue;
		err = learn_column(c, s, i, fail);
		c->first = t->features;
		t->features += c->n;
	}
	if (!err)
		err = different(&t->labels, s, t->label, fail);
	if (!err && t->labels.n < 2)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s: all rows have the same label; a classifier needs two classes or more", s->path);
	if (!err && (t->features < 1 || t->features > MOST_FEATURES))
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: the columns make %d features, where 1 to %d may be", s->path,
				  t->features, MOST_FEATURES);
	return err;
}

/* ---- rows ---- */

static int place_in(const struct sl_names *list, const char *text)
{
	for (int64_t i = 0; i < list->n; i++)
		if (strcmp(sl_name(list, i), text) == 0)
			return (int)i;
	return -1;
}

static enum sl_err unknown(const struct sheet *s, int64_t row, int column, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: column \"%.60s\": \"%.60s\" does not occur in training", s->path,
			   s->line[row], sl_name(&s->header, column), cell(s, row, column));
}

static enum sl_err encode_row(struct table *t, const struct sheet *s, int64_t from, int64_t to, struct sl_fail *fail)
{
	float *x = t->x + to * t->features;

	t->y[to] = place_in(&t->labels, cell(s, from, t->label));
	if (t->y[to] < 0)
		return unknown(s, from, t->label, fail);
	for (int i = 0; i < t->columns; i++) {
		const struct column *c = &t->column[i];
		double value = 0;
		int place = 0;

		if (c->left_out)
			continue;
		if (!c->number)
			place = place_in(&c->text, cell(s, from, i));
		else if (!sl_text_number(cell(s, from, i), &value))
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s:%zu: column \"%.60s\": \"%.60s\" is no number, as all of training's are",
					   s->path, s->line[from], sl_name(&s->header, i), cell(s, from, i));
		if (place < 0)
			return unknown(s, from, i, fail);
		x[c->first + place] = c->number ? (float)((value - c->mean) / c->deviation) : 1;
	}
	return SL_OK;
}

static enum sl_err encode(struct table *t, const struct sheet *s, int64_t most, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (s->columns != t->columns)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %d columns, where train.csv has %d", s->path, s->columns,
				   t->columns);
	t->rows = most && most < s->rows ? most : s->rows;
	t->x = calloc((size_t)t->rows * (size_t)t->features, sizeof *t->x);
	t->y = calloc((size_t)t->rows, sizeof *t->y);
	if (!t->x || !t->y)
		return no_memory(fail);
	for (int64_t r = 0; r < t->rows && !err; r++)
		err = encode_row(t, s, sl_set_spread(r, t->rows, s->rows), r, fail);
	return err;
}

/* ---- the source ---- */

static void table_close(struct table *t)
{
	if (!t)
		return;
	for (int i = 0; i < t->columns && t->column; i++)
		sl_names_close(&t->column[i].text);
	free(t->column);
	sl_names_close(&t->labels);
	free(t->x);
	free(t->y);
	free(t);
}

/* `dir`/`name`, or where that is not there `dir`/`other`. */
static enum sl_err name_sheet(struct sheet *s, const char *dir, const char *name, const char *other,
			      struct sl_fail *fail)
{
	if (snprintf(s->path, sizeof s->path, "%s/%s", dir, name) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", dir);
	if (access(s->path, F_OK) != 0 && other)
		snprintf(s->path, sizeof s->path, "%s/%s", dir, other);
	return SL_OK;
}

/* Both of the same columns, in the same order. */
static enum sl_err same_header(const struct sheet *a, const struct sheet *b, struct sl_fail *fail)
{
	for (int i = 0; i < a->columns && i < b->columns; i++)
		if (strcmp(sl_name(&a->header, i), sl_name(&b->header, i)) != 0)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s:1: column %d is \"%.60s\", where train.csv has \"%.60s\"", b->path,
					   i + 1, sl_name(&b->header, i), sl_name(&a->header, i));
	return SL_OK;
}

static enum sl_err fill_table(struct table *t, struct sheet sheet[2], const struct sl_set_spec *spec,
			      struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";
	enum sl_err err = name_sheet(&sheet[0], dir, "train.csv", NULL, fail);

	if (!err)
		err = read_sheet(&sheet[0], fail);
	if (!err)
		err = learn(t, &sheet[0], spec, fail);
	if (err || spec->split == SL_SPLIT_TRAIN)
		return err ? err : encode(t, &sheet[0], spec->max_samples, fail);
	err = name_sheet(&sheet[1], dir, "val.csv", "test.csv", fail);
	if (!err)
		err = read_sheet(&sheet[1], fail);
	if (!err)
		err = same_header(&sheet[0], &sheet[1], fail);
	return err ? err : encode(t, &sheet[1], spec->max_samples, fail);
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct table *t = calloc(1, sizeof *t);
	struct sheet *sheet = calloc(2, sizeof *sheet);
	enum sl_err err = t && sheet ? SL_OK : no_memory(fail);

	if (!err && spec->files)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "a table is train.csv and val.csv (or test.csv)");
	if (!err)
		err = fill_table(t, sheet, spec, fail);
	for (int i = 0; i < 2 && sheet; i++)
		sheet_close(&sheet[i]);
	free(sheet);
	if (err) {
		table_close(t);
		return err;
	}
	*out = (struct sl_set){
		.source = self,
		.data = t,
		.count = t->rows,
		.classes = (int)t->labels.n,
		.field = {{"row", SL_F32, 1, {t->features}}, {"label", SL_I32, 0, {0}}},
	};
	return SL_OK;
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
	out[SL_FIELD_TARGET] = (struct sl_value){.data = t->y + index};
	return SL_OK;
}

static const char *class_name(const struct sl_set *set, int label)
{
	const struct table *t = set->data;

	return sl_name(&t->labels, label);
}

const struct sl_source sl_source_csv = {
	.name = "csv", .open = open_set, .sample = sample, .close = close_set, .class_name = class_name};
