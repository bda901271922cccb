#include "client/data/colour.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { CHANNELS = 3, LEVELS = 256 };

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

static void map(uint8_t *pixels, size_t n, int c, const uint8_t to[LEVELS])
{
	for (size_t i = 0; i < n; i++)
		pixels[i * CHANNELS + (size_t)c] = to[pixels[i * CHANNELS + (size_t)c]];
}

/* Pillow's SMOOTH: a pixel counts five times, each of its eight neighbours once. */
static int smooth(const uint8_t *at, ptrdiff_t row)
{
	int sum = 4 * at[0];

	for (ptrdiff_t y = -row; y <= row; y += row)
		sum += at[y - CHANNELS] + at[y] + at[y + CHANNELS];
	return (2 * sum + 13) / 26;
}

void sl_colour_sharpness(uint8_t *out, const uint8_t *before, int h, int w, float factor)
{
	const ptrdiff_t row = (ptrdiff_t)w * CHANNELS;

	for (int y = 0; y < h; y++)
		for (ptrdiff_t i = 0; i < row; i++) {
			const uint8_t *at = before + y * row + i;
			const bool inside = y > 0 && y < h - 1 && i >= CHANNELS && i < row - CHANNELS;

			out[y * row + i] = blend(inside ? smooth(at, row) : at[0], at[0], factor);
		}
}

void sl_colour_posterize(uint8_t *pixels, size_t n, int bits)
{
	for (size_t i = 0; i < n * CHANNELS; i++)
		pixels[i] &= (uint8_t)(0xff00 >> bits);
}

void sl_colour_solarize(uint8_t *pixels, size_t n, double threshold)
{
	for (size_t i = 0; i < n * CHANNELS; i++)
		pixels[i] = pixels[i] < threshold ? pixels[i] : (uint8_t)(255 - pixels[i]);
}

static void count(size_t histogram[LEVELS], const uint8_t *pixels, size_t n, int c)
{
	memset(histogram, 0, LEVELS * sizeof *histogram);
	for (size_t i = 0; i < n; i++)
		histogram[pixels[i * CHANNELS + (size_t)c]]++;
}

void sl_colour_stretch(uint8_t *pixels, size_t n)
{
	size_t histogram[LEVELS];
	uint8_t to[LEVELS];

	for (int c = 0; c < CHANNELS; c++) {
		int low = 0, high = LEVELS - 1;

		count(histogram, pixels, n, c);
		while (low < LEVELS - 1 && !histogram[low])
			low++;
		while (high > 0 && !histogram[high])
			high--;
		if (high <= low)
			continue;
		for (int v = 0; v < LEVELS; v++) {
			const double scale = 255.0 / (high - low);

			to[v] = (uint8_t)byte_of((int)(v * scale + -low * scale));
		}
		map(pixels, n, c, to);
	}
}

void sl_colour_equalize(uint8_t *pixels, size_t n)
{
	size_t histogram[LEVELS];
	uint8_t to[LEVELS];

	for (int c = 0; c < CHANNELS; c++) {
		int last = LEVELS - 1;
		size_t step, at;

		count(histogram, pixels, n, c);
		while (last > 0 && !histogram[last])
			last--;
		step = (n - histogram[last]) / 255;
		at = step / 2;
		for (int v = 0; v < LEVELS && step; v++) {
			to[v] = (uint8_t)(at / step < 255 ? at / step : 255);
			at += histogram[v];
		}
		if (step)
			map(pixels, n, c, to);
	}
}

static double deep_grey(const float *p, int channels)
{
	return channels == 1 ? (double)p[0]
			     : ((double)p[0] * 19595 + (double)p[1] * 38470 + (double)p[2] * 7471) / 65536;
}

void sl_colour_deep(float *pixels, size_t n, int channels, int colour, double factor)
{
	double sum = 0;

	for (size_t i = 0; i < n && colour == 1; i++)
		sum += deep_grey(pixels + i * (size_t)channels, channels);
	for (size_t i = 0; i < n; i++) {
		float *p = pixels + i * (size_t)channels;
		const double from = colour == 0 ? 0 : colour == 1 ? sum / (double)n : deep_grey(p, channels);

		for (int c = 0; c < channels; c++)
			p[c] = (float)fmin(fmax(from + factor * ((double)p[c] - from), 0), 65535);
	}
}
