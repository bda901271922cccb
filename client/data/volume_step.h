/* Steps of data.transforms that change a patch of a volume: RandomFlip, which turns each of its axes with probability p
 * (and the mask with it), RandomGamma, RandomNoise and RandomIntensity, which change its numbers with probability p.
 * RandomAffine3d cuts out the patch (volume_warp.h), and changes nothing here.
 * Their random numbers: Philox key (seed, step = epoch, chunk = position in the list from 1, stream SL_RNG_PATCH),
 * elements from 64 · sample. */
#ifndef SL_CLIENT_DATA_VOLUME_STEP_H
#define SL_CLIENT_DATA_VOLUME_STEP_H

#include "client/data/source.h"
#include "client/data/transform_step.h"
#include "client/data/volume.h"

/* Reads the steps of a list. CONFIG: one is unknown, misspelled or of pictures; *fail has the key data.transforms. */
enum sl_err sl_volume_steps_read(struct sl_step out[SL_VOLUME_STEPS], const struct sl_volume_spec *spec,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* Applies all steps in place: voxel [dim, channels], mask [dim] or NULL. */
void sl_volume_steps_apply(const struct sl_step *step, int n, const struct sl_sample_draw *draw, int64_t sample,
			   float *voxel, int32_t *mask, const int64_t dim[3], int64_t channels);

#endif
