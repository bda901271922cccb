/* Tests of err, log, buf, arena, folder and wrap. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/nearest.h"
#include "common/base/wrap.h"
#include "tests/support/unit.h"

static void err_map_is_whole(void **state)
{
	for (int i = 0; i < SL_ERR_COUNT; i++) {
		assert_true(strlen(sl_err_name((enum sl_err)i)) > 0);
		assert_true(strlen(sl_err_text((enum sl_err)i)) > 0);
		int status = sl_err_exit_status((enum sl_err)i);
		assert_true(i == 0 ? status == 0 : status >= 64 && status <= 81);
	}
	assert_string_equal(sl_err_name(SL_ERR_CONFIG), "CONFIG");
	assert_int_equal(sl_err_exit_status(SL_ERR_CONFIG), 78);
	assert_int_equal(sl_err_exit_status(SL_ERR_PEER_LOST), 69);
	assert_string_equal(sl_err_name((enum sl_err)1000), "?");
	assert_string_equal(sl_err_name((enum sl_err) - 1), "?");
}

static void test_a_failure_names_its_key(void **state)
{
	struct sl_fail fail, outer;

	assert_int_equal(sl_fail_at(&fail, "train.chunks", SL_ERR_CONFIG, "at most %d", 256), SL_ERR_CONFIG);
	assert_string_equal(fail.key, "train.chunks");
	assert_string_equal(fail.text, "train.chunks: at most 256");
	assert_string_equal(sl_fail_sentence(&fail), "at most 256");
	outer = fail;
	assert_int_equal(sl_fail_at(&outer, outer.key, SL_ERR_LIMIT, "here %s", sl_fail_sentence(&outer)),
			 SL_ERR_LIMIT);
	assert_string_equal(outer.text, "train.chunks: here at most 256");
	assert_int_equal(sl_fail_set(&fail, SL_ERR_IO, "no key"), SL_ERR_IO);
	assert_string_equal(fail.key, "");
	assert_string_equal(sl_fail_sentence(&fail), "no key");
}

static void fail_text_is_one_line(void **state)
{
	struct sl_fail fail = {0};
	char big[2 * SL_FAIL_TEXT];

	assert_int_equal(sl_fail_set(NULL, SL_ERR_IO, "nobody reads %d", 1), SL_ERR_IO);
	assert_int_equal(sl_fail_set(&fail, SL_ERR_DATA, "a\nb\x1b%s", "c\td"), SL_ERR_DATA);
	assert_int_equal(fail.code, SL_ERR_DATA);
	assert_string_equal(fail.text, "a b c d");
	(void)sl_fail_set(&fail, SL_ERR_DATA,
			  "a\xc2\x9b"
			  "2J\xc3\x9c");
	assert_string_equal(fail.text, "a  2J\xc3\x9c"); /* Ü is kept */
	(void)sl_fail_set(&fail, SL_ERR_DATA, "\x9b[2J \xc0\x9b \xe2\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x80\xa6");
	assert_string_equal(fail.text, " [2J                \xe2\x80\xa6"); /* only the last one is UTF-8 */
	(void)sl_fail_set(&fail, SL_ERR_DATA, "a b c d");
	(void)sl_fail_set(&fail, SL_ERR_CONFIG, "x.yaml: %s", fail.text);
	assert_string_equal(fail.text, "x.yaml: a b c d");
	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = 0;
	(void)sl_fail_set(&fail, SL_ERR_DATA, "%s", big);
	assert_int_equal(strlen(fail.text), SL_FAIL_TEXT - 1);
}

static int hook_calls;

static void count_hook(void *arg)
{
	hook_calls += *(int *)arg;
}

/* Runs `body` with stderr in a file and returns what was written. */
static char *captured(void (*body)(void))
{
	static char text[8192];
	FILE *file = tmpfile();
	int keep = dup(STDERR_FILENO);

	assert_non_null(file);
	fflush(stderr);
	dup2(fileno(file), STDERR_FILENO);
	body();
	dup2(keep, STDERR_FILENO);
	close(keep);
	rewind(file);
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	return text;
}

static void log_some(void)
{
	char big[4000];

	sl_log(SL_LOG_INFO, "test-info", "value %d", 7);
	sl_log(SL_LOG_DEBUG, "test-debug", "not shown");
	sl_log(SL_LOG_WARN, "test-warn", "a\nforged-line: x");
	memset(big, 'y', sizeof big - 1);
	big[sizeof big - 1] = 0;
	sl_log(SL_LOG_ERROR, "test-long", "%s", big);
}

/* Sets JOURNAL_STREAM as systemd does. more = 0: stderr is the
 * journal's stream; 1: it is another stream, as after a redirection. */
