/* Tables: CSV files with a header line and a column of labels. */
#include <fnmatch.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/data/csv_ids.h"
#include "client/data/parts.h"
#include "client/data/sources.h"
#include "common/base/log.h"

enum { MOST_FEATURES = 65536 };

/* What a set's `data` points to. */
struct table {
	struct sl_csv_column *column; /* [columns] */
	struct sl_names labels;       /* names of the classes in their order; or of the target's numbers or labels */
	int columns, features;
	int *target, targets; /* target [targets]: indices of the target columns; a class has one */
	bool given;           /* rows are to be predicted, and have no targets */
	bool recalled;        /* columns and classes come from spec.about */
	bool fill;            /* cells may be missing */
	float *x;             /* [rows, features] */
	union sl_label *y;    /* [rows, targets] */
	struct sl_names name; /* [rows]: file and line */
	struct sl_names id;   /* [rows], with spec.id: that column */
	uint64_t *key;        /* [rows of the training file], with data.split; NULL: without */
	int64_t rows;
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a table");
}

/* Whether a label is missing. A text such as "NA" is a label if the model has learned it as a class. */
static bool lacks_label(const struct table *t, const char *cell)
{
	return sl_csv_lacks_label(cell) && !(t->recalled && *cell && sl_csv_place(&t->labels, cell) >= 0);
}

/* DATA: a label is missing; unless cells may be missing, a cell that is read; a number has the wrong decimal mark. */
static enum sl_err check_cells(const struct table *t, const struct sl_csv *s, struct sl_fail *fail)
{
	for (int i = 0; i < t->columns; i++)
		if (!t->column[i].left_out && sl_csv_check_marks(s, t->column[i].at, fail) != SL_OK)
			return SL_ERR_DATA;
	for (int64_t r = 0; r < s->rows; r++) {
		for (int i = 0; i < t->columns && !t->fill; i++)
			if (!t->column[i].left_out && !*sl_csv_cell(s, r, t->column[i].at))
				return sl_csv_fail_empty(
					s, r, t->column[i].at,
					t->given ? "fill such cells"
						 : "fill such cells, name the column in data.ignore, or "
						   "set data.missing: mean",
					fail);
		for (int i = 0; i < t->targets && !t->given; i++)
			if (lacks_label(t, sl_csv_cell(s, r, t->target[i])))
				return sl_csv_fail_empty(
					s, r, t->target[i],
					*sl_csv_cell(s, r, t->target[i])
						? "leave such rows out; if it is a class, give it another name"
						: "fill such cells, or leave the rows out",
					fail);
	}
	return SL_OK;
}

/* ---- what the training file says ---- */

/* Whether rows have classes, and not numbers or several labels. */
static bool has_classes(const struct sl_set_spec *spec)
{
	return !spec->task || spec->task->met;
}

/* Without classes, adds the names of the target columns. */
static bool add_targets(struct table *t, const struct sl_set_spec *spec)
{
	bool fits = true;

	for (int i = 0; i < spec->nlabels && !has_classes(spec) && fits; i++)
		fits = sl_names_add(&t->labels, spec->label[i]);
	return fits;
}

static enum sl_err learn_labels(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec,
				struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (spec->unlabelled)
		return SL_OK;
	if (!add_targets(t, spec))
		return no_memory(fail);
	if (has_classes(spec))
		err = sl_csv_different(&t->labels, s, t->target[0], false, fail);
	if (!err && has_classes(spec) && t->labels.n < 2)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s: all rows have the same label; a classifier needs two classes or more", s->path);
	if (!err && has_classes(spec))
		err = sl_csv_check_alike(s->path, "labels", &t->labels, fail);
	return err;
}

/* Marks the columns of dates and of ids. */
static enum sl_err mark_kinds(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec,
			      struct sl_fail *fail)
{
	for (int i = 0; i < spec->ndates; i++) {
		const int column = sl_csv_find(s, spec->date[i]);

		if (column < 0)
			return sl_csv_lacks(s, "data.dates", spec->date[i], fail);
		t->column[column].dated = true;
	}
	return sl_csv_ids_mark(t->column, s, spec, fail);
}

/* Decides which columns of the training file are read. */
static enum sl_err choose_columns(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec,
				  struct sl_fail *fail)
{
	enum sl_err err = spec->unlabelled ? SL_OK : sl_csv_targets(s, spec, &t->target, fail);
	int by = -1;

