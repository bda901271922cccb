#include "client/data/picture_format.h"

#include <string.h>
#include <strings.h>

enum sl_err sl_picture_bounds(const struct sl_picture_job *job, uint64_t h, uint64_t w)
{
	if (h < 1 || w < 1)
		return sl_fail_set(job->fail, SL_ERR_DATA, "the picture has no pixels (%llu x %llu)",
				   (unsigned long long)w, (unsigned long long)h);
	if (h > SL_PICTURE_MAX_SIDE || w > SL_PICTURE_MAX_SIDE || h * w > (uint64_t)job->spec->max_pixels)
		return sl_fail_set(
			job->fail, SL_ERR_DATA,
			"%llu x %llu pixels are too many: data.max_pixels is %lld, and a side has at most %d",
			(unsigned long long)w, (unsigned long long)h, (long long)job->spec->max_pixels,
			SL_PICTURE_MAX_SIDE);
	return SL_OK;
}

enum sl_err sl_picture_room(const struct sl_picture_job *job, int h, int w, size_t row)
{
	if (sl_room_need(job->room, (size_t)h * row))
		return sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for %d x %d pixels", w, h);
	*job->out = (struct sl_value){
		.data = job->room->data, .dim = {h, w, SL_PICTURE_CHANNELS}, .part = {.h = h, .w = w, .shrink = 1}};
	return SL_OK;
}

/* The luma of ITU-R 601-2 as Pillow's convert("L") has it, times 65536. */
static uint64_t luma(uint64_t r, uint64_t g, uint64_t b)
{
	return r * 19595 + g * 38470 + b * 7471;
}

void sl_picture_make_grey(uint8_t *p, size_t pixels)
{
	for (; pixels--; p += SL_PICTURE_CHANNELS)
		memset(p, (int)((luma(p[0], p[1], p[2]) + 0x8000) >> 16), SL_PICTURE_CHANNELS);
}

static uint32_t sample_at(const void *samples, int bits, size_t i)
{
	return bits == 16 ? ((const uint16_t *)samples)[i] : ((const uint8_t *)samples)[i];
}

static float grey_at(const void *samples, int bits, size_t i)
{
	const uint64_t l =
		luma(sample_at(samples, bits, i), sample_at(samples, bits, i + 1), sample_at(samples, bits, i + 2));

	return bits == 16 ? (float)((double)l / 65536) : (float)((l + 0x8000) >> 16);
}

enum sl_err sl_picture_deepen(const struct sl_picture_job *job, const void *samples, int bits, int channels)
{
	const int wanted = job->spec->channels == 1 ? 1 : SL_PICTURE_CHANNELS;
	const size_t n = (size_t)job->out->dim[0] * (size_t)job->out->dim[1];
	const float unit = bits == 16 ? 1 : 257;
	float *out;

	if (sl_room_need_deep(job->room, n * (size_t)wanted * sizeof *out))
		return sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for %zu pixels of 16 bits", n);
	out = (float *)(void *)job->room->deep;
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < wanted; k++)
			*out++ = unit * (channels == 1 ? (float)sample_at(samples, bits, i)
					 : wanted == 1 ? grey_at(samples, bits, i * 3)
						       : (float)sample_at(samples, bits, i * 3 + (size_t)k));
	job->out->data = job->room->deep;
	job->out->dim[2] = wanted;
	job->out->deep = true;
	return SL_OK;
}

size_t sl_picture_stem(const char *name)
{
	return sl_picture_name(name) ? (size_t)(strrchr(name, '.') - name) : strlen(name);
}

bool sl_picture_name(const char *name)
{
	static const char *const ends[] = {".jpg", ".jpeg", ".png",  ".ppm",  ".bmp",
					   ".pgm", ".tif",  ".tiff", ".webp", ".dcm"};
	const size_t len = strlen(name);

	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		const size_t n = strlen(ends[i]);

		if (len >= n && strcasecmp(name + len - n, ends[i]) == 0)
			return true;
	}
	return false;
}
