/* data.split over a table: every row is in one part, and all rows of a patient are in the same,
 * whatever else is in the table. */
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/parts.h"
#include "tests/support/unit.h"

enum { ROWS = 3000, PATIENTS = 400, FOLDS = 5 };

static char dir[200];

static int patient_of(int row)
{
	return row * 31 % PATIENTS;
}

static double size_of(int row)
{
	return row * 37 % 101;
}

static void write_table(int rows)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof path, "%s/train.csv", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("patient,size,sick\n", file);
	for (int i = 0; i < rows; i++)
		fprintf(file, "p%d,%g,%s\n", patient_of(i), size_of(i), i % 3 ? "no" : "yes");
	fclose(file);
}

static struct sl_parts parts_of(enum sl_parts_own own, const char *by)
{
	return (struct sl_parts){.share = {0.7, 0.1, 0.2}, .by = by, .own = own, .seed = 1};
}

static struct sl_set open_part(const struct sl_parts *parts)
{
	static const char *const label[] = {"sick"};
	const struct sl_set_spec spec = {.source = "csv", .dir = dir, .label = label, .nlabels = 1, .parts = parts};
	struct sl_set set = {.count = 0};
	struct sl_fail fail;

	if (sl_set_open(&set, &spec, &fail))
		fail_msg("%s", fail.text);
	return set;
}

/* The row of the table that sample `index` came from. */
static int row_of(const struct sl_set *set, int64_t index)
{
	char name[400];

	return atoi(strrchr(set->source->sample_name(set, index, name, sizeof name), ':') + 1) - 2;
}

/* Marks the rows of one part; none of them may be in another part already. */
static int64_t take(const struct sl_parts *parts, int part[ROWS], int number)
{
	struct sl_set set = open_part(parts);
	const int64_t count = set.count;

	for (int64_t i = 0; i < count; i++) {
		const int row = row_of(&set, i);

		assert_int_equal(part[row], -1);
		part[row] = number;
	}
	sl_set_close(&set);
	return count;
}

static void deal(int part[ROWS], const char *by)
{
	int64_t all = 0;

	memset(part, 0xff, ROWS * sizeof *part);
	for (int own = 0; own < SL_PARTS_COUNT; own++) {
		const struct sl_parts parts = parts_of((enum sl_parts_own)own, by);
		const int64_t n = take(&parts, part, own);

		assert_true(fabs((double)n / ROWS - parts.share[own]) < 0.05);
		all += n;
	}
	assert_int_equal(all, ROWS);
}

static void no_patient_is_in_two_parts(void **state)
{
	int part[ROWS], of[PATIENTS];

	write_table(ROWS);
	deal(part, "patient");
	memset(of, 0xff, sizeof of);
	for (int i = 0; i < ROWS; i++) {
		int *p = &of[patient_of(i)];

		assert_true(*p < 0 || *p == part[i]);
		*p = part[i];
	}
}

static void rows_that_stay_keep_their_part(void **state)
{
	static int before[ROWS], now[ROWS], other = 0;
	struct sl_parts parts = parts_of(SL_PARTS_TEST, "");

	write_table(ROWS);
	deal(before, "");
	write_table(ROWS / 2);
	memset(now, 0xff, sizeof now);
	(void)take(&parts, now, SL_PARTS_TEST);
	for (int i = 0; i < ROWS / 2; i++)
		assert_int_equal(now[i] == SL_PARTS_TEST, before[i] == SL_PARTS_TEST);
	parts.seed++;
	memset(now, 0xff, sizeof now);
	(void)take(&parts, now, SL_PARTS_TEST);
	for (int i = 0; i < ROWS / 2; i++)
		other += (now[i] == SL_PARTS_TEST) != (before[i] == SL_PARTS_TEST);
	assert_true(other > ROWS / 10);
}

/* Over all folds every row is validated once. Rows of the test part are in no fold. */
static void folds_share_what_test_leaves(void **state)
{
	int part[ROWS], train[ROWS], tests = 0;
	struct sl_parts parts = parts_of(SL_PARTS_TEST, "patient");

	write_table(ROWS);
	memset(part, 0xff, sizeof part);
	(void)take(&parts, part, FOLDS);
	parts.folds = FOLDS;
	for (parts.fold = 0; parts.fold < FOLDS; parts.fold++) {
		parts.own = SL_PARTS_VAL;
		assert_true(take(&parts, part, parts.fold) > ROWS / 8);
		parts.own = SL_PARTS_TRAIN;
		memset(train, 0xff, sizeof train);
		(void)take(&parts, train, 0);
		for (int i = 0; i < ROWS; i++)
			assert_true(train[i] < 0 || (part[i] != parts.fold && part[i] != FOLDS));
	}
	for (int i = 0; i < ROWS; i++) {
		assert_true(part[i] >= 0);
		tests += part[i] == FOLDS;
	}
	assert_true(fabs((double)tests / ROWS - 0.2) < 0.05);
}

