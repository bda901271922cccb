/* What other users of the machine may have prepared: links where we write, folders
 * and files that they can change. Also, which of our files they can read. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/persist/epoch.h"
#include "client/persist/events.h"
#include "client/persist/jsonl.h"
#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/base/newfile.h"
#include "common/link/gate.h"
#include "common/link/key.h"
#include "common/weights/safetensors.h"
#include "server/store/store.h"
#include "tests/support/unit.h"

enum { OTHER = 54321 }; /* a user that does not exist */

static char dir[64];
static const char precious[] = "what another program needs\n";

static const char *path_of(const char *name)
{
	static char path[4][128];
	static int n;

	n = (n + 1) % 4;
	snprintf(path[n], sizeof path[n], "%s/%s", dir, name);
	return path[n];
}

static const char *put(const char *name, const char *text, mode_t mode)
{
	const char *path = path_of(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static void assert_precious(void)
{
	char text[128] = "";
	int fd = open(path_of("precious"), O_RDONLY);

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof text - 1) >= 0);
	close(fd);
	assert_string_equal(text, precious);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static enum sl_err write_new(const char *path, struct sl_fail *fail)
{
	return sl_newfile_put(path, 0600, SL_FP_NONE, "new", 3, fail);
}

static void a_new_file_is_written_through_no_link(void **state)
{
	struct sl_fail fail;
	struct stat st;

	assert_int_equal(symlink("precious", path_of("model.tmp")), 0);
	assert_int_equal(symlink("precious", path_of("model")), 0);
	assert_int_equal(write_new(path_of("model"), &fail), SL_OK);
	assert_precious();
	assert_int_equal(lstat(path_of("model"), &st), 0);
	assert_true(S_ISREG(st.st_mode) && st.st_size == 3);
	assert_int_equal(access(path_of("model.tmp"), F_OK), -1);
	assert_int_equal(link(path_of("precious"), path_of("model.tmp")), 0);
	assert_int_equal(write_new(path_of("model"), &fail), SL_OK);
	assert_precious();
	put("model.tmp", "what a killed process left", 0600);
	assert_int_equal(write_new(path_of("model"), &fail), SL_OK);
	assert_int_equal(mkdir(path_of("model.tmp"), 0700), 0);
	assert_int_equal(write_new(path_of("model"), &fail), SL_ERR_CANTCREATE);
	assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
	assert_int_equal(write_new(path_of("pipe"), &fail), SL_ERR_CANTCREATE);
	assert_true(lstat(path_of("pipe"), &st) == 0 && S_ISFIFO(st.st_mode));
}

static void a_log_is_written_through_no_link(void **state)
{
	const struct sl_jsonl_step step = {.step = 1};
	struct sl_jsonl *log;
	struct sl_fail fail;

	assert_int_equal(symlink("precious", path_of("log.jsonl")), 0);
	assert_int_equal(sl_jsonl_check(path_of("log.jsonl"), &fail), SL_ERR_CANTCREATE);
	assert_int_equal(sl_jsonl_open(&log, path_of("log.jsonl"), &fail), SL_ERR_CANTCREATE);
	assert_non_null(strstr(fail.text, "is a symbolic link, which is not followed: remove it"));
	assert_int_equal(unlink(path_of("log.jsonl")), 0);
	assert_int_equal(link(path_of("precious"), path_of("log.jsonl")), 0);
	assert_int_equal(sl_jsonl_check(path_of("log.jsonl"), &fail), SL_ERR_CANTCREATE);
	assert_int_equal(sl_jsonl_open(&log, path_of("log.jsonl"), &fail), SL_ERR_CANTCREATE);
	assert_non_null(strstr(fail.text, "is a hard link"));
	assert_precious();
	assert_int_equal(unlink(path_of("log.jsonl")), 0);
	assert_int_equal(sl_jsonl_open(&log, path_of("log.jsonl"), &fail), SL_OK);
	assert_int_equal(sl_jsonl_step(log, &step), SL_OK);
	assert_int_equal(sl_jsonl_close(log), SL_OK);
}

/* Whatever the umask, new files and folders are for their user alone. An existing folder keeps its mode. */
static void what_a_run_writes_is_for_its_user_alone(void **state)
{
	const float weight[2] = {1, 2};
	const struct sl_st_item item = {"w", "F32", 1, {2}, weight};
	const struct sl_jsonl_step step = {.step = 1};
	mode_t before = umask(0);
	struct sl_events *events;
	struct sl_jsonl *log;
	struct sl_fail fail;
	char command[128];

	assert_int_equal(sl_jsonl_open(&log, path_of("run/a/log.jsonl"), &fail), SL_OK);
	assert_int_equal(sl_jsonl_close(log), SL_OK);
	assert_int_equal(mode_of(path_of("run")), 0700);
	assert_int_equal(mode_of(path_of("run/a")), 0700);
	assert_int_equal(mode_of(path_of("run/a/log.jsonl")), 0600);
	assert_int_equal(chmod(path_of("run/a"), 02750), 0);
	assert_int_equal(sl_jsonl_open(&log, path_of("run/a/log.jsonl"), &fail), SL_OK);
	assert_int_equal(sl_jsonl_close(log), SL_OK);
	assert_int_equal(mode_of(path_of("run/a")), 02750);
	assert_int_equal(sl_st_write(path_of("weights"), &item, 1, NULL, 0, SL_FP_NONE, &fail), SL_OK);
	assert_int_equal(mode_of(path_of("weights")), 0600);
	assert_true(sl_epoch_begin(dir, 1) > 0);
	assert_int_equal(mode_of(path_of("link-epoch")), 0600);
	assert_int_equal(mkdir(path_of("tb"), 0700), 0);
	assert_int_equal(sl_events_open(&events, path_of("tb"), true, &fail), SL_OK);
	assert_int_equal(sl_events_step(events, &step), SL_OK);
	assert_int_equal(sl_events_close(events), SL_OK);
	snprintf(command, sizeof command, "[ \"$(stat -c %%a %s/tb/*)\" = 600 ]", dir);
	assert_int_equal(system(command), 0);
	umask(before);
}

static void folders_that_others_can_change_are_named(void **state)
{
	struct sl_fail fail;
	int lock;

	assert_int_equal(mkdir(path_of("store"), 0700), 0);
	assert_int_equal(chmod(path_of("store"), 0770), 0); /* the operator chooses who is in the group */
	assert_int_equal(sl_guard_folder(path_of("store"), &fail), SL_OK);
	for (int sticky = 0; sticky < 2; sticky++) {
		assert_int_equal(chmod(path_of("store"), sticky ? 01777 : 0777), 0);
		assert_int_equal(sl_guard_folder(path_of("store"), &fail), SL_ERR_CONFIG);
		assert_int_equal(sl_store_open(path_of("store"), &lock, &fail), SL_ERR_CONFIG);
		assert_int_equal(lock, -1);
		assert_non_null(strstr(fail.text, sticky ? "(mode 1777): chmod o-w it" : "(mode 0777): chmod o-w it"));
		assert_int_equal(mode_of(path_of("store")), sticky ? 01777 : 0777);
	}
}

static void lists_that_everybody_may_write_are_refused(void **state)
{
	static const char line[] = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 a\n";
	struct sl_allow *allow;
	struct sl_key key;
	struct sl_fail fail;

	assert_int_equal(sl_allow_load(&allow, put("list", line, 0666), &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "list: every user may write to this file (mode 0666): chmod o-w it"));
	assert_int_equal(sl_key_load_public(&key, put("pub", line, 0646), &fail), SL_ERR_CONFIG);
	assert_int_equal(sl_key_load_public(&key, put("pub", line, 0664), &fail), SL_OK);
	assert_int_equal(sl_allow_load(&allow, put("list", line, 0664), &fail), SL_OK);
	sl_allow_free(allow);
}

/* Only root can create what another user owns; for other users this test is skipped. */
static void what_another_user_owns_is_not_believed(void **state)
{
	struct sl_keypair pair;
	struct sl_fail fail;
	int lock;

	if (chown(put("theirs", "", 0600), OTHER, OTHER) != 0) {
		print_message("not root: files of another user cannot be made\n");
		skip();
	}
	assert_int_equal(sl_keypair_make(&pair, &fail), SL_OK);
	assert_int_equal(sl_keypair_save(&pair, path_of("key"), &fail), SL_OK);
	assert_int_equal(chown(path_of("key"), OTHER, OTHER), 0);
	assert_int_equal(sl_keypair_load(&pair, path_of("key"), &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "another user (uid 54321) owns this secret key"));
	setenv("CREDENTIALS_DIRECTORY", dir, 1);
	assert_int_equal(sl_keypair_load(&pair, path_of("key"), &fail), SL_OK);
	unsetenv("CREDENTIALS_DIRECTORY");
	assert_int_equal(mkdir(path_of("store"), 0700), 0);
	assert_int_equal(chown(path_of("store"), OTHER, OTHER), 0);
	assert_int_equal(sl_store_open(path_of("store"), &lock, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "belongs to another user (uid 54321)"));
	assert_non_null(strstr(fail.text, "chown it to uid 0"));
}

/* A folder for sockets, which another user may have made before: under its name, with its mode, or as a link. */
static void a_folder_for_sockets_is_this_user_s_alone(void **state)
{
	const char *own = path_of("own");
	struct sl_fail fail;
	struct stat st;

	assert_int_equal(sl_guard_own(own, false, SL_ERR_AUTH, &fail), SL_OK); /* nobody is there */
	assert_int_equal(sl_guard_own(own, true, SL_ERR_CANTCREATE, &fail), SL_OK);
	assert_int_equal(stat(own, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(sl_guard_own(own, true, SL_ERR_CANTCREATE, &fail), SL_OK);
	assert_int_equal(chmod(own, 0710), 0);
	assert_int_equal(sl_guard_own(own, false, SL_ERR_AUTH, &fail), SL_ERR_AUTH);
	assert_non_null(strstr(fail.text, "is not a folder of mode 0700"));
	assert_int_equal(chmod(own, 0700), 0);
	if (chown(own, OTHER, OTHER) == 0)
		assert_int_equal(sl_guard_own(own, true, SL_ERR_CANTCREATE, &fail), SL_ERR_CANTCREATE);
	assert_int_equal(rmdir(own), 0);
	assert_int_equal(symlink(dir, own), 0);
	assert_int_equal(sl_guard_own(own, true, SL_ERR_CANTCREATE, &fail), SL_ERR_CANTCREATE);
}

/* Whether a core dump leaves out the page of `at` (the flag dd in smaps). */
static bool is_not_dumped(const void *at)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	char line[512];
	bool here = false, out = false;
	uintptr_t from, to;

	assert_non_null(maps);
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			here = (uintptr_t)at >= from && (uintptr_t)at < to;
		out = out || (here && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd"));
	}
	fclose(maps);
	return out;
}

static void a_process_with_a_secret_key_is_not_dumped(void **state)
{
	static struct sl_keypair pair;

	assert_false(is_not_dumped(&pair));
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
	setenv("SPLIT_DUMPABLE", "1", 1);
	sl_keypair_hide(&pair);
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
	assert_true(is_not_dumped(&pair));
	unsetenv("SPLIT_DUMPABLE");
	sl_keypair_hide(&pair);
#ifndef SL_SANITIZED
	assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
#endif
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
}

static int make_folder(void **state)
{
	snprintf(dir, sizeof dir, "/tmp/test_guard.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	put("precious", precious, 0644);
	return 0;
}

static int remove_folder(void **state)
{
	char command[96];

	snprintf(command, sizeof command, "rm -r %s", dir);
	return system(command);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
	const struct CMUnitTest tests[] = {
		EACH(a_new_file_is_written_through_no_link),      EACH(a_log_is_written_through_no_link),
		EACH(what_a_run_writes_is_for_its_user_alone),    EACH(folders_that_others_can_change_are_named),
		EACH(lists_that_everybody_may_write_are_refused), EACH(what_another_user_owns_is_not_believed),
		EACH(a_process_with_a_secret_key_is_not_dumped),  EACH(a_folder_for_sockets_is_this_user_s_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
