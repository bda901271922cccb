#include "client/data/csv_file.h"

#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/data/aligned.h"
#include "client/data/centre.h"
#include "client/data/csv_number.h"
#include "client/data/parts.h"
#include "client/text/records.h"
#include "client/text/unicode.h"
#include "common/base/folder.h"
#include "common/base/grow.h"
#include "common/conf/conf.h"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a table");
}

void sl_csv_close(struct sl_csv *s)
{
	sl_names_close(&s->header);
	sl_names_close(&s->cell);
	free(s->line);
	free(s->order);
	free(s->pointed);
}

enum sl_err sl_csv_check(const char *path, size_t line, struct sl_bytes cell, struct sl_fail *fail)
{
	if (memchr(cell.data, 0, cell.len))
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"%s:%zu: a NUL character: this is no text, or one of UTF-16, which must become UTF-8", path,
			line);
	if (sl_utf8_valid((const char *)cell.data, cell.len) < cell.len)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s:%zu: the text is not UTF-8; of Latin-1, for instance, iconv -f latin1 -t utf-8 "
				   "makes it",
				   path, line);
	return SL_OK;
}

/* A name for a column that has none, as pandas gives it: "Unnamed: 0", or "Unnamed: 0.1" if another column has that
 * name. */
static char *name_column(const struct sl_records *records, int column)
{
	char *name;
	bool taken = false;

	if (asprintf(&name, "Unnamed: %d", column) < 0)
		return NULL;
	for (int i = 0; i < sl_records_fields(records); i++) {
		const struct sl_bytes field = sl_records_field(records, i);

		taken |= field.len == strlen(name) && memcmp(field.data, name, field.len) == 0;
	}
	if (!taken)
		return name;
	free(name);
	return asprintf(&name, "Unnamed: %d.1", column) < 0 ? NULL : name;
}

/* The cell as text. A number that strtod would not read is spelled as it reads it. NULL: out of memory. */
static char *spell(const struct sl_csv *s, struct sl_bytes field, int column)
{
	char *text = strndup((const char *)field.data, field.len), *plain;
	struct sl_csv_number n;
	double unused;

	if (!text || ((!s->form.comma || !strchr(text, '.')) && sl_text_number(text, &unused)))
		return text;
	if (!sl_csv_number(text, s->form.comma ? ',' : '.', &n)) {
		if (s->form.comma && sl_csv_number(text, '.', &n))
			s->pointed[column] = s->rows;
		return text;
	}
	if (*n.unit && strncmp(n.rest - strlen(n.plain), n.plain, strlen(n.plain)) == 0)
		return text;
	plain = asprintf(&plain, "%s%s", n.plain, *n.unit ? n.rest : "") < 0 ? NULL : plain;
	free(text);
	return plain;
}

/* Adds the fields of the record that was read last, as texts. */
static enum sl_err add_fields(const struct sl_csv *s, struct sl_names *out, const struct sl_records *records,
			      size_t line, struct sl_fail *fail)
{
	for (int i = 0; i < sl_records_fields(records); i++) {
		const struct sl_bytes field = sl_records_field(records, i);
		const enum sl_err err = sl_csv_check(s->path, line, field, fail);
		char *text;
		bool fits;

		if (err)
			return err;
		if (out != &s->header)
			text = spell(s, field, i);
		else if (field.len)
			text = strndup((const char *)field.data, field.len);
		else
			text = name_column(records, i);
		fits = text && sl_names_add(out, text);
		free(text);
		if (!fits)
			return no_memory(fail);
	}
	return SL_OK;
}

static enum sl_err check_names(const struct sl_csv *s, size_t line, struct sl_fail *fail)
{
	int64_t twice[2];

	if (!sl_names_twice(&s->header, twice))
		return no_memory(fail);
	if (twice[0] < 0)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_DATA,
			   "%s:%zu: columns %lld and %lld are both called \"%.60s\": give one of them another name",
			   s->path, line, (long long)twice[0] + 1, (long long)twice[1] + 1,
			   sl_name(&s->header, twice[0]));
}