/* Means and deviations are those of the training part alone, and the column `by` is no feature. */
static void scales_are_those_of_training(void **state)
{
	const struct sl_parts parts = parts_of(SL_PARTS_TRAIN, "patient");
	struct sl_set set;
	double sum = 0, squares = 0;
	json_t *about = json_object(), *column;

	write_table(ROWS);
	set = open_part(&parts);
	for (int64_t i = 0; i < set.count; i++)
		sum += size_of(row_of(&set, i));
	sum /= (double)set.count;
	for (int64_t i = 0; i < set.count; i++)
		squares += pow(size_of(row_of(&set, i)) - sum, 2);
	assert_int_equal(set.field[SL_FIELD_INPUT].dim[0], 1);
	set.source->describe(&set, about);
	column = json_array_get(json_object_get(about, "columns"), 0);
	assert_string_equal(json_string_value(json_object_get(column, "name")), "size");
	assert_float_equal(json_real_value(json_object_get(column, "mean")), sum, 1e-9);
	assert_float_equal(json_real_value(json_object_get(column, "deviation")), sqrt(squares / (double)set.count),
			   1e-9);
	json_decref(about);
	sl_set_close(&set);
}

/* ---- by class */

enum { EACH = 6 };

/* One patient in ten. */
static bool is_ill(int row)
{
	return row / EACH % 10 == 3;
}

/* Writes six rows of each patient, in order or backwards. Returns how many. */
static int write_patients(int patients, bool backwards)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof path, "%s/train.csv", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("patient,size,sick\n", file);
	for (int k = 0; k < patients * EACH; k++) {
		const int i = backwards ? patients * EACH - 1 - k : k;

		fprintf(file, "p%d,%d,%s\n", i / EACH, i, is_ill(i) ? "ill" : "well");
	}
	fclose(file);
	return patients * EACH;
}

/* Fills part [rows], by the number of the row in the table that is not backwards. */
static void deal_patients(int *part, int rows, bool backwards, struct sl_parts parts)
{
	for (int own = 0; own < SL_PARTS_COUNT; own++) {
		struct sl_set set;

		parts.own = (enum sl_parts_own)own;
		if (!(parts.share[own] > 0))
			continue;
		set = open_part(&parts);
		for (int64_t i = 0; i < set.count; i++)
			part[backwards ? rows - 1 - row_of(&set, i) : row_of(&set, i)] = own;
		sl_set_close(&set);
	}
}

/* Each part has its share of each class, to a patient; a patient is in one part; the order of the file is nothing. */
static void classes_are_in_all_parts(void **state)
{
	struct sl_parts parts = {.share = {0.6, 0.2, 0.2}, .by = "patient", .by_class = true};
	static int part[2][200 * EACH];

	for (parts.seed = 0; parts.seed < 6; parts.seed++) {
		int of[2][SL_PARTS_COUNT] = {{0}}, all[2] = {0, 0};
		int rows = write_patients(150, false);

		deal_patients(part[0], rows, false, parts);
		(void)write_patients(150, true);
		deal_patients(part[1], rows, true, parts);
		assert_memory_equal(part[0], part[1], (size_t)rows * sizeof(int));
		for (int i = 0; i < rows; i++) {
			assert_int_equal(part[0][i], part[0][i / EACH * EACH]);
			of[is_ill(i)][part[0][i]]++;
			all[is_ill(i)]++;
		}
		assert_true(all[1] > 0);
		for (int k = 0; k < 2; k++)
			for (int p = 0; p < SL_PARTS_COUNT; p++)
				assert_true(fabs(of[k][p] - parts.share[p] * all[k]) <= EACH);
	}
}

/* Each of three ill patients is in another part, however small that is. */
static void a_small_class_is_in_all_parts(void **state)
{
	struct sl_parts parts = {.share = {0.9, 0.05, 0.05}, .by = "patient", .by_class = true};
	static int part[200 * EACH];

	for (parts.seed = 0; parts.seed < 6; parts.seed++) {
		bool ill[SL_PARTS_COUNT] = {false};
		const int rows = write_patients(25, false); /* patients 3, 13, 23 */

		deal_patients(part, rows, false, parts);
		for (int i = 0; i < rows; i++)
			ill[part[i]] |= is_ill(i);
		assert_true(ill[SL_PARTS_TRAIN] && ill[SL_PARTS_VAL] && ill[SL_PARTS_TEST]);
	}
}

