/* The safetensors reader on good and hostile files, and the writer read back. */
#include <sys/stat.h>
#include <unistd.h>

#include <math.h>

#include "common/weights/safetensors.h"
#include "tests/support/unit.h"
#include "tests/support/whole.h"

static char dir[] = "/tmp/split-safetensors-XXXXXX";
static char path[128];

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/x.safetensors", dir);
	return 0;
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

struct image {
	uint8_t bytes[4096];
	size_t len;
};

/* A file with this header and `data_len` bytes of data: 0, 1, 2 … */
static struct image make_image(const char *header, size_t data_len)
{
	struct image im = {.len = 8 + strlen(header) + data_len};
	uint64_t len = strlen(header);

	assert_true(im.len <= sizeof(im.bytes));
	memcpy(im.bytes, &len, 8);
	memcpy(im.bytes + 8, header, strlen(header));
	for (size_t i = 0; i < data_len; i++)
		im.bytes[8 + strlen(header) + i] = (uint8_t)i;
	return im;
}

/* Opens a copy of the exact size, so that a sanitizer finds reads beyond the end. */
static enum sl_err open_image(struct sl_st_file **out, const struct image *im, uint8_t **copy, struct sl_fail *fail)
{
	*copy = malloc(im->len ? im->len : 1);
	assert_non_null(*copy);
	memcpy(*copy, im->bytes, im->len);
	return sl_st_open_bytes(out, (struct sl_bytes){*copy, im->len}, fail);
}

static void assert_refused(const struct image *im, const char *says)
{
	struct sl_st_file *file = NULL;
	struct sl_fail fail = {0};
	uint8_t *copy;

	assert_int_equal(open_image(&file, im, &copy, &fail), SL_ERR_DATA);
	assert_null(file);
	if (!strstr(fail.text, says))
		fail_msg("\"%s\" lacks \"%s\"", fail.text, says);
	free(copy);
}

static void lists_and_reads(void **state)
{
	struct image im = make_image("{\"__metadata__\":{\"format\":\"pt\"},"
				     "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
				     "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]},"
				     "\"c\":{\"dtype\":\"I9\",\"shape\":[3],\"data_offsets\":[9,12]},"
				     "\"d\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[9,9]}}   ",
				     12);
	struct sl_st_file *file = NULL;
	struct sl_fail fail = {0};
	char text[SL_ST_SHAPE_TEXT];
	uint32_t bits[2];
	float x[2];
	int64_t n = -1;
	uint8_t *copy, raw[2];

	assert_int_equal(open_image(&file, &im, &copy, &fail), SL_OK);
	assert_int_equal(sl_st_count(file), 4);
	assert_string_equal(sl_st_at(file, 0)->name, "a");
	assert_string_equal(sl_st_at(file, 3)->name, "d");
	assert_string_equal(sl_st_metadata(file, "format"), "pt");
	assert_null(sl_st_metadata(file, "other"));
	assert_null(sl_st_find(file, "__metadata__"));
	assert_null(sl_st_find(file, "bb"));
	assert_string_equal(sl_st_shape_text(sl_st_find(file, "b"), text), "[1,2]");
	assert_string_equal(sl_st_shape_text(sl_st_find(file, "a"), text), "[]");
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "b"), x, &fail), SL_OK);
	memcpy(bits, x, sizeof(x));
	assert_int_equal(bits[0], 0x03020100);
	assert_int_equal(bits[1], 0x07060504);
	assert_int_equal(whole_read(file, sl_st_find(file, "a"), &n, &fail), SL_OK);
	assert_int_equal(n, 8);
	/* An unknown dtype is listed and refused when read. So is a read of another kind: integers
	 * as floats, or floats as integers. */
	assert_false(sl_st_is_float(sl_st_find(file, "c")));
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "c"), x, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "I9"));
	assert_int_equal(whole_read(file, sl_st_find(file, "b"), &n, &fail), SL_ERR_DATA);
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "d"), x, &fail), SL_OK);
	/* a read must not go beyond its tensor, even if more data follows */
	assert_int_equal(sl_st_read_raw(file, sl_st_find(file, "b"), 6, raw, 2, &fail), SL_OK);
	assert_true(raw[0] == 6 && raw[1] == 7);
	assert_int_equal(sl_st_read_raw(file, sl_st_find(file, "b"), 7, raw, 2, &fail), SL_ERR_BUG);
	assert_int_equal(sl_st_read_raw(file, sl_st_find(file, "b"), 9, raw, 0, &fail), SL_ERR_BUG);
	sl_st_close(file);
	free(copy);
}

