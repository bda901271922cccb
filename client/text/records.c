#define _GNU_SOURCE
#include "client/text/records.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/text/lines.h"
#include "common/base/form.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/real.h"

enum { COLUMNS = 3, COLUMNS_MOST = 131072 };

static const struct {
	const char *name, *end;
} formats[SL_RECORDS_FORMAT_COUNT] = {
	[SL_RECORDS_LINES] = {"lines", ".txt"},
	[SL_RECORDS_TSV] = {"tsv", ".tsv"},
	[SL_RECORDS_CSV] = {"csv", ".csv"},
	[SL_RECORDS_JSONL] = {"jsonl", ".jsonl"},
};

struct field {
	size_t at, len; /* in the record */
};

struct sl_records {
	struct sl_records_spec spec;
	struct sl_lines lines;
	int column[COLUMNS]; /* fields of a, b, label; -1: there is none */
	int n_header;        /* columns of the header; 0: there is no header */
	char *record;        /* the bytes of all fields: CSV without quotes, JSON's texts */
	size_t len, cap;
	struct field *field;
	size_t cap_field;
	int n_field;
	size_t begins; /* line of the record */
	size_t skipped;
	bool warned; /* about quotes in TSV */
	bool looked; /* at the form of the first line */
	/* with spec.members */
	json_t *first;   /* the first object; its members' order is that of the fields */
	bool first_next; /* its names were the last record, and its values are the next */
};

bool sl_records_ends(const char *name, const char *end)
{
	const size_t len = strlen(name), n = strlen(end);

	return len > n && strcasecmp(name + len - n, end) == 0;
}

enum sl_records_format sl_records_format_of(const char *name)
{
	for (int i = 0; i < SL_RECORDS_FORMAT_COUNT; i++)
		if (strcmp(name, formats[i].name) == 0 || sl_records_ends(name, formats[i].end))
			return (enum sl_records_format)i;
	return SL_RECORDS_FORMAT_COUNT;
}

static enum sl_err no_memory(const struct sl_records *r, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for a row", r->lines.name);
}

static enum sl_err bad_row(const struct sl_records *r, const char *what, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: %s", r->lines.name, r->begins, what);
}

static bool append(struct sl_records *r, const void *bytes, size_t len)
{
	if (!sl_grow(&r->record, &r->cap, r->len + len + 1, 1))
		return false;
	if (len)
		memcpy(r->record + r->len, bytes, len);
	r->len += len;
	return true;
}

/* Adds the field from `at` to the end of the record. */
static enum sl_err end_field(struct sl_records *r, size_t at, struct sl_fail *fail)
{
	if (r->n_field == COLUMNS_MOST)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: more than %d columns", r->lines.name, r->begins,
				   COLUMNS_MOST);
	if (!sl_grow(&r->field, &r->cap_field, (size_t)r->n_field + 1, sizeof *r->field))
		return no_memory(r, fail);
	r->field[r->n_field++] = (struct field){at, r->len - at};
	return SL_OK;
}

/* Reads the first line of the next record. */
static enum sl_err first_line(struct sl_records *r, struct sl_bytes *line, struct sl_fail *fail)
{
	enum sl_err err = sl_lines_next(&r->lines, line, fail);

	r->begins = r->lines.number + r->spec.above;
	r->len = 0;
	r->n_field = 0;
	return err;
}

static enum sl_err split_tsv(struct sl_records *r, struct sl_bytes line, struct sl_fail *fail)
{
	enum sl_err err = append(r, line.data, line.len) ? SL_OK : no_memory(r, fail);

	r->len = 0;
	for (size_t begin = 0; r->len <= line.len && !err; r->len++)
		if (r->len == line.len || r->record[r->len] == '\t') {
			err = end_field(r, begin, fail);
			begin = r->len + 1;
		}
	return err;
}

/* Reads a field from its opening quote on. Inside quotes the end of a line belongs to the field. */
static enum sl_err quoted(struct sl_records *r, struct sl_bytes *line, size_t *i, struct sl_fail *fail)
{
	for (++*i;;) {
		const uint8_t *quote = *i < line->len ? memchr(line->data + *i, '"', line->len - *i) : NULL;
		size_t end = quote ? (size_t)(quote - line->data) : line->len;
		enum sl_err err;

		if (r->len > SL_LINE_MOST)
			return bad_row(r, "a row of more than 16 MiB", fail);
		if (!append(r, line->data + *i, end - *i))
			return no_memory(r, fail);
		*i = end + 1;
		if (quote && (*i == line->len || line->data[*i] != '"'))
			return SL_OK;
		if (quote) { /* "" */
			if (!append(r, "\"", 1))
				return no_memory(r, fail);
			++*i;
			continue;
		}
		if (!append(r, r->lines.cr ? "\r\n" : "\n", r->lines.cr ? 2 : 1))
			return no_memory(r, fail);
		err = sl_lines_next(&r->lines, line, fail);
		if (err)
			return err;
		if (!line->data)
			return bad_row(r, "a quote that begins in this row has no end", fail);
		*i = 0;
	}
}

