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

/* Keeps the first message: it is the cause, and those that follow are its consequences. */
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
	TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)m->job->spec->max_pixels * 2 * RGBA);
	TIFFOpenOptionsSetErrorHandlerExtR(options, says, m);
	TIFFOpenOptionsSetWarningHandlerExtR(options, keeps_silent, NULL);
	tiff = TIFFClientOpenExt("TIFF", "rm", m, take, refuse, seek, close_nothing, size_of, NULL, NULL, options);
	TIFFOpenOptionsFree(options);
	return tiff;
}

/* Whether colours are multiplied by alpha, the first of the further samples. */
static bool is_multiplied(TIFF *tiff)
{
	uint16_t *kind, n = 0;

	return TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &n, &kind) && n >= 1 && kind[0] == EXTRASAMPLE_ASSOCALPHA;
}

/* Divides a colour by alpha, as Pillow does. Both are at most `most`. */
static uint32_t divided(uint32_t colour, uint32_t alpha, uint32_t most)
{
	return !alpha ? 0 : colour < alpha ? colour * most / alpha : most;
}

/* Declares alpha as multiplied in already: else libtiff would multiply colours by it, while Pillow leaves it out. */
static void leave_alpha_out(TIFF *tiff)
{
	uint16_t *kind, kinds[8], n = 0, i;

	if (!TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &n, &kind) || n < 1 || n > 8)
		return;
	for (i = 0; i < n; i++)
		kinds[i] = EXTRASAMPLE_ASSOCALPHA;
	TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, n, kinds);
}

/* Whether the samples are 16 bits of grey or RGB, with those of a pixel side by side. *channels are grey or RGB, the
 * first of the samples. */
static bool is_deep(TIFF *tiff, uint16_t *samples, int *channels, bool *inverted)
{
	uint16_t bits = 0, planes = PLANARCONFIG_CONTIG, format = SAMPLEFORMAT_UINT, photo = 0;

	*samples = 1;
	TIFFGetField(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
	TIFFGetField(tiff, TIFFTAG_SAMPLESPERPIXEL, samples);
	TIFFGetField(tiff, TIFFTAG_PLANARCONFIG, &planes);
	TIFFGetField(tiff, TIFFTAG_SAMPLEFORMAT, &format);
	TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photo);
	*channels = photo == PHOTOMETRIC_RGB ? SL_PICTURE_CHANNELS : 1;
	*inverted = photo == PHOTOMETRIC_MINISWHITE;
	return bits == 16 && format == SAMPLEFORMAT_UINT && *samples >= 1 && *samples <= 8 &&
	       (planes == PLANARCONFIG_CONTIG || *samples == 1) &&
	       (photo == PHOTOMETRIC_RGB ? *samples >= SL_PICTURE_CHANNELS
					 : photo == PHOTOMETRIC_MINISBLACK || *inverted);
}

/* Lines of a 16-bit picture that are read at once: one, or a row of tiles. */
struct band {
	uint32_t w, h, rows, across; /* of the picture; of the band; width of a tile, 0: the file has none */
	uint16_t samples, *line, *tile;
};

static enum sl_err open_band(struct band *b, TIFF *tiff, const struct sl_picture_job *job)
{
	const bool tiled = TIFFIsTiled(tiff);
	uint64_t bytes;
	enum sl_err err = SL_OK;

	if (tiled)
		TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &b->across);
	if (tiled)
		TIFFGetField(tiff, TIFFTAG_TILELENGTH, &b->rows);
	if (tiled)
		err = sl_picture_bounds(job, b->rows, b->across);
	bytes = (uint64_t)(tiled ? b->across * b->rows : b->w) * b->samples * sizeof *b->line;
	if (!err && bytes != (tiled ? TIFFTileSize64(tiff) : TIFFScanlineSize64(tiff)))
		err = sl_fail_set(job->fail, SL_ERR_DATA, "TIFF: rows of an unknown length");
	if (err)
		return err;
	b->line = malloc((size_t)b->w * (b->rows < b->h ? b->rows : b->h) * b->samples * sizeof *b->line);
	b->tile = tiled ? malloc(bytes) : NULL;
	return b->line && (b->tile || !tiled) ? SL_OK : sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for a TIFF");
}

/* Reads the band that begins with line y. */
static bool read_band(const struct band *b, TIFF *tiff, uint32_t y)
{
	if (!b->across)
		return TIFFReadScanline(tiff, b->line, y, 0) == 1;
	for (uint32_t x = 0; x < b->w; x += b->across) {
		const size_t n = b->w - x < b->across ? b->w - x : b->across;
		const size_t rows = b->h - y < b->rows ? b->h - y : b->rows;

		if (TIFFReadTile(tiff, b->tile, x, y, 0, 0) < 0)
			return false;
		for (size_t r = 0; r < rows; r++)
			memcpy(b->line + (r * b->w + x) * b->samples, b->tile + r * b->across * b->samples,
			       n * b->samples * sizeof *b->line);
	}
	return true;
}

/* Reads the samples of 16 bits, without alpha. */
static enum sl_err read_deep(TIFF *tiff, struct memory *m, int h, int w, uint16_t samples, int channels, bool inverted)
{
	const struct sl_picture_job *job = m->job;
	const bool multiplied = samples > channels && is_multiplied(tiff);
	struct band b = {.w = (uint32_t)w, .h = (uint32_t)h, .rows = 1, .samples = samples};
	uint16_t *out;
	enum sl_err err = sl_picture_room(job, h, w, (size_t)w * (size_t)channels * sizeof *out);

