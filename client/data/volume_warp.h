/* RandomAffine3d, a step of volumes: a patch is cut from a case that is turned and resized about the patch's middle, in
 * mm. So what lies around the patch comes in at its corners. */
#ifndef SL_CLIENT_DATA_VOLUME_WARP_H
#define SL_CLIENT_DATA_VOLUME_WARP_H

#include "client/data/source.h"
#include "client/data/volume.h"

/* Draws a sample's rotation and size. Where from its middle a voxel of the patch is at x, in voxels, it is taken from
 * m x of the case. The step is the first of its list. False: the sample stays as it is, or the step is another.
 * Random numbers: Philox key (seed, step = epoch, chunk 1, stream SL_RNG_PATCH), elements from 64 · sample: whether,
 * the size; from + 4 on the angles. */
bool sl_volume_warp_draw(double m[3][3], const struct sl_step *step, const struct sl_sample_draw *draw, int64_t sample,
			 const struct sl_volume *volume);
/* As sl_volume_cut, by m: voxels trilinear, masks by the nearest voxel. */
enum sl_err sl_volume_warp(const struct sl_volume *volume, const struct sl_volume_spec *spec, const int64_t at[3],
			   double m[3][3], int classes, float *voxel, int32_t *mask,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
