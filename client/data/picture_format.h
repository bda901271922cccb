/* The readers of picture formats, for picture.c: one for each format, in its own file. */
#ifndef SL_CLIENT_DATA_PICTURE_FORMAT_H
#define SL_CLIENT_DATA_PICTURE_FORMAT_H

#include <string.h>

#include "client/data/picture.h"

/* A reader's input, and *out, which it fills. The caller owns all of it. */
struct sl_picture_job {
	const uint8_t *bytes;
	size_t len;
	const struct sl_picture_spec *spec;
	struct sl_room *room;
	struct sl_value *out;
	struct sl_fail *fail;
};

enum { SL_PICTURE_DICOM_AT = 128 /* offset of its signature */ };
static inline bool sl_picture_is_dicom(const uint8_t *bytes, size_t len)
{
	return len >= SL_PICTURE_DICOM_AT + 4 && memcmp(bytes + SL_PICTURE_DICOM_AT, "DICM", 4) == 0;
}

/* Each decodes one format, with the errors of sl_picture_decode. */
enum sl_err sl_picture_read_jpeg(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_png(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_webp(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_tiff(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_bmp(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_dicom(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_pnm(const struct sl_picture_job *job) SL_MUST_CHECK;

/* DATA: a side is 0 or too long, or there are too many pixels. To be called before memory is taken. */
enum sl_err sl_picture_bounds(const struct sl_picture_job *job, uint64_t h, uint64_t w) SL_MUST_CHECK;
/* Makes room->data large enough for h rows of `row` bytes, and sets *out to a whole RGB picture of h × w there. The
 * caller then fills in the pixels. NOMEM. */
enum sl_err sl_picture_room(const struct sl_picture_job *job, int h, int w, size_t row) SL_MUST_CHECK;
static inline enum sl_err sl_picture_whole(const struct sl_picture_job *job, int h, int w)
{
	return sl_picture_room(job, h, w, (size_t)w * SL_PICTURE_CHANNELS);
}

/* Replaces each pixel's colours by its luma. */
void sl_picture_make_grey(uint8_t *p, size_t pixels);
/* Makes *out deep, in room->deep, from `samples` of 8 or 16 bits, `channels` (1 or 3) a pixel, of the size that *out
 * has. They may lie in room->data. NOMEM. */
enum sl_err sl_picture_deepen(const struct sl_picture_job *job, const void *samples, int bits,
			      int channels) SL_MUST_CHECK;
/* picture_exif.c: the orientation of a picture file, 1 … 8 as in EXIF, also by a PNG's XMP; 1: upright, or unknown. A
 * TIFF's always counts, as in Pillow; those of other formats only with `upright`. Takes any bytes. */
int sl_picture_orientation(const uint8_t *bytes, size_t len, bool upright);
/* Rotates and mirrors *out, a whole picture of orientation `how`, so that it is upright. NOMEM. */
enum sl_err sl_picture_turn(const struct sl_picture_job *job, int how) SL_MUST_CHECK;

static inline unsigned sl_le16(const uint8_t *p)
{
	return p[0] | (unsigned)p[1] << 8;
}

static inline uint32_t sl_le32(const uint8_t *p)
{
	return sl_le16(p) | (uint32_t)sl_le16(p + 2) << 16;
}

#endif