/* A cell of a CSV file ends with another character than the separator or the end of the line. */
static enum sl_err bad_end(const struct sl_records *r, char is, struct sl_fail *fail)
{
	const bool other = is == ',' || is == ';' || is == '\t';

	if (is == '\r')
		return bad_row(r, "lines end with a carriage return alone: tr '\\r' '\\n' <FILE >OTHER mends that",
			       fail);
	if (!other || !r->spec.separator)
		return bad_row(r,
			       other ? "after a closing quote comes another character than a comma, which separates "
				       "the cells of a CSV file"
				     : "something other than a comma after a closing quote",
			       fail);
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: cells are separated by a %s here: set data.separator: %s",
			   r->lines.name, r->begins, sl_records_separator(is), sl_records_separator(is));
}

static enum sl_err split_csv(struct sl_records *r, struct sl_bytes line, struct sl_fail *fail)
{
	const char separator = r->spec.separator ? r->spec.separator : ',';
	size_t i = 0;

	for (;;) {
		size_t begin = r->len;
		enum sl_err err = SL_OK;

		if (i < line.len && line.data[i] == '"') {
			err = quoted(r, &line, &i, fail);
			if (!err && i < line.len && line.data[i] != separator)
				err = bad_end(r, memchr(line.data + i, '\r', line.len - i) ? '\r' : (char)line.data[i],
					      fail);
		} else {
			const uint8_t *next = i < line.len ? memchr(line.data + i, separator, line.len - i) : NULL;
			size_t end = next ? (size_t)(next - line.data) : line.len;

			if (memchr(line.data + i, '\r', end - i))
				err = bad_end(r, '\r', fail);
			else if (memchr(line.data + i, '"', end - i))
				err = bad_row(r, "a quote inside a field that does not begin with one", fail);
			else if (!append(r, line.data + i, end - i))
				err = no_memory(r, fail);
			i = end;
		}
		if (!err)
			err = end_field(r, begin, fail);
		if (err || i >= line.len)
			return err;
		i++; /* the separator: a field follows, though it may be empty */
	}
}

/* Adds a member as a field. Numbers, true and false become text. */
static enum sl_err put_member(struct sl_records *r, const json_t *root, const char *name, struct sl_fail *fail)
{
	const json_t *value = json_object_get(root, name);
	char text[SL_REAL_TEXT] = "";
	size_t begin = r->len, len;
	const char *from = text;

	if (r->spec.members && json_is_null(value))
		return end_field(r, begin, fail);
	if (!value || json_is_null(value) || json_is_object(value) || json_is_array(value))
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: the object has no text or number \"%.64s\"",
				   r->lines.name, r->begins, name);
	if (json_is_integer(value))
		snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		(void)sl_real_text(json_real_value(value), 15, text);
	else if (json_is_boolean(value))
		snprintf(text, sizeof text, "%s", json_is_true(value) ? "true" : "false");
	else
		from = json_string_value(value);
	len = json_is_string(value) ? json_string_length(value) : strlen(text);
	return append(r, from, len) ? end_field(r, begin, fail) : no_memory(r, fail);
}

/* The first record has the names of the members of r->first; all others have an object's values. */
static enum sl_err put_members(struct sl_records *r, json_t *root, struct sl_fail *fail)
{
	const bool names = !r->first;
	enum sl_err err = SL_OK;
	const char *name;
	json_t *value;

	if (names)
		r->first = json_incref(root);
	r->first_next = names;
	r->len = 0;
	r->n_field = 0;
	json_object_foreach(r->first, name, value)
	{
		const size_t begin = r->len;

		if (!err && !names)
			err = put_member(r, root, name, fail);
		else if (!err)
			err = append(r, name, strlen(name)) ? end_field(r, begin, fail) : no_memory(r, fail);
	}
	return err;
}

