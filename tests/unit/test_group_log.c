/* A group's log: its list for --absent, also after a cut and from a checkpoint, and which bytes are no log. */
#include "server/group/group_log.h"
#include "tests/support/unit.h"

enum { MEMBERS = 3 };

static struct sl_group_log sample;

static int close_sample(void **state)
{
	sl_group_log_close(&sample);
	return 0;
}

/* The next `steps` steps are done by the members whose digits are in `with`. */
static void steps(uint64_t n, const char *with)
{
	struct sl_group_set set = {0};

	for (; *with; with++)
		sl_group_set_add(&set, *with - '0');
	assert_int_equal(sl_group_log_step(&sample, n, &set), SL_OK);
}

static void comes(int member, uint64_t own)
{
	assert_int_equal(sl_group_log_return(&sample, member, own), SL_OK);
}

static void list_is(const char *want)
{
	struct sl_buf text = {0};

	assert_int_equal(sl_group_log_text(&sample, MEMBERS, &text), SL_OK);
	assert_string_equal((char *)text.data, want);
	free(text.data);
}

static void nobody_is_absent(void **state)
{
	list_is("");
	steps(100, "012");
	list_is("");
	for (int k = 0; k < MEMBERS; k++)
		assert_int_equal(sl_group_log_missed(&sample, k), 0);
}

/* A late member goes on with what it had. */
static void a_member_is_late(void **state)
{
	steps(299, "012");
	steps(1, "02");
	steps(10, "012");
	steps(2, "02");
	steps(1, "012");
	list_is("1:300,1:311,1:312");
	assert_int_equal(sl_group_log_missed(&sample, 1), 3);
	assert_int_equal(sl_group_log_missed(&sample, 0), 0);
}

static void a_member_is_away_and_comes_back(void **state)
{
	steps(702, "012");
	steps(1188, "01");
	comes(2, SL_GROUP_GIVEN);
	steps(110, "012");
	list_is("2:703-1890");
	assert_int_equal(sl_group_log_missed(&sample, 2), 1188);
}

/* It was late, then lost its link, and came back: one absence, since its codecs begin anew behind it. */
static void a_late_member_goes_away(void **state)
{
	steps(10, "012");
	steps(1, "01");
	steps(4, "0");
	comes(2, SL_GROUP_GIVEN);
	steps(1, "02");
	comes(1, SL_GROUP_GIVEN);
	steps(5, "012");
	list_is("1:12-16,2:11-15");
}

static void a_member_comes_back_without_a_missed_step(void **state)
{
	steps(1890, "012");
	comes(2, SL_GROUP_GIVEN);
	comes(2, SL_GROUP_GIVEN); /* again, before the same step */
	steps(10, "012");
	list_is("2:1891-1890");
	assert_int_equal(sl_group_log_missed(&sample, 2), 0);
}

/* Nothing follows from it yet. So members that left before have the same list as one that comes at the end. */
static void a_member_comes_behind_the_last_step(void **state)
{
	steps(1200, "012");
	comes(2, SL_GROUP_GIVEN);
	list_is("");
	comes(1, 1100);
	list_is("1:1201-1200@1100");
	steps(1, "012");
	list_is("1:1201-1200@1100,2:1201-1200");
}

static void a_member_goes_on_with_its_own(void **state)
{
	steps(702, "012");
	steps(1188, "01");
	comes(2, 600);
	steps(10, "012");
	comes(0, 1900);
	steps(10, "012");
	list_is("0:1901-1900@1900,2:703-1890@600");
}

static void a_member_never_comes(void **state)
{
	steps(40, "01");
	list_is("2:1-40");
	assert_int_equal(sl_group_log_missed(&sample, 2), 40);
}

static void a_member_begins_later(void **state)
{
	steps(40, "01");
	comes(2, SL_GROUP_GIVEN);
	steps(5, "012");
	list_is("2:1-40");
}

static void a_member_is_away_to_the_end(void **state)
{
	steps(10, "012");
	steps(30, "02");
	list_is("1:11-40");
	close_sample(NULL);
	steps(10, "012"); /* one step: late and away are the same at the end */
	steps(1, "02");
	list_is("1:11");
}

