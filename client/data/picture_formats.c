/* Which reader takes a picture file, by its first bytes. */
#include <string.h>

#include "client/data/picture_format.h"

enum { DICOM_AT = 128, NIFTI_AT = 344 }; /* offsets of the formats' signatures */

static enum sl_err read_format(const struct sl_picture_job *job)
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
	const uint8_t *bytes = job->bytes;
	const size_t len = job->len;

	if (job->spec->index)
		return sl_picture_read_png(job);
	if (!len)
		return sl_fail_set(job->fail, SL_ERR_DATA, "the file is empty");
	if (len >= DICOM_AT + 4 && memcmp(bytes + DICOM_AT, "DICM", 4) == 0)
		return sl_picture_read_dicom(job);
	if (len >= NIFTI_AT + 4 && (memcmp(bytes + NIFTI_AT, "n+1", 4) == 0 || memcmp(bytes + NIFTI_AT, "ni1", 4) == 0))
		return sl_fail_set(
			job->fail, SL_ERR_DATA,
			"NIfTI: volumes are not read yet; save slices as PNG or TIFF of 16 bits, or as DICOM");
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if (len >= formats[i].n && memcmp(bytes, formats[i].begins, formats[i].n) == 0 &&
		    (!formats[i].at_8 || (len >= 12 && memcmp(bytes + 8, formats[i].at_8, 4) == 0)))
			return formats[i].read(job);
	return sl_fail_set(job->fail, SL_ERR_DATA, "this is not a picture in JPEG, PNG, WebP, TIFF, BMP, PPM or DICOM");
}

enum sl_err sl_picture_decode(struct sl_value *out, const uint8_t *bytes, size_t len,
			      const struct sl_picture_spec *spec, struct sl_room *room, struct sl_fail *fail)
{
	const struct sl_picture_job job = {bytes, len, spec, room, out, fail};
	const struct sl_wanted *wanted = room->wanted;
	const int how = sl_picture_orientation(bytes, len, spec->upright);
	enum sl_err err;

	if (how > 1) /* a part of the upright picture lies elsewhere in the stored one */
		room->wanted = NULL;
	out->deep = false;
	err = read_format(&job);
	room->wanted = wanted;
	if (!err && spec->deep && !out->deep)
		err = sl_picture_deepen(&job, out->data, 8, SL_PICTURE_CHANNELS);
	else if (!err && spec->channels == 1 && !out->deep)
		sl_picture_make_grey(room->data, (size_t)out->dim[0] * (size_t)out->dim[1]);
	return err || how == 1 ? err : sl_picture_turn(&job, how);
}
