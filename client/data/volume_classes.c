/* Lists volumes with a class each (volume_list.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/csv_column.h"
#include "client/data/images_impl.h"
#include "client/data/label_table.h"
#include "client/data/parts.h"
#include "client/data/volume_list.h"
#include "common/base/folder.h"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of volumes");
}

/* Whether a path is that folder, or below it. */
static bool is_in(const char *path, const char *folder)
{
	const size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && (!path[n] || path[n] == '/');
}

/* Lists the cases of a folder and of those below it, but not those of its folder `masks`. */
static enum sl_err list_below(struct sl_volume_list *l, const char *root, const char *masks, struct sl_fail *fail)
{
	const enum sl_err err = sl_volume_list_below(l, root, "", masks, fail);

	return err ? err : sl_volume_list_group(l, fail);
}

/* ---- folders of classes */

static enum sl_err check_classes(const struct sl_volume_list *l, const int64_t *count, const struct sl_set_spec *spec,
				 struct sl_fail *fail)
{
	for (int64_t k = 0; k < l->classes.n && !spec->lacking; k++) {
		const char *name = sl_name(&l->classes, k);
		char path[PATH_MAX];

		if (!count[k] && snprintf(path, sizeof path, "%s/%s", l->root, name) < PATH_MAX && sl_folder_is(path))
			return sl_fail_set(fail, SL_ERR_DATA, "%s: the class has no case (CASE.nii.gz)", path);
	}
	return l->cases.n ? SL_OK
			  : sl_fail_set(fail, SL_ERR_DATA, "%s: no class folders with cases (CASE.nii.gz)", l->root);
}

static enum sl_err by_folders(struct sl_volume_list *l, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = sl_images_split(l->root, &l->classes, spec, fail);
	int64_t *count = calloc((size_t)l->classes.n + 1, sizeof *count);

	if (!err && sl_csv_place(&l->classes, spec->masks) >= 0)
		err = sl_fail_set(
			fail, SL_ERR_DATA,
			"%s: %s is among the folders of classes: for a class of each voxel give data.patch in "
			"place of data.size; else move it away",
			l->root, spec->masks);
	if (!err)
		err = list_below(l, l->root, NULL, fail);
	l->label = calloc((size_t)l->cases.n + 1, sizeof *l->label);
	if (!err && (!l->label || !count))
		err = no_memory(fail);
	for (int64_t i = 0; i < l->cases.n && !err; i++) {
		const char *name = sl_name(&l->cases, i), *slash = strchr(name, '/');
		char class[PATH_MAX];

		snprintf(class, sizeof class, "%.*s", slash ? (int)(slash - name) : 0, name);
		l->label[i] = sl_csv_place(&l->classes, class);
		if (!slash)
			err = sl_fail_set(
				fail, SL_ERR_DATA,
				"%s/%s: lies beside the folders of classes, and so has no class: move it into "
				"one, or name a table in data.labels",
				l->root, name);
		else if (l->label[i] < 0)
			err = sl_fail_set(fail, SL_ERR_DATA, "%s/%s: train/ has no class of this name", l->root, class);
		else
			count[l->label[i]]++;
	}
	if (!err)
		err = check_classes(l, count, spec, fail);
	free(count);
	return err;
}

/* ---- a table of labels */

/* Adds case i of `all`, whose names lose their first `skip` bytes. */
static enum sl_err add(struct sl_volume_list *l, const struct sl_volume_list *all, int64_t i, size_t skip,
		       struct sl_fail *fail)
{
	bool fits = sl_names_add(&l->cases, sl_name(&all->cases, i) + skip);

	for (int64_t f = all->first[i]; f < all->first[i + 1]; f++)
		fits = fits && sl_names_add(&l->files, sl_name(&all->files, f) + skip);
	l->first[l->cases.n] = l->files.n;
	return fits ? SL_OK : no_memory(fail);
}

