/* Payloads that are the tensor itself are sent and received
 * without the codec: they must equal what the codec makes. */

#include "common/codec/frame.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

enum { ROWS = 3, ROW = 35 };

static void only_none_is_plain(void **state)
{
	static const struct {
		const char *spec;
		bool plain;
	} cases[] = {{"none", true}, {"none|zstd:3", false}, {"quant:8", false}, {"topk:0.5", false}, {"f16", false}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_codec *c = codec_open(cases[i].spec, sl_shape4(ROWS, 5, 7, 1), NULL, SL_DIR_HEAD_ACT, NULL);

		assert_int_equal(sl_codec_is_plain(c), cases[i].plain);
		sl_codec_close(c);
	}
}

static void its_bytes_are_the_codecs(void **state)
{
	struct sl_codec *c = codec_open("none", sl_shape4(ROWS, 5, 7, 1), NULL, SL_DIR_MID_GRAD, NULL);
	uint8_t head[SL_FRAME_BYTES], *bytes;
	float x[ROWS * ROW];
	size_t len;

	codec_fill(x, ROWS * ROW, RANDOM);
	for (int rows = 1; rows <= ROWS; rows++) {
		struct sl_tensor t = {SL_F32, sl_shape4(rows, 5, 7, 1), x, NULL};
		struct sl_fail fail;

		assert_int_equal(codec_encode(c, &codec_call0, x, t.shape, &bytes, &len), SL_OK);
		sl_codec_plain_head(c, rows, head);
		assert_int_equal(len, SL_FRAME_BYTES + (size_t)rows * ROW * sizeof(float));
		assert_memory_equal(bytes, head, SL_FRAME_BYTES);
		assert_memory_equal(bytes + SL_FRAME_BYTES, x, len - SL_FRAME_BYTES);
		assert_int_equal(sl_codec_plain_check(c, head, len, &t, &fail), SL_OK);
		free(bytes);
	}
	sl_codec_close(c);
}

/* Whatever decode refuses is refused here, too, with the same message. */
static void what_decode_refuses_is_refused(void **state)
{
	struct sl_codec *c = codec_open("none", sl_shape4(ROWS, 5, 7, 1), NULL, SL_DIR_HEAD_GRAD, NULL);
	const size_t right = SL_FRAME_BYTES + (size_t)2 * ROW * sizeof(float);
	const size_t wrong[] = {0, 1, SL_FRAME_BYTES - 1, SL_FRAME_BYTES, right - 1, right + 1, right + 4 * ROW};
	uint8_t bytes[SL_FRAME_BYTES + (ROWS * ROW + 1) * sizeof(float)] = {0};
	float x[ROWS * ROW];
	struct sl_tensor t = {SL_F32, sl_shape4(2, 5, 7, 1), x, NULL};
	struct sl_fail fail, decoded;

	sl_codec_plain_head(c, 2, bytes);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_int_equal(sl_codec_plain_check(c, bytes, wrong[i], &t, &fail), SL_ERR_PAYLOAD);
		assert_int_equal(sl_codec_decode(c, &codec_call0, (struct sl_bytes){bytes, wrong[i]}, &t, &decoded),
				 SL_ERR_PAYLOAD);
		assert_string_equal(fail.text, decoded.text);
	}
	for (int bit = 0; bit < 8 * SL_FRAME_BYTES; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(sl_codec_plain_check(c, bytes, right, &t, &fail), SL_ERR_PAYLOAD);
		assert_int_equal(sl_codec_decode(c, &codec_call0, (struct sl_bytes){bytes, right}, &t, &decoded),
				 SL_ERR_PAYLOAD);
		assert_string_equal(fail.text, decoded.text);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(sl_codec_plain_check(c, bytes, right, &t, &fail), SL_OK);
	sl_codec_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_none_is_plain),
		cmocka_unit_test(its_bytes_are_the_codecs),
		cmocka_unit_test(what_decode_refuses_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
