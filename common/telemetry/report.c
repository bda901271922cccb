#include "common/telemetry/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/html.h"
#include "common/base/newfile.h"
#include "common/base/text.h"
#include "common/telemetry/json.h"

/* ---- making one */

json_t *sl_report_section(const char *title)
{
	return json_pack("{s:s, s:[], s:[], s:[]}", "title", title, "facts", "columns", "rows");
}

void sl_report_fact(json_t *section, const char *name, const char *format, ...)
{
	char text[SL_REPORT_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	json_array_append_new(json_object_get(section, "facts"), json_pack("[s o]", name, sl_json_text(text)));
}

void sl_report_line(json_t *section, const char *what, int n, ...)
{
	json_t *cells = json_array();
	va_list args;

	va_start(args, n);
	for (int i = 0; i < n; i++) {
		const char *text = va_arg(args, const char *);

		json_array_append_new(cells, sl_json_text(text ? text : "-"));
	}
	va_end(args);
	if (strcmp(what, "columns") == 0)
		json_object_set_new(section, what, cells);
	else
		json_array_append_new(json_object_get(section, what), cells);
}

const char *sl_report_show(const json_t *of, const char *key, char out[SL_REPORT_TEXT])
{
	const json_t *x = json_object_get(of, key);

	if (json_is_string(x))
		snprintf(out, SL_REPORT_TEXT, "%s", json_string_value(x));
	else if (json_is_integer(x))
		snprintf(out, SL_REPORT_TEXT, "%" JSON_INTEGER_FORMAT, json_integer_value(x));
	else if (json_is_number(x))
		snprintf(out, SL_REPORT_TEXT, "%.6g", json_number_value(x));
	else
		snprintf(out, SL_REPORT_TEXT, "-");
	return out;
}

const char *sl_report_time(const json_t *line, const char *key, char out[SL_REPORT_TIME])
{
	const json_t *x = json_object_get(line, key);
	const time_t at = (time_t)json_integer_value(x);
	struct tm tm;

	return x && gmtime_r(&at, &tm) && strftime(out, SL_REPORT_TIME, "%Y-%m-%d %H:%M:%S UTC", &tm) ? out : "-";
}

/* ---- printing it */

/* A form of the report: what stands before and behind each of its parts, and how a text is written in it. */
struct form {
	const char *title[2], *heading[2], *facts[2], *fact[3], *table[2], *columns[2], *column[2], *row[2], *cell[2],
		*block[2], *end;
	const char *rule; /* for each column, between the columns and the rows; NULL: nothing */
	void (*put)(FILE *to, const char *text);
	void (*put_block)(FILE *to, const char *text);
};

/* On one line, and nothing in it is markup. */
static void put_markdown(FILE *to, const char *text)
{
	for (size_t n; *text; text += n ? n : 1) {
		n = sl_text_character(text, strlen(text)); /* 0: it begins with none */
		if (!n)
			fputc(*text == '\n' || *text == '\t' ? ' ' : '?', to);
		else if (strchr("\\`*_[]<>|#&~", *text))
			fprintf(to, "\\%c", *text);
		else
			fwrite(text, 1, n, to);
	}
}

/* Each line is indented, so none of them ends the block. */
static void put_indented(FILE *to, const char *text)
{
	for (; *text; text++)
		if (*text == '\n')
			fputs(text[1] ? "\n    " : "\n", to);
		else
			fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, to);
}

/* clang-format off */
static const struct form html = {
	.title = {"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>Report</title><style>"
		"body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2.5rem auto;padding:0 1.2rem;"
		"color:#1d2127;background:#fff}h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2rem 0 .4rem}"
		"table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:.4rem 0}"
		"th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid #c8ccd2;"
		"overflow-wrap:break-word}th{font-weight:normal;color:#5d6470}.facts th{width:16rem}"
		"pre{background:#eef0f3;padding:.8rem;font-size:.8rem;white-space:pre-wrap;overflow-wrap:anywhere}"
		"@media print{body{margin:0;max-width:none;font-size:11pt}tr{break-inside:avoid}}"
		"</style></head><body>\n<h1>", "</h1>\n"},
	.heading = {"<h2>", "</h2>\n"},
	.facts = {"<table class=\"facts\">\n", "</table>\n"},
	.fact = {"<tr><th>", "</th><td>", "</td></tr>\n"},
	.table = {"<table>\n", "</table>\n"},
	.columns = {"<tr>", "</tr>\n"}, .column = {"<th>", "</th>"},
	.row = {"<tr>", "</tr>\n"}, .cell = {"<td>", "</td>"},
	.block = {"<pre>", "</pre>\n"},
	.end = "</body></html>\n",
	.put = sl_print_html, .put_block = sl_print_html};
