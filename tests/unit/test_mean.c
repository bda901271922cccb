/* Heads and tails that the members of a group share: their layout in Hello, their encoded bytes,
 * the sum, and the state that codecs keep. */

#include <math.h>

#include "common/codec/frame.h"
#include "common/session/mean.h"
#include "common/session/mean_rows.h"
#include "tests/support/unit.h"

static int64_t counts[] = {300, 7, 65}, rows[3];
static struct sl_end_layout layout = {
	.graphs = 0x0123456789abcdef, .n = 3, .count = counts, .row = rows, .grads = 372, .stats = 4, .floats = 380};

static struct sl_end_coder *open_coder(const char *spec, bool all, int member)
{
	struct sl_codec_spec parsed;
	struct sl_fail fail;
	const struct sl_end_coder_env env = {
		.layout = &layout, .spec = &parsed, .all = all, .seed = 5, .member = member};
	struct sl_end_coder *coder;
	uint64_t memory, bound;

	assert_int_equal(sl_codec_parse(spec, &parsed, &fail), SL_OK);
	assert_int_equal(sl_end_coder_open(&coder, &env, &fail), SL_OK);
	assert_int_equal(sl_end_coder_need(&env, &memory, &bound, &fail), SL_OK);
	assert_int_equal(bound, sl_end_coder_bound(coder));
	return coder;
}

static void fill(float *change, int seed)
{
	for (int64_t i = 0; i < layout.grads; i++)
		change[i] = sinf((float)(i + 1) * (float)(seed + 1));
	for (int64_t i = 0; i < layout.stats; i++) {
		change[layout.grads + i] = 0.5f;
		change[layout.grads + layout.stats + i] = (float)(seed + i);
	}
}

/* ---- Hello */

static void put(void *arg, const char *text, size_t len)
{
	assert_int_equal(sl_buf_put(arg, text, len), SL_OK);
}

static enum sl_err read_text(const char *text, struct sl_end_layout *out, struct sl_fail *fail)
{
	char *copy = malloc(strlen(text) + 1); /* without a final NUL */
	enum sl_err err;

	memcpy(copy, text, strlen(text));
	err = sl_end_layout_read(out, (struct sl_bytes){(const uint8_t *)copy, strlen(text)}, fail);
	free(copy);
	return err;
}

static void a_layout_is_read_as_it_was_written(void **state)
{
	uint8_t text[200];
	struct sl_buf buf = {text, 0, sizeof text};
	struct sl_end_layout got;
	struct sl_fail fail;

	sl_end_layout_write(&layout, put, &buf);
	assert_int_equal(
		buf.len,
		strlen("ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter 300\nparameter 7\nparameter 65\n"));
	assert_int_equal(sl_end_layout_read(&got, (struct sl_bytes){text, buf.len}, &fail), SL_OK);
	assert_true(sl_end_layout_same(&got, &layout));
	assert_int_equal(got.grads, 372);
	assert_int_equal(got.floats, 380);
	got.count[1] = 8;
	assert_false(sl_end_layout_same(&got, &layout));
	got.count[1] = layout.count[1];
	got.graphs++;
	assert_false(sl_end_layout_same(&got, &layout));
	sl_end_layout_close(&got);
	for (size_t len = 0; len < buf.len; len++) { /* a cut text is refused unless it ends with a line */
		const bool whole = len && text[len - 1] == '\n' &&
				   len > strlen("ends 2\ngraphs 0123456789abcdef\nstatistics 4\n") - 1;

		assert_int_equal(sl_end_layout_read(&got, (struct sl_bytes){text, len}, &fail) == SL_OK, whole);
		if (whole)
			sl_end_layout_close(&got);
	}
}

