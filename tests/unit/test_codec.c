/* The chain and its frame: refusals, error feedback, a backend's own stages. */
#include <math.h>

#include "common/codec/codec.h"
#include "common/codec/stage.h"
#include "common/exec/backend.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

static void none_carries_any_bits(void **state)
{
	float x[6] = {1, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f}, back[6];

	assert_int_equal(codec_round_trip("none", sl_shape2(2, 3), x, back), 16 + 24);
	assert_memory_equal(x, back, sizeof x);
}

static void wrong_frames_are_refused(void **state)
{
	struct sl_shape s = sl_shape4(2, 7, 7, 8);
	int64_t n = sl_shape_count(&s);
	float x[2 * 7 * 7 * 8], back[2 * 7 * 7 * 8], untouched[2 * 7 * 7 * 8];
	struct sl_codec *c = codec_open("topk:0.1|quant:5", s, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *other = codec_open("quant:5", s, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes, longer[4096];
	size_t len;

	codec_fill(x, n, RANDOM);
	memset(back, 0x55, sizeof back);
	memset(untouched, 0x55, sizeof untouched);
	assert_int_equal(codec_encode(c, &codec_call0, x, s, &bytes, &len), SL_OK);
	for (size_t l = 0; l < len; l++)
		assert_int_equal(codec_decode(c, &codec_call0, bytes, l, s, back), SL_ERR_PAYLOAD);
	memcpy(longer, bytes, len);
	longer[len] = 0;
	assert_int_equal(codec_decode(c, &codec_call0, longer, len + 1, s, back), SL_ERR_PAYLOAD);
	assert_int_equal(codec_decode(other, &codec_call0, bytes, len, s, back), SL_ERR_PAYLOAD);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, sl_shape_rows(s, 1), back), SL_ERR_PAYLOAD);
	/* Changes each byte of the header and of the table of parts. */
	for (int i = 0; i < 24; i++) {
		longer[i] ^= 0x41;
		assert_int_equal(codec_decode(c, &codec_call0, longer, len, s, back), SL_ERR_PAYLOAD);
		longer[i] ^= 0x41;
	}
	assert_memory_equal(back, untouched, sizeof back);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, s, back), SL_OK);
	free(bytes);
	sl_codec_close(c);
	sl_codec_close(other);
}

static void a_short_buffer_is_a_limit(void **state)
{
	struct sl_shape s = sl_shape2(4, 100);
	struct sl_codec *c = codec_open("quant:8", s, NULL, SL_DIR_HEAD_ACT, NULL);
	float x[400] = {1};
	uint8_t mem[512];
	struct sl_buf out = {mem, 5, sl_codec_bound(c, 4) + 4};
	struct sl_tensor t = {.dtype = SL_F32, .shape = s, .data = x};

	assert_int_equal(sl_codec_encode(c, &codec_call0, &t, &out), SL_ERR_LIMIT);
	assert_int_equal(out.len, 5);
	sl_codec_close(c);
}

