/* Philox4x32-10 against the known-answer vectors of Random123 (kat_vectors), and the normal transform. */
#include <math.h>

#include "common/base/rng.h"
#include "tests/support/unit.h"

static void known_answers(void **state)
{
	static const struct {
		uint32_t counter[4], key[2], expect[4];
	} kat[] = {
		{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
		 {0xffffffff, 0xffffffff},
		 {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
		 {0xa4093822, 0x299f31d0},
		 {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};

	for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
		uint32_t out[4];

		sl_philox4x32_10(kat[i].counter, kat[i].key, out);
		assert_memory_equal(out, kat[i].expect, sizeof out);
	}
}

static void words_follow_the_documented_counter(void **state)
{
	const struct sl_rng_key key = {
		.seed = 0x299f31d0a4093822u, .step = 0x0370734413198a2eu, .chunk = 0x85a3, .tensor = 0x08d3};
	static const uint32_t expect[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};

	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(sl_rng_u32(&key, (uint64_t)0x243f6a88 * 4 + i), expect[i]);
}

static void streams_differ(void **state)
{
	const struct sl_rng_key base = {.seed = 7, .step = 3, .chunk = 1, .tensor = 2};
	struct sl_rng_key k;

	k = base, k.seed++;
	assert_int_not_equal(sl_rng_u32(&base, 0), sl_rng_u32(&k, 0));
	k = base, k.step++;
	assert_int_not_equal(sl_rng_u32(&base, 0), sl_rng_u32(&k, 0));
	k = base, k.chunk++;
	assert_int_not_equal(sl_rng_u32(&base, 0), sl_rng_u32(&k, 0));
	k = base, k.tensor++;
	assert_int_not_equal(sl_rng_u32(&base, 0), sl_rng_u32(&k, 0));
}

static void unit_and_below_stay_inside(void **state)
{
	assert_true(sl_rng_unit(0) == 0.0f);
	assert_true(sl_rng_unit(UINT32_MAX) < 1.0f);
	assert_int_equal(sl_rng_below(UINT32_MAX, 10), 9);
	assert_int_equal(sl_rng_below(0, 10), 0);
	assert_int_equal(sl_rng_below(UINT32_MAX, 1), 0);
}

static void normal_has_its_moments(void **state)
{
	const struct sl_rng_key key = {.seed = 11, .tensor = SL_RNG_TEST};
	enum { PAIRS = 200000 };
	double sum = 0, sum2 = 0, sum4 = 0;
	float z[2];

	for (uint32_t i = 0; i < PAIRS; i++) {
		sl_rng_normal2(sl_rng_u32(&key, 2 * i), sl_rng_u32(&key, 2 * i + 1), z);
		for (int j = 0; j < 2; j++) {
			sum += z[j];
			sum2 += (double)z[j] * z[j];
			sum4 += pow(z[j], 4);
		}
	}
	assert_true(fabs(sum / (2 * PAIRS)) < 0.01);
	assert_true(fabs(sum2 / (2 * PAIRS) - 1) < 0.01);
	assert_true(fabs(sum4 / (2 * PAIRS) - 3) < 0.1);
	sl_rng_normal2(0, 0, z);
	assert_true(isfinite(z[0]) && isfinite(z[1]) && z[0] > 6);
	sl_rng_normal2(UINT32_MAX, UINT32_MAX, z);
	assert_true(isfinite(z[0]) && isfinite(z[1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),          cmocka_unit_test(words_follow_the_documented_counter),
		cmocka_unit_test(streams_differ),         cmocka_unit_test(unit_and_below_stay_inside),
		cmocka_unit_test(normal_has_its_moments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
