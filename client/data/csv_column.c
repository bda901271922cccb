/* Columns of a table: statistics and texts in training, and the features of any row. */
#include "client/data/csv_column.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/csv_number.h"
#include "client/data/parts.h"
#include "client/text/unicode.h"
#include "common/base/log.h"
#include "common/base/spread.h"

/* Beyond these, in deviations and as it is written, a number is rather a mark, such as a raster's "no data". */
static const float FAR = 1e6f;
static const double HUGE_NUMBER = 1e30;

enum {
	MANY = 10, /* beside so many texts, a word that repeats alone probably marks missing numbers */
	RARE = 50  /* so many texts of few rows each are rather dates or names */
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a table");
}

/* The text without leading blanks; *len leaves out trailing ones. */
static const char *trim(const char *text, size_t *len)
{
	text += strspn(text, " \t");
	*len = strlen(text);
	while (*len && strchr(" \t", text[*len - 1]))
		--*len;
	return text;
}

bool sl_csv_is_missing(const char *cell)
{
	static const char *const words[] = {"",     "NA",   "N/A",    "n/a",     "NaN",      "nan",     "NULL",
					    "null", "None", "?",      "#N/A",    "#N/A N/A", "#NA",     "<NA>",
					    "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN",  "-1.#QNAN"};
	size_t len;

	cell = trim(cell, &len);
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strlen(words[i]) == len && memcmp(cell, words[i], len) == 0)
			return true;
	return false;
}

bool sl_csv_lacks_label(const char *cell)
{
	return sl_csv_is_missing(cell) && strcmp(cell, "None") != 0;
}

static bool are_alike(const char *a, const char *b)
{
	size_t n, m;
	double x, y;

	if (sl_text_number(a, &x) && sl_text_number(b, &y))
		return x == y;
	a = trim(a, &n);
	b = trim(b, &m);
	return n == m && memcmp(a, b, n) == 0;
}

struct plain {
	char *text;
	int64_t of; /* its place in the list */
};

static int by_plain(const void *a, const void *b)
{
	const struct plain *x = a, *y = b;
	const int order = strcmp(x->text, y->text);

	return order ? order : (x->of > y->of) - (x->of < y->of);
}

void sl_csv_warn_alike(const char *path, const char *what, const struct sl_names *texts)
{
	struct plain *plain = calloc((size_t)texts->n + 1, sizeof *plain);
	int64_t n = 0, alike = 0, first = 0;

	for (int64_t i = 0; i < texts->n && plain; i++) {
		plain[n] = (struct plain){sl_utf8_plain(sl_name(texts, i)), i};
		n += plain[n].text != NULL;
	}
	if (n)
		qsort(plain, (size_t)n, sizeof *plain, by_plain);
	for (int64_t i = 1; i < n; i++)
		if (strcmp(plain[i - 1].text, plain[i].text) == 0 && !alike++)
			first = i;
	if (alike)
		sl_log(SL_LOG_WARN, "alike-texts",
		       "%s: %s: \"%.60s\" and \"%.60s\" count as two, though they differ in case, blanks or look-alike "
		       "characters alone (%lld such pairs): write them the same, unless they mean two things",
		       path, what, sl_name(texts, plain[first - 1].of), sl_name(texts, plain[first].of),
		       (long long)alike);
	for (int64_t i = 0; i < n; i++)
		free(plain[i].text);
	free(plain);
}

enum sl_err sl_csv_check_alike(const char *path, const char *what, const struct sl_names *texts, struct sl_fail *fail)
{
	for (int64_t i = 1; i < texts->n; i++)
		for (int64_t k = texts->n > SL_CSV_MOST_TEXTS ? i - 1 : 0; k < i; k++)
			if (are_alike(sl_name(texts, k), sl_name(texts, i)))
				return sl_fail_set(fail, SL_ERR_DATA,
						   "%s: the %s \"%.60s\" and \"%.60s\" are written in two ways: "
						   "write them the same",
						   path, what, sl_name(texts, k), sl_name(texts, i));
	sl_csv_warn_alike(path, what, texts);
	return SL_OK;
}

enum sl_err sl_csv_different(struct sl_names *out, const struct sl_csv *s, int column, bool fill, struct sl_fail *fail)
{
	struct sl_names all = {0};
	bool fits = true;

