/* The agreement and its text. A text that was written is read back, and each
 * agreement has exactly one spelling. A value out of bounds is refused by the name
 * of its key. Where two agreements differ, the first differing key is named. */

#include "tests/support/asked.h"
#include "tests/support/unit.h"

static const char plain[] = "agree 1\ntrain.batch = 64\ntrain.chunks = 4\n";

static struct sl_agreed other_than_default(void)
{
	struct sl_agreed a = sl_agreed_default();

	a.batch = 64;
	a.chunks = 8;
	a.seed = INT64_C(1) << 53;
	a.precision = SL_CONF_BF16;
	a.optimizer.kind = SL_CONF_ADAMW;
	a.optimizer.beta1 = 0.1 + 0.2; /* needs 17 digits */
	a.optimizer.weight_decay = 1e-4;
	strcpy(a.codec[0], "quant:8");
	strcpy(a.codec[2], "topk:0.1|f16");
	return a;
}

static void the_text_is_the_rows_that_are_no_default(void **state)
{
	struct sl_agreed a = sl_agreed_default(), read;
	char text[SL_AGREED_TEXT], again[SL_AGREED_TEXT];
	struct sl_fail fail;

	a.batch = 64;
	assert_int_equal(sl_agreed_write(&a, text), strlen(plain));
	assert_string_equal(text, plain);
	a = other_than_default();
	a.optimizer.momentum = 0.5; /* sgd's key; adamw does not use it, so it is not written */
	sl_agreed_write(&a, text);
	assert_string_equal(text, "agree 1\n"
				  "train.batch = 64\n"
				  "train.chunks = 8\n"
				  "train.seed = 9007199254740992\n"
				  "train.precision = bf16\n"
				  "train.optimizer.kind = adamw\n"
				  "train.optimizer.beta1 = 0.30000000000000004\n"
				  "train.optimizer.weight_decay = 0.0001\n"
				  "codec.head_act = quant:8\n"
				  "codec.mid_grad = topk:0.1|f16\n");
	assert_int_equal(sl_agreed_read(&read, text, strlen(text), &fail), SL_OK);
	assert_true(read.optimizer.beta1 == a.optimizer.beta1 && read.seed == a.seed);
	sl_agreed_write(&read, again);
	assert_string_equal(again, text);
}

/* An agreement from a version before share.ends has no such key. It still means private heads and tails. */
static void heads_and_tails_are_private_unless_it_says_so(void **state)
{
	static const char old[] = "agree 1\ntrain.batch = 64\ntrain.chunks = 4\nshare.group = g\n";
	char text[SL_AGREED_TEXT];
	struct sl_agreed a;
	struct sl_fail fail;

	assert_int_equal(sl_agreed_read(&a, old, strlen(old), &fail), SL_OK);
	assert_int_equal(a.share.ends, SL_ENDS_PRIVATE);
	a.share.ends = SL_ENDS_STEP;
	sl_agreed_write(&a, text);
	assert_non_null(strstr(text, "share.ends = step\n"));
	assert_int_equal(sl_agreed_same(old, strlen(old), &a, &fail), SL_ERR_MISMATCH);
	assert_string_equal(fail.text, "share.ends: was private, is step");
}

static void any_agreement_has_room(void **state)
{
	struct sl_agreed a = other_than_default();
	char text[SL_AGREED_TEXT];

	a.batch = 1048575;
	a.chunks = 255;
	a.optimizer.beta1 = a.optimizer.beta2 = 0.123456789012345678;
	a.optimizer.eps = a.optimizer.weight_decay = 1.2345678901234567e-16;
	for (int dir = 0; dir < 4; dir++)
		memset(a.codec[dir], 'q', SL_CONF_CODEC_TEXT - 1);
	assert_true(sl_agreed_write(&a, text) < SL_AGREED_TEXT / 2);
}

static void refused(const char *text, size_t len, enum sl_err code, const char *key, const char *phrase)
{
	struct sl_agreed a = {.batch = -77};
	struct sl_fail fail;

	if (sl_agreed_read(&a, text, len, &fail) != code || strcmp(fail.key, key) != 0 || !strstr(fail.text, phrase))
		fail_msg("'%.200s': key '%s', \"%s\", has no \"%s\"", text, fail.key, fail.text, phrase);
	assert_int_equal(a.batch, -77);
}

