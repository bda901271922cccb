/* A prepared volume's logits from windows that overlap. Along each axis windows begin at most half a window apart. The
 * logits of a voxel are the mean over its windows, by weights that fall from a window's middle: a Gaussian with a
 * deviation of 1/8 of its side, as in nnU-Net (Isensee et al., 2021). */
#ifndef SL_CLIENT_PREDICT_WINDOWS_H
#define SL_CLIENT_PREDICT_WINDOWS_H

#include "client/data/volume.h"

struct sl_windows {
	int64_t dim[3], patch[3], count[3]; /* of the volume; of a window; windows along each axis */
	int classes;
	double *total[3]; /* [dim], the sum of weights along an axis */
	float *mean;      /* [dim, classes] */
	bool undefined;   /* a logit was NaN or Inf */
};

/* Takes 4 bytes for each class of each voxel. NOMEM. Close it also after an error. */
enum sl_err sl_windows_open(struct sl_windows *w, const int64_t dim[3], const int64_t patch[3], int classes,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_windows_close(struct sl_windows *w); /* idempotent; a zeroed one is fine */
int64_t sl_windows_count(const struct sl_windows *w);
/* Where window i begins: before 0, if the volume is smaller on that axis. */
void sl_windows_begin(const struct sl_windows *w, int64_t i, int64_t at[3]);
/* Adds the logits [patch, classes] of window i. The order decides the last bits. */
void sl_windows_add(struct sl_windows *w, int64_t i, const float *logits);
/* label [k, j, i] of the file's own grid gets the first class with the largest mean logit, which is interpolated
 * between voxels. What was cut off is 0. NONFINITE: a logit was NaN or Inf; NOMEM. */
enum sl_err sl_windows_label(const struct sl_windows *w, const struct sl_volume_head *head,
			     const struct sl_volume_back *back, uint8_t *label, struct sl_fail *fail) SL_MUST_CHECK;

#endif
