/* How the members of a group share one set: every sample belongs to one member, for each kind of distribution. */

#include "client/data/subset.h"
#include "tests/support/unit.h"

enum { SAMPLES = 103, CLASSES = 5, MEMBERS = 4 };

static int closed;

static int32_t label_of(int64_t index)
{
	return (int32_t)(index * 7 % CLASSES);
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	static int32_t number, label;

	(void)set;
	(void)room;
	(void)fail;
	number = (int32_t)index;
	label = label_of(index);
	out[SL_FIELD_INPUT].data = &number;
	out[SL_FIELD_TARGET].data = &label;
	return SL_OK;
}

static void close_set(struct sl_set *set)
{
	(void)set;
	closed++;
}

static struct sl_set whole(void)
{
	static const struct sl_source source = {.name = "numbers", .sample = sample, .close = close_set};

	return (struct sl_set){.source = &source,
			       .count = SAMPLES,
			       .classes = CLASSES,
			       .field = {{"row", SL_F32, 1, {1}}, {"label", SL_I32, 0, {0}}}};
}

/* Fills owner[SAMPLES] with the member that each sample belongs to, and sizes[] with their numbers of samples. */
static void deal(enum sl_conf_parts_kind kind, double alpha, uint64_t seed, int owner[SAMPLES], int64_t sizes[MEMBERS])
{
	memset(owner, 0xff, SAMPLES * sizeof *owner);
	for (int m = 0; m < MEMBERS; m++) {
		const struct sl_subset_spec spec = {{kind, alpha}, m, MEMBERS, seed};
		struct sl_value value[SL_FIELD_COUNT];
		struct sl_set set = whole();
		int64_t count[MEMBERS];
		struct sl_fail fail;
		int32_t before = -1;

		if (sl_subset_open(&set, &spec, count, &fail))
			fail_msg("%s", fail.text);
		if (m)
			assert_memory_equal(count, sizes, sizeof count);
		memcpy(sizes, count, sizeof count);
		assert_int_equal(set.count, count[m]);
		for (int64_t i = 0; i < set.count; i++) {
			int32_t number, label;

			assert_int_equal(set.source->sample(&set, i, NULL, value, &fail), SL_OK);
			memcpy(&number, value[SL_FIELD_INPUT].data, sizeof number);
			memcpy(&label, value[SL_FIELD_TARGET].data, sizeof label);
			assert_int_equal(label, label_of(number));
			assert_true(number > before);
			assert_int_equal(owner[number], -1);
			owner[number] = m;
			before = number;
		}
		closed = 0;
		sl_set_close(&set);
		assert_int_equal(closed, 1);
	}
	for (int i = 0; i < SAMPLES; i++)
		assert_true(owner[i] >= 0);
}

static void every_sample_is_one_members(void **state)
{
	static const enum sl_conf_parts_kind kind[] = {SL_PARTS_IID, SL_PARTS_BY_LABEL, SL_PARTS_DIRICHLET};
	int owner[SAMPLES], again[SAMPLES], other[SAMPLES];
	int64_t count[MEMBERS];

	for (int k = 0; k < 3; k++) {
		deal(kind[k], 1, 5, owner, count);
		deal(kind[k], 1, 5, again, count);
		assert_memory_equal(owner, again, sizeof owner);
		deal(kind[k], 1, 6, other, count);
		assert_memory_not_equal(owner, other, sizeof owner);
	}
}

static int labels_of(const int owner[SAMPLES], int member)
{
	unsigned seen = 0;

	for (int i = 0; i < SAMPLES; i++)
		if (owner[i] == member)
			seen |= 1u << label_of(i);
	return __builtin_popcount(seen);
}

static void labels_are_as_unequal_as_asked(void **state)
{
	int owner[SAMPLES];
	int64_t count[MEMBERS];
	int few = 0;

	deal(SL_PARTS_IID, 0, 5, owner, count);
	for (int m = 0; m < MEMBERS; m++) {
		assert_in_range(count[m], SAMPLES / MEMBERS, SAMPLES / MEMBERS + 1);
		assert_int_equal(labels_of(owner, m), CLASSES);
	}
	deal(SL_PARTS_BY_LABEL, 0, 5, owner, count);
	for (int m = 0; m < MEMBERS; m++) {
		assert_in_range(count[m], SAMPLES / MEMBERS, SAMPLES / MEMBERS + 1);
		assert_in_range(labels_of(owner, m), 2, 3);
	}
	deal(SL_PARTS_DIRICHLET, 1000, 5, owner, count);
	for (int m = 0; m < MEMBERS; m++)
		assert_int_equal(labels_of(owner, m), CLASSES);
	deal(SL_PARTS_DIRICHLET, 0.1, 8, owner, count);
	for (int m = 0; m < MEMBERS; m++)
		few += labels_of(owner, m) < CLASSES;
	assert_true(few >= 3);
}

static void nobody_goes_without(void **state)
{
	const struct sl_subset_spec spec = {{SL_PARTS_IID, 0}, 0, SAMPLES + 1, 1};
	struct sl_set set = whole(), before = set;
	int64_t count[SAMPLES + 1];
	struct sl_fail fail;

	assert_int_equal(sl_subset_open(&set, &spec, count, &fail), SL_ERR_CONFIG);
	assert_memory_equal(&set, &before, sizeof set);
	assert_non_null(strstr(fail.text, "gets none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sample_is_one_members),
		cmocka_unit_test(labels_are_as_unequal_as_asked),
		cmocka_unit_test(nobody_goes_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
