/* The store of weights: a file's content always matches its name, only its owner can read it, and a
 * start of the server removes only half-written files. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/weights/weights.h"
#include "server/store/store.h"
#include "tests/support/unit.h"

enum { COUNT = 100 };

static char dir[] = "/tmp/test_store.XXXXXX";
static float weights[COUNT], got[COUNT];
static uint8_t hash[16];

static const char *path_of(const char *suffix)
{
	static char path[128];
	char hex[SL_HEX16_TEXT];

	snprintf(path, sizeof path, "%s/%s%s", dir, sl_hex16(hash, hex), suffix);
	return path;
}

static int put(void **state)
{
	for (int i = 0; i < COUNT; i++)
		weights[i] = 0.5f * (float)i;
	sl_weights_hash(weights, COUNT, hash);
	sl_store_put(dir, NULL, NULL, hash, weights, COUNT);
	return access(path_of(".f32"), F_OK);
}

static void damage(off_t at, off_t length)
{
	int fd = open(path_of(".f32"), O_RDWR);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	assert_int_equal(ftruncate(fd, length), 0);
	close(fd);
}

static void damaged_weights_are_not_given_out(void **state)
{
	memset(got, 0, sizeof got);
	assert_true(sl_store_get(dir, NULL, hash, got, COUNT));
	assert_memory_equal(got, weights, sizeof weights);
	damage(sizeof weights - 1, sizeof weights);
	assert_false(sl_store_get(dir, NULL, hash, got, COUNT));
	put(NULL);
	assert_true(sl_store_get(dir, NULL, hash, got, COUNT));
	assert_int_equal(truncate(path_of(".f32"), sizeof weights - 4), 0);
	assert_false(sl_store_get(dir, NULL, hash, got, COUNT));
	assert_false(sl_store_get("", NULL, hash, got, COUNT));
}

static void an_owner_s_are_nobody_else_s(void **state)
{
	const struct sl_key one = {{1}}, two = {{2}};

	assert_false(sl_store_get(dir, &one, hash, got, COUNT));
	sl_store_put(dir, NULL, &one, hash, weights, COUNT);
	assert_true(sl_store_get(dir, &one, hash, got, COUNT));
	assert_false(sl_store_get(dir, &two, hash, got, COUNT));
	unlink(path_of(".f32"));
	assert_false(sl_store_get(dir, NULL, hash, got, COUNT));
}

/* Reading sets the time of last use, by which retention.c decides. */
static void what_is_read_is_used_now(void **state)
{
	const struct timespec old[2] = {{1000, 0}, {1000, 0}};
	struct stat st;

	assert_int_equal(utimensat(AT_FDCWD, path_of(".f32"), old, 0), 0);
	assert_true(sl_store_get(dir, NULL, hash, got, COUNT));
	assert_int_equal(stat(path_of(".f32"), &st), 0);
	assert_true(st.st_mtime > 1000);
}

static void files_are_for_the_server_alone(void **state)
{
	mode_t before = umask(0);
	char made[128];
	struct sl_fail fail;
	struct stat st;
	int lock;

	snprintf(made, sizeof made, "%s/made", dir);
	assert_int_equal(sl_store_open(made, &lock, &fail), SL_OK);
	sl_store_close(lock);
	assert_int_equal(stat(made, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	rmdir(made);
	unlink(path_of(".f32"));
	put(NULL);
	assert_int_equal(stat(path_of(".f32"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	umask(before);
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void a_start_removes_what_is_half_done_alone(void **state)
{
	static const char *const name[] = {"session-00-000000000001.safetensors", "notes.tmp", "session-00.txt",
					   "session-00-000000000001.safetensors.tmp"};
	char path[4][128];
	struct sl_fail fail;
	int lock;

	for (int i = 0; i < 4; i++) {
		snprintf(path[i], sizeof path[i], "%s/%s", dir, name[i]);
		touch(path[i]);
	}
	touch(path_of(".f32.tmp"));
	assert_int_equal(sl_store_open(dir, &lock, &fail), SL_OK);
	sl_store_close(lock);
	assert_int_equal(access(path_of(".f32.tmp"), F_OK), -1);
	assert_int_equal(access(path_of(".f32"), F_OK), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(access(path[i], F_OK), i < 3 ? 0 : -1);
		unlink(path[i]);
	}
}

static int make_folder(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[64];

	snprintf(command, sizeof command, "rm -r %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(damaged_weights_are_not_given_out, put),
		cmocka_unit_test_setup(an_owner_s_are_nobody_else_s, put),
		cmocka_unit_test_setup(what_is_read_is_used_now, put),
		cmocka_unit_test_setup(files_are_for_the_server_alone, put),
		cmocka_unit_test_setup(a_start_removes_what_is_half_done_alone, put),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
