/* A table written in many dialects: each is noticed and read as the same numbers, bit for bit, or refused with what to
 * do about it. */
#include <unistd.h>

#include "client/data/centre.h"
#include "client/data/csv_column.h"
#include "client/data/csv_number.h"
#include "common/base/log.h"
#include "tests/support/unit.h"

enum { ROWS = 60, FEATURES = 4, TEXT = 1 << 16 };
enum end { LF, CRLF, BOM, CR, UTF16, ENDS };
enum notation { PLAIN, PERCENT, UNIT, TYPED, NOTATIONS }; /* TYPED: groups of digits and the minus sign of Unicode */

struct dialect {
	char separator;
	bool comma, quotes;
	enum end end;
	enum notation notation;
};

static char path[] = "/tmp/split-csv-XXXXXX";
static char said[4096];

static void put(char *out, const char *text)
{
	strcat(out + strlen(out), text);
}

/* Writes a cell of thousands and tenths as the dialect has it. */
static void put_number(char *out, const struct dialect *d, int tenths)
{
	const char *const quote = d->quotes ? "\"" : "", *const mark = d->comma ? "," : ".";
	const int size = abs(tenths), whole = size / 10;

	put(out, quote);
	put(out, tenths >= 0 ? "" : d->notation == TYPED ? "\xe2\x88\x92" : "-");
	out += strlen(out);
	if (d->notation == TYPED && whole >= 1000)
		sprintf(out, "%d%s%03d%s%d", whole / 1000, whole % 2 ? "\xc2\xa0" : "\xe2\x80\xaf", whole % 1000, mark,
			size % 10);
	else
		sprintf(out, "%d%s%d", whole, mark, size % 10);
	put(out, d->notation == PERCENT ? " %" : d->notation == UNIT ? "\xc2\xa0mg/l" : "");
	put(out, quote);
}

static void write_table(const struct dialect *d)
{
	static char text[TEXT];
	const char *const end = d->end == CRLF ? "\r\n" : d->end == CR ? "\r" : "\n";
	const char *const quote = d->quotes ? "\"" : "";
	const char between[] = {d->separator, 0};
	FILE *file = fopen(path, "wb");

	strcpy(text, d->end == BOM ? "\xef\xbb\xbf" : "");
	sprintf(text + strlen(text), "%ssize%s%s%sweight%s%s%scolour%s%slabel%s", quote, quote, between, quote, quote,
		between, quote, quote, between, end);
	for (int r = 0; r < ROWS; r++) {
		put_number(text, d, (r * 37 % 101) * 317 - 9999);
		put(text, between);
		put_number(text, d, r * 13 % 47);
		put(text, between);
		sprintf(text + strlen(text), "%s%s%s%s%s%s", quote, r % 3 ? "red" : "blue", quote, between,
			r % 2 ? "well" : "sick", end);
	}
	assert_non_null(file);
	if (d->end == UTF16)
		fwrite("\xff\xfe", 1, 2, file);
	for (const char *p = text; *p; p++) {
		fputc(*p, file);
		if (d->end == UTF16)
			fputc(0, file);
	}
	fclose(file);
}

static enum sl_err open_as(struct sl_set *set, struct sl_csv_form form, struct sl_fail *fail)
{
	static const char *const label[] = {"label"};
	const struct sl_set_spec spec = {.source = "csv", .dir = path, .label = label, .nlabels = 1, .form = form};

	return sl_set_open(set, &spec, fail);
}

static struct sl_csv_form noticed(void)
{
	struct sl_csv s = {.rows = 0};

	strcpy(s.path, path);
	sl_csv_notice(&s);
	return s.form;
}

