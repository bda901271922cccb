/* Lists pictures: in class folders, in a table, or with masks. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/images_impl.h"
#include "client/data/label_table.h"
#include "client/data/parts.h"
#include "client/data/picture.h"
#include "common/base/folder.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/text.h"

enum { MAX_DEPTH = 32, MAX_CLASSES = 100000 };

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of pictures");
}

/* out = `path` below the set's root; false: it is too long. */
static bool join(const struct sl_images *set, char out[PATH_MAX], const char *path)
{
	return snprintf(out, PATH_MAX, "%s%s%s", set->root ? set->root : "", set->root ? "/" : "", path) < PATH_MAX;
}

/* Counts a file that is no picture. */
static void pass_over(struct sl_images *set, const char *name)
{
	struct sl_images_kind of = {.ending = ""}, *kind = set->kind;
	const char *dot = strrchr(name, '.');

	if (dot && strlen(dot) < sizeof of.ending)
		for (int i = 0; dot[i]; i++)
			of.ending[i] = (char)tolower((unsigned char)dot[i]);
	while (kind < set->kind + SL_IMAGES_KINDS - 1 && kind->n && strcmp(kind->ending, of.ending) != 0)
		kind++;
	if (!kind->n)
		memcpy(kind->ending, of.ending, sizeof of.ending);
	kind->n++;
	set->passed_over++;
}

static int by_number(const void *a, const void *b)
{
	const struct sl_images_kind *x = a, *y = b;

	return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->ending, y->ending);
}

void sl_images_kinds(struct sl_images *set, char *out, size_t size)
{
	size_t n = 0;

	qsort(set->kind, SL_IMAGES_KINDS - 1, sizeof *set->kind, by_number);
	out[0] = 0;
	for (int i = 0; i < SL_IMAGES_KINDS && set->kind[i].n && n < size; i++) {
		const char *ending = set->kind[i].ending;

		n += (size_t)snprintf(out + n, size - n, "%s%" PRId64 " %s", i ? ", " : "", set->kind[i].n,
				      i == SL_IMAGES_KINDS - 1 ? "others"
				      : ending[0]              ? ending
							       : "without an ending");
	}
	sl_text_make_safe(out, '?');
}

/* Adds the names of folders to *folders and those of pictures to *pictures, and counts other files in `others`; each
 * may be NULL. Names that begin with a dot are left out. */
static enum sl_err read_folder(const char *path, struct sl_names *folders, struct sl_names *pictures,
			       struct sl_images *others, struct sl_fail *fail)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool fits = true;

	if (!dir)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	for (errno = 0; fits && (entry = readdir(dir)); errno = 0) {
		const char *name = entry->d_name;
		struct sl_names *list = folders;
		mode_t kind;

		if (name[0] == '.') /* also ._0001.jpg, which macOS adds, and .ipynb_checkpoints */
			continue;
		kind = sl_folder_entry_kind(path, entry);
		if (pictures &&
		    (kind == S_IFREG ? sl_picture_is(path, name) : kind != S_IFDIR && sl_picture_name(name)))
			list = pictures;
		else if (others && kind == S_IFREG)
			pass_over(others, name);
		if (!list || (list == folders && kind != S_IFDIR))
			continue;
		fits = sl_names_add(list, name);
	}
	if (fits && errno) {
		sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, strerror(errno));
		closedir(dir);
		return SL_ERR_IO;
	}
	closedir(dir);
	return fits ? SL_OK : no_memory(fail);
}

/* Lists `path`, which is relative to the set's root, and all folders below it. */
static enum sl_err find_folders(const struct sl_images *set, const char *path, int depth, struct sl_names *out,
				struct sl_fail *fail)
{
	struct sl_names inside = {0};
	char whole[PATH_MAX];
	enum sl_err err;

