#include "client/data/csv_ids.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/parts.h"
#include "common/base/log.h"
#include "common/graph/op.h"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a table");
}

static const char *const words[] = {"", "numbers", "texts", "buckets"};

/* ---- which columns */

enum sl_err sl_csv_ids_mark(struct sl_csv_column *column, const struct sl_csv *s, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	for (int i = 0; i < spec->nid_columns; i++) {
		const char *item = spec->id_column[i];
		const int named = sl_csv_find(s, item);
		int at = sl_csv_next(s, item, 0);

		if (at < 0)
			return sl_csv_lacks(s, "data.ids", item, fail);
		if (named >= 0 && (column[named].left_out || column[named].dated))
			return sl_fail_at(fail, "data.ids", SL_ERR_DATA,
					  "names the column \"%.60s\", which is %s: take it out of one of both", item,
					  column[named].dated ? "one of data.dates" : "a label, or left out");
		for (; at >= 0; at = sl_csv_next(s, item, at + 1)) {
			column[at].ids = spec->buckets ? SL_CSV_IDS_BUCKETS : SL_CSV_IDS_TEXTS;
			column[at].rows = spec->buckets;
		}
	}
	return SL_OK;
}

/* ---- the numbers */

/* A whole number from 0 on, below SL_LOOKUP_MOST. */
static bool read_id(const char *cell, double *out)
{
	return sl_text_number(cell, out) && *out >= 0 && *out < SL_LOOKUP_MOST && *out == floor(*out);
}

/* Whether all cells are ids already; *rows: how many rows a table needs. A missing cell is none. */
static bool are_numbers(const struct sl_csv *s, int column, bool fill, int64_t *rows, int64_t *missing)
{
	double id;

	*rows = 0;
	*missing = -1;
	for (int64_t r = 0; r < s->rows; r++) {
		if (fill && sl_csv_is_missing(sl_csv_cell(s, r, column)))
			*missing = r;
		else if (!read_id(sl_csv_cell(s, r, column), &id))
			return false;
		else if (id >= (double)*rows)
			*rows = (int64_t)id + 1;
	}
	return *rows > 0;
}

/* The different texts, in byte order, so that a search can halve them. */
static bool learn_texts(struct sl_csv_column *c, const struct sl_csv *s, bool fill)
{
	struct sl_names all = {0};
	bool fits = true;

	for (int64_t r = 0; r < s->rows && fits; r++)
		fits = (fill && sl_csv_is_missing(sl_csv_cell(s, r, c->at))) ||
		       sl_names_add(&all, sl_csv_cell(s, r, c->at));
	sl_names_sort(&all);
	for (int64_t i = 0; i < all.n && fits; i++)
		fits = (i && strcmp(sl_name(&all, i), sl_name(&all, i - 1)) == 0) ||
		       sl_names_add(&c->text, sl_name(&all, i));
	sl_names_close(&all);
	return fits;
}

static enum sl_err learn_ids(struct sl_csv_column *c, const struct sl_csv *s, bool fill, struct sl_fail *fail)
{
	int64_t rows, missing;

	c->n = 1;
	c->name = strdup(sl_name(&s->header, c->at));
	if (!c->name)
		return no_memory(fail);
	if (c->ids == SL_CSV_IDS_BUCKETS)
		return SL_OK;
	if (are_numbers(s, c->at, fill, &rows, &missing)) {
		c->ids = SL_CSV_IDS_NUMBERS;
		c->rows = rows;
		return missing < 0 ? SL_OK
				   : sl_csv_fail_empty(s, missing, c->at,
						       "its column has whole numbers as ids, of which none stands for "
						       "a missing cell: write one, or set data.buckets",
						       fail);
	}
	if (!learn_texts(c, s, fill))
		return no_memory(fail);
	c->rows = c->text.n + 1;
	if (c->rows > SL_LOOKUP_MOST)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: column \"%.60s\" has %lld different texts, where %d are the most: set "
				   "data.buckets",
				   s->path, c->name, (long long)c->text.n, SL_LOOKUP_MOST - 1);
	return SL_OK;
}

