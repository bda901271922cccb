/* Codec specifications: one canonical spelling, errors that suggest a correct one, and ascending ids. */

#include "common/codec/codec.h"
#include "common/codec/stage.h"
#include "tests/support/unit.h"

static void specs_have_one_canonical_form(void **state)
{
	static const char *const cases[][2] = {
		{"none", "none"},
		{"quant:8", "quant:8"},
		{"quant:08,per=tensor", "quant:8"},
		{"quant:4,round=stochastic,per=channel", "quant:4,per=channel,round=stochastic"},
		{"topk:0.20|quant:8", "topk:0.2|quant:8"},
		{"topk:1e-3", "topk:0.001"},
		{"topk:0.1|none", "topk:0.1"},
		{"quant:6,eval=8,change=4|zstd", "quant:6,change=4,eval=8|zstd"},
		{"topk:0.1,ef=true|quant:8,block=512", "topk:0.1,ef=true|quant:8,block=512"},
		{"quant:8,ef=false", "quant:8"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_codec_spec spec, again;
		struct sl_fail fail = {0};

		if (sl_codec_parse(cases[i][0], &spec, &fail) != SL_OK)
			fail_msg("%s: %s", cases[i][0], fail.text);
		assert_string_equal(spec.text, cases[i][1]);
		assert_int_equal(sl_codec_parse(spec.text, &again, &fail), SL_OK);
		assert_string_equal(again.text, spec.text);
	}
}

static void bad_specs_say_what_would_be_right(void **state)
{
	static const char *const cases[][2] = {
		{"", "no method is called ''"},
		{"qunat:8", "no method is called 'qunat': did you mean \"quant\"?"},
		{"f16|zst:3", "no method is called 'zst': did you mean \"zstd\"?"},
		{"gzip", "no method is called 'gzip'"},
		{"quant", "quant:b with b = 1…16"},
		{"quant:", "quant:b with b = 1…16"},
		{"quant:0", "got '0'"},
		{"quant:17", "got '17'"},
		{"quant:8.5", "got '8.5'"},
		{"quant:nan", "got 'nan'"},
		{"quant:0x8", "got '0x8'"},
		{"quant:8+8", "got '8'"},
		{"quant:8,bucket=3", "no option 'bucket'"},
		{"quant:8,per=row", "got 'row'"},
		{"quant:8,per=channel,per=channel", "given twice"},
		{"quant:8,ef=true,ef=false", "'ef' is given twice for quant"},
		{"quant:8,per=channel,block=64", "not both"},
		{"topk:0", "topk:r with 0 < r ≤ 1"},
		{"topk:1.5", "got '1.5'"},
		{"topk:-1", "got '-1'"},
		{"topk:0.1|quant:8,per=channel", "needs the tensor's channels"},
		{"topk:0.1|quant:8,change=4", "begins its chain: leave topk out"},
		{"quant:8,change=4,ef=true", "does without ef=true"},
		{"quant:8,change=4,block=64", "leave block and per out"},
		{"quant:8,change=1", "change=2…16"},
		{"topk:0.1|quant:8,per=sample", "needs the tensor's samples"},
		{"quant:8|topk:0.1", "cannot follow"},
		{"quant:8|quant:8", "cannot follow"},
		{"topk:0.1|topk:0.1|topk:0.1|topk:0.1|quant:8", "at most 4 stages"},
		{"quant:8|", "no method is called ''"},
		{"topk:0.1|quant:8,ef=true", "first stage"},
		{"quant:8,ef=1", "got '1'"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_codec_spec spec = {.n_stage = -1};
		struct sl_fail fail = {0};

		if (sl_codec_parse(cases[i][0], &spec, &fail) != SL_ERR_CONFIG)
			fail_msg("'%s' was taken", cases[i][0]);
		assert_int_equal(spec.n_stage, -1);
		if (strstr(fail.text, cases[i][1]) == NULL)
			fail_msg("'%s': %s", cases[i][0], fail.text);
	}
}

static void stages_are_listed_by_ascending_id(void **state)
{
	const struct sl_codec_stage *const *s = sl_codec_stages();

	for (; s[1] != NULL; s++)
		assert_true(s[0]->id < s[1]->id);
	assert_string_equal(sl_dir_name(SL_DIR_MID_GRAD), "mid_grad");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specs_have_one_canonical_form),
		cmocka_unit_test(bad_specs_say_what_would_be_right),
		cmocka_unit_test(stages_are_listed_by_ascending_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