/* Its steps inside the rounds that ended without it are in none of its absences, unless it began anew since. */
static void a_member_is_late_in_a_round(void **state)
{
	steps(9, "012");
	steps(3, "01");
	assert_int_equal(sl_group_log_alone(&sample, 2, 3, 2), SL_OK);
	steps(3, "0");
	assert_int_equal(sl_group_log_alone(&sample, 2, 3, 1), SL_OK);
	assert_int_equal(sl_group_log_alone(&sample, 1, 3, 2), SL_OK);
	list_is("1:15,2:12,2:14,2:15");
	comes(1, SL_GROUP_GIVEN);
	steps(3, "012");
	list_is("1:13-15,2:12,2:14,2:15");
	assert_int_equal(sl_group_log_missed(&sample, 2), 6);
	steps(30, "01"); /* it is away */
	assert_int_equal(sl_group_log_alone(&sample, 2, 30, 1), SL_OK);
	list_is("1:13-15,2:12,2:14,2:15,2:20-48");
	sl_group_log_cut(&sample, 12);
	list_is("2:12");
}

/* A member may come, and be lost again before the step. */
static void a_member_comes_and_is_lost_again(void **state)
{
	steps(10, "012");
	steps(5, "02");
	comes(1, SL_GROUP_GIVEN);
	steps(5, "02");
	comes(1, SL_GROUP_GIVEN);
	steps(5, "012");
	list_is("1:11-15,1:16-20");
	assert_int_equal(sl_group_log_missed(&sample, 1), 10);
}

/* The highest seat has a bit, too. */
static void the_last_seat_counts(void **state)
{
	struct sl_group_set set = {0};
	const int last = SL_CONF_SHARE_CLIENTS - 1;

	for (int k = 0; k < last; k++)
		sl_group_set_add(&set, k);
	assert_int_equal(sl_group_log_step(&sample, 3, &set), SL_OK);
	for (int k = 0; k <= last; k++)
		assert_int_equal(sl_group_log_missed(&sample, k), k == last ? 3 : 0);
}

/* ---- a group that goes back */

static void fill_sample(void)
{
	steps(702, "012");
	steps(1188, "01");
	comes(2, SL_GROUP_GIVEN);
	steps(9, "012");
	steps(1, "12");
	steps(4, "012");
}

static void a_cut_forgets_what_is_behind_it(void **state)
{
	static const struct {
		uint64_t step;
		const char *list;
		uint64_t end;
	} cut[] = {{1904, "0:1900,2:703-1890", 1904},
		   {1900, "0:1900,2:703-1890", 1900},
		   {1899, "2:703-1890", 1899},
		   {1890, "2:703-1890", 1890},
		   {1889, "2:703-1889", 1889},
		   {702, "", 702},
		   {0, "", 0},
		   {5000, "0:1900,2:703-1890", 1904}};

	for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
		fill_sample();
		sl_group_log_cut(&sample, cut[i].step);
		assert_int_equal(sample.end, cut[i].end);
		list_is(cut[i].list);
		close_sample(NULL);
	}
	fill_sample();
	sl_group_log_cut(&sample, 1000);
	comes(2, SL_GROUP_GIVEN);
	steps(2, "012");
	list_is("2:703-1000");
}

/* ---- in a checkpoint */

static uint8_t memory[1024];
static struct sl_buf written = {memory, 0, sizeof memory};

static void write_sample(void)
{
	written.len = 0;
	assert_int_equal(sl_group_log_write(&sample, &written), SL_OK);
	assert_int_equal(written.len, sl_group_log_size(&sample));
}

/* Reads a copy of the exact size, so that a sanitizer finds reads beyond it. */
static enum sl_err read_back(size_t len, size_t *used)
{
	uint8_t *copy = malloc(len ? len : 1);
	enum sl_err err;

	assert_non_null(copy);
	memcpy(copy, written.data, len);
	err = sl_group_log_read(&sample, (struct sl_bytes){copy, len}, used);
	free(copy);
	return err;
}