	if (depth == MAX_DEPTH || !join(set, whole, path))
		return sl_fail_set(fail, SL_ERR_DATA, "%.300s: folders are nested too deeply, or in a circle", path);
	if (!sl_names_add(out, path))
		return no_memory(fail);
	err = read_folder(whole, &inside, NULL, NULL, fail);
	for (int64_t i = 0; i < inside.n && !err; i++) {
		char below[PATH_MAX];

		if (snprintf(below, sizeof below, "%s%s%s", path, path[0] ? "/" : "", sl_name(&inside, i)) >= PATH_MAX)
			err = sl_fail_set(fail, SL_ERR_DATA, "%.300s: the path is too long", path);
		else
			err = find_folders(set, below, depth + 1, out, fail);
	}
	sl_names_close(&inside);
	return err;
}

static enum sl_err begin_folder(struct sl_images *set, const char *path, int32_t label, struct sl_fail *fail)
{
	if (!sl_grow(&set->label, &set->folders_cap, (size_t)set->folders.n + 1, sizeof *set->label) ||
	    !sl_names_add(&set->folders, path))
		return no_memory(fail);
	set->label[set->folders.n - 1] = label;
	return SL_OK;
}

/* Adds a picture of the last folder. */
static enum sl_err add_file(struct sl_images *set, const char *name, struct sl_fail *fail)
{
	if (set->files.n == SL_SET_MAX_SAMPLES)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d pictures",
				   sl_name(&set->folders, set->folders.n - 1), SL_SET_MAX_SAMPLES);
	if (!sl_grow(&set->folder_of, &set->files_cap, (size_t)set->files.n + 1, sizeof *set->folder_of) ||
	    !sl_names_add(&set->files, name))
		return no_memory(fail);
	set->folder_of[set->files.n - 1] = (int32_t)set->folders.n - 1;
	return SL_OK;
}

/* Appends the pictures of one folder, sorted. */
static enum sl_err add_folder(struct sl_images *set, const char *path, int32_t label, struct sl_fail *fail)
{
	struct sl_names inside = {0};
	char whole[PATH_MAX];
	enum sl_err err;

	(void)join(set, whole, path); /* find_folders has checked its length */
	err = read_folder(whole, NULL, &inside, set, fail);
	sl_names_sort(&inside);
	if (!err && inside.n)
		err = begin_folder(set, path, label, fail);
	for (int64_t i = 0; i < inside.n && !err; i++)
		err = add_file(set, sl_name(&inside, i), fail);
	sl_names_close(&inside);
	return err;
}

/* Adds the pictures of a folder and of those below it. */
static enum sl_err add_class(struct sl_images *set, const char *name, int32_t label, struct sl_fail *fail)
{
	const int64_t before = set->files.n;
	struct sl_names folders = {0};
	enum sl_err err = find_folders(set, name, 0, &folders, fail);

	sl_names_sort(&folders);
	for (int64_t i = 0; i < folders.n && !err; i++)
		err = add_folder(set, sl_name(&folders, i), label, fail);
	sl_names_close(&folders);
	for (int i = 0; i < SL_IMAGES_KINDS && !err && set->files.n == before; i++)
		if (set->kind[i].n && strcmp(set->kind[i].ending, ".nii") == 0)
			err = sl_fail_set(fail, SL_ERR_DATA,
					  "%s: NIfTI: volumes, with masks or a class each, are data.kind: volumes; of "
					  "single slices "
					  "save PNG or TIFF of 16 bits, or DICOM",
					  name);
	if (!err && set->files.n == before && !set->lacking)
		err = set->root && name[0]
			      ? sl_fail_set(fail, SL_ERR_DATA,
					    "%s/%s: the class has no picture (" SL_IMAGES_SUFFIXES ")", set->root, name)
			      : sl_fail_set(fail, SL_ERR_DATA, "%s: no picture in it (" SL_IMAGES_SUFFIXES ")",
					    set->root ? set->root : name);
	return err;
}

