#include "client/data/source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/data/parts.h"
#include "client/data/sources.h"
#include "client/data/subset.h"
#include "common/base/folder.h"

#define SOURCE(id, name, word) &sl_source_##name,
static const struct sl_source *const sources[] = {SL_DATA_KINDS(SOURCE) NULL};

const struct sl_source *sl_source_find(const char *name)
{
	const struct sl_source *const *source = sources;

	while (*source && strcmp((*source)->name, name) != 0)
		source++;
	return *source;
}

static enum sl_err spec_check(const struct sl_source **out, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const struct sl_source *source = sl_source_find(spec->source);

	if (!source || (unsigned)spec->split >= SL_SPLIT_COUNT)
		return sl_fail_set(fail, SL_ERR_CONFIG, "data set: unknown kind or split");
	if (spec->files && spec->nfiles < 1)
		return sl_fail_set(fail, SL_ERR_CONFIG, "data set: the list of files is empty");
	if (spec->max_samples < 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "data set: number of samples out of range");
	*out = source;
	return SL_OK;
}

const char *sl_set_part_of(const char *path)
{
	static const char *const part[][2] = {{"val", "validation"}, {"dev", "validation"}, {"test", "test"}};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
		if (strncasecmp(name, part[i][0], strlen(part[i][0])) == 0)
			return part[i][1];
	return NULL;
}

/* The part of an evaluation whose folder or table is found by its usual name. */
static const char *usual_part(const struct sl_set_spec *spec)
{
	const bool table = strcmp(spec->source, "csv") == 0 || (spec->task && spec->task->each && !spec->labels);
	char path[PATH_MAX];

	return !spec->files && !spec->given && spec->split == SL_SPLIT_TEST &&
			       sl_set_usual(path, spec->dir ? spec->dir : ".", spec->split, table ? ".csv" : "")
		       ? sl_set_part_of(path)
		       : NULL;
}

enum sl_err sl_set_open(struct sl_set *out, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const struct sl_source *source;
	struct sl_set_spec whole = *spec;
	struct sl_set set;
	enum sl_err err = spec_check(&source, spec, fail);

	if (spec->parts)
		whole.max_samples = 0;
	if (!err)
		err = source->open(source, &set, &whole, fail);
	if (err)
		return err;
	if (!set.part)
		set.part = usual_part(spec);
	if (spec->aligned && !spec->given && !spec->id[0]) /* a table has done so, since means are of its rows */
		err = sl_subset_aligned(&set, spec->aligned, spec->split, fail);
	if (!err && spec->parts && !spec->given)
		err = sl_parts_take(&set, spec, fail);
	if (!err)
		err = sl_subset_spread(&set, spec->max_samples, fail);
	if (err)
		sl_set_close(&set);
	else
		*out = set;
	return err;
}

int64_t sl_set_cases(const struct sl_set *set)
{
	const struct sl_source *from = set->source;
	int64_t n = 0;

	for (int64_t i = 0; i < set->count && from->images; i++) /* samples of a case follow each other */
		n += i == 0 || from->images(set, i) != from->images(set, i - 1);
	return n;
}

enum sl_err sl_set_check(struct sl_set *out, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const struct sl_source *source;
	enum sl_err err = spec_check(&source, spec, fail);

	if (err)
		return err;
	if (source->check && (!spec->parts || source->checks_parts))
		return source->check(source, out, spec, fail);
	err = sl_set_open(out, spec, fail);
	if (!err) {
		out->source->close(out);
		out->data = NULL;
		out->source = source;
	}
	return err;
}

static const char *const part_names[SL_SPLIT_COUNT][8] = {{"train", "training"},
							  {"val", "valid", "validation", "dev", "test", "testing"}};

bool sl_set_in_part(const char *path)
{
	const size_t n = strcspn(path, "/");

	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		for (const char *const *name = part_names[split]; *name; name++)
			if (path[n] && strlen(*name) == n && strncasecmp(path, *name, n) == 0)
				return true;
	return false;
}

bool sl_set_usual(char out[PATH_MAX], const char *dir, enum sl_split split, const char *end)
{
	const size_t at = strlen(dir) + 1;

	for (const char *const *name = part_names[split]; *name; name++)
		for (size_t capitals = 0; capitals < 3; capitals++) { /* capitals: none, the first letter, all */
			if (snprintf(out, PATH_MAX, "%s/%s%s", dir, *name, end) >= PATH_MAX)
				return false;
			for (size_t i = 0; i < (capitals < 2 ? capitals : strlen(*name)); i++)
				out[at + i] = (char)toupper((unsigned char)out[at + i]);
			if (end[0] ? sl_folder_is_file(out) : sl_folder_is(out))
				return true;
		}
	return false;
}

enum sl_err sl_set_label(const struct sl_set *set, int64_t index, struct sl_room *room, int32_t *out,
			 struct sl_fail *fail)
{
	struct sl_value value[SL_FIELD_COUNT];
	enum sl_err err = SL_OK;

