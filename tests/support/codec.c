#include "tests/support/codec.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct sl_codec_call codec_call0 = {.slot = 0, .step = 7, .chunk = 1, .training = true};

struct sl_codec *codec_open(const char *text, struct sl_shape shape, struct sl_backend *be, enum sl_dir dir,
			    struct sl_codec *pair)
{
	struct sl_codec_env env = {.be = be, .shape = shape, .slots = 2, .seed = 11, .dir = dir, .pair = pair};
	struct sl_codec_spec spec;
	struct sl_codec *codec = NULL;
	struct sl_fail fail = {0};

	if (sl_codec_parse(text, &spec, &fail) != SL_OK || sl_codec_open(&codec, &spec, &env, &fail) != SL_OK)
		fail_msg("%s: %s", text, fail.text);
	return codec;
}

/* Encodes into exactly `bound` bytes, unaligned, with guards behind; *bytes is malloc'ed. */
enum sl_err codec_encode(struct sl_codec *c, const struct sl_codec_call *call, const float *x, struct sl_shape shape,
			 uint8_t **bytes, size_t *len)
{
	size_t bound = sl_codec_bound(c, shape.dim[0]);
	uint8_t *mem = malloc(bound + 3 + 16);
	struct sl_buf out = {mem, 3, bound + 3};
	struct sl_tensor t = {.dtype = SL_F32, .shape = shape, .data = (void *)x};
	enum sl_err err;

	memset(mem, 0xa5, bound + 3 + 16);
	err = sl_codec_encode(c, call, &t, &out);
	for (int i = 0; i < 16; i++)
		assert_int_equal(mem[bound + 3 + i], 0xa5);
	assert_int_equal(mem[2], 0xa5);
	*bytes = NULL;
	*len = out.len - 3;
	if (err == SL_OK) {
		assert_true(*len <= bound);
		*bytes = malloc(*len);
		memcpy(*bytes, mem + 3, *len);
	} else {
		assert_int_equal(out.len, 3);
	}
	free(mem);
	return err;
}

enum sl_err codec_decode(struct sl_codec *c, const struct sl_codec_call *call, const uint8_t *bytes, size_t len,
			 struct sl_shape shape, float *x)
{
	struct sl_tensor t = {.dtype = SL_F32, .shape = shape, .data = x};
	struct sl_fail fail = {0};
	/* exactly as long as it says, so that sanitizers see a read beyond */
	uint8_t *copy = malloc(len + 1);
	enum sl_err err;

	memcpy(copy + 1, bytes, len);
	err = sl_codec_decode(c, call, (struct sl_bytes){copy + 1, len}, &t, &fail);
	free(copy);
	if (err != SL_OK)
		assert_true(fail.text[0] != '\0');
	return err;
}

size_t codec_round_trip(const char *text, struct sl_shape shape, const float *x, float *back)
{
	struct sl_codec *c = codec_open(text, shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *one, *two;
	size_t len, again;

	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &one, &len), SL_OK);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &two, &again), SL_OK);
	assert_int_equal(len, again);
	assert_memory_equal(one, two, len);
	assert_int_equal(codec_decode(c, &codec_call0, one, len, shape, back), SL_OK);
	free(one);
	free(two);
	sl_codec_close(c);
	return len;
}

void codec_fill(float *x, int64_t n, enum codec_kind kind)
{
	struct sl_rng_key key = {.seed = 3, .step = (uint64_t)kind, .tensor = SL_RNG_TEST};

	for (int64_t i = 0; i < n; i++) {
		float pair[2];

		sl_rng_normal2(sl_rng_u32(&key, (uint64_t)(2 * i)), sl_rng_u32(&key, (uint64_t)(2 * i + 1)), pair);
		switch (kind) {
		case RANDOM:
			x[i] = pair[0];
			break;
		case CONSTANT:
			x[i] = -2.5f;
			break;
		case ZERO:
			x[i] = i % 2 ? -0.0f : 0.0f;
			break;
		case TINY:
			x[i] = pair[0] * 1e-42f;
			break;
		case HUGE_VALUES:
			x[i] = pair[0] > 0 ? FLT_MAX : -FLT_MAX;
			break;
		default:
			x[i] = pair[0] < 0 ? 0 : pair[0] > 1 ? 1 : pair[0];
			break;
		}
	}
}