	if (err)
		return err;
	t->columns = s->columns;
	t->column = calloc((size_t)s->columns, sizeof *t->column);
	if (!t->column)
		return no_memory(fail);
	for (int i = 0; i < t->columns; i++)
		t->column[i].at = i;
	for (int i = 0; i < spec->nlabels; i++) {
		const int target = spec->unlabelled ? sl_csv_find(s, spec->label[i]) : t->target[i];

		if (target >= 0) /* labels that are not read are no features */
			t->column[target].left_out = true;
	}
	for (int i = 0; i < spec->nignore; i++) {
		const int column = sl_csv_find(s, spec->ignore[i]);
		bool found = false;

		for (int k = 0; k < t->columns; k++) {
			const char *name = sl_name(&s->header, k);
			const bool is = column < 0 ? fnmatch(spec->ignore[i], name, FNM_NOESCAPE) == 0 : k == column;

			t->column[k].left_out |= is;
			found |= is;
		}
		if (!found)
			return sl_csv_lacks(s, "data.ignore", spec->ignore[i], fail);
	}
	if (spec->id && *spec->id) {
		const int id = sl_csv_find(s, spec->id);

		if (id < 0)
			return sl_csv_lacks(s, "data.id", spec->id, fail);
		t->column[id].left_out = true;
	}
	err = mark_kinds(t, s, spec, fail);
	if (!err && spec->parts)
		err = sl_csv_keys(s, spec, &t->key, &by, fail);
	if (by >= 0 && !t->recalled)
		t->column[by].left_out = true;
	return err ? err : check_cells(t, s, fail);
}

static enum sl_err learn_columns(struct table *t, const struct sl_csv *s, const struct sl_parts *parts,
				 struct sl_fail *fail)
{
	bool *own = malloc((size_t)s->rows * sizeof *own); /* rows of training's part, for mean and deviation */
	enum sl_err err = own ? SL_OK : no_memory(fail);

	for (int64_t r = 0; r < s->rows && own; r++)
		own[r] = !t->key || sl_parts_of(parts, t->key[r]) == SL_PARTS_TRAIN;
	for (int i = 0; i < t->columns && !err; i++) {
		struct sl_csv_column *c = &t->column[i];

		if (c->left_out)
			continue;
		err = sl_csv_feature_learn(c, s, i, own, t->fill, fail);
		c->first = t->features;
		t->features += c->n;
	}
	free(own);
	return err;
}

static enum sl_err learn(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = choose_columns(t, s, spec, fail);

	if (!err)
		err = learn_columns(t, s, spec->parts, fail);
	if (!err)
		err = learn_labels(t, s, spec, fail);
	if (!err && ((t->features < 1 && !spec->blind) || t->features > MOST_FEATURES))
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: the columns make %d features, where 1 to %d may be", s->path,
				  t->features, MOST_FEATURES);
	return err;
}

/* Warns of suspicious columns, and says how many cells are missing. */
static void warn(const struct table *t, const struct sl_csv *s)
{
	int64_t missing = 0;

	for (int i = 0; i < t->columns; i++)
		missing += t->column[i].left_out ? 0 : sl_csv_feature_warn(&t->column[i], s, t->fill);
	if (missing)
		sl_log(SL_LOG_INFO, "missing-cells",
		       "%s: missing cells: %lld; a number counts as its column's mean, a text as none of its column's",
		       s->path, (long long)missing);
}

/* ---- what the model's file says ---- */

static void describe(const struct sl_set *set, json_t *about)
{
	const struct table *t = set->data;
	json_t *list = json_array();

	for (int i = 0; i < t->columns; i++)
		if (!t->column[i].left_out)
			json_array_append_new(list, sl_csv_feature_describe(&t->column[i]));
	json_object_set_new(about, "columns", list);
	if (t->fill)
		json_object_set_new(about, "missing", json_string("mean"));
}

static enum sl_err recall_labels(struct table *t, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const json_t *list = json_object_get(spec->about, "classes");
	bool fits = true;

	for (size_t i = 0; i < json_array_size(list) && has_classes(spec) && fits; i++) {
		const char *name = json_string_value(json_array_get(list, i));

		fits = sl_names_add(&t->labels, name ? name : "");
	}
	if (!fits || !add_targets(t, spec))
		return no_memory(fail);
	return t->labels.n || t->given ? SL_OK : sl_fail_set(fail, SL_ERR_DATA, "the model's file names no classes");
}