static enum sl_err add_header(struct sl_csv *s, const struct sl_records *records, size_t line, struct sl_fail *fail)
{
	enum sl_err err = add_fields(s, &s->header, records, line, fail);

	const char *other;

	s->columns = (int)s->header.n;
	other = !err && s->columns == 1 ? strpbrk(sl_name(&s->header, 0), ",;\t") : NULL;
	if (other)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s:%zu: the header \"%.60s\" is one cell: set data.separator: %s", s->path, line,
				   sl_name(&s->header, 0), sl_records_separator(*other));
	s->pointed = malloc((size_t)s->columns * sizeof *s->pointed);
	if (!s->pointed)
		return no_memory(fail);
	memset(s->pointed, -1, (size_t)s->columns * sizeof *s->pointed);
	return err ? err : check_names(s, line, fail);
}

static enum sl_err add_row(struct sl_csv *s, const struct sl_records *records, size_t line, struct sl_fail *fail)
{
	enum sl_err err;

	if (!s->columns)
		return add_header(s, records, line, fail);
	if (sl_records_fields(records) != s->columns)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: %d cell%s, where the header has %d", s->path, line,
				   sl_records_fields(records), sl_plural(sl_records_fields(records)), s->columns);
	if (s->rows == SL_SET_MAX_SAMPLES)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d rows", s->path, SL_SET_MAX_SAMPLES);
	if (!sl_grow(&s->line, &s->cap, (size_t)s->rows + 1, sizeof *s->line))
		return no_memory(fail);
	s->line[s->rows] = line;
	err = add_fields(s, &s->cell, records, line, fail);
	s->rows += !err;
	return err;
}

enum sl_err sl_csv_read(struct sl_csv *s, struct sl_fail *fail)
{
	const bool json = s->given && s->given->json;
	const struct sl_records_spec spec = {.path = s->path,
					     .format = json ? SL_RECORDS_JSONL : SL_RECORDS_CSV,
					     .members = json,
					     .above = s->given ? s->given->above : 0,
					     .a = {NULL, 0},
					     .b = {NULL, -1},
					     .label = {NULL, -1},
					     .separator = s->form.separator ? s->form.separator : ','};
	struct sl_records *records;
	struct sl_record row;
	enum sl_err err = s->given ? sl_records_open_bytes(&records, &spec, s->given->text, fail)
				   : sl_records_open(&records, &spec, fail);

	s->form.comma &= !json;
	if (err)
		return err;
	do {
		err = sl_records_next(records, &row, fail);
		if (!err && row.a.data)
			err = add_row(s, records, row.line, fail);
	} while (!err && row.a.data);
	sl_records_close(records);
	if (err || s->rows)
		return err;
	return s->given ? sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: the line is empty: %s is needed", s->path,
				      s->given->above + 1, json ? "a JSON object" : "a row")
			: sl_fail_set(fail, SL_ERR_DATA, "%s: no rows below a header", s->path);
}

enum sl_err sl_csv_read_split(struct sl_csv *s, const struct sl_set_spec *spec, enum sl_split split,
			      struct sl_fail *fail)
{
	struct sl_names names = {0};
	bool fits = true;
	enum sl_err err = sl_csv_read(s, fail);
	const int at = !err && spec->aligned ? sl_csv_find(s, spec->id) : 0;

	if (err || !spec->aligned)
		return err;
	if (at < 0)
		return sl_csv_lacks(s, "data.id", spec->id, fail);
	for (int64_t r = 0; r < s->rows && fits; r++)
		fits = sl_names_add(&names, sl_csv_cell(s, r, at));
	err = fits ? sl_aligned_places(spec->aligned, split, &names, &s->order, fail) : no_memory(fail);
	if (!err)
		s->rows = spec->aligned->row[split].n;
	sl_names_close(&names);
	return err;
}

