/* usage: make_pictures CIFAR.bin DIR COUNT
 * Writes the first COUNT images of a CIFAR-10 file to a folder per class: DIR/class-N/00017.png. In turns they are a
 * JPEG, a PNG of twice the size and of another shape, and an unchanged PNG. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>

#include "client/data/picture_write.h"
#include "client/data/resample.h"

enum { SIDE = 32, CHANNELS = 3, PLANE = SIDE * SIDE, RECORD = 1 + CHANNELS * PLANE, CLASSES = 10, MOST = 96 };

static int write_jpeg(const char *path, const uint8_t *pixels, int h, int w)
{
	struct jpeg_compress_struct info;
	struct jpeg_error_mgr mgr;
	FILE *file = fopen(path, "wb");

	if (!file)
		return -1;
	info.err = jpeg_std_error(&mgr);
	jpeg_create_compress(&info);
	jpeg_stdio_dest(&info, file);
	info.image_height = (JDIMENSION)h;
	info.image_width = (JDIMENSION)w;
	info.input_components = CHANNELS;
	info.in_color_space = JCS_RGB;
	jpeg_set_defaults(&info);
	jpeg_set_quality(&info, 95, TRUE);
	jpeg_start_compress(&info, TRUE);
	while (info.next_scanline < info.image_height) {
		JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)info.next_scanline * (size_t)w * CHANNELS);

		jpeg_write_scanlines(&info, &row, 1);
	}
	jpeg_finish_compress(&info);
	jpeg_destroy_compress(&info);
	return fclose(file);
}

static int write_picture(const char *dir, int number, const uint8_t *record)
{
	static uint8_t pixels[PLANE * CHANNELS], large[MOST * MOST * CHANNELS];
	const int form = number % 3, h = form == 2 ? SIDE : 64, w = form == 1 ? 96 : form == 2 ? SIDE : 48;
	struct sl_room room = {0};
	struct sl_fail fail;
	char path[4096];

	for (int i = 0; i < PLANE; i++)
		for (int c = 0; c < CHANNELS; c++)
			pixels[i * CHANNELS + c] = record[1 + c * PLANE + i];
	snprintf(path, sizeof path, "%s/class-%d", dir, record[0]);
	if (mkdir(path, 0777) && errno != EEXIST)
		return -1;
	snprintf(path, sizeof path, "%s/class-%d/%05d.%s", dir, record[0], number, form ? "png" : "jpg");
	if (sl_resample(large, h, w, pixels, SIDE, SIDE, &(struct sl_box){0, 0, SIDE, SIDE}, &room))
		return -1;
	sl_room_close(&room);
	return form ? (int)sl_picture_write_png(path, large, h, w, 3, &fail) : write_jpeg(path, large, h, w);
}

int main(int argc, char **argv)
{
	static uint8_t record[RECORD];
	FILE *file;

	if (argc != 4)
		return 64;
	file = fopen(argv[1], "rb");
	if (!file || (mkdir(argv[2], 0777) && errno != EEXIST)) {
		perror(file ? argv[2] : argv[1]);
		return 73;
	}
	for (int i = 0; i < atoi(argv[3]) && fread(record, RECORD, 1, file) == 1; i++)
		if (write_picture(argv[2], i, record)) {
			perror(argv[2]);
			return 73;
		}
	fclose(file);
	return 0;
}