/* Reads what `describe` wrote, and the names of the classes. */
static enum sl_err recall(struct table *t, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const json_t *list = json_object_get(spec->about, "columns");
	const size_t n = json_array_size(list);
	enum sl_err err = SL_OK;

	t->recalled = true;
	if ((!n && !spec->blind) || n > MOST_FEATURES)
		return sl_fail_set(fail, SL_ERR_DATA, "the model's file has no columns of a table");
	t->column = calloc(n + 1, sizeof *t->column);
	if (!t->column)
		return no_memory(fail);
	t->columns = (int)n;
	t->fill |= json_object_get(spec->about, "missing") != NULL;
	for (int i = 0; i < t->columns && !err; i++) {
		err = sl_csv_feature_recall(&t->column[i], json_array_get(list, (size_t)i), fail);
		t->column[i].first = t->features;
		t->features += t->column[i].n;
	}
	if (!err && t->features > MOST_FEATURES)
		err = sl_fail_set(fail, SL_ERR_DATA, "the model's file has %d features, where %d are the most",
				  t->features, MOST_FEATURES);
	return err ? err : recall_labels(t, spec, fail);
}

/* Finds the model's columns in a file by name: they may be in any order, with others beside them. */
static enum sl_err find_columns(struct table *t, const struct sl_csv *s, struct sl_fail *fail)
{
	for (int i = 0; i < t->columns; i++) {
		struct sl_csv_column *c = &t->column[i];

		if (c->left_out)
			continue;
		c->at = sl_csv_find(s, c->name);
		if (c->at < 0)
			return sl_csv_lacks(s, "training has it", c->name, fail);
	}
	return check_cells(t, s, fail);
}

/* ---- rows ---- */

/* Encodes the row's class, numbers or labels. */
static enum sl_err encode_target(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, int64_t from,
				 union sl_label *y, struct sl_fail *fail)
{
	double number;

	if (t->given)
		return SL_OK;
	if (!has_classes(spec))
		return sl_csv_target(s, spec, from, t->target, y, fail);
	y->label = sl_csv_place(&t->labels, sl_csv_cell(s, from, t->target[0]));
	if (y->label >= 0)
		return SL_OK;
	return sl_csv_fail_unknown_text(s, from, t->target[0],
					sl_text_number(sl_csv_cell(s, from, t->target[0]), &number)
						? "; a quantity needs model.task: numbers"
						: "",
					fail);
}

static enum sl_err encode_row(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, int64_t from,
			      int64_t to, struct sl_csv_unknown *unknown, struct sl_fail *fail)
{
	float *x = t->x + to * t->features;
	enum sl_err err = encode_target(t, s, spec, from, t->y + to * t->targets, fail);

	for (int i = 0; i < t->columns && !err; i++)
		if (!t->column[i].left_out)
			err = sl_csv_feature_encode(&t->column[i], s, from, x + t->column[i].first, t->fill, unknown,
						    fail);
	return err;
}

/* Appends the rows of a file: at most `most`, spread evenly; 0: all. */
static enum sl_err encode(struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec, int64_t most,
			  struct sl_fail *fail)
{
	const int64_t more = most && most < s->rows ? most : s->rows, all = t->rows + more;
	float *x = realloc(t->x, (size_t)all * (size_t)t->features * sizeof *x + 1); /* maybe no feature */
	const int id = spec->id && *spec->id ? sl_csv_find(s, spec->id) : -1;
	union sl_label *y;
	struct sl_csv_unknown unknown = {.cells = 0};
	/* the caller refuses another number of features */
	enum sl_err err =
		spec->room && t->features == spec->rooms ? sl_csv_ids_fit(t->column, t->columns, spec, fail) : SL_OK;

	t->x = x ? x : t->x;
	y = realloc(t->y, (size_t)(all * t->targets) * sizeof *y);
	t->y = y ? y : t->y;
	if (!x || !y)
		return no_memory(fail);
	memset(x + t->rows * t->features, 0, (size_t)more * (size_t)t->features * sizeof *x);
	memset(y + t->rows * t->targets, 0, (size_t)(more * t->targets) * sizeof *y);
	for (int64_t r = 0; r < more && !err; r++, t->rows++) {
		const int64_t from = sl_set_spread(r, more, s->rows);
		char name[PATH_MAX + 32];

		snprintf(name, sizeof name, "%s:%zu", s->path, sl_csv_line(s, from));
		if (!sl_names_add(&t->name, name) || (id >= 0 && !sl_names_add(&t->id, sl_csv_cell(s, from, id))))
			return no_memory(fail);
		err = encode_row(t, s, spec, from, t->rows, &unknown, fail);
	}
	if (unknown.cells > 1)
		sl_log(SL_LOG_WARN, "unknown-texts", "%s; %lld further cells are such", unknown.first.text,
		       (long long)unknown.cells - 1);
	else if (unknown.cells)
		sl_log(SL_LOG_WARN, "unknown-texts", "%s", unknown.first.text);
	return err;
}