#define ONE(dtype, shape, offsets) "{\"x\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void hostile_headers_are_refused(void **state)
{
	static const struct {
		const char *header;
		size_t data_len;
		const char *says;
	} bad[] = {
		{"", 0, "JSON"},
		{"[]", 0, "JSON map"},
		{"{", 0, "JSON"},
		{"{} {}", 0, "JSON"},
		{"{\"x\":1}", 0, "dtype"},
		{"{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
		{"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, "entry"},
		{"{\"x\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "entry"},
		{"{\"__metadata__\":[]}", 0, "__metadata__"},
		{"{\"__metadata__\":{\"a\":1}}", 0, "no string"},
		{ONE("F32", "4", "[0,4]"), 4, "no list"},
		{ONE("F32", "[-1]", "[0,4]"), 4, "dimension"},
		{ONE("F32", "[1.0]", "[0,4]"), 4, "dimension"},
		{ONE("F32", "[99999999999999999999]", "[0,4]"), 4, "JSON"},
		{ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "8 dimensions"},
		{ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, "64 bits"},
		{ONE("F32", "[4611686018427387904]", "[0,0]"), 0, "bytes"}, /* times 4 wraps to 0 */
		{ONE("F32", "[4611686018427387905]", "[0,4]"), 4, "bytes"}, /* times 4 wraps to 4 */
		{ONE("F32", "[2]", "[0,4]"), 4, "bytes"},
		{ONE("F32", "[1]", "[0]"), 4, "pair"},
		{ONE("F32", "[1]", "[0,4,8]"), 4, "pair"},
		{ONE("F32", "[1]", "[4,0]"), 4, "outside"},
		{ONE("F32", "[1]", "[-4,0]"), 4, "outside"},
		{ONE("F32", "[1]", "[0,8]"), 4, "outside"},
		{ONE("F32", "[1]", "[0,9223372036854775807]"), 4, "outside"},
		{ONE("F32", "[1]", "[4,8]"), 8, "hole"},
		{ONE("F32", "[1]", "[0,4]"), 8, "of which tensors take 4"},
		{"{}", 1, "of which tensors take 0"},
		{ONE("I9", "[1]", "[1,4]"), 4, "hole"},
		{"{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
		 "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
		 3, "overlap"},
		{"{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
		 "\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
		 2, "duplicate"},
		{"{\"x\\u0000\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "JSON"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct image im = make_image(bad[i].header, bad[i].data_len);

		assert_refused(&im, bad[i].says);
	}
}

static void every_truncation_is_refused(void **state)
{
	struct image im = make_image(ONE("F32", "[2]", "[0,8]"), 8);
	struct sl_st_file *file;
	struct sl_fail fail;
	uint64_t huge = UINT64_MAX;
	uint8_t *copy;

	assert_int_equal(open_image(&file, &im, &copy, &fail), SL_OK);
	sl_st_close(file);
	free(copy);
	for (; im.len > 0; im.len--) {
		struct image shorter = im;

		shorter.len--;
		assert_refused(&shorter, "");
	}
	im = make_image(ONE("F32", "[2]", "[0,8]"), 8);
	memcpy(im.bytes, &huge, 8);
	assert_refused(&im, "a header of 18446744073709551615 bytes");
	memcpy(im.bytes, "PK\3\4\0\0\10\10", 8); /* torch.save, today's format and that before PyTorch 1.6 */
	assert_refused(&im, "a file of torch.save, which may hold code: write it with safetensors");
	memcpy(im.bytes,
	       "\x80\2\x8a\nl\xfc\x9c"
	       "F",
	       8);
	assert_refused(&im, "a file of torch.save");
}

static void narrow_floats_widen_exactly(void **state)
{
	static const struct {
		uint16_t f16;
		float value;
	} half[] = {{0x0000, 0.0f},     {0x3c00, 1.0f},     {0xc000, -2.0f},       {0x7bff, 65504.0f},
		    {0x0400, 0x1p-14f}, {0x0001, 0x1p-24f}, {0x83ff, -0x3ffp-24f}, {0x3555, 0x1.554p-2f},
		    {0x7c00, INFINITY}, {0xfc00, -INFINITY}};
	static const double wide[2] = {1.0 / 3.0, -0x1p100};
	const uint16_t bf16[2] = {0x3f80, 0xc2f7};
	uint16_t f16[10];
	const struct sl_st_item items[] = {
		{"half", "F16", 2, {2, 5}, f16}, {"brain", "BF16", 1, {2}, bf16}, {"wide", "F64", 1, {2}, wide}};
	struct sl_st_file *file;
	struct sl_fail fail = {0};
	float x[10];

	for (int i = 0; i < 10; i++)
		f16[i] = half[i].f16;
	assert_int_equal(sl_st_write(path, items, 3, NULL, 0, SL_FP_MODEL_OPEN, &fail), SL_OK);
	assert_int_equal(sl_st_open(&file, path, &fail), SL_OK);
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "half"), x, &fail), SL_OK);
	for (int i = 0; i < 10; i++)
		assert_true(x[i] == half[i].value);
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "brain"), x, &fail), SL_OK);
	assert_true(x[0] == 1.0f && x[1] == -123.5f);
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "wide"), x, &fail), SL_OK);
	assert_true(x[0] == (float)(1.0 / 3.0) && x[1] == -0x1p100f);
	sl_st_close(file);
}

