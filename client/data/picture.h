/* A picture file's bytes to pixels. The first bytes tell the format, not the file's name: JPEG, PNG, WebP, TIFF, BMP,
 * PPM and PGM in binary (P6, P5), or DICOM, where its module is installed (dicom.h). All become RGB of 8 bits, as
 * Pillow's convert("RGB") makes them: grey is repeated, alpha is left out, palettes and CMYK are converted. Of 16 bits
 * the upper eight count. EXIF orientation is ignored, as torchvision's loader does. Of several pages or frames a TIFF
 * gives its first; an animated WebP is refused. The spec can ask for other things. Grey is then convert("L") of the
 * above, and stays three numbers where it is bytes. Deep pixels are those of files of 16 bits (PNG, TIFF, PGM); those
 * of other files are multiplied by 257. They have as many channels as the spec says.
 */
#ifndef SL_CLIENT_DATA_PICTURE_H
#define SL_CLIENT_DATA_PICTURE_H

#include <limits.h>

#include "client/data/source.h"

enum { SL_PICTURE_CHANNELS = 3, SL_PICTURE_MAX_SIDE = 65535, SL_PICTURE_MAX_FILE = 1 << 28 /* bytes */ };

/* DATA: not a picture of these formats, cut off, damaged, or of more than max_pixels; NOMEM. *fail names no file.
 * The number of pixels is checked before memory for them is taken. `room->wanted` may ask for a part: see there.
 * out->data lies in `room`. Any thread. */
enum sl_err sl_picture_decode(struct sl_value *out, const uint8_t *bytes, size_t len,
			      const struct sl_picture_spec *spec, struct sl_room *room,
			      struct sl_fail *fail) SL_MUST_CHECK;

/* A picture's file, whole, into room->file: NOINPUT, DATA where it is too large, IO, NOMEM; *fail names it. */
enum sl_err sl_picture_read_file(const char *path, struct sl_room *room, size_t *len,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* The mask of a picture that was read into `room`: bytes [h, w, 1] in room->mask, each below `classes` or
 * SL_LEARN_IGNORED. Its file has the same path below dir/masks as the picture below dir, and ends in .png. As above;
 * DATA also where it is no such mask. */
enum sl_err sl_picture_read_mask(struct sl_value *out, const char *picture, const char *dir, const char *masks,
				 int classes, struct sl_room *room, struct sl_fail *fail) SL_MUST_CHECK;

/* Where that mask lies; false: the path is too long. */
bool sl_picture_mask_path(char out[PATH_MAX], const char *picture, const char *dir, const char *masks);

/* Whether a name ends as pictures do in torchvision's ImageFolder, or in .dcm; in any case. */
bool sl_picture_name(const char *name);

#endif
