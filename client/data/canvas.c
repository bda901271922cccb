#include "client/data/canvas.h"

#include <string.h>

void *sl_canvas_fresh(struct sl_canvas *c, int h, int w)
{
	struct sl_room *room = &c->image[c->next];

	if (sl_room_need(room, (size_t)h * (size_t)w * sl_canvas_pixel(c))) {
		sl_fail_set(c->fail, SL_ERR_NOMEM, "no memory for %d x %d pixels", w, h);
		return NULL;
	}
	return room->data;
}

void sl_canvas_replace(struct sl_canvas *c, void *pixels, int h, int w)
{
	c->pixels = pixels;
	c->h = h;
	c->w = w;
	c->next = !c->next;
}

void *sl_canvas_own(struct sl_canvas *c)
{
	void *out = sl_canvas_fresh(c, c->h, c->w);

	if (!out)
		return NULL;
	memcpy(out, c->pixels, (size_t)c->h * (size_t)c->w * sl_canvas_pixel(c));
	sl_canvas_replace(c, out, c->h, c->w);
	return out;
}

void sl_canvas_colour(const struct sl_canvas *c, const uint8_t fill[3], uint8_t out[SL_CANVAS_MOST * sizeof(float)])
{
	float deep[SL_CANVAS_MOST];

	for (int k = 0; k < c->channels; k++)
		deep[k] = (float)(fill[k] * 257);
	if (c->deep)
		memcpy(out, deep, (size_t)c->channels * sizeof *deep);
	else
		memcpy(out, fill, (size_t)c->channels);
}

/* Takes the pixel nearest to each output pixel's centre. It adds up steps, as Pillow's NEAREST does, since their
 * rounding decides ties. */
static enum sl_err take_nearest(struct sl_canvas *c, const struct sl_box *box, int h, int w)
{
	const double dy = (box->bottom - box->top) / h, dx = (box->right - box->left) / w;
	uint8_t *out = sl_canvas_fresh(c, h, w), *to = out;
	double y = box->top + dy * 0.5;

	for (int i = 0; i < h && out; i++, y += dy) {
		const uint8_t *row = (const uint8_t *)c->pixels + (size_t)sl_within((int)y, c->h) * (size_t)c->w;
		double x = box->left + dx * 0.5;

		for (int k = 0; k < w; k++, x += dx)
			*to++ = row[sl_within((int)x, c->w)];
	}
	if (!out)
		return SL_ERR_NOMEM;
	sl_canvas_replace(c, out, h, w);
	return SL_OK;
}

enum sl_err sl_canvas_resample(struct sl_canvas *c, const struct sl_box *box, int h, int w)
{
	enum sl_err err;
	void *out;

	if (h < 1 || w < 1 || h > SL_CONF_MAX_IMAGE * 4 || w > SL_CONF_MAX_IMAGE * 4)
		return sl_fail_set(c->fail, SL_ERR_DATA, "a picture of %d x %d cannot be resized to %d x %d", c->w,
				   c->h, w, h);
	if (c->mask)
		return take_nearest(c, box, h, w);
	out = sl_canvas_fresh(c, h, w);
	if (!out)
		return SL_ERR_NOMEM;
	err = c->deep ? sl_resample_deep(out, h, w, c->pixels, c->h, c->w, c->channels, box, c->tables)
		      : sl_resample(out, h, w, c->pixels, c->h, c->w, box, c->tables);
	if (err)
		return sl_fail_set(c->fail, SL_ERR_NOMEM, "no memory to resize %d x %d pixels", c->w, c->h);
	sl_canvas_replace(c, out, h, w);
	return SL_OK;
}

/* The index, in a line of n pixels, that pixel i of the padded line is taken from; -1: it is the fill. */
static int source_of(int i, int n, enum sl_padding mode)
{
	if (i >= 0 && i < n)
		return i;
	switch (mode) {
	case SL_PAD_EDGE:
		return i < 0 ? 0 : n - 1;
	case SL_PAD_REFLECT:
		return i < 0 ? -i : 2 * (n - 1) - i;
	case SL_PAD_SYMMETRIC:
		return i < 0 ? -i - 1 : 2 * n - 1 - i;
	default:
		return -1;
	}
}

enum sl_err sl_canvas_cut(struct sl_canvas *c, int top, int left, int h, int w, const struct sl_step *s)
{
	const size_t pixel = sl_canvas_pixel(c);
	uint8_t *out = sl_canvas_fresh(c, h, w), *at = out, fill[SL_CANVAS_MOST * sizeof(float)];

	if (!out)
		return SL_ERR_NOMEM;
	sl_canvas_colour(c, s->fill, fill);
	for (int y = 0; y < h; y++) {
		const int from = source_of(top + y, c->h, s->mode);
		const uint8_t *row = (const uint8_t *)c->pixels + (from < 0 ? 0 : (size_t)from * (size_t)c->w * pixel);

		if (from >= 0 && left >= 0 && left + w <= c->w) {
			memcpy(at, row + (size_t)left * pixel, (size_t)w * pixel);
			at += (size_t)w * pixel;
			continue;
		}
		for (int x = 0; x < w; x++, at += pixel) {
			const int column = source_of(left + x, c->w, s->mode);

			memcpy(at, from < 0 || column < 0 ? fill : row + (size_t)column * pixel, pixel);
		}
	}
	sl_canvas_replace(c, out, h, w);
	return SL_OK;
}

enum sl_err sl_canvas_flip(struct sl_canvas *c, bool sideways)
{
	const size_t pixel = sl_canvas_pixel(c), line = (size_t)c->w * pixel;
	uint8_t *out = sl_canvas_fresh(c, c->h, c->w);

	if (!out)
		return SL_ERR_NOMEM;
	for (int y = 0; y < c->h; y++) {
		const uint8_t *row = (const uint8_t *)c->pixels + (size_t)(sideways ? y : c->h - 1 - y) * line;
		uint8_t *to = out + (size_t)y * line;

		if (!sideways)
			memcpy(to, row, line);
		for (int x = 0; x < c->w && sideways; x++)
			memcpy(to + (size_t)x * pixel, row + (size_t)(c->w - 1 - x) * pixel, pixel);
	}
	sl_canvas_replace(c, out, c->h, c->w);
	return SL_OK;
}