static void texts_that_are_no_layouts_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"ends 1\ngraphs 0123456789abcdef\nstatistics 4\n",
		"ends 2\n",
		"ends 2\ngraphs 0123456789abcdef\n",
		"ends 2\nstatistics 4\nparameter 7\n",
		"ends 2\ngraphs 0123456789abcde\nstatistics 4\nparameter 7\n",
		"ends 2\ngraphs 0123456789ABCDEF\nstatistics 4\nparameter 7\n",
		"ends 2\ngraphs 0123456789abcdef0\nstatistics 4\nparameter 7\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 0\n",
		"ends 2\ngraphs 0123456789abcdef\nparameter 4\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 04\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics -4\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics \n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\n\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter 0\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter 5 6\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\ntable 5\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\ntable 5 0\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\ntable 5 06\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\ntable 5  6\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\ntable 5 6 7\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\ntable 2147483648 2147483648\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter 07\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter  7\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter 7 \n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter 7\nx",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameters 7\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 4\nparameter 99999999999999999999999999\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 99999999999\nparameter 7\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 0\nparameter 2147483648\nparameter 2147483648\n",
		"ends 2\ngraphs 0123456789abcdef\nstatistics 2147483648\n",
	};
	struct sl_end_layout got;
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (read_text(bad[i], &got, &fail) == SL_OK)
			fail_msg("'%s' was read", bad[i]);
	/* the least table */
	assert_int_equal(read_text("ends 2\ngraphs 0123456789abcdef\nstatistics 4\ntable 1 1\n", &got, &fail), SL_OK);
	sl_end_layout_close(&got);
}

/* ---- encoded runs */

static void runs_come_back(void **state)
{
	static const char *const spec[] = {"none",          "quant:8",  "topk:0.1",      "randomk:0.3",
					   "threshold:0.5", "terngrad", "qsgd:16|zstd:3"};
	float from[380], to[380];
	struct sl_fail fail;

	fill(from, 3);
	for (size_t i = 0; i < 2 * sizeof spec / sizeof spec[0]; i++) {
		struct sl_end_coder *a = open_coder(spec[i / 2], i % 2, 2), *b = open_coder(spec[i / 2], i % 2, 2);
		struct sl_buf run = {malloc(sl_end_coder_bound(a)), 0, sl_end_coder_bound(a)};

		assert_int_equal(sl_end_encode(a, 9, from, &run), SL_OK);
		memset(to, 0xff, sizeof to);
		assert_int_equal(sl_end_decode(b, 9, (struct sl_bytes){run.data, run.len}, to, &fail), SL_OK);
		assert_int_equal(sl_end_check(&layout, to, &fail), SL_OK);
		assert_memory_equal(to + 372, from + 372, 8 * sizeof *to); /* statistics cross as they are */
		for (int k = 0; k < 372 && i < 2; k++)
			assert_true(to[k] == from[k]);
		for (size_t len = 0; len < run.len; len += 1 + run.len / 90) { /* a run that is cut off is refused */
			uint8_t *copy = malloc(len + 1);

			memcpy(copy, run.data, len);
			assert_int_equal(sl_end_decode(b, 9, (struct sl_bytes){copy, len}, to, &fail), SL_ERR_PAYLOAD);
			free(copy);
		}
		run.data = realloc(run.data, run.len + 1);
		run.data[run.len] = 0;
		assert_int_equal(sl_end_decode(b, 9, (struct sl_bytes){run.data, run.len + 1}, to, &fail),
				 SL_ERR_PAYLOAD);
		free(run.data);
		sl_end_coder_close(a);
		sl_end_coder_close(b);
	}
}

static void nan_is_found(void **state)
{
	float change[380];
	struct sl_fail fail;

	for (int at = 0; at < 380; at += 53) {
		fill(change, 1);
		assert_int_equal(sl_end_check(&layout, change, &fail), SL_OK);
		change[at] = at % 2 ? NAN : INFINITY;
		assert_int_equal(sl_end_check(&layout, change, &fail), SL_ERR_NONFINITE);
	}
}