static void take(float x[ROWS][FEATURES], const struct sl_set *set)
{
	struct sl_room room = {0};
	struct sl_value v[SL_FIELD_COUNT];
	struct sl_fail fail;

	if (set->count != ROWS || set->field[SL_FIELD_INPUT].dim[0] != FEATURES)
		fail_msg("%lld rows of %lld features", (long long)set->count,
			 (long long)set->field[SL_FIELD_INPUT].dim[0]);
	for (int r = 0; r < ROWS; r++) {
		assert_int_equal(set->source->sample(set, r, &room, v, &fail), SL_OK);
		memcpy(x[r], v[SL_FIELD_INPUT].data, sizeof x[r]);
	}
}

static void name(char *out, const struct dialect *d)
{
	sprintf(out, "separator '%c', comma %d, quotes %d, end %d, notation %d", d->separator, d->comma, d->quotes,
		(int)d->end, (int)d->notation);
}

static void check(const struct dialect *d, float right[ROWS][FEATURES])
{
	const char *const remedy = d->end == UTF16 ? "iconv -f utf-16 -t utf-8"
				   : d->end == CR  ? "tr '\\r' '\\n'"
						   : NULL;
	float x[ROWS][FEATURES];
	struct sl_csv_form form;
	struct sl_set set;
	struct sl_fail fail = {0};
	char is[120];
	enum sl_err err;

	name(is, d);
	write_table(d);
	form = noticed();
	if (!remedy && ((form.separator ? form.separator : ',') != d->separator || form.comma != d->comma))
		fail_msg("%s: noticed '%c', %d", is, form.separator, form.comma);
	err = open_as(&set, form, &fail);
	if (remedy && (err != SL_ERR_DATA || !strstr(fail.text, remedy)))
		fail_msg("%s: %d %s", is, (int)err, fail.text);
	if (remedy)
		return;
	if (err)
		fail_msg("%s: %s", is, fail.text);
	take(x, &set);
	sl_set_close(&set);
	if (memcmp(x, right, sizeof x) != 0)
		fail_msg("%s: other numbers", is);
	if (d->separator == ',')
		return;
	err = open_as(&set, (struct sl_csv_form){0}, &fail);
	if (err != SL_ERR_DATA ||
	    !strstr(fail.text, d->separator == ';' ? "data.separator: semicolon" : "data.separator: tab"))
		fail_msg("%s: with commas: %d %s", is, (int)err, fail.text);
}

static void dialects_are_one_table(void **state)
{
	const struct dialect plain = {',', false, false, LF, PLAIN};
	float right[ROWS][FEATURES];
	struct sl_set set;
	struct sl_fail fail;

	write_table(&plain);
	assert_int_equal(open_as(&set, (struct sl_csv_form){0}, &fail), SL_OK);
	take(right, &set);
	sl_set_close(&set);
	for (int i = 0; i < 3 * 2 * 2 * ENDS * NOTATIONS; i++) {
		const struct dialect d = {",;\t"[i % 3], i / 3 % 2, i / 6 % 2, (enum end)(i / 12 % ENDS),
					  (enum notation)(i / 12 / ENDS)};

		if (d.end == UTF16 && d.notation >= UNIT) /* the test writes no other characters than ASCII so */
			continue;
		if (d.separator != ',' || !d.comma || d.quotes)
			check(&d, right);
	}
}

