#include "client/data/volume_list.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/images_impl.h"
#include "client/data/nifti.h"
#include "client/data/parts.h"
#include "common/base/folder.h"
#include "common/base/log.h"

#define EACH_CASE                                                                            \
	"each case is a file CASE.nii.gz, or CASE_0000.nii.gz, CASE_0001.nii.gz … of its " \
	"sequences. The program dcm2niix makes them of DICOM series"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of volumes");
}

/* Bytes of a file's name that name the case: not the ending, and not the number of a sequence, such as _0001. */
static size_t case_bytes(const char *name)
{
	const size_t n = strlen(name) - strlen(sl_nifti_ending(name));

	if (n > 5 && name[n - 5] == '_' && isdigit((unsigned char)name[n - 4]) && isdigit((unsigned char)name[n - 3]) &&
	    isdigit((unsigned char)name[n - 2]) && isdigit((unsigned char)name[n - 1]))
		return n - 5;
	return n;
}

/* Whether a file of this name holds a volume, or half of one, in a form that is not read. */
static bool looks_like_volume(const char *name)
{
	static const char *const ending[] = {".nii", ".nii.gz", ".nii.bz2", ".nii.xz", ".nii.zip", ".nii.zst",
					     ".mgz", ".mgh",    ".nrrd",    ".nhdr",   ".mha",     ".mhd",
					     ".mnc", ".hdr",    ".img",     ".img.gz", ".hdr.gz"};
	const size_t n = strlen(name);

	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
		if (n > strlen(ending[i]) && strcasecmp(name + n - strlen(ending[i]), ending[i]) == 0)
			return true;
	return false;
}

enum sl_err sl_volume_list_folder(struct sl_volume_list *l, const char *folder, const char *before, bool needs,
				  struct sl_fail *fail)
{
	const int64_t had = l->files.n;
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool fits = true, dicom = false;

	if (!dir)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", folder, strerror(errno));
	while (fits && (entry = readdir(dir))) {
		const size_t n = strlen(entry->d_name);
		char name[PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		dicom |= n > 4 && strcasecmp(entry->d_name + n - 4, ".dcm") == 0;
		if (sl_nifti_ending(entry->d_name) && sl_folder_entry_kind(folder, entry) == S_IFREG)
			fits = snprintf(name, sizeof name, "%s%s%s", before, before[0] ? "/" : "", entry->d_name) <
				       PATH_MAX &&
			       sl_names_add(&l->files, name);
		else if (looks_like_volume(entry->d_name) && !l->passed++)
			snprintf(l->passed_name, sizeof l->passed_name, "%.*s/%s", PATH_MAX - NAME_MAX - 2, folder,
				 entry->d_name);
	}
	closedir(dir);
	if (!fits)
		return no_memory(fail);
	if (dicom || (needs && l->files.n == had))
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %s; " EACH_CASE, folder,
				   dicom ? "has DICOM files" : "no NIfTI file in it");
	return SL_OK;
}

enum sl_err sl_volume_list_below(struct sl_volume_list *l, const char *root, const char *before, const char *without,
				 struct sl_fail *fail)
{
	struct sl_names folders = {0};
	enum sl_err err = sl_images_folders(root, &folders, fail);

	for (int64_t i = 0; i < folders.n && !err; i++) {
		const char *name = sl_name(&folders, i);
		const size_t n = without ? strlen(without) : 0;
		char path[PATH_MAX], begin[PATH_MAX];

		if (without && strncmp(name, without, n) == 0 && (!name[n] || name[n] == '/'))
			continue;
		if (snprintf(path, sizeof path, "%s%s%s", root, name[0] ? "/" : "", name) >= PATH_MAX ||
		    snprintf(begin, sizeof begin, "%s%s%s", before, before[0] && name[0] ? "/" : "", name) >= PATH_MAX)
			err = sl_fail_set(fail, SL_ERR_DATA, "%.80s…: the path is too long", root);
		else
			err = sl_volume_list_folder(l, path, begin, false, fail);
	}
	sl_names_close(&folders);
	return err;
}

