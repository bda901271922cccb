#include "client/data/rand_augment.h"

#include <math.h>

#include "client/data/colour.h"

/* In torchvision's order: the values of sl_transform_draw.op. */
enum op {
	IDENTITY,
	SHEAR_X,
	SHEAR_Y,
	TRANSLATE_X,
	TRANSLATE_Y,
	ROTATE,
	BRIGHTNESS,
	COLOUR,
	CONTRAST,
	SHARPNESS,
	POSTERIZE,
	SOLARIZE,
	AUTO_CONTRAST,
	EQUALIZE
};

/* torch.linspace(from, to, bins)[i], in single precision */
static double spaced(double from, double to, int bins, int i)
{
	const float a = (float)from, b = (float)to, step = (b - a) / (float)(bins - 1);

	return (double)(i < bins / 2 ? a + step * (float)i : b - step * (float)(bins - 1 - i));
}

/* How much an operation changes at the step's magnitude, without a sign. */
static double size_of(enum op op, const struct sl_step *s, int h, int w)
{
	const double largest[] = {[SHEAR_X] = 0.3,
				  [SHEAR_Y] = 0.3,
				  [TRANSLATE_X] = 150.0 / 331.0 * w,
				  [TRANSLATE_Y] = 150.0 / 331.0 * h,
				  [ROTATE] = 30,
				  [BRIGHTNESS] = 0.9,
				  [COLOUR] = 0.9,
				  [CONTRAST] = 0.9,
				  [SHARPNESS] = 0.9};

	if (op == POSTERIZE)
		return 8 - rint((double)((float)s->magnitude / ((float)(s->bins - 1) / 4)));
	if (op == SOLARIZE)
		return spaced(255, 0, s->bins, s->magnitude);
	return op < POSTERIZE ? spaced(0, largest[op], s->bins, s->magnitude) : 0;
}

static enum sl_err warp(struct sl_canvas *c, const struct sl_step *s, enum op op, double size)
{
	const double corner[2] = {0, 0}, middle[2] = {c->w * 0.5, c->h * 0.5};
	const double slant = atan(size) * 180 / M_PI;
	const double shear[2] = {op == SHEAR_X ? slant : 0, op == SHEAR_Y ? slant : 0};
	const double shift[2] = {op == TRANSLATE_X ? trunc(size) : 0, op == TRANSLATE_Y ? trunc(size) : 0};
	double m[6];

	if (op == ROTATE)
		sl_warp_rotate(m, size, middle);
	else
		sl_warp_affine(m, 0, op <= SHEAR_Y ? corner : middle, shift, 1, shear);
	return sl_canvas_warp(c, m, s->bilinear, s->fill);
}

static enum sl_err change(struct sl_canvas *c, enum op op, double size)
{
	const size_t n = (size_t)c->h * (size_t)c->w;
	const float factor = (float)(1 + size);
	const uint8_t *before = c->pixels;
	uint8_t *out = sl_canvas_own(c);

	if (!out)
		return SL_ERR_NOMEM;
	switch (op) {
	case BRIGHTNESS:
		sl_colour_brightness(out, n, factor);
		break;
	case COLOUR:
		sl_colour_saturation(out, n, factor);
		break;
	case CONTRAST:
		sl_colour_contrast(out, n, factor);
		break;
	case SHARPNESS:
		sl_colour_sharpness(out, before, c->h, c->w, factor);
		break;
	case POSTERIZE:
		sl_colour_posterize(out, n, (int)size);
		break;
	case SOLARIZE:
		sl_colour_solarize(out, n, size);
		break;
	case AUTO_CONTRAST:
		sl_colour_stretch(out, n);
		break;
	default:
		sl_colour_equalize(out, n);
	}
	return SL_OK;
}

enum sl_err sl_rand_augment(struct sl_canvas *c, const struct sl_step *s, const struct sl_transform_draw *draw)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < s->ops && !err; i++) {
		const enum op op = (enum op)draw->op[i];
		double size = size_of(op, s, c->h, c->w);

		if (op < POSTERIZE && draw->negative[i])
			size = -size;
		if (op == IDENTITY)
			continue;
		err = op <= ROTATE ? warp(c, s, op, size) : change(c, op, size);
	}
	return err;
}
