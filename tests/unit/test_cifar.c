/* The readers of CIFAR-10 and CIFAR-100, on small files that this test
 * writes, and on the real files if they are in $SPLIT_DATA or ./data. */

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/source.h"
#include "tests/support/unit.h"

enum { PIXELS = 32 * 32, IMAGE_BYTES = 3 * PIXELS };

static char folder[256]; /* a folder of this process */

static const char *path_of(const char *name)
{
	static char path[400];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static uint8_t pixel_of(int record, int i)
{
	return (uint8_t)(record * 31 + i * 7 + i / 1024);
}

/* Writes `records` records whose labels count up from `first`. If
 * bytes ≥ 0, the file is then cut or extended to that length. */
static void write_file(const char *name, int label_bytes, int records, int first, long bytes)
{
	FILE *f = fopen(path_of(name), "wb");

	assert_non_null(f);
	for (int r = 0; r < records; r++) {
		if (label_bytes == 2)
			fputc((first + r) / 5, f);
		fputc(first + r, f);
		for (int i = 0; i < IMAGE_BYTES; i++)
			fputc(pixel_of(first + r, i), f);
	}
	assert_int_equal(fclose(f), 0);
	if (bytes >= 0)
		assert_int_equal(truncate(path_of(name), bytes), 0);
}

static void patch_byte(const char *name, long at, int value)
{
	FILE *f = fopen(path_of(name), "r+b");

	assert_non_null(f);
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	fputc(value, f);
	assert_int_equal(fclose(f), 0);
}

static struct sl_set_spec spec_of(const char *source, const char *const *files, int nfiles)
{
	return (struct sl_set_spec){.source = source, .dir = folder, .files = files, .nfiles = nfiles};
}

static void open_well(struct sl_set *set, const struct sl_set_spec *spec)
{
	struct sl_fail fail = {0};
	struct sl_set found;

	if (sl_set_open(set, spec, &fail) != SL_OK || sl_set_check(&found, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(found.count, set->count);
	assert_int_equal(found.classes, set->classes);
	assert_string_equal(set->source->name, spec->source);
}

/* Expects this error code and a message that contains `a` and
 * `b`, from open and from check; the outputs are untouched. */
static void open_badly(const struct sl_set_spec *spec, enum sl_err code, const char *a, const char *b)
{
	struct sl_set set = {.count = 77}, found = {.count = 77};
	struct sl_fail fail = {0}, why = {0};

	assert_int_equal(sl_set_open(&set, spec, &fail), code);
	if (!strstr(fail.text, a) || !strstr(fail.text, b))
		fail_msg("'%s' lacks '%s' or '%s'", fail.text, a, b);
	assert_true(set.count == 77 && !set.data);
	assert_int_equal(sl_set_check(&found, spec, &why), code);
	assert_string_equal(fail.text, why.text);
	assert_int_equal(found.count, 77);
}

static const uint8_t *sample_of(const struct sl_set *set, int64_t index, int32_t *label)
{
	struct sl_value value[SL_FIELD_COUNT];
	struct sl_room room = {0};
	struct sl_fail fail;

	assert_int_equal(set->source->sample(set, index, &room, value, &fail), SL_OK);
	*label = *(const int32_t *)value[SL_FIELD_TARGET].data;
	return value[SL_FIELD_INPUT].data;
}

static int32_t label_of(const struct sl_set *set, int64_t index)
{
	int32_t label;

	(void)sample_of(set, index, &label);
	return label;
}

/* Pixels of the set are [32, 32, 3]; those of the file are [3, 32, 32]. */
static void assert_records(const struct sl_set *set, int count)
{
	assert_int_equal(set->count, count);
	for (int r = 0; r < count; r++) {
		int32_t label;
		const uint8_t *pixels = sample_of(set, r, &label);

		assert_int_equal(label, r);
		for (int i = 0; i < IMAGE_BYTES; i++)
			assert_int_equal(pixels[i % PIXELS * 3 + i / PIXELS], pixel_of(r, i));
	}
}

static void files_are_read_in_order(void **state)
{
	const char *const files[] = {"b.bin", "a.bin", "c.bin"};
	struct sl_set_spec spec = spec_of("cifar10", files, 3);
	struct sl_set set;

	write_file("b.bin", 1, 3, 0, -1);
	write_file("a.bin", 1, 5, 3, -1);
	write_file("c.bin", 1, 2, 8, -1);
	open_well(&set, &spec);
	assert_records(&set, 10);
	assert_int_equal(set.classes, 10);
	sl_set_close(&set);
	sl_set_close(&set);
}

static void cifar100_has_two_labels(void **state)
{
	const char *const files[] = {"h.bin"};
	struct sl_set_spec spec = spec_of("cifar100", files, 1);
	struct sl_set set;

	write_file("h.bin", 2, 100, 0, -1);
	open_well(&set, &spec);
	assert_records(&set, 100);
	assert_int_equal(set.classes, 100);
	sl_set_close(&set);
	patch_byte("h.bin", 5 * 3074, 20);
	open_badly(&spec, SL_ERR_DATA, "h.bin: record 5:", "label byte 0 is 20, must be below 20");
	patch_byte("h.bin", 5 * 3074, 19);
	patch_byte("h.bin", 99 * 3074 + 1, 100);
	open_badly(&spec, SL_ERR_DATA, "h.bin: record 99:", "label byte 1 is 100, must be below 100");
}

static void wrong_sizes_are_refused(void **state)
{
	const char *const files[] = {"size.bin"};
	struct sl_set_spec spec = spec_of("cifar10", files, 1);

	write_file("size.bin", 1, 4, 0, 4 * 3073 - 1);
	open_badly(&spec, SL_ERR_DATA, "size.bin: truncated: its 12291 bytes end 3072 bytes into",
		   "a cifar10 record of 3073");
	write_file("size.bin", 1, 4, 0, 4 * 3073 + 1);
	open_badly(&spec, SL_ERR_DATA, "size.bin: truncated: its 12293 bytes end 1 bytes into", "record of 3073");
	write_file("size.bin", 1, 0, 0, -1);
	open_badly(&spec, SL_ERR_DATA, "size.bin: is empty", "cifar10 records have 3073 bytes each");
	spec.source = "cifar100";
	write_file("size.bin", 1, 4, 0, 4 * 3073);
	open_badly(&spec, SL_ERR_DATA, "size.bin: truncated: its 12292 bytes end 3070 bytes into",
		   "a cifar100 record of 3074");
}

/* A file with a standard name may have fewer records than CIFAR-10's: users put smaller sets into this format. */
static void any_number_of_whole_records_is_a_file(void **state)
{
	static const char *const test[] = {"test_batch.bin"};
	struct sl_set_spec spec = {.source = "cifar10", .split = SL_SPLIT_TEST, .dir = folder};
	struct sl_set set;

	write_file(test[0], 1, 3, 0, -1);
	open_well(&set, &spec);
	assert_records(&set, 3);
	sl_set_close(&set);
	assert_int_equal(remove(path_of(test[0])), 0);
}

static void labels_out_of_range_are_refused(void **state)
{
	const char *const files[] = {"good.bin", "label.bin"};
	struct sl_set_spec spec = spec_of("cifar10", files, 2);
	struct sl_set set;

	write_file("good.bin", 1, 2, 0, -1);
	write_file("label.bin", 1, 4, 2, -1);
	patch_byte("label.bin", 3 * 3073, 10);
	open_badly(&spec, SL_ERR_DATA, "label.bin: record 3:", "is 10, must be below 10");
	spec.max_samples = 5; /* the reader stops before the bad record */
	open_well(&set, &spec);
	assert_records(&set, 5);
	sl_set_close(&set);
}

static void missing_files_are_named(void **state)
{
	const char *const files[] = {"gone.bin"}, *const dirs[] = {"."}, *const pipes[] = {"pipe.bin"};
	struct sl_set_spec spec = spec_of("cifar10", files, 1);

	open_badly(&spec, SL_ERR_NOINPUT, "gone.bin: No such file", "fetch-cifar10.sh");
	spec.files = NULL;
	open_badly(&spec, SL_ERR_NOINPUT, "data_batch_1.bin: No such file", "");
	spec.split = SL_SPLIT_TEST;
	open_badly(&spec, SL_ERR_NOINPUT, "test_batch.bin: No such file", "");
	spec = spec_of("cifar10", dirs, 1);
	open_badly(&spec, SL_ERR_NOINPUT, "not a regular file", "");
	assert_int_equal(mkfifo(path_of("pipe.bin"), 0600), 0); /* no writer will ever open it */
	spec = spec_of("cifar10", pipes, 1);
	open_badly(&spec, SL_ERR_NOINPUT, "pipe.bin: not a regular file", "");
}

static void a_limit_opens_no_more_than_it_needs(void **state)
{
	const char *const files[] = {"l1.bin", "l2.bin", "absent.bin"};
	struct sl_set_spec spec = spec_of("cifar10", files, 3);
	struct sl_set set;

	write_file("l1.bin", 1, 3, 0, -1);
	write_file("l2.bin", 1, 3, 3, -1);
	for (int limit = 1; limit <= 6; limit++) {
		spec.max_samples = limit;
		open_well(&set, &spec);
		assert_records(&set, limit);
		sl_set_close(&set);
	}
	spec.max_samples = 7;
	open_badly(&spec, SL_ERR_NOINPUT, "absent.bin", "");
}

/* A sparse file of zeros is refused by its size, before memory is allocated. */
static void too_many_records_are_refused(void **state)
{
	const char *const files[] = {"huge.bin"};
	struct sl_set_spec spec = spec_of("cifar10", files, 1);

	write_file("huge.bin", 1, 0, 0, 3073L * (SL_SET_MAX_SAMPLES + 1L));
	open_badly(&spec, SL_ERR_DATA, "huge.bin", "16777216");
}

static void wrong_specs_are_refused(void **state)
{
	const char *const files[] = {"x.bin"};
	struct sl_set_spec spec = spec_of("cifar10", files, 0);

	open_badly(&spec, SL_ERR_CONFIG, "empty", "");
	spec = spec_of("cifar11", files, 1);
	open_badly(&spec, SL_ERR_CONFIG, "kind", "");
	spec = spec_of("cifar10", files, 1);
	spec.max_samples = -1;
	open_badly(&spec, SL_ERR_CONFIG, "samples", "");
}

/* The folder of the real files; NULL: there is none. */
static const char *real_folder(void)
{
	static char dir[400];
	char probe[500];
	const char *data = getenv("SPLIT_DATA");

	snprintf(dir, sizeof dir, "%s/cifar-10-batches-bin", data ? data : "./data");
	snprintf(probe, sizeof probe, "%s/test_batch.bin", dir);
	return access(probe, R_OK) ? NULL : dir;
}

static void assert_first_labels(const struct sl_set *set, const int *first, int per_class)
{
	int seen[10] = {0};

	for (int i = 0; i < 10; i++)
		assert_int_equal(label_of(set, i), first[i]);
	for (int64_t i = 0; i < set->count; i++)
		seen[label_of(set, i)]++;
	for (int i = 0; i < 10; i++)
		assert_int_equal(seen[i], per_class);
}

static void the_real_files_are_cifar10(void **state)
{
	static const int train[] = {6, 9, 9, 4, 1, 1, 2, 7, 8, 3}, test[] = {3, 8, 8, 0, 6, 6, 1, 6, 3, 1};
	static const double mean[] = {.4914, .4822, .4465}, std[] = {.2470, .2435, .2616};
	struct sl_set_spec spec = {.source = "cifar10", .dir = real_folder()};
	struct sl_set set;

	if (!spec.dir)
		skip();
	open_well(&set, &spec);
	assert_int_equal(set.count, 50000);
	assert_first_labels(&set, train, 5000);
	for (int c = 0; c < 3; c++) {
		double n = (double)set.count * PIXELS, m;
		uint64_t sum = 0, squares = 0;

		for (int64_t i = 0; i < set.count; i++)
			for (int k = 0; k < PIXELS; k++) {
				int32_t label;
				uint64_t v = sample_of(&set, i, &label)[k * 3 + c];

				sum += v;
				squares += v * v;
			}
		m = (double)sum / n;
		assert_true(fabs(m / 255 - mean[c]) < 1e-4);
		assert_true(fabs(sqrt((double)squares / n - m * m) / 255 - std[c]) < 1e-4);
	}
	sl_set_close(&set);
	spec.split = SL_SPLIT_TEST;
	open_well(&set, &spec);
	assert_int_equal(set.count, 10000);
	assert_first_labels(&set, test, 1000);
	sl_set_close(&set);
}

static int make_folder(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(folder, sizeof folder, "%s/dataset.XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[300];

	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_read_in_order),
		cmocka_unit_test(cifar100_has_two_labels),
		cmocka_unit_test(wrong_sizes_are_refused),
		cmocka_unit_test(any_number_of_whole_records_is_a_file),
		cmocka_unit_test(labels_out_of_range_are_refused),
		cmocka_unit_test(missing_files_are_named),
		cmocka_unit_test(a_limit_opens_no_more_than_it_needs),
		cmocka_unit_test(too_many_records_are_refused),
		cmocka_unit_test(wrong_specs_are_refused),
		cmocka_unit_test(the_real_files_are_cifar10),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
