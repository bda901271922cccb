/* A codec of several values: its payload has each value's, behind their lengths; so has its state. */

#include "common/codec/codec.h"
#include "tests/support/unit.h"

enum { VALUES = 3, ROWS = 4, MOST = ROWS * 60 };

static const struct sl_shape shape[VALUES] = {
	{.ndim = 4, .dim = {ROWS, 3, 4, 5}}, {.ndim = 2, .dim = {ROWS, 7}}, {.ndim = 4, .dim = {ROWS, 2, 2, 3}}};
static const char *const texts[] = {"none", "quant:8", "randomk:0.5", "topk:0.3,ef=true",
				    "quant:4,round=stochastic|zstd"};

/* A codec of `n` values from number `from` on. */
static struct sl_codec *open_dir(const char *text, enum sl_dir dir, int from, int n)
{
	struct sl_codec_env env[VALUES];
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;

	for (int v = 0; v < n; v++)
		env[v] = (struct sl_codec_env){.shape = shape[from + v],
					       .slots = 1,
					       .seed = 7,
					       .dir = dir,
					       .value = from + v,
					       .next = v + 1 < n ? &env[v + 1] : NULL};
	if (sl_codec_parse(text, &spec, &fail) || sl_codec_open(&codec, &spec, env, &fail))
		fail_msg("%s", fail.text);
	return codec;
}

static struct sl_codec *open_values(const char *text, int from, int n)
{
	return open_dir(text, SL_DIR_MID_ACT, from, n);
}

static void fill(struct sl_tensor x[VALUES], float data[VALUES][MOST])
{
	const struct sl_rng_key key = {3, 1, 0, SL_RNG_TEST};

	for (int v = 0; v < VALUES; v++) {
		x[v] = (struct sl_tensor){SL_F32, shape[v], data[v], NULL};
		for (int i = 0; i < MOST; i++)
			data[v][i] = sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 0.3f; /* the same in each value */
	}
}

static struct sl_buf encoded(struct sl_codec *codec, uint64_t step, const struct sl_tensor *x)
{
	const struct sl_codec_call call = {.step = step, .training = true};
	struct sl_buf out = {.cap = sl_codec_bound(codec, ROWS)};

	out.data = malloc(out.cap);
	assert_int_equal(sl_codec_encode(codec, &call, x, &out), SL_OK);
	return out;
}

static void a_payload_has_those_of_its_values(void **state)
{
	static float data[VALUES][MOST];
	struct sl_tensor x[VALUES];

	fill(x, data);
	for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
		struct sl_codec *all = open_values(texts[t], 0, VALUES);
		struct sl_buf out = encoded(all, 1, x);
		size_t at = VALUES * sizeof(uint64_t);

		assert_int_equal(sl_codec_values(all), VALUES);
		for (int v = 0; v < VALUES; v++) {
			struct sl_codec *alone = open_values(texts[t], v, 1);
			struct sl_buf one = encoded(alone, 1, &x[v]);
			uint64_t bytes;

			memcpy(&bytes, out.data + (size_t)v * sizeof bytes, sizeof bytes);
			assert_int_equal(bytes, one.len);
			assert_memory_equal(out.data + at, one.data, one.len);
			at += one.len;
			free(one.data);
			sl_codec_close(alone);
		}
		assert_int_equal(at, out.len);
		free(out.data);
		sl_codec_close(all);
	}
}

/* Value 1 draws other numbers than value 0 of the same shape. */
static void values_have_streams_of_their_own(void **state)
{
	static float data[VALUES][MOST];
	struct sl_codec_env env = {.shape = shape[0], .slots = 1, .seed = 7, .dir = SL_DIR_MID_ACT};
	struct sl_codec *codec[2];
	struct sl_codec_spec spec;
	struct sl_tensor x[VALUES];
	struct sl_buf out[2];
	struct sl_fail fail;

	fill(x, data);
	assert_int_equal(sl_codec_parse("randomk:0.5", &spec, &fail), SL_OK);
	for (int v = 0; v < 2; v++) {
		env.value = v;
		assert_int_equal(sl_codec_open(&codec[v], &spec, &env, &fail), SL_OK);
		out[v] = encoded(codec[v], 1, x);
	}
	assert_true(out[0].len != out[1].len || memcmp(out[0].data, out[1].data, out[0].len) != 0);
	for (int v = 0; v < 2; v++) {
		free(out[v].data);
		sl_codec_close(codec[v]);
	}
}

static void state_survives(void **state)
{
	static float data[VALUES][MOST];
	struct sl_codec *codec = open_values("topk:0.3,ef=true", 0, VALUES),
			*other = open_values("topk:0.3,ef=true", 0, VALUES);
	struct sl_buf kept = {.cap = sl_codec_state_bytes(codec)}, first, again;
	struct sl_tensor x[VALUES];

	fill(x, data);
	first = encoded(codec, 1, x);
	free(first.data);
	sl_codec_commit(codec);
	kept.data = malloc(kept.cap);
	assert_int_equal(sl_codec_save(codec, &kept), SL_OK);
	assert_int_equal(sl_codec_load(other, (struct sl_bytes){kept.data, kept.len}), SL_OK);
	first = encoded(codec, 2, x);
	again = encoded(other, 2, x);
	assert_int_equal(first.len, again.len);
	assert_memory_equal(first.data, again.data, first.len);
	for (size_t len = 0; len < kept.len; len++)
		assert_int_equal(sl_codec_load(other, (struct sl_bytes){kept.data, len}), SL_ERR_DATA);
	kept.data[1] ^= 0xff; /* the first state's length */
	assert_int_equal(sl_codec_load(other, (struct sl_bytes){kept.data, kept.len}), SL_ERR_DATA);
	free(first.data);
	free(again.data);
	free(kept.data);
	sl_codec_close(codec);
	sl_codec_close(other);
}

