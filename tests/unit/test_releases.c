/* What has crossed, as the next process finds it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/step/releases.h"
#include "tests/support/unit.h"

static char path[64];

static struct sl_releases reopen(struct sl_releases *c)
{
	struct sl_releases next = {.n = 0};
	struct sl_fail fail;

	if (c)
		sl_releases_close(c);
	if (sl_releases_open(&next, path, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return next;
}

static enum sl_err add(struct sl_releases *c, uint64_t when, uint32_t which, uint64_t hash)
{
	struct sl_fail fail;

	return sl_releases_add(c, when, which, hash, &fail);
}

static void the_next_process_knows_what_crossed(void **state)
{
	struct sl_releases c = reopen(NULL);
	struct sl_fail fail;

	(void)state;
	for (uint64_t step = 0; step < 5; step++)
		for (uint32_t which = 0; which < 3; which++)
			assert_int_equal(add(&c, 2 * step + 2, which, 100 * step + which), SL_OK);
	c = reopen(&c);
	assert_int_equal(sl_releases_steps(&c), 5);
	for (int k = 0; k < 2; k++) { /* the same again, also in the process after that */
		assert_int_equal(add(&c, 8, 2, 302), SL_OK);
		assert_int_equal(add(&c, 8, 2, 303), SL_ERR_AUDIT);
		assert_int_equal(add(&c, 8, 3, 0), SL_ERR_AUDIT); /* beyond it, and this never crossed */
		assert_int_equal(add(&c, 10, 3, 7), SL_OK);       /* killed in the midst of step 4 */
		assert_int_equal(add(&c, 10, 3, 8), SL_ERR_AUDIT);
		c = reopen(&c);
	}
	assert_int_equal(add(&c, 11, 0, 1), SL_OK); /* the evaluation behind five steps */
	assert_int_equal(sl_releases_steps(&c), 5);
	assert_int_equal(sl_releases_empty(&c, &fail), SL_OK);
	c = reopen(&c);
	assert_int_equal(sl_releases_steps(&c), 0);
	assert_int_equal(add(&c, 2, 0, 12345), SL_OK);
	sl_releases_close(&c);
}

static void the_oldest_are_forgotten_and_not_trusted(void **state)
{
	const uint64_t steps = SL_RELEASES_ROWS / 4 + 1000;
	struct sl_releases c = reopen(NULL);

	(void)state;
	for (int k = 0; k < 2; k++) {
		for (uint64_t step = k ? steps : 0; step < steps + (uint64_t)k * steps; step++)
			for (uint32_t which = 0; which < 4; which++)
				assert_int_equal(add(&c, 2 * step + 2, which, step), SL_OK);
		c = reopen(&c);
		assert_int_equal(sl_releases_steps(&c), steps + (uint64_t)k * steps);
		assert_int_equal(add(&c, 2 * 999 + 2, 0, 999), SL_ERR_AUDIT);
		assert_int_equal(add(&c, 2 * (uint64_t)(k ? steps + 1000 : 1000) + 2, 0, k ? steps + 1000 : 1000),
				 SL_OK);
	}
	sl_releases_close(&c);
}

static void what_cannot_be_noted_does_not_cross(void **state)
{
	struct sl_releases c = {.fd = 0};
	struct sl_fail fail;

	(void)state;
	snprintf(path, sizeof path, "/dev/full");
	c = reopen(NULL);
	assert_int_equal(sl_releases_add(&c, 2, 0, 1, &fail), SL_ERR_IO);
	assert_non_null(strstr(fail.text, "releases cannot note what crosses (No space left on device)"));
	assert_int_equal(sl_releases_steps(&c), 0);
	sl_releases_close(&c);
}

static void a_damaged_file_is_refused_and_half_a_row_is_not(void **state)
{
	struct sl_releases c = reopen(NULL);
	struct sl_fail fail;
	FILE *f;

	(void)state;
	for (uint64_t when = 2; when < 20; when += 2)
		assert_int_equal(add(&c, when, 0, when), SL_OK);
	f = fopen(path, "r+b");
	assert_int_equal(fseek(f, -5, SEEK_END), 0);
	assert_int_equal(ftruncate(fileno(f), ftell(f)), 0);
	fclose(f);
	c = reopen(&c);
	assert_int_equal(sl_releases_steps(&c), 8);
	assert_int_equal(add(&c, 18, 0, 77), SL_OK); /* that row was not whole: its tensor did not cross */
	sl_releases_close(&c);
	f = fopen(path, "r+b");
	assert_int_equal(fwrite("\xff\xff\xff\xff\xff\xff\xff\xff", 1, 8, f), 8);
	fclose(f);
	c = (struct sl_releases){.fd = 0};
	assert_int_equal(sl_releases_open(&c, path, &fail), SL_ERR_DATA);
	assert_int_equal(sl_releases_empty(&c, &fail), SL_OK); /* --fresh */
	assert_int_equal(add(&c, 2, 0, 1), SL_OK);
	sl_releases_close(&c);
}

static int begin(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof path, "/tmp/releases-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 || close(fd);
}

static int end(void **state)
{
	(void)state;
	if (strncmp(path, "/tmp/", 5) == 0)
		unlink(path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_next_process_knows_what_crossed, begin, end),
		cmocka_unit_test_setup_teardown(the_oldest_are_forgotten_and_not_trusted, begin, end),
		cmocka_unit_test(what_cannot_be_noted_does_not_cross),
		cmocka_unit_test_setup_teardown(a_damaged_file_is_refused_and_half_a_row_is_not, begin, end)};

	return cmocka_run_group_tests_name("releases", tests, NULL, NULL);
}