static void log_with_stream(unsigned long long more)
{
	char stream[64];
	struct stat st;

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + more);
	setenv("JOURNAL_STREAM", stream, 1);
	log_some();
	assert_string_equal(sl_log_priority(SL_LOG_ERROR), more ? "" : "<3>");
	unsetenv("JOURNAL_STREAM");
}

static void log_to_journal(void)
{
	log_with_stream(0);
}

static void log_to_journal_elsewhere(void)
{
	log_with_stream(1);
}

static void log_lines(void **state)
{
	int one = 1;
	char *text, *last;

	unsetenv("JOURNAL_STREAM");
	hook_calls = 0;
	sl_log_set_hook(count_hook, &one);
	text = captured(log_some);
	sl_log_set_hook(NULL, NULL);
	assert_int_equal(hook_calls, 3);
	assert_ptr_equal(
		strstr(text, "INFO test-info: value 7\nWARN test-warn: a forged-line: x\nERROR test-long: yyy"), text);
	last = strstr(text, "ERROR");
	assert_int_equal(strlen(last), 2047);
	assert_int_equal(last[strlen(last) - 1], '\n');
	assert_null(memchr(last, '\n', strlen(last) - 1));
	text = captured(log_to_journal);
	assert_ptr_equal(strstr(text, "<6>test-info: value 7\n<4>test-warn:"), text);
	text = captured(log_to_journal_elsewhere);
	assert_ptr_equal(strstr(text, "INFO test-info: value 7\nWARN test-warn:"), text);
}

static void flood(void)
{
	for (int i = 0; i < 10000; i++)
		sl_log_limited(SL_LOG_WARN, "test-flood", "peer %d", i);
	sl_log_limited(SL_LOG_WARN, "test-other", "has its own limit");
	sl_log_tell_left_out(false); /* too early: must tell nothing */
	sl_log_tell_left_out(true);
	sl_log_tell_left_out(true);
}

/* The number of lines that a peer can cause is bounded, and the lines that are left out are counted. */
static void lines_of_peers_are_limited(void **state)
{
	char *text = captured(flood);
	unsigned long long more = 0;
	int lines = 0;
	char *told;

	for (char *at = text; (at = strstr(at, "test-flood: peer ")); at++)
		lines++;
	assert_in_range(lines, 64, 90); /* one more is allowed per second, if this takes so long */
	assert_non_null(strstr(text, "test-other: has its own limit\n"));
	told = strstr(text, "WARN log-limit: ");
	assert_non_null(told);
	assert_int_equal(sscanf(told, "WARN log-limit: %llu more lines of \"test-flood\" were left out", &more), 1);
	assert_int_equal(more, 10000 - lines);
	assert_int_equal(sl_log_left_out(), more);
	assert_null(strstr(strstr(told, "left out"), "log-limit"));
}

static void warn_often(void)
{
	sl_log_set_level(SL_LOG_ERROR);
	for (int i = 0; i < 100; i++)
		sl_log(SL_LOG_WARN, i % 2 ? "test-even" : "test-odd", "value %d", i / 4);
	sl_log_set_level(SL_LOG_INFO);
}

/* For the summary of a run: each text once, a few of each id, also where the log has none. All are counted. */
static void warnings_are_kept(void **state)
{
	const uint64_t before = sl_log_warned();
	struct sl_log_warning w;
	int even = 0, n = 0;

	assert_string_equal(captured(warn_often), "");
	assert_int_equal(sl_log_warned() - before, 100);
	for (; sl_log_warning(n, &w); n++) {
		if (strcmp(w.id, "test-even") != 0)
			continue;
		assert_int_equal(w.text[6], '0' + even++);
	}
	assert_int_equal(even, SL_LOG_KEPT_OF_ID);
	assert_in_range(n, 8, SL_LOG_KEPT);
}

static void buf_never_grows(void **state)
{
	uint8_t mem[8] = {0};
	struct sl_buf buf = {mem, 0, 5};

	assert_int_equal(sl_buf_put(&buf, "abc", 3), SL_OK);
	assert_int_equal(sl_buf_put(&buf, "def", 3), SL_ERR_LIMIT);
	assert_int_equal(buf.len, 3);
	assert_int_equal(mem[3], 0);
	assert_int_equal(sl_buf_put(&buf, "de", 2), SL_OK);
	assert_int_equal(sl_buf_put(&buf, NULL, 0), SL_OK);
	assert_int_equal(sl_buf_put(&buf, "x", SIZE_MAX), SL_ERR_LIMIT);
	assert_memory_equal(mem, "abcde\0\0\0", 8);
}

