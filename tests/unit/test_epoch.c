/* Epochs grow from process to process, whatever the clock says and whatever the file contains. */
#include <unistd.h>

#include "client/persist/epoch.h"
#include "tests/support/unit.h"

static char dir[] = "/tmp/test_epoch.XXXXXX", path[64];

static void put(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void whatever_the_clock_says(void **state)
{
	static const uint64_t clock[] = {1795177569, 1795177570, 1795177570, 1795177569, 0, 0, 3, 1895177569, 7};
	uint64_t before = 0;

	unlink(path);
	for (size_t i = 0; i < sizeof clock / sizeof clock[0]; i++) {
		uint64_t epoch = sl_epoch_begin(dir, clock[i]);

		assert_true(epoch >= before + (1 << 20)); /* room for the links of the process before */
		assert_true(epoch >= clock[i] << 20);
		assert_true(epoch < INT64_MAX);
		before = epoch;
	}
	assert_int_equal(before, (uint64_t)(1895177569 + 1) << 20);
}

/* A file with such contents counts as missing, and the epoch follows from the clock. */
static void whatever_the_file_says(void **state)
{
	static const char *const bad[] = {"",
					  "\n",
					  "-1\n",
					  "x\n",
					  "12",
					  "12 \n",
					  "4398046511104\n",
					  "99999999999999999999999\n",
					  "12x\n",
					  "12\0"
					  "34\n",
					  "18446744073709551615\n"};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		put(bad[i]);
		assert_int_equal(sl_epoch_begin(dir, 100), (uint64_t)100 << 20);
		assert_int_equal(sl_epoch_begin(dir, 99), (uint64_t)101 << 20);
	}
	put("4398046511103\n");
	assert_int_equal(sl_epoch_begin(dir, 99), (uint64_t)1 << 62);
	assert_int_equal(sl_epoch_begin(dir, UINT64_MAX), (uint64_t)1 << 62);
}

static void without_a_folder(void **state)
{
	assert_int_equal(sl_epoch_begin("", 5), 5 << 20);
	assert_int_equal(sl_epoch_begin("/tmp/test_epoch/none", 5), 5 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_the_clock_says),
		cmocka_unit_test(whatever_the_file_says),
		cmocka_unit_test(without_a_folder),
	};
	int failed;

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof path, "%s/link-epoch", dir);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(dir);
	return failed;
}