	for (int64_t r = 0; r < s->rows && fits; r++)
		fits = (fill && sl_csv_is_missing(sl_csv_cell(s, r, column))) ||
		       sl_names_add(&all, sl_csv_cell(s, r, column));
	fits = fits && sl_names_different(out, &all);
	sl_names_close(&all);
	return fits ? SL_OK : no_memory(fail);
}

static const char of_keys[] = "values of data.split.by";

enum sl_err sl_csv_check_keys(const char *path, const struct sl_names *keys, struct sl_fail *fail)
{
	struct sl_names all = {0}, once = {0};
	bool fits = true;
	enum sl_err err;

	for (int64_t i = 0; i < keys->n && fits; i++)
		fits = sl_names_add(&all, sl_name(keys, i));
	err = fits && sl_names_different(&once, &all) ? sl_csv_check_alike(path, of_keys, &once, fail)
						      : no_memory(fail);
	sl_names_close(&all);
	sl_names_close(&once);
	return err;
}

enum sl_err sl_csv_check_key_column(const struct sl_csv *s, int column, struct sl_fail *fail)
{
	struct sl_names once = {0};
	enum sl_err err = sl_csv_different(&once, s, column, false, fail);

	if (!err)
		err = sl_csv_check_alike(s->path, of_keys, &once, fail);
	sl_names_close(&once);
	return err;
}

/* ---- what the training rows say ---- */

/* Reads a cell as a number with the unit; NULL: without one. */
static bool read_number(const char *cell, const char *unit, double *out)
{
	struct sl_csv_number n;

	return unit ? sl_csv_number(cell, '.', &n) && strcmp(n.unit, unit) == 0 && sl_text_number(n.plain, out)
		    : sl_text_number(cell, out);
}

/* Reads a cell of a column of numbers; of dates the days from the first. */
static bool read_value(const struct sl_csv_column *c, const char *cell, double *out)
{
	struct sl_date date = {.day = 0};
	const bool is = c->dated ? sl_date_read(cell, c->form, &date) : read_number(cell, c->unit, out);

	if (c->dated)
		*out = (double)(date.day - c->first_day);
	return is;
}

struct sl_csv_tally sl_csv_count(const struct sl_csv *s, int column, const char *unit, bool fill)
{
	struct sl_csv_tally n = {.rows = s->rows};
	double x;

	for (int64_t r = 0; r < s->rows; r++) {
		const char *cell = sl_csv_cell(s, r, column);

		n.empty += !*cell;
		if (fill && sl_csv_is_missing(cell)) {
			n.missing++;
		} else if (read_number(cell, unit, &x)) {
			n.numbers++;
		} else {
			n.several |= n.words && strcmp(cell, sl_csv_cell(s, n.word, column)) != 0;
			n.words++;
			n.word = r;
			if (sl_csv_advice(cell)) {
				n.foreign++;
				n.measure = r;
			}
		}
	}
	return n;
}

/* Computes mean and deviation of the cells that have a number. */
static enum sl_err learn_number(struct sl_csv_column *c, const struct sl_csv *s, const bool *own, struct sl_fail *fail)
{
	double sum = 0, squares = 0, x;
	int64_t n = 0;

	for (int64_t r = 0; r < s->rows; r++)
		if ((!own || own[r]) && read_value(c, sl_csv_cell(s, r, c->at), &x)) {
			sum += x;
			n++;
		}
	if (!n)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: column \"%.60s\" has no %s in the rows that train: name it in data.ignore",
				   s->path, c->name, c->dated ? "date" : "number");
	c->mean = sum / (double)n;
	for (int64_t r = 0; r < s->rows; r++)
		if ((!own || own[r]) && read_value(c, sl_csv_cell(s, r, c->at), &x))
			squares += (x - c->mean) * (x - c->mean);
	c->deviation = sl_spread(squares / (double)n, c->mean, n);
	c->n = c->dated ? SL_CSV_DATE_FEATURES : 1;
	if (!isfinite(c->mean) || !isfinite(c->deviation))
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: column \"%.60s\" has numbers too large to compute its mean or deviation",
				   s->path, c->name);
	return SL_OK;
}

