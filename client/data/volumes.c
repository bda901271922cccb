/* The source of volumes: cases in folders, prepared once, and patches of them. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/data/parts.h"
#include "client/data/sources.h"
#include "client/data/volume_warp.h"
#include "client/data/volumes_impl.h"
#include "common/base/log.h"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of volumes");
}

static const struct sl_source classed;

static bool set_classes(struct sl_volumes *v, const struct sl_set_spec *spec)
{
	bool fits = true;

	for (int64_t k = 0; k < v->list.classes.n && fits; k++)
		fits = sl_names_add(&v->classes, sl_name(&v->list.classes, k));
	if (v->spec.whole)
		return fits;
	v->mask_classes = spec->mask_classes;
	for (int k = 0; k < spec->mask_classes && k < SL_LEARN_IGNORED && fits; k++) {
		char number[24];

		snprintf(number, sizeof number, "%d", k);
		fits = sl_names_add(&v->classes, spec->nlabels > 1 && k < spec->nlabels ? spec->label[k] : number);
	}
	return fits;
}

static void close_volumes(struct sl_volumes *v)
{
	for (int64_t i = 0; i < v->list.cases.n && v->at; i++)
		sl_volume_close(&v->at[i]);
	sl_volume_list_close(&v->list);
	sl_names_close(&v->classes);
	free(v->at);
	free(v->hash);
	free(v->key);
	free(v->begin);
	free(v);
}

/* What data.split keeps together. */
static enum sl_err set_keys(struct sl_volumes *v, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	if (v->list.key) {
		v->key = v->list.key;
		v->list.key = NULL;
		return SL_OK;
	}
	v->key = calloc((size_t)v->list.cases.n + 1, sizeof *v->key);
	return v->key ? sl_parts_name_keys(spec, &v->list.cases, v->key, fail) : no_memory(fail);
}

/* Whole cases have a class, and patches have masks. */
static enum sl_err check_task(const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const enum sl_learn_kind kind = spec->task ? spec->task->kind : SL_LEARN_CLASSES;

	if (kind == (spec->volume->whole ? SL_LEARN_CLASSES : SL_LEARN_PIXELS))
		return SL_OK;
	return sl_fail_at(fail, "model.task", SL_ERR_CONFIG, "%s",
			  !spec->volume->whole
				  ? "with data.patch volumes have masks, and this network gives one class "
				    "for all voxels: give data.size, and folders of classes or data.labels; "
				    "or a network with a class for each voxel"
			  : kind == SL_LEARN_PIXELS
				  ? "with data.size a volume has one class, and this network gives one for each voxel: "
				    "give data.patch, and masks"
				  : "with data.size a volume has one class: give classes");
}

/* Lists the cases and reads the steps. On failure *out is NULL. */
static enum sl_err list(struct sl_volumes **out, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	struct sl_volumes *v = calloc(1, sizeof *v);
	enum sl_err err;

	*out = NULL;
	if (!v)
		return no_memory(fail);
	v->spec = *spec->volume;
	v->unprepared = v->spec.cases || (v->spec.whole && (spec->given || v->spec.predicts));
	v->draws = spec->split == SL_SPLIT_TRAIN && (!spec->parts || spec->parts->own == SL_PARTS_TRAIN);
	err = spec->files ? sl_fail_at(fail, "data.kind", SL_ERR_CONFIG, "volumes are read from folders below data.dir")
	      : !v->unprepared && !v->spec.cache[0] ? sl_fail_at(fail, "data.cache", SL_ERR_CONFIG,
								 "without log.dir, prepared volumes need a folder here")
						    : check_task(spec, fail);
	if (!err)
		err = sl_volume_steps_read(v->step, &v->spec, fail);
	if (!err)
		err = sl_volume_list_open(&v->list, spec, fail);
	if (!err && v->list.channels > 1)
		sl_log(SL_LOG_INFO, "cases",
		       "%" PRId64 " files are %" PRId64 " case%s of %" PRId64 " sequences, such as %s of %s_0000 …",
		       v->list.files.n, v->list.cases.n, sl_plural(v->list.cases.n), v->list.channels,
		       sl_name(&v->list.cases, 0), sl_name(&v->list.cases, 0));
	if (!err && !set_classes(v, spec))
		err = no_memory(fail);
	if (!err) {
		v->at = calloc((size_t)v->list.cases.n + 1, sizeof *v->at);
		v->hash = calloc((size_t)v->list.cases.n + 1, sizeof *v->hash);
		err = v->at && v->hash ? set_keys(v, spec, fail) : no_memory(fail);
	}
	if (err)
		close_volumes(v);
	else
		*out = v;
	return err;
}

