#include "client/data/nifti.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/text.h"

enum { MOST_HEADER = 540, BUFFER = 1 << 16, MOST_OFFSET = 1 << 24, GZIP_RATIO = 1032 /* at most, of deflate */ };

/* Where a header has its numbers, and how many bytes they take. */
static const struct form {
	const char *magic;
	int size, magic_at, dim, whole, datatype, pixdim, real, offset, slope, units, codes, code, quatern, srow;
} forms[] = {
	{"n+1", 348, 344, 40, 2, 70, 76, 4, 108, 112, 123, 252, 2, 256, 280},
	{"n+2", 540, 4, 16, 8, 12, 104, 8, 168, 176, 500, 344, 4, 352, 400},
};

/* The standard's datatypes that are read, with their bytes: whole numbers without and with a sign, and floats. */
static const struct type {
	int code, bytes;
	enum { UNSIGNED, SIGNED, REAL } kind;
} types[] = {{2, 1, UNSIGNED}, {4, 2, SIGNED},     {8, 4, SIGNED},     {16, 4, REAL},     {64, 8, REAL},
	     {256, 1, SIGNED}, {512, 2, UNSIGNED}, {768, 4, UNSIGNED}, {1024, 8, SIGNED}, {1280, 8, UNSIGNED}};

const char *sl_nifti_ending(const char *name)
{
	return sl_ends_with(name, ".nii.gz") ? ".nii.gz" : sl_ends_with(name, ".nii") ? ".nii" : NULL;
}

/* A file that is read from its start, inflated if it is gzip's. */
struct reader {
	FILE *file;
	bool packed, open; /* open: `z` is */
	z_stream z;
	uint8_t buffer[BUFFER];
	struct sl_fail *fail;
};

struct header {
	uint8_t byte[MOST_HEADER];
	const struct form *form;
	bool swap;
};

static enum sl_err damaged(struct sl_fail *fail, const char *how)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s", how);
}

static enum sl_err cut_off(struct reader *r)
{
	return ferror(r->file) ? sl_fail_set(r->fail, SL_ERR_IO, "cannot be read")
			       : damaged(r->fail, "the file ends before its last voxel: is it a copy that broke off?");
}

/* Fills the buffer once it is empty. A file may have several gzip streams, one behind the other. */
static enum sl_err inflate_some(struct reader *r)
{
	int status;

	if (!r->z.avail_in) {
		r->z.next_in = r->buffer;
		r->z.avail_in = (uInt)fread(r->buffer, 1, BUFFER, r->file);
		if (!r->z.avail_in)
			return cut_off(r);
	}
	status = inflate(&r->z, Z_NO_FLUSH);
	if (status == Z_STREAM_END)
		status = inflateReset(&r->z);
	return status == Z_OK || status == Z_BUF_ERROR ? SL_OK : damaged(r->fail, "its gzip data are damaged");
}

static enum sl_err pull(struct reader *r, void *to, size_t n)
{
	enum sl_err err = SL_OK;

	if (!r->packed)
		return fread(to, 1, n, r->file) == n ? SL_OK : cut_off(r);
	r->z.next_out = to;
	r->z.avail_out = (uInt)n;
	while (r->z.avail_out && !err)
		err = inflate_some(r);
	return err;
}

static enum sl_err open_reader(struct reader *r)
{
	const int a = getc(r->file), b = getc(r->file);

	rewind(r->file);
	r->packed = a == 0x1f && b == 0x8b;
	if (r->packed && inflateInit2(&r->z, 15 + 16) != Z_OK)
		return sl_fail_set(r->fail, SL_ERR_NOMEM, "no memory to inflate it");
	r->open = r->packed;
	return SL_OK;
}

/* The bits of a number of n bytes. */
static uint64_t bits_at(const uint8_t *at, int n, bool swap)
{
	uint64_t x = 0;

	for (int i = 0; i < n; i++)
		x = x << 8 | at[swap ? i : n - 1 - i];
	return x;
}

static int64_t whole_of(uint64_t bits, int n)
{
	return (int64_t)(bits << (64 - 8 * n)) >> (64 - 8 * n);
}

static double real_of(uint64_t bits, int n)
{
	const uint32_t low = (uint32_t)bits;
	double x;
	float y;

	memcpy(&x, &bits, sizeof x);
	memcpy(&y, &low, sizeof y);
	return n == 4 ? (double)y : x;
}

