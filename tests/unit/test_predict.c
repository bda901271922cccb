/* Lines of `splitc predict`. */
#include <math.h>

#include "client/predict/predict.h"
#include "tests/support/unit.h"

enum { CLASSES = 3, BATCH = 2 };

/* Three rows in two batches: one predicted rightly, one tie, and one with a probability of 0. */
static char *write_three(struct sl_predict_spec spec)
{
	static const float row[3][CLASSES] = {{0, 0, 0.6931472f}, {1, -1, 1}, {-INFINITY, 2, 0}};
	static const int32_t label[3] = {2, 2, 1};
	struct sl_predict p;
	struct sl_fail fail;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	spec.out = out;
	assert_int_equal(sl_predict_open(&p, &spec, BATCH, &fail), SL_OK);
	memcpy(p.row, row, 2 * sizeof row[0]);
	sl_predict_batch(&p, label, (const int32_t[]){0, 1}, NULL, 2);
	memcpy(p.row, row[2], sizeof row[2]);
	sl_predict_batch(&p, label + 2, (const int32_t[]){2}, NULL, 1);
	fclose(out);
	assert_int_equal(p.rows, 3);
	assert_int_equal(p.correct, 2);
	sl_predict_close(&p);
	sl_predict_close(&p);
	return text;
}

static void check_spec(struct sl_predict_spec spec, const char *want)
{
	char *text = write_three(spec);

	assert_string_equal(text, want);
	free(text);
}

static void check(enum sl_predict_format format, bool logits, const char *want)
{
	check_spec((struct sl_predict_spec){.format = format,
					    .logits = logits,
					    .task = &sl_learn_tasks[SL_LEARN_CLASSES],
					    .classes = CLASSES},
		   want);
}

static void text_has_the_class_and_its_probability(void **state)
{
	check(SL_PREDICT_TEXT, false,
	      "  sample  label  class  probability\n"
	      "       0      2      2  0.5000\n"
	      "       1      2      0  0.4683\n"
	      "       2      1      1  0.8808\n");
}

static void csv_has_all_classes(void **state)
{
	check(SL_PREDICT_CSV, true,
	      "sample,label,class,logit_0,logit_1,logit_2\n"
	      "0,2,2,0,0,0.6931472\n"
	      "1,2,0,1,-1,1\n"
	      "2,1,1,,2,0\n");
}

static void json_is_an_object_a_line(void **state)
{
	check(SL_PREDICT_JSON, true,
	      "{\"sample\":0,\"label\":2,\"class\":2,\"logits\":[0,0,0.6931472]}\n"
	      "{\"sample\":1,\"label\":2,\"class\":0,\"logits\":[1,-1,1]}\n"
	      "{\"sample\":2,\"label\":1,\"class\":1,\"logits\":[null,2,0]}\n");
}

/* Names that CSV and JSON have to quote. A control character becomes '?'. */
static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	static const char *const names[] = {"a,b.jpg", "say \"c\".png", "back\\slash\n"};

	snprintf(out, size, "%s", names[index]);
	return out;
}

static void names_and_the_most_probable(void **state)
{
	static const char *const class_name[CLASSES] = {"cat", "dog, small", "hen"};
	static const struct sl_source source = {.sample_name = sample_name};
	const struct sl_set set = {.source = &source};
	struct sl_predict_spec spec = {.unlabelled = true,
				       .top = 2,
				       .task = &sl_learn_tasks[SL_LEARN_CLASSES],
				       .classes = CLASSES,
				       .set = &set,
				       .class_name = class_name};
	check_spec(spec, "  sample  class  probability  others  class_name  name\n"
			 "       0      2  0.5000  cat 0.2500  hen  a,b.jpg\n"
			 "       1      0  0.4683  hen 0.4683  cat  say \"c\".png\n"
			 "       2      1  0.8808  hen 0.1192  dog, small  back\\slash?\n");
	spec.format = SL_PREDICT_CSV;
	spec.logits = true;
	check_spec(spec, "sample,class,class_1,class_name_1,logit_1,class_2,class_name_2,logit_2,class_name,name\n"
			 "0,2,2,hen,0.6931472,0,cat,0,hen,\"a,b.jpg\"\n"
			 "1,0,0,cat,1,2,hen,1,cat,\"say \"\"c\"\".png\"\n"
			 "2,1,1,\"dog, small\",2,2,hen,0,\"dog, small\",back\\slash?\n");
	spec.format = SL_PREDICT_JSON;
	check_spec(spec, "{\"sample\":0,\"name\":\"a,b.jpg\",\"class\":2,\"class_name\":\"hen\",\"top\":["
			 "{\"class\":2,\"class_name\":\"hen\",\"logit\":0.6931472},"
			 "{\"class\":0,\"class_name\":\"cat\",\"logit\":0}]}\n"
			 "{\"sample\":1,\"name\":\"say \\\"c\\\".png\",\"class\":0,\"class_name\":\"cat\",\"top\":["
			 "{\"class\":0,\"class_name\":\"cat\",\"logit\":1},"
			 "{\"class\":2,\"class_name\":\"hen\",\"logit\":1}]}\n"
			 "{\"sample\":2,\"name\":\"back\\\\slash?\",\"class\":1,\"class_name\":\"dog, small\",\"top\":["
			 "{\"class\":1,\"class_name\":\"dog, small\",\"logit\":2},"
			 "{\"class\":2,\"class_name\":\"hen\",\"logit\":0}]}\n");
}