	if (set->source->label) {
		*out = set->source->label(set, index);
		return SL_OK;
	}
	err = set->source->sample(set, index, room, value, fail);
	if (!err)
		memcpy(out, value[SL_FIELD_TARGET].data, sizeof *out);
	return err;
}

enum sl_err sl_set_blame(const struct sl_set *set, int64_t index, enum sl_err err, const struct sl_fail *why,
			 struct sl_fail *fail)
{
	char name[PATH_MAX];

	if (!err || !why->text[0])
		return err;
	if (!set->source->sample_name)
		return sl_fail_set(fail, err, "%s", why->text);
	return sl_fail_set(fail, err, "%s: %s", set->source->sample_name(set, index, name, sizeof name), why->text);
}

void sl_set_close(struct sl_set *set)
{
	if (set->source)
		set->source->close(set);
	*set = (struct sl_set){0};
}

enum sl_err sl_set_most_tokens(const struct sl_set *set, int64_t rows, int64_t *out, struct sl_fail *fail)
{
	int64_t *having = calloc(UINT16_MAX + 1, sizeof *having), sum = 0; /* having[n]: samples of n tokens */

	if (!having)
		return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the data set");
	for (int64_t i = 0; i < set->count; i++)
		having[set->source->extent(set, i)]++;
	for (int64_t length = UINT16_MAX; length > 0 && rows > 0; length--) {
		const int64_t n = having[length] < rows ? having[length] : rows;

		sum += n * length;
		rows -= n;
	}
	free(having);
	*out = sum;
	return SL_OK;
}

static enum sl_err need(uint8_t **at, size_t *has, size_t bytes)
{
	uint8_t *data;

	if (bytes <= *has)
		return SL_OK;
	data = malloc(bytes);
	if (!data)
		return SL_ERR_NOMEM;
	free(*at);
	*at = data;
	*has = bytes;
	return SL_OK;
}

enum sl_err sl_room_need(struct sl_room *room, size_t bytes)
{
	return need(&room->data, &room->bytes, bytes);
}

enum sl_err sl_room_need_file(struct sl_room *room, size_t bytes)
{
	return need(&room->file, &room->file_bytes, bytes);
}

enum sl_err sl_room_need_deep(struct sl_room *room, size_t bytes)
{
	return need(&room->deep, &room->deep_bytes, bytes);
}

void sl_room_close(struct sl_room *room)
{
	free(room->data);
	free(room->file);
	free(room->deep);
	if (room->mask)
		sl_room_close(room->mask);
	free(room->mask);
	*room = (struct sl_room){0};
}

/* "image [H,W,3]" */
static const char *type_text(const struct sl_field_type *type, char out[80])
{
	const char *free_dim = type->ndim == 3 ? "HWC" : "nnn";
	int n = snprintf(out, 80, "%s [", type->name);

	for (int i = 0; i < type->ndim; i++) {
		if (type->dim[i])
			n += snprintf(out + n, 80 - (size_t)n, "%s%lld", i ? "," : "", (long long)type->dim[i]);
		else
			n += snprintf(out + n, 80 - (size_t)n, "%s%c", i ? "," : "", free_dim[i]);
	}
	snprintf(out + n, 80 - (size_t)n, "]");
	return out;
}

struct plain {
	const char *field, *words, *kinds;
};

/* What a user calls a field, and which kinds of data have it. */
static struct plain plain_words(const struct sl_field_type *type)
{
	static const struct plain all[] = {{"image", "pictures", "images, webdataset, cifar10 or cifar100"},
					   {"volume", "volumes", "volumes"},
					   {"tokens", "texts", "text or glue"},
					   {"row", "rows of a table", "csv"}};
	size_t i = 0;

	while (i + 1 < sizeof all / sizeof all[0] && strcmp(all[i].field, type->name) != 0)
		i++;
	return all[i];
}

enum sl_err sl_set_fits(const struct sl_set *set, enum sl_field_use use, const struct sl_field_type *wanted,
			struct sl_fail *fail)
{
	const struct sl_field_type *has = &set->field[use];
	const int last = wanted->ndim - 1;
	char a[80], b[80];

	if (strcmp(has->name, wanted->name) != 0 || has->ndim != wanted->ndim)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "the network takes %s, and %s has %s: choose data.kind: %s; or another network",
				   plain_words(wanted).words, set->source->name, plain_words(has).words,
				   plain_words(wanted).kinds);
	if (last >= 0 && has->dim[last] && wanted->dim[last] && has->dim[last] != wanted->dim[last])
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "the network takes %s; %s has %s: data with %lld channel%s would fit",
				   type_text(wanted, a), set->source->name, type_text(has, b),
				   (long long)wanted->dim[last], sl_plural(wanted->dim[last]));
	return SL_OK;
}