/* A set that grows keeps nearly all parts. Another seed makes others. */
static void few_rows_move_where_a_set_grows(void **state)
{
	struct sl_parts parts = {.share = {0.6, 0.2, 0.2}, .by = "patient", .by_class = true};
	static int before[200 * EACH], now[200 * EACH];
	int moved = 0, other = 0;
	const int rows = write_patients(150, false);

	deal_patients(before, rows, false, parts);
	(void)write_patients(160, false);
	deal_patients(now, 160 * EACH, false, parts);
	for (int i = 0; i < rows; i++)
		moved += before[i] != now[i];
	parts.seed = 7;
	(void)write_patients(150, false);
	deal_patients(now, rows, false, parts);
	for (int i = 0; i < rows; i++)
		other += before[i] != now[i];
	assert_true(moved < rows / 20);
	assert_true(other > rows / 4);
}

static void what_cannot_be_split_is_refused(void **state)
{
	struct sl_parts parts = parts_of(SL_PARTS_VAL, "doctor");
	static const char *const label[] = {"sick"};
	struct sl_set_spec spec = {.source = "csv", .dir = dir, .label = label, .nlabels = 1, .parts = &parts};
	struct sl_set set;
	struct sl_fail fail = {0};

	write_table(4);
	assert_int_equal(sl_set_open(&set, &spec, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "no column \"doctor\" (data.split.by)"));
	parts.by = "";
	parts.share[SL_PARTS_TRAIN] = 0.8;
	parts.share[SL_PARTS_VAL] = 0;
	assert_int_equal(sl_set_open(&set, &spec, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "none of the 4 samples falls to validation"));
	assert_int_equal(sl_set_check(&set, &spec, &fail), SL_ERR_CONFIG);
}

/* An expression in the notation of Python or Perl would put pictures of a patient into several parts. */
static void expressions_of_other_notations_are_refused(void **state)
{
	static const char *const foreign[] = {"p(\\d+)_", "/(.*?)_", "p([\\d]+)_", "(p.{1,3}?)_", "p[]_]+?", "x(\\D)"};
	static const char *const huge[] = {
		"((((.{1,200}){1,200}){1,200}){1,200})", "(.{40}){40}", "a{9999}", "[]{]{2000}",
		"((((((((((a+)+)+)+)+)+)+)+)+)+)",       "\\({2000}"};
	static const char *const good[] = {"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4})",
					   "(p{1,}[0-9]{1,9}){2,5}",
					   "[{9999}]p",
					   "\\{9999}",
					   "p([0-9]+)_",
					   "/([^_]*)_",
					   "([*?]?p)",
					   "(\\*?p)",
					   "\\\\?(p)",
					   "[[:alpha:]]+(p?)"};
	struct sl_parts parts = parts_of(SL_PARTS_TRAIN, "");
	struct sl_set_spec spec = {.source = "images", .dir = dir, .parts = &parts, .picture.max_pixels = 1};
	struct sl_set set;
	struct sl_fail fail = {0};
	char path[4][300];

	for (int i = 0; i < 4; i++)
		snprintf(path[i], sizeof path[i], "%s/%c%s", dir, 'a' + i / 2, i % 2 ? "/p1_2_3.png" : "");
	for (int i = 0; i < 4; i += 2) {
		assert_int_equal(mkdir(path[i], 0700), 0);
		fclose(fopen(path[i + 1], "w"));
	}
	for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
		parts.by = foreign[i];
		assert_int_equal(sl_set_open(&set, &spec, &fail), SL_ERR_CONFIG);
		assert_non_null(strstr(fail.text, "means something else in a regular expression of POSIX"));
	}
	for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
		parts.by = huge[i];
		assert_int_equal(sl_set_open(&set, &spec, &fail), SL_ERR_CONFIG);
		assert_non_null(strstr(fail.text, "repeats so much"));
	}
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		parts.by = good[i];
		if (sl_set_open(&set, &spec, &fail) == SL_OK)
			sl_set_close(&set);
		else
			assert_true(!strstr(fail.text, "POSIX") && !strstr(fail.text, "repeats"));
	}
	for (int i = 3; i >= 0; i--)
		assert_int_equal(remove(path[i]), 0);
}

static int begin(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/parts-%d", tmp ? tmp : "/tmp", (int)getpid());
	return mkdir(dir, 0700);
}

static int end(void **state)
{
	char path[300];

	snprintf(path, sizeof path, "%s/train.csv", dir);
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_patient_is_in_two_parts),
		cmocka_unit_test(rows_that_stay_keep_their_part),
		cmocka_unit_test(folds_share_what_test_leaves),
		cmocka_unit_test(scales_are_those_of_training),
		cmocka_unit_test(classes_are_in_all_parts),
		cmocka_unit_test(a_small_class_is_in_all_parts),
		cmocka_unit_test(few_rows_move_where_a_set_grows),
		cmocka_unit_test(what_cannot_be_split_is_refused),
		cmocka_unit_test(expressions_of_other_notations_are_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
