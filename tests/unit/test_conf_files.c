/* Configs as files: lists of rows, and files that are not there or too large. */
#include <unistd.h>

#include "common/conf/conf.h"
#include "tests/support/unit.h"

/* Each list is checked: no more rows than fit, and each row with its required keys. */
static void rows_are_counted_and_whole(void **state)
{
	static const struct {
		const char *text, *expect; /* NULL: fine */
	} cases[] = {
		{"- {name: a}\n- {name: b}\n", NULL},
		{"- {name: a}\n- {name: b}\n- {name: c}\n", ":3:3: the list has more than 2 rows"},
		{"- {name: a}\n- {chunks: 2}\n", ":2:3: name is missing"},
		{"- {name: a}\n- b\n", ":2:3: a row must be a section of keys, got a single value"},
		{"name: a\n", "the file must be a list of rows, got a section of keys"},
		{"- {name: a}\n---\n- {name: b}\n", "one document per file"},
	};
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	struct sl_conf_sweep_row row[3];
	struct sl_fail fail;
	char path[4096];

	snprintf(path, sizeof path, "%s/rows-%d.yaml", dir, (int)getpid());
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		FILE *file = fopen(path, "w");
		enum sl_err err;
		int n = 0;

		assert_non_null(file);
		fputs(cases[i].text, file);
		fclose(file);
		memset(&row[2], 0x5a, sizeof row[2]);
		err = sl_conf_load_list(&sl_conf_sweep_schema, row, 2, &n, path, &fail);
		assert_int_equal(err, cases[i].expect ? SL_ERR_CONFIG : SL_OK);
		if (cases[i].expect && !strstr(fail.text, cases[i].expect))
			fail_msg("%s\n  gave     %s\n  expected %s", cases[i].text, fail.text, cases[i].expect);
		for (size_t k = 0; k < sizeof row[2]; k++)
			assert_int_equal(((unsigned char *)&row[2])[k], 0x5a);
	}
	unlink(path);
}

static void files_that_cannot_be_read(void **state)
{
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	struct sl_conf_client c;
	struct sl_fail fail;
	char path[4096];
	FILE *file;

	assert_int_equal(sl_conf_client_load(&c, "/nonexistent/c.yaml", NULL, 0, &fail), SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, "/nonexistent/c.yaml"));
	snprintf(path, sizeof path, "%s/big-%d.yaml", dir, (int)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i < SL_CONF_MAX_BYTES / 16 + 1; i++)
		fputs("# 3456789012345\n", file);
	fclose(file);
	assert_int_equal(sl_conf_client_load(&c, path, NULL, 0, &fail), SL_ERR_CONFIG);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_counted_and_whole),
		cmocka_unit_test(files_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