static int64_t whole_at(const struct header *h, int at, int n)
{
	return whole_of(bits_at(h->byte + at, n, h->swap), n);
}

static double real_at(const struct header *h, int at, int i)
{
	const int n = h->form->real;

	return real_of(bits_at(h->byte + at + i * n, n, h->swap), n);
}

static enum sl_err read_header(struct reader *r, struct header *h)
{
	enum sl_err err = pull(r, h->byte, sizeof(int32_t));

	for (size_t i = 0; i < 2 * sizeof forms / sizeof *forms && !err && !h->form; i++) {
		h->swap = i % 2;
		h->form = whole_at(h, 0, sizeof(int32_t)) == forms[i / 2].size ? &forms[i / 2] : NULL;
	}
	if (!err && !h->form)
		return damaged(r->fail, "not a NIfTI file");
	if (!err)
		err = pull(r, h->byte + sizeof(int32_t), (size_t)h->form->size - sizeof(int32_t));
	if (!err && memcmp(h->byte + h->form->magic_at, h->form->magic, sizeof "n+1") != 0)
		return damaged(r->fail, memcmp(h->byte + h->form->magic_at, "ni", 2) == 0
						? "its voxels are in an .img file: write both as one .nii"
						: "an ANALYZE file, which does not say left from right: write it as "
						  "NIfTI");
	return err;
}

static enum sl_err read_sizes(const struct header *h, int64_t dim[3], struct sl_fail *fail)
{
	const int64_t n = whole_at(h, h->form->dim, h->form->whole);
	int64_t voxels = 1;

	if (n < 1 || n > 7)
		return damaged(fail, "its header is damaged: the number of axes");
	for (int i = 0; i < n; i++) {
		const int64_t side = whole_at(h, h->form->dim + (i + 1) * h->form->whole, h->form->whole);

		if (side < 1)
			return damaged(fail, "its header is damaged: the length of an axis");
		if (i >= 3 && side > 1)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "has %" PRId64 " volumes: write each as a file of its own, as CASE_0000, "
					   "CASE_0001",
					   side);
		if (side > SL_NIFTI_MOST / voxels)
			return sl_fail_set(fail, SL_ERR_DATA, "has too many voxels: at most %d", SL_NIFTI_MOST);
		voxels *= side;
	}
	for (int i = 0; i < 3; i++)
		dim[i] = i < n ? whole_at(h, h->form->dim + (i + 1) * h->form->whole, h->form->whole) : 1;
	return SL_OK;
}

/* The rotation of a quaternion, with the lengths of pixdim; the standard's method 2. */
static void read_quaternion(const struct header *h, struct sl_world *out)
{
	const struct form *f = h->form;
	const double b = real_at(h, f->quatern, 0), c = real_at(h, f->quatern, 1), d = real_at(h, f->quatern, 2);
	const double a = sqrt(fmax(0, 1 - (b * b + c * c + d * d)));
	const double turn[3][3] = {
		{a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
		{2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
		{2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c},
	};
	const double side = real_at(h, f->pixdim, 0) < 0 ? -1 : 1;

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			out->m[i][k] = turn[i][k] * real_at(h, f->pixdim, k + 1) * (k == 2 ? side : 1);
		out->m[i][3] = real_at(h, f->quatern, 3 + i);
	}
}

/* Whether the file's two affines turn its axes in other ways, or have other distances. Places may differ: a
 * registration moves one of them. */
static bool differ(const struct sl_nifti *sform, const struct sl_world *qform)
{
	struct sl_nifti other = *sform;
	struct sl_nifti_view x, y;

	other.affine = *qform;
	sl_nifti_orient(&x, sform, false);
	sl_nifti_orient(&y, &other, false);
	for (int k = 0; k < 3; k++)
		if (x.step[k] != y.step[k] ||
		    !(fabs(sl_world_spacing(&x.affine, k) / sl_world_spacing(&y.affine, k) - 1) < 0.01))
			return true;
	return false;
}

static enum sl_err read_affine(const struct header *h, struct sl_nifti *out, struct sl_fail *fail)
{
	struct sl_world qform;
	const struct form *f = h->form;
	const bool turned = whole_at(h, f->codes, f->code) > 0, sheared = whole_at(h, f->codes + f->code, f->code) > 0;
	const int unit = h->byte[h->swap && f->whole == 8 ? f->units + 3 : f->units] & 7;
	const double mm = unit == 1 ? 1e3 : unit == 3 ? 1e-3 : 1;

	out->placed = turned || sheared;
	memset(&out->affine, 0, sizeof out->affine);
	for (int i = 0; i < 3; i++)
		out->affine.m[i][i] = fabs(real_at(h, f->pixdim, i + 1)); /* a length, whatever the sign */
	qform = out->affine;
	if (turned)
		read_quaternion(h, &qform);
	if (!sheared)
		out->affine = qform;
	for (int k = 0; k < 12; k++) {
		double *m = &out->affine.m[k / 4][k % 4];

		*m = mm * (sheared ? real_at(h, f->srow, k) : *m);
		if (!(fabs(*m) < 1e6))
			return damaged(fail, "its header is damaged: where the voxels are");
	}
	for (int k = 0; k < 3; k++)
		if (!(sl_world_spacing(&out->affine, k) > 1e-6))
			return damaged(fail, "its header is damaged: the distance of two voxels is 0");
	for (int k = 0; k < 12; k++)
		qform.m[k / 4][k % 4] *= mm;
	out->disputed = sheared && turned && differ(out, &qform);
	return SL_OK;
}

static const struct type *find_type(int64_t code)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].code == code)
			return &types[i];
	return NULL;
}

