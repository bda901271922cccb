/* f16 and bf16: rounding to nearest even, and values beyond the largest finite one. */
#include <float.h>
#include <math.h>

#include "tests/support/codec.h"
#include "tests/support/unit.h"

static void f16_rounds_to_nearest_even_and_saturates(void **state)
{
	static const float in[] = {0,        -0.0f,        1,      1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f,
				   65504,    65519,        1e9f,   -3e38f,          0x1p-24f,
				   0x1p-25f, 3 * 0x1p-25f, 1e-45f, 0x1p-14f,        0x1.ff8p-15f};
	static const float out[] = {0,        -0.0f, 1,        1, 1.0f + 0x1p-9f, 65504,       65504, 65504, -65504,
				    0x1p-24f, 0,     0x1p-23f, 0, 0x1p-14f,       0x1.ff8p-15f};
	enum { N = sizeof in / sizeof in[0] };
	float back[N];

	assert_int_equal(codec_round_trip("f16", sl_shape2(1, N), in, back), 16 + 2 * N);
	for (int i = 0; i < N; i++)
		assert_true(back[i] == out[i] && signbit(back[i]) == signbit(out[i]));
}

static void bf16_rounds_to_nearest_even_and_saturates(void **state)
{
	static const float in[] = {0, -0.0f, 1, 1 + 0x1p-8f, 1 + 3 * 0x1p-8f, FLT_MAX, -FLT_MAX, 1e-40f};
	static const float out[] = {0, -0.0f, 1, 1, 1 + 0x1p-6f, 0x1.fep127f, -0x1.fep127f, 0x1p-133f};
	float back[8];

	codec_round_trip("bf16", sl_shape2(1, 8), in, back);
	for (int i = 0; i < 8; i++) {
		if (back[i] != out[i] || signbit(back[i]) != signbit(out[i]))
			fail_msg("%a became %a, not %a", (double)in[i], (double)back[i], (double)out[i]);
	}
}

static void f16_agrees_with_the_compiler(void **state)
{
	enum { N = 1 << 20 };
	float *x = malloc(N * 4), *back = malloc(N * 4);

	/* Bit patterns over the whole range below 65520, including values that are subnormal in f16. */
	for (uint32_t i = 0; i < N; i++) {
		uint32_t bits = (i * 2654435761u) % 0x477fefffu | (i & 1) << 31;

		memcpy(&x[i], &bits, 4);
	}
	codec_round_trip("f16", sl_shape2(1, N), x, back);
	for (int i = 0; i < N; i++) {
		/* The spacing of f16 at |x|, from its exponent. x is scaled
		 * by it so that nearbyint rounds as the format does. */
		double unit = ldexp(1, (fabs((double)x[i]) < 0x1p-14 ? -14 : ilogb((double)x[i])) - 10);

		if ((double)back[i] != nearbyint((double)x[i] / unit) * unit)
			fail_msg("%a became %a", (double)x[i], (double)back[i]);
	}
	free(x);
	free(back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(f16_rounds_to_nearest_even_and_saturates),
		cmocka_unit_test(bf16_rounds_to_nearest_even_and_saturates),
		cmocka_unit_test(f16_agrees_with_the_compiler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
