/* An image while the steps of a list of transforms change it. Each step writes a new one; the two memories take turns.
 */
#ifndef SL_CLIENT_DATA_CANVAS_H
#define SL_CLIENT_DATA_CANVAS_H

#include "client/data/resample.h"
#include "client/data/transform_step.h"

enum { SL_CANVAS_MOST = 4 /* numbers of a pixel */ };

struct sl_canvas {
	struct sl_room *image, *tables; /* image [2] */
	const void *pixels;             /* [h, w, channels], bytes or, where it is deep, floats of 0 … 65535 */
	int h, w, channels;             /* channels: 3 of bytes, 1 or 3 of floats */
	bool deep;
	bool mask; /* bytes of one channel, classes: never mixed, and SL_LEARN_IGNORED where nothing is known */
	int next;  /* of `image`, to write to */
	struct sl_fail *fail;
};

static inline size_t sl_canvas_pixel(const struct sl_canvas *c)
{
	return (size_t)c->channels * (c->deep ? sizeof(float) : 1);
}

/* The next of 0 … n − 1. */
static inline int sl_within(int x, int n)
{
	return x < 0 ? 0 : x < n ? x : n - 1;
}

/* Memory for h × w pixels; NULL, with *fail: there is none. */
void *sl_canvas_fresh(struct sl_canvas *c, int h, int w);
/* What was written there is the image now. */
void sl_canvas_replace(struct sl_canvas *c, void *pixels, int h, int w);
/* A copy that may be changed, which is the image now; NULL as above. */
void *sl_canvas_own(struct sl_canvas *c);
/* A pixel of this colour, in bytes, as the canvas has it. */
void sl_canvas_colour(const struct sl_canvas *c, const uint8_t fill[3], uint8_t out[SL_CANVAS_MOST * sizeof(float)]);

/* DATA: no such size; NOMEM. */
enum sl_err sl_canvas_resample(struct sl_canvas *c, const struct sl_box *box, int h, int w) SL_MUST_CHECK;
/* A window of h × w whose first pixel is (top, left), which may lie outside: there is the step's padding. NOMEM. */
enum sl_err sl_canvas_cut(struct sl_canvas *c, int top, int left, int h, int w, const struct sl_step *s) SL_MUST_CHECK;
enum sl_err sl_canvas_flip(struct sl_canvas *c, bool sideways) SL_MUST_CHECK; /* NOMEM */

/* Pixel (x, y) becomes what lies at (a·(x + ½) + b·(y + ½) + c, d·(x + ½) + e·(y + ½) + f), or `fill` where that is
 * outside: m = {a, b, c, d, e, f}. The arithmetic is Pillow's (Geometry.c), fixed point for the nearest included. */
enum sl_err sl_canvas_warp(struct sl_canvas *c, const double m[6], bool bilinear, const uint8_t fill[3]) SL_MUST_CHECK;
/* As torchvision's functional.rotate; `angle` in degrees, counter-clockwise. */
void sl_warp_rotate(double m[6], double angle, const double centre[2]);
/* As torchvision's functional.affine; angles in degrees. */
void sl_warp_affine(double m[6], double angle, const double centre[2], const double shift[2], double scale,
		    const double shear[2]);

#endif
