/* The store's housekeeping: by age, by bytes, oldest first; live sessions and other people's files stay. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/housekeeping.h"
#include "server/store.h"
#include "server/tidy.h"

#define ID_A "00112233445566778899aabbccddeeff"
#define ID_B "ffeeddccbbaa99887766554433221100"

enum { NOW = 1000000 };

static char dir[] = "/tmp/test_tidy.XXXXXX";

static const struct {
	const char *name;
	int bytes, age_s;
} files[] = {
	{ID_A ".0123-4567-89ab-cdef.f32", 100, 50},
	{ID_B ".f32", 200, 400},
	{"session-" ID_A "-000000000007.safetensors", 300, 300},
	{"session-" ID_A ".k-000000000009.safetensors", 10, 250},
	{"session-" ID_B "-000000000003.safetensors", 400, 300},
	{"session-" ID_B "-000000000004.safetensors.tmp", 5, 300},
	{"notes.txt", 50, 9999},
	{ID_B ".0123-4567.f32", 50, 9999},
	{"session-" ID_B ".txt", 50, 9999},
};

enum { FILES = sizeof files / sizeof files[0], OURS = 6 };

static const char *path_of(const char *name)
{
	static char path[300];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static int fill(void **state)
{
	(void)state;
	for (int i = 0; i < FILES; i++) {
		const struct timespec at[2] = {{NOW - files[i].age_s, 0}, {NOW - files[i].age_s, 0}};
		int fd = open(path_of(files[i].name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

		if (fd < 0 || ftruncate(fd, files[i].bytes) != 0 || futimens(fd, at) != 0)
			return -1;
		close(fd);
	}
	return 0;
}

/* `left`: a bit per file. */
static void assert_left(unsigned left)
{
	for (int i = 0; i < FILES; i++)
		if ((access(path_of(files[i].name), F_OK) == 0) != (left >> i & 1))
			fail_msg("%s is %s", files[i].name, left >> i & 1 ? "gone" : "there");
}

static void without_bounds_all_stays(void **state)
{
	const struct sl_tidy w = {.dir = dir};
	struct sl_tidy_result r = sl_tidy_run(&w, NOW);

	(void)state;
	assert_left(0x1ff);
	assert_int_equal(r.files, OURS);
	assert_int_equal(r.bytes, 1015);
	assert_int_equal(r.oldest_s, 400);
	assert_int_equal(r.removed, 0);
}

static void what_is_too_old_goes(void **state)
{
	const struct sl_tidy w = {.dir = dir, .ttl_s = 300};
	struct sl_tidy_result r = sl_tidy_run(&w, NOW);

	(void)state;
	assert_left(0x1fd);
	assert_int_equal(r.removed, 1);
	assert_int_equal(r.removed_bytes, 200);
	r = sl_tidy_run(&w, NOW + 1);
	assert_left(0x1c9);
	assert_int_equal(r.files, 2);
	assert_int_equal(r.bytes, 110);
	assert_int_equal(r.oldest_s, 251);
}

static void live_sessions_stay(void **state)
{
	char live[1][33] = {ID_A};
	const struct sl_tidy w = {.dir = dir, .ttl_s = 10, .live = live, .max_live = 1, .n_live = 1};

	(void)state;
	sl_tidy_run(&w, NOW);
	assert_left(0x1cc);
}

/* As when a Hello comes between the list and the removals. */
static void sessions_that_join_stay(void **state)
{
	char live[1][33];
	struct sl_tidy w = {.dir = dir, .ttl_s = 10, .live = live, .max_live = 1};

	(void)state;
	sl_tidy_join(&w, ID_A);
	sl_tidy_run(&w, NOW);
	assert_left(0x1cc);
	fill(NULL);
	sl_tidy_join(&w, ID_B); /* there is no room for it: then all of them stay */
	sl_tidy_join(&w, ID_B);
	sl_tidy_run(&w, NOW);
	assert_left(0x1fc);
}