	if (!err)
		err = open_band(&b, tiff, job);
	out = (uint16_t *)(void *)job->room->data;
	for (int y = 0; y < h && !err; y++) {
		const uint16_t *line = b.line ? b.line + (size_t)y % b.rows * (size_t)w * samples : NULL;

		if ((uint32_t)y % b.rows == 0 && !read_band(&b, tiff, (uint32_t)y))
			err = sl_fail_set(job->fail, SL_ERR_DATA, "TIFF: %s",
					  m->text[0] ? m->text : "damaged or cut off");
		for (int x = 0; x < w && !err; x++)
			for (int k = 0; k < channels; k++) {
				const uint16_t *at = line + (size_t)x * samples;
				const uint32_t v = multiplied ? divided(at[k], at[channels], UINT16_MAX) : at[k];

				*out++ = (uint16_t)(inverted ? ~v : v);
			}
	}
	free(b.line);
	free(b.tile);
	return err ? err : sl_picture_deepen(job, job->room->data, 16, channels);
}

/* Has libtiff make RGBA of a strip or a row of tiles after the other, and copies RGB from that. */
static enum sl_err read_bytes(TIFF *tiff, struct memory *m, uint32_t h, uint32_t w)
{
	const struct sl_picture_job *job = m->job;
	const bool multiplied = is_multiplied(tiff);
	TIFFRGBAImage image;
	char text[1024] = "";
	uint32_t rows = h, *rgba = NULL;
	uint8_t *out;
	enum sl_err err = sl_picture_whole(job, (int)h, (int)w);

	leave_alpha_out(tiff);
	out = job->room->data;
	TIFFGetField(tiff, TIFFIsTiled(tiff) ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &rows);
	rows = rows && rows < h ? rows : h;
	if (!err && !(rgba = malloc((size_t)rows * w * RGBA)))
		err = sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for %u x %u pixels", w, rows);
	if (!err && (!TIFFRGBAImageOK(tiff, text) || !TIFFRGBAImageBegin(&image, tiff, 1, text))) {
		sl_text_make_safe(text, '?');
		err = sl_fail_set(job->fail, SL_ERR_DATA, "TIFF: %.200s", text);
	}
	if (err) {
		free(rgba);
		return err;
	}
	image.req_orientation = ORIENTATION_TOPLEFT;
	for (int v = 0; image.Bitdepth16To8 && v <= UINT16_MAX; v++)
		image.Bitdepth16To8[v] = (uint8_t)(v >> 8); /* libtiff rounds, and Pillow does not */
	for (uint32_t y = 0; y < h && !err; y += rows) {
		const uint32_t n = rows < h - y ? rows : h - y;

		image.row_offset = (int)y;
		if (!TIFFRGBAImageGet(&image, rgba, w, n))
			err = sl_fail_set(job->fail, SL_ERR_DATA, "TIFF: %s",
					  m->text[0] ? m->text : "damaged or cut off");
		for (size_t i = 0; i < (size_t)n * w && !err; i++) {
			const uint32_t colour[] = {TIFFGetR(rgba[i]), TIFFGetG(rgba[i]), TIFFGetB(rgba[i])};

			for (int k = 0; k < SL_PICTURE_CHANNELS; k++)
				*out++ = (uint8_t)(multiplied ? divided(colour[k], TIFFGetA(rgba[i]), UINT8_MAX)
							      : colour[k]);
		}
	}
	TIFFRGBAImageEnd(&image);
	free(rgba);
	return err;
}

/* Reads a picture of 16-bit samples as it is, and any other as bytes of RGB. */
static enum sl_err read_picture(TIFF *tiff, struct memory *m)
{
	const struct sl_picture_job *job = m->job;
	uint32_t h = 0, w = 0;
	uint16_t samples, bits = 0, format = SAMPLEFORMAT_UINT, photo = 0;
	int channels;
	bool inverted;
	enum sl_err err;

	TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &h);
	TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &w);
	TIFFGetField(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
	TIFFGetField(tiff, TIFFTAG_SAMPLEFORMAT, &format);
	TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photo);
	TIFFSetField(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT); /* as stored: it is turned afterwards */
	err = sl_picture_bounds(job, h, w);
	if (err)
		return err;
	if (format == SAMPLEFORMAT_INT) /* libtiff would take them for unsigned ones */
		return sl_fail_set(job->fail, SL_ERR_DATA,
				   "TIFF: its samples are signed: save them as unsigned ones, or as DICOM");
	if (job->spec->deep && is_deep(tiff, &samples, &channels, &inverted))
		return read_deep(tiff, m, (int)h, (int)w, samples, channels, inverted);
	if (job->spec->deep && bits > 8)
		return sl_fail_set(job->fail, SL_ERR_DATA,
				   "TIFF: of %d bits a sample only grey and RGB of 16 bits are read at data.bits: 16, "
				   "with the samples of a pixel side by side",
				   bits);
	if (photo == PHOTOMETRIC_CIELAB || photo == PHOTOMETRIC_ICCLAB || photo == PHOTOMETRIC_ITULAB)
		return sl_fail_set(job->fail, SL_ERR_DATA, "TIFF: its colours are CIE L*a*b*: save it as RGB");
	return read_bytes(tiff, m, h, w);
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
