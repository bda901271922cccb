/* Rotation and other affine transforms of an image, as Pillow 9.4 computes them. */
#include <math.h>
#include <string.h>

#include "client/data/canvas.h"

enum { FRACTION = 16, MOST = 32768 /* coordinates below it fit 16.16 fixed point */ };

static double radians(double degrees)
{
	return degrees *
	       (M_PI / 180); /* the bits of Python's math.radians, with which Pillow and torchvision compute */
}

/* Rounds to 15 decimal places, as Pillow does. */
static double rounded(double x)
{
	return rint(x * 1e15) / 1e15;
}

void sl_warp_rotate(double m[6], double angle, const double centre[2])
{
	const double turn = -radians(fmod(fmod(angle, 360) + 360, 360)), x = centre[0], y = centre[1];
	const double cosine = rounded(cos(turn)), sine = rounded(sin(turn));

	m[0] = m[4] = cosine;
	m[1] = sine;
	m[3] = -sine;
	m[2] = cosine * -x + sine * -y + x;
	m[5] = -sine * -x + cosine * -y + y;
}

void sl_warp_affine(double m[6], double angle, const double centre[2], const double shift[2], double scale,
		    const double shear[2])
{
	const double turn = radians(angle), sx = radians(shear[0]), sy = radians(shear[1]);
	const double a = cos(turn - sy) / cos(sy), c = sin(turn - sy) / cos(sy);
	const double b = -cos(turn - sy) * tan(sx) / cos(sy) - sin(turn);
	const double d = -sin(turn - sy) * tan(sx) / cos(sy) + cos(turn);
	const double back[2] = {-centre[0] - shift[0], -centre[1] - shift[1]};

	m[0] = d / scale;
	m[1] = -b / scale;
	m[3] = -c / scale;
	m[4] = a / scale;
	m[2] = m[0] * back[0] + m[1] * back[1] + centre[0];
	m[5] = m[3] * back[0] + m[4] * back[1] + centre[1];
}

static void take(const struct sl_canvas *c, uint8_t *out, int x, int y)
{
	const size_t pixel = sl_canvas_pixel(c);

	if (x >= 0 && x < c->w && y >= 0 && y < c->h)
		memcpy(out, (const uint8_t *)c->pixels + ((size_t)y * (size_t)c->w + (size_t)x) * pixel, pixel);
}

static bool fits(const double m[6], double x, double y)
{
	return fabs(x * m[0] + y * m[1] + m[2]) < MOST && fabs(x * m[3] + y * m[4] + m[5]) < MOST;
}

static int64_t fixed(double x)
{
	return (int64_t)floor(x * (1 << FRACTION) + 0.5);
}

static void nearest_fixed(const struct sl_canvas *c, uint8_t *out, const double m[6])
{
	const int64_t dx[2] = {fixed(m[0]), fixed(m[3])}, dy[2] = {fixed(m[1]), fixed(m[4])};
	int64_t from[2] = {fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), fixed(m[5] + m[3] * 0.5 + m[4] * 0.5)};

	for (int y = 0; y < c->h; y++, from[0] += dy[0], from[1] += dy[1])
		for (int64_t x = 0; x < c->w; x++, out += sl_canvas_pixel(c))
			take(c, out, (int)((from[0] + x * dx[0]) >> FRACTION),
			     (int)((from[1] + x * dx[1]) >> FRACTION));
}

static int pixel_index(double x)
{
	return x < 0 || x >= MOST * 2.0 ? -1 : (int)x;
}

static void nearest(const struct sl_canvas *c, uint8_t *out, const double m[6])
{
	double row[2] = {m[2] + m[1] * 0.5 + m[0] * 0.5, m[5] + m[4] * 0.5 + m[3] * 0.5};

	for (int y = 0; y < c->h; y++, row[0] += m[1], row[1] += m[4]) {
		double at[2] = {row[0], row[1]};

		for (int x = 0; x < c->w; x++, out += sl_canvas_pixel(c), at[0] += m[0], at[1] += m[3])
			take(c, out, pixel_index(at[0]), pixel_index(at[1]));
	}
}

static double value_at(const struct sl_canvas *c, int x, int y, int k)
{
	const size_t i = ((size_t)y * (size_t)c->w + (size_t)sl_within(x, c->w)) * (size_t)c->channels + (size_t)k;

	return c->deep ? (double)((const float *)c->pixels)[i] : ((const uint8_t *)c->pixels)[i];
}

/* Interpolates between pixels x and x + 1 of row y. */
static double between(const struct sl_canvas *c, int x, int y, int k, double dx)
{
	const double left = value_at(c, x, y, k);

	return left + (value_at(c, x + 1, y, k) - left) * dx;
}

static void mix(const struct sl_canvas *c, uint8_t *out, double x, double y)
{
	const int column = (int)floor(x - 0.5), row = (int)floor(y - 0.5);

	if (!(x >= 0 && x < c->w && y >= 0 && y < c->h))
		return;
	for (int k = 0; k < c->channels; k++) {
		double v = between(c, column, sl_within(row, c->h), k, x - 0.5 - column);
		float deep;

		if (row + 1 >= 0 && row + 1 < c->h)
			v += (between(c, column, row + 1, k, x - 0.5 - column) - v) * (y - 0.5 - row);
		deep = (float)v;
		if (c->deep)
			memcpy(out + (size_t)k * sizeof deep, &deep, sizeof deep);
		else
			out[k] = (uint8_t)v;
	}
}

static void bilinear_of(const struct sl_canvas *c, uint8_t *out, const double m[6])
{
	for (int y = 0; y < c->h; y++)
		for (int x = 0; x < c->w; x++, out += sl_canvas_pixel(c))
			mix(c, out, m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2],
			    m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5]);
}

enum sl_err sl_canvas_warp(struct sl_canvas *c, const double m[6], bool bilinear, const uint8_t fill[3])
{
	const size_t pixel = sl_canvas_pixel(c), n = (size_t)c->h * (size_t)c->w;
	uint8_t *out = sl_canvas_fresh(c, c->h, c->w), colour[SL_CANVAS_MOST * sizeof(float)];

	if (!out)
		return SL_ERR_NOMEM;
	sl_canvas_colour(c, fill, colour);
	for (size_t i = 0; i < n; i++)
		memcpy(out + i * pixel, colour, pixel);
	if (bilinear)
		bilinear_of(c, out, m);
	else if ((m[1] != 0 || m[3] != 0) && fits(m, 0, 0) && fits(m, c->w, c->h) && fits(m, 0, c->h) &&
		 fits(m, c->w, 0))
		nearest_fixed(c, out, m);
	else
		nearest(c, out, m);
	sl_canvas_replace(c, out, c->h, c->w);
	return SL_OK;
}
