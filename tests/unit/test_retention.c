/* The store's housekeeping: by age, by bytes, oldest first. Live sessions and files of others stay. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "server/host/housekeeping.h"
#include "server/store/retention.h"
#include "server/store/store.h"
#include "tests/support/unit.h"

#define ID_A "00112233445566778899aabbccddeeff"
#define ID_B "ffeeddccbbaa99887766554433221100"

/* The fingerprint of a key. */
#define KEY_1 "0123-4567-89ab-cdef"

enum { NOW = 1000000 };

static const uint8_t id_a[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
				 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};

static char dir[] = "/tmp/test_retention.XXXXXX";

static const struct {
	const char *name;
	int bytes, age_s;
} files[] = {
	{ID_A "." KEY_1 ".f32", 100, 50},
	{ID_B ".f32", 200, 400},
	{"session-" ID_A "-000000000007.safetensors", 300, 300},
	{"session-" ID_A "." KEY_1 "-000000000009.safetensors", 10, 250},
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

static void wake(void *arg)
{
	(void)arg;
}

static int fill(void **state)
{
	for (int i = 0; i < FILES; i++) {
		const struct timespec at[2] = {{NOW - files[i].age_s, 0}, {NOW - files[i].age_s, 0}};
		int fd = open(path_of(files[i].name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

		if (fd < 0 || ftruncate(fd, files[i].bytes) != 0 || futimens(fd, at) != 0)
			return -1;
		close(fd);
	}
	return 0;
}

/* Compares the files that remain with `left`, which has a bit for each file. */
static void assert_left(unsigned left)
{
	for (int i = 0; i < FILES; i++)
		if ((access(path_of(files[i].name), F_OK) == 0) != (left >> i & 1))
			fail_msg("%s is %s", files[i].name, left >> i & 1 ? "gone" : "there");
}

static void without_bounds_all_stays(void **state)
{
	const struct sl_retention w = {.dir = dir};
	struct sl_retention_result r = sl_retention_run(&w, NOW);

	assert_left(0x1ff);
	assert_int_equal(r.files, OURS);
	assert_int_equal(r.bytes, 1015);
	assert_int_equal(r.oldest_s, 400);
	assert_int_equal(r.removed, 0);
}

static void what_is_too_old_goes(void **state)
{
	const struct sl_retention w = {.dir = dir, .ttl_s = 300};
	struct sl_retention_result r = sl_retention_run(&w, NOW);

	assert_left(0x1fd);
	assert_int_equal(r.removed, 1);
	assert_int_equal(r.bytes, 1015 - 200);
	r = sl_retention_run(&w, NOW + 1);
	assert_left(0x1c9);
	assert_int_equal(r.files, 2);
	assert_int_equal(r.bytes, 110);
	assert_int_equal(r.oldest_s, 251);
}

static void live_sessions_stay(void **state)
{
	struct sl_retention_live live[2] = {0};
	struct sl_retention w = {.dir = dir, .ttl_s = 10, .live = live, .n_live = 2};

	sl_retention_join(&w, 1, id_a);
	sl_retention_run(&w, NOW);
	assert_left(0x1cc);
	sl_retention_leave(&w, 1);
	sl_retention_run(&w, NOW);
	assert_left(0x1c0);
}

static void run_now(struct sl_housekeeping *keeping, struct sl_worker *worker, uint64_t now_ms)
{
	sl_housekeeping_tick(keeping, worker, now_ms);
	while (keeping->busy)
		sl_worker_drain(worker);
}

/* In each round a session is live until it leaves, and again when it comes back in another slot. */
static void sessions_that_left_are_live_no_more(void **state)
{
	static const char recent[] = "session-" ID_B "-000000000011.safetensors";
	struct sl_conf_server conf = {.store_ttl_s = 10, .limits.sessions = 2};
	struct sl_housekeeping keeping;
	struct sl_worker *worker;
	struct sl_fail fail;
	uint64_t now_ms = 1;

	snprintf(conf.store, sizeof conf.store, "%s", dir);
	fclose(fopen(path_of(recent), "w")); /* else the clock would count as wrong */
	assert_int_equal(sl_worker_open(&worker, "test", wake, NULL, &fail), SL_OK);
	assert_int_equal(sl_housekeeping_open(&keeping, &conf), SL_OK);
	assert_int_equal(unlink(path_of(recent)), 0);
	for (int round = 0; round < 4; round++, now_ms += (uint64_t)keeping.every_ms) {
		sl_retention_join(&keeping.what, round % 2, id_a);
		run_now(&keeping, worker, now_ms);
		assert_left(0x1cc);
		sl_retention_leave(&keeping.what, round % 2);
		run_now(&keeping, worker, now_ms + (uint64_t)keeping.every_ms - 1); /* not due yet */
		assert_left(0x1cc);
	}
	run_now(&keeping, worker, now_ms);
	assert_left(0x1c0);
	sl_worker_close(worker);
	sl_housekeeping_close(&keeping);
}

static void the_oldest_beyond_the_budget_go(void **state)
{
	struct sl_retention_live live[1] = {0};
	struct sl_retention w = {.dir = dir, .bytes = 415, .live = live, .n_live = 1};
	struct sl_retention_result r;

	sl_retention_join(&w, 0, id_a);
	r = sl_retention_run(&w, NOW);
	assert_left(0x1cd | 0x20); /* removes 200 and 400 bytes, until 415 are left */
	assert_int_equal(r.bytes, 415);
	assert_int_equal(r.removed, 2);
}

/* ---- room for new files */

static struct sl_key key_of(uint8_t n)
{
	return (struct sl_key){{n}};
}

/* The name of a session's state file; `n` distinguishes sessions. */
static const char *state_of(const struct sl_key *owner, int n)
{
	static char name[4][128];
	static int turn;
	char print[SL_FINGERPRINT] = "";

	turn = (turn + 1) % 4;
	if (owner)
		sl_key_fingerprint(owner, print);
	snprintf(name[turn], sizeof name[turn], "session-%032x%s%s-000000000001.safetensors", (unsigned)n,
		 owner ? "." : "", print);
	return name[turn];
}

static void lay(const char *name, int bytes, int age_s)
{
	const struct timespec at[2] = {{NOW - age_s, 0}, {NOW - age_s, 0}};
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	assert_int_equal(futimens(fd, at), 0);
	close(fd);
}

static bool is_there(const struct sl_key *owner, int n)
{
	return access(path_of(state_of(owner, n)), F_OK) == 0;
}

/* A client that starts many sessions displaces its own states, not the older state of another client. */
static void a_client_s_own_oldest_go_first(void **state)
{
	const struct sl_key good = key_of(1), greedy = key_of(2);
	struct sl_retention w = {.dir = dir, .bytes = 1000, .bytes_per_key = 1000};
	struct sl_fail fail;

	lay(state_of(&good, 1), 300, 9000);
	for (int n = 2; n < 40; n++) {
		assert_int_equal(sl_retention_make_room(&w, &greedy, NULL, 100, &fail), SL_OK);
		lay(state_of(&greedy, n), 100, 1000 - n);
		assert_true(is_there(&good, 1));
	}
	for (int n = 2; n < 40; n++)
		assert_int_equal(is_there(&greedy, n), n >= 33); /* seven of them fit beside the 300 bytes */
	/* a client that holds less displaces the states of the one that holds more */
	assert_int_equal(sl_retention_make_room(&w, &good, "session-00000000000000000000000000000001", 150, &fail),
			 SL_OK);
	assert_true(is_there(&good, 1) && !is_there(&greedy, 33) && !is_there(&greedy, 34) && is_there(&greedy, 35));
	assert_int_equal(w.not_stored, 0);
}

static void a_key_has_its_share_and_no_more(void **state)
{
	const struct sl_key one = key_of(1), two = key_of(2);
	struct sl_retention_live live[1] = {0};
	struct sl_retention w = {.dir = dir, .bytes = 10000, .bytes_per_key = 500, .live = live, .n_live = 1};
	uint8_t session[16] = {[15] = 1};
	struct sl_fail fail;

	sl_retention_join(&w, 0, session);
	lay(state_of(&one, 1), 200, 5000); /* live */
	lay(state_of(&one, 2), 200, 4000);
	lay(state_of(&two, 3), 400, 9000);
	assert_int_equal(sl_retention_make_room(&w, &one, NULL, 400, &fail), SL_ERR_LIMIT);
	assert_non_null(
		strstr(fail.text, " has 400 bytes in the store and may have 500 (store_bytes_per_key): 400 more"));
	assert_true(is_there(&one, 2)); /* nothing is removed if that would not make enough room */
	assert_int_equal(w.not_stored, 1);
	assert_int_equal(sl_retention_make_room(&w, &one, NULL, 300, &fail), SL_OK);
	assert_true(is_there(&one, 1) && !is_there(&one, 2) && is_there(&two, 3));
}

/* Without keys owners cannot be distinguished, so the oldest file goes first. Live states, and the
 * one that is written, stay. */
static void without_keys_all_are_one(void **state)
{
	struct sl_retention_live live[1] = {0};
	struct sl_retention w = {.dir = dir, .bytes = 500, .bytes_per_key = 100, .live = live, .n_live = 1};
	uint8_t session[16] = {[15] = 1};
	struct sl_fail fail;

	sl_retention_join(&w, 0, session);
	lay(state_of(NULL, 1), 200, 5000);
	lay(state_of(NULL, 2), 100, 4000);
	lay(state_of(NULL, 3), 100, 3000);
	assert_int_equal(sl_retention_make_room(&w, NULL, "session-00000000000000000000000000000002", 100, &fail),
			 SL_OK);
	assert_true(is_there(NULL, 1) && is_there(NULL, 2) && is_there(NULL, 3));
	assert_int_equal(sl_retention_make_room(&w, NULL, "session-00000000000000000000000000000002", 150, &fail),
			 SL_OK);
	assert_true(is_there(NULL, 1) && is_there(NULL, 2) && !is_there(NULL, 3));
	assert_int_equal(sl_retention_make_room(&w, NULL, NULL, 301, &fail), SL_ERR_LIMIT);
	assert_non_null(strstr(fail.text, "the store holds 300 bytes and may hold 500 (store_bytes): 301 more"));
	assert_true(is_there(NULL, 2));
}

/* A state that is being written stays and counts, even if its session has ended: the last state is
 * written after that. */
static void what_is_being_written_stays_and_counts(void **state)
{
	struct sl_retention w = {.dir = dir, .ttl_s = 10, .bytes = 500};
	struct sl_retention_write one = {0}, same = {0}, two = {0};
	char tmp[160];
	struct sl_fail fail;

	snprintf(tmp, sizeof tmp, "%s.tmp", state_of(NULL, 1));
	assert_int_equal(sl_retention_begin(&w, &one, state_of(NULL, 1), NULL, NULL, 300, &fail), SL_OK);
	assert_int_equal(sl_retention_begin(&w, &same, state_of(NULL, 1), NULL, NULL, 1, &fail), SL_ERR_BUSY);
	assert_int_equal(sl_retention_begin(&w, &two, state_of(NULL, 2), NULL, NULL, 201, &fail), SL_ERR_LIMIT);
	sl_retention_end(&w, &two); /* it did not begin */
	lay(tmp, 10, 9000);
	assert_int_equal(sl_retention_run(&w, NOW).bytes, 300);
	assert_int_equal(access(path_of(tmp), F_OK), 0);
	assert_int_equal(sl_retention_make_room(&w, NULL, NULL, 201, &fail), SL_ERR_LIMIT);
	assert_int_equal(sl_retention_begin(&w, &two, state_of(NULL, 2), NULL, NULL, 200, &fail), SL_OK);
	sl_retention_end(&w, &one);
	sl_retention_end(&w, &two);
	assert_null(w.writing);
	assert_int_equal(sl_retention_run(&w, NOW).files, 0);
	assert_int_equal(access(path_of(tmp), F_OK), -1);
}

/* The oldest goes first, even within a second; weights, which their client has too, go before any state. */
static void what_costs_least_goes_first(void **state)
{
	const struct timespec later[2] = {{NOW - 500, 7}, {NOW - 500, 7}};
	struct sl_retention w = {.dir = dir, .bytes = 400};
	struct sl_fail fail;

	lay(state_of(NULL, 1), 100, 500);
	assert_int_equal(utimensat(AT_FDCWD, path_of(state_of(NULL, 1)), later, 0), 0);
	lay(state_of(NULL, 2), 100, 500);
	lay(ID_A ".f32", 100, 100);
	lay(ID_B ".f32", 100, 50);
	assert_int_equal(sl_retention_make_room(&w, NULL, NULL, 100, &fail), SL_OK);
	assert_true(access(path_of(ID_A ".f32"), F_OK) != 0 && access(path_of(ID_B ".f32"), F_OK) == 0);
	assert_int_equal(sl_retention_make_room(&w, NULL, NULL, 300, &fail), SL_OK);
	assert_true(access(path_of(ID_B ".f32"), F_OK) != 0 && is_there(NULL, 1) && !is_there(NULL, 2));
	/* an upload of weights displaces no state */
	assert_int_equal(sl_retention_make_room(&w, NULL, "session-", 301, &fail), SL_ERR_LIMIT);
	assert_true(is_there(NULL, 1));
}

static void a_default_takes_nothing_away(void **state)
{
	const struct sl_key one = key_of(1);
	struct sl_retention w = {.dir = dir, .bytes = 500};

	lay(state_of(&one, 1), 400, 10);
	sl_retention_set_limits(&w);
	assert_int_equal(w.bytes_per_key, 400);
	sl_retention_run(&w, NOW);
	assert_true(is_there(&one, 1));
}

static void limits_that_are_open_fit_the_disk(void **state)
{
	struct sl_retention w = {.dir = dir}, set = {.dir = dir, .bytes = 77, .bytes_per_key = 7},
			    half = {.dir = dir, .bytes = 77};
	struct statvfs fs;
	int64_t all;

	lay(state_of(NULL, 1), 200, 5000);
	assert_int_equal(statvfs(dir, &fs), 0);
	sl_retention_set_limits(&w);
	all = (int64_t)(fs.f_blocks * fs.f_frsize);
	assert_true(w.bytes >= 200 && w.bytes <= all / 2 + 200);
	assert_true(w.bytes_per_key > 0 && w.bytes_per_key <= w.bytes / 2 + 1);
	sl_retention_set_limits(&set);
	assert_true(set.bytes == 77 && set.bytes_per_key == 7);
	sl_retention_set_limits(&half);
	assert_true(half.bytes == 77 && half.bytes_per_key == 39);
}

static int clear(void **state)
{
	char command[64];

	snprintf(command, sizeof command, "rm -f %s/*", dir);
	return system(command);
}

static void without_a_store_there_is_nothing_to_do(void **state)
{
	const struct sl_retention none = {.dir = "", .ttl_s = 1}, gone = {.dir = "/nonexistent/store", .ttl_s = 1};

	assert_int_equal(sl_retention_run(&none, NOW).files, 0);
	assert_int_equal(sl_retention_run(&gone, NOW).files, 0);
}

static void a_store_is_one_server_s(void **state)
{
	char lock[PATH_MAX];
	struct sl_fail fail;
	int mine, others;

	assert_int_equal(sl_store_open(dir, &mine, &fail), SL_OK);
	assert_int_equal(sl_store_open(dir, &others, &fail), SL_ERR_BUSY);
	assert_int_equal(others, -1);
	assert_non_null(strstr(fail.text, "another running server"));
	sl_store_close(mine);
	assert_int_equal(sl_store_open(dir, &others, &fail), SL_OK);
	sl_store_close(others);
	snprintf(lock, sizeof lock, "%s/lock", dir);
	unlink(lock);
	assert_int_equal(symlink("elsewhere", lock), 0); /* a store without its lock file is not used */
	assert_int_equal(sl_store_open(dir, &others, &fail), SL_ERR_CANTCREATE);
	assert_non_null(strstr(fail.text, "/lock cannot be opened: "));
	unlink(lock);
}

/* The clock may be set forward or back by years while the server runs: a file that was just written
 * must not look old. */
static void a_clock_that_jumps_makes_no_file_old(void **state)
{
	const int64_t years = 200000000;

	assert_int_equal(sl_retention_now(NOW + 60, NOW, 60), NOW + 60);
	assert_int_equal(sl_retention_now(NOW + years, NOW, 60), NOW + 60);
	assert_int_equal(sl_retention_now(NOW - years, NOW, 60), NOW - years);
}

/* At a start, too: it would take all states of a store, whose clients may still come. */
static void a_clock_that_is_far_ahead_at_a_start_removes_nothing(void **state)
{
	struct sl_retention w = {.dir = dir, .ttl_s = 500};

	assert_int_equal(clear(state) + fill(state), 0);
	assert_int_equal(sl_retention_opened(&w, NOW + 450), NOW + 450); /* the newest, of 50 s ago, is still good */
	assert_int_equal(sl_retention_opened(&w, NOW + 451), NOW + 451);
	assert_int_equal(sl_retention_run(&w, NOW + 451 + 60).removed, 0);
	assert_left(0x1ff);
	assert_int_equal(sl_retention_run(&w, NOW + 451 + 501).removed, OURS);
	w.ttl_s = 0;
	assert_int_equal(sl_retention_opened(&w, NOW + 100000), NOW + 100000);
}

static void write_at(const char *name, int64_t at_s)
{
	const struct timespec at[2] = {{at_s, 0}, {at_s, 0}};
	int fd = open(path_of(name), O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0 && futimens(fd, at) == 0);
	close(fd);
}

/* Nor at a second start, where the first server has written a file by that clock; nor where the clock was set while a
 * server ran, whose last look at the folder the lock file tells. */
static void a_clock_that_stays_far_ahead_removes_nothing(void **state)
{
	static const char recent[] = "session-" ID_B "-000000000011.safetensors";
	const int64_t years = 200000000;

	for (int set_at_start = 0; set_at_start < 2; set_at_start++) {
		struct sl_retention w = {.dir = dir, .ttl_s = 500};
		const int64_t first = set_at_start ? NOW + years : NOW;

		assert_int_equal(clear(state) + fill(state), 0);
		write_at("lock", NOW);
		assert_int_equal(sl_retention_opened(&w, first), first);
		write_at(recent, NOW + years);
		assert_int_equal(sl_retention_run(&w, sl_retention_now(NOW + years, first, 60)).removed, 0);
		assert_int_equal(sl_retention_opened(&w, NOW + years + 90), NOW + years + 90);
		assert_int_equal(sl_retention_run(&w, NOW + years + 90).removed, 0);
		assert_left(0x1ff);
		assert_int_equal(sl_retention_run(&w, NOW + years + 90 + 501).removed, OURS + 1);
	}
	unlink(path_of("lock"));
}

/* A server that crashes has mostly written files after its last look, which is a minute old at most. */
static void what_was_written_after_the_last_look_stays(void **state)
{
	static const char last[] = "session-" ID_B "-000000000011.safetensors";
	struct sl_retention w = {.dir = dir, .ttl_s = 500};

	assert_int_equal(clear(state) + fill(state), 0);
	write_at("lock", NOW);
	write_at(last, NOW + 10);
	assert_int_equal(sl_retention_opened(&w, NOW + 511), NOW + 511);
	assert_int_equal(sl_retention_run(&w, NOW + 511).removed, 0);
	assert_int_equal(sl_retention_run(&w, NOW + 511 + 500).removed, OURS);
	assert_int_equal(access(path_of(last), F_OK), 0);
	assert_int_equal(sl_retention_run(&w, NOW + 511 + 501).removed, 1);
	unlink(path_of("lock"));
}

static int remove_all(void **state)
{
	clear(NULL);
	return rmdir(dir);
}

static int make_folder(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_bounds_all_stays, fill),
		cmocka_unit_test_setup(what_is_too_old_goes, fill),
		cmocka_unit_test_setup(live_sessions_stay, fill),
		cmocka_unit_test_setup(sessions_that_left_are_live_no_more, fill),
		cmocka_unit_test_setup(the_oldest_beyond_the_budget_go, fill),
		cmocka_unit_test_setup(a_client_s_own_oldest_go_first, clear),
		cmocka_unit_test_setup(a_key_has_its_share_and_no_more, clear),
		cmocka_unit_test_setup(without_keys_all_are_one, clear),
		cmocka_unit_test_setup(what_is_being_written_stays_and_counts, clear),
		cmocka_unit_test_setup(what_costs_least_goes_first, clear),
		cmocka_unit_test_setup(a_default_takes_nothing_away, clear),
		cmocka_unit_test_setup(limits_that_are_open_fit_the_disk, clear),
		cmocka_unit_test_setup(a_clock_that_is_far_ahead_at_a_start_removes_nothing, clear),
		cmocka_unit_test_setup(a_clock_that_stays_far_ahead_removes_nothing, clear),
		cmocka_unit_test_setup(what_was_written_after_the_last_look_stays, clear),
		cmocka_unit_test(a_clock_that_jumps_makes_no_file_old),
		cmocka_unit_test(without_a_store_there_is_nothing_to_do),
		cmocka_unit_test_setup(a_store_is_one_server_s, fill),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_all);
}
