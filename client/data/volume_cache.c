/* The prepared cases of a set of volumes: those in data.cache, and those for prediction (volumes_impl.h). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/data/volumes_impl.h"
#include "common/base/clock.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/graph/task.h"
#include "common/telemetry/progress.h"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of volumes");
}

/* The file of a prepared case, below the cache: train-CASE.vol, or train-CLASS/CASE.vol. */
static enum sl_err name_prepared(char path[PATH_MAX], const struct sl_volumes *v, const char *name,
				 struct sl_fail *fail)
{
	const char *slash = strrchr(v->list.root, '/');

	if (snprintf(path, PATH_MAX, "%s/%.15s-%s.vol", v->spec.cache, slash ? slash + 1 : v->list.root, name) >=
	    PATH_MAX)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%.80s…: the path is too long", v->spec.cache);
	return SL_OK;
}

static void show_progress(struct sl_progress *progress, int64_t done, int64_t all)
{
	const struct sl_progress_state state = {.phase = "prepare",
						.epoch = 1,
						.epochs = 1,
						.step = (uint64_t)done,
						.steps = (uint64_t)all,
						.steps_left = (uint64_t)(all - done),
						.samples = (uint64_t)done,
						.loss = (double)NAN,
						.acc = (double)NAN};

	if (progress)
		sl_progress_update(progress, &state, sl_now_ms());
}

/* Maps case i if it is prepared. `path` becomes that of its prepared file. */
enum sl_err sl_volumes_look_up(struct sl_volumes *v, int64_t i, const struct sl_volume_files *files,
			       char path[PATH_MAX], struct sl_fail *fail)
{
	enum sl_err err = name_prepared(path, v, files->name, fail);

	if (!err)
		err = sl_volume_hash(&v->hash[i], &v->spec, files, fail);
	if (!err)
		(void)!sl_volume_map(&v->at[i], path, v->hash[i], NULL);
	return err;
}

/* Whether a mapped case is what was written; else that is said. */
static bool is_sound(const struct sl_volumes *v, int64_t i)
{
	char name[PATH_MAX];

	if (sl_volume_is_sound(&v->at[i]))
		return true;
	sl_volume_list_name(&v->list, i, name, sizeof name);
	sl_log_limited(SL_LOG_WARN, "cache-damaged",
		       "%s: its prepared file in data.cache has other bytes than were written, so the case is prepared "
		       "again. Is that disk failing?",
		       name);
	return false;
}

/* Maps the cases for prediction that were prepared before. */
enum sl_err sl_volumes_find(struct sl_volumes *v, struct sl_fail *fail)
{
	struct sl_volume_files *files = malloc(sizeof *files);
	char path[PATH_MAX];

	for (int64_t i = 0; i < v->list.cases.n && files; i++)
		if (sl_volume_list_files(&v->list, i, files, NULL) == SL_OK)
			(void)!sl_volumes_look_up(v, i, files, path, NULL);
	free(files);
	return files ? SL_OK : no_memory(fail);
}

/* DATA: the mask of a prepared case has a class that the network lacks. */
enum sl_err sl_volumes_check_classes(const struct sl_volumes *v, int64_t i, const struct sl_volume_files *files,
				     struct sl_fail *fail)
{
	const int64_t *voxels = v->at[i].head->voxels;

	for (int k = v->mask_classes; k < SL_LEARN_IGNORED && !v->spec.whole; k++)
		if (voxels[k])
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s: " SL_VOLUME_CLASS ". It has %" PRId64 " voxel%s of class %d",
					   files->mask, k, v->mask_classes - 1, SL_LEARN_IGNORED, voxels[k],
					   sl_plural(voxels[k]), k);
	return SL_OK;
}

/* Prepares a case, and maps it. */
static enum sl_err prepare_now(struct sl_volumes *v, int64_t i, const struct sl_volume_files *files, const char *path,
			       struct sl_progress **progress, struct sl_fail *fail)
{
	const struct sl_progress_options shown = {.fd = 2};
	char folder[PATH_MAX];
	enum sl_err err = SL_OK;

