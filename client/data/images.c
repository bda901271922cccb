/* Pictures in class folders. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "client/data/csv_file.h"
#include "client/data/parts.h"
#include "client/data/picture.h"
#include "client/data/sources.h"
#include "common/base/folder.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/text.h"

#define SUFFIXES ".jpg .jpeg .png .webp .tif .tiff .bmp .ppm .pgm .dcm; DICOM under any name"
enum { MAX_DEPTH = 32, MAX_CLASSES = 100000, MOST_KINDS = 8 };

/* Counts files whose names end alike. */
struct kind {
	char ending[12]; /* ".gif" in small letters; "": the names have none */
	int64_t n;
};

/* What a set's `data` points to. A picture is a folder and a name in it. */
struct folder_set {
	char *root;                              /* the split's folder; NULL: pictures to predict, with whole paths */
	struct sl_names classes, folders, files; /* classes: their names, or those of numbers or labels */
	int32_t *label;                          /* [folders.n], of a folder's files */
	int32_t *folder_of;                      /* [files.n] */
	size_t folders_cap, files_cap;
	int64_t passed_over;
	struct kind kind[MOST_KINDS]; /* of other files than pictures; the last one counts all further kinds */
	struct sl_picture_spec picture;
	union sl_label *target; /* [files.n, targets], in place of classes; NULL: there are classes */
	int targets, mask_classes;
	bool lacking;      /* classes may have no picture */
	const char *masks; /* the folder in `dir` that has a mask of each picture; NULL: no masks are read */
	char *dir;
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of pictures");
}

/* out = `path` below the set's root; false: it is too long. */
static bool join(const struct folder_set *set, char out[PATH_MAX], const char *path)
{
	return snprintf(out, PATH_MAX, "%s%s%s", set->root ? set->root : "", set->root ? "/" : "", path) < PATH_MAX;
}

/* Counts a file that is no picture. */
static void pass_over(struct folder_set *set, const char *name)
{
	struct kind of = {.ending = ""}, *kind = set->kind;
	const char *dot = strrchr(name, '.');

	if (dot && strlen(dot) < sizeof of.ending)
		for (int i = 0; dot[i]; i++)
			of.ending[i] = (char)tolower((unsigned char)dot[i]);
	while (kind < set->kind + MOST_KINDS - 1 && kind->n && strcmp(kind->ending, of.ending) != 0)
		kind++;
	if (!kind->n)
		memcpy(kind->ending, of.ending, sizeof of.ending);
	kind->n++;
	set->passed_over++;
}

static int by_number(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;

	return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->ending, y->ending);
}

/* "35 .gif, 2 .dcm, 4 others" */
static void kinds_text(struct folder_set *set, char *out, size_t size)
{
	size_t n = 0;

	qsort(set->kind, MOST_KINDS - 1, sizeof *set->kind, by_number);
	out[0] = 0;
	for (int i = 0; i < MOST_KINDS && set->kind[i].n && n < size; i++) {
		const char *ending = set->kind[i].ending;

		n += (size_t)snprintf(out + n, size - n, "%s%" PRId64 " %s", i ? ", " : "", set->kind[i].n,
				      i == MOST_KINDS - 1 ? "others"
				      : ending[0]         ? ending
							  : "without an ending");
	}
	sl_text_make_safe(out, '?');
}

/* Adds the names of folders to *folders and those of pictures to *pictures, and counts other files in `others`; each
 * may be NULL. Names that begin with a dot are left out. */
