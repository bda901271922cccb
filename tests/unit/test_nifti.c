/* NIfTI files: every type in both byte orders, orientation, and files that are damaged. */

#include <math.h>
#include <unistd.h>
#include <zlib.h>

#include "client/data/nifti.h"
#include "tests/support/unit.h"

enum { I = 5, J = 4, K = 3, VOXELS = I * J * K, MOST = 1 << 14, OFFSET = 352 };
static const char folder[] = "tests/golden/nifti";

static void is_read(const char *name, int version, double slope)
{
	static const struct sl_world want[2] = {
		{{{-2, 0.5, 0, 90}, {0.25, 3, 0, -126}, {0, 0, 4, -72}}},
		{{{0, -3, 0, 10}, {2, 0, 0, 20}, {0, 0, -4, 30}}},
	};
	struct sl_nifti v = {.voxel = NULL};
	struct sl_fail fail;
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "rb");
	assert_non_null(file);
	if (sl_nifti_read(&v, file, true, &fail) != SL_OK)
		fail_msg("%s: %s", path, fail.text);
	fclose(file);
	assert_true(v.dim[0] == I && v.dim[1] == J && v.dim[2] == K && v.placed);
	for (int i = 0; i < VOXELS; i++) {
		const double stored = i - (name[0] == 'u' ? 0 : 30), x = stored * slope - (slope == 1 ? 0 : 1);

		if ((double)v.voxel[i] != x)
			fail_msg("%s: voxel %d is %g, not %g", name, i, (double)v.voxel[i], x);
	}
	for (int k = 0; k < 12; k++)
		if (fabs(v.affine.m[k / 4][k % 4] - want[version - 1].m[k / 4][k % 4]) > 1e-6)
			fail_msg("%s: affine %d is %g", name, k, v.affine.m[k / 4][k % 4]);
	sl_nifti_close(&v);
}

static void all_types_are_read(void **state)
{
	static const char *const type[] = {"u8", "i8", "i16", "u16", "i32", "u32", "f32", "f64", "i64", "u64"};
	char name[32];

	for (size_t t = 0; t < sizeof type / sizeof *type; t++)
		for (int k = 0; k < 4; k++) {
			snprintf(name, sizeof name, "%s-%s-%d.nii", type[t], k & 1 ? "be" : "le", k / 2 + 1);
			is_read(name, k / 2 + 1, k / 2 ? 0.5 : 1);
		}
	is_read("i16-le-1.nii.gz", 1, 1); /* in two streams */
	is_read("i16-le-2.nii.gz", 2, 0.5);
	is_read("f32-le-1.nii.gz", 1, 1);
	is_read("f32-le-2.nii.gz", 2, 0.5);
}

/* A rotation by the angles, of columns in the order `p` with lengths and signs. */
static struct sl_world slanted(const int p[3], int signs, double angle)
{
	const double c = cos(angle), s = sin(angle), length[3] = {0.7, 1.5, 3};
	const double turn[3][3] = {{c, -s, 0}, {s * c, c * c, -s}, {s * s, s * c, c}};
	struct sl_world a = {{{0}}};

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			a.m[i][k] = turn[i][p[k]] * length[k] * (signs >> k & 1 ? -1 : 1);
		a.m[i][3] = 10 * i - 7;
	}
	return a;
}

/* Where a voxel is in the world must not depend on how axes are turned. */
static void is_oriented(const struct sl_nifti *v, bool xyz)
{
	struct sl_nifti_view w;
	bool seen[VOXELS] = {false};

	sl_nifti_orient(&w, v, xyz);
	for (int axis = 0; axis < 3; axis++) {
		const double *m = w.affine.m[xyz ? axis : 2 - axis];

		assert_true(m[axis] > 0 && m[axis] >= 0.7 * sl_world_spacing(&w.affine, axis));
	}
	for (int64_t n = 0; n < VOXELS; n++) {
		const int64_t at[3] = {n / w.dim[2] / w.dim[1], n / w.dim[2] % w.dim[1], n % w.dim[2]};
		const int64_t of = w.first + at[0] * w.step[0] + at[1] * w.step[1] + at[2] * w.step[2];
		const int64_t file[3] = {of % v->dim[0], of / v->dim[0] % v->dim[1], of / v->dim[0] / v->dim[1]};

		assert_true(of >= 0 && of < VOXELS && !seen[of]);
		seen[of] = true;
		for (int i = 0; i < 3; i++) {
			double a = w.affine.m[i][3] - v->affine.m[i][3];

			for (int k = 0; k < 3; k++)
				a += (double)at[k] * w.affine.m[i][k] - (double)file[k] * v->affine.m[i][k];
			assert_true(fabs(a) < 1e-9);
		}
	}
}

