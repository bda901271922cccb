#include "client/cmd/preset_table.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "client/cmd/preset_columns.h"
#include "client/data/csv_column.h"
#include "client/data/csv_number.h"
#include "common/conf/key.h"

enum { MOST_WHOLE = 20, ROWS_OF_CLASS = 10 };

/* Whether a column is named as people name keys (id, patient_id, patientId), or as pandas names row numbers. */
static bool is_called_id(const char *name)
{
	const size_t n = strlen(name);

	if (strcasecmp(name, "index") == 0 || strcmp(name, "Unnamed: 0") == 0 || strcasecmp(name, "id") == 0)
		return true;
	return n > 2 && strcasecmp(name + n - 2, "id") == 0 &&
	       (!isalpha((unsigned char)name[n - 3]) ||
		(isupper((unsigned char)name[n - 2]) && islower((unsigned char)name[n - 3])));
}

/* Whether a column only identifies rows: no two rows have the same value, and they are texts, such as a patient's
 * name, or whole numbers in a column that is called id. Numbers in any notation and with a unit measure something.
 * Below 20 rows there is no telling. */
static bool names_rows(const struct sl_csv *table, int column)
{
	const bool id = is_called_id(sl_name(&table->header, column));
	struct sl_names all = {0}, once = {0};
	char unit[SL_CSV_UNIT];
	bool names = table->rows >= 20 &&
		     (id || !(sl_csv_measures(table, column, '.', unit) || sl_csv_measures(table, column, ',', unit)));
	double number;

	for (int64_t r = 0; r < table->rows && names; r++)
		names = (!sl_text_number(sl_csv_cell(table, r, column), &number) || (id && number == floor(number))) &&
			sl_names_add(&all, sl_csv_cell(table, r, column));
	names = names && sl_names_different(&once, &all) && once.n == table->rows;
	sl_names_close(&all);
	sl_names_close(&once);
	return names;
}

/* Whether the label is a quantity: it has fractions, large numbers, or so many different ones that each would be a
 * class of few rows. */
static bool has_numbers(const struct sl_csv *table, int column)
{
	struct sl_names all = {0}, once = {0};
	bool numbers = false, fits = true;
	double x;

	for (int64_t r = 0; r < table->rows && fits; r++) {
		const char *cell = sl_csv_cell(table, r, column);

		if (sl_csv_is_missing(cell))
			continue;
		fits = sl_text_number(cell, &x) && sl_names_add(&all, cell);
		numbers |= fits && (x != floor(x) || fabs(x) >= 1000);
	}
	fits = fits && sl_names_different(&once, &all);
	numbers |= once.n > MOST_WHOLE && all.n < ROWS_OF_CLASS * once.n;
	sl_names_close(&all);
	sl_names_close(&once);
	return fits && numbers;
}

/* Counts a column's cells. Numbers with one unit are numbers. */
static struct sl_csv_tally count(const struct sl_csv *table, int column)
{
	char unit[SL_CSV_UNIT];
	const bool measures = sl_csv_measures(table, column, '.', unit) && *unit;

	return sl_csv_count(table, column, measures ? unit : NULL, true);
}

/* Finds the label: the one column with a usual name, or else the only one that does not name rows, or the last one, if
 * it alone has words. Returns -1 if that is not clear. */
static int find_label(const struct sl_csv *table)
{
	int usual = 0, words = 0, others = 0, label = -1, word = -1, other = -1;
	struct sl_fail why;

	for (int i = 0; i < table->columns; i++) {
		const struct sl_csv_tally n = count(table, i);
		const bool names = names_rows(table, i);

		if (!names && others++ == 0)
			other = i;
		if (sl_preset_is_label(sl_name(&table->header, i)) && usual++ == 0)
			label = i;
		if (n.words && !names && !sl_csv_date_form(table, i, &why)) {
			words++;
			word = i;
		}
	}
	if (usual)
		return usual == 1 ? label : -1;
	return others == 1 ? other : words == 1 && word == table->columns - 1 ? word : -1;
}

bool sl_preset_table_names(const struct sl_preset_table *c, const char *column)
{
	return names_rows(&c->table, sl_csv_find(&c->table, column));
}

const char *sl_preset_table_patient(const struct sl_preset_table *c, const char *id)
{
	for (int i = 0; i < c->table.columns; i++) {
		const char *name = sl_name(&c->table.header, i);

		if ((strcasestr(name, "patient") || strcasestr(name, "subject")) && strcmp(name, id) != 0 &&
		    strcmp(name, c->label) != 0)
			return name;
	}
	return NULL;
}

bool sl_preset_table_hides(const char *folder, const char *label)
{
	struct sl_csv test = {.rows = 0};
	struct sl_fail why;
	bool hides = sl_csv_name(&test, folder, SL_SPLIT_TEST, &why) == SL_OK;

	if (hides)
		sl_csv_notice(&test);
	hides = hides && sl_csv_read(&test, &why) == SL_OK && sl_csv_next(&test, label, 0) < 0;
	sl_csv_close(&test);
	return hides;
}

void sl_preset_table_read(struct sl_preset_table *c, const char *folder, const char *label)
{
	struct sl_fail why;
	int at;

	*c = (struct sl_preset_table){.label = label ? label : "label"};
	if (sl_csv_name(&c->table, folder, SL_SPLIT_TRAIN, &why) != SL_OK)
		return;
	sl_csv_notice(&c->table);
	if (sl_csv_read(&c->table, &why) != SL_OK)
		return;
	at = label ? sl_csv_next(&c->table, label, 0) : find_label(&c->table);
	c->unclear = !label && at < 0;
	if (!label)
		c->label = sl_name(&c->table.header, at < 0 ? c->table.columns - 1 : at);
	if (!label || at >= 0)
		c->numbers = has_numbers(&c->table, label ? at : sl_csv_find(&c->table, c->label));
	for (int i = 0; i < c->table.columns; i++) {
		const struct sl_csv_tally n = count(&c->table, i);
		const char *name = sl_name(&c->table.header, i);
		bool named;

		if (strcmp(name, c->label) == 0)
			continue;
		named = !strpbrk(name, "\"\\") && !sl_conf_open_brackets(name) && strlen(name) < SL_CONF_TEXT;
		if (named && c->ndates < SL_CONF_LIST_MAX && sl_csv_date_form(&c->table, i, &why)) {
			c->dates[c->ndates++] = name;
			c->missing |= n.missing > 0;
		} else if (named && c->nignored < SL_CONF_LIST_MAX &&
			   (n.missing == n.rows || names_rows(&c->table, i))) {
			c->ignored[c->nignored++] = name;
		} else {
			c->missing |= n.empty || (n.missing && !n.words);
		}
	}
}

void sl_preset_table_spare(struct sl_preset_table *c, const struct sl_conf_list *ids)
{
	int kept = 0;

	for (int i = 0; i < c->nignored; i++) {
		const int column = sl_csv_find(&c->table, c->ignored[i]);
		bool is_id = false;

		for (int k = 0; k < ids->n; k++)
			is_id = is_id || sl_csv_next(&c->table, ids->item[k], column) == column;
		if (!is_id)
			c->ignored[kept++] = c->ignored[i];
	}
	c->nignored = kept;
}