enum sl_err sl_csv_feature_learn(struct sl_csv_column *c, const struct sl_csv *s, int at, const bool *own, bool fill,
				 struct sl_fail *fail)
{
	c->at = at;
	return c->ids ? learn_ids(c, s, fill, fail) : sl_csv_column_learn(c, s, at, own, fill, fail);
}

/* Warns if a few cells turn a column of numbers into texts. */
static void warn_of_words(const struct sl_csv_column *c, const struct sl_csv *s, const struct sl_csv_tally *n,
			  bool fill)
{
	int64_t odd = 0;
	double id;

	while (odd < s->rows &&
	       ((fill && sl_csv_is_missing(sl_csv_cell(s, odd, c->at))) || read_id(sl_csv_cell(s, odd, c->at), &id)))
		odd++;
	if (2 * n->numbers > s->rows && odd < s->rows)
		sl_log(SL_LOG_WARN, "column-of-words",
		       "%s:%zu: column \"%.60s\": \"%.60s\" is no id, which is a whole number from 0 to %d: so all "
		       "cells "
		       "count as texts, with ids by their order, though %lld of %lld are numbers",
		       s->path, sl_csv_line(s, odd), c->name, sl_csv_cell(s, odd, c->at), SL_LOOKUP_MOST - 1,
		       (long long)n->numbers, (long long)s->rows);
}

int64_t sl_csv_feature_warn(const struct sl_csv_column *c, const struct sl_csv *s, bool fill)
{
	const struct sl_csv_tally n = sl_csv_count(s, c->at, NULL, fill);

	if (!c->ids)
		return sl_csv_column_warn(c, s, fill);
	if (c->ids == SL_CSV_IDS_TEXTS) {
		warn_of_words(c, s, &n, fill);
		sl_csv_warn_alike(s->path, c->name, &c->text);
	}
	return n.missing;
}

/* The place of a text from 1 on; 0: it does not occur in training. */
static int64_t place_of(const struct sl_names *list, const char *text)
{
	int64_t low = 0, high = list->n;

	while (low < high) {
		const int64_t at = low + (high - low) / 2;
		const int order = strcmp(sl_name(list, at), text);

		if (!order)
			return at + 1;
		low = order < 0 ? at + 1 : low;
		high = order < 0 ? high : at;
	}
	return 0;
}

enum sl_err sl_csv_feature_encode(const struct sl_csv_column *c, const struct sl_csv *s, int64_t row, float *x,
				  bool fill, struct sl_csv_unknown *unknown, struct sl_fail *fail)
{
	const char *cell = sl_csv_cell(s, row, c->at);
	const bool missing = sl_csv_is_missing(cell);
	double id = 0;

	if (!c->ids)
		return sl_csv_column_encode(c, s, row, x, fill ? unknown : NULL, fail);
	if (c->ids == SL_CSV_IDS_NUMBERS) {
		if (!read_id(cell, &id))
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s:%zu: column \"%.60s\": \"%.60s\" is no id: a whole number from 0 to %d, "
					   "as all of training's are",
					   s->path, sl_csv_line(s, row), c->name, cell, SL_LOOKUP_MOST - 1);
		if (c->room && id >= c->room)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s:%zu: column \"%.60s\": the network has %d rows for ids, and %.60s would "
					   "be row %.0f from 0 on: give nn.Embedding more rows",
					   s->path, sl_csv_line(s, row), c->name, c->room, cell, id);
	} else if (c->ids == SL_CSV_IDS_BUCKETS) {
		id = missing ? 0 : 1 + (double)(sl_parts_key(cell, strlen(cell)) % (uint64_t)(c->rows - 1));
	} else {
		id = (double)place_of(&c->text, cell);
		if (!id && !missing && !unknown->cells++)
			(void)sl_csv_fail_unknown_text(s, row, c->at, ", and has the id 0", &unknown->first);
	}
	x[0] = (float)id;
	return SL_OK;
}

