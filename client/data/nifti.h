/* Volumes in NIfTI-1 and NIfTI-2 files, .nii or .nii.gz: https://nifti.nimh.nih.gov. Read are one volume of whole
 * numbers of 8 to 64 bits or of floats, in either byte order. World coordinates are in mm, as in the standard: x to the
 * patient's right, y to the front, z to the head (RAS). */
#ifndef SL_CLIENT_DATA_NIFTI_H
#define SL_CLIENT_DATA_NIFTI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"

enum { SL_NIFTI_MOST = 1 << 30 /* voxels of a file */ };

/* The ending of a NIfTI file's name, ".nii.gz" or ".nii". NULL: it has neither. */
const char *sl_nifti_ending(const char *name);

/* Where voxels are in the world: the centre of voxel (a, b, c) is at m[·][0] a + m[·][1] b + m[·][2] c + m[·][3]. */
struct sl_world {
	double m[3][4];
};

struct sl_nifti {
	int64_t dim[3]; /* of the file's axes i, j and k */
	struct sl_world affine;
	bool placed;   /* the file says where the voxels are; else `affine` has their sizes alone */
	bool disputed; /* it says so twice, by sform and qform, and their axes or distances differ */
	float *voxel;  /* [k, j, i], scaled as the file says; NULL: only the header was read */
};

/* A volume with its axes along the world's. Voxel (a, b, c) is voxel[first + a step[0] + b step[1] + c step[2]]. */
struct sl_nifti_view {
	int64_t dim[3], step[3], first;
	struct sl_world affine; /* of (a, b, c) */
};

/* Reads from the start of `file`. `whole` false: the header alone. DATA: it is not such a file, is damaged, has more
 * than one volume or more than SL_NIFTI_MOST voxels, or a voxel is not finite; IO, NOMEM. *fail names no file. Memory
 * is taken once the file is known to be long enough for its voxels. Any thread. */
enum sl_err sl_nifti_read(struct sl_nifti *out, FILE *file, bool whole, struct sl_fail *fail) SL_MUST_CHECK;
void sl_nifti_close(struct sl_nifti *volume); /* idempotent; a zeroed one is fine */
/* The axes (a, b, c) go to the head, the front and the right: as SimpleITK and nnU-Net have arrays. `xyz`: to the
 * right, the front and the head, as MONAI's. Axes are permuted and turned, each to the direction that it is closest to.
 */
void sl_nifti_orient(struct sl_nifti_view *out, const struct sl_nifti *volume, bool xyz);
/* The distance of two neighbours along axis a, in mm. */
double sl_world_spacing(const struct sl_world *affine, int axis);
/* A volume to be written: [dim 2, dim 1, dim 0] of bytes, or of floats if `number` is not NULL. */
struct sl_nifti_array {
	int64_t dim[3];
	struct sl_world affine;
	const uint8_t *byte;
	const float *number;
	bool unplaced; /* of the affine only the sizes of voxels are known */
};
/* Writes a new file, compressed if its name ends in .gz (newfile.h). LIMIT: an axis is too long for NIfTI-1;
 * CANTCREATE, IO, NOMEM. *fail names the file. */
enum sl_err sl_nifti_write(const char *path, const struct sl_nifti_array *volume, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether two grids of this size are the same up to a tenth of a voxel. */
bool sl_world_agrees(const struct sl_world *a, const struct sl_world *b, const int64_t dim[3]);

#endif
