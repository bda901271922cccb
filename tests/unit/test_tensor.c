/* Shapes: equality, checked counts, text. */

#include "common/graph/tensor.h"
#include "tests/support/unit.h"

static void dtypes_have_sizes(void **state)
{
	static const size_t bytes[SL_DTYPE_COUNT] = {4, 2, 2, 4, 8, 1};

	for (int i = 0; i < SL_DTYPE_COUNT; i++)
		assert_int_equal(sl_dtype_bytes((enum sl_dtype)i), bytes[i]);
	assert_int_equal(sl_dtype_bytes(SL_DTYPE_COUNT), 0);
}

static void shapes_compare(void **state)
{
	struct sl_shape a = sl_shape4(2, 3, 4, 5), b = a, c = sl_shape2(2, 3);

	assert_true(sl_shape_equal(&a, &b));
	b.dim[3] = 6;
	assert_false(sl_shape_equal(&a, &b));
	assert_false(sl_shape_equal(&a, &c));
	assert_int_equal(sl_shape_count(&a), 120);
	assert_int_equal(sl_shape_row(&a), 60);
	b = sl_shape_rows(a, 7);
	assert_int_equal(sl_shape_count(&b), 420);
}

static void counts_are_checked(void **state)
{
	struct sl_shape s = sl_shape4(64, 112, 112, 32);
	int64_t n = -1;

	assert_true(sl_shape_count_checked(&s, 25690112, &n));
	assert_int_equal(n, 25690112);
	n = -1;
	assert_false(sl_shape_count_checked(&s, 25690111, &n));
	s = sl_shape4(INT64_MAX, 2, 1, 1);
	assert_false(sl_shape_count_checked(&s, INT64_MAX, &n));
	s = sl_shape4((int64_t)1 << 32, (int64_t)1 << 32, 1, 1);
	assert_false(sl_shape_count_checked(&s, INT64_MAX, &n));
	s = sl_shape2(3, 0);
	assert_false(sl_shape_count_checked(&s, 100, &n));
	s = sl_shape2(-3, -2);
	assert_false(sl_shape_count_checked(&s, 100, &n));
	s.ndim = SL_MAX_DIMS + 1;
	assert_false(sl_shape_count_checked(&s, 100, &n));
	s.ndim = -1;
	assert_false(sl_shape_count_checked(&s, 100, &n));
	assert_int_equal(n, -1);
}

static void shapes_as_text(void **state)
{
	struct sl_shape s = sl_shape4(64, 112, 112, 32);
	char text[SL_SHAPE_TEXT];

	assert_string_equal(sl_shape_text(&s, text), "[64,112,112,32]");
	s = sl_shape1(7);
	assert_string_equal(sl_shape_text(&s, text), "[7]");
	s = sl_shape4(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN);
	assert_int_equal(sl_shape_text(&s, text)[SL_SHAPE_TEXT - 1], 0); /* truncated, not overrun */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dtypes_have_sizes),
		cmocka_unit_test(shapes_compare),
		cmocka_unit_test(counts_are_checked),
		cmocka_unit_test(shapes_as_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
