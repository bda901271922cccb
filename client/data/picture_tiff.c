/* TIFF through libtiff: the first page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "client/data/picture_format.h"

enum { RGBA = 4 };

struct memory {
	const struct sl_picture_job *job;
	toff_t at;
	char text[160];
};

static tmsize_t take(thandle_t handle, void *out, tmsize_t n)
{
	struct memory *m = handle;
	const size_t left = m->at < m->job->len ? m->job->len - m->at : 0;
	const size_t got = (size_t)n < left ? (size_t)n : left;

	if (n < 0)
		return -1;
	memcpy(out, m->job->bytes + (left ? m->at : 0), got);
	m->at += got;
	return (tmsize_t)got;
}

static tmsize_t refuse(thandle_t handle, void *in, tmsize_t n)
{
	return -1;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence)
{
	struct memory *m = handle;

	m->at = whence == SEEK_CUR ? m->at + offset : whence == SEEK_END ? m->job->len + offset : offset;
	return m->at;
}

static int close_nothing(thandle_t handle)
{
	return 0;
}

static toff_t size_of(thandle_t handle)
{
	return ((struct memory *)handle)->job->len;
}

/* The first message is the cause; what follows are its consequences. */
static int says(TIFF *tiff, void *arg, const char *module, const char *format, va_list args)
{
	struct memory *m = arg;

	if (!m->text[0])
		vsnprintf(m->text, sizeof m->text, format, args);
	sl_text_make_safe(m->text, '?');
	return 1;
}

static int keeps_silent(TIFF *tiff, void *arg, const char *module, const char *format, va_list args)
{
	return 1;
}

static TIFF *open_memory(struct memory *m)
{
	TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
	TIFF *tiff;

	if (!options)
		return NULL;
	TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)m->job->max_pixels * 2 * RGBA);
	TIFFOpenOptionsSetErrorHandlerExtR(options, says, m);
	TIFFOpenOptionsSetWarningHandlerExtR(options, keeps_silent, NULL);
	tiff = TIFFClientOpenExt("TIFF", "rm", m, take, refuse, seek, close_nothing, size_of, NULL, NULL, options);
	TIFFOpenOptionsFree(options);
	return tiff;
}

/* libtiff would multiply colours by an alpha that stands beside them; Pillow leaves it out. */
static void leave_alpha_out(TIFF *tiff)
{
	uint16_t *kind, kinds[8], n = 0, i;

	if (!TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &n, &kind) || n < 1 || n > 8)
		return;
	for (i = 0; i < n; i++)
		kinds[i] = EXTRASAMPLE_ASSOCALPHA;
	TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, n, kinds);
}

/* Behind RGB lies room for RGBA, of which libtiff makes the picture. */
static enum sl_err read_picture(TIFF *tiff, struct memory *m)
{
	const struct sl_picture_job *job = m->job;
	uint32_t h = 0, w = 0;
	size_t pixels;
	uint32_t *rgba;
	enum sl_err err;

	TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &h);
	TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &w);
	err = sl_picture_bounds(job, h, w);
	if (err)
		return err;
	leave_alpha_out(tiff);
	pixels = (size_t)h * w;
	err = sl_picture_whole(job, (int)h, (int)w);
	rgba = err ? NULL : malloc(pixels * RGBA);
	if (!rgba)
		return err ? err : sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for %u x %u pixels", w, h);
	if (!TIFFReadRGBAImageOriented(tiff, w, h, rgba, ORIENTATION_TOPLEFT, 1))
		err = sl_fail_set(job->fail, SL_ERR_DATA, "TIFF: %s", m->text[0] ? m->text : "damaged or cut off");
	for (size_t i = 0; i < pixels && !err; i++) {
		uint8_t *out = job->room->data + i * SL_PICTURE_CHANNELS;

		out[0] = (uint8_t)TIFFGetR(rgba[i]);
		out[1] = (uint8_t)TIFFGetG(rgba[i]);
		out[2] = (uint8_t)TIFFGetB(rgba[i]);
	}
	free(rgba);
	return err;
}

enum sl_err sl_picture_read_tiff(const struct sl_picture_job *job)
{
	struct memory m = {.job = job};
	TIFF *tiff = open_memory(&m);
	enum sl_err err;

	if (!tiff)
		return sl_fail_set(job->fail, SL_ERR_DATA, "TIFF: %s", m.text[0] ? m.text : "cannot be opened");
	err = read_picture(tiff, &m);
	TIFFClose(tiff);
	return err;
}
