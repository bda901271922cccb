/* The orientation of a picture: by EXIF in a JPEG, a PNG or a WebP, and by a TIFF's own tag. */
#include <string.h>

#include "client/data/picture_format.h"

enum { ORIENTATION = 0x0112, SHORT = 3, LONG = 4, MOST_SEGMENTS = 1000 };

static uint32_t number(const uint8_t *p, int bytes, bool big)
{
	uint32_t n = 0;

	for (int i = 0; i < bytes; i++)
		n |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
	return n;
}

/* The orientation in the first directory (IFD) of TIFF data; 1: there is none, or no valid one. */
static int orientation_of(const uint8_t *tiff, size_t len)
{
	const bool big = len > 8 && tiff[0] == 'M', wide = len > 16 && (tiff[2] == '+' || tiff[3] == '+');
	const size_t count = wide ? 8 : 2, each = wide ? 20 : 12; /* wide: BigTIFF, whose offsets have 8 bytes */
	const uint8_t *offset = tiff + (wide ? big ? 12 : 8 : 4), *n;
	const size_t at = len > 16 || (len > 8 && !wide) ? number(offset, 4, big) : 0;
	uint32_t entries;

	if (!at || at > len - count || len < count)
		return 1;
	n = tiff + at + (wide && big ? 6 : 0);
	entries = number(n, 2, big);
	for (size_t i = 0; i < entries && at + count + (i + 1) * each <= len; i++) {
		const uint8_t *entry = tiff + at + count + i * each;
		const uint32_t type = number(entry + 2, 2, big),
			       value = number(entry + (wide ? 12 : 8), type == LONG ? 4 : 2, big);

		if (number(entry, 2, big) == ORIENTATION && (type == SHORT || type == LONG))
			return value >= 1 && value <= 8 ? (int)value : 1;
	}
	return 1;
}

static int of_jpeg(const uint8_t *bytes, size_t len)
{
	size_t at = 2;

	for (int i = 0; i < MOST_SEGMENTS && at + 4 <= len && bytes[at] == 0xff && bytes[at + 1] != 0xda; i++) {
		const bool filled = bytes[at + 1] == 0xff; /* bytes 0xff may stand in front of a marker */
		const size_t n = filled ? 0 : number(bytes + at + 2, 2, true);

		if (bytes[at + 1] == 0xe1 && n > 8 && at + 2 + n <= len && memcmp(bytes + at + 4, "Exif\0\0", 6) == 0)
			return orientation_of(bytes + at + 10, n - 8);
		at += filled ? 1 : 2 + n;
	}
	return 1;
}

/* Looks for the EXIF chunk `name`. A chunk begins with its length and name in a PNG, with its name and length in a
 * WebP. */
static int of_chunks(const uint8_t *bytes, size_t len, size_t at, const char *name, bool png)
{
	for (int i = 0; i < MOST_SEGMENTS && at + 8 <= len;) {
		const size_t n = number(bytes + at + (png ? 0 : 4), 4, png);
		const uint8_t *data = bytes + at + 8;

		i += memcmp(bytes + at + 4, "IDAT", 4) != 0; /* a PNG's pixels may be thousands of chunks */
		if (n > len - at - 8)
			return 1;
		if (memcmp(bytes + at + (png ? 4 : 0), name, 4) == 0) {
			const size_t skip = n > 6 && memcmp(data, "Exif\0\0", 6) == 0 ? 6 : 0;

			return orientation_of(data + skip, n - skip);
		}
		at += 8 + n + (png ? 4 : n % 2);
	}
	return 1;
}

int sl_picture_orientation(const uint8_t *bytes, size_t len, bool upright)
{
	if (len > 4 && (memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0 ||
			memcmp(bytes, "II+\0", 4) == 0 || memcmp(bytes, "MM\0+", 4) == 0))
		return orientation_of(bytes, len);
	if (!upright)
		return 1;
	if (len > 4 && bytes[0] == 0xff && bytes[1] == 0xd8)
		return of_jpeg(bytes, len);
	if (len > 16 && memcmp(bytes, "\x89PNG", 4) == 0)
		return of_chunks(bytes, len, 8, "eXIf", true);
	if (len > 16 && memcmp(bytes, "RIFF", 4) == 0)
		return of_chunks(bytes, len, 12, "EXIF", false);
	return 1;
}

/* The index of pixel (y, x) of the upright picture in the stored one, of h × w. */
static size_t source_of(int how, int y, int x, int h, int w)
{
	const bool sideways = how >= 5;
	const int u = sideways ? x : y, v = sideways ? y : x; /* row and column there, before they are mirrored */
	const bool upside = how == 3 || how == 4 || how == 6 || how == 7,
		   mirrored = how == 2 || how == 3 || how == 7 || how == 8;

	return (size_t)(upside ? h - 1 - u : u) * (size_t)w + (size_t)(mirrored ? w - 1 - v : v);
}

enum sl_err sl_picture_turn(const struct sl_picture_job *job, int how)
{
	struct sl_value *out = job->out;
	const int h = (int)out->dim[0], w = (int)out->dim[1], new_h = how >= 5 ? w : h, new_w = how >= 5 ? h : w;
	const size_t pixel = (size_t)out->dim[2] * (out->deep ? sizeof(float) : 1), n = (size_t)h * (size_t)w;
	const uint8_t *from = out->data;
	const bool deep = from == job->room->deep;
	uint8_t *to;

	if (deep ? sl_room_need(job->room, n * pixel) : sl_room_need_deep(job->room, n * pixel))
		return sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory to turn %d x %d pixels", w, h);
	to = deep ? job->room->data : job->room->deep;
	for (int y = 0; y < new_h; y++)
		for (int x = 0; x < new_w; x++, to += pixel)
			memcpy(to, from + source_of(how, y, x, h, w) * pixel, pixel);
	out->data = deep ? job->room->data : job->room->deep;
	out->dim[0] = new_h;
	out->dim[1] = new_w;
	out->part.h = new_h;
	out->part.w = new_w;
	return SL_OK;
}