/* Round after round: who was live in the last one is not for that in this one. */
static void sessions_that_left_are_live_no_more(void **state)
{
	static const uint8_t session[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
					    0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}; /* ID_A */
	struct sl_conf_server conf = {.store_ttl_s = 10, .limits.sessions = 1};
	struct sl_housekeeping keeping;
	uint64_t now_ms = 1;

	(void)state;
	snprintf(conf.store, sizeof conf.store, "%s", dir);
	assert_int_equal(sl_housekeeping_open(&keeping, &conf), SL_OK);
	for (int round = 0; round < 5; round++, now_ms += (uint64_t)keeping.every_ms) {
		assert_true(sl_housekeeping_begin(&keeping, now_ms));
		assert_false(sl_housekeeping_begin(&keeping, now_ms)); /* it is not time again */
		sl_housekeeping_join(&keeping, session);
		sl_tidy_run(&keeping.what, NOW);
		assert_left(0x1cc);
	}
	assert_true(sl_housekeeping_begin(&keeping, now_ms));
	sl_tidy_run(&keeping.what, NOW);
	assert_left(0x1c0);
	sl_housekeeping_close(&keeping);
}

static void the_oldest_beyond_the_budget_go(void **state)
{
	char live[1][33] = {ID_A};
	const struct sl_tidy w = {.dir = dir, .bytes = 415, .live = live, .max_live = 1, .n_live = 1};
	struct sl_tidy_result r = sl_tidy_run(&w, NOW);

	(void)state;
	assert_left(0x1cd | 0x20); /* 200 and 400 bytes, until 415 are left */
	assert_int_equal(r.bytes, 415);
	assert_int_equal(r.removed, 2);
}

static void without_a_store_there_is_nothing_to_do(void **state)
{
	const struct sl_tidy none = {.dir = "", .ttl_s = 1}, gone = {.dir = "/nonexistent/store", .ttl_s = 1};

	(void)state;
	assert_int_equal(sl_tidy_run(&none, NOW).files, 0);
	assert_int_equal(sl_tidy_run(&gone, NOW).files, 0);
}

static void a_store_is_one_server_s(void **state)
{
	struct sl_fail fail;
	int mine, others;

	(void)state;
	assert_int_equal(sl_store_open(dir, &mine, &fail), SL_OK);
	assert_int_equal(sl_store_open(dir, &others, &fail), SL_ERR_BUSY);
	assert_int_equal(others, -1);
	assert_non_null(strstr(fail.text, "a server that runs"));
	sl_store_close(mine);
	assert_int_equal(sl_store_open(dir, &others, &fail), SL_OK);
	sl_store_close(others);
}

/* Set right by years, forward or back, while the server runs: what was just written is no older than it is. */
static void a_clock_that_jumps_makes_no_file_old(void **state)
{
	const int64_t years = 200000000;

	(void)state;
	assert_int_equal(sl_tidy_now(NOW + 60, NOW, 60), NOW + 60);
	assert_int_equal(sl_tidy_now(NOW + years, NOW, 60), NOW + 60);
	assert_int_equal(sl_tidy_now(NOW - years, NOW, 60), NOW - years);
}

static int remove_all(void **state)
{
	(void)state;
	for (int i = 0; i < FILES; i++)
		unlink(path_of(files[i].name));
	return rmdir(dir);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_bounds_all_stays, fill),
		cmocka_unit_test_setup(what_is_too_old_goes, fill),
		cmocka_unit_test_setup(live_sessions_stay, fill),
		cmocka_unit_test_setup(sessions_that_join_stay, fill),
		cmocka_unit_test_setup(sessions_that_left_are_live_no_more, fill),
		cmocka_unit_test_setup(the_oldest_beyond_the_budget_go, fill),
		cmocka_unit_test(a_clock_that_jumps_makes_no_file_old),
		cmocka_unit_test(without_a_store_there_is_nothing_to_do),
		cmocka_unit_test_setup(a_store_is_one_server_s, fill),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_all);
}