static void a_log_is_read_as_it_was_written(void **state)
{
	size_t used = 0;

	for (int full = 0; full < 2; full++) {
		if (full)
			fill_sample();
		write_sample();
		assert_int_equal(read_back(written.len, &used), SL_OK); /* an empty one is its head alone */
		assert_int_equal(used, written.len);
		assert_int_equal(sl_buf_put(&written, "more", 4), SL_OK); /* what follows in a checkpoint */
		assert_int_equal(read_back(written.len, &used), SL_OK);
		assert_int_equal(used, written.len - 4);
		list_is(full ? "0:1900,2:703-1890" : "");
	}
	steps(3, "01"); /* it goes on behind what was read */
	list_is("0:1900,2:703-1890,2:1905-1907");
}

/* Nothing that fits behind a part that does not is taken for the log. */
static void a_log_that_does_not_fit_is_said(void **state)
{
	fill_sample();
	for (size_t cap = 0; cap < sl_group_log_size(&sample); cap++)
		assert_int_equal(sl_group_log_write(&sample, &(struct sl_buf){memory, 0, cap}), SL_ERR_LIMIT);
	write_sample();
}

/* In the log of fill_sample: end, n_range, n_back; ranges; returns. */
enum { RANGE = 24, RANGE_BYTES = sizeof(struct sl_group_range), N_RANGE = 5, BACK = RANGE + N_RANGE * RANGE_BYTES };

static void forged(size_t at, uint64_t value)
{
	size_t used = 77;

	fill_sample();
	write_sample();
	assert_true(at + sizeof value <= written.len);
	memcpy(written.data + at, &value, sizeof value);
	assert_int_equal(read_back(written.len, &used), SL_ERR_DATA);
	assert_int_equal(used, 77);
	list_is("0:1900,2:703-1890"); /* the log is what it was */
	close_sample(NULL);
}

static void what_is_no_log_is_refused(void **state)
{
	static const uint64_t counts[] = {6,
					  1000,
					  UINT64_MAX,
					  UINT64_MAX / RANGE_BYTES,
					  (UINT64_MAX >> 1) + 1,
					  (uint64_t)1 << 61}; /* of which many bytes are none */
	size_t used;

	fill_sample();
	assert_int_equal(sample.n_range, N_RANGE);
	write_sample();
	for (size_t len = 0; len < written.len; len++)
		assert_int_equal(read_back(len, &used), SL_ERR_DATA);
	close_sample(NULL);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
		forged(8, counts[i]); /* more than there are */
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
		forged(16, counts[i]);
	forged(0, 1900);                          /* the last range would be empty */
	forged(0, 1000);                          /* it ends before its last range */
	forged(RANGE, 1);                         /* nothing tells of the first step */
	forged(RANGE + RANGE_BYTES, 0);           /* two ranges begin at one step */
	forged(RANGE + RANGE_BYTES, 1891);        /* a range begins behind the next one */
	forged(BACK, 1905);                       /* a return behind the end */
	forged(BACK + 16, SL_CONF_SHARE_CLIENTS); /* of no member */
	forged(BACK + 16, (uint64_t)UINT32_MAX);  /* of member -1 */
	forged(0, 0);                             /* no step, and ranges */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, close_sample)
	const struct CMUnitTest tests[] = {
		CASE(nobody_is_absent),
		CASE(a_member_is_late),
		CASE(a_member_is_away_and_comes_back),
		CASE(a_late_member_goes_away),
		CASE(a_member_comes_back_without_a_missed_step),
		CASE(a_member_comes_behind_the_last_step),
		CASE(a_member_goes_on_with_its_own),
		CASE(a_member_never_comes),
		CASE(a_member_begins_later),
		CASE(a_member_is_away_to_the_end),
		CASE(a_member_is_late_in_a_round),
		CASE(a_member_comes_and_is_lost_again),
		CASE(the_last_seat_counts),
		CASE(a_cut_forgets_what_is_behind_it),
		CASE(a_log_is_read_as_it_was_written),
		CASE(a_log_that_does_not_fit_is_said),
		CASE(what_is_no_log_is_refused),
	};
#undef CASE

	return cmocka_run_group_tests(tests, NULL, NULL);
}