static double value_at(const uint8_t *at, const struct type *type, bool swap)
{
	const uint64_t bits = bits_at(at, type->bytes, swap);

	return type->kind == REAL     ? real_of(bits, type->bytes)
	       : type->kind == SIGNED ? (double)whole_of(bits, type->bytes)
				      : (double)bits;
}

/* Whether the file can have so many bytes; a header may say anything. */
static bool is_long_enough(struct reader *r, int64_t bytes)
{
	const long at = ftell(r->file);
	long end;

	if (at < 0 || fseek(r->file, 0, SEEK_END) != 0)
		return true; /* its length is not known: the bytes are counted when they are read */
	end = ftell(r->file);
	if (fseek(r->file, at, SEEK_SET) != 0)
		return false;
	return bytes / (r->packed ? GZIP_RATIO : 1) <= end;
}

/* What the header says of the voxels' bytes. */
struct layout {
	const struct type *type;
	double offset, slope, inter;
};

static enum sl_err read_layout(const struct header *h, struct layout *out, struct sl_fail *fail)
{
	const int64_t datatype = whole_at(h, h->form->datatype, 2);
	const double given = real_at(h, h->form->slope, 0);
	const bool scaled = isfinite(given) && given != 0;

	*out = (struct layout){
		.type = find_type(datatype),
		.offset =
			h->form->whole == 8 ? (double)whole_at(h, h->form->offset, 8) : real_at(h, h->form->offset, 0),
		.slope = scaled ? given : 1,
		.inter = scaled ? real_at(h, h->form->slope, 1) : 0,
	};
	if (!out->type)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "its voxels are of datatype %" PRId64
				   ", which is not read: write them as whole numbers or floats",
				   datatype);
	if (!(out->offset >= h->form->size && out->offset <= MOST_OFFSET) || !isfinite(out->inter))
		return damaged(fail, "its header is damaged: vox_offset or scl_inter");
	return SL_OK;
}

static enum sl_err read_voxels(struct reader *r, const struct header *h, const struct layout *f, struct sl_nifti *v)
{
	const int64_t n = v->dim[0] * v->dim[1] * v->dim[2];
	const struct type *type = f->type;
	const int bytes = type->bytes;
	const double offset = f->offset, slope = f->slope, inter = f->inter;
	uint8_t some[BUFFER];
	enum sl_err err = SL_OK;

	if (!is_long_enough(r, n * bytes))
		return cut_off(r);
	for (int64_t skip = (int64_t)offset - h->form->size; skip > 0 && !err; skip -= BUFFER)
		err = pull(r, some, skip < BUFFER ? (size_t)skip : BUFFER);
	v->voxel = err ? NULL : malloc((size_t)n * sizeof *v->voxel);
	if (!err && !v->voxel)
		return sl_fail_set(r->fail, SL_ERR_NOMEM, "no memory for %" PRId64 " voxels", n);
	for (int64_t at = 0; at < n && !err; at += BUFFER / bytes) {
		const int64_t most = n - at < BUFFER / bytes ? n - at : BUFFER / bytes;

		err = pull(r, some, (size_t)(most * bytes));
		for (int64_t i = 0; i < most && !err; i++) {
			const float x = (float)(value_at(some + i * bytes, type, h->swap) * slope + inter);
			const int64_t k = at + i;

			v->voxel[k] = x;
			if (!isfinite(x))
				err = sl_fail_set(r->fail, SL_ERR_DATA,
						  "voxel (%" PRId64 ", %" PRId64 ", %" PRId64
						  ") is %s: give it a number",
						  k % v->dim[0], k / v->dim[0] % v->dim[1], k / v->dim[0] / v->dim[1],
						  isnan(x) ? "NaN" : "infinite");
		}
	}
	return err;
}