/* DATA: too many texts. */
static enum sl_err check_texts(const struct sl_csv_column *c, const struct sl_csv *s, bool fill, struct sl_fail *fail)
{
	const struct sl_csv_tally n = sl_csv_count(s, c->at, NULL, fill);
	const bool foreign = 2 * n.foreign > n.words;

	if (c->text.n <= SL_CSV_MOST_TEXTS)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_DATA,
			   "%s:%zu: column \"%.60s\" has %lld different texts, such as \"%.60s\", where "
			   "%d are the most: %s",
			   s->path, sl_csv_line(s, foreign ? n.measure : n.word), c->name, (long long)c->text.n,
			   sl_csv_cell(s, foreign ? n.measure : n.word, c->at), SL_CSV_MOST_TEXTS,
			   foreign ? sl_csv_advice(sl_csv_cell(s, n.measure, c->at))
				   : "name it in data.ignore, if it tells nothing");
}

/* Learns the texts of a column. Many that are numbers with one unit make it a column of numbers. */
static enum sl_err learn_texts(struct sl_csv_column *c, const struct sl_csv *s, bool fill, struct sl_fail *fail)
{
	char unit[SL_CSV_UNIT];
	const enum sl_err err = sl_csv_different(&c->text, s, c->at, fill, fail);

	c->n = (int)c->text.n;
	if (err || c->text.n <= MANY || !sl_csv_measures(s, c->at, '.', unit) ||
	    sl_csv_count(s, c->at, unit, fill).words)
		return err ? err : check_texts(c, s, fill, fail);
	sl_names_close(&c->text);
	c->number = true;
	c->unit = strdup(unit);
	return c->unit ? SL_OK : no_memory(fail);
}

/* The first row whose cell is no such date; s->rows: all are. *any: some cell is not missing. */
static int64_t first_odd(const struct sl_csv *s, int column, enum sl_date_form form, bool *any)
{
	struct sl_date date;

	for (int64_t r = 0; r < s->rows; r++) {
		const bool missing = sl_csv_is_missing(sl_csv_cell(s, r, column));

		*any |= !missing;
		if (!missing && !sl_date_read(sl_csv_cell(s, r, column), form, &date))
			return r;
	}
	return s->rows;
}

enum sl_date_form sl_csv_date_form(const struct sl_csv *s, int column, struct sl_fail *fail)
{
	enum sl_date_form found = SL_DATE_NONE;
	int64_t odd = 0;
	bool any = false;
	int n = 0;

	for (int form = SL_DATE_ISO; form < SL_DATE_FORMS; form++) {
		const int64_t r = first_odd(s, column, (enum sl_date_form)form, &any);

		found = r == s->rows ? (enum sl_date_form)form : found;
		n += r == s->rows;
		odd = r > odd && r < s->rows ? r : odd;
	}
	if (n == 1)
		return found;
	(void)sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: column \"%.60s\": \"%.60s\" %s", s->path, sl_csv_line(s, odd),
			  sl_name(&s->header, column), sl_csv_cell(s, odd, column),
			  n && any ? "may have the day or the month first, and no row tells which: write 2024-12-31"
				   : "is no date: write 2024-12-31, 31.12.2024 or 12/31/2024, in one way in all rows");
	return SL_DATE_NONE;
}

/* Finds how dates are written, and the first one of the rows that train. */
static enum sl_err learn_dates(struct sl_csv_column *c, const struct sl_csv *s, const bool *own, struct sl_fail *fail)
{
	double first = INFINITY, day;

	c->form = sl_csv_date_form(s, c->at, fail);
	for (int64_t r = 0; r < s->rows && c->form; r++)
		if ((!own || own[r]) && read_value(c, sl_csv_cell(s, r, c->at), &day) && day < first)
			first = day;
	c->first_day = isfinite(first) ? (int64_t)first : 0;
	return c->form ? SL_OK : SL_ERR_DATA;
}