/* ---- the source ---- */

static void table_close(struct table *t)
{
	if (!t)
		return;
	for (int i = 0; i < t->columns && t->column; i++)
		sl_csv_column_close(&t->column[i]);
	free(t->column);
	sl_names_close(&t->labels);
	free(t->target);
	sl_names_close(&t->name);
	free(t->x);
	free(t->y);
	free(t->key);
	sl_names_close(&t->id);
	free(t);
}

/* Reads the files to predict, which have any names, and no labels. */
static enum sl_err fill_given(struct table *t, struct sl_csv *sheet, const struct sl_set_spec *spec,
			      struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < spec->ngiven && !err; i++) {
		if (snprintf(sheet->path, sizeof sheet->path, "%s", spec->given[i]) >= PATH_MAX)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", spec->given[i]);
		sheet->given = spec->rows;
		err = sl_csv_read(sheet, fail);
		if (!err)
			err = find_columns(t, sheet, fail);
		if (!err)
			err = encode(t, sheet, spec, 0, fail);
		sl_csv_close(sheet);
		*sheet = (struct sl_csv){.form = spec->form};
	}
	return err;
}

/* MISMATCH: a column of the model is a label here, or the config leaves it out. */
static enum sl_err check_recalled(const struct table *t, const struct sl_csv *s, const struct sl_set_spec *spec,
				  struct sl_fail *fail)
{
	for (int i = 0; i < t->columns; i++) {
		const struct sl_csv_column *c = &t->column[i];
		const char *key = spec->parts && strcmp(spec->parts->by, c->name) == 0 ? "data.split.by" : NULL;

		for (int k = 0; k < t->targets && t->target; k++)
			if (c->at == t->target[k])
				return sl_fail_at(
					fail, "data.label", SL_ERR_MISMATCH,
					"the model's file has the column \"%.60s\" as a feature: it cannot be a "
					"label, too",
					c->name);
		for (const char *const *item = spec->ignore; item < spec->ignore + spec->nignore; item++)
			if (strcmp(*item, c->name) == 0 || /* what names a column is no pattern */
			    (fnmatch(*item, c->name, FNM_NOESCAPE) == 0 && sl_csv_find(s, *item) < 0))
				key = "data.ignore";
		if (key)
			return sl_fail_at(
				fail, key, SL_ERR_MISMATCH,
				"the model's file has the column \"%.60s\", which %s leaves out: leave that out "
				"of %s",
				c->name, key, key);
	}
	return SL_OK;
}

/* Reads a split of labelled rows. Columns and classes are those of the model's file. */
static enum sl_err fill_recalled(struct table *t, struct sl_csv *sheet, const struct sl_set_spec *spec,
				 struct sl_fail *fail)
{
	enum sl_err err = sl_csv_name(sheet, spec->dir ? spec->dir : ".", spec->split, fail);
	int by;

	if (!err)
		err = sl_csv_read_split(sheet, spec, spec->split, fail);
	if (!err && !spec->unlabelled)
		err = sl_csv_targets(sheet, spec, &t->target, fail);
	if (!err)
		err = find_columns(t, sheet, fail);
	if (!err)
		err = check_recalled(t, sheet, spec, fail);
	if (!err && spec->parts)
		err = sl_csv_keys(sheet, spec, &t->key, &by, fail);
	return err ? err : encode(t, sheet, spec, spec->max_samples, fail);
}