/* ---- what the network looks up */

static enum sl_err fit_column(struct sl_csv_column *c, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const int64_t room = spec->room[c->first];

	for (int i = 0; i < c->n && !c->ids; i++)
		if (spec->room[c->first + i])
			return sl_fail_at(fail, "data.ids", SL_ERR_CONFIG,
					  "the network looks up number %d of a row in an embedding, which is of column "
					  "\"%.60s\": name that here, or move data.ignore and the network's columns so "
					  "that they agree",
					  c->first + i, c->name);
	if (!c->ids)
		return SL_OK;
	if (!room)
		return sl_fail_at(fail, "data.ids", SL_ERR_CONFIG,
				  "the network computes with number %d of a row, and looks it up nowhere, where column "
				  "\"%.60s\" has ids: take that out of data.ids",
				  c->first, c->name);
	c->room = (int)room;
	if (c->rows <= room)
		return SL_OK;
	return sl_fail_at(
		fail, "data.ids", SL_ERR_CONFIG,
		c->ids == SL_CSV_IDS_NUMBERS
			? "column \"%.60s\" has ids up to %lld, and the network looks them up in %lld rows: "
			  "give nn.Embedding %lld"
			: "column \"%.60s\" has ids 0 to %lld, of which 0 is for what training lacks, and the "
			  "network looks them up in %lld rows: give nn.Embedding %lld, or set data.buckets",
		c->name, (long long)c->rows - 1, (long long)room, (long long)c->rows);
}

enum sl_err sl_csv_ids_fit(struct sl_csv_column *column, int columns, const struct sl_set_spec *spec,
			   struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < columns && !err; i++)
		if (!column[i].left_out)
			err = fit_column(&column[i], spec, fail);
	return err;
}

/* ---- what the model's file says */

json_t *sl_csv_feature_describe(const struct sl_csv_column *c)
{
	json_t *out, *texts = c->ids == SL_CSV_IDS_TEXTS ? json_array() : NULL;

	if (!c->ids)
		return sl_csv_column_describe(c);
	out = json_pack("{s:s, s:s, s:I}", "name", c->name, "ids", words[c->ids], "rows", (json_int_t)c->rows);
	for (int64_t k = 0; k < c->text.n && texts; k++)
		json_array_append_new(texts, json_string(sl_name(&c->text, k)));
	if (texts)
		json_object_set_new(out, "texts", texts);
	return out;
}

enum sl_err sl_csv_feature_recall(struct sl_csv_column *c, const json_t *from, struct sl_fail *fail)
{
	const char *word = json_string_value(json_object_get(from, "ids"));
	const char *name = json_string_value(json_object_get(from, "name"));
	const json_t *texts = json_object_get(from, "texts");
	bool fits = name != NULL;

	if (!word)
		return sl_csv_column_recall(c, from, fail);
	for (int i = SL_CSV_IDS_NUMBERS; i <= SL_CSV_IDS_BUCKETS && fits; i++)
		c->ids = strcmp(word, words[i]) == 0 ? (enum sl_csv_ids)i : c->ids;
	c->n = 1;
	c->rows = json_integer_value(json_object_get(from, "rows"));
	c->name = name ? strdup(name) : NULL;
	for (size_t i = 0; i < json_array_size(texts) && fits; i++) {
		const char *text = json_string_value(json_array_get(texts, i));

		fits = text && sl_names_add(&c->text, text) &&
		       (!i || strcmp(sl_name(&c->text, (int64_t)i - 1), text) < 0);
	}
	if (!fits || !c->name || !c->ids || c->rows < 1 || c->rows > SL_LOOKUP_MOST ||
	    (c->ids == SL_CSV_IDS_BUCKETS && c->rows < 2) || (c->ids == SL_CSV_IDS_TEXTS && c->rows != c->text.n + 1))
		return sl_fail_set(fail, SL_ERR_DATA, "the model's file is damaged: a column of ids says no numbering");
	return SL_OK;
}