/* Each member has random places of its own, and so has the trunk (member -1). */
static void members_have_places_of_their_own(void **state)
{
	float from[380], to[3][380];
	struct sl_fail fail;

	fill(from, 3);
	for (int member = -1; member < 2; member++) {
		struct sl_end_coder *c = open_coder("randomk:0.2", true, member);
		struct sl_buf run = {malloc(sl_end_coder_bound(c)), 0, sl_end_coder_bound(c)};

		assert_int_equal(sl_end_encode(c, 9, from, &run), SL_OK);
		assert_int_equal(sl_end_decode(c, 9, (struct sl_bytes){run.data, run.len}, to[member + 1], &fail),
				 SL_OK);
		free(run.data);
		sl_end_coder_close(c);
	}
	assert_memory_not_equal(to[0], to[1], sizeof to[0]);
	assert_memory_not_equal(to[1], to[2], sizeof to[0]);
}

/* ---- tables */

enum { WORDS = 50, FEATURES = 6 };

static void touch(float *x, int from, int by)
{
	memset(x, 0, WORDS * FEATURES * sizeof *x);
	for (int row = from; row < WORDS; row += by)
		for (int i = 0; i < FEATURES; i++)
			x[row * FEATURES + i] = (float)(row + i) - 7.5f;
}

/* The mean is over all rows that some member touched, and equals the mean of the whole tables bit for bit. */
static void tables_cross_as_the_rows_that_were_touched(void **state)
{
	struct sl_codec_spec none;
	struct sl_end_coder_env env = {.layout = &layout, .spec = &none, .member = -1};
	static float a[380], b[380], mean[2][380];
	static uint8_t bytes[8192];
	size_t len[2];
	struct sl_fail fail;

	assert_int_equal(sl_codec_parse("none", &none, &fail), SL_OK);
	fill(a, 1);
	fill(b, 2);
	touch(a, 3, 20);
	touch(b, 4, 13);
	memcpy(b + 3 * FEATURES, a + 3 * FEATURES, FEATURES * sizeof *b);
	b[3 * FEATURES] = -a[3 * FEATURES];
	a[49 * FEATURES] = -0.0f; /* counts as touched: its bits are not those of 0 */
	for (int table = 0; table < 2; table++) {
		struct sl_buf run = {bytes, 0, sizeof bytes};
		struct sl_end_sum sum;

		rows[0] = table ? FEATURES : 0;
		assert_int_equal(sl_end_sum_open(&sum, &env, &fail), SL_OK);
		sl_end_sum_begin(&sum);
		for (int member = 0; member < 2; member++) {
			float told[380];

			run.len = 0;
			assert_int_equal(sl_end_encode(sum.coder, 0, member ? b : a, &run), SL_OK);
			assert_int_equal(sl_end_decode(sum.coder, 0, (struct sl_bytes){bytes, run.len}, told, &fail),
					 SL_OK);
			assert_memory_equal(told, member ? b : a, sizeof told);
			sl_end_sum_add(&sum, told);
		}
		run.len = 0;
		assert_int_equal(sl_end_sum_encode(&sum, 0.3, 0, &run, &fail), SL_OK);
		assert_true(run.len <= sl_end_coder_bound(sum.coder));
		len[table] = run.len;
		assert_int_equal(sl_end_decode(sum.coder, 0, (struct sl_bytes){bytes, run.len}, mean[table], &fail),
				 SL_OK);
		sl_end_sum_close(&sum);
	}
	rows[0] = 0;
	assert_memory_equal(mean[0], mean[1], sizeof mean[0]);
	/* a touches rows 3, 23, 43 and (by a -0) 49; b rows 3, 4, 17, 30, 43. Row 49 sums to +0 and
	 * is not sent: 6 rows remain. */
	assert_int_equal(len[0] - len[1], (WORDS - 6) * FEATURES * 4 - 6 * 4 - 4 + SL_FRAME_BYTES);
}

