/* Writes NIfTI-1 files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "client/data/nifti.h"
#include "common/base/newfile.h"
#include "common/base/text.h"

enum { HEADER = 352, MM = 2, SCANNER = 1 };

/* Stores numbers in this machine's byte order, which readers find by the header's size. */
#define PUT(out, at, type, ...)                          \
	do {                                             \
		const type put_[] = {__VA_ARGS__};       \
		memcpy((out) + (at), put_, sizeof put_); \
	} while (0)

static void make_header(uint8_t out[HEADER], const struct sl_nifti_array *v)
{
	const double(*m)[4] = v->affine.m;

	memset(out, 0, HEADER);
	PUT(out, 0, int32_t, 348);
	PUT(out, 40, int16_t, 3, (int16_t)v->dim[0], (int16_t)v->dim[1], (int16_t)v->dim[2], 1, 1, 1, 1);
	PUT(out, 70, int16_t, v->number ? 16 : 2, v->number ? 32 : 8);
	PUT(out, 76, float, 1, (float)sl_world_spacing(&v->affine, 0), (float)sl_world_spacing(&v->affine, 1),
	    (float)sl_world_spacing(&v->affine, 2));
	PUT(out, 108, float, HEADER, 1, 0);
	out[123] = MM;
	PUT(out, 254, int16_t, v->unplaced ? 0 : SCANNER);
	for (int i = 0; i < 3; i++)
		PUT(out, 280 + 16 * i, float, (float)m[i][0], (float)m[i][1], (float)m[i][2], (float)m[i][3]);
	memcpy(out + 344, "n+1", sizeof "n+1");
}

static enum sl_err pack(uint8_t **bytes, size_t *len, struct sl_fail *fail)
{
	z_stream z = {.next_in = *bytes};
	uint8_t *packed = NULL;
	size_t most = 0;
	bool fine = *len <= UINT32_MAX && deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, 0) == Z_OK;

	if (fine) {
		most = deflateBound(&z, *len);
		packed = malloc(most);
		z.next_out = packed;
		z.avail_in = (uInt)*len;
		z.avail_out = (uInt)most;
		fine = packed && most <= UINT32_MAX && deflate(&z, Z_FINISH) == Z_STREAM_END;
		(void)deflateEnd(&z);
	}
	if (!fine) {
		free(packed);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to compress a volume");
	}
	free(*bytes);
	*bytes = packed;
	*len = z.total_out;
	return SL_OK;
}

enum sl_err sl_nifti_write(const char *path, const struct sl_nifti_array *v, struct sl_fail *fail)
{
	const size_t n = (size_t)(v->dim[0] * v->dim[1] * v->dim[2]) * (v->number ? sizeof *v->number : 1);
	uint8_t *bytes;
	size_t len = HEADER + n;
	enum sl_err err = SL_OK;

	for (int i = 0; i < 3; i++)
		if (v->dim[i] < 1 || v->dim[i] > INT16_MAX)
			return sl_fail_set(fail, SL_ERR_LIMIT, "%s: an axis of NIfTI has at most %d voxels", path,
					   INT16_MAX);
	bytes = malloc(len);
	if (!bytes)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for its voxels", path);
	make_header(bytes, v);
	memcpy(bytes + HEADER, v->number ? (const void *)v->number : v->byte, n);
	if (sl_ends_with(path, ".gz"))
		err = pack(&bytes, &len, fail);
	if (!err)
		err = sl_newfile_put(path, 0644, SL_FP_NONE, bytes, len, fail);
	free(bytes);
	return err;
}