/* Data of more than one chunk of the reader, names in any order, notes. The same items give the same bytes. */
static void what_is_written_is_read(void **state)
{
	enum { N = 50001 };
	float *x = malloc(N * sizeof(*x)), *y = malloc(N * sizeof(*y));
	const int64_t count = -5;
	const int32_t small[2] = {7, -8};
	const struct sl_st_item items[] = {
		{"z", "F32", 3, {3, 7, 2381}, x}, {"n", "I64", 0, {0}, &count}, {"a\"\n", "I32", 1, {2}, small}};
	const struct sl_st_note notes[] = {{"format", "pt"}, {"quote", "\"é\""}};
	struct sl_st_file *file;
	struct sl_fail fail = {0};
	uint8_t *first, *second;
	size_t first_len, second_len;
	int64_t got[2];

	for (int i = 0; i < N; i++)
		x[i] = (float)i * 0.25f;
	assert_int_equal(sl_st_write(path, items, 3, notes, 2, SL_FP_MODEL_OPEN, &fail), SL_OK);
	assert_int_equal(sl_st_open(&file, path, &fail), SL_OK);
	assert_string_equal(sl_st_metadata(file, "quote"), "\"é\"");
	assert_int_equal(sl_st_find(file, "n")->offset, 0); /* 8-byte elements first: all are aligned */
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "z"), y, &fail), SL_OK);
	assert_memory_equal(x, y, N * sizeof(*x));
	assert_int_equal(whole_read(file, sl_st_find(file, "n"), got, &fail), SL_OK);
	assert_int_equal(got[0], -5);
	assert_int_equal(whole_read(file, sl_st_find(file, "a\"\n"), got, &fail), SL_OK);
	assert_int_equal(got[1], -8);
	assert_int_equal(sl_file_read(path, 1 << 20, &first, &first_len, &fail), SL_OK);
	assert_int_equal(sl_st_write(path, items, 3, notes, 2, SL_FP_MODEL_OPEN, &fail), SL_OK);
	assert_int_equal(sl_file_read(path, 1 << 20, &second, &second_len, &fail), SL_OK);
	assert_int_equal(first_len, second_len);
	assert_memory_equal(first, second, first_len);
	/* The open file was replaced, not overwritten. Now truncate the new one under its reader. */
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "z"), y, &fail), SL_OK);
	sl_st_close(file);
	assert_int_equal(sl_st_open(&file, path, &fail), SL_OK);
	assert_int_equal(truncate(path, (off_t)first_len - 1), 0);
	assert_int_equal(sl_st_read_f32(file, sl_st_find(file, "z"), y, &fail), SL_ERR_DATA);
	sl_st_close(file);
	free(first);
	free(second);
	free(x);
	free(y);
}