static void bytes_are_taken_in_order(void **state)
{
	struct sl_bytes in = {(const uint8_t *)"abcde", 5}, out = {0};

	assert_int_equal(sl_bytes_take(&in, 2, &out), SL_OK);
	assert_memory_equal(out.data, "ab", 2);
	assert_int_equal(sl_bytes_take(&in, 4, &out), SL_ERR_DATA);
	assert_int_equal(out.len, 2);
	assert_int_equal(in.len, 3);
	assert_int_equal(sl_bytes_take(&in, 3, &out), SL_OK);
	assert_memory_equal(out.data, "cde", 3);
	assert_int_equal(sl_bytes_take(&in, 1, &out), SL_ERR_DATA);
	assert_int_equal(sl_bytes_take(&in, 0, &out), SL_OK);
}

static void file_read_checks(void **state)
{
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	struct sl_fail fail;
	uint8_t *data = NULL;
	char path[4096];
	size_t len = 0;
	FILE *file;

	snprintf(path, sizeof path, "%s/file_read_%d", dir, (int)getpid());
	assert_int_equal(sl_file_read(path, 100, &data, &len, &fail), SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, path));
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("hello", file);
	fclose(file);
	assert_int_equal(sl_file_read(path, 4, &data, &len, &fail), SL_ERR_LIMIT);
	assert_null(data);
	assert_int_equal(sl_file_read(path, 5, &data, &len, &fail), SL_OK);
	assert_int_equal(len, 5);
	assert_string_equal((char *)data, "hello");
	free(data);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(sl_file_read(path, 5, &data, &len, &fail), SL_ERR_NOINPUT);
	unlink(path);
	assert_int_equal(sl_file_read(dir, 5, &data, &len, &fail), SL_ERR_NOINPUT);
}

static void arena_cuts(void **state)
{
	struct sl_arena arena = {0};
	struct sl_fail fail;
	unsigned char *a, *b;

	assert_int_equal(sl_arena_open(&arena, 5 << 20, &fail), SL_OK);
	assert_int_equal((uintptr_t)arena.base % (2 << 20), 0);
	a = sl_arena_take(&arena, 1);
	b = sl_arena_take(&arena, (5 << 20) - 64);
	assert_int_equal(b - a, 64);
	assert_int_equal((uintptr_t)b % SL_ARENA_ALIGN, 0);
	for (size_t i = 0; i < (5 << 20) - 64; i++)
		if (b[i])
			fail_msg("byte %zu is not zero", i);
	memset(b, 1, (5 << 20) - 64);
	assert_null(sl_arena_take(&arena, 1));
	assert_null(sl_arena_take(&arena, SIZE_MAX));
	assert_null(sl_arena_take(&arena, SIZE_MAX - 10));
	sl_arena_close(&arena);
	sl_arena_close(&arena);
	assert_null(arena.base);
}

static void arena_extremes(void **state)
{
	struct sl_arena arena = {0};
	struct sl_fail fail;

	assert_int_equal(sl_arena_open(&arena, 0, &fail), SL_OK);
	assert_null(sl_arena_take(&arena, 1));
	sl_arena_close(&arena);
	assert_int_equal(sl_arena_open(&arena, SIZE_MAX, &fail), SL_ERR_NOMEM);
	assert_int_equal(sl_arena_open(&arena, SIZE_MAX - 10, &fail), SL_ERR_NOMEM);
	assert_int_equal(sl_arena_open(&arena, (size_t)1 << 60, &fail), SL_ERR_NOMEM);
	assert_null(arena.base);
}

/* Sums of the memory that a peer may ask for saturate at UINT64_MAX. */
static void needs_do_not_wrap(void **state)
{
	struct sl_memory a = {UINT64_MAX - 5, 7}, b = {4, UINT64_MAX - 6};
	uint64_t sum = 1;

	sl_need(&sum, 3, 5);
	assert_true(sum == 16);
	sl_need(&sum, 0, UINT64_MAX);
	assert_true(sum == 16);
	sl_need(&sum, INT64_MAX, 3);
	assert_true(sum == UINT64_MAX);
	sum = 0;
	sl_need(&sum, -1, 0);
	assert_true(sum == UINT64_MAX);
	sum = 2;
	sl_need(&sum, 1, UINT64_MAX - 1);
	assert_true(sum == UINT64_MAX);
	sl_memory_add(&a, b);
	assert_true(a.host == UINT64_MAX - 1 && a.device == UINT64_MAX);
	assert_true(sl_memory_total(a) == UINT64_MAX && sl_memory_total((struct sl_memory){2, 3}) == 5);
}

