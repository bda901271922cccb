/* Which reader takes a picture file, by its first bytes. */
#include <math.h>
#include <string.h>

#include "client/data/picture_format.h"
#include "common/base/filekind.h"
#include "common/base/log.h"

enum {
	NIFTI_AT = 344, /* offset of the format's signature */
	PNG_BITS_AT = 24,
	DIM = 16 /* of 256 */
};

static enum sl_err read_format(const struct sl_picture_job *job)
{
	static const struct {
		const char *begins, *at_8; /* a file's first bytes, and those from byte 8 on; NULL: any */
		size_t n;
		enum sl_err (*read)(const struct sl_picture_job *job);
	} formats[] = {
		{"\xff\xd8\xff", NULL, 3, sl_picture_read_jpeg}, {"\x89PNG\r\n\x1a\n", NULL, 8, sl_picture_read_png},
		{"RIFF", "WEBP", 4, sl_picture_read_webp},       {"II*\0", NULL, 4, sl_picture_read_tiff},
		{"MM\0*", NULL, 4, sl_picture_read_tiff},        {"II+\0", NULL, 4, sl_picture_read_tiff}, /* BigTIFF */
		{"MM\0+", NULL, 4, sl_picture_read_tiff},        {"BM", NULL, 2, sl_picture_read_bmp},
	};
	const uint8_t *bytes = job->bytes;
	const size_t len = job->len;
	const char *other;

	if (job->spec->index)
		return sl_picture_read_png(job);
	if (!len)
		return sl_fail_set(job->fail, SL_ERR_DATA, "the file is empty");
	if (sl_picture_is_dicom(bytes, len))
		return sl_picture_read_dicom(job);
	if (len >= NIFTI_AT + 4 && (memcmp(bytes + NIFTI_AT, "n+1", 4) == 0 || memcmp(bytes + NIFTI_AT, "ni1", 4) == 0))
		return sl_fail_set(
			job->fail, SL_ERR_DATA,
			"NIfTI: volumes are not read yet; save slices as PNG or TIFF of 16 bits, or as DICOM");
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if (len >= formats[i].n && memcmp(bytes, formats[i].begins, formats[i].n) == 0 &&
		    (!formats[i].at_8 || (len >= 12 && memcmp(bytes + 8, formats[i].at_8, 4) == 0)))
			return formats[i].read(job);
	if (len >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6')
		return sl_picture_read_pnm(job);
	if (len >= 8 && (memcmp(bytes, "\2\0\0\0UL", 6) == 0 || /* group 2, or group 8 in any encoding */
			 (memcmp(bytes, "\10\0", 2) == 0 && bytes[2] <= 0x18 && !bytes[3])))
		return sl_fail_set(
			job->fail, SL_ERR_DATA,
			"this is DICOM without the 132 bytes that begin a file: dcmconv FILE OTHER adds them");
	other = sl_filekind(bytes, len);
	return sl_fail_set(job->fail, SL_ERR_DATA,
			   "this is not a picture in JPEG, PNG, WebP, TIFF, BMP, PBM, PGM, PPM or DICOM%s%s",
			   other ? ", but " : "", other ? other : "");
}

void sl_picture_warn_dim(const char *name, const uint8_t *bytes, size_t len, const struct sl_value *v)
{
	const int64_t n = v->dim[0] * v->dim[1] * v->dim[2];
	float most = 0;

	if (len <= PNG_BITS_AT || memcmp(bytes, "\x89PNG", 4) != 0 || bytes[PNG_BITS_AT] != 16)
		return;
	for (int64_t i = 0; i < n && most < (v->deep ? DIM << 8 : DIM); i++)
		most = fmaxf(most, v->deep ? ((const float *)v->data)[i] : ((const uint8_t *)v->data)[i]);
	if (most > 0 && most < (v->deep ? DIM << 8 : DIM))
		sl_log_limited(
			SL_LOG_WARN, "dim-picture",
			"%s: no sample of its 16 bits is above 4095, so the picture is nearly black: if the values "
			"have 12 bits, save them multiplied by 16",
			name);
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
