#include "client/data/label_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/data/csv_column.h"
#include "client/data/nifti.h"
#include "client/data/parts.h"
#include "client/data/picture.h"
#include "common/base/grow.h"
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
	char names[60];
	enum sl_err err = SL_OK;

	snprintf(names, sizeof names, "%sit names the %ss", spec->labels ? "data.label_id: " : "", t->what);
	if (name < 0)
		return sl_csv_lacks(s, names, id, fail);
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
					  "%s: \"%.120s\" is in two rows: a %s has one, with all its numbers or "
					  "labels",
					  t->path, sl_name(&t->picture, twice[0]), t->what);
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
		out->what = spec->volume ? "case" : "picture";
		err = sl_csv_read(s, fail);
	}
	if (!err)
		err = sl_csv_targets(s, spec, &column, fail);
	if (!err)
		err = take_rows(out, s, spec, column, fail);
	if (!err && !spec->labels) /* others are compared by picture */
		err = check_once(out, fail);
	if (!err && spec->labels && spec->parts && spec->parts->by[0])
		err = sl_csv_keys(s, spec, &out->key, &by, fail);
	else if (!err && spec->labels && spec->parts)
		sl_csv_warn_repeats(s, spec);
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

/* A way to name a picture; the first one that matches counts. */
struct spelling {
	const char *name;
	int how; /* 0: the path, 1: without its ending; 2: an end of the path, 3: without its ending */
	int64_t of;
};

static int by_name_alone(const void *a, const void *b)
{
	return strcmp(((const struct spelling *)a)->name, ((const struct spelling *)b)->name);
}

static int by_name(const void *a, const void *b)
{
	const struct spelling *x = a, *y = b;
	const int order = by_name_alone(a, b);

	return order ? order : x->how != y->how ? x->how - y->how : (x->of > y->of) - (x->of < y->of);
}

/* All names of all pictures, sorted: *all [text->n]. False: no memory. */
static bool spell(const struct sl_names *paths, struct spelling **all, struct sl_names *text)
{
	size_t cap = 0;
	bool fits = true;

	for (int64_t i = 0; i < paths->n; i++)
		for (const char *path = sl_name(paths, i), *at = path; at && fits;
		     at = strchr(at, '/'), at += at != NULL)
			for (int bare = 0; bare < 2 && fits; bare++) {
				char name[PATH_MAX];

				const char *end = sl_nifti_ending(at);
				const size_t stem = end ? strlen(at) - strlen(end) : sl_picture_stem(at);

				snprintf(name, sizeof name, "%.*s", (int)(bare ? stem : strlen(at)), at);
				fits = sl_grow(all, &cap, (size_t)text->n + 1, sizeof **all);
				if (fits)
					(*all)[text->n] = (struct spelling){NULL, 2 * (at > path) + bare, i};
				fits = fits && sl_names_add(text, name);
			}
	for (int64_t i = 0; i < text->n && fits; i++) /* once the texts no longer move */
		(*all)[i].name = sl_name(text, i);
	if (fits && text->n)
		qsort(*all, (size_t)text->n, sizeof **all, by_name);
	return fits;
}

/* The first spelling of `n` that is `name`; NULL: none is. */
static const struct spelling *find(const struct spelling *all, int64_t n, const char *name)
{
	const struct spelling want = {.name = name};
	const struct spelling *at = n ? bsearch(&want, all, (size_t)n, sizeof *all, by_name_alone) : NULL;

	while (at > all && strcmp(at[-1].name, name) == 0)
		at--;
	return at;
}

enum { SEVERAL, TWICE, NO_PICTURE, NO_ROW, FAULTS };

static enum sl_err say(const struct sl_label_table *t, const struct fault f[FAULTS], bool warns, struct sl_fail *fail)
{
	static const struct {
		const char *id, *what, *advice; /* `what` with %s for "picture" or "case" */
	} words[FAULTS] = {{NULL, "names that several %ss have", "write their paths below data.dir"},
			   {NULL, "%ss in more than one row", "a %s has one row"},
			   {"rows-without-picture", "rows without a %s", "they are left out"},
			   {"pictures-without-row", "%ss without a row", "they are left out"}};
	char what[FAULTS][48], advice[FAULTS][40];

	for (int i = 0; i < FAULTS; i++) {
		snprintf(what[i], sizeof what[i], words[i].what, t->what);
		snprintf(advice[i], sizeof advice[i], words[i].advice, t->what);
	}
	for (int i = 0; i < FAULTS; i++)
		if (f[i].n && !words[i].id)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: %s: %" PRId64 ", such as %s: %s", t->path, what[i],
					   f[i].n, f[i].names, advice[i]);
	if (f[NO_PICTURE].n == t->picture.n)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: no row names a %s below data.dir: rows have %s, and %ss %s",
				   t->path, t->what, f[NO_PICTURE].names, t->what,
				   f[NO_ROW].n ? f[NO_ROW].names : "there are none");
	for (int i = NO_PICTURE; i < FAULTS && warns; i++)
		if (f[i].n)
			sl_log(SL_LOG_WARN, words[i].id, "%s: %s: %" PRId64 ", such as %s: %s", t->path, what[i],
			       f[i].n, f[i].names, advice[i]);
	return SL_OK;
}

enum sl_err sl_label_table_match(const struct sl_label_table *t, const struct sl_names *paths, bool warns, int64_t **at,
				 struct sl_fail *fail)
{
	struct sl_names text = {0};
	struct spelling *all = NULL;
	int *rows = calloc((size_t)paths->n + 1, sizeof *rows); /* of each picture */
	struct fault fault[FAULTS] = {{.n = 0}};
	bool fits = spell(paths, &all, &text) && rows && (*at = malloc((size_t)t->picture.n * sizeof **at + 1)) != NULL;
	enum sl_err err;

	for (int64_t r = 0; r < t->picture.n && fits; r++) {
		const char *name = sl_name(&t->picture, r);
		const struct spelling *one = find(all, text.n, name);

		(*at)[r] = one ? one->of : -1;
		if (!one)
			note(&fault[NO_PICTURE], name);
		else if (one + 1 < all + text.n && strcmp(one[1].name, name) == 0 && one[1].how == one->how)
			note(&fault[SEVERAL], name);
		else if (rows[one->of]++ == 1)
			note(&fault[TWICE], name);
	}
	for (int64_t k = 0; k < paths->n && fits; k++)
		if (!rows[k])
			note(&fault[NO_ROW], sl_name(paths, k));
	err = fits ? say(t, fault, warns, fail) : no_memory(fail);
	sl_names_close(&text);
	free(all);
	free(rows);
	return err;
}

void sl_label_table_warn_of_parts(const struct sl_label_table *t, const struct sl_names *paths, const int64_t *at,
				  const char *dir, const char *root)
{
	struct fault beside = {.n = 0};

	for (int64_t r = 0; r < t->picture.n && strcmp(dir, root) != 0; r++)
		if (at[r] >= 0 && !sl_set_in_part(sl_name(paths, at[r])))
			note(&beside, sl_name(&t->picture, r));
	if (beside.n)
		sl_log(SL_LOG_WARN, "rows-of-no-part",
		       "%s: rows whose %s lies in no folder of a part, such as train or val: %" PRId64
		       ", such as %s: they are left out",
		       t->path, t->what, beside.n, beside.names);
}
