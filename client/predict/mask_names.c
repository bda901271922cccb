#include "client/predict/mask_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data/name_list.h"
#include "common/base/folder.h"

enum { NAME = PATH_MAX + 64 };

struct file {
	dev_t dev;
	ino_t ino;
};

static int by_inode(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return x->dev != y->dev ? (x->dev > y->dev) - (x->dev < y->dev) : (x->ino > y->ino) - (x->ino < y->ino);
}

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the names of masks");
}

/* Whether names of samples have no ending. */
static bool is_volume(const struct sl_mask_names *n)
{
	return n->ending[1] == 'n';
}

/* The sample's name with the masks' ending. A folder ".." becomes "__", so that no path leaves `dir`. */
static void path_of(const struct sl_mask_names *n, int64_t index, char out[SL_MASK_NAME])
{
	char name[NAME];
	const char *slash, *dot;
	size_t len;

	n->set->source->sample_name(n->set, index, name, sizeof name);
	slash = strrchr(name, '/');
	dot = is_volume(n) ? NULL : strrchr(slash ? slash : name, '.');
	len = dot && dot > name + n->common ? (size_t)(dot - name) : strlen(name);
	snprintf(out, SL_MASK_NAME, "%s/%.*s%s", n->dir, (int)(len - n->common), name + n->common, n->ending);
	for (char *up = strstr(out + strlen(n->dir), "/../"); up; up = strstr(up, "/../"))
		up[1] = up[2] = '_';
}

static void find_common(struct sl_mask_names *n)
{
	char first[NAME], name[NAME];

	for (int64_t i = 0; i < n->set->count; i++) {
		size_t same = 0, folder = 0;

		n->set->source->sample_name(n->set, i, name, sizeof name);
		if (i == 0)
			strcpy(first, name);
		for (; name[same] && name[same] == first[same] && (i == 0 || same < n->common); same++)
			if (name[same] == '/')
				folder = same + 1;
		n->common = folder;
	}
}

static enum sl_err check_twice(const struct sl_mask_names *n, struct sl_fail *fail)
{
	struct sl_names all = {0};
	const char *twice = NULL;
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < n->set->count && !err; i++) {
		char path[SL_MASK_NAME];

		path_of(n, i, path);
		err = sl_names_add(&all, path) ? SL_OK : no_memory(fail);
	}
	sl_names_sort(&all);
	for (int64_t i = 1; i < all.n && !twice; i++)
		if (strcmp(sl_name(&all, i), sl_name(&all, i - 1)) == 0)
			twice = sl_name(&all, i);
	if (twice && !err)
		err = sl_fail_set(fail, SL_ERR_CANTCREATE,
				  "two samples would have the mask %.300s: predict them by two commands, or rename one",
				  twice);
	sl_names_close(&all);
	return err;
}

/* Checks the files that exist already. */
static enum sl_err check_files(const struct sl_mask_names *n, bool force, struct sl_fail *fail)
{
	struct file *sample = calloc((size_t)n->set->count + 1, sizeof *sample);
	size_t samples = 0;
	struct stat file;
	enum sl_err err = sample ? SL_OK : no_memory(fail);

	for (int64_t i = 0; i < n->set->count && !err; i++) {
		char name[NAME];

		n->set->source->sample_name(n->set, i, name, is_volume(n) ? PATH_MAX : sizeof name);
		if (is_volume(n))
			strcat(name, n->ending);
		if (stat(name, &file) == 0)
			sample[samples++] = (struct file){file.st_dev, file.st_ino};
	}
	if (!err)
		qsort(sample, samples, sizeof *sample, by_inode);
	for (int64_t i = 0; i < n->set->count && !err; i++) {
		char path[SL_MASK_NAME];

		path_of(n, i, path);
		if (stat(path, &file) != 0)
			continue;
		if (bsearch(&(struct file){file.st_dev, file.st_ino}, sample, samples, sizeof *sample, by_inode))
			err = sl_fail_set(fail, SL_ERR_CANTCREATE,
					  "%.300s is one of the samples: name another folder for masks", path);
		else if (!force)
			err = sl_fail_set(fail, SL_ERR_CANTCREATE,
					  "%.300s exists already: give --force to replace it, or name another folder",
					  path);
	}
	free(sample);
	return err;
}

enum sl_err sl_mask_names_open(struct sl_mask_names *n, const struct sl_set *set, const char *dir, const char *ending,
			       bool force, struct sl_fail *fail)
{
	enum sl_err err;

	*n = (struct sl_mask_names){set, dir, ending, 0};
	sl_folder_hold(dir);
	find_common(n);
	err = check_twice(n, fail);
	return err ? err : check_files(n, force, fail);
}

enum sl_err sl_mask_names_path(const struct sl_mask_names *n, int64_t index, char out[SL_MASK_NAME],
			       struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	path_of(n, index, out);
	for (char *slash = strchr(out + strlen(n->dir) + 1, '/'); slash && !err; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		err = sl_folder_check(out, fail);
		if (!err)
			err = sl_folder_make(out, 0777, fail);
		*slash = '/';
	}
	return err;
}