static enum sl_err split_jsonl(struct sl_records *r, struct sl_bytes line, struct sl_fail *fail)
{
	const struct sl_records_column *column[COLUMNS] = {&r->spec.a, &r->spec.b, &r->spec.label};
	json_error_t at;
	json_t *root = json_loadb((const char *)line.data, line.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
	enum sl_err err = SL_OK;

	if (!root)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu:%d: %s", r->lines.name, r->begins, at.column, at.text);
	if (!json_is_object(root))
		err = bad_row(r, "no JSON object", fail);
	for (int i = 0; i < COLUMNS && !err && !r->spec.members; i++) {
		r->column[i] = column[i]->name ? r->n_field : -1;
		if (column[i]->name)
			err = put_member(r, root, column[i]->name, fail);
	}
	if (!err && r->spec.members)
		err = put_members(r, root, fail);
	json_decref(root);
	return err;
}

/* Refuses a first line that is no text by all appearances. */
static enum sl_err check_form(struct sl_records *r, struct sl_bytes line, struct sl_fail *fail)
{
	int named;
	const enum sl_form form = !r->spec.checks_form || r->looked ? SL_FORM_EMPTY
								    : sl_form_of(line, r->spec.named,
										 !r->spec.named[0]  ? 0
										 : r->spec.named[1] ? 2
												    : 1,
										 &named);

	r->looked = r->looked || form != SL_FORM_EMPTY;
	if (form == SL_FORM_JSON)
		return bad_row(r, "a JSON object, where each line is a text: name such a file .jsonl, or give --stream",
			       fail);
	if (form == SL_FORM_HEADER)
		return bad_row(
			r,
			"the names of columns, where each line is a text: leave them out, or name a file .csv or .tsv",
			fail);
	return SL_OK;
}

/* Reads the fields of the next record. *ended: there are no more. */
static enum sl_err read_record(struct sl_records *r, bool *ended, struct sl_fail *fail)
{
	struct sl_bytes line;
	enum sl_err err;

	*ended = false;
	if (r->first_next)
		return put_members(r, r->first, fail);
	do {
		err = first_line(r, &line, fail);
		*ended = !err && !line.data;
		if (err || *ended)
			return err;
	} while (line.len == 0 && r->spec.format != SL_RECORDS_LINES); /* an empty line is no row */
	err = check_form(r, line, fail);
	if (err)
		return err;
	switch (r->spec.format) {
	case SL_RECORDS_TSV:
		return split_tsv(r, line, fail);
	case SL_RECORDS_CSV:
		return split_csv(r, line, fail);
	case SL_RECORDS_JSONL:
		return split_jsonl(r, line, fail);
	default:
		return append(r, line.data, line.len) ? end_field(r, 0, fail) : no_memory(r, fail);
	}
}

static bool is_named(const struct sl_records *r, int field, const char *name)
{
	return r->field[field].len == strlen(name) && memcmp(r->record + r->field[field].at, name, strlen(name)) == 0;
}

/* The error for a column that is missing; it lists the columns that there are. */
static enum sl_err no_column(const struct sl_records *r, const char *name, struct sl_fail *fail)
{
	char there[256] = "";
	size_t at = 0;

	for (int i = 0; i < r->n_field && at + 1 < sizeof there; i++) {
		int n = snprintf(there + at, sizeof there - at, "%s%.*s", i ? ", " : "",
				 r->field[i].len > 64 ? 64 : (int)r->field[i].len, r->record + r->field[i].at);

		at += n > 0 ? (size_t)n : 0;
	}
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: no column \"%.64s\"; the header names %s", r->lines.name,
			   r->begins, name, there);
}

static enum sl_err find_columns(struct sl_records *r, struct sl_fail *fail)
{
	const struct sl_records_column *column[COLUMNS] = {&r->spec.a, &r->spec.b, &r->spec.label};
	bool by_name = r->spec.header, ended = false;
	enum sl_err err = by_name ? read_record(r, &ended, fail) : SL_OK;

	if (err || ended)
		return err ? err : sl_fail_set(fail, SL_ERR_DATA, "%s:1: no header: the file is empty", r->lines.name);
	r->n_header = r->n_field;
	for (int i = 0; i < COLUMNS; i++) {
		const char *name = by_name ? column[i]->name : NULL;
		int same = 0;

		r->column[i] = name ? -1 : column[i]->number;
		for (int f = 0; name && f < r->n_field; f++)
			if (is_named(r, f, name) && same++ == 0)
				r->column[i] = f;
		if (name && !same)
			return no_column(r, name, fail);
		if (same > 1)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s:%zu: %d columns are called \"%.64s\": name one alone so", r->lines.name,
					   r->begins, same, name);
	}
	return SL_OK;
}