/* Whole cases may lie in folders below, as in training. */
static enum sl_err list_all(struct sl_volume_list *l, const char *path, struct sl_fail *fail)
{
	const int64_t had = l->files.n;
	const enum sl_err err = sl_volume_list_below(l, path, path, NULL, fail);

	return err || l->files.n > had ? err
				       : sl_fail_set(fail, SL_ERR_DATA, "%s: no NIfTI file in it; " EACH_CASE, path);
}

/* Adds the files and folders that the user named. */
static enum sl_err list_given(struct sl_volume_list *l, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < spec->ngiven && !err; i++) {
		char path[PATH_MAX];
		size_t n = (size_t)snprintf(path, sizeof path, "%.*s", PATH_MAX - 1, spec->given[i]);

		while (n > 1 && n < PATH_MAX && path[n - 1] == '/')
			path[--n] = 0;
		if (sl_folder_is(path) && spec->volume->whole)
			err = list_all(l, path, fail);
		else if (sl_folder_is(path))
			err = sl_volume_list_folder(l, path, path, true, fail);
		else if (!sl_nifti_ending(path))
			err = sl_fail_set(fail, SL_ERR_DATA, "%s: no NIfTI file; " EACH_CASE, path);
		else if (!sl_names_add(&l->files, path))
			err = no_memory(fail);
	}
	return err;
}

/* A file's path, or a name in it, is written as "%s%s%s", AT(list, name). */
#define AT(l, name) (l)->root, (l)->root[0] ? "/" : "", name

/* Bytes of a file's name without its ending. */
static size_t stem_bytes(const char *file)
{
	return strlen(file) - strlen(sl_nifti_ending(file));
}

/* Checks a case's file number k against those before it. `n`: the bytes of its name that are the case's. */
static enum sl_err check_file(const struct sl_volume_list *l, int64_t i, int64_t k, size_t n, struct sl_fail *fail)
{
	const char *file = sl_name(&l->files, l->first[i] + k), *name = sl_name(&l->cases, i);
	const char *before = k ? sl_name(&l->files, l->first[i] + k - 1) : file;
	const int number = file[n] == '_' ? atoi(file + n + 1) : 0;

	if (k && stem_bytes(file) == stem_bytes(before) && strncmp(file, before, stem_bytes(file)) == 0)
		return sl_fail_set(fail, SL_ERR_DATA, "%s%s%s: the same case is there as %s, too: remove one of them",
				   AT(l, file), before);
	if ((file[n] == '_') != (before[n] == '_'))
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"%s%s%s: %s is there, too: case %s is either one file or sequences %s_0000, %s_0001 …",
			AT(l, file), before, name, name, name);
	if (number == k)
		return SL_OK;
	if (l->first[i + 1] - l->first[i] == 1)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s%s%s: by its name it is sequence %04d of case %s, whose sequence %s_0000 is not "
				   "there: rename it, if it is a case of its own",
				   AT(l, file), number, name, name);
	return sl_fail_set(fail, SL_ERR_DATA, "%s%s%s: sequence %s_%04d is missing", AT(l, file), name, (int)k);
}

/* Says what is wrong with the files of a case. */
static enum sl_err check_case(const struct sl_volume_list *l, int64_t i, struct sl_fail *fail)
{
	const char *name = sl_name(&l->cases, i);
	const int64_t n = l->first[i + 1] - l->first[i];
	enum sl_err err = SL_OK;

	for (int64_t k = 0; k < n && !err; k++)
		err = check_file(l, i, k, strlen(name), fail);
	if (err || n == l->channels)
		return err;
	if (n > SL_VOLUME_CHANNELS)
		return sl_fail_set(fail, SL_ERR_DATA, "%s%s%s: has %lld sequences, and %d are the most", AT(l, name),
				   (long long)n, SL_VOLUME_CHANNELS);
	for (int64_t other = 0; !err; other++) /* one has as many as most */
		if (l->first[other + 1] - l->first[other] == l->channels)
			err = sl_fail_set(fail, SL_ERR_DATA, "%s%s%s: case %s has %lld sequence%s, and %s has %lld",
					  AT(l, name), name, (long long)n, sl_plural(n), sl_name(&l->cases, other),
					  (long long)l->channels);
	return err;
}

