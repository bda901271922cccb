#include "client/data/sheet.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/picture_write.h"
#include "client/data/resample.h"

enum {
	CHANNELS = 3,
	COLUMNS = 8,
	TILE = 112, /* the longer side of an image on the sheet */
	GAP = 6,
	GLYPH_H = 7,
	GLYPH_W = 5,
	PAPER = 255
};

/* A row of a glyph is 5 bits, the leftmost the highest. */
static const struct {
	char letter;
	uint8_t row[GLYPH_H];
} font[] = {
	{'A', {0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}}, {'B', {0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e}},
	{'C', {0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e}}, {'D', {0x1e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1e}},
	{'E', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f}}, {'F', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10}},
	{'G', {0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0e}}, {'H', {0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
	{'I', {0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e}}, {'J', {0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c}},
	{'K', {0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11}}, {'L', {0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f}},
	{'M', {0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11}}, {'N', {0x11, 0x19, 0x19, 0x15, 0x13, 0x13, 0x11}},
	{'O', {0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}}, {'P', {0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10}},
	{'Q', {0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d}}, {'R', {0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11}},
	{'S', {0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e}}, {'T', {0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04}},
	{'U', {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}}, {'V', {0x11, 0x11, 0x11, 0x11, 0x0a, 0x0a, 0x04}},
	{'W', {0x11, 0x11, 0x11, 0x15, 0x15, 0x1b, 0x11}}, {'X', {0x11, 0x0a, 0x0a, 0x04, 0x0a, 0x0a, 0x11}},
	{'Y', {0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04}}, {'Z', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f}},
	{'0', {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e}}, {'1', {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e}},
	{'2', {0x0e, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1f}}, {'3', {0x1e, 0x01, 0x01, 0x0e, 0x01, 0x01, 0x1e}},
	{'4', {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02}}, {'5', {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e}},
	{'6', {0x0e, 0x10, 0x10, 0x1e, 0x11, 0x11, 0x0e}}, {'7', {0x1f, 0x01, 0x02, 0x02, 0x04, 0x04, 0x04}},
	{'8', {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e}}, {'9', {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x01, 0x0e}},
	{'-', {0x00, 0x00, 0x00, 0x0e, 0x00, 0x00, 0x00}}, {'_', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f}},
	{'.', {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c}}, {' ', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}},
};

struct sl_sheet {
	int in_h, in_w, tile_h, tile_w, h, w;
	uint8_t *pixels; /* [h, w, 3] */
};

enum sl_err sl_sheet_open(struct sl_sheet **out, int n, int h, int w, struct sl_fail *fail)
{
	struct sl_sheet *s = calloc(1, sizeof *s);
	const double scale = (double)TILE / (h > w ? h : w);
	const int columns = n < COLUMNS ? n : COLUMNS;

	if (!s)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a sheet");
	s->in_h = h;
	s->in_w = w;
	s->tile_h = (int)fmax(rint(h * scale), 1);
	s->tile_w = (int)fmax(rint(w * scale), 1);
	s->h = GAP + (n + COLUMNS - 1) / COLUMNS * (s->tile_h + GLYPH_H + 3 * GAP / 2);
	s->w = GAP + columns * (s->tile_w + GAP);
	s->pixels = malloc((size_t)s->h * (size_t)s->w * CHANNELS);
	if (!s->pixels) {
		free(s);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a sheet of %d images", n);
	}
	memset(s->pixels, PAPER, (size_t)s->h * (size_t)s->w * CHANNELS);
	*out = s;
	return SL_OK;
}

void sl_sheet_close(struct sl_sheet *sheet)
{
	if (!sheet)
		return;
	free(sheet->pixels);
	free(sheet);
}

/* Letters of Latin-1 from U+00C0, in both cases, as the letter without its diacritic; '-': the font has none. */
static const char unmarked[] = "AAAAAA-CEEEEIIIIDNOOOOO-OUUUUY-S";

/* Reads the next letter of UTF-8, as one that the font may have, and advances *at. *dots: it has two dots above it. */
static char next_letter(const char **at, bool *dots)
{
	const uint8_t *c = (const uint8_t *)*at;
	size_t bytes = 1;

	*dots = false;
	while (c[0] >= 0xc0 && (c[bytes] & 0xc0) == 0x80)
		bytes++;
	*at += bytes;
	if (c[0] != 0xc3 || bytes != 2)
		return c[0] < 0x80 ? (char)toupper(c[0]) : '-';
	*dots = strchr("\x04\x0b\x0f\x16\x1c", c[1] & 0x1f) && (c[1] & 0x1f);
	return unmarked[c[1] & 0x1f];
}

static const uint8_t *glyph(char letter)
{
	const uint8_t *dash = NULL;

	for (size_t i = 0; i < sizeof font / sizeof font[0]; i++) {
		if (font[i].letter == letter)
			return font[i].row;
		if (font[i].letter == '-')
			dash = font[i].row;
	}
	return dash;
}

static void blacken(struct sl_sheet *s, int y, int x)
{
	memset(s->pixels + ((ptrdiff_t)y * s->w + x) * CHANNELS, 0, CHANNELS);
}

static void write_label(struct sl_sheet *s, int top, int left, const char *label)
{
	for (int right = left + s->tile_w; *label && left + GLYPH_W + 1 <= right; left += GLYPH_W + 1) {
		bool dots;
		const uint8_t *rows = glyph(next_letter(&label, &dots));

		for (int y = 0; y < GLYPH_H; y++)
			for (int x = 0; x < GLYPH_W; x++)
				if (rows[y] >> (GLYPH_W - 1 - x) & 1)
					blacken(s, top + y, left + x);
		for (int x = 1; dots && x < GLYPH_W; x += 2)
			blacken(s, top - 2, left + x);
	}
}

static uint8_t level(float x)
{
	return (uint8_t)(x <= 0 ? 0 : x >= 1 ? 255 : (int)(x * 255.0f + 0.5f));
}

enum sl_err sl_sheet_put(struct sl_sheet *s, int i, const float *image, const char *label, struct sl_fail *fail)
{
	const size_t n = (size_t)s->in_h * (size_t)s->in_w * CHANNELS, row = (size_t)s->tile_w * CHANNELS;
	const int top = GAP + i / COLUMNS * (s->tile_h + GLYPH_H + 3 * GAP / 2);
	const int left = GAP + i % COLUMNS * (s->tile_w + GAP);
	uint8_t *bytes = malloc(n + (size_t)s->tile_h * row), *tile = bytes + n;
	struct sl_room room = {0};
	enum sl_err err = bytes ? SL_OK : SL_ERR_NOMEM;

	for (size_t k = 0; k < n && !err; k++)
		bytes[k] = level(image[k]);
	if (!err)
		err = sl_resample(tile, s->tile_h, s->tile_w, bytes, s->in_h, s->in_w,
				  &(struct sl_box){0, 0, s->in_h, s->in_w}, &room);
	for (int y = 0; y < s->tile_h && !err; y++)
		memcpy(s->pixels + ((ptrdiff_t)(top + y) * s->w + left) * CHANNELS, tile + (size_t)y * row, row);
	write_label(s, top + s->tile_h + GAP / 2, left, label);
	sl_room_close(&room);
	free(bytes);
	return err ? sl_fail_set(fail, err, "no memory for an image of a sheet") : SL_OK;
}

enum sl_err sl_sheet_write(const struct sl_sheet *s, const char *path, struct sl_fail *fail)
{
	return sl_picture_write_png(path, s->pixels, s->h, s->w, CHANNELS, fail);
}
