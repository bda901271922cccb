#include "client/cmd/preset_table.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

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

void sl_preset_table_read(struct sl_preset_table *c, const char *folder)
{
	struct sl_fail why;

	*c = (struct sl_preset_table){.label = "label"};
	if (sl_csv_name(&c->table, folder, SL_SPLIT_TRAIN, &why) != SL_OK)
		return;
	sl_csv_notice(&c->table);
	if (sl_csv_read(&c->table, &why) != SL_OK)
		return;
	if (sl_csv_find(&c->table, c->label) < 0)
		c->label = sl_name(&c->table.header, c->table.columns - 1);
	c->numbers = has_numbers(&c->table, sl_csv_find(&c->table, c->label));
	for (int i = 0; i < c->table.columns; i++) {
		char unit[SL_CSV_UNIT];
		const bool measures = sl_csv_measures(&c->table, i, '.', unit) && *unit;
		const struct sl_csv_tally n = sl_csv_count(&c->table, i, measures ? unit : NULL, true);
		const char *name = sl_name(&c->table.header, i);

		if (strcmp(name, c->label) == 0)
			continue;
		if (c->nignored < SL_CONF_LIST_MAX && !strpbrk(name, "\"\\") && !sl_conf_open_brackets(name) &&
		    strlen(name) < SL_CONF_TEXT && (n.missing == n.rows || names_rows(&c->table, i)))
			c->ignored[c->nignored++] = name;
		else
			c->missing |= n.empty || (n.missing && !n.words);
	}
}