/* How many sequences most cases have. */
static int64_t count_channels(const struct sl_volume_list *l)
{
	int64_t of[SL_VOLUME_CHANNELS + 1] = {0}, best = 1;

	for (int64_t i = 0; i < l->cases.n; i++) {
		const int64_t n = l->first[i + 1] - l->first[i];

		of[n <= SL_VOLUME_CHANNELS ? n : 0]++;
	}
	for (int64_t n = 1; n <= SL_VOLUME_CHANNELS; n++)
		best = of[n] > of[best] ? n : best;
	return best;
}

/* Takes a file out of the list that is named twice, such as by itself and by its folder. */
static bool drop_twice(struct sl_names *files, struct sl_names *again)
{
	int64_t n = files->n > 0;
	bool fits = true;

	for (int64_t i = 1; i < files->n; i++)
		if (strcmp(sl_name(files, i), sl_name(files, n - 1)) != 0)
			files->at[n++] = files->at[i];
		else
			fits = fits && sl_names_add(again, sl_name(files, i));
	files->n = n;
	return fits;
}

/* Lists a case once for each time that the user named it, as pictures are. */
static enum sl_err repeat(struct sl_volume_list *l, struct sl_fail *fail)
{
	struct sl_names files = {0}, cases = {0};
	int64_t *first = calloc((size_t)(l->files.n + l->again.n * l->channels) + 1, sizeof *first), again = 0;
	bool fits = first;

	for (int64_t i = 0; i < l->cases.n && fits; i++) {
		const int64_t begin = l->first[i], end = l->first[i + 1];
		int64_t times = 1;

		for (; again < l->again.n && strcmp(sl_name(&l->again, again), sl_name(&l->files, end - 1)) <= 0;
		     again++)
			times += strcmp(sl_name(&l->again, again), sl_name(&l->files, begin)) == 0;
		for (; times && fits; times--) {
			fits = sl_names_add(&cases, sl_name(&l->cases, i));
			for (int64_t f = begin; f < end && fits; f++)
				fits = sl_names_add(&files, sl_name(&l->files, f));
			first[cases.n] = files.n;
		}
	}
	if (!fits) {
		sl_names_close(&files);
		sl_names_close(&cases);
		free(first);
		return no_memory(fail);
	}
	sl_names_close(&l->files);
	sl_names_close(&l->cases);
	free(l->first);
	l->files = files;
	l->cases = cases;
	l->first = first;
	return SL_OK;
}

enum sl_err sl_volume_list_group(struct sl_volume_list *l, struct sl_fail *fail)
{
	int64_t twice[2];

	sl_names_sort(&l->files);
	if (!drop_twice(&l->files, &l->again))
		return no_memory(fail);
	l->first = calloc((size_t)l->files.n + 1, sizeof *l->first);
	if (!l->first)
		return no_memory(fail);
	for (int64_t i = 0; i < l->files.n; i++) {
		const char *file = sl_name(&l->files, i);
		char name[PATH_MAX];

		snprintf(name, sizeof name, "%.*s", (int)case_bytes(file), file);
		if (!l->cases.n || strcmp(sl_name(&l->cases, l->cases.n - 1), name) != 0) {
			l->first[l->cases.n] = i;
			if (!sl_names_add(&l->cases, name))
				return no_memory(fail);
		}
		l->first[l->cases.n] = i + 1;
	}
	l->channels = count_channels(l);
	if (!sl_names_twice(&l->cases, twice))
		return no_memory(fail);
	return twice[0] < 0 ? SL_OK
			    : sl_fail_set(fail, SL_ERR_DATA,
					  "%s%s%s: %s is there, too: case %s is either one file or sequences %s_0000 …",
					  AT(l, sl_name(&l->files, l->first[twice[1]])),
					  sl_name(&l->files, l->first[twice[0]]), sl_name(&l->cases, twice[0]),
					  sl_name(&l->cases, twice[0]));
}