static void describe_set(const struct sl_source *self, const struct sl_volumes *v, int64_t count, struct sl_set *out)
{
	const int64_t *patch = v->spec.patch;

	*out = (struct sl_set){
		.source = self,
		.count = count,
		.classes = (int)v->classes.n,
		.field = {{"volume", SL_F32, 3, {patch[0] * patch[1], patch[2], v->list.channels}},
			  {"mask", SL_I32, 2, {patch[0] * patch[1], patch[2]}}},
	};
	if (v->spec.whole) {
		out->source = &classed;
		out->field[SL_FIELD_TARGET] = (struct sl_field_type){"label", SL_I32, 0, {0}};
	}
}

/* The samples of a case of this size. */
static int64_t count_of(const struct sl_volumes *v, const int64_t dim[3])
{
	int64_t n = 1;

	if (v->draws)
		return v->spec.patches;
	for (int axis = 0; axis < 3; axis++)
		n *= sl_patch_count(v->spec.patch[axis], dim[axis]);
	return n;
}

/* ---- samples */

static enum sl_err count_samples(struct sl_volumes *v, struct sl_fail *fail)
{
	v->begin = calloc((size_t)v->list.cases.n + 1, sizeof *v->begin);
	if (!v->begin)
		return no_memory(fail);
	for (int64_t i = 0; i < v->list.cases.n; i++) {
		v->begin[i + 1] = v->begin[i] + (v->spec.whole ? 1 : count_of(v, v->at[i].head->dim));
		if (v->begin[i + 1] > SL_SET_MAX_SAMPLES)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d patches", v->list.root,
					   SL_SET_MAX_SAMPLES);
	}
	return SL_OK;
}

/* Of cases that are divided, once. */
static void warn(const struct sl_volumes *v, const struct sl_set_spec *spec)
{
	if (v->draws && !v->spec.whole)
		sl_volume_warn_of_classes(v->at, &v->list, &v->classes);
	sl_parts_warn_of_cases(spec, &v->list.cases);
	if (v->unprepared || (spec->parts && !v->draws))
		return;
	sl_volume_warn_of_sizes(v->at, v->list.cases.n, &v->spec, &v->list, 0);
	sl_volume_warn_of_same(v->at, &v->list);
}

/* Cases that are prepared are looked at more closely. */
static enum sl_err check_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			     struct sl_fail *fail)
{
	struct sl_volume_files *files = malloc(sizeof *files);
	struct sl_volumes *v = NULL;
	struct sl_set part = {.data = NULL};
	char path[PATH_MAX];
	bool all = true;
	int64_t count = 0, dim[3] = {1, 1, 1};
	enum sl_err err = files ? list(&v, spec, fail) : no_memory(fail);

	for (int64_t i = 0; !err && i < v->list.cases.n; i++) {
		err = sl_volume_list_files(&v->list, i, files, fail);
		if (!err)
			err = sl_volume_check(dim, &v->spec, files, fail);
		if (!err)
			err = sl_volumes_look_up(v, i, files, path, fail);
		if (!err && v->at[i].head)
			err = sl_volumes_check_classes(v, i, files, fail);
		all = all && v->at[i].head;
		if (!err && (v->spec.whole || !spec->parts || sl_parts_of(spec->parts, v->key[i]) == spec->parts->own))
			count += v->spec.whole ? 1 : count_of(v, v->at[i].head ? v->at[i].head->dim : dim);
	}
	if (!err && v->spec.whole && spec->parts) { /* parts have equal shares of each class */
		describe_set(self, v, count, &part);
		part.data = v;
		err = sl_parts_take(&part, spec, fail);
		count = part.count;
	}
	if (!err && spec->parts && !count)
		err = sl_fail_at(fail, "data.split", SL_ERR_CONFIG,
				 "a part would have none of the %lld cases: give it a larger share, or another "
				 "data.split.seed",
				 (long long)v->list.cases.n);
	if (!err && all)
		warn(v, spec);
	else if (!err)
		sl_parts_warn_of_cases(spec, &v->list.cases);
	if (!err && !all && !v->draws && !v->spec.whole)
		sl_log(SL_LOG_INFO, "unprepared",
		       "%s: not all cases are prepared, which cuts background off: there are at most %" PRId64
		       " patches to evaluate with, and at most as many bytes. splitc data prepares them",
		       v->list.root, count);
	if (!err)
		describe_set(self, v, spec->max_samples && count > spec->max_samples ? spec->max_samples : count, out);
	if (!err)
		out->source = self;
	if (part.data)
		part.source->close(&part);
	else if (v)
		close_volumes(v);
	free(files);
	return err;
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct sl_volumes *v;
	enum sl_err err = list(&v, spec, fail);

