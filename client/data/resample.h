/* Bilinear resize of a part of a picture, with antialiasing: a triangle as wide as the shrinking needs. The arithmetic
 * is Pillow's (Resample.c): rows first, then columns, rounded to bytes between, weights in fixed point of 22 bits. */
#ifndef SL_CLIENT_DATA_RESAMPLE_H
#define SL_CLIENT_DATA_RESAMPLE_H

#include "client/data/source.h"

/* A part of an image in pixels, which may end between two: the filter reads nothing outside it. */
struct sl_box {
	double top, left, bottom, right;
};

/* out [out_h, out_w, 3] = box of in [in_h, in_w, 3], which lies inside. `room`: its memory for tables and rows.
 * NOMEM. */
enum sl_err sl_resample(uint8_t *out, int out_h, int out_w, const uint8_t *in, int in_h, int in_w,
			const struct sl_box *box, struct sl_room *room) SL_MUST_CHECK;

/* The same of floats of `channels` numbers a pixel, as Pillow does it in mode F: sums in double, and nothing is
 * rounded.
 */
enum sl_err sl_resample_deep(float *out, int out_h, int out_w, const float *in, int in_h, int in_w, int channels,
			     const struct sl_box *box, struct sl_room *room) SL_MUST_CHECK;

#endif