/* Patterns in spec->label become names of columns, and *label their array. */
static enum sl_err fill_table(struct table *t, struct sl_csv sheet[2], struct sl_set_spec *spec, const char ***label,
			      struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";
	enum sl_err err = SL_OK;

	t->given = spec->given || spec->unlabelled;
	t->fill = spec->fill;
	sheet[0].form = sheet[1].form = spec->form;
	if (spec->about) {
		err = sl_csv_labels(spec, label, &sheet[1], fail);
		t->targets = spec->nlabels;
		if (!err)
			err = recall(t, spec, fail);
		return err ? err : (spec->given ? fill_given : fill_recalled)(t, &sheet[1], spec, fail);
	}
	err = sl_csv_name(&sheet[0], dir, SL_SPLIT_TRAIN, fail);
	if (!err)
		err = sl_csv_read_split(&sheet[0], spec, SL_SPLIT_TRAIN, fail);
	if (!err)
		err = sl_csv_labels(spec, label, &sheet[0], fail);
	t->targets = spec->nlabels;
	if (!err)
		err = learn(t, &sheet[0], spec, fail);
	if (!err && spec->given)
		return fill_given(t, &sheet[1], spec, fail);
	if (!err && spec->split == SL_SPLIT_TRAIN && (!spec->parts || spec->parts->own == SL_PARTS_TRAIN))
		warn(t, &sheet[0]);
	if (err || spec->split == SL_SPLIT_TRAIN)
		return err ? err : encode(t, &sheet[0], spec, spec->max_samples, fail);
	err = sl_csv_name(&sheet[1], dir, SL_SPLIT_TEST, fail);
	if (!err)
		err = sl_csv_read_split(&sheet[1], spec, SL_SPLIT_TEST, fail);
	if (!err)
		err = sl_csv_same_header(&sheet[0], &sheet[1], fail);
	if (!err)
		err = check_cells(t, &sheet[1], fail);
	return err ? err : encode(t, &sheet[1], spec, spec->max_samples, fail);
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct table *t = calloc(1, sizeof *t);
	struct sl_csv *sheet = calloc(2, sizeof *sheet);
	struct sl_set_spec own = *spec;
	const char **label = NULL;
	enum sl_err err = t && sheet ? SL_OK : no_memory(fail);

	if (!err && spec->files)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "a table is train.csv and val.csv (or test.csv)");
	if (!err)
		err = fill_table(t, sheet, &own, &label, fail);
	for (int i = 0; i < 2 && sheet; i++)
		sl_csv_close(&sheet[i]);
	free(sheet);
	free(label);
	if (err) {
		table_close(t);
		return err;
	}
	*out = (struct sl_set){
		.source = self,
		.data = t,
		.count = t->rows,
		.classes = t->given || !has_classes(spec) ? 0 : (int)t->labels.n,
		.field = {{"row", SL_F32, 1, {t->features}}, {"label", SL_I32, 0, {0}}},
	};
	if (!has_classes(spec) && !spec->unlabelled)
		out->field[SL_FIELD_TARGET] = sl_csv_target_type(&own);
	return SL_OK;
}

static uint64_t fingerprint(const struct sl_set *set)
{
	const struct table *t = set->data;
	uint64_t hash = XXH3_64bits(t->x, (size_t)t->rows * (size_t)t->features * sizeof *t->x);

	for (int i = 0; i < t->columns; i++) /* t->x is normalised by them */
		if (!t->column[i].left_out) {
			hash = XXH3_64bits_withSeed(&t->column[i].mean, sizeof(double), hash);
			hash = XXH3_64bits_withSeed(&t->column[i].deviation, sizeof(double), hash);
		}
	hash = XXH3_64bits_withSeed(t->labels.text, t->labels.bytes, hash);
	return XXH3_64bits_withSeed(t->y, (size_t)(t->rows * t->targets) * sizeof *t->y, hash);
}

static uint64_t key(const struct sl_set *set, int64_t index)
{
	return ((const struct table *)set->data)->key[index];
}

static const char *id(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	return sl_name(&((const struct table *)set->data)->id, index);
}

static void close_set(struct sl_set *set)
{
	table_close(set->data);
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct table *t = set->data;

	out[SL_FIELD_INPUT] = (struct sl_value){.data = t->x + index * t->features, .dim = {t->features}};
	out[SL_FIELD_TARGET] = (struct sl_value){.data = t->y + index * t->targets, .dim = {t->targets}};
	return SL_OK;
}

static const float *targets(const struct sl_set *set, int64_t index)
{
	const struct table *t = set->data;

	return &t->y[index * t->targets].target;
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	snprintf(out, size, "%s", sl_name(&((const struct table *)set->data)->name, index));
	return out;
}

static const char *class_name(const struct sl_set *set, int label)
{
	return sl_name(&((const struct table *)set->data)->labels, label);
}

/* Tables: train.csv, and val.csv or test.csv, in `dir`. The first line names the columns. spec.label names the
 * columns of the target. Classes count from 0, in the order of their values if all are numbers, else of their bytes.
 * csv_column.h says how columns become features. The set is in memory. DATA: too few or too many cells, a label that
 * is missing or does not occur in training, without `fill` another such cell; *fail names file, line and column. */
const struct sl_source sl_source_csv = {.name = "csv",
					.open = open_set,
					.sample = sample,
					.targets = targets,
					.close = close_set,
					.sample_name = sample_name,
					.class_name = class_name,
					.key = key,
					.id = id,
					.describe = describe,
					.fingerprint = fingerprint};
