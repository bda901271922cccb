#include "client/data/label_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/data/csv_column.h"
#include "client/data/parts.h"
#include "client/data/picture.h"
#include "common/base/log.h"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a table of labels");
}

/* How many of one fault there are, and the first names. */
struct fault {
	int64_t n;
	char names[220];
};

static void note(struct fault *f, const char *name)
{
	const size_t len = strlen(f->names);

	if (f->n++ < 3)
		snprintf(f->names + len, sizeof f->names - len, "%s\"%.60s\"", len ? ", " : "", name);
	sl_text_make_safe(f->names, '?');
}

/* ---- rows */

/* The class of each row, by name. */
static enum sl_err take_classes(struct sl_label_table *t, const struct sl_csv *s, int column, struct sl_fail *fail)
{
	struct fault without = {.n = 0};
	enum sl_err err;

	for (int64_t r = 0; r < s->rows; r++)
		if (sl_csv_lacks_label(sl_csv_cell(s, r, column)))
			note(&without, sl_name(&t->picture, r));
	if (without.n)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: rows without a label in \"%.60s\": %" PRId64
				   ", such as %s: fill such cells, or leave the rows out",
				   s->path, sl_name(&s->header, column), without.n, without.names);
	err = sl_csv_different(&t->classes, s, column, false, fail);
	if (!err && t->classes.n < 2)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s: all rows have the same label; a classifier needs two classes or more", s->path);
	if (!err)
		err = sl_csv_check_alike(s->path, "labels", &t->classes, fail);
	for (int64_t r = 0; r < s->rows && !err; r++)
		t->label[r].label = sl_csv_place(&t->classes, sl_csv_cell(s, r, column));
	return err;
}

static enum sl_err take_rows(struct sl_label_table *t, const struct sl_csv *s, const struct sl_set_spec *spec,
			     const int *column, struct sl_fail *fail)
{
	const char *id = spec->labels ? spec->label_id : "file";
	const int name = sl_csv_find(s, id);
	enum sl_err err = SL_OK;

	if (name < 0)
		return sl_csv_lacks(s, spec->labels ? "data.label_id: it names the pictures" : "it names the pictures",
				    id, fail);
	t->label = calloc((size_t)s->rows * (size_t)spec->nlabels, sizeof *t->label);
	if (!t->label)
		return no_memory(fail);
	for (int64_t r = 0; r < s->rows && !err; r++) {
		if (!*sl_csv_cell(s, r, name))
			return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: the cell of column \"%.60s\" is empty", s->path,
					   sl_csv_line(s, r), id);
		if (!sl_names_add(&t->picture, sl_csv_cell(s, r, name)))
			return no_memory(fail);
		if (spec->task && !spec->task->met)
			err = sl_csv_target(s, spec, r, column, t->label + r * spec->nlabels, fail);
	}
	return err || (spec->task && !spec->task->met) ? err : take_classes(t, s, column[0], fail);
}

/* DATA: a picture is in two rows. */
static enum sl_err check_once(const struct sl_label_table *t, struct sl_fail *fail)
{
	int64_t twice[2];

	if (!sl_names_twice(&t->picture, twice))
		return no_memory(fail);
	return twice[0] < 0 ? SL_OK
			    : sl_fail_set(fail, SL_ERR_DATA,
					  "%s: \"%.120s\" is in two rows: a picture has one, with all its numbers or "
					  "labels",
					  t->path, sl_name(&t->picture, twice[0]));
}

static enum sl_err name_file(struct sl_csv *s, const char *dir, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (spec->labels)
		snprintf(s->path, sizeof s->path, "%s", spec->labels);
	else
		err = sl_csv_name(s, dir, spec->split, fail);
	if (!err && !spec->labels && access(s->path, F_OK) != 0)
		err = sl_fail_set(fail, SL_ERR_NOINPUT,
				  "%s is missing: it names pictures and their numbers or labels; pictures in folders "
				  "of classes need model.classes of 2 or more",
				  s->path);
	return err;
}

enum sl_err sl_label_table_read(struct sl_label_table *out, const char *dir, const struct sl_set_spec *spec,
				struct sl_fail *fail)
{
	struct sl_csv *s = calloc(1, sizeof *s);
	int *column = NULL, by;
	enum sl_err err = s ? name_file(s, dir, spec, fail) : no_memory(fail);

	if (!err) {
		s->form = spec->form;
		snprintf(out->path, sizeof out->path, "%s", s->path);
		err = sl_csv_read(s, fail);
	}
	if (!err)
		err = sl_csv_targets(s, spec, &column, fail);
	if (!err)
		err = take_rows(out, s, spec, column, fail);
	if (!err && !spec->labels) /* others are compared by picture */
		err = check_once(out, fail);
	if (!err && spec->labels && spec->parts && spec->parts->by[0])
		err = sl_csv_keys(s, spec->parts, &out->key, &by, fail);
	if (s)
		sl_csv_close(s);
	free(column);
	free(s);
	return err;
}

void sl_label_table_close(struct sl_label_table *t)
{
	sl_names_close(&t->picture);
	sl_names_close(&t->classes);
	free(t->label);
	free(t->key);
	*t = (struct sl_label_table){.path = ""};
}

/* ---- pictures */

/* How a name is that of a picture; the first that matches counts. The end of a path begins behind a slash. */
enum how { WHOLE_PATH, WITHOUT_ENDING, END_OF_PATH, END_WITHOUT_ENDING };

