/* How two masks of a volume agree, class by class, on their own grid. */
#ifndef SL_CLIENT_FIGURES_OVERLAP_H
#define SL_CLIENT_FIGURES_OVERLAP_H

#include <stdint.h>

#include "common/base/err.h"

struct sl_overlap {
	int64_t right, said, both; /* voxels: of the true mask, of the predicted one, of both */
	double dice;               /* NaN: neither mask has the class */
	/* The 95 % Hausdorff distance in mm: for each mask the 95th percentile, as numpy's, of the distances from its
	 * surface to the nearest voxel of the other's surface; of the two the larger, as MONAI's. A voxel is at the
	 * surface if one of its six neighbours lies outside of the class or of the volume. NaN: a mask lacks the
	 * class. */
	double hd95;
};

/* out [classes]; `right` and `said` are [dim 2, dim 1, dim 0] with classes below `classes`. Where `right` is
 * SL_LEARN_IGNORED, a voxel counts in neither mask, and `said` becomes the same. Distances are Euclidean and exact, for
 * voxels `spacing` mm apart along three axes at right angles: Felzenszwalb and Huttenlocher, Distance transforms of
 * sampled functions, 2012. hd95 of class 0 is NaN. Takes 8 bytes for each voxel of the smallest box around a class.
 * NOMEM. */
enum sl_err sl_overlap_of(struct sl_overlap *out, int classes, const uint8_t *right, uint8_t *said,
			  const int64_t dim[3], const double spacing[3], struct sl_fail *fail) SL_MUST_CHECK;

#endif
