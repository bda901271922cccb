/* Whole codecs with the loops of each SIMD level and with the portable ones give the same payloads,
 * and each decodes what the other encoded. */

#include "common/exec/backend.h"
#include "kernels/cpu/level.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

static const struct sl_codec_loops *fast;

static const struct sl_codec_loops *the_loops(void)
{
	return fast;
}

static void compare_payloads(const struct sl_cpu_level *level)
{
	static const char *const specs[] = {
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##levels(chain)
#include "tests/support/codec_list.def"
	};
	static const struct sl_backend_ops ops = {.name = "test", .codec_loops = the_loops};
	struct sl_backend be = {.ops = &ops};
	struct sl_shape shape = sl_shape4(2, 37, 39, 33);
	int64_t n = sl_shape_count(&shape);
	float *x = malloc((size_t)n * 4), *one = malloc((size_t)n * 4), *two = malloc((size_t)n * 4);

	fast = level->codec_loops;
	for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
		for (int kind = 0; kind < KINDS; kind++) {
			struct sl_codec *a = codec_open(specs[i], shape, NULL, SL_DIR_HEAD_ACT, NULL);
			struct sl_codec *b = codec_open(specs[i], shape, &be, SL_DIR_HEAD_ACT, NULL);
			uint8_t *left = NULL, *right = NULL;
			size_t left_len, right_len;
			enum sl_err err;

			codec_fill(x, n, (enum codec_kind)kind);
			err = codec_encode(a, &codec_call0, x, shape, &left, &left_len);
			assert_int_equal(codec_encode(b, &codec_call0, x, shape, &right, &right_len), err);
			if (err == SL_OK) {
				assert_int_equal(left_len, right_len);
				assert_memory_equal(left, right, left_len);
				assert_int_equal(codec_decode(b, &codec_call0, left, left_len, shape, one), SL_OK);
				assert_int_equal(codec_decode(a, &codec_call0, right, right_len, shape, two), SL_OK);
				assert_memory_equal(one, two, (size_t)n * 4);
			}
			free(left);
			free(right);
			sl_codec_close(a);
			sl_codec_close(b);
		}
	}
	free(x);
	free(one);
	free(two);
}

static void payloads_do_not_tell_who_made_them(void **state)
{
	for (int l = 0; sl_cpu_levels[l] != NULL; l++)
		if (sl_cpu_levels[l]->runs())
			compare_payloads(sl_cpu_levels[l]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(payloads_do_not_tell_who_made_them)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