/* Insertions, deletions, replacements, and swaps of two neighbours. */
static void edits_are_counted(void **state)
{
	static const struct {
		const char *a, *b;
		int edits;
	} cases[] = {{"", "", 0},         {"abc", "abc", 0}, {"abc", "abd", 1},
		     {"abc", "ab", 1},    {"ab", "abc", 1},  {"trian", "train", 1},
		     {"abcd", "badc", 2}, {"", "abc", 3},    {"kitten", "sitting", 3}};
	struct sl_nearest best = {NULL, 0};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(sl_nearest_edits(cases[i].a, strlen(cases[i].a), cases[i].b), cases[i].edits);
	sl_nearest_offer(&best, "x", 1, "y"); /* too far: the edit would replace the whole word */
	assert_null(best.name);
	sl_nearest_offer(&best, "chunk", 5, "chink");
	sl_nearest_offer(&best, "chunk", 5, "chunks");
	assert_string_equal(best.name, "chink"); /* of two equally near names the first */
	sl_nearest_offer(&best, "chunk", 5, "batch");
	assert_string_equal(best.name, "chink");
}

static void clock_advances(void **state)
{
	uint64_t start = sl_now_ns();

	usleep(2000);
	assert_true(sl_seconds_since(start) >= 0.002);
	assert_true(sl_now_ms() >= start / 1000000u + 2);
}

static void folders_are_made_and_synced(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char top[256], path[512];
	struct sl_fail fail;
	struct stat st;
	FILE *file;

	snprintf(top, sizeof top, "%s/folders-%d", tmp ? tmp : "/tmp", (int)getpid());
	snprintf(path, sizeof path, "%s/a/b/", top);
	for (int again = 0; again < 2; again++)
		assert_int_equal(sl_folder_make(path, 0700, &fail), SL_OK);
	assert_true(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
	assert_int_equal(sl_folder_sync_of(path), 0);
	assert_int_equal(sl_folder_sync_of("relative"), 0);
	assert_int_equal(sl_folder_sync_of("/"), 0);
	assert_int_equal(sl_folder_sync_of("/proc/none"), 0); /* fsync of /proc is EINVAL */
	snprintf(path, sizeof path, "%s/none/file", top);
	assert_int_equal(sl_folder_sync_of(path), -1);
	assert_int_equal(errno, ENOENT);
	snprintf(path, sizeof path, "%s/a/file", top);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(sl_folder_make(path, 0700, &fail), SL_ERR_CANTCREATE);
	assert_non_null(strstr(fail.text, "/a/file: Not a directory"));
	strcat(path, "/below");
	assert_int_equal(sl_folder_make(path, 0700, &fail), SL_ERR_CANTCREATE);
	assert_non_null(strstr(fail.text, "/a/file: Not a directory"));
	assert_int_equal(sl_folder_make("", 0700, &fail), SL_OK); /* the current directory */
	for (int i = 0; i < 4; i++) {
		const char *const each[] = {"/a/file", "/a/b", "/a", ""};

		snprintf(path, sizeof path, "%s%s", top, each[i]);
		assert_int_equal(remove(path), 0);
	}
}

static void text_fits_its_columns(void **state)
{
	char text[256];
	FILE *file = fmemopen(text, sizeof text, "w");

	assert_non_null(file);
	sl_print_wrapped(file, "one two… [--set KEY=VALUE]… three", 2, 11);
	sl_print_wrapped(file, "one two… [--set KEY=VALUE]… three", 2, 0);
	sl_print_wrapped(file, "", 2, 11);
	for (int i = 0; i < 2; i++) {
		fputs("a ", file);
		sl_print_cell(file, i ? "quant:16" : "quant:8", 2, 7);
		fputs(" 4\n", file);
	}
	sl_print_cell(file, "r…", 0, 3);
	fclose(file);
	assert_string_equal(text, "one two…\n  [--set KEY=VALUE]…\n  three\n"
				  "one two… [--set KEY=VALUE]… three\n"
				  "\n"
				  "a quant:8 4\n"
				  "a quant:16\n          4\n"
				  "r… ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_failure_names_its_key),
		cmocka_unit_test(err_map_is_whole),
		cmocka_unit_test(fail_text_is_one_line),
		cmocka_unit_test(log_lines),
		cmocka_unit_test(lines_of_peers_are_limited),
		cmocka_unit_test(warnings_are_kept),
		cmocka_unit_test(buf_never_grows),
		cmocka_unit_test(bytes_are_taken_in_order),
		cmocka_unit_test(file_read_checks),
		cmocka_unit_test(arena_cuts),
		cmocka_unit_test(arena_extremes),
		cmocka_unit_test(needs_do_not_wrap),
		cmocka_unit_test(edits_are_counted),
		cmocka_unit_test(clock_advances),
		cmocka_unit_test(folders_are_made_and_synced),
		cmocka_unit_test(text_fits_its_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
