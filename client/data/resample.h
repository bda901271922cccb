/* Bilinear resize of a part of a picture, with antialiasing: the triangle filter is as wide as the shrinking needs.
 * The arithmetic is Pillow's (Resample.c): rows first, then columns, rounded to bytes in between, with weights in
 * 22-bit fixed point. */
#ifndef SL_CLIENT_DATA_RESAMPLE_H
#define SL_CLIENT_DATA_RESAMPLE_H

#include "client/data/source.h"

/* A part of an image, in pixels. It may begin and end between two pixels. The filter reads no pixels outside it. */
struct sl_box {
	double top, left, bottom, right;
};

/* out [out_h, out_w, 3] = `box` of in [in_h, in_w, 3], resized. The box lies inside the image. `room`: buffers for
 * tables and rows. NOMEM. */
enum sl_err sl_resample(uint8_t *out, int out_h, int out_w, const uint8_t *in, int in_h, int in_w,
			const struct sl_box *box, struct sl_room *room) SL_MUST_CHECK;

/* The same for pixels of `channels` floats, as in Pillow's mode F: sums in double, and nothing is rounded. */
enum sl_err sl_resample_deep(float *out, int out_h, int out_w, const float *in, int in_h, int in_w, int channels,
			     const struct sl_box *box, struct sl_room *room) SL_MUST_CHECK;

#endif
