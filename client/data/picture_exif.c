/* The orientation of a picture: by EXIF in a JPEG, a PNG or a WebP, by a PNG's XMP, and by a TIFF's own tag. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "client/data/picture_format.h"

/* TEXT_BYTES: as much of a PNG's text is read. EXIF data has at most 64 kB, and twice as many digits. */
enum { ORIENTATION = 0x0112, SHORT = 3, LONG = 4, MOST_SEGMENTS = 1000, TEXT_BYTES = 256 << 10 };

static uint32_t number(const uint8_t *p, int bytes, bool big)
{
	uint32_t n = 0;

	for (int i = 0; i < bytes; i++)
		n |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
	return n;
}

/* The orientation in the first directory (IFD) of TIFF data; 1: it is not valid; 0: there is none. */
static int orientation_of(const uint8_t *tiff, size_t len)
{
	const bool big = len > 8 && tiff[0] == 'M', wide = len > 16 && (tiff[2] == '+' || tiff[3] == '+');
	const size_t count = wide ? 8 : 2, each = wide ? 20 : 12; /* wide: BigTIFF, whose offsets have 8 bytes */
	const uint8_t *offset = tiff + (wide ? big ? 12 : 8 : 4), *n;
	const size_t at = len > 16 || (len > 8 && !wide) ? number(offset, 4, big) : 0;
	uint32_t entries;

	if (!at || at > len - count || len < count)
		return 0;
	n = tiff + at + (wide && big ? 6 : 0);
	entries = number(n, 2, big);
	for (size_t i = 0; i < entries && at + count + (i + 1) * each <= len; i++) {
		const uint8_t *entry = tiff + at + count + i * each;
		const uint32_t type = number(entry + 2, 2, big),
			       value = number(entry + (wide ? 12 : 8), type == LONG ? 4 : 2, big);

		if (number(entry, 2, big) == ORIENTATION && (type == SHORT || type == LONG))
			return value >= 1 && value <= 8 ? (int)value : 1;
	}
	return 0;
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
	return 0;
}

/* The orientation in EXIF data, which may begin with a mark; 0: it has none. */
static int of_exif(const uint8_t *data, size_t n)
{
	const size_t skip = n > 6 && memcmp(data, "Exif\0\0", 6) == 0 ? 6 : 0;

	return orientation_of(data + skip, n - skip);
}

/* The same in the digits that ImageMagick writes behind three lines; they are replaced by the data. */
static int of_digits(uint8_t *text, size_t n)
{
	size_t lines = 0, digits = 0;

	for (size_t i = 0; i < n; i++) {
		const int c = tolower(text[i]), value = isdigit(c) ? c - '0' : c - 'a' + 10;

		if (lines < 3) {
			lines += c == '\n';
		} else if (isxdigit(c)) {
			text[digits / 2] = (uint8_t)(digits % 2 ? text[digits / 2] << 4 | value : value);
			digits++;
		}
	}
	return of_exif(text, digits / 2);
}

/* The same in XMP, in the two forms that Pillow finds. */
static int of_xmp(uint8_t *text, size_t n)
{
	static const char name[] = "tiff:Orientation";
	const uint8_t *at = text, *const end = text + n;

	while ((at = memmem(at, (size_t)(end - at), name, strlen(name)))) {
		at += strlen(name);
		at += end - at > 1 && at[0] == '>' ? 1 : end - at > 2 && memcmp(at, "=\"", 2) == 0 ? 2 : 0;
		if (at < end && isdigit(at[0]) && (at[-1] == '>' || at[-1] == '"'))
			return at[0] >= '1' && at[0] <= '8' ? at[0] - '0' : 1;
	}
	return 0;
}