enum sl_err sl_csv_check_marks(const struct sl_csv *s, int column, struct sl_fail *fail)
{
	const int64_t row = s->pointed[column];

	return row < 0 ? SL_OK
		       : sl_fail_set(
				 fail, SL_ERR_DATA,
				 "%s:%zu: column \"%.60s\": \"%.60s\" has a point, and data.decimal is comma: write "
				 "1,5 and 1500, or name the column in data.ignore",
				 s->path, s->line[row], sl_name(&s->header, column),
				 sl_name(&s->cell, row * s->columns + column));
}

int sl_csv_find(const struct sl_csv *s, const char *name)
{
	for (int i = 0; i < s->columns; i++)
		if (strcmp(sl_name(&s->header, i), name) == 0)
			return i;
	return -1;
}

enum sl_err sl_csv_lacks(const struct sl_csv *s, const char *key, const char *name, struct sl_fail *fail)
{
	char names[200] = "";

	for (int i = 0; i < s->columns && strlen(names) < sizeof names - 70; i++)
		snprintf(names + strlen(names), 70, "%s%.60s", i ? ", " : "", sl_name(&s->header, i));
	return sl_fail_set(fail, SL_ERR_DATA, "%s: no column \"%.60s\" (%s); the %s names %s", s->path, name, key,
			   s->given && s->given->json ? "JSON object" : "header", names);
}

enum sl_err sl_csv_same_header(const struct sl_csv *a, const struct sl_csv *b, struct sl_fail *fail)
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

enum sl_err sl_csv_fail_empty(const struct sl_csv *s, int64_t row, int column, const char *advice, struct sl_fail *fail)
{
	const char *cell = sl_csv_cell(s, row, column);
	char more[48] = "";
	int64_t n = 0;

	for (int64_t r = row + 1; r < s->rows; r++)
		n += strcmp(sl_csv_cell(s, r, column), cell) == 0;
	if (n)
		snprintf(more, sizeof more, ", and %lld below it", (long long)n);
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: the cell of column \"%.60s\" is %s%s%s; %s", s->path,
			   sl_csv_line(s, row), sl_name(&s->header, column), *cell ? "missing: " : "empty", cell, more,
			   advice);
}

int sl_csv_next(const struct sl_csv *s, const char *item, int from)
{
	const bool pattern = strchr(item, '*') && sl_csv_find(s, item) < 0;

	for (int i = from; i < s->columns; i++)
		if ((pattern ? fnmatch(item, sl_name(&s->header, i), FNM_NOESCAPE)
			     : strcmp(item, sl_name(&s->header, i))) == 0)
			return i;
	return -1;
}

/* Adds a name, unless it is there. False: there is no room. */
static bool add_label(const char *list[SL_CONF_LABELS_MAX], int *n, const char *name)
{
	for (int i = 0; i < *n; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	if (*n == SL_CONF_LABELS_MAX)
		return false;
	list[(*n)++] = name;
	return true;
}

/* The columns that a model has learned: those of another file may be in another order. */
static bool add_learned(const char *list[SL_CONF_LABELS_MAX], int *n, const json_t *learned)
{
	const json_t *name;
	bool fits = true;
	size_t i;

	json_array_foreach(learned, i, name) fits =
		fits && json_is_string(name) && add_label(list, n, json_string_value(name));
	return fits;
}

enum sl_err sl_csv_labels(struct sl_set_spec *spec, const char ***list, const struct sl_csv *s, struct sl_fail *fail)
{
	bool patterns = false, fits = true;
	int n = 0;

	for (int i = 0; i < spec->nlabels && spec->task && !spec->task->met; i++)
		patterns |= strchr(spec->label[i], '*') != NULL;
	if (!patterns)
		return SL_OK;
	*list = malloc(SL_CONF_LABELS_MAX * sizeof **list);
	if (!*list)
		return no_memory(fail);
	if (spec->about)
		fits = add_learned(*list, &n, json_object_get(spec->about, "classes"));
	for (int i = 0; i < spec->nlabels && fits && !spec->about; i++) {
		int at = sl_csv_next(s, spec->label[i], 0);

		if (at < 0 && !spec->unlabelled)
			return sl_csv_lacks(s, "data.label", spec->label[i], fail);
		for (; at >= 0 && fits; at = sl_csv_next(s, spec->label[i], at + 1))
			fits = add_label(*list, &n, sl_name(&s->header, at));
	}
	if (!fits && spec->about)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "the model's file is damaged: its classes are not %d names or fewer",
				   SL_CONF_LABELS_MAX);
	if (!fits)
		return sl_fail_at(fail, "data.label", SL_ERR_DATA,
				  "names more than %d columns of %s: give a pattern that names fewer",
				  SL_CONF_LABELS_MAX, s->path);
	if (n) {
		spec->label = *list;
		spec->nlabels = n;
	}
	return SL_OK;
}