static void numbers_have_notations(void **state)
{
	static const struct {
		const char *cell;
		char mark;
		const char *plain, *unit; /* NULL: no number */
	} rows[] = {
		{"3.14", '.', "3.14", ""},
		{" -2e5 ", '.', "-2e5", ""},
		{"1,5", '.', NULL, NULL},
		{"1,5", ',', "1.5", ""},
		{"1,500", '.', NULL, NULL},
		{"1,500.25", '.', "1500.25", ""},
		{"1.500", ',', NULL, NULL},
		{"1.234.567,8", ',', "1234567.8", ""},
		{"1.5", ',', NULL, NULL},
		{"12\xc2\xa0"
		 "345",
		 '.', "12345", ""},
		{"12 345", '.', NULL, NULL},
		{"1234\xc2\xa0"
		 "567",
		 '.', NULL, NULL},
		{"\xe2\x88\x92"
		 "5,0\xc2\xa0%",
		 ',', "-5.0", "%"},
		{"5 mg/l ", '.', "5", "mg/l"},
		{"5\xc2\xb5g", '.', "5", "\xc2\xb5g"},
		{"2024-01-02", '.', NULL, NULL},
		{"12:30", '.', NULL, NULL},
		{"31.12.2024", '.', NULL, NULL},
		{"5\xe2\x80\x93"
		 "7",
		 '.', NULL, NULL},
		{"5\xe2\x88\x92"
		 "7",
		 '.', NULL, NULL},
		{"1,5.png", ',', NULL, NULL},
		{"10/12", '.', NULL, NULL},
		{"%", '.', NULL, NULL},
		{"", '.', NULL, NULL},
		{".", '.', NULL, NULL},
		{"-", '.', NULL, NULL},
		{"5e", '.', "5", "e"},
		{".5", '.', ".5", ""},
		{"5 a unit of more than 20 bytes", '.', NULL, NULL},
		{"1111111111111111111111111111111111111111111111111111111111111111111111111", '.', NULL, NULL},
		{"1.5e1111111111111111111111111111111111111111111111111111111111111111111111", '.', NULL, NULL},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sl_csv_number n;
		const bool is = sl_csv_number(rows[i].cell, rows[i].mark, &n);

		if (is != !!rows[i].plain || (is && (strcmp(n.plain, rows[i].plain) || strcmp(n.unit, rows[i].unit))))
			fail_msg("\"%s\" with %c: %d %s %s", rows[i].cell, rows[i].mark, is, is ? n.plain : "",
				 is ? n.unit : "");
	}
}

static void hear(void *arg, const char *line, size_t len)
{
	snprintf(said + strlen(said), sizeof said - strlen(said), "%.*s", (int)len, line);
}

static void write_column(const char *format, int rows)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs("dose,label\n", file);
	for (int i = 0; i < rows; i++) {
		fprintf(file, format, i % 50 + 1, (i * 7) % 1000, i);
		fprintf(file, ",%d\n", i % 2);
	}
	fclose(file);
}

/* Columns of measurements that are read as texts are told of, with what to write. Each `format` makes a cell of two
 * numbers. */