static void what_is_out_of_bounds_is_refused_by_its_key(void **state)
{
	static const struct {
		const char *lines, *key, *phrase;
		enum sl_err code;
	} bad[] = {
		{"train.batch = 0\ntrain.chunks = 1\n", "train.batch", "1 to 1048576", SL_ERR_LIMIT},
		{"train.batch = 1048577\ntrain.chunks = 1\n", "train.batch", "got \"1048577\"", SL_ERR_LIMIT},
		{"train.batch = 18446744073709551617\n", "train.batch", "got", SL_ERR_LIMIT},
		{"train.batch = 512\ntrain.chunks = 257\n", "train.chunks", "1 to 256", SL_ERR_LIMIT},
		{"train.batch = 4\ntrain.chunks = 5\n", "train.chunks", "at most train.batch (4), got 5", SL_ERR_LIMIT},
		{"train.seed = -1\n", "train.seed", "got \"-1\"", SL_ERR_LIMIT},
		{"train.precision = fp8\n", "train.precision", "fp32, tf32, bf16, fp16 or bf16_factors", SL_ERR_CONFIG},
		{"train.optimizer.momentum = 1\n", "train.optimizer.momentum", "0.9999", SL_ERR_LIMIT},
		{"train.optimizer.momentum = nan\n", "train.optimizer.momentum", "got \"nan\"", SL_ERR_LIMIT},
		{"train.optimizer.nesterov = yes\n", "train.optimizer.nesterov", "true or false", SL_ERR_LIMIT},
		{"codec.mid_act = \n", "codec.mid_act", "must be a codec", SL_ERR_CONFIG},
		{"train.batches = 4\n", "", "'train.batches' is not known here", SL_ERR_CONFIG},
		{"train.batch=4\n", "", "not KEY = VALUE", SL_ERR_PROTOCOL},
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char text[512];

		snprintf(text, sizeof text, "agree 1\n%s", bad[i].lines);
		refused(text, strlen(text), bad[i].code, bad[i].key, bad[i].phrase);
	}
}

static void there_is_one_spelling(void **state)
{
	static const char *const bad[] = {
		"agree 1\ntrain.chunks = 4\ntrain.batch = 64\n",                   /* order */
		"agree 1\ntrain.batch = 64\ntrain.batch = 64\ntrain.chunks = 4\n", /* twice */
		"agree 1\ntrain.batch = 64\n",                                     /* train.chunks is required */
		"agree 1\ntrain.batch = 064\ntrain.chunks = 4\n",                  /* leading zero */
		"agree 1\ntrain.batch = +64\ntrain.chunks = 4\n",                  /* a sign */
		"agree 1\ntrain.batch = 64\ntrain.chunks = 4\ntrain.seed = 0\n",   /* a default, written out */
		"agree 1\ntrain.batch = 64\ntrain.chunks = 4\ntrain.optimizer.momentum = 0.50\n",
		"agree 1\ntrain.batch = 64\ntrain.chunks = 4\ntrain.optimizer.beta1 = 0.5\n", /* not a key of sgd */
		"agree 1\ntrain.batch = 64 \ntrain.chunks = 4\n",
		"agree 1\n\ntrain.batch = 64\ntrain.chunks = 4\n",
		"agree 1\ntrain.batch = 64\ntrain.chunks = 4", /* the last line is not terminated */
		"agree 2\ntrain.batch = 64\ntrain.chunks = 4\n",
		"agree 1",
		"",
	};
	static const char zero[] = "agree 1\ntrain.batch = 64\0\ntrain.chunks = 4\n";
	char endless[SL_AGREED_TEXT] = "agree 1\n";
	struct sl_agreed a;
	struct sl_fail fail;

	assert_int_equal(sl_agreed_read(&a, plain, strlen(plain), &fail), SL_OK);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (sl_agreed_read(&a, bad[i], strlen(bad[i]), &fail) == SL_OK || fail.text[0] == 0)
			fail_msg("'%s' was read", bad[i]);
	refused(zero, sizeof zero - 1, SL_ERR_PROTOCOL, "", "too long");
	memset(endless + 8, 'x', sizeof endless - 8);
	refused(endless, sizeof endless, SL_ERR_PROTOCOL, "", "too long");
}

static void the_first_key_that_differs_is_named(void **state)
{
	struct sl_agreed is = sl_agreed_default();
	struct sl_fail fail;

	is.batch = 64;
	assert_int_equal(sl_agreed_same(plain, strlen(plain), &is, &fail), SL_OK);
	is.batch = 128;
	strcpy(is.codec[3], "f16");
	assert_int_equal(sl_agreed_same(plain, strlen(plain), &is, &fail), SL_ERR_MISMATCH);
	assert_string_equal(fail.text, "train.batch: was 64, is 128");
	is.batch = 64;
	assert_int_equal(sl_agreed_same(plain, strlen(plain), &is, &fail), SL_ERR_MISMATCH);
	assert_string_equal(fail.text, "codec.head_grad: was none, is f16");
	assert_int_equal(sl_agreed_same("agree", 5, &is, &fail), SL_ERR_DATA);
}

/* ---- the agreement with its network, as the payload of a Hello */