enum sl_err sl_csv_column_learn(struct sl_csv_column *c, const struct sl_csv *s, int at, const bool *own, bool fill,
				struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	c->name = strdup(sl_name(&s->header, at));
	c->at = at;
	c->number = !sl_csv_count(s, at, NULL, fill).words;
	if (!c->name)
		return no_memory(fail);
	c->number |= c->dated;
	if (c->dated)
		err = learn_dates(c, s, own, fail);
	else if (!c->number)
		err = learn_texts(c, s, fill, fail);
	return err || !c->number ? err : learn_number(c, s, own, fail);
}

int64_t sl_csv_column_warn(const struct sl_csv_column *c, const struct sl_csv *s, bool fill)
{
	const struct sl_csv_tally n = sl_csv_count(s, c->at, c->unit, fill);
	const int64_t row = n.foreign ? n.measure : n.word;
	const char *cell = n.words ? sl_csv_cell(s, row, c->at) : "", *advice = sl_csv_advice(cell);

	if (c->dated)
		return n.missing;
	if (n.words && (2 * n.numbers > s->rows || (!n.several && c->text.n > MANY)))
		sl_log(SL_LOG_WARN, "column-of-words",
		       "%s:%zu: column \"%.60s\": \"%.60s\" is no number, but %lld of %lld cells are: the column is "
		       "read as words, with %d features; %s",
		       s->path, sl_csv_line(s, row), c->name, cell, (long long)n.numbers, (long long)s->rows, c->n,
		       advice                    ? advice
		       : sl_csv_is_missing(cell) ? "data.missing: mean leaves such cells out"
		       : n.several               ? "give a number here, or leave the row out"
				   : "give a number here; if it stands for a missing one, leave the cell empty and set "
				     "data.missing: mean");
	else if (advice && (c->text.n > MANY || strchr(cell, ',')) && 2 * (n.numbers + n.foreign) > n.numbers + n.words)
		sl_log(SL_LOG_WARN, "column-of-measures",
		       "%s:%zu: column \"%.60s\": \"%.60s\" is no number, and each such text becomes a feature: %s",
		       s->path, sl_csv_line(s, row), c->name, cell, advice);
	else if (n.words && s->rows >= 20 &&
		 (2 * c->text.n > n.words || (c->text.n >= RARE && 10 * c->text.n > n.words)))
		sl_log(SL_LOG_WARN, "column-of-texts",
		       "%s:%zu: column \"%.60s\": %lld different texts, such as \"%.60s\", are in %lld rows, and each "
		       "becomes a feature: name dates in data.dates, whom rows are of in data.split.by, "
		       "write quantities as numbers, or name the column in data.ignore",
		       s->path, sl_csv_line(s, n.word), c->name, (long long)c->text.n, sl_csv_cell(s, n.word, c->at),
		       (long long)n.words);
	if (!c->number)
		sl_csv_warn_alike(s->path, c->name, &c->text);
	if (c->unit)
		sl_log(SL_LOG_INFO, "column-with-unit", "%s: column \"%.60s\": its cells are read as numbers of \"%s\"",
		       s->path, c->name, c->unit);
	return n.missing;
}

/* ---- rows ---- */

int sl_csv_place(const struct sl_names *list, const char *text)
{
	for (int64_t i = 0; i < list->n; i++)
		if (strcmp(sl_name(list, i), text) == 0)
			return (int)i;
	return -1;
}

enum sl_err sl_csv_fail_unknown_text(const struct sl_csv *s, int64_t row, int column, const char *more,
				     struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: column \"%.60s\": \"%.60s\" does not occur in training%s",
			   s->path, sl_csv_line(s, row), sl_name(&s->header, column), sl_csv_cell(s, row, column),
			   more);
}

enum sl_err sl_csv_column_encode(const struct sl_csv_column *c, const struct sl_csv *s, int64_t row, float *x,
				 struct sl_csv_unknown *unknown, struct sl_fail *fail)
{
	static const char *const forms[] = {"number", "date like 2024-12-31", "date like 31.12.2024",
					    "date like 12/31/2024"};
	const char *cell = sl_csv_cell(s, row, c->at);
	struct sl_date date;
	double value;
	int place;