	if (!*progress) {
		sl_log(SL_LOG_INFO, "prepare",
		       "volumes of %s are prepared into %s (data.cache): %" PRId64 " case%s of "
		       "%" PRId64 " sequence%s",
		       v->list.root, v->spec.cache, v->list.cases.n, sl_plural(v->list.cases.n), v->list.channels,
		       sl_plural(v->list.channels));
		err = sl_progress_open(progress, &shown, fail);
	}
	if (!err && sl_folder_of(path, folder)) /* a class's */
		err = sl_folder_make(folder, 0700, fail);
	if (!err)
		err = sl_volume_prepare(path, v->hash[i], &v->spec, files, fail);
	return err ? err : sl_volume_map(&v->at[i], path, v->hash[i], fail);
}

/* Maps a case, which is prepared first where that was not done yet, or where its file is damaged. */
static enum sl_err prepare_one(struct sl_volumes *v, int64_t i, struct sl_volume_files *files,
			       struct sl_progress **progress, struct sl_fail *fail)
{
	char path[PATH_MAX];
	enum sl_err err = sl_volume_list_files(&v->list, i, files, fail);

	if (!err)
		err = sl_volumes_look_up(v, i, files, path, fail);
	if (!err && v->at[i].head && !is_sound(v, i))
		sl_volume_close(&v->at[i]);
	if (!err && !v->at[i].head)
		err = prepare_now(v, i, files, path, progress, fail);
	if (!err)
		sl_volume_warn_of_place(v->at[i].head->unplaced, v->at[i].head->disputed, files->path[0]);
	return err;
}

/* Locks a folder of prepared cases, so that two processes do not prepare a case at once. Returns a descriptor, which
 * the caller closes; -1: there is no lock. */
static int lock_folder(const char *cache)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof path, "%s/lock", cache) >= PATH_MAX)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	sl_log(SL_LOG_INFO, "prepare-wait", "%s: another process prepares volumes there: this one waits for it", cache);
	while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
		;
	return fd;
}

enum sl_err sl_volumes_prepare(struct sl_volumes *v, struct sl_fail *fail)
{
	struct sl_volume_files *files = malloc(sizeof *files);
	struct sl_progress *progress = NULL;
	enum sl_err err = sl_folder_make(v->spec.cache, 0700, fail);
	const int lock = err ? -1 : lock_folder(v->spec.cache);

	if (!err && !files)
		err = no_memory(fail);
	for (int64_t i = 0; i < v->list.cases.n && !err; i++) {
		err = prepare_one(v, i, files, &progress, fail);
		if (!err)
			err = sl_volumes_check_classes(v, i, files, fail);
		if (!err)
			show_progress(progress, i + 1, v->list.cases.n);
	}
	sl_progress_close(progress);
	if (lock >= 0)
		close(lock);
	free(files);
	return err;
}

/* Of whole cases for prediction: prepares one in memory. */
static enum sl_err prepare_given(const struct sl_volumes *v, int64_t index, struct sl_volume *out, struct sl_fail *fail)
{
	struct sl_volume_files *files = malloc(sizeof *files);
	struct sl_volume_back never;
	enum sl_err err = files ? sl_volume_list_files(&v->list, index, files, fail) : no_memory(fail);

	if (!err)
		err = sl_volume_prepare_here(out, &never, &v->spec, files, fail);
	free(files);
	return err;
}

/* Gives a case for prediction: as it was prepared before, unless that is damaged, or else `here`, prepared in memory.
 */
enum sl_err sl_volumes_given(const struct sl_volumes *v, int64_t index, const struct sl_volume **out,
			     struct sl_volume *here, struct sl_fail *fail)
{
	const struct sl_volume *before = &v->at[index];
	enum sl_err err = SL_OK;

	*out = before;
	if (!before->head || !is_sound(v, index)) {
		*out = here;
		err = prepare_given(v, index, here, fail);
	}
	if (!err)
		sl_volume_warn_of_sizes(*out, 1, &v->spec, &v->list, index);
	return err;
}
