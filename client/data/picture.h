/* Decodes picture files. The first bytes tell the format, not the file's name: JPEG, PNG, WebP, TIFF, BMP, PBM,
 * PGM and PPM (P1 to P6), or DICOM, if its module is installed (dicom.h).
 * All become RGB of 8 bits, as by Pillow's convert("RGB"): grey is repeated, alpha is left out, palettes and CMYK
 * are converted. Samples of 16 bits become 8 bits; a PNG's lose the lower byte. EXIF orientation is ignored, as by
 * torchvision's loader, but not a TIFF's own. A TIFF gives its first page; an animated WebP is refused.
 * The spec can ask for other forms. Grey is convert("L") of the above; as bytes it stays three equal numbers. Deep
 * pixels are the samples of files of 16 bits (PNG, TIFF, PPM, PGM, DICOM), or 257 times those of other files. They
 * have as many channels as the spec says. */
#ifndef SL_CLIENT_DATA_PICTURE_H
#define SL_CLIENT_DATA_PICTURE_H

#include <limits.h>

#include "client/data/source.h"

enum { SL_PICTURE_CHANNELS = 3, SL_PICTURE_MAX_SIDE = 65535, SL_PICTURE_MAX_FILE = 1 << 28 /* bytes */ };

/* DATA: not a picture of these formats, truncated, damaged, or of more than max_pixels; UNAVAILABLE, VERSION: there
 * is no suitable DICOM module; NOMEM. *fail names no file. The number of pixels is checked before memory for them is
 * taken. `room->wanted` may ask for a part. out->data lies in `room`. Any thread. */
enum sl_err sl_picture_decode(struct sl_value *out, const uint8_t *bytes, size_t len,
			      const struct sl_picture_spec *spec, struct sl_room *room,
			      struct sl_fail *fail) SL_MUST_CHECK;

/* Warns if the file is a PNG of 16 bits whose decoded pixels use 12 of them at most. */
void sl_picture_warn_dim(const char *name, const uint8_t *bytes, size_t len, const struct sl_value *v);

/* Reads a whole file into room->file. NOINPUT; DATA: it is too large; IO, NOMEM; *fail names it. */
enum sl_err sl_picture_read_file(const char *path, struct sl_room *room, size_t *len,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* The size of a file; with `room` it is read, too. -1: it is not there, or cannot be read. */
int64_t sl_picture_file(const char *path, struct sl_room *room);
/* Reads the mask of the picture that was read into `room`: bytes [h, w, 1] in room->mask, each below `classes` or
 * SL_LEARN_IGNORED. Its path below dir/masks is the picture's path below dir, but ends in .png. Errors as above;
 * DATA also if it is not such a mask. */
enum sl_err sl_picture_read_mask(struct sl_value *out, const char *picture, const char *dir, const char *masks,
				 int classes, struct sl_room *room, struct sl_fail *fail) SL_MUST_CHECK;

/* The path of that mask; false: it is too long. */
bool sl_picture_mask_path(char out[PATH_MAX], const char *picture, const char *dir, const char *masks);

/* Whether a name ends like those of torchvision's ImageFolder, or in .dcm; in any case of letters. */
bool sl_picture_name(const char *name);
/* How many bytes of a picture's name stand before such an ending. A DICOM file may have none. */
size_t sl_picture_stem(const char *name);
/* Whether a regular file is a picture: by its name or, as DICOM, by its first bytes. DICOMDIR is none. */
bool sl_picture_is(const char *folder, const char *name);

#endif
