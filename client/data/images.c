/* Pictures: in class folders, or with labels in a table. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/data/csv_file.h"
#include "client/data/images_impl.h"
#include "client/data/picture.h"
#include "client/data/sources.h"
#include "common/base/log.h"

static const struct sl_source labelled;

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct sl_images *set = calloc(1, sizeof *set);
	enum sl_err err;

	if (!set)
		return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of pictures");
	err = spec->files ? sl_fail_set(fail, SL_ERR_CONFIG, "folders of pictures have no list of files")
			  : sl_images_list(set, spec, fail);
	if (err) {
		sl_images_close(set);
		free(set);
		return err;
	}
	set->picture = spec->picture;
	*out = (struct sl_set){
		.source = set->key ? &labelled : self,
		.data = set,
		.count = set->files.n,
		.classes = set->target ? 0 : (int)set->classes.n,
		.passed_over = set->passed_over,
		.field = {{"image", SL_U8, 3, {0, 0, spec->picture.channels == 1 ? 1 : SL_PICTURE_CHANNELS}},
			  {"label", SL_I32, 0, {0}}},
	};
	if (set->target)
		out->field[SL_FIELD_TARGET] = sl_csv_target_type(spec);
	if (sl_images_masked(spec))
		out->field[SL_FIELD_TARGET] = (struct sl_field_type){"mask", SL_I32, 2, {0, 0}};
	sl_images_kinds(set, out->passed_kinds, sizeof out->passed_kinds);
	if (set->passed_over)
		sl_log(SL_LOG_WARN, "passed-over",
		       "%s: %" PRId64 " file%s in class folders %s no picture that is read (" SL_IMAGES_SUFFIXES
		       "), beside %" PRId64 ": %s",
		       set->root ? set->root : spec->given[0], set->passed_over, sl_plural(set->passed_over),
		       set->passed_over == 1 ? "is" : "are", set->files.n, out->passed_kinds);
	return SL_OK;
}

static void close_set(struct sl_set *set)
{
	sl_images_close(set->data);
	free(set->data);
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct sl_images *s = set->data;
	const char *folder = sl_name(&s->folders, s->folder_of[index]);
	const bool ends = !folder[0] || folder[strlen(folder) - 1] == '/';

	snprintf(out, size, "%s%s%s%s%s", s->root ? s->root : "", s->root ? "/" : "", folder, ends ? "" : "/",
		 sl_name(&s->files, index));
	return out;
}

static const char *id(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const char *name = sl_name(&((const struct sl_images *)set->data)->files, index);

	snprintf(out, size, "%.*s", (int)sl_picture_stem(name), name);
	return out;
}

static const char *class_name(const struct sl_set *set, int label)
{
	return sl_name(&((const struct sl_images *)set->data)->classes, label);
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct sl_images *s = set->data;
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
	const struct sl_images *s = set->data;

	return s->label[s->folder_of[index]];
}

static const float *targets(const struct sl_set *set, int64_t index)
{
	const struct sl_images *s = set->data;

	return &s->target[index * s->targets].target;
}

static uint64_t key(const struct sl_set *set, int64_t index)
{
	return ((const struct sl_images *)set->data)->key[index];
}

static uint64_t fingerprint(const struct sl_set *set)
{
	const struct sl_images *s = set->data;
	uint64_t hash = XXH3_64bits(s->folders.text, s->folders.bytes);
	const size_t root = s->root ? strlen(s->root) : 0;

	if (s->key) /* a table has the labels */
		hash = XXH3_64bits_withSeed(s->label, (size_t)s->folders.n * sizeof *s->label,
					    XXH3_64bits_withSeed(s->classes.text, s->classes.bytes, hash));
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

/* clang-format off */
#define FUNCTIONS                                                                                              \
	.name = "images", .open = open_set, .sample = sample, .close = close_set, .sample_name = sample_name, .id = id, \
	.class_name = class_name, .label = label, .targets = targets, .file = file, .fingerprint = fingerprint
/* clang-format on */

/* A folder of pictures, one sub-folder for each class, as torchvision's ImageFolder reads it. It is train/, or the
 * other split's, in the set's `dir`; CONFIG: `files` is given. Classes are the names of train's sub-folders, sorted
 * by bytes, and count from 0. Pictures of a class are sorted by folder and name, and may lie in folders below it;
 * links are followed. Opening reads names alone; `sample` reads and decodes one file. DATA: fewer than two classes, a
 * class without a picture, a class of the other split that train lacks. */
const struct sl_source sl_source_images = {FUNCTIONS};
/* With a table of labels (label_table.h), whose rows say what stays in one part of data.split. */
static const struct sl_source labelled = {FUNCTIONS, .key = key};