static void axes_are_turned_to_the_world(void **state)
{
	static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (int k = 0; k < 6 * 8 * 2; k++) {
		const double angle = k < 48 ? 0 : 0.4;
		const struct sl_nifti v = {.dim = {I, J, K}, .affine = slanted(orders[k % 6], k / 6 % 8, angle)};

		is_oriented(&v, false);
		is_oriented(&v, true);
	}
}

static void written_files_are_read(void **state)
{
	const struct sl_world affine = slanted((const int[]){2, 0, 1}, 5, 0.3);
	static uint8_t byte[VOXELS];
	static float number[VOXELS];

	for (int i = 0; i < VOXELS; i++) {
		byte[i] = (uint8_t)(4 * i);
		number[i] = (float)i / 3;
	}
	for (int k = 0; k < 4; k++) {
		struct sl_nifti_array a = {{I, J, K}, affine, byte, k & 1 ? number : NULL, k == 2};
		char path[64];
		struct sl_nifti v;
		struct sl_fail fail;
		FILE *file;

		snprintf(path, sizeof path, "/tmp/test_nifti-%ld.nii%s", (long)getpid(), k / 2 ? ".gz" : "");
		assert_int_equal(sl_nifti_write(path, &a, &fail), SL_OK);
		file = fopen(path, "rb");
		assert_int_equal(sl_nifti_read(&v, file, true, &fail), SL_OK);
		fclose(file);
		unlink(path);
		assert_true(v.placed ? sl_world_agrees(&v.affine, &affine, v.dim) : k == 2);
		for (int i = 0; i < VOXELS; i++)
			assert_true(v.voxel[i] == (k & 1 ? number[i] : (float)byte[i]));
		sl_nifti_close(&v);
		a.dim[1] = 1 << 15;
		assert_int_equal(sl_nifti_write(path, &a, &fail), SL_ERR_LIMIT);
	}
}

/* Without sform and qform a length in pixdim is one, whatever its sign. */
static void lengths_have_no_sign(void **state)
{
	static uint8_t byte[VOXELS], bytes[2 * MOST];
	const struct sl_world affine = slanted((const int[]){0, 1, 2}, 0, 0);
	struct sl_nifti_array a = {{I, J, K}, affine, byte, NULL, true};
	char path[64];
	struct sl_nifti v[2];
	struct sl_fail fail;

	snprintf(path, sizeof path, "/tmp/test_nifti-%ld.nii", (long)getpid());
	assert_int_equal(sl_nifti_write(path, &a, &fail), SL_OK);
	for (int k = 0; k < 2; k++) {
		FILE *file = fopen(path, "r+b");
		const size_t n = fread(bytes, 1, sizeof bytes, file);

		assert_true(n > 352 && n < sizeof bytes);
		bytes[83] ^= k ? 0x80 : 0; /* pixdim[1] */
		rewind(file);
		assert_int_equal(fwrite(bytes, 1, n, file), n);
		rewind(file);
		assert_int_equal(sl_nifti_read(&v[k], file, false, &fail), SL_OK);
		fclose(file);
	}
	unlink(path);
	assert_true(!v[0].placed && !v[1].placed && v[0].affine.m[0][0] > 0);
	assert_memory_equal(&v[0].affine, &v[1].affine, sizeof v[0].affine);
}

static size_t load(const char *name, uint8_t bytes[MOST])
{
	char path[256];
	FILE *file;
	size_t n;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "rb");
	assert_non_null(file);
	n = fread(bytes, 1, MOST, file);
	fclose(file);
	return n;
}

static enum sl_err read_bytes(uint8_t *bytes, size_t n, struct sl_fail *fail)
{
	FILE *file = fmemopen(bytes, n, "rb");
	struct sl_nifti v = {.voxel = NULL};
	enum sl_err err;

	*fail = (struct sl_fail){.code = SL_OK};
	err = sl_nifti_read(&v, file, true, fail);
	fclose(file);
	assert_int_equal(!err, v.voxel != NULL);
	assert_int_equal(!err, !fail->text[0]);
	sl_nifti_close(&v);
	return err;
}

static void refuses(const char *name, int at, const void *put, size_t n, const char *why)
{
	uint8_t bytes[MOST];
	const size_t len = load(name, bytes);
	struct sl_fail fail;

	memcpy(bytes + at, put, n);
	assert_int_equal(read_bytes(bytes, len, &fail), SL_ERR_DATA);
	if (!strstr(fail.text, why))
		fail_msg("\"%s\", and not \"%s\"", fail.text, why);
}

#define REFUSES(name, at, why, ...) refuses(name, at, &(__VA_ARGS__), sizeof(__VA_ARGS__), why)