static int32_t find_class(const struct sl_names *classes, const char *name)
{
	for (int64_t low = 0, high = classes->n; low < high;) {
		const int64_t middle = (low + high) / 2;
		const int order = strcmp(name, sl_name(classes, middle));

		if (order == 0)
			return (int32_t)middle;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -1;
}

/* Finds the split's folder, and the one whose sub-folders are the classes: train's, or the split's own if there is
 * no train/. With data.split, `dir` itself may hold the classes. So a folder such as training/ is a split only
 * beside the other split's. */
static enum sl_err find_root(char root[PATH_MAX], char classes[PATH_MAX], const struct sl_set_spec *spec,
			     struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";

	if (strlen(dir) + sizeof "/validation" > PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", dir);
	if (!sl_folder_is(dir))
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", dir,
				   access(dir, F_OK) ? strerror(errno) : "not a folder");
	if (spec->parts && (!sl_set_usual(root, dir, SL_SPLIT_TRAIN, "") ||
			    (!sl_ends_with(root, "/train") && !sl_set_usual(classes, dir, SL_SPLIT_TEST, ""))))
		strcpy(root, dir);
	else if (!sl_set_usual(root, dir, spec->split, ""))
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "%s: no folder %s in it; it must hold train/ and val/ (or test/)%s; " SL_PARTS_HINT,
				   dir, spec->split == SL_SPLIT_TRAIN ? "train" : "val or test",
				   spec->labels ? "" : ", and these a folder for each class");
	if (spec->split == SL_SPLIT_TRAIN || !sl_set_usual(classes, dir, SL_SPLIT_TRAIN, ""))
		strcpy(classes, root);
	return SL_OK;
}

static enum sl_err find_classes(struct sl_images *set, const char *path, struct sl_fail *fail)
{
	enum sl_err err = read_folder(path, &set->classes, NULL, NULL, fail);

	sl_names_sort(&set->classes);
	if (!err && set->classes.n > MAX_CLASSES)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d classes", path, MAX_CLASSES);
	if (!err && set->classes.n < 2)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s: %s; a classifier needs two classes or more, a folder for each", path,
				  set->classes.n ? "only one class" : "no class folders");
	return err;
}

/* Lists the split's pictures, class by class. */
static enum sl_err list_pictures(struct sl_images *set, struct sl_fail *fail)
{
	struct sl_names here = {0}, beside = {0};
	enum sl_err err = read_folder(set->root, &here, &beside, NULL, fail);

	if (!err && beside.n)
		sl_log(SL_LOG_WARN, "passed-over",
		       "%s: beside the class folders, and so of no class: %" PRId64 " picture%s, such as %.200s",
		       set->root, beside.n, sl_plural(beside.n), sl_name(&beside, 0));
	sl_names_close(&beside);
	sl_names_sort(&here);
	for (int64_t i = 0; i < here.n && !err; i++) {
		const int32_t label = find_class(&set->classes, sl_name(&here, i));

		err = label < 0 ? sl_fail_set(fail, SL_ERR_DATA, "%s/%s: train/ has no class of this name", set->root,
					      sl_name(&here, i))
				: add_class(set, sl_name(&here, i), label, fail);
	}
	if (!err && !set->files.n)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: no class folders with pictures", set->root);
	sl_names_close(&here);
	return err;
}

/* Adds what the user named: a file of any name, or a folder. */
static enum sl_err add_given(struct sl_images *set, const char *path, struct sl_fail *fail)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	enum sl_err err;

	if (sl_folder_is(path))
		return add_class(set, path, 0, fail);
	if (access(path, R_OK) != 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 0, path) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", path);
	err = begin_folder(set, folder, 0, fail);
	return err ? err : add_file(set, slash ? slash + 1 : path, fail);
}

static bool has_classes(const struct sl_set_spec *spec)
{
	return !spec->task || spec->task->met;
}

void sl_images_close(struct sl_images *set)
{
	sl_names_close(&set->classes);
	sl_names_close(&set->folders);
	sl_names_close(&set->files);
	free(set->label);
	free(set->target);
	free(set->folder_of);
	free(set->key);
	free(set->root);
	free(set->dir);
}