enum sl_err sl_nifti_read(struct sl_nifti *out, FILE *file, bool whole, struct sl_fail *fail)
{
	struct reader *r = calloc(1, sizeof *r);
	struct header h = {.form = NULL};
	struct layout layout;
	struct sl_nifti v = {.voxel = NULL};
	enum sl_err err;

	if (!r)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to read it");
	r->file = file;
	r->fail = fail;
	err = open_reader(r);
	if (!err)
		err = read_header(r, &h);
	if (!err)
		err = read_sizes(&h, v.dim, fail);
	if (!err)
		err = read_affine(&h, &v, fail);
	if (!err)
		err = read_layout(&h, &layout, fail);
	if (!err && whole)
		err = read_voxels(r, &h, &layout, &v);
	if (r->open)
		(void)inflateEnd(&r->z);
	free(r);
	if (err)
		sl_nifti_close(&v);
	else
		*out = v;
	return err;
}

void sl_nifti_close(struct sl_nifti *volume)
{
	free(volume->voxel);
	volume->voxel = NULL;
}

double sl_world_spacing(const struct sl_world *affine, int axis)
{
	return sqrt(affine->m[0][axis] * affine->m[0][axis] + affine->m[1][axis] * affine->m[1][axis] +
		    affine->m[2][axis] * affine->m[2][axis]);
}

/* The file's axis that goes along each of the world's: the largest share of all first. */
static void match_axes(const struct sl_world *a, int of[3])
{
	bool file_taken[3] = {false}, world_taken[3] = {false};

	for (int n = 0; n < 3; n++) {
		int world = 0, file = 0;
		double most = -1;

		for (int k = 0; k < 9; k++) {
			const double share = fabs(a->m[k / 3][k % 3]) / sl_world_spacing(a, k % 3);

			if (!world_taken[k / 3] && !file_taken[k % 3] && share > most) {
				most = share;
				world = k / 3;
				file = k % 3;
			}
		}
		of[world] = file;
		world_taken[world] = file_taken[file] = true;
	}
}

void sl_nifti_orient(struct sl_nifti_view *out, const struct sl_nifti *volume, bool xyz)
{
	const int64_t step[3] = {1, volume->dim[0], volume->dim[0] * volume->dim[1]};
	const struct sl_world *a = &volume->affine;
	int of[3];

	match_axes(a, of);
	*out = (struct sl_nifti_view){.first = 0};
	for (int i = 0; i < 3; i++)
		out->affine.m[i][3] = a->m[i][3];
	for (int axis = 0; axis < 3; axis++) {
		const int world = xyz ? axis : 2 - axis, file = of[world];
		const int64_t last = volume->dim[file] - 1;
		const bool turned = a->m[world][file] < 0;

		out->dim[axis] = volume->dim[file];
		out->step[axis] = turned ? -step[file] : step[file];
		out->first += turned ? last * step[file] : 0;
		for (int i = 0; i < 3; i++) {
			out->affine.m[i][axis] = turned ? -a->m[i][file] : a->m[i][file];
			out->affine.m[i][3] += turned ? (double)last * a->m[i][file] : 0;
		}
	}
}

bool sl_world_agrees(const struct sl_world *a, const struct sl_world *b, const int64_t dim[3])
{
	double least = INFINITY, most = 0;

	for (int axis = 0; axis < 3; axis++)
		least = fmin(least, sl_world_spacing(a, axis));
	for (int corner = 0; corner < 8; corner++)
		for (int i = 0; i < 3; i++) {
			double off = a->m[i][3] - b->m[i][3];

			for (int axis = 0; axis < 3; axis++)
				off += corner >> axis & 1 ? (double)(dim[axis] - 1) * (a->m[i][axis] - b->m[i][axis])
							  : 0;
			most = fmax(most, fabs(off));
		}
	return most < least / 10;
}