static enum sl_err begin(struct sl_records *r, struct sl_fail *fail)
{
	r->column[0] = 0;
	r->column[1] = r->column[2] = -1;
	if (r->spec.format == SL_RECORDS_JSONL && !r->spec.a.name && !r->spec.members)
		return sl_fail_set(fail, SL_ERR_USAGE, "%s: for JSON Lines name the member that has the text",
				   r->lines.name);
	return r->spec.format == SL_RECORDS_TSV || r->spec.format == SL_RECORDS_CSV ? find_columns(r, fail) : SL_OK;
}

static enum sl_err make(struct sl_records **out, const struct sl_records_spec *spec, const struct sl_bytes *bytes,
			struct sl_fail *fail)
{
	struct sl_records *r = calloc(1, sizeof *r);
	enum sl_err err;

	if (!r)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for rows");
	r->spec = *spec;
	err = bytes ? sl_lines_open_bytes(&r->lines, *bytes, spec->path, fail)
		    : sl_lines_open(&r->lines, spec->path, fail);
	if (!err)
		err = begin(r, fail);
	if (err)
		sl_records_close(r);
	else
		*out = r;
	return err;
}

enum sl_err sl_records_open(struct sl_records **out, const struct sl_records_spec *spec, struct sl_fail *fail)
{
	return make(out, spec, NULL, fail);
}

enum sl_err sl_records_open_bytes(struct sl_records **out, const struct sl_records_spec *spec, struct sl_bytes bytes,
				  struct sl_fail *fail)
{
	return make(out, spec, &bytes, fail);
}

void sl_records_close(struct sl_records *r)
{
	if (!r)
		return;
	sl_lines_close(&r->lines);
	json_decref(r->first);
	free(r->record);
	free(r->field);
	free(r);
}

static struct sl_bytes bytes_of(const struct sl_records *r, int column)
{
	if (column < 0)
		return (struct sl_bytes){NULL, 0};
	return (struct sl_bytes){(const uint8_t *)r->record + r->field[column].at, r->field[column].len};
}

/* Warns once if a user's own TSV (`exact`) has a cell "so ""quoted""", as CSV writers make it. */
static void warn_of_quotes(struct sl_records *r, struct sl_bytes cell)
{
	if (r->warned || !r->spec.exact || r->spec.format != SL_RECORDS_TSV || cell.len < 4 || cell.data[0] != '"' ||
	    cell.data[cell.len - 1] != '"' || !memmem(cell.data + 1, cell.len - 2, "\"\"", 2))
		return;
	r->warned = true;
	sl_log(SL_LOG_WARN, "quoted-tsv",
	       "%s:%zu: TSV has no quotes, so those around this cell and the doubled ones in it are read as text: "
	       "write the file without (pandas: quoting=csv.QUOTE_NONE), or as CSV",
	       r->lines.name, r->begins);
}

static int columns_needed(const struct sl_records *r)
{
	int most = 0;

	for (int i = 0; i < COLUMNS; i++)
		most = r->column[i] >= most ? r->column[i] + 1 : most;
	return most;
}

enum sl_err sl_records_next(struct sl_records *r, struct sl_record *row, struct sl_fail *fail)
{
	bool ended = false;
	enum sl_err err;

	for (;; r->skipped++) {
		err = read_record(r, &ended, fail);
		if (err || ended || r->n_field >= columns_needed(r))
			break;
		if (!r->spec.skip_short)
			return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: %d column%s, where at least %d are needed",
					   r->lines.name, r->begins, r->n_field, sl_plural(r->n_field),
					   columns_needed(r));
	}
	if (!err && !ended && r->spec.exact && r->n_header && r->n_field > r->n_header)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: %d cells, where the header names %d column%s%s",
				  r->lines.name, r->begins, r->n_field, r->n_header, sl_plural(r->n_header),
				  r->spec.format == SL_RECORDS_CSV ? ": put a text that has a comma in quotes" : "");
	if (err)
		return err;
	*row = (struct sl_record){.line = r->begins};
	if (ended)
		return SL_OK;
	row->a = bytes_of(r, r->column[0]);
	row->b = bytes_of(r, r->column[1]);
	row->label = bytes_of(r, r->column[2]);
	warn_of_quotes(r, row->a);
	warn_of_quotes(r, row->b);
	return SL_OK;
}

int sl_records_fields(const struct sl_records *rows)
{
	return rows->n_field;
}

struct sl_bytes sl_records_field(const struct sl_records *rows, int i)
{
	return (struct sl_bytes){(const uint8_t *)rows->record + rows->field[i].at, rows->field[i].len};
}

size_t sl_records_skipped(const struct sl_records *r)
{
	return r->skipped;
}
