/* The form of lines, by the first one with data. */

#include "common/base/form.h"

#include <string.h>

#include "tests/support/unit.h"

static const char *const two[] = {"text", "other text"};

static enum sl_form form_of(const char *line, int n, int *named)
{
	return sl_form_of((struct sl_bytes){(const uint8_t *)line, strlen(line)}, two, n, named);
}

static void forms(void **state)
{
	static const struct {
		const char *line;
		int n, named;
		enum sl_form form;
	} all[] = {
		{"", 1, 0, SL_FORM_EMPTY},
		{"\xef\xbb\xbf \t\r\n", 1, 0, SL_FORM_EMPTY},
		{"{\"text\": 1}", 1, 0, SL_FORM_JSON},
		{"\xef\xbb\xbf [ {}]", 1, 0, SL_FORM_JSON},
		{"[a] text", 1, 0, SL_FORM_OTHER},
		{"[", 1, 0, SL_FORM_OTHER},
		{"text", 1, 1, SL_FORM_HEADER},
		{"text", 2, 1, SL_FORM_OTHER},
		{"text", 0, 0, SL_FORM_OTHER},
		{"label,\"text\"\r", 1, 1, SL_FORM_HEADER},
		{"other text;text", 2, 2, SL_FORM_HEADER},
		{"other text\tlabel\ttext", 2, 2, SL_FORM_HEADER},
		{"text and more, text", 1, 0, SL_FORM_OTHER},
		{"texts,a text", 1, 0, SL_FORM_OTHER},
		{",,", 1, 0, SL_FORM_OTHER},
	};

	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		int named = -1;

		assert_int_equal(form_of(all[i].line, all[i].n, &named), all[i].form);
		assert_int_equal(named, all[i].named);
	}
	assert_int_equal(sl_form_of((struct sl_bytes){NULL, 0}, two, 1, &(int){0}), SL_FORM_EMPTY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(forms)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
