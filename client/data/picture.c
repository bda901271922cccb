#include "client/data/picture_format.h"

#include <string.h>
#include <strings.h>

enum sl_err sl_picture_bounds(const struct sl_picture_job *job, uint64_t h, uint64_t w)
{
	if (h < 1 || w < 1)
		return sl_fail_set(job->fail, SL_ERR_DATA, "the picture has no pixels (%llu x %llu)",
				   (unsigned long long)w, (unsigned long long)h);
	if (h > SL_PICTURE_MAX_SIDE || w > SL_PICTURE_MAX_SIDE || h * w > (uint64_t)job->max_pixels)
		return sl_fail_set(
			job->fail, SL_ERR_DATA,
			"%llu x %llu pixels are too many: data.max_pixels is %lld, and a side has at most %d",
			(unsigned long long)w, (unsigned long long)h, (long long)job->max_pixels, SL_PICTURE_MAX_SIDE);
	return SL_OK;
}

enum sl_err sl_picture_whole(const struct sl_picture_job *job, int h, int w)
{
	if (sl_room_need(job->room, (size_t)h * (size_t)w * SL_PICTURE_CHANNELS))
		return sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for %d x %d pixels", w, h);
	*job->out = (struct sl_value){
		.data = job->room->data, .dim = {h, w, SL_PICTURE_CHANNELS}, .part = {.h = h, .w = w, .shrink = 1}};
	return SL_OK;
}

enum sl_err sl_picture_decode(struct sl_value *out, const uint8_t *bytes, size_t len, int64_t max_pixels,
			      struct sl_room *room, struct sl_fail *fail)
{
	static const struct {
		const char *begins, *at_8; /* a file's first bytes, and those from byte 8 on; NULL: any */
		size_t n;
		enum sl_err (*read)(const struct sl_picture_job *job);
	} formats[] = {
		{"\xff\xd8\xff", NULL, 3, sl_picture_read_jpeg},
		{"\x89PNG\r\n\x1a\n", NULL, 8, sl_picture_read_png},
		{"RIFF", "WEBP", 4, sl_picture_read_webp},
		{"II*\0", NULL, 4, sl_picture_read_tiff},
		{"MM\0*", NULL, 4, sl_picture_read_tiff},
		{"BM", NULL, 2, sl_picture_read_bmp},
		{"P6", NULL, 2, sl_picture_read_pnm},
		{"P5", NULL, 2, sl_picture_read_pnm},
	};
	const struct sl_picture_job job = {bytes, len, max_pixels, room, out, fail};

	if (!len)
		return sl_fail_set(fail, SL_ERR_DATA, "the file is empty");
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if (len >= formats[i].n && memcmp(bytes, formats[i].begins, formats[i].n) == 0 &&
		    (!formats[i].at_8 || (len >= 12 && memcmp(bytes + 8, formats[i].at_8, 4) == 0)))
			return formats[i].read(&job);
	return sl_fail_set(fail, SL_ERR_DATA, "this is not a picture in JPEG, PNG, WebP, TIFF, BMP or PPM");
}

bool sl_picture_name(const char *name)
{
	static const char *const ends[] = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
	const size_t len = strlen(name);

	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		const size_t n = strlen(ends[i]);

		if (len >= n && strcasecmp(name + len - n, ends[i]) == 0)
			return true;
	}
	return false;
}