/* Finds the folders of cases and masks. */
static enum sl_err find_folders(struct sl_volume_list *l, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";

	if (!sl_set_usual(l->root, dir, spec->split, ""))
		return sl_fail_set(
			fail, SL_ERR_NOINPUT,
			"%s: no folder %s in it; it must hold train/ and test/ with a file for each case, and "
			"%s/train and %s/test with their masks; " SL_PARTS_HINT,
			dir, spec->split == SL_SPLIT_TRAIN ? "train" : "val or test", spec->masks, spec->masks);
	if (snprintf(l->masks, sizeof l->masks, "%s/%s%s", dir, spec->masks, strrchr(l->root, '/')) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", dir);
	return SL_OK;
}

enum sl_err sl_volume_list_open(struct sl_volume_list *out, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const bool whole = spec->volume->whole && !spec->given;
	enum sl_err err = spec->given ? list_given(out, spec, fail)
			  : whole     ? sl_volume_list_classes(out, spec, fail)
				      : find_folders(out, spec, fail);

	if (!err && !spec->given && !whole)
		err = sl_volume_list_folder(out, out->root, "", true, fail);
	if (!err && !whole)
		err = sl_volume_list_group(out, fail);
	if (!err && spec->given && spec->volume->whole && out->again.n)
		err = repeat(out, fail);
	if (!err && whole) /* rows of a table, of one part */
		out->channels = count_channels(out);
	for (int64_t i = 0; i < out->cases.n && !err && !spec->given && !spec->volume->predicts; i++)
		err = check_case(out, i, fail);
	if (!err && out->passed)
		sl_log(SL_LOG_WARN, "passed-over",
		       "%" PRId64 " file%s beside the cases %s not read, such as %s: a case is a regular file, or a "
		       "link to one, that ends with .nii or .nii.gz",
		       out->passed, sl_plural(out->passed), out->passed == 1 ? "is" : "are", out->passed_name);
	return err;
}

void sl_volume_list_close(struct sl_volume_list *l)
{
	sl_names_close(&l->files);
	sl_names_close(&l->cases);
	sl_names_close(&l->classes);
	sl_names_close(&l->again);
	free(l->first);
	free(l->label);
	free(l->key);
	l->first = NULL;
	l->label = NULL;
	l->key = NULL;
}

void sl_volume_list_name(const struct sl_volume_list *l, int64_t i, char *out, size_t size)
{
	snprintf(out, size, "%s%s%s", l->root, l->root[0] ? "/" : "", sl_name(&l->cases, i));
}

enum sl_err sl_volume_list_files(const struct sl_volume_list *l, int64_t i, struct sl_volume_files *out,
				 struct sl_fail *fail)
{
	bool fits = true;
	enum sl_err err = check_case(l, i, fail);

	if (err)
		return err;
	out->name = sl_name(&l->cases, i);
	out->n = (int)l->channels;
	out->mask[0] = 0;
	for (int c = 0; c < out->n; c++)
		fits = fits && snprintf(out->path[c], PATH_MAX, "%s%s%s", l->root, l->root[0] ? "/" : "",
					sl_name(&l->files, l->first[i] + c)) < PATH_MAX;
	if (!l->masks[0])
		return SL_OK;
	for (int packed = 1; packed >= 0 && fits; packed--) {
		fits = snprintf(out->mask, PATH_MAX, "%s/%s.nii%s", l->masks, out->name, packed ? ".gz" : "") <
		       PATH_MAX;
		if (fits && access(out->mask, F_OK) == 0)
			return SL_OK;
	}
	return sl_fail_set(fail, SL_ERR_NOINPUT, fits ? "%s.gz: %s; each case needs its mask there" : "%.80s…: %s",
			   fits ? out->mask : l->root, fits ? strerror(errno) : "the path is too long");
}