/* A way to name a picture. */
struct spelling {
	const char *name;
	enum how how;
	int64_t of;
};

static int by_name(const void *a, const void *b)
{
	const struct spelling *x = a, *y = b;
	const int order = strcmp(x->name, y->name);

	return order              ? order
	       : x->how != y->how ? (x->how > y->how) - (x->how < y->how)
				  : (x->of > y->of) - (x->of < y->of);
}

/* Adds a name with its ending and without. */
static bool add_both(struct spelling *all, struct sl_names *text, const char *name, enum how how, int64_t of)
{
	char stem[PATH_MAX];

	snprintf(stem, sizeof stem, "%.*s", (int)sl_picture_stem(name), name);
	all[text->n] = (struct spelling){.how = how, .of = of};
	all[text->n + 1] = (struct spelling){.how = how + 1, .of = of};
	return sl_names_add(text, name) && sl_names_add(text, stem);
}

/* All names of all pictures, sorted. NULL: no memory. */
static struct spelling *spell(const struct sl_names *paths, struct sl_names *text)
{
	struct spelling *all;
	size_t n = 0;
	bool fits;

	for (int64_t i = 0; i < paths->n; i++)
		for (const char *at = sl_name(paths, i); at; at = strchr(at + 1, '/'))
			n += 2;
	all = malloc(n * sizeof *all + 1);
	fits = all != NULL;
	for (int64_t i = 0; i < paths->n && fits; i++) {
		const char *at = sl_name(paths, i);

		fits = add_both(all, text, at, WHOLE_PATH, i);
		while (fits && (at = strchr(at, '/')) != NULL)
			fits = add_both(all, text, ++at, END_OF_PATH, i);
	}
	for (int64_t i = 0; i < text->n && fits; i++) /* once the texts no longer move */
		all[i].name = sl_name(text, i);
	if (fits && text->n)
		qsort(all, (size_t)text->n, sizeof *all, by_name);
	if (fits)
		return all;
	free(all);
	return NULL;
}

/* The first spelling of `n` that is `name`, or its end. */
static int64_t find(const struct spelling *all, int64_t n, const char *name)
{
	int64_t low = 0;

	for (int64_t high = n; low < high;) {
		const int64_t middle = low + (high - low) / 2;

		if (strcmp(all[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && strcmp(all[low].name, name) == 0 ? low : n;
}

enum { TWICE, SEVERAL, NO_PICTURE, NO_ROW, FAULTS };

static enum sl_err say(const struct sl_label_table *t, const struct sl_names *paths, const struct fault f[FAULTS],
		       bool warns, struct sl_fail *fail)
{
	if (f[SEVERAL].n)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: names that several pictures have: %" PRId64
				   ", such as %s: write their paths below data.dir",
				   t->path, f[SEVERAL].n, f[SEVERAL].names);
	if (f[TWICE].n)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: pictures in more than one row: %" PRId64 ", such as %s: a picture has one row",
				   t->path, f[TWICE].n, f[TWICE].names);
	if (f[NO_PICTURE].n == t->picture.n)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: no row names a picture below data.dir: rows have %s, and pictures %s", t->path,
				   f[NO_PICTURE].names, paths->n ? f[NO_ROW].names : "there are none");
	if (f[NO_PICTURE].n && warns)
		sl_log(SL_LOG_WARN, "rows-without-picture",
		       "%s: rows without a picture: %" PRId64 " of %" PRId64 ", such as %s: they are left out", t->path,
		       f[NO_PICTURE].n, t->picture.n, f[NO_PICTURE].names);
	if (f[NO_ROW].n && warns)
		sl_log(SL_LOG_WARN, "pictures-without-row",
		       "%s: pictures without a row: %" PRId64 " of %" PRId64 ", such as %s: they are left out", t->path,
		       f[NO_ROW].n, paths->n, f[NO_ROW].names);
	return SL_OK;
}

enum sl_err sl_label_table_match(const struct sl_label_table *t, const struct sl_names *paths, bool warns, int64_t **at,
				 struct sl_fail *fail)
{
	struct sl_names text = {0};
	struct spelling *all = spell(paths, &text);
	int *rows = calloc((size_t)paths->n + 1, sizeof *rows); /* of each picture */
	struct fault fault[FAULTS] = {{.n = 0}};
	enum sl_err err;

	*at = malloc((size_t)t->picture.n * sizeof **at + 1);
	for (int64_t r = 0; r < t->picture.n && *at && all && rows; r++) {
		const char *name = sl_name(&t->picture, r);
		const int64_t i = find(all, text.n, name);
		const struct spelling *one = &all[i];

		(*at)[r] = i < text.n ? one->of : -1;
		if (i == text.n)
			note(&fault[NO_PICTURE], name);
		else if (i + 1 < text.n && strcmp(one[1].name, name) == 0 && one[1].how == one->how)
			note(&fault[SEVERAL], name);
		else if (rows[one->of]++ == 1)
			note(&fault[TWICE], name);
	}
	for (int64_t k = 0; k < paths->n && rows; k++)
		if (!rows[k])
			note(&fault[NO_ROW], sl_name(paths, k));
	err = *at && all && rows ? say(t, paths, fault, warns, fail) : no_memory(fail);
	sl_names_close(&text);
	free(all);
	free(rows);
	return err;
}