static const struct form markdown = {
	.title = {"# ", "\n"},
	.heading = {"\n## ", "\n\n"},
	.facts = {"", ""},
	.fact = {"- **", "**: ", "\n"},
	.table = {"\n", ""},
	.columns = {"", "|\n"}, .column = {"| ", " "},
	.rule = "|---",
	.row = {"", "|\n"}, .cell = {"| ", " "},
	.block = {"    ", ""},
	.end = "",
	.put = put_markdown, .put_block = put_indented};
/* clang-format on */

static void put_cells(FILE *to, const struct form *f, const json_t *cells, const char *const around[2],
		      const char *const each[2])
{
	json_t *cell;
	size_t i;

	fputs(around[0], to);
	json_array_foreach(cells, i, cell)
	{
		fputs(each[0], to);
		f->put(to, json_string_value(cell));
		fputs(each[1], to);
	}
	fputs(around[1], to);
}

static void put_facts(FILE *to, const struct form *f, const json_t *facts)
{
	json_t *one;
	size_t i;

	if (json_array_size(facts))
		fputs(f->facts[0], to);
	json_array_foreach(facts, i, one)
	{
		fputs(f->fact[0], to);
		f->put(to, json_string_value(json_array_get(one, 0)));
		fputs(f->fact[1], to);
		f->put(to, json_string_value(json_array_get(one, 1)));
		fputs(f->fact[2], to);
	}
	if (json_array_size(facts))
		fputs(f->facts[1], to);
}

static void put_table(FILE *to, const struct form *f, const json_t *columns, const json_t *rows)
{
	json_t *row;
	size_t i;

	if (!json_array_size(rows))
		return;
	fputs(f->table[0], to);
	put_cells(to, f, columns, f->columns, f->column);
	for (i = 0; f->rule && i < json_array_size(columns); i++)
		fputs(f->rule, to);
	fputs(f->rule ? "|\n" : "", to);
	json_array_foreach(rows, i, row) put_cells(to, f, row, f->row, f->cell);
	fputs(f->table[1], to);
}

static void print(const json_t *report, const char *title, bool as_html, FILE *to)
{
	const struct form *f = as_html ? &html : &markdown;
	json_t *s;
	size_t i;

	fputs(f->title[0], to);
	f->put(to, title);
	fputs(f->title[1], to);
	json_array_foreach(json_object_get(report, "sections"), i, s)
	{
		const char *text = json_string_value(json_object_get(s, "text"));

		fprintf(to, "%s%s%s", f->heading[0], json_string_value(json_object_get(s, "title")), f->heading[1]);
		put_facts(to, f, json_object_get(s, "facts"));
		put_table(to, f, json_object_get(s, "columns"), json_object_get(s, "rows"));
		if (text) {
			fputs(f->block[0], to);
			f->put_block(to, text);
			fputs(f->block[1], to);
		}
	}
	fputs(f->end, to);
}

static const char *form_of(const char *out)
{
	return out && sl_ends_with(out, ".html") ? "html" : out && sl_ends_with(out, ".json") ? "json" : "md";
}

enum sl_err sl_report_write(json_t *report, const char *title, const char *format, const char *out,
			    struct sl_fail *fail)
{
	const char *form = format ? format : form_of(out);
	char *text = NULL;
	size_t len;
	FILE *to;
	enum sl_err err = SL_OK;

	if (strcmp(form, "html") != 0 && strcmp(form, "md") != 0 && strcmp(form, "json") != 0)
		return sl_fail_set(fail, SL_ERR_USAGE, "report --format: '%.40s' is not html, md or json", form);
	to = out ? open_memstream(&text, &len) : stdout;
	if (!to)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the report");
	if (strcmp(form, "json") == 0)
		sl_json_print(json_incref(report), JSON_INDENT(2), to);
	else
		print(report, title, strcmp(form, "html") == 0, to);
	if (out)
		err = fclose(to) == 0 ? sl_newfile_put(out, 0600, SL_FP_NONE, text, len, fail)
				      : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the report");
	free(text);
	return err;
}