static void measurements_are_told_of(void **state)
{
	static const struct {
		const char *format;
		int rows;
		struct sl_csv_form form;
		enum sl_err err;
		const char *said;
	} rows[] = {
		{"\"%d,%03d\"",
		 60,
		 {0},
		 SL_OK,
		 "column \"dose\": \"10,413\" is no number, and each such text becomes a "
		 "feature: if 1,5 means 1.5 in this file, set data.decimal: comma"},
		{"\"%d,%d%d\"", 3000, {0}, SL_ERR_DATA, "set data.decimal: comma"},
		{"%d.%03d kg", 60, {0}, SL_OK, "column \"dose\": its cells are read as numbers of \"kg\""},
		{"%d.%03d kg or %d",
		 60,
		 {0},
		 SL_OK,
		 "is no number, and each such text becomes a feature: write the "
		 "numbers alone, or all of them with one unit"},
		{"%d.%d",
		 60,
		 {',', true},
		 SL_ERR_DATA,
		 "column \"dose\": \"10.413\" has a point, and data.decimal is comma"},
		{"%d.%d kg", 60, {',', true}, SL_ERR_DATA, "has a point, and data.decimal is comma"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sl_fail fail = {0};
		struct sl_set set;
		enum sl_err err;

		write_column(rows[i].format, rows[i].rows);
		said[0] = '\0';
		err = open_as(&set, rows[i].form, &fail);
		if (err != rows[i].err || !strstr(err ? fail.text : said, rows[i].said))
			fail_msg("%s: %d %s %s", rows[i].format, (int)err, fail.text, said);
		if (!err)
			sl_set_close(&set);
	}
}

/* A file's fault is never a peer's: status 65, with the line. */
static void long_lines_are_the_files_fault(void **state)
{
	struct sl_set set;
	struct sl_fail fail = {0};
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs("dose,label\n1,1\n", file);
	for (int i = 0; i < 17 << 10; i++)
		fprintf(file, "%01024d", i);
	fputs(",1\n", file);
	fclose(file);
	assert_int_equal(open_as(&set, (struct sl_csv_form){0}, &fail), SL_ERR_DATA);
	assert_int_equal(sl_err_exit_status(fail.code), 65);
	assert_non_null(strstr(fail.text, ":3: a line of more than 16 MiB"));
}

/* A centre is taken off where floats would lose what numbers differ by, and it makes no number larger. */
static void numbers_have_centres(void **state)
{
	static const struct {
		double number[3], centre;
	} is[] = {
		{{1700000010, 1700000003, 1700000050}, 1700000003},
		{{-3e9, -2e9, -2.5e9}, -2e9},
		{{1700000010, -5, 1700000050}, 0},
		{{1700000010, 3, 1700000050}, 0},
		{{0.1, 0.1, 0.1}, 0},
		{{1 << 24, 1 << 24, 1 << 24}, 1 << 24},
		{{20000, 21000, 22500}, 0},
		{{2000.00001, 2000.00002, 2000.00003}, 2000.00001},
	};

	for (size_t i = 0; i < sizeof is / sizeof is[0]; i++) {
		struct sl_centre c = {.any = false};

		for (int k = 0; k < 3; k++)
			sl_centre_add(&c, is[i].number[k]);
		assert_true(sl_centre_of(&c) == is[i].centre);
	}
}

static void dates_are_days(void **state)
{
	static const struct {
		const char *cell;
		enum sl_date_form form;
		int64_t day; /* by Python's datetime */
		int month, weekday;
	} right[] = {
		{"1970-01-01", SL_DATE_ISO, 0, 0, 4},
		{"2024/2/29", SL_DATE_ISO, 19782, 1, 4},
		{"31.12.1969", SL_DATE_DAY_FIRST, -1, 11, 3},
		{"1/3/1900", SL_DATE_DAY_FIRST, -25508, 2, 4},
		{"03-01-1900", SL_DATE_MONTH_FIRST, -25508, 2, 4},
		{" 9999-12-31T23:59:59.9+14:00", SL_DATE_ISO, 2932896, 11, 5},
	};
	static const char *const none[] = {"",           "2024",        "24-12-31",   "2024-13-01", "2023-02-29",
					   "1900-02-29", "2024-12-31x", "2024-12/31", "2024-1-",    "99999999999-01-01",
					   "0999-01-01", "2024-00-10",  "2024-10-00", "-2024-1-1",  "2024-12-031"};
	struct sl_date date;
	char text[16];

	for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
		assert_true(sl_date_read(right[i].cell, right[i].form, &date));
		assert_int_equal(date.day, right[i].day);
		assert_int_equal(date.month, right[i].month);
		assert_int_equal(date.weekday, right[i].weekday);
	}
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		for (int form = SL_DATE_ISO; form < SL_DATE_FORMS; form++)
			assert_false(sl_date_read(none[i], (enum sl_date_form)form, &date));
	assert_false(sl_date_read("12.31.2024", SL_DATE_MONTH_FIRST, &date));
	sl_date_print(-25508, text);
	assert_string_equal(text, "1900-03-01");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dialects_are_one_table),   cmocka_unit_test(numbers_have_notations),
		cmocka_unit_test(measurements_are_told_of), cmocka_unit_test(long_lines_are_the_files_fault),
		cmocka_unit_test(numbers_have_centres),     cmocka_unit_test(dates_are_days),
	};
	int failed;

	close(mkstemp(path));
	sl_log_set_sink(hear, NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