static enum sl_err read_folder(const char *path, struct sl_names *folders, struct sl_names *pictures,
			       struct folder_set *others, struct sl_fail *fail)
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
		if (pictures && (kind == S_IFREG ? sl_picture_is(path, name) : kind != S_IFDIR && sl_picture_name(name)))
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
static enum sl_err find_folders(const struct folder_set *set, const char *path, int depth, struct sl_names *out,
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

static enum sl_err begin_folder(struct folder_set *set, const char *path, int32_t label, struct sl_fail *fail)
{
	if (!sl_grow(&set->label, &set->folders_cap, (size_t)set->folders.n + 1, sizeof *set->label) ||
	    !sl_names_add(&set->folders, path))
		return no_memory(fail);
	set->label[set->folders.n - 1] = label;
	return SL_OK;
}

/* Adds a picture of the last folder. */
static enum sl_err add_file(struct folder_set *set, const char *name, struct sl_fail *fail)
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
static enum sl_err add_folder(struct folder_set *set, const char *path, int32_t label, struct sl_fail *fail)
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
static enum sl_err add_class(struct folder_set *set, const char *name, int32_t label, struct sl_fail *fail)
{
	const int64_t before = set->files.n;
	struct sl_names folders = {0};
	enum sl_err err = find_folders(set, name, 0, &folders, fail);

	sl_names_sort(&folders);
	for (int64_t i = 0; i < folders.n && !err; i++)
		err = add_folder(set, sl_name(&folders, i), label, fail);
	sl_names_close(&folders);
	for (int i = 0; i < MOST_KINDS && !err && set->files.n == before; i++)
		if (set->kind[i].n && strcmp(set->kind[i].ending, ".nii") == 0)
			err = sl_fail_set(fail, SL_ERR_DATA,
					  "%s: NIfTI: volumes are not read yet; save slices as PNG or "
					  "TIFF of 16 bits, or as DICOM",
					  name);
	if (!err && set->files.n == before && !set->lacking)
		err = set->root && name[0]
			      ? sl_fail_set(fail, SL_ERR_DATA, "%s/%s: the class has no picture (" SUFFIXES ")",
					    set->root, name)
			      : sl_fail_set(fail, SL_ERR_DATA, "%s: no picture in it (" SUFFIXES ")",
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
		return sl_fail_set(
			fail, SL_ERR_NOINPUT,
			"%s: no folder %s in it; it must hold train/ and val/ (or test/), and these a folder "
			"for each class; " SL_PARTS_HINT,
			dir, spec->split == SL_SPLIT_TRAIN ? "train" : "val or test");
	if (spec->split == SL_SPLIT_TRAIN || !sl_set_usual(classes, dir, SL_SPLIT_TRAIN, ""))
		strcpy(classes, root);
	return SL_OK;
}

static enum sl_err find_classes(struct folder_set *set, const char *path, struct sl_fail *fail)
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
static enum sl_err list_pictures(struct folder_set *set, struct sl_fail *fail)
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
static enum sl_err add_given(struct folder_set *set, const char *path, struct sl_fail *fail)
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

/* Lists the pictures that a table names, with several numbers or labels each. */
static enum sl_err list_table(struct folder_set *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	struct sl_names paths = {0};
	enum sl_err err;

	set->root = strdup(spec->dir ? spec->dir : ".");
	err = set->root ? sl_csv_pictures(&paths, &set->target, set->root, spec, fail) : no_memory(fail);
	for (int64_t i = 0; i < paths.n && !err; i++) {
		const char *path = sl_name(&paths, i), *slash = strrchr(path, '/');
		char folder[PATH_MAX];

		err = sl_folder_of(path, folder) ? begin_folder(set, folder, 0, fail) : no_memory(fail);
		if (!err)
			err = add_file(set, slash ? slash + 1 : path, fail);
	}
	sl_names_close(&paths);
	return err;
}

/* Reads the targets. Pictures to predict share one, of zeros, which is not used. */
static enum sl_err begin_targets(struct folder_set *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	set->targets = spec->nlabels;
	for (int i = 0; i < spec->nlabels; i++)
		if (!sl_names_add(&set->classes, spec->label[i]))
			return no_memory(fail);
	if (!spec->given)
		return list_table(set, spec, fail);
	set->target = calloc((size_t)spec->nlabels, sizeof *set->target);
	return set->target ? SL_OK : no_memory(fail);
}

/* Whether each picture has a mask, with a class for each pixel. */
static bool is_masked(const struct sl_set_spec *spec)
{
	return spec->task && spec->task->kind == SL_LEARN_PIXELS;
}

/* Names the classes of masks: by data.label if it lists them, else by their numbers. */
static enum sl_err name_masked(struct folder_set *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	for (int k = 0; k < spec->mask_classes && k < SL_LEARN_IGNORED; k++) {
		char number[24];

		snprintf(number, sizeof number, "%d", k);
		if (!sl_names_add(&set->classes, spec->nlabels > 1 && k < spec->nlabels ? spec->label[k] : number))
			return no_memory(fail);
	}
	return SL_OK;
}

/* Lists all pictures below the root, which is a folder in data.dir, beside that of the masks. */
static enum sl_err list_masked(struct folder_set *set, const struct sl_set_spec *spec, struct sl_fail *fail)
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

static enum sl_err list_all(struct folder_set *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	char root[PATH_MAX], classes[PATH_MAX];
	const bool lists = !spec->unlabelled || spec->given;
	enum sl_err err = !has_classes(spec) && lists ? begin_targets(set, spec, fail)
			  : is_masked(spec)           ? name_masked(set, spec, fail)
						      : SL_OK;

	for (int i = 0; i < spec->ngiven && !err; i++)
		err = add_given(set, spec->given[i], fail);
	if (err || spec->given || (!has_classes(spec) && lists))
		return err;
	err = find_root(root, classes, spec, fail);
	if (err)
		return err;
	set->root = strdup(root);
	if (!set->root || !lists)
		return set->root ? add_class(set, "", 0, fail) : no_memory(fail);
	set->lacking = spec->lacking;
	if (is_masked(spec))
		return list_masked(set, spec, fail);
	err = find_classes(set, classes, fail);
	return err ? err : list_pictures(set, fail);
}

static void folder_set_close(struct folder_set *set)
{
	if (!set)
		return;
	sl_names_close(&set->classes);
	sl_names_close(&set->folders);
	sl_names_close(&set->files);
	free(set->label);
	free(set->target);
	free(set->folder_of);
	free(set->root);
	free(set->dir);
	free(set);
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct folder_set *set = calloc(1, sizeof *set);
	enum sl_err err;

	if (!set)
		return no_memory(fail);
	err = spec->files ? sl_fail_set(fail, SL_ERR_CONFIG, "folders of pictures have no list of files")
			  : list_all(set, spec, fail);
	if (err) {
		folder_set_close(set);
		return err;
	}
	set->picture = spec->picture;
	*out = (struct sl_set){
		.source = self,
		.data = set,
		.count = set->files.n,
		.classes = set->target ? 0 : (int)set->classes.n,
		.passed_over = set->passed_over,
		.field = {{"image", SL_U8, 3, {0, 0, spec->picture.channels == 1 ? 1 : SL_PICTURE_CHANNELS}},
			  {"label", SL_I32, 0, {0}}},
	};
	if (set->target)
		out->field[SL_FIELD_TARGET] = sl_csv_target_type(spec);
	if (is_masked(spec))
		out->field[SL_FIELD_TARGET] = (struct sl_field_type){"mask", SL_I32, 2, {0, 0}};
	kinds_text(set, out->passed_kinds, sizeof out->passed_kinds);
	if (set->passed_over)
		sl_log(SL_LOG_WARN, "passed-over",
		       "%s: %" PRId64 " file%s in class folders %s no picture that is read (" SUFFIXES
		       "), beside %" PRId64 ": %s",
		       set->root ? set->root : spec->given[0], set->passed_over, sl_plural(set->passed_over),
		       set->passed_over == 1 ? "is" : "are", set->files.n, out->passed_kinds);
	return SL_OK;
}

static void close_set(struct sl_set *set)
{
	folder_set_close(set->data);
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct folder_set *s = set->data;
	const char *folder = sl_name(&s->folders, s->folder_of[index]);
	const bool ends = !folder[0] || folder[strlen(folder) - 1] == '/';

	snprintf(out, size, "%s%s%s%s%s", s->root ? s->root : "", s->root ? "/" : "", folder, ends ? "" : "/",
		 sl_name(&s->files, index));
	return out;
}

static const char *id(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const char *name = sl_name(&((const struct folder_set *)set->data)->files, index);

	snprintf(out, size, "%.*s", (int)sl_picture_stem(name), name);
	return out;
}

static const char *class_name(const struct sl_set *set, int label)
{
	return sl_name(&((const struct folder_set *)set->data)->classes, label);
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct folder_set *s = set->data;
	char path[PATH_MAX];
	struct sl_fail why = {0};
	size_t len = 0;
	enum sl_err err = sl_picture_read_file(sample_name(set, index, path, sizeof path), room, &len, fail);

	if (err)
		return err;
	err = sl_picture_decode(&out[SL_FIELD_INPUT], room->file, len, &s->picture, room, &why);
	if (err)
		return sl_fail_set(fail, err, "%s: %s", path, why.text);
	sl_picture_warn_dim(path, room->file, len, &out[SL_FIELD_INPUT]);
	if (s->masks)
		return sl_picture_read_mask(&out[SL_FIELD_TARGET], path, s->dir, s->masks, s->mask_classes, room, fail);
	if (s->target)
		out[SL_FIELD_TARGET] = (struct sl_value){.data = s->target + (s->root ? index * s->targets : 0)};
	else
		out[SL_FIELD_TARGET] =
			s->root ? (struct sl_value){.data = &s->label[s->folder_of[index]]} : sl_value_unlabelled();
	return SL_OK;
}

static int64_t file(const struct sl_set *set, int64_t index, struct sl_room *room)
{
	char path[PATH_MAX];

	return sl_picture_file(sample_name(set, index, path, sizeof path), room);
}

static int32_t label(const struct sl_set *set, int64_t index)
{
	const struct folder_set *s = set->data;

	return s->label[s->folder_of[index]];
}

static const float *targets(const struct sl_set *set, int64_t index)
{
	const struct folder_set *s = set->data;

	return &s->target[index * s->targets].target;
}

static uint64_t fingerprint(const struct sl_set *set)
{
	const struct folder_set *s = set->data;
	uint64_t hash = XXH3_64bits(s->folders.text, s->folders.bytes);
	const size_t root = s->root ? strlen(s->root) : 0;

	if (s->target && s->root)
		hash = XXH3_64bits_withSeed(s->target, (size_t)(s->files.n * s->targets) * sizeof *s->target, hash);
	for (int64_t i = 0; i < set->count; i++) {
		char path[PATH_MAX], masked[PATH_MAX];
		int64_t size = sl_picture_file(set->source->sample_name(set, i, path, sizeof path), NULL);

		hash = XXH3_64bits_withSeed(path + root, strlen(path) - root, hash ^ (uint64_t)size);
		size = s->masks && sl_picture_mask_path(masked, path, s->dir, s->masks) ? sl_picture_file(masked, NULL)
											: INT64_MIN;
		if (size > INT64_MIN)
			hash = XXH3_64bits_withSeed(&size, sizeof size, hash);
	}
	return hash;
}

/* A folder of pictures, one sub-folder for each class, as torchvision's ImageFolder reads it. It is train/, or the
 * other split's, in the set's `dir`; CONFIG: `files` is given. Classes are the names of train's sub-folders, sorted
 * by bytes, and count from 0. Pictures of a class are sorted by folder and name, and may lie in folders below it;
 * links are followed. Opening reads names alone; `sample` reads and decodes one file. DATA: fewer than two classes, a
 * class without a picture, a class of the other split that train lacks. */
const struct sl_source sl_source_images = {.name = "images",
					   .open = open_set,
					   .sample = sample,
					   .close = close_set,
					   .sample_name = sample_name,
					   .id = id,
					   .class_name = class_name,
					   .label = label,
					   .targets = targets,
					   .file = file,
					   .fingerprint = fingerprint};