static void rows_that_are_none_are_refused(void **state)
{
	static const struct {
		uint32_t word[8];
		size_t bytes;
		const char *why;
	} bad[] = {{{0}, 3, "no count"},
		   {{0, 0}, 8, "another length"},
		   {{6}, 4, "more rows than"},
		   {{1, 2}, 8, "another length"},
		   {{UINT32_MAX, 2, 9}, 12, "more rows than"},
		   {{1, 5, 9}, 12, "the table has not"},
		   {{2, 1, 1, 9, 9}, 20, "do not ascend"},
		   {{2, 3, 1, 9, 9}, 20, "do not ascend"},
		   {{2, 1, 3, 9}, 16, "another length"},
		   {{2, 1, 3, 9, 9, 9}, 24, "another length"}};
	float x[5];
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		uint8_t *copy = malloc(bad[i].bytes); /* of the exact size: a sanitizer finds reads beyond it */

		memcpy(copy, bad[i].word, bad[i].bytes);
		assert_int_equal(sl_rows_read(x, 5, 1, (struct sl_bytes){copy, bad[i].bytes}, &fail), SL_ERR_PAYLOAD);
		if (!strstr(fail.text, bad[i].why))
			fail_msg("%zu: '%s' does not say '%s'", i, fail.text, bad[i].why);
		free(copy);
	}
}

/* ---- sums */

static void statistics_are_put_one_behind_another(void **state)
{
	struct sl_codec_spec none;
	const struct sl_end_coder_env env = {.layout = &layout, .spec = &none, .member = -1};
	struct sl_end_sum sum;
	float a[380], b[380], mean[380];
	uint8_t bytes[4096];
	struct sl_buf run = {bytes, 0, sizeof bytes};
	struct sl_fail fail;

	assert_int_equal(sl_codec_parse("none", &none, &fail), SL_OK);
	assert_int_equal(sl_end_sum_open(&sum, &env, &fail), SL_OK);
	fill(a, 1);
	fill(b, 2);
	for (int again = 0; again < 2; again++) {
		sl_end_sum_begin(&sum);
		sl_end_sum_add(&sum, a);
		sl_end_sum_add(&sum, b);
		run.len = 0;
		assert_int_equal(sl_end_sum_encode(&sum, 2, 0, &run, &fail), SL_OK);
		assert_int_equal(sl_end_decode(sum.coder, 0, (struct sl_bytes){run.data, run.len}, mean, &fail), SL_OK);
		assert_true(mean[5] == 2 * (a[5] + b[5]));
		/* statistics are affine maps: a's is 0.5 x + 1 here, and b's of that 0.5 (0.5 x + 1) + 2 */
		assert_true(mean[372] == 0.25f && mean[376] == 2.5f);
	}
	b[3] = INFINITY;
	sl_end_sum_begin(&sum);
	sl_end_sum_add(&sum, b);
	assert_int_equal(sl_end_sum_encode(&sum, 1, 0, &run, &fail), SL_ERR_NONFINITE);
	sl_end_sum_close(&sum);
}