/* Adds a picture by its path below the root. */
static enum sl_err add_path(struct sl_images *set, const char *path, int32_t label, struct sl_fail *fail)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	enum sl_err err = sl_folder_of(path, folder) ? begin_folder(set, folder, label, fail) : no_memory(fail);

	return err ? err : add_file(set, slash ? slash + 1 : path, fail);
}

/* Lists the pictures that a table names, with several numbers or labels each. */
static enum sl_err list_table(struct sl_images *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	struct sl_label_table table = {.path = ""};
	enum sl_err err;

	set->root = strdup(spec->dir ? spec->dir : ".");
	err = set->root ? sl_label_table_read(&table, set->root, spec, fail) : no_memory(fail);
	for (int64_t i = 0; i < table.picture.n && !err; i++)
		err = add_path(set, sl_name(&table.picture, i), 0, fail);
	set->target = table.label;
	table.label = NULL;
	sl_label_table_close(&table);
	return err;
}

enum sl_err sl_images_paths(const char *root, struct sl_names *out, struct sl_fail *fail)
{
	struct sl_images all = {.root = strdup(root), .lacking = true};
	enum sl_err err = all.root ? add_class(&all, "", 0, fail) : no_memory(fail);

	for (int64_t i = 0; i < all.files.n && !err; i++) {
		const char *folder = sl_name(&all.folders, all.folder_of[i]);
		char path[PATH_MAX];

		if (snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", sl_name(&all.files, i)) >=
		    PATH_MAX)
			err = sl_fail_set(fail, SL_ERR_DATA, "%.300s: the path is too long", folder);
		else if (!sl_names_add(out, path))
			err = no_memory(fail);
	}
	sl_images_close(&all);
	return err;
}

/* Adds the rows of a table of labels whose pictures lie in the folder `below` the root. */
static enum sl_err take_rows(struct sl_images *set, const struct sl_label_table *table, const struct sl_names *paths,
			     const int64_t *at, const char *below, struct sl_fail *fail)
{
	const size_t n = (size_t)table->picture.n, deep = strlen(below);
	enum sl_err err = SL_OK;

	set->key = calloc(n + 1, sizeof *set->key);
	set->target = set->targets ? calloc(n * (size_t)set->targets + 1, sizeof *set->target) : NULL;
	if (!set->key || !set->target != !set->targets)
		return no_memory(fail);
	for (int64_t r = 0; r < table->picture.n && !err; r++) {
		const char *path = at[r] < 0 ? NULL : sl_name(paths, at[r]);
		const int64_t i = set->files.n;

		if (!path || (deep && (strncmp(path, below, deep) != 0 || path[deep] != '/')))
			continue;
		set->key[i] = table->key ? table->key[r] : sl_parts_key(path, strlen(path));
		for (int k = 0; k < set->targets; k++)
			set->target[i * set->targets + k] = table->label[r * set->targets + k];
		err = add_path(set, path, set->targets ? 0 : table->label[r].label, fail);
	}
	return err;
}

/* Lists the split's pictures whose labels are in a table of their own. */
static enum sl_err list_labelled(struct sl_images *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";
	const bool first = spec->split == SL_SPLIT_TRAIN && (!spec->parts || spec->parts->own == SL_PARTS_TRAIN);
	struct sl_label_table table = {.path = ""};
	struct sl_names paths = {0};
	struct sl_fail why;
	char root[PATH_MAX], classes[PATH_MAX];
	int64_t *at = NULL;
	enum sl_err err = find_root(root, classes, spec, fail);

	set->root = strdup(dir);
	if (!err)
		err = set->root ? sl_images_paths(dir, &paths, fail) : no_memory(fail);
	if (!err) {
		err = sl_label_table_read(&table, dir, spec, fail);
		if (!err)
			err = sl_label_table_match(&table, &paths, first, &at, fail);
		why = *fail;
		if (err && !why.key[0])
			(void)sl_fail_at(fail, "data.labels", err, "%.500s", why.text);
	}
	if (!err && first)
		sl_label_table_warn_of_parts(&table, &paths, at, dir, root);
	if (!err)
		err = take_rows(set, &table, &paths, at, root[strlen(dir)] ? root + strlen(dir) + 1 : "", fail);
	if (!err && !set->files.n)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: no row names a picture of %s", table.path, root);
	for (int64_t i = 0; i < table.classes.n && !err; i++)
		err = sl_names_add(&set->classes, sl_name(&table.classes, i)) ? SL_OK : no_memory(fail);
	sl_label_table_close(&table);
	sl_names_close(&paths);
	free(at);
	return err;
}