static void wrong_files_are_named(void **state)
{
	static const char f[] = "f32-le-1.nii", g[] = "f64-le-2.nii";

	REFUSES(f, 0, "not a NIfTI file", (int32_t){347});
	REFUSES(f, 344, "in an .img file", (char[]){"ni1"});
	REFUSES(f, 344, "an ANALYZE file", (char[]){"\0\0"});
	REFUSES(f, 40, "the number of axes", (int16_t){8});
	REFUSES(f, 40, "the number of axes", (int16_t){0});
	REFUSES(f, 44, "the length of an axis", (int16_t){0});
	REFUSES(f, 44, "the length of an axis", (int16_t){-5});
	REFUSES(f, 40, "has 7 volumes", (int16_t[]){4, 5, 4, 3, 7});
	REFUSES(f, 42, "too many voxels", (int16_t[]){32767, 32767, 32767});
	REFUSES(g, 24, "too many voxels", (int64_t[]){INT64_MAX, INT64_MAX, 2});
	REFUSES(f, 42, "ends before its last voxel", (int16_t[]){1000, 1000, 1000});
	REFUSES(f, 70, "datatype 128", (int16_t){128});
	REFUSES(f, 108, "vox_offset", (float){0});
	REFUSES(f, 108, "vox_offset", (float){NAN});
	REFUSES(f, 108, "ends before its last voxel", (float){1e6f});
	REFUSES(g, 168, "vox_offset", (int64_t){INT64_MIN});
	REFUSES(f, 112, "scl_inter", (float[]){1, INFINITY});
	REFUSES(f, 280, "where the voxels are", (float){NAN});
	REFUSES(f, 280, "distance of two voxels is 0", (float[12]){0});
	REFUSES(f, OFFSET + 4 * (2 + 5 * 3 + 20 * 1), "voxel (2, 3, 1) is NaN", (float){NAN});
	REFUSES(f, OFFSET, "voxel (0, 0, 0) is infinite", (float){-INFINITY});
	REFUSES(g, 544 + 8, "voxel (1, 0, 0) is infinite", (double){1e300});
}

/* A slope of 0 or NaN is none. */
static void a_slope_of_nothing_is_none(void **state)
{
	static const float none[] = {0, NAN};

	for (int k = 0; k < 2; k++) {
		uint8_t bytes[MOST];
		const size_t len = load("u8-le-1.nii", bytes);
		FILE *file = fmemopen(bytes, len, "rb");
		struct sl_nifti v;

		memcpy(bytes + 112, (float[]){none[k], 7}, 8);
		assert_int_equal(sl_nifti_read(&v, file, true, NULL), SL_OK);
		assert_true(v.voxel[3] == 3);
		sl_nifti_close(&v);
		fclose(file);
	}
}

/* Any end, and any byte, is harmless. Files that say more than they can have take no memory: the test's limit. */
static void damage_is_harmless(void **state)
{
	static const char *const name[] = {"i16-be-1.nii", "f32-le-2.nii", "i16-le-1.nii.gz"};
	uint8_t bytes[MOST], whole[MOST];
	struct sl_fail fail;

	for (int k = 0; k < 3; k++) {
		const size_t len = load(name[k], whole);

		for (size_t n = 1; n < len; n++) {
			memcpy(bytes, whole, n);
			assert_true(read_bytes(bytes, n, &fail) != SL_OK ||
				    n + 16 >= len); /* gzip's end is not needed */
		}
		for (size_t n = 0; n < len; n++) {
			memcpy(bytes, whole, len);
			bytes[n] ^= 0xff;
			(void)!read_bytes(bytes, len, &fail);
		}
	}
}

/* 1,000 voxels a side in a gzip file of a header alone. */
static void a_bomb_takes_no_memory(void **state)
{
	uint8_t bytes[MOST], packed[MOST];
	uLongf n = sizeof packed;
	z_stream z = {.next_in = bytes, .next_out = packed, .avail_out = sizeof packed};
	struct sl_fail fail;

	z.avail_in = (uInt)load("f32-le-1.nii", bytes);
	memcpy(bytes + 42, (int16_t[]){1000, 1000, 1000}, 6);
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, 0), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	n = z.total_out;
	deflateEnd(&z);
	assert_int_equal(read_bytes(packed, n, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "ends before"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_types_are_read),     cmocka_unit_test(axes_are_turned_to_the_world),
		cmocka_unit_test(written_files_are_read), cmocka_unit_test(lengths_have_no_sign),
		cmocka_unit_test(wrong_files_are_named),  cmocka_unit_test(a_slope_of_nothing_is_none),
		cmocka_unit_test(damage_is_harmless),     cmocka_unit_test(a_bomb_takes_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