/* Both moments are averaged like the weights. The count of steps is the largest of the members. */
static void a_round_is_averaged_by_rows(void **state)
{
	struct sl_end_layout round = layout;
	const struct sl_plan_spec spec = {
		.ends_round = 4, .shared_ends = SL_ENDS_MOMENTS, .optimizer.kind = SL_OPTIMIZER_ADAMW};
	struct sl_codec_spec none;
	const struct sl_end_coder_env env = {.layout = &round, .spec = &none, .member = -1};
	static float a[1200], b[1200], mean[1200];
	struct sl_buf run = {(uint8_t[8192]){0}, 0, 8192};
	struct sl_end_sum sum;
	struct sl_fail fail;

	assert_int_equal(sl_end_layout_settle(&round, &spec, &fail), SL_OK);
	assert_int_equal(round.floats, 3 * 372 + 4 + 2);
	assert_int_equal(sl_codec_parse("none", &none, &fail), SL_OK);
	assert_int_equal(sl_end_sum_open(&sum, &env, &fail), SL_OK);
	for (int i = 0; i < round.floats - 2; i++) {
		a[i] = 0.1f * (float)i;
		b[i] = 3;
	}
	sl_steps_write(9, sl_end_steps(&round, a));
	sl_steps_write(7, sl_end_steps(&round, b));
	sl_end_sum_begin(&sum);
	sl_end_sum_add_rows(&sum, a, 24);
	sl_end_sum_add_rows(&sum, b, 8);
	sl_end_sum_add_rows(&sum, b, 0); /* a member that trained on nothing does not count */
	assert_int_equal(sl_end_sum_encode(&sum, 1, 0, &run, &fail), SL_OK);
	assert_int_equal(run.len, sl_end_coder_bound(sum.coder));
	assert_int_equal(sl_end_decode(sum.coder, 0, (struct sl_bytes){run.data, run.len}, mean, &fail), SL_OK);
	for (int i = 0; i < round.floats - 2; i++)
		assert_true(mean[i] == (float)((24 * (double)a[i] + 8 * (double)b[i]) / 32));
	assert_int_equal(sl_end_check_moments(&round, mean, 9, &fail), SL_OK);
	assert_int_equal(sl_end_check_moments(&round, mean, 8, &fail), SL_ERR_PAYLOAD);
	mean[2 * 372 + 4 - 1] = -1; /* a first moment: may be negative */
	assert_int_equal(sl_end_check_moments(&round, mean, 9, &fail), SL_OK);
	mean[2 * 372 + 4] = -1; /* a second moment: may not */
	assert_int_equal(sl_end_check_moments(&round, mean, 9, &fail), SL_ERR_PAYLOAD);
	mean[2 * 372 + 4] = 0;
	sl_end_steps(&round, mean)[0] = 0.5f;
	assert_int_equal(sl_end_check_moments(&round, mean, 9, &fail), SL_ERR_PAYLOAD);
	sl_end_sum_close(&sum);
}

/* ---- state of codecs */

static void encode(struct sl_end_coder *c, uint64_t step, const float *change, struct sl_buf *run)
{
	run->len = 0;
	assert_int_equal(sl_end_encode(c, step, change, run), SL_OK);
}

static void feedback_is_saved_and_follows_the_step(void **state)
{
	struct sl_end_coder *a = open_coder("topk:0.1,ef=true", false, 0),
			    *b = open_coder("topk:0.1,ef=true", false, 0);
	struct sl_buf saved = {malloc(sl_end_coder_state_bytes(a)), 0, sl_end_coder_state_bytes(a)};
	struct sl_buf one = {malloc(sl_end_coder_bound(a)), 0, sl_end_coder_bound(a)};
	struct sl_buf two = {malloc(sl_end_coder_bound(a)), 0, sl_end_coder_bound(a)};
	float change[380];

	fill(change, 1);
	encode(a, 0, change, &one);
	sl_end_coder_rollback(a); /* an abandoned step leaves no trace */
	encode(a, 0, change, &two);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
	sl_end_coder_commit(a);
	assert_int_equal(sl_end_coder_save(a, &saved), SL_OK);
	assert_int_equal(sl_end_coder_load(b, (struct sl_bytes){saved.data, saved.len}), SL_OK);
	encode(a, 1, change, &one);
	assert_memory_not_equal(one.data, two.data, one.len);
	encode(b, 1, change, &two);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
	assert_int_equal(sl_end_coder_load(b, (struct sl_bytes){saved.data, saved.len - 1}), SL_ERR_DATA);
	assert_int_equal(sl_end_coder_load(b, (struct sl_bytes){saved.data, 0}), SL_ERR_DATA);
	free(saved.data);
	free(one.data);
	free(two.data);
	sl_end_coder_close(a);
	sl_end_coder_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_layout_is_read_as_it_was_written),
		cmocka_unit_test(texts_that_are_no_layouts_are_refused),
		cmocka_unit_test(runs_come_back),
		cmocka_unit_test(nan_is_found),
		cmocka_unit_test(members_have_places_of_their_own),
		cmocka_unit_test(statistics_are_put_one_behind_another),
		cmocka_unit_test(tables_cross_as_the_rows_that_were_touched),
		cmocka_unit_test(rows_that_are_none_are_refused),
		cmocka_unit_test(a_round_is_averaged_by_rows),
		cmocka_unit_test(feedback_is_saved_and_follows_the_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