/* Adds the rows of the table whose cases lie in the folder `below`. */
static enum sl_err take_rows(struct sl_volume_list *l, const struct sl_volume_list *all,
			     const struct sl_label_table *table, const int64_t *at, const char *below,
			     struct sl_fail *fail)
{
	const size_t n = (size_t)all->cases.n + 1;
	enum sl_err err = SL_OK;

	l->first = calloc(n, sizeof *l->first);
	l->label = calloc(n, sizeof *l->label);
	l->key = calloc(n, sizeof *l->key);
	if (!l->first || !l->label || !l->key)
		return no_memory(fail);
	for (int64_t r = 0; r < table->picture.n && !err; r++) {
		const char *path = at[r] < 0 ? NULL : sl_name(&all->cases, at[r]);
		const int64_t i = l->cases.n;

		if (!path || (below[0] && !is_in(path, below)))
			continue;
		l->label[i] = table->label[r].label;
		l->key[i] = table->key ? table->key[r] : sl_parts_key(path, strlen(path));
		err = add(l, all, at[r], below[0] ? strlen(below) + 1 : 0, fail);
	}
	for (int64_t k = 0; k < table->classes.n && !err; k++)
		err = sl_names_add(&l->classes, sl_name(&table->classes, k)) ? SL_OK : no_memory(fail);
	return err;
}

/* The cases as files, as a table may name them. */
static enum sl_err name_cases(struct sl_names *out, const struct sl_volume_list *all, struct sl_fail *fail)
{
	bool fits = true;

	for (int64_t i = 0; i < all->cases.n && fits; i++) {
		char name[PATH_MAX];

		fits = snprintf(name, sizeof name, "%s%s", sl_name(&all->cases, i),
				sl_nifti_ending(sl_name(&all->files, all->first[i]))) < PATH_MAX &&
		       sl_names_add(out, name);
	}
	return fits ? SL_OK : no_memory(fail);
}

static enum sl_err by_table(struct sl_volume_list *l, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";
	const bool first = spec->split == SL_SPLIT_TRAIN && (!spec->parts || spec->parts->own == SL_PARTS_TRAIN);
	struct sl_volume_list all = {.channels = 0};
	struct sl_label_table table = {.path = ""};
	struct sl_names paths = {0};
	int64_t *at = NULL;
	enum sl_err err = sl_images_split(l->root, NULL, spec, fail);

	snprintf(all.root, sizeof all.root, "%s", dir);
	if (!err)
		err = list_below(&all, dir, spec->masks, fail);
	if (!err)
		err = name_cases(&paths, &all, fail);
	if (!err) {
		struct sl_fail why;

		err = sl_label_table_read(&table, dir, spec, &why);
		if (!err)
			err = sl_label_table_match(&table, &paths, first, &at, &why);
		if (err)
			(void)sl_fail_at(fail, why.key[0] ? why.key : "data.labels", err, "%.500s", why.text);
	}
	if (!err && first)
		sl_label_table_warn_of_parts(&table, &paths, at, dir, l->root);
	if (!err)
		err = take_rows(l, &all, &table, at, l->root[strlen(dir)] ? l->root + strlen(dir) + 1 : "", fail);
	if (!err && !l->cases.n)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: no row names a case of %s", table.path, l->root);
	if (first) {
		l->passed = all.passed;
		memcpy(l->passed_name, all.passed_name, sizeof l->passed_name);
	}
	sl_label_table_close(&table);
	sl_volume_list_close(&all);
	sl_names_close(&paths);
	free(at);
	return err;
}

enum sl_err sl_volume_list_classes(struct sl_volume_list *l, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const enum sl_err err = spec->labels ? by_table(l, spec, fail) : by_folders(l, spec, fail);

	if (!err && l->classes.n >= SL_VOLUME_CLASSES)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %lld classes, and volumes have at most %d", l->root,
				   (long long)l->classes.n, SL_VOLUME_CLASSES - 1);
	return err;
}