static void names_may_have_line_ends(void **state)
{
	static const char *const class_name[CLASSES] = {"cat\r", "dog", "hen\nbrown"};
	struct sl_predict_spec spec = {.unlabelled = true,
				       .task = &sl_learn_tasks[SL_LEARN_CLASSES],
				       .classes = CLASSES,
				       .class_name = class_name};
	check_spec(spec, "  sample  class  probability  class_name\n"
			 "       0      2  0.5000  hen?brown\n"
			 "       1      0  0.4683  cat?\n"
			 "       2      1  0.8808  dog\n");
	spec.format = SL_PREDICT_CSV;
	spec.logits = true;
	check_spec(spec, "sample,class,\"logit_cat\r\",logit_dog,\"logit_hen\nbrown\",class_name\n"
			 "0,2,0,0,0.6931472,\"hen\nbrown\"\n"
			 "1,0,1,-1,1,\"cat\r\"\n"
			 "2,1,,2,0,dog\n");
	spec.format = SL_PREDICT_JSON;
	check_spec(spec, "{\"sample\":0,\"class\":2,\"class_name\":\"hen\\u000abrown\",\"logits\":[0,0,0.6931472]}\n"
			 "{\"sample\":1,\"class\":0,\"class_name\":\"cat\\u000d\",\"logits\":[1,-1,1]}\n"
			 "{\"sample\":2,\"class\":1,\"class_name\":\"dog\",\"logits\":[null,2,0]}\n");
}

/* The loader replaced sample 1, which cannot be read, by sample 2. */
static void a_sample_that_cannot_be_read_has_no_line(void **state)
{
	struct sl_predict_spec spec = {
		.format = SL_PREDICT_CSV, .task = &sl_learn_tasks[SL_LEARN_CLASSES], .classes = CLASSES, .top = 1};
	static const int32_t label[3] = {0, 0, 0}, samples[3] = {0, 2, 2};
	struct sl_predict p;
	struct sl_fail fail;
	char *text = NULL;
	size_t len;

	spec.out = open_memstream(&text, &len);
	assert_non_null(spec.out);
	assert_int_equal(sl_predict_open(&p, &spec, 3, &fail), SL_OK);
	memset(p.row, 0, 3 * CLASSES * sizeof *p.row);
	sl_predict_batch(&p, label, samples, NULL, 3);
	fclose(spec.out);
	assert_int_equal(p.rows, 3);
	assert_int_equal(p.unread, 1);
	assert_int_equal(p.correct, 2);
	assert_string_equal(text,
			    "sample,label,class,class_1,probability_1\n0,0,0,0,0.333333333\n2,0,0,0,0.333333333\n");
	free(text);
	sl_predict_close(&p);
}

/* Of classes, numbers and labels alike, in any format: lines up to such a sample, and a sentence that names it. */
static void a_sample_without_a_prediction_ends_the_command(void **state)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	static const enum sl_learn_kind kind[] = {SL_LEARN_CLASSES, SL_LEARN_LABELS, SL_LEARN_NUMBER};
	static const struct sl_source source = {.sample_name = sample_name};
	static const int32_t target[3 * CLASSES];
	const struct sl_set set = {.source = &source};

	for (int at = 0; at < 27; at++) {
		struct sl_predict_spec spec = {.format = (enum sl_predict_format)(at % 3),
					       .task = &sl_learn_tasks[kind[at / 3 % 3]],
					       .classes = CLASSES,
					       .set = &set};
		const bool fine = isinf(bad[at / 9]) && bad[at / 9] < 0 && kind[at / 3 % 3] != SL_LEARN_NUMBER;
		struct sl_predict p;
		struct sl_fail fail;
		char *text = NULL;
		size_t len;
		int lines = 0;

		spec.out = open_memstream(&text, &len);
		assert_non_null(spec.out);
		assert_int_equal(sl_predict_open(&p, &spec, 3, &fail), SL_OK);
		memset(p.row, 0, 3 * CLASSES * sizeof *p.row);
		p.row[CLASSES + 2] = bad[at / 9];
		sl_predict_batch(&p, target, (const int32_t[]){0, 1, 2}, NULL, 3);
		fclose(spec.out);
		for (size_t i = 0; i < len; i++)
			lines += text[i] == '\n';
		assert_int_equal(lines - (spec.format != SL_PREDICT_JSON), fine ? 3 : 1);
		assert_int_equal(p.fail.code, fine ? SL_OK : SL_ERR_NONFINITE);
		if (!fine)
			assert_non_null(
				strstr(p.fail.text, "sample 1 (say \"c\".png): the network's outputs hold NaN"));
		free(text);
		sl_predict_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_may_have_line_ends),
		cmocka_unit_test(a_sample_without_a_prediction_ends_the_command),
		cmocka_unit_test(a_sample_that_cannot_be_read_has_no_line),
		cmocka_unit_test(text_has_the_class_and_its_probability),
		cmocka_unit_test(csv_has_all_classes),
		cmocka_unit_test(json_is_an_object_a_line),
		cmocka_unit_test(names_and_the_most_probable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