static struct asked good(void)
{
	struct asked a = {.agreement.agreed = other_than_default(),
			  .split = {.model = {"mobilenet_v2", 0.25, 10, 32, true, 0.2, 0, 0, 0, 0},
				    .cut = {.head_end = "features.0.1", .tail_begin = "classifier"},
				    .insert_head = "conv:8"}};
	struct sl_fail fail;

	if (asked_settle(&a, &fail))
		fail_msg("%s", fail.text);
	return a;
}

/* The payload, terminated with a NUL; *len leaves the NUL out. The caller frees it. */
static char *said(struct sl_hello *hello, size_t *len)
{
	struct asked a = good();
	struct sl_bytes bytes;
	struct sl_plan *plan;
	struct sl_fail fail;
	char *text;

	if (plan_open(&plan, &a.split, &fail) || sl_agreement_say(&a.agreement, plan, &bytes, hello, &fail))
		fail_msg("%s", fail.text);
	sl_plan_close(plan);
	assert_true(hello->payload_xxh3 == sl_wire_hash(bytes));
	text = strndup((const char *)bytes.data, bytes.len);
	*len = bytes.len;
	free((void *)(uintptr_t)bytes.data);
	return text;
}

static void what_is_said_is_heard(void **state)
{
	struct sl_hello hello = {0}, again = {0};
	struct sl_agreement a;
	struct sl_bytes echo;
	struct sl_plan *plan;
	struct sl_fail fail;
	size_t len;
	char *text = said(&hello, &len);

	if (sl_agreement_hear(&a, &plan, (struct sl_bytes){(uint8_t *)text, len}, &fail) ||
	    sl_agreement_say(&a, plan, &echo, &again, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(echo.len, len);
	assert_memory_equal(text, echo.data, len);
	assert_memory_equal(&hello, &again, sizeof hello);
	assert_int_equal(a.plan.batch, 64);
	assert_int_equal(a.plan.optimizer.kind, SL_OPTIMIZER_ADAMW);
	assert_null(strstr(text, "mobilenet"));
	sl_plan_close(plan);
	free((void *)(uintptr_t)echo.data);
	free(text);
}

static void unheard(const char *from, const char *to, const char *key, const char *phrase)
{
	struct sl_agreement a = {.plan.batch = -77};
	struct sl_hello hello = {0};
	struct sl_plan *plan = NULL;
	struct sl_fail fail;
	size_t len;
	char *text = said(&hello, &len), *at = strstr(text, from), *bad;

	assert_non_null(at);
	assert_true(asprintf(&bad, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
	if (sl_agreement_hear(&a, &plan, (struct sl_bytes){(uint8_t *)bad, strlen(bad)}, &fail) == SL_OK ||
	    !strstr(fail.text, phrase) || strcmp(fail.key, key) != 0)
		fail_msg("%s: key '%s', \"%s\" has no \"%s\"", to, fail.key, fail.text, phrase);
	assert_int_equal(a.plan.batch, -77);
	assert_null(plan);
	free(text);
	free(bad);
}

static void what_cannot_be_is_not_heard(void **state)
{
	unheard("train.batch = 64", "train.batch = 0", "train.batch", "1 to 1048576");
	unheard("codec.head_act = quant:8", "codec.head_act = gzip", "codec.head_act", "gzip");
	unheard("codec.head_act = quant:8", "codec.head_act = quant:8,per=tensor", "", "is written");
	unheard("\n\n", "\ncross.mid_grad = false\n\n", "cross.head_grad",
		"cannot be true where cross.mid_grad is false");
	unheard("\n\n", "\ngroup.1 = lr=0.10\n\n", "group.1", "must be a group's rule");
	unheard("\n\n", "\ngroup.2 = *.bias lr=0.1\n\n", "group.2", "must be a group's rule");
	unheard("\n\n", "\ngroup.9 = lr=0.1\n\n", "", "key 'group.9' is not known here");
	unheard("] normal:", "] g1 normal:", "", "it is of group 1, where 0 can be");
	unheard("\n\n", "\n", "", "empty line");
	unheard("graph 1", "graph 2", "", "begins with 'graph 1'");
	unheard(" conv2d ", " conv3d ", "node insert.head.restore.0", "no op 'conv3d' is known here");
	unheard("out mid_act", "in mid_act", "", "in this order");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_is_the_rows_that_are_no_default),
		cmocka_unit_test(heads_and_tails_are_private_unless_it_says_so),
		cmocka_unit_test(any_agreement_has_room),
		cmocka_unit_test(what_is_out_of_bounds_is_refused_by_its_key),
		cmocka_unit_test(there_is_one_spelling),
		cmocka_unit_test(the_first_key_that_differs_is_named),
		cmocka_unit_test(what_is_said_is_heard),
		cmocka_unit_test(what_cannot_be_is_not_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