	place = c->number ? -1 : sl_csv_place(&c->text, cell);
	if (place < 0 && unknown && sl_csv_is_missing(cell))
		return SL_OK;
	if (c->number) {
		if (!read_value(c, cell, &value))
			return sl_fail_set(
				fail, SL_ERR_DATA,
				"%s:%zu: column \"%.60s\": \"%.60s\" is no %s%s%s, as all of training's are%s", s->path,
				sl_csv_line(s, row), c->name, cell, forms[c->form], c->unit ? " of " : "",
				c->unit ? c->unit : "",
				sl_csv_is_missing(cell) ? "; data.missing: mean takes it for a missing cell" : "");
		x[0] = (float)((value - c->mean) / c->deviation);
		if (!isfinite(x[0]))
			return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: column \"%.60s\": \"%.60s\" is too large",
					   s->path, sl_csv_line(s, row), c->name, cell);
		if (fabs(x[0]) > FAR || fabs(value) > HUGE_NUMBER)
			sl_log_limited(
				SL_LOG_WARN, "far-number",
				"%s:%zu: column \"%.60s\": \"%.60s\" is far from the other numbers of training: if it "
				"marks missing data, empty the cell and set data.missing: mean, or leave the row out",
				s->path, sl_csv_line(s, row), c->name, cell);
		if (c->dated && sl_date_read(cell, c->form, &date))
			x[1 + date.month] = x[1 + 12 + date.weekday] = 1;
		return SL_OK;
	}
	if (place >= 0)
		x[place] = 1;
	else if (!unknown)
		return sl_csv_fail_unknown_text(s, row, c->at, "; data.missing: mean takes it for a missing cell",
						fail);
	else if (!unknown->cells++)
		(void)sl_csv_fail_unknown_text(s, row, c->at, ", and counts as a missing cell", &unknown->first);
	return SL_OK;
}

/* ---- what the model's file says ---- */

static const char *const date_words[SL_DATE_FORMS] = {"", "year_first", "day_first", "month_first"};

json_t *sl_csv_column_describe(const struct sl_csv_column *c)
{
	char first[16];
	json_t *texts;

	if (c->dated) {
		sl_date_print(c->first_day, first);
		return json_pack("{s:s, s:s, s:s, s:f, s:f}", "name", c->name, "dates", date_words[c->form],
				 "first_date", first, "mean", c->mean, "deviation", c->deviation);
	}
	if (c->unit)
		return json_pack("{s:s, s:f, s:f, s:s}", "name", c->name, "mean", c->mean, "deviation", c->deviation,
				 "unit", c->unit);
	if (c->number)
		return json_pack("{s:s, s:f, s:f}", "name", c->name, "mean", c->mean, "deviation", c->deviation);
	texts = json_array();
	for (int64_t k = 0; k < c->text.n; k++)
		json_array_append_new(texts, json_string(sl_name(&c->text, k)));
	return json_pack("{s:s, s:o}", "name", c->name, "texts", texts);
}

enum sl_err sl_csv_column_recall(struct sl_csv_column *c, const json_t *from, struct sl_fail *fail)
{
	const json_t *texts = json_object_get(from, "texts");
	const char *name = json_string_value(json_object_get(from, "name"));
	const char *unit = json_string_value(json_object_get(from, "unit"));
	const char *dates = json_string_value(json_object_get(from, "dates"));
	const char *first = json_string_value(json_object_get(from, "first_date"));
	struct sl_date date;

	c->name = name ? strdup(name) : NULL;
	c->unit = unit ? strdup(unit) : NULL;
	c->mean = json_number_value(json_object_get(from, "mean"));
	c->deviation = json_number_value(json_object_get(from, "deviation"));
	c->number = !texts;
	c->n = texts ? (int)json_array_size(texts) : 1;
	for (int form = SL_DATE_ISO; form < SL_DATE_FORMS && dates; form++)
		c->form = strcmp(dates, date_words[form]) == 0 ? (enum sl_date_form)form : c->form;
	c->dated = dates != NULL;
	c->n = dates ? SL_CSV_DATE_FEATURES : c->n;
	if (dates && (!c->form || !first || !sl_date_read(first, SL_DATE_ISO, &date)))
		return sl_fail_set(fail, SL_ERR_DATA, "the model's file is damaged: a column has dates of no form");
	c->first_day = dates ? date.day : 0;
	if (!c->name || !c->unit != !unit || (c->number && !(c->deviation > 0)) || c->n > SL_CSV_MOST_TEXTS)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "the model's file is damaged: a column has neither mean and deviation nor texts");
	for (size_t i = 0; i < json_array_size(texts); i++) {
		const char *text = json_string_value(json_array_get(texts, i));

		if (!text || !sl_names_add(&c->text, text))
			return sl_fail_set(fail, SL_ERR_DATA, "column \"%.60s\" of the model's file has no texts",
					   name);
	}
	return SL_OK;
}

