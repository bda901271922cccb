/* What has crossed, as the next process finds it. */
#include <fcntl.h>
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

enum { ROW = 32, STEPS = 40 };

/* Writes a file of STEPS rows, then `bytes` at `at`, and reads it again. */
static enum sl_err with(struct sl_releases *c, off_t at, const void *bytes, size_t n, struct sl_fail *fail)
{
	struct sl_releases old = reopen(NULL);
	int fd;

	assert_int_equal(sl_releases_empty(&old, fail), SL_OK);
	for (uint64_t step = 0; step < STEPS; step++)
		assert_int_equal(add(&old, 2 * step + 2, 0, step), SL_OK);
	sl_releases_close(&old);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, bytes, n, at), n);
	close(fd);
	*c = (struct sl_releases){.n = 0};
	return sl_releases_open(c, path, fail);
}

/* Row i is that of step i; what a power cut may leave in the place of the newest row is no damage. */
static void the_newest_row_may_be_torn_and_no_other(void **state)
{
	static const char torn[][ROW] = {"", "\x7f", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
	struct sl_releases c;
	struct sl_fail fail;

	for (size_t k = 0; k < sizeof torn / sizeof *torn; k++)
		for (int step = 0; step < STEPS; step++) {
			const enum sl_err err = with(&c, (1 + step) * ROW, torn[k], k == 1 ? 1 : ROW, &fail);

			assert_int_equal(err, step == STEPS - 1 ? SL_OK : SL_ERR_DATA);
			if (err)
				assert_non_null(
					strstr(fail.text, "is damaged, and no longer says what has crossed: put"));
			assert_int_equal(sl_releases_steps(&c), err ? 0 : STEPS - 1);
			assert_int_equal(add(&c, 2 * STEPS, 0, 77), SL_OK); /* it did not cross */
			sl_releases_close(&c);
		}
	assert_int_equal(with(&c, (2 + STEPS) * ROW, "x", 1, &fail), SL_ERR_DATA); /* behind the next row */
	assert_int_equal(sl_releases_empty(&c, &fail), SL_OK);                     /* --fresh */
	assert_int_equal(add(&c, 2, 0, 1), SL_OK);
	sl_releases_close(&c);
}

/* The newest row takes the place of the oldest. */
static void a_full_ring_may_have_one_torn_row(void **state)
{
	const uint64_t n = SL_RELEASES_ROWS + 5;
	struct sl_releases c = reopen(NULL);
	struct sl_fail fail;
	int fd;

	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(add(&c, 2 * i + 2, 0, i), SL_OK);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, (1 + 4) * ROW), 1); /* row n - 1 */
	c = reopen(&c);
	assert_int_equal(sl_releases_steps(&c), n - 1);
	assert_int_equal(add(&c, 2 * n, 0, 77), SL_OK);
	sl_releases_close(&c);
	assert_int_equal(pwrite(fd, "x", 1, (1 + 6) * ROW), 1); /* of the second oldest row */
	c = (struct sl_releases){.n = 0};
	assert_int_equal(sl_releases_open(&c, path, &fail), SL_ERR_DATA);
	sl_releases_close(&c);
	assert_int_equal(ftruncate(fd, SL_RELEASES_ROWS / 2 * ROW), 0);
	c = (struct sl_releases){.n = 0};
	assert_int_equal(sl_releases_open(&c, path, &fail), SL_ERR_DATA);
	sl_releases_close(&c);
	close(fd);
}

static void a_torn_first_row_is_none_and_an_older_version_is_named(void **state)
{
	static const uint64_t older[] = {(uint64_t)2 << 32 | 5, 99};
	static const char zeros[4 * ROW];
	struct sl_releases c;
	struct sl_fail fail;
	int fd = open(path, O_WRONLY);

	for (size_t n = 0; n <= sizeof zeros; n++) {
		assert_int_equal(ftruncate(fd, (off_t)n), 0);
		c = reopen(NULL);
		assert_int_equal(c.n, 0);
		sl_releases_close(&c);
	}
	assert_int_equal(pwrite(fd, older, sizeof older, 0), sizeof older);
	assert_int_equal(ftruncate(fd, sizeof older), 0);
	close(fd);
	c = (struct sl_releases){.n = 0};
	assert_int_equal(sl_releases_open(&c, path, &fail), SL_ERR_DATA);
	assert_non_null(
		strstr(fail.text, "or of an earlier version, which had no checks: end the run with that version"));
	assert_int_equal(sl_releases_empty(&c, &fail), SL_OK);
	sl_releases_close(&c);
	assert_int_equal(with(&c, 0, zeros, ROW, &fail), SL_ERR_DATA); /* rows, but no head */
	sl_releases_close(&c);
}

/* A row is on the disk before its tensor crosses. The kernel says so of no file: so sync is replaced. */
static int syncs;

int fdatasync(int fd)
{
	syncs++;
	return 0;
}

static void a_row_is_synced_before_its_tensor_crosses(void **state)
{
	struct sl_releases c;

	syncs = 0;
	c = reopen(NULL);
	assert_int_equal(syncs, 1);
	for (uint64_t step = 0; step < 200; step++) {
		assert_int_equal(add(&c, 2 * step + 2, 0, step), SL_OK);
		assert_int_equal(syncs, 2 + step);
	}
	assert_int_equal(add(&c, 2 * 199 + 2, 0, 199), SL_OK); /* it is there */
	assert_int_equal(syncs, 201);
	c = reopen(&c);
	assert_int_equal(syncs, 202); /* rows of a process that was killed between its write and its sync */
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
		cmocka_unit_test_setup_teardown(the_newest_row_may_be_torn_and_no_other, begin, end),
		cmocka_unit_test_setup_teardown(a_full_ring_may_have_one_torn_row, begin, end),
		cmocka_unit_test_setup_teardown(a_torn_first_row_is_none_and_an_older_version_is_named, begin, end),
		cmocka_unit_test_setup_teardown(a_row_is_synced_before_its_tensor_crosses, begin, end)};

	return cmocka_run_group_tests_name("releases", tests, NULL, NULL);
}
