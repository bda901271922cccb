/* Any bytes as a NIfTI file. A refusal must have a message. A volume that was read is oriented both ways: each view
 * must lie within its voxels, and all of these must be finite. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/data/nifti.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sl_nifti *v, bool xyz)
{
	const int64_t n = v->dim[0] * v->dim[1] * v->dim[2];
	struct sl_nifti_view w;
	int64_t last;

	sl_nifti_orient(&w, v, xyz);
	last = w.first;
	for (int axis = 0; axis < 3; axis++)
		last += (w.dim[axis] - 1) * w.step[axis];
	if (w.first < 0 || w.first >= n || last != n - 1 - w.first || w.dim[0] * w.dim[1] * w.dim[2] != n)
		abort();
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(v->voxel[i]))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
	struct sl_nifti v = {.voxel = NULL};
	struct sl_fail fail = {.code = SL_OK};

	if (!file)
		return 0;
	if (sl_nifti_read(&v, file, true, &fail) != SL_OK) {
		if (!fail.text[0] || v.voxel)
			abort();
	} else {
		check(&v, false);
		check(&v, true);
	}
	sl_nifti_close(&v);
	fclose(file);
	return 0;
}