void sl_csv_column_close(struct sl_csv_column *c)
{
	sl_names_close(&c->text);
	free(c->unit);
	free(c->name);
}

/* The cells of a column that are not missing, as row [s->rows]. Returns how many; 0: they are dates or measure
 * something, such as numbers that are not whole. */
static int64_t read_values(const struct sl_csv *s, int column, int label, struct sl_parts_row *row, bool *numbers)
{
	char unit[SL_CSV_UNIT];
	struct sl_fail why;
	int64_t n = 0;

	*numbers = true;
	for (int64_t r = 0; r < s->rows; r++) {
		const char *cell = sl_csv_cell(s, r, column), *class = label < 0 ? "" : sl_csv_cell(s, r, label);
		double number = 0;

		if (sl_csv_is_missing(cell))
			continue;
		*numbers &= sl_text_number(cell, &number);
		if (number != floor(number))
			return 0;
		row[n++] = (struct sl_parts_row){number, sl_parts_key(cell, strlen(cell)),
						 sl_parts_key(class, strlen(class)), r};
	}
	return *numbers || !(sl_csv_measures(s, column, '.', unit) || sl_csv_date_form(s, column, &why)) ? n : 0;
}

void sl_csv_warn_repeats(const struct sl_csv *s, const struct sl_set_spec *spec)
{
	const int label = spec->nlabels ? sl_csv_find(s, spec->label[0]) : -1;
	struct sl_parts_row *row = sl_parts_divides_rows(spec) ? malloc((size_t)s->rows * sizeof *row + 1) : NULL;
	bool found = false, numbers;
	int64_t values;

	for (int i = 0; i < s->columns && row && !found; i++) {
		const char *name = sl_name(&s->header, i);
		int64_t n = read_values(s, i, label, row, &numbers);

		for (int k = 0; k < spec->nlabels; k++)
			n *= strcmp(spec->label[k], name) != 0;
		found = sl_parts_repeat(row, n, SL_PARTS_LEAST, numbers, &values);
		if (found)
			sl_log(SL_LOG_WARN, "rows-repeat",
			       "%s: column \"%.60s\" has %lld different values in %lld rows, and data.split divides "
			       "the "
			       "rows one by one. If a value is one patient or customer, set data.split.by: \"%.60s\": "
			       "else figures are too good",
			       s->path, name, (long long)values, (long long)n, name);
	}
	free(row);
}

enum sl_err sl_csv_keys(const struct sl_csv *s, const struct sl_set_spec *spec, uint64_t **key, int *by,
			struct sl_fail *fail)
{
	const struct sl_parts *parts = spec->parts;
	enum sl_err err;

	sl_csv_warn_repeats(s, spec);
	*by = parts->by[0] ? sl_csv_find(s, parts->by) : -1;
	if (*by < 0 && parts->by[0])
		return sl_csv_lacks(s, "data.split.by", parts->by, fail);
	err = *by < 0 ? SL_OK : sl_csv_check_key_column(s, *by, fail);
	*key = err ? NULL : calloc((size_t)s->rows, sizeof **key);
	if (err || !*key)
		return err ? err : no_memory(fail);
	for (int64_t r = 0; r < s->rows; r++)
		for (int i = *by < 0 ? 0 : *by; i < (*by < 0 ? s->columns : *by + 1); i++) {
			const uint64_t one = sl_parts_key(sl_csv_cell(s, r, i), strlen(sl_csv_cell(s, r, i)));
			const uint64_t both[2] = {(*key)[r], one};

			(*key)[r] = *by < 0 ? sl_parts_key(both, sizeof both) : one;
		}
	for (int64_t r = 0; r < s->rows && parts->by_place; r++)
		(*key)[r] = (uint64_t)r;
	return SL_OK;
}
