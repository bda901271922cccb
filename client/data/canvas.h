/* An image while a list of transforms works on it. Each step writes a new image, alternately to one of two buffers. */
#ifndef SL_CLIENT_DATA_CANVAS_H
#define SL_CLIENT_DATA_CANVAS_H

#include "client/data/resample.h"
#include "client/data/transform_step.h"

enum { SL_CANVAS_MOST = 4 /* channels at most */ };

struct sl_canvas {
	struct sl_room *image, *tables; /* image [2]: the two buffers; tables: for sl_resample */
	const void *pixels;             /* [h, w, channels], bytes; if deep, floats of 0 … 65535 */
	int h, w, channels;             /* channels: 3 for bytes, 1 or 3 for floats, 1 for a mask */
	bool deep;
	bool mask; /* the bytes are classes: never interpolated, SL_LEARN_IGNORED where unknown */
	int next;  /* index in `image` of the buffer to write to */
	struct sl_fail *fail;
};

static inline size_t sl_canvas_pixel(const struct sl_canvas *c)
{
	return (size_t)c->channels * (c->deep ? sizeof(float) : 1);
}

/* x, clamped to 0 … n − 1. */
static inline int sl_within(int x, int n)
{
	return x < 0 ? 0 : x < n ? x : n - 1;
}

/* The buffer to write to, large enough for h × w pixels; NULL: no memory, as c->fail says. */
void *sl_canvas_fresh(struct sl_canvas *c, int h, int w);
/* Makes the pixels that were written there the current image. */
void sl_canvas_replace(struct sl_canvas *c, void *pixels, int h, int w);
/* Makes a writable copy the current image, and returns it; NULL as above. */
void *sl_canvas_own(struct sl_canvas *c);
/* out = a pixel of the colour `fill`, which is bytes, in the canvas' own format. */
void sl_canvas_colour(const struct sl_canvas *c, const uint8_t fill[3], uint8_t out[SL_CANVAS_MOST * sizeof(float)]);

/* Resizes `box` of the image to h × w. DATA: h or w is out of range; NOMEM. */
enum sl_err sl_canvas_resample(struct sl_canvas *c, const struct sl_box *box, int h, int w) SL_MUST_CHECK;
/* Cuts out the window of h × w that begins at (top, left). Where it lies outside the image, the step's padding is
 * used. NOMEM. */
enum sl_err sl_canvas_cut(struct sl_canvas *c, int top, int left, int h, int w, const struct sl_step *s) SL_MUST_CHECK;
/* Mirrors left to right, or without `sideways` top to bottom. NOMEM. */
enum sl_err sl_canvas_flip(struct sl_canvas *c, bool sideways) SL_MUST_CHECK;

/* Pixel (x, y) becomes what lies at (a·(x + ½) + b·(y + ½) + c, d·(x + ½) + e·(y + ½) + f), or `fill` where that is
 * outside: m = {a, b, c, d, e, f}. The arithmetic is Pillow's (Geometry.c), with its fixed point for nearest
 * neighbours. NOMEM. */
enum sl_err sl_canvas_warp(struct sl_canvas *c, const double m[6], bool bilinear, const uint8_t fill[3]) SL_MUST_CHECK;
/* m = the matrix of torchvision's functional.rotate; `angle` in degrees, counter-clockwise. */
void sl_warp_rotate(double m[6], double angle, const double centre[2]);
/* m = the matrix of torchvision's functional.affine; angles in degrees. */
void sl_warp_affine(double m[6], double angle, const double centre[2], const double shift[2], double scale,
		    const double shear[2]);

#endif