	if (err)
		return err;
	if (!v->unprepared)
		err = sl_volumes_prepare(v, fail);
	else if (v->spec.predicts && !spec->given && v->spec.cache[0])
		err = sl_volumes_find(v, fail);
	if (!err && !v->unprepared)
		err = count_samples(v, fail);
	if (err) {
		close_volumes(v);
		return err;
	}
	warn(v, spec);
	describe_set(self, v, v->unprepared ? v->list.cases.n : v->begin[v->list.cases.n], out);
	out->data = v;
	return SL_OK;
}

static void close_set(struct sl_set *set)
{
	close_volumes(set->data);
}

/* Which case a sample is of. */
static int64_t case_of(const struct sl_volumes *v, int64_t index)
{
	int64_t low = 0, high = v->list.cases.n - 1;

	if (v->unprepared || v->spec.whole)
		return index;
	while (low < high) {
		const int64_t middle = (low + high + 1) / 2;

		if (v->begin[middle] <= index)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* With spec.cases. */
static enum sl_err take_files(const struct sl_volumes *v, int64_t index, struct sl_room *room,
			      struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	if (sl_room_need(room, sizeof(struct sl_volume_files)))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the paths of a case");
	out[SL_FIELD_INPUT] = (struct sl_value){.data = room->data};
	return sl_volume_list_files(&v->list, index, (struct sl_volume_files *)(void *)room->data, fail);
}

/* Cuts a sample into the room; mask NULL: there is none. */
static enum sl_err cut(const struct sl_volumes *v, int64_t index, const struct sl_sample_draw *draw, float *voxel,
		       int32_t *mask, struct sl_fail *fail)
{
	const int64_t which = case_of(v, index);
	struct sl_volume given = {.head = NULL};
	const struct sl_volume *of = &v->at[which];
	double m[3][3];
	int64_t at[3];
	enum sl_err err = v->unprepared ? sl_volumes_given(v, which, &of, &given, fail) : SL_OK;

	if (err)
		return err;
	for (int axis = 0; axis < 3; axis++)
		at[axis] = sl_patch_around(of->head->dim[axis] / 2, v->spec.patch[axis], of->head->dim[axis]);
	if (!v->spec.whole && v->draws)
		sl_patch_draw(of, &v->spec, v->mask_classes, draw, index, at);
	else if (!v->spec.whole)
		sl_patch_place(of, &v->spec, index - v->begin[which], at);
	if (v->draws && v->spec.steps && sl_volume_warp_draw(m, v->step, draw, index, of))
		err = sl_volume_warp(of, &v->spec, at, m, v->mask_classes, voxel, mask, fail);
	else
		err = sl_volume_cut(of, &v->spec, at, v->mask_classes, voxel, mask, fail);
	sl_volume_close(&given);
	if (!err && v->draws)
		sl_volume_steps_apply(v->step, v->spec.steps, draw, index, voxel, mask, v->spec.patch,
				      v->list.channels);
	return err;
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	static const struct sl_sample_draw none = {0};
	const struct sl_volumes *v = set->data;
	const struct sl_sample_draw *draw = room->draw ? room->draw : &none;
	const int64_t *patch = v->spec.patch, voxels = patch[0] * patch[1] * patch[2];
	struct sl_fail why = {.text = ""};
	enum sl_err err;

	if (v->spec.cases)
		return take_files(v, index, room, out, fail);
	if (sl_room_need(room, (size_t)(voxels * v->list.channels) * sizeof(float)) ||
	    (!v->spec.whole && sl_room_need_deep(room, (size_t)voxels * sizeof(int32_t))))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a patch of %" PRId64 " voxels", voxels);
	if (v->spec.whole) /* errors name a file */
		err = cut(v, index, draw, (float *)(void *)room->data, NULL, fail);
	else
		err = sl_set_blame(
			set, index,
			cut(v, index, draw, (float *)(void *)room->data, (int32_t *)(void *)room->deep, &why), &why,
			fail);
	if (err)
		return err;
	out[SL_FIELD_INPUT] =
		(struct sl_value){.data = room->data, .dim = {patch[0] * patch[1], patch[2], v->list.channels}};
	out[SL_FIELD_TARGET] = (struct sl_value){.data = room->deep, .dim = {patch[0] * patch[1], patch[2]}};
	if (v->spec.whole)
		out[SL_FIELD_TARGET] =
			v->list.label ? (struct sl_value){.data = &v->list.label[index]} : sl_value_unlabelled();
	return SL_OK;
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct sl_volumes *v = set->data;

	sl_volume_list_name(&v->list, case_of(v, index), out, size);
	return out;
}

static const char *class_name(const struct sl_set *set, int label)
{
	return sl_name(&((const struct sl_volumes *)set->data)->classes, label);
}

/* All patches of a case, and of cases with one key, stay in one part of data.split. */
static uint64_t key(const struct sl_set *set, int64_t index)
{
	const struct sl_volumes *v = set->data;

	return v->key[case_of(v, index)];
}

static uint64_t images(const struct sl_set *set, int64_t index)
{
	const struct sl_volumes *v = set->data;

	/* of cases for prediction nothing is read yet */
	return v->unprepared ? (uint64_t)index : v->at[case_of(v, index)].head->images;
}

static uint64_t fingerprint(const struct sl_set *set)
{
	const struct sl_volumes *v = set->data;

	uint64_t hash = XXH3_64bits(v->list.cases.text, v->list.cases.bytes);

	for (int64_t i = 0; i < v->list.cases.n && v->at[i].head; i++)
		hash = XXH3_64bits_withSeed(&v->at[i].head->contents, sizeof(uint64_t), hash);
	return hash;
}

static int32_t label(const struct sl_set *set, int64_t index)
{
	const struct sl_volumes *v = set->data;

	return v->list.label ? v->list.label[index] : 0;
}

/* Of whole cases: with their classes. */
static uint64_t fingerprint_of_classes(const struct sl_set *set)
{
	const struct sl_volumes *v = set->data;
	const uint64_t hash = XXH3_64bits_withSeed(v->classes.text, v->classes.bytes, fingerprint(set));

	return v->list.label
		       ? XXH3_64bits_withSeed(v->list.label, (size_t)v->list.cases.n * sizeof *v->list.label, hash)
		       : hash;
}

/* How volumes become inputs. */
static void describe(const struct sl_set *set, json_t *about)
{
	static const char *const kind[] = {"none", "ct", "mri"};
	const struct sl_volume_spec *s = &((const struct sl_volumes *)set->data)->spec;
	const struct sl_conf_intensity *x = &s->intensity;

	json_object_set_new(about, "volume",
			    json_pack("{s:[I, I, I], s:[f, f, f], s:s, s:s, s:[f, f, f, f]}",
				      s->whole ? "size" : "patch", (json_int_t)s->patch[0], (json_int_t)s->patch[1],
				      (json_int_t)s->patch[2], "spacing", s->spacing[0], s->spacing[1], s->spacing[2],
				      "axes", s->xyz ? "xyz" : "zyx", "intensity", kind[x->kind], "by", x->low, x->high,
				      x->mean, x->deviation));
}

/* clang-format off */
#define FUNCTIONS                                                                                                       \
	.name = "volumes", .open = open_set, .check = check_set, .checks_parts = true, .sample = sample, .close = close_set, \
	.sample_name = sample_name, .class_name = class_name, .key = key, .images = images, .describe = describe
/* clang-format on */

/* A set of volumes with masks: train/CASE.nii.gz, or sequences CASE_0000.nii.gz …, in the set's `dir`, and
 * masks/train/CASE.nii.gz. A training sample is a patch that is drawn from a case, spec.patches for each case; another
 * sample is one of the patches, side by side, that cover a case. Opening prepares the cases that are not in the cache.
 * With spec.cases, for prediction, a sample is a case: nothing is prepared, and its input is the struct
 * sl_volume_files of its files. The user may name the cases then, which have no masks. */
const struct sl_source sl_source_volumes = {FUNCTIONS, .fingerprint = fingerprint};
/* With spec.whole a sample is a case, cropped or padded, with a class. Cases for prediction are prepared in memory when
 * they are read; those that the user named have no class. */
static const struct sl_source classed = {FUNCTIONS, .fingerprint = fingerprint_of_classes, .label = label};