/* Sets the centre of each of these columns. */
static void choose_centre(const struct sl_csv *s, const struct sl_set_spec *spec, const int *column)
{
	for (int i = 0; i < spec->nlabels; i++) {
		struct sl_centre centre = {.any = false};
		double x;

		for (int64_t r = 0; r < s->rows; r++)
			if (sl_text_number(sl_csv_cell(s, r, column[i]), &x))
				sl_centre_add(&centre, x);
		spec->chosen[i] = sl_centre_of(&centre);
	}
}

enum sl_err sl_csv_targets(const struct sl_csv *s, const struct sl_set_spec *spec, int **out, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	*out = calloc((size_t)spec->nlabels, sizeof **out);
	if (!*out)
		return no_memory(fail);
	for (int i = 0; i < spec->nlabels; i++) {
		(*out)[i] = sl_csv_find(s, spec->label[i]);
		if ((*out)[i] < 0)
			return sl_csv_lacks(s, "data.label", spec->label[i], fail);
		err = err ? err : sl_csv_check_marks(s, (*out)[i], fail);
	}
	if (!err && spec->chosen)
		choose_centre(s, spec, *out);
	return err;
}

enum sl_err sl_csv_target(const struct sl_csv *s, const struct sl_set_spec *spec, int64_t row, const int *column,
			  union sl_label *out, struct sl_fail *fail)
{
	const bool labels = spec->task->kind == SL_LEARN_LABELS;

	for (int i = 0; i < spec->nlabels; i++) {
		const char *text = sl_csv_cell(s, row, column[i]);
		const double centre = spec->centre ? spec->centre[i] : 0;
		double x;

		if (!sl_text_number(text, &x) || !isfinite((float)x) || !isfinite((float)(x - centre)) ||
		    (labels && x != 0 && x != 1))
			return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: column \"%.60s\": \"%.60s\" is no %s%s%s",
					   s->path, sl_csv_line(s, row), spec->label[i], text,
					   labels ? "label: 1, the row has it, or 0" : "number",
					   !labels && sl_csv_advice(text) ? ": " : "",
					   !labels && sl_csv_advice(text) ? sl_csv_advice(text) : "");
		out[i].target = (float)(x - centre);
	}
	return SL_OK;
}

enum sl_err sl_csv_name(struct sl_csv *s, const char *dir, enum sl_split split, struct sl_fail *fail)
{
	const bool alone = sl_folder_is_file(dir);

	if (!alone && sl_set_usual(s->path, dir, split, ".csv"))
		return SL_OK;
	if (snprintf(s->path, sizeof s->path, alone ? "%s" : "%s/train.csv", dir) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", dir);
	return split == SL_SPLIT_TRAIN
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_NOINPUT, "%s: there is no val.csv or test.csv; " SL_PARTS_HINT, dir);
}
