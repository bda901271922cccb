/* The formats of pictures, for picture.c: one reader each, in its own file. */
#ifndef SL_CLIENT_DATA_PICTURE_FORMAT_H
#define SL_CLIENT_DATA_PICTURE_FORMAT_H

#include "client/data/picture.h"

/* What a reader is given, and what it fills: all of it belongs to the caller. */
struct sl_picture_job {
	const uint8_t *bytes;
	size_t len;
	const struct sl_picture_spec *spec;
	struct sl_room *room;
	struct sl_value *out;
	struct sl_fail *fail;
};

/* Each as sl_picture_decode. */
enum sl_err sl_picture_read_jpeg(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_png(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_webp(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_tiff(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_bmp(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_dicom(const struct sl_picture_job *job) SL_MUST_CHECK;
enum sl_err sl_picture_read_pnm(const struct sl_picture_job *job) SL_MUST_CHECK;

/* DATA where the sides are 0 or too long, or the pixels too many. To be called before memory is taken. */
enum sl_err sl_picture_bounds(const struct sl_picture_job *job, uint64_t h, uint64_t w) SL_MUST_CHECK;
/* Room for a whole picture of h × w, of which *out is told; pixels follow. `row`: bytes of one. NOMEM. */
enum sl_err sl_picture_room(const struct sl_picture_job *job, int h, int w, size_t row) SL_MUST_CHECK;
static inline enum sl_err sl_picture_whole(const struct sl_picture_job *job, int h, int w)
{
	return sl_picture_room(job, h, w, (size_t)w * SL_PICTURE_CHANNELS);
}

/* *out becomes deep: from `samples` of 8 or 16 bits, `channels` a pixel (1 or 3), of the size that *out has. They may
 * lie in room->data. NOMEM. */
enum sl_err sl_picture_deepen(const struct sl_picture_job *job, const void *samples, int bits,
			      int channels) SL_MUST_CHECK;
/* picture_exif.c: as EXIF counts orientations, 1 … 8; 1: as it is. A TIFF's always counts, as in Pillow; that of others
 * where pictures are to stand upright. Any bytes. */
int sl_picture_orientation(const uint8_t *bytes, size_t len, bool upright);
/* Turns *out, a whole picture, so that one of orientation `how` stands upright. NOMEM. */
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