/* Reads the targets. Pictures to predict share one, of zeros, which is not used. */
static enum sl_err begin_targets(struct sl_images *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	set->targets = spec->nlabels;
	for (int i = 0; i < spec->nlabels; i++)
		if (!sl_names_add(&set->classes, spec->label[i]))
			return no_memory(fail);
	if (!spec->given)
		return spec->labels ? list_labelled(set, spec, fail) : list_table(set, spec, fail);
	set->target = calloc((size_t)spec->nlabels, sizeof *set->target);
	return set->target ? SL_OK : no_memory(fail);
}

/* Names the classes of masks: by data.label if it lists them, else by their numbers. */
static enum sl_err name_masked(struct sl_images *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	for (int k = 0; k < spec->mask_classes && k < SL_LEARN_IGNORED; k++) {
		char number[24];

		snprintf(number, sizeof number, "%d", k);
		if (!sl_names_add(&set->classes, spec->nlabels > 1 && k < spec->nlabels ? spec->label[k] : number))
			return no_memory(fail);
	}
	return SL_OK;
}

enum sl_err sl_images_split(char root[PATH_MAX], struct sl_names *classes, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct sl_images all = {.root = NULL};
	char path[PATH_MAX];
	enum sl_err err = find_root(root, path, spec, fail);

	if (!err && classes) {
		err = find_classes(&all, path, fail);
		*classes = all.classes;
	}
	return err;
}

enum sl_err sl_images_folders(const char *root, struct sl_names *out, struct sl_fail *fail)
{
	char path[PATH_MAX];
	const struct sl_images all = {.root = path};

	snprintf(path, sizeof path, "%s", root);
	return find_folders(&all, "", 0, out, fail);
}

/* Lists all pictures below the root, which is a folder in data.dir, beside that of the masks. */
static enum sl_err list_masked(struct sl_images *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";

	if (strcmp(set->root, dir) == 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "%s: no folder train in it: it holds the pictures, and %s/train their masks", dir,
				   spec->masks);
	set->dir = strdup(dir);
	set->masks = spec->masks;
	set->mask_classes = spec->mask_classes;
	return set->dir ? add_class(set, "", 0, fail) : no_memory(fail);
}

enum sl_err sl_images_list(struct sl_images *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	char root[PATH_MAX], classes[PATH_MAX];
	const bool lists = !spec->unlabelled || spec->given;
	enum sl_err err = !has_classes(spec) && lists ? begin_targets(set, spec, fail)
			  : sl_images_masked(spec)    ? name_masked(set, spec, fail)
						      : SL_OK;

	for (int i = 0; i < spec->ngiven && !err; i++)
		err = add_given(set, spec->given[i], fail);
	if (err || spec->given || (!has_classes(spec) && lists))
		return err;
	if (spec->labels && lists)
		return list_labelled(set, spec, fail);
	err = find_root(root, classes, spec, fail);
	if (err)
		return err;
	set->root = strdup(root);
	if (!set->root || !lists)
		return set->root ? add_class(set, "", 0, fail) : no_memory(fail);
	set->lacking = spec->lacking;
	if (sl_images_masked(spec))
		return list_masked(set, spec, fail);
	err = find_classes(set, classes, fail);
	return err ? err : list_pictures(set, fail);
}