static void feedback_returns_what_was_lost(void **state)
{
	enum { N = 3 * 133 };
	struct sl_shape s = sl_shape2(3, 133);
	float x[N], back[N], sum[N] = {0};
	struct sl_codec *c = codec_open("topk:0.1,ef=true", s, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *one, *two;
	size_t len, again;

	codec_fill(x, N, RANDOM);
	for (int step = 0; step < 200; step++) {
		struct sl_codec_call call = {.step = (uint64_t)step, .training = true};

		assert_int_equal(codec_encode(c, &call, x, s, &one, &len), SL_OK);
		/* After a rollback the same step gives the same bytes. */
		sl_codec_rollback(c);
		assert_int_equal(codec_encode(c, &call, x, s, &two, &again), SL_OK);
		assert_int_equal(len, again);
		assert_memory_equal(one, two, len);
		sl_codec_commit(c);
		assert_int_equal(codec_decode(c, &call, one, len, s, back), SL_OK);
		for (int i = 0; i < N; i++)
			sum[i] += back[i];
		free(one);
		free(two);
	}
	/* The sum of 200 decoded steps differs from 200 · x by one residual, which is bounded. */
	assert_true(fabsf(x[N - 1]) > 0.3f);
	for (int i = 0; i < N; i++)
		assert_true(fabs((double)sum[i] - 200 * (double)x[i]) < 40);
	sl_codec_close(c);
}

/* Encodes the same tensor with both codecs, `b` in changing slots, and expects the same bytes. */
static void assert_same_bytes(struct sl_codec *a, struct sl_codec *b, uint64_t step, bool training, const float *x,
			      struct sl_shape s)
{
	struct sl_codec_call call = {.step = step, .chunk = 1, .training = training};
	uint8_t *one, *two;
	size_t len, other;

	assert_int_equal(codec_encode(a, &call, x, s, &one, &len), SL_OK);
	call.slot = (int)(step % 2);
	assert_int_equal(codec_encode(b, &call, x, s, &two, &other), SL_OK);
	assert_int_equal(len, other);
	assert_memory_equal(one, two, len);
	free(one);
	free(two);
}

static const char *const with_state[] = {"topk:0.1,ef=true", "lowrank:1,warm=true"};

/* An evaluation is encoded as by a new codec, and does not change
 * the state. The state belongs to a chunk, not to a slot. */
static void evaluation_neither_takes_nor_leaves_state(void **state)
{
	struct sl_shape s = sl_shape4(2, 5, 5, 4);
	float x[200], y[200];

	codec_fill(x, 200, RANDOM);
	codec_fill(y, 200, RELU);
	for (int i = 0; i < 2; i++) {
		struct sl_codec *a = codec_open(with_state[i], s, NULL, SL_DIR_HEAD_ACT, NULL),
				*b = codec_open(with_state[i], s, NULL, SL_DIR_HEAD_ACT, NULL),
				*fresh = codec_open(with_state[i], s, NULL, SL_DIR_HEAD_ACT, NULL);

		for (uint64_t step = 0; step < 3; step++) {
			assert_same_bytes(a, b, step, true, x, s);
			sl_codec_commit(a);
			sl_codec_commit(b);
			assert_same_bytes(a, fresh, step, false, y, s);
			sl_codec_commit(a);
		}
		sl_codec_close(a);
		sl_codec_close(b);
		sl_codec_close(fresh);
	}
}

/* A failed encoding discards what was encoded for that chunk before in the same step; so does a rollback. */
static void an_encoding_that_fails_leaves_nothing_to_commit(void **state)
{
	struct sl_shape s = sl_shape4(2, 5, 5, 4);
	const struct sl_codec_call call = {.chunk = 1, .training = true};
	float x[200], bad[200];

	codec_fill(x, 200, RANDOM);
	memcpy(bad, x, sizeof bad);
	bad[150] = NAN;
	for (int k = 0; k < 4; k++) {
		struct sl_codec *a = codec_open(with_state[k / 2], s, NULL, SL_DIR_HEAD_ACT, NULL),
				*fresh = codec_open(with_state[k / 2], s, NULL, SL_DIR_HEAD_ACT, NULL);
		uint8_t *bytes;
		size_t len;

		assert_int_equal(codec_encode(a, &call, x, s, &bytes, &len), SL_OK);
		free(bytes);
		if (k % 2)
			sl_codec_rollback(a);
		else
			assert_int_equal(codec_encode(a, &call, bad, s, &bytes, &len), SL_ERR_NONFINITE);
		sl_codec_commit(a);
		assert_same_bytes(a, fresh, 1, true, x, s);
		sl_codec_close(a);
		sl_codec_close(fresh);
	}
}

/* A short last chunk lacks rows: their residuals are zero afterwards. */
static void rows_that_were_not_there_have_no_residual(void **state)
{
	struct sl_shape s = sl_shape2(4, 50), two = sl_shape2(2, 50);
	struct sl_codec *c = codec_open("topk:0.1,ef=true", s, NULL, SL_DIR_HEAD_ACT, NULL);
	size_t cap = sl_codec_state_bytes(c), len;
	struct sl_buf kept = {malloc(cap), 0, cap};
	const float *residual =
		(const float *)(void *)(kept.data + 16); /* behind magic, slots and the flags of slots 0 and 1 */
	float x[200];
	uint8_t *bytes;

	codec_fill(x, 200, RANDOM);
	for (int step = 0; step < 4; step++) {
		assert_int_equal(codec_encode(c, &codec_call0, x, step == 3 ? two : s, &bytes, &len), SL_OK);
		free(bytes);
		sl_codec_commit(c);
	}
	assert_int_equal(sl_codec_save(c, &kept), SL_OK);
	assert_int_equal(kept.len, 16 + sizeof x);
	assert_true(residual[0] != 0 || residual[1] != 0);
	for (int i = 100; i < 200; i++)
		assert_true(residual[i] == 0);
	free(kept.data);
	sl_codec_close(c);
}

static void tensors_beyond_the_plan_are_refused(void **state)
{
	struct sl_shape s = sl_shape2(2, 50), more = sl_shape2(3, 50), wider = sl_shape2(2, 51);
	const struct sl_codec_call beyond = {.slot = 2}, before = {.slot = -1};
	struct sl_codec *c = codec_open("quant:8", s, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *bytes, *none;
	float x[153] = {1}, back[153];
	size_t len, no_len;

	assert_int_equal(codec_encode(c, &codec_call0, x, s, &bytes, &len), SL_OK);
	assert_int_equal(codec_encode(c, &codec_call0, x, more, &none, &no_len), SL_ERR_BUG);
	assert_int_equal(codec_encode(c, &codec_call0, x, wider, &none, &no_len), SL_ERR_BUG);
	assert_int_equal(codec_encode(c, &beyond, x, s, &none, &no_len), SL_ERR_BUG);
	assert_int_equal(codec_encode(c, &before, x, s, &none, &no_len), SL_ERR_BUG);
	assert_int_equal(codec_decode(c, &codec_call0, bytes, len, more, back), SL_ERR_BUG);
	assert_int_equal(codec_decode(c, &beyond, bytes, len, s, back), SL_ERR_BUG);
	free(bytes);
	sl_codec_close(c);
}

static enum sl_err own_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	(void)be;
	*out = calloc(1, bytes);
	return *out != NULL ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory");
}

static void own_free(struct sl_backend *be, void *ptr)
{
	(void)be;
	free(ptr);
}

/* A backend with its own stages: data between stages lies in the backend's memory, and the bytes are the same. */
static void a_backend_may_bring_its_own_stages(void **state)
{
	struct sl_backend_ops ops = {
		.name = "own", .alloc = own_alloc, .free = own_free, .codec_stages = sl_codec_stages()};
	const struct sl_codec_stage *few[] = {sl_codec_stage_find("none", 4), NULL};
	static const char *const specs[] = {"none", "quant:8", "topk:0.1", "topk:0.2|quant:8|zstd",
					    "lowrank:2|topk:0.5"};
	struct sl_shape s = sl_shape4(2, 30, 31, 12);
	int64_t n = sl_shape_count(&s);
	float *x = malloc((size_t)n * 4), *one = malloc((size_t)n * 4), *two = malloc((size_t)n * 4);
	struct sl_backend be = {.ops = &ops};
	struct sl_codec_env env = {.be = &be, .shape = s, .slots = 1};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;

	codec_fill(x, n, RANDOM);
	for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
		struct sl_codec *host = codec_open(specs[i], s, NULL, SL_DIR_HEAD_ACT, NULL);
		struct sl_codec *own = codec_open(specs[i], s, &be, SL_DIR_HEAD_ACT, NULL);
		uint8_t *a, *b;
		size_t a_len, b_len;

		assert_int_equal(codec_encode(host, &codec_call0, x, s, &a, &a_len), SL_OK);
		assert_int_equal(codec_encode(own, &codec_call0, x, s, &b, &b_len), SL_OK);
		assert_int_equal(a_len, b_len);
		assert_memory_equal(a, b, a_len);
		assert_int_equal(codec_decode(host, &codec_call0, b, b_len, s, one), SL_OK);
		assert_int_equal(codec_decode(own, &codec_call0, a, a_len, s, two), SL_OK);
		assert_memory_equal(one, two, (size_t)n * 4);
		free(a);
		free(b);
		sl_codec_close(host);
		sl_codec_close(own);
	}
	ops.codec_stages = few;
	assert_int_equal(sl_codec_parse("quant:8", &spec, &fail), SL_OK);
	assert_int_equal(sl_codec_open(&codec, &spec, &env, &fail), SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "own has no quant"));
	free(x);
	free(one);
	free(two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_carries_any_bits),
		cmocka_unit_test(wrong_frames_are_refused),
		cmocka_unit_test(a_short_buffer_is_a_limit),
		cmocka_unit_test(feedback_returns_what_was_lost),
		cmocka_unit_test(evaluation_neither_takes_nor_leaves_state),
		cmocka_unit_test(an_encoding_that_fails_leaves_nothing_to_commit),
		cmocka_unit_test(rows_that_were_not_there_have_no_residual),
		cmocka_unit_test(tensors_beyond_the_plan_are_refused),
		cmocka_unit_test(a_backend_may_bring_its_own_stages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
