#include "client/cmd/preset_columns.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/data/csv_number.h"
#include "client/data/picture.h"
#include "client/text/records.h"

enum { ROWS = 200 };

static void add_cell(struct sl_preset_columns *c, int at, const char *text, size_t len, int row)
{
	for (size_t i = 0; i < len; i++)
		c->blanks[at] += text[i] == ' ';
	c->pictures[at] |= row == 0 && len < SL_CONF_TEXT && sl_picture_name(text);
}

static bool add_name(struct sl_preset_columns *c, const char *name, size_t len)
{
	if (c->n < SL_CONF_LIST_MAX && len < SL_CONF_TEXT)
		snprintf(c->name[c->n++], SL_CONF_TEXT, "%.*s", (int)len, name);
	return c->n < SL_CONF_LIST_MAX;
}

static int read_rows(struct sl_preset_columns *c, const char *path, enum sl_records_format format)
{
	struct sl_records_spec spec = {
		.path = path, .format = format, .a = {NULL, 0}, .b = {NULL, -1}, .label = {NULL, -1}};
	struct sl_csv table = {.rows = 0};
	struct sl_records *records = NULL;
	struct sl_record record;
	struct sl_fail why;
	char cell[SL_CONF_TEXT];
	int row = -1; /* of the header */
	bool more;

	snprintf(table.path, sizeof table.path, "%s", path);
	sl_csv_notice(&table);
	spec.separator = table.form.separator;
	more = sl_records_open(&records, &spec, &why) == SL_OK;

	for (; more && row < ROWS; row++) {
		more = sl_records_next(records, &record, &why) == SL_OK && record.a.data;
		for (int i = 0; more && i < sl_records_fields(records) && (row < 0 || i < c->n); i++) {
			const struct sl_bytes at = sl_records_field(records, i);

			snprintf(cell, sizeof cell, "%.*s", (int)at.len, (const char *)at.data);
			if (row >= 0)
				add_cell(c, i, row ? (const char *)at.data : cell, row ? at.len : strlen(cell), row);
			else if (!add_name(c, (const char *)at.data, at.len))
				break;
		}
	}
	sl_records_close(records);
	return row;
}

void sl_preset_columns_read(struct sl_preset_columns *out, const char *path)
{
	const enum sl_records_format format = sl_records_format_of(path);
	int rows = 0;

	*out = (struct sl_preset_columns){.n = 0};
	if (format == SL_RECORDS_CSV || format == SL_RECORDS_TSV)
		rows = read_rows(out, path, format);
	for (int i = 0; i < out->n; i++)
		out->blanks[i] /= rows > 1 ? rows : 1;
}

bool sl_preset_is_label(const char *name)
{
	static const char *const usual[] = {"label", "labels", "target", "class", "y", "outcome", "diagnosis"};

	for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
		if (strcasecmp(name, usual[i]) == 0)
			return true;
	return false;
}

void sl_preset_columns_choose(const struct sl_preset_columns *c, int *text, int *label)
{
	int usual = 0;

	*text = 0;
	*label = -1;
	for (int i = 1; i < c->n; i++)
		if (strcmp(c->name[i], "text") == 0 ||
		    (c->blanks[i] > c->blanks[*text] && strcmp(c->name[*text], "text") != 0))
			*text = i;
	for (int i = 0; i < c->n; i++)
		if (i != *text && sl_preset_is_label(c->name[i]) && usual++ == 0)
			*label = i;
	if (usual > 1)
		*label = -1;
	if (!usual && c->n == 2)
		*label = 1 - *text;
}

void sl_preset_columns_list(const struct sl_preset_columns *c, char *out, size_t size)
{
	size_t n = 0;

	out[0] = 0;
	for (int i = 0; i < c->n && n + 64 < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%.50s", i ? ", " : "", c->name[i]);
	if (c->n == SL_CONF_LIST_MAX)
		snprintf(out + n, size - n, " …");
}