/* The payload of value 1. */
static struct sl_bytes second_of(const struct sl_buf *out)
{
	uint64_t bytes[2];

	memcpy(bytes, out->data, sizeof bytes);
	return (struct sl_bytes){out->data + VALUES * sizeof *bytes + bytes[0], bytes[1]};
}

/* A gradient without data has no bytes, and is zero where it arrives; what its codec has lost so far waits. */
static void gradients_may_be_left_out(void **state)
{
	static float data[VALUES][MOST], got[VALUES][MOST];
	const struct sl_codec_call call = {.step = 1, .training = true};
	struct sl_tensor x[VALUES], to[VALUES];
	struct sl_fail fail;

	for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
		struct sl_codec *codec = open_dir(texts[t], SL_DIR_MID_GRAD, 0, VALUES),
				*other = open_dir(texts[t], SL_DIR_MID_GRAD, 0, VALUES);
		struct sl_buf out, whole, again;

		fill(x, data);
		fill(to, got);
		x[1].data = NULL;
		out = encoded(codec, 1, x);
		assert_int_equal(second_of(&out).len, 0);
		assert_true(sl_codec_nominal_bytes(codec, ROWS) > 0);
		assert_int_equal(sl_codec_decode(other, &call, (struct sl_bytes){out.data, out.len}, to, &fail), SL_OK);
		for (int i = 0; i < ROWS * 7; i++)
			assert_true(got[1][i] == 0.0f);
		to[1].data = NULL; /* here it is not computed, either */
		assert_int_equal(sl_codec_decode(other, &call, (struct sl_bytes){out.data, out.len}, to, &fail), SL_OK);
		sl_codec_commit(codec);
		x[1].data = data[1];
		whole = encoded(codec, 2, x);
		assert_int_equal(sl_codec_decode(other, &call, (struct sl_bytes){whole.data, whole.len}, to, &fail),
				 SL_ERR_PAYLOAD);
		assert_non_null(strstr(fail.text, "value 1 has no gradient here"));
		again = encoded(other, 2, x); /* which has lost nothing yet */
		assert_int_equal(second_of(&whole).len, second_of(&again).len);
		assert_memory_equal(second_of(&whole).data, second_of(&again).data, second_of(&again).len);
		free(out.data);
		free(whole.data);
		free(again.data);
		sl_codec_close(codec);
		sl_codec_close(other);
	}
}

/* An activation always has bytes. */
static void activations_are_never_left_out(void **state)
{
	static float data[VALUES][MOST];
	const struct sl_codec_call call = {.step = 1, .training = true};
	struct sl_codec *grad = open_dir("none", SL_DIR_HEAD_GRAD, 0, VALUES), *act = open_values("none", 0, VALUES);
	struct sl_tensor x[VALUES];
	struct sl_buf out;
	struct sl_fail fail;

	fill(x, data);
	x[2].data = NULL;
	out = encoded(grad, 1, x);
	x[2].data = data[2];
	assert_int_equal(sl_codec_decode(act, &call, (struct sl_bytes){out.data, out.len}, x, &fail), SL_ERR_PAYLOAD);
	free(out.data);
	sl_codec_close(grad);
	sl_codec_close(act);
}

/* Payloads that are cut, that go on, or whose lengths or bytes are others. */
static void damaged_payloads_are_refused(void **state)
{
	static float data[VALUES][MOST];
	struct sl_tensor x[VALUES];
	const struct sl_codec_call call = {.step = 1, .training = true};
	uint32_t seed = 5;
	struct sl_fail fail;

	fill(x, data);
	for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
		struct sl_codec *codec = open_values(texts[t], 0, VALUES);
		struct sl_buf out = encoded(codec, 1, x);
		uint8_t *bad = malloc(out.len + 1);

		for (size_t len = 0; len <= out.len + 1; len++) { /* exact sizes: an access behind the end is found */
			uint8_t *at = malloc(len + 1);

			memcpy(at, out.data, len < out.len ? len : out.len);
			assert_int_equal(sl_codec_decode(codec, &call, (struct sl_bytes){at, len}, x, &fail),
					 len == out.len ? SL_OK : SL_ERR_PAYLOAD);
			free(at);
		}
		for (int i = 0; i < VALUES * 8; i++) { /* each byte of the lengths */
			memcpy(bad, out.data, out.len);
			bad[i] ^= 0x81;
			assert_int_equal(sl_codec_decode(codec, &call, (struct sl_bytes){bad, out.len}, x, &fail),
					 SL_ERR_PAYLOAD);
		}
		for (int i = 0; i < 3000; i++) {
			enum sl_err err;

			memcpy(bad, out.data, out.len);
			for (int k = 0; k < 3; k++) {
				seed = seed * 1664525u + 1013904223u;
				bad[(seed >> 8) % out.len] ^= (uint8_t)(1 + (seed >> 3) % 255);
			}
			err = sl_codec_decode(codec, &call, (struct sl_bytes){bad, out.len}, x, &fail);
			assert_true(err == SL_OK || err == SL_ERR_PAYLOAD);
		}
		free(bad);
		free(out.data);
		sl_codec_close(codec);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_payload_has_those_of_its_values),
		cmocka_unit_test(values_have_streams_of_their_own),
		cmocka_unit_test(state_survives),
		cmocka_unit_test(gradients_may_be_left_out),
		cmocka_unit_test(activations_are_never_left_out),
		cmocka_unit_test(damaged_payloads_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