/* Copies n bytes into room[TEXT_BYTES], unpacked if they are packed. Returns as many as there is room for. */
static size_t copy(uint8_t *room, const uint8_t *data, size_t n, bool packed)
{
	z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)n, .next_out = room, .avail_out = TEXT_BYTES};

	if (!packed) {
		n = n < TEXT_BYTES ? n : TEXT_BYTES;
		memcpy(room, data, n);
		return n;
	}
	if (inflateInit(&z) != Z_OK)
		return 0;
	(void)inflate(&z, Z_FINISH); /* of damaged data, what was unpacked until then */
	(void)inflateEnd(&z);
	return TEXT_BYTES - z.avail_out;
}

/* The orientation in a PNG's chunk, of n bytes behind its name, if it is a text with this keyword; else 0. */
static int of_text(const uint8_t *name, size_t n, const char *keyword, int (*orientation)(uint8_t *, size_t))
{
	const bool international = memcmp(name, "iTXt", 4) == 0, packed = memcmp(name, "zTXt", 4) == 0;
	const uint8_t *at = name + 4, *const end = at + n;
	const size_t word = strlen(keyword) + 1;
	bool unpacks = packed;
	uint8_t *room;
	int how;

	if ((!international && !packed && memcmp(name, "tEXt", 4) != 0) || n < word + 2 ||
	    memcmp(at, keyword, word) != 0)
		return 0;
	at += word + (packed ? 1 : 0); /* a zTXt names its method */
	if (international) {
		unpacks = at[0] != 0;
		at = memchr(at + 2, 0, (size_t)(end - at - 2)); /* the language, then the keyword in it */
		at = at ? memchr(at + 1, 0, (size_t)(end - at - 1)) : NULL;
		if (!at++)
			return 0;
	}
	room = malloc(TEXT_BYTES);
	how = room ? orientation(room, copy(room, at, (size_t)(end - at), unpacks)) : 0;
	free(room);
	return how;
}

/* Looks for the EXIF chunk `name`, and in a PNG for texts: EXIF counts before XMP. A chunk begins with its length and
 * name in a PNG, with its name and length in a WebP. */
static int of_chunks(const uint8_t *bytes, size_t len, size_t at, const char *name, bool png)
{
	int exif = 0, xmp = 0;

	for (int i = 0; i < MOST_SEGMENTS && !exif && at + 8 <= len;) {
		const size_t n = number(bytes + at + (png ? 0 : 4), 4, png);
		const uint8_t *data = bytes + at + 8;

		i += memcmp(bytes + at + 4, "IDAT", 4) != 0; /* a PNG's pixels may be thousands of chunks */
		if (n > len - at - 8)
			break;
		if (memcmp(bytes + at + (png ? 4 : 0), name, 4) == 0)
			exif = of_exif(data, n);
		else if (png)
			exif = of_text(data - 4, n, "Raw profile type exif", of_digits);
		if (png && !xmp)
			xmp = of_text(data - 4, n, "XML:com.adobe.xmp", of_xmp);
		at += 8 + n + (png ? 4 : n % 2);
	}
	return exif ? exif : xmp;
}

/* 0: the file says nothing. */
static int of_file(const uint8_t *bytes, size_t len, bool upright)
{
	if (len > 4 && (memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0 ||
			memcmp(bytes, "II+\0", 4) == 0 || memcmp(bytes, "MM\0+", 4) == 0))
		return orientation_of(bytes, len);
	if (!upright)
		return 0;
	if (len > 4 && bytes[0] == 0xff && bytes[1] == 0xd8)
		return of_jpeg(bytes, len);
	if (len > 16 && memcmp(bytes, "\x89PNG", 4) == 0)
		return of_chunks(bytes, len, 8, "eXIf", true);
	if (len > 16 && memcmp(bytes, "RIFF", 4) == 0)
		return of_chunks(bytes, len, 12, "EXIF", false);
	return 0;
}

int sl_picture_orientation(const uint8_t *bytes, size_t len, bool upright)
{
	const int how = of_file(bytes, len, upright);

	return how ? how : 1;
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