/* Of a file with a hash, each flipped bit is noticed: it is no file any more, or has changed. The hash's key alone may
 * change in silence, since the file then has no hash. */
static void a_flipped_bit_is_noticed(void **state)
{
	static const char with_key[] = "\"" SL_ST_HASH "\"";
	const float x[3] = {1, 2, 3};
	const struct sl_st_item item = {"a", "F32", 1, {3}, x};
	const struct sl_st_note notes[] = {{"steps", "12"}, {SL_ST_HASH, SL_ST_HASH_OPEN}};
	struct sl_st_file *file;
	struct sl_fail fail = {0};
	uint8_t *bytes;
	size_t len, key;
	bool changed;

	assert_int_equal(sl_st_write(path, &item, 1, notes, 2, SL_FP_MODEL_OPEN, &fail), SL_OK);
	assert_int_equal(sl_file_read(path, 1 << 20, &bytes, &len, &fail), SL_OK);
	assert_int_equal(sl_st_open_bytes(&file, (struct sl_bytes){bytes, len}, &fail), SL_OK);
	assert_int_equal(sl_st_check_hash(file, &changed, &fail), SL_OK);
	assert_false(changed);
	sl_st_close(file);
	key = (size_t)((uint8_t *)memmem(bytes, len, with_key, sizeof with_key - 1) - bytes);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		if (bit / 8 >= key && bit / 8 < key + sizeof with_key - 1)
			continue;
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (sl_st_open_bytes(&file, (struct sl_bytes){bytes, len}, &fail) == SL_OK) {
			assert_int_equal(sl_st_check_hash(file, &changed, &fail), SL_OK);
			assert_true(changed);
			sl_st_close(file);
		}
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	free(bytes);
}

static void files_that_cannot_be(void **state)
{
	const float x = 1;
	const struct sl_st_item twice[] = {{"a", "F32", 1, {1}, &x}, {"a", "F32", 1, {1}, &x}};
	struct sl_st_file *file = NULL;
	struct sl_fail fail = {0};
	char tmp[160];

	assert_int_equal(sl_st_open(&file, "/nonexistent/x", &fail), SL_ERR_NOINPUT);
	assert_int_equal(sl_st_open(&file, dir, &fail), SL_ERR_NOINPUT);
	assert_null(file);
	assert_int_equal(sl_st_write("/nonexistent/x", twice, 1, NULL, 0, SL_FP_MODEL_OPEN, &fail), SL_ERR_CANTCREATE);
	unlink(path);
	assert_int_equal(sl_st_write(path, twice, 2, NULL, 0, SL_FP_MODEL_OPEN, &fail), SL_ERR_BUG);
	assert_int_equal(sl_st_write(dir, twice, 1, NULL, 0, SL_FP_MODEL_OPEN, &fail),
			 SL_ERR_CANTCREATE); /* a folder is in its place */
	snprintf(tmp, sizeof(tmp), "%s.tmp", dir);
	assert_int_not_equal(access(tmp, F_OK), 0);
	assert_int_not_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_and_reads),
		cmocka_unit_test(hostile_headers_are_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(narrow_floats_widen_exactly),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_flipped_bit_is_noticed),
		cmocka_unit_test(files_that_cannot_be),
	};

	return cmocka_run_group_tests_name("safetensors", tests, make_dir, remove_dir);
}
