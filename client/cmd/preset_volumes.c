#include "client/cmd/preset_volumes.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/name_list.h"
#include "client/data/nifti.h"
#include "client/data/source.h"
#include "client/setup/setup.h"

enum { FAR_BELOW = -200 };

static enum sl_err list(struct sl_names *out, const char *folder, struct sl_fail *fail)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool fits = true;

	while (dir && fits && (entry = readdir(dir)))
		if (sl_nifti_ending(entry->d_name))
			fits = entry->d_name[0] == '.' || sl_names_add(out, entry->d_name);
	if (!dir)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", folder, strerror(errno));
	closedir(dir);
	sl_names_sort(out);
	return fits ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the list of volumes");
}

/* Reads a file: its spacing, and of the first one whether its values are Hounsfield units. */
static enum sl_err look(double spacing[3], bool *ct, const char *folder, const char *name, bool xyz, bool first,
			struct sl_fail *fail)
{
	char path[PATH_MAX];
	struct sl_nifti file = {.voxel = NULL};
	struct sl_nifti_view view;
	struct sl_fail why;
	FILE *f = snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX ? fopen(path, "rb") : NULL;
	enum sl_err err;

	if (!f)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s/%s: %s", folder, name, strerror(errno));
	err = sl_nifti_read(&file, f, first, &why);
	fclose(f);
	if (err)
		return sl_fail_set(fail, err, "%s: %s", path, why.text);
	sl_nifti_orient(&view, &file, xyz);
	for (int axis = 0; axis < 3; axis++)
		spacing[axis] = sl_world_spacing(&view.affine, axis);
	for (int64_t i = 0; first && i < file.dim[0] * file.dim[1] * file.dim[2]; i++)
		*ct |= file.voxel[i] <= FAR_BELOW;
	sl_nifti_close(&file);
	return SL_OK;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static enum sl_err look_at_files(struct sl_preset_volumes *out, const char *folder, bool xyz, struct sl_fail *fail)
{
	struct sl_names names = {0};
	double one[3], *all = NULL;
	enum sl_err err = list(&names, folder, fail);

	if (!err)
		all = calloc((size_t)names.n * 3 + 1, sizeof *all);
	if (!err && !all)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the list of volumes");
	for (int64_t i = 0; i < names.n && !err; i++) {
		err = look(one, &out->ct, folder, sl_name(&names, i), xyz, i == 0, fail);
		for (int axis = 0; axis < 3 && !err; axis++)
			all[axis * names.n + i] = one[axis];
	}
	for (int axis = 0; axis < 3 && !err && names.n; axis++) {
		qsort(all + axis * names.n, (size_t)names.n, sizeof *all, by_size);
		snprintf(out->spacing[axis], sizeof out->spacing[axis], "%.4g", all[axis * names.n + names.n / 2]);
	}
	free(all);
	sl_names_close(&names);
	return err;
}

enum sl_err sl_preset_volumes_look(struct sl_preset_volumes *out, const char *dir, const struct sl_conf_client *conf,
				   struct sl_fail *fail)
{
	struct sl_model_sizes sizes;
	char folder[PATH_MAX];
	enum sl_err err = sl_setup_file_sizes(&sizes, conf, fail);

	*out = (struct sl_preset_volumes){.ct = false};
	if (!err && !sizes.depth)
		err = sl_fail_set(fail, SL_ERR_CONFIG,
				  "model.network: %s takes no volumes: split.write_network writes one that does with "
				  "an example [n, C, D, H, W]",
				  conf->model.network);
	if (err)
		return err;
	snprintf(out->patch[0], sizeof out->patch[0], "%d", sizes.depth);
	snprintf(out->patch[1], sizeof out->patch[1], "%d", sizes.height / sizes.depth);
	snprintf(out->patch[2], sizeof out->patch[2], "%d", sizes.width);
	return sl_set_usual(folder, dir, SL_SPLIT_TRAIN, "")
		       ? look_at_files(out, folder, conf->data.axes == SL_AXES_XYZ, fail)
		       : SL_OK;
}
