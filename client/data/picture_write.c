#include "client/data/picture_write.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <string.h>

#include "common/base/folder.h"

enum { COLOURS = 256 };

/* Writes the image, whose version is not set yet. */
static enum sl_err write_image(const char *path, png_image image, const uint8_t *pixels, const uint8_t *palette,
			       struct sl_fail *fail)
{
	FILE *file;
	bool written;

	if (sl_folder_check(path, fail) != SL_OK)
		return SL_ERR_CANTCREATE;
	file = fopen(path, "wb");
	if (!file)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
	image.version = PNG_IMAGE_VERSION;
	written = png_image_write_to_stdio(&image, file, 0, pixels, 0, palette);
	if (fclose(file) == 0 && written)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, written ? strerror(errno) : image.message);
}

enum sl_err sl_picture_write_png(const char *path, const uint8_t *pixels, int h, int w, int channels,
				 struct sl_fail *fail)
{
	const png_image image = {.width = (png_uint_32)w,
				 .height = (png_uint_32)h,
				 .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};

	return write_image(path, image, pixels, NULL, fail);
}

void sl_picture_class_colour(int class, uint8_t rgb[3])
{
	memset(rgb, 0, 3);
	for (int bit = 0; bit < 8; bit++) /* bit 3k + c of the class is bit 7 − k of colour c */
		rgb[bit % 3] |= (uint8_t)((class >> bit & 1) << (7 - bit / 3));
}

enum sl_err sl_picture_write_mask(const char *path, const uint8_t *classes, int h, int w, struct sl_fail *fail)
{
	const png_image image = {.width = (png_uint_32)w,
				 .height = (png_uint_32)h,
				 .format = PNG_FORMAT_RGB_COLORMAP,
				 .colormap_entries = COLOURS};
	uint8_t palette[COLOURS * 3];

	for (int i = 0; i < COLOURS; i++)
		sl_picture_class_colour(i, palette + 3 * i);
	return write_image(path, image, classes, palette, fail);
}
