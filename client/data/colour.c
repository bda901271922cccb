#include "client/data/colour.h"

#include <math.h>

enum { CHANNELS = 3 };

/* The luma of ITU-R 601-2, in fixed point. */
static int grey(const uint8_t *p)
{
	return (int)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
}

/* from + factor · (to − from), rounded towards 0 */
static uint8_t blend(int from, int to, float factor)
{
	const float value = (float)from + factor * (float)(to - from);

	return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
}

void sl_colour_brightness(uint8_t *pixels, size_t n, float factor)
{
	for (size_t i = 0; i < n * CHANNELS; i++)
		pixels[i] = blend(0, pixels[i], factor);
}

void sl_colour_contrast(uint8_t *pixels, size_t n, float factor)
{
	uint64_t sum = 0;
	int mean;

	for (size_t i = 0; i < n; i++)
		sum += (unsigned)grey(pixels + i * CHANNELS);
	mean = (int)((double)sum / (double)n + 0.5);
	for (size_t i = 0; i < n * CHANNELS; i++)
		pixels[i] = blend(mean, pixels[i], factor);
}

void sl_colour_saturation(uint8_t *pixels, size_t n, float factor)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = pixels + i * CHANNELS;
		const int from = grey(p);

		for (int c = 0; c < CHANNELS; c++)
			p[c] = blend(from, p[c], factor);
	}
}

static int byte_of(int x)
{
	return x < 0 ? 0 : x > 255 ? 255 : x;
}

/* h, s, v of 0 … 255 each */
static void to_hsv(int hsv[CHANNELS], const uint8_t *p)
{
	const int r = p[0], g = p[1], b = p[2];
	const int most = r > g ? (r > b ? r : b) : (g > b ? g : b), least = r < g ? (r < b ? r : b) : (g < b ? g : b);
	const float range = (float)(most - least);
	float h, rc, gc, bc;

	hsv[0] = hsv[1] = 0;
	hsv[2] = most;
	if (most == least)
		return;
	rc = (float)(most - r) / range;
	gc = (float)(most - g) / range;
	bc = (float)(most - b) / range;
	if (r == most)
		h = bc - gc;
	else if (g == most)
		h = (float)(2.0 + (double)rc - (double)bc);
	else
		h = (float)(4.0 + (double)gc - (double)rc);
	h = (float)fmod((double)h / 6.0 + 1.0, 1.0);
	hsv[0] = byte_of((int)((double)h * 255.0));
	hsv[1] = byte_of((int)((double)(range / (float)most) * 255.0));
}

static void from_hsv(uint8_t *out, const int hsv[CHANNELS])
{
	const int v = hsv[2], sector = (int)floor((double)((float)hsv[0] * 6.0f) / 255.0);
	const float f = (float)((double)((float)hsv[0] * 6.0f) / 255.0 - (double)(float)sector);
	const float s = (float)((double)(float)hsv[1] / 255.0);
	const uint8_t p = (uint8_t)byte_of((int)round((double)v * (1.0 - (double)s)));
	const uint8_t q = (uint8_t)byte_of((int)round((double)v * (1.0 - (double)(s * f))));
	const uint8_t t = (uint8_t)byte_of((int)round((double)v * (1.0 - (double)s * (1.0 - (double)f))));
	const uint8_t all[6][CHANNELS] = {{(uint8_t)v, t, p}, {q, (uint8_t)v, p}, {p, (uint8_t)v, t},
					  {p, q, (uint8_t)v}, {t, p, (uint8_t)v}, {(uint8_t)v, p, q}};

	for (int c = 0; c < CHANNELS; c++)
		out[c] = hsv[1] ? all[sector % 6][c] : (uint8_t)v;
}

void sl_colour_hue(uint8_t *pixels, size_t n, double shift)
{
	const unsigned turn = (unsigned)(int)(shift * 255) & 255;

	for (size_t i = 0; i < n; i++) {
		int hsv[CHANNELS];

		to_hsv(hsv, pixels + i * CHANNELS);
		hsv[0] = (int)(((unsigned)hsv[0] + turn) & 255);
		from_hsv(pixels + i * CHANNELS, hsv);
	}
}
