#include "client/data/picture_write.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <string.h>

enum sl_err sl_picture_write_png(const char *path, const uint8_t *pixels, int h, int w, int channels,
				 struct sl_fail *fail)
{
	png_image image = {.version = PNG_IMAGE_VERSION,
			   .width = (png_uint_32)w,
			   .height = (png_uint_32)h,
			   .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
	FILE *file = fopen(path, "wb");
	bool written;

	if (!file)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
	written = png_image_write_to_stdio(&image, file, 0, pixels, 0, NULL);
	if (fclose(file) == 0 && written)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, written ? strerror(errno) : image.message);
}
