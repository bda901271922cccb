/* The note on a run's audits: what is written is read, and a damaged file is refused, whatever its numbers are. */
#include <unistd.h>

#include "client/persist/audit_note.h"
#include "tests/support/unit.h"

static char dir[] = "/tmp/test_audit_note.XXXXXX";
static struct sl_conf_client conf;

static void what_is_written_is_read(void **state)
{
	struct sl_audit_note note = {.begun = 3, .ended = 2, .in_row = 1, .owed = 1, .expects = 7, .hash = 9}, read;
	struct sl_fail fail;

	sl_audit_note_know(&note, 5, 11);
	sl_audit_note_write(&note, &conf);
	assert_int_equal(sl_audit_note_read(&read, &conf, &fail), SL_OK);
	assert_memory_equal(&read, &note, sizeof note);
}

/* The counts would wrap, or say that more audits have ended than began. */
static void counts_that_cannot_be(void **state)
{
	static const char *const counts[] = {
		"5 6 0 0",
		"5 5 0 1",
		"5 4 0 2",
		"5 18446744073709551615 0 1",
		"18446744073709551615 4 0 1",
		"99999999999999999999 4 0 1",
		"-1 4 0 1",
	};
	struct sl_audit_note read;
	char path[64], key[SL_KEY_TEXT];
	struct sl_fail fail;

	snprintf(path, sizeof path, "%s/" SL_AUDIT_NOTE, dir);
	sl_key_print(&(struct sl_key){{1}}, key);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		fprintf(f, "%s 0 0 %s\n", counts[i], key);
		fclose(f);
		assert_int_equal(sl_audit_note_read(&read, &conf, &fail), SL_ERR_DATA);
		assert_non_null(strstr(fail.text, "is damaged"));
	}
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(counts_that_cannot_be),
	};
	int failed;

	assert_non_null(mkdtemp(dir));
	snprintf(conf.log.dir, sizeof conf.log.dir, "%s", dir);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
