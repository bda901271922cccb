/* Files of text: TSV, CSV, JSON Lines, GLUE's folders; sets of token ids, and their caches. */
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/source.h"
#include "client/text/glue.h"
#include "client/text/token_set.h"
#include "tests/support/unit.h"

static char dir[PATH_MAX], path[PATH_MAX + 32];
static struct sl_tokenizer *tokenizer;

static void write_file(const char *name, const char *text, size_t len)
{
	FILE *to;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	to = fopen(path, "wbe");
	assert_non_null(to);
	assert_int_equal(fwrite(text, 1, len, to), len);
	assert_int_equal(fclose(to), 0);
}

static void write_text(const char *name, const char *text)
{
	write_file(name, text, strlen(text));
}

static int make_dir(void **state)
{
	struct sl_fail fail;

	snprintf(dir, sizeof dir, "%s/split-text-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(dir))
		return -1;
	write_text("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\n");
	return sl_tokenizer_open(&tokenizer, path, &fail) == SL_OK ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[PATH_MAX + 16];

	sl_tokenizer_close(tokenizer);
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	return system(command);
}

/* ---- records */

/* Returns all rows as "a|b|label;", with "-" for a missing field; or the error. */
static const char *rows(const struct sl_records_spec *spec, const char *text, size_t len)
{
	static char all[4096];
	struct sl_records *records;
	struct sl_record row;
	struct sl_fail fail = {0};
	size_t at = 0;

	all[0] = '\0';
	if (sl_records_open_bytes(&records, spec, (struct sl_bytes){(const uint8_t *)text, len}, &fail) != SL_OK)
		return strcpy(all, fail.text);
	for (;;) {
		enum sl_err err = sl_records_next(records, &row, &fail);
		const struct sl_bytes *field[] = {&row.a, &row.b, &row.label};

		if (err)
			strcpy(all, fail.text);
		if (err || !row.a.data)
			break;
		for (int i = 0; i < 3; i++)
			at += (size_t)snprintf(all + at, sizeof all - at, "%.*s%s",
					       field[i]->data ? (int)field[i]->len : 1,
					       field[i]->data ? (const char *)field[i]->data : "-", i < 2 ? "|" : ";");
	}
	sl_records_close(records);
	return all;
}

static void expect(const struct sl_records_spec *spec, const char *text, const char *want)
{
	char *copy = malloc(strlen(text) + 1); /* of the exact size, so that a sanitizer finds reads beyond the end */

	assert_non_null(copy);
	memcpy(copy, text, strlen(text));
	assert_string_equal(rows(spec, copy, strlen(text)), want);
	free(copy);
}

static void test_tsv(void **state)
{
	struct sl_records_spec spec = {
		.path = "x.tsv", .format = SL_RECORDS_TSV, .a = {NULL, 1}, .b = {NULL, -1}, .label = {NULL, 0}};

	expect(&spec, "1\ta \"b\"\tz\n0\tc", "a \"b\"|-|1;c|-|0;");
	expect(&spec,
	       "\xef\xbb\xbf"
	       "1\ta\r\n\r\n0\t\n",
	       "a|-|1;|-|0;");
	expect(&spec, "1\ta\n\n1\n", "x.tsv:3: 1 column, where at least 2 are needed");
	expect(&spec, "", "");
	spec.skip_short = true;
	expect(&spec, "1\ta\n1\n0\tb\n", "a|-|1;b|-|0;");
	spec = (struct sl_records_spec){.path = "x.tsv",
					.format = SL_RECORDS_TSV,
					.header = true,
					.a = {"text", -1},
					.b = {"more", -1},
					.label = {"y", -1}};
	expect(&spec, "more\ty\ttext\nB\t1\tA\n", "A|B|1;");
	expect(&spec, "more\ttext\nB\t1\tA\n", "x.tsv:1: no column \"y\"; the header names more, text");
	expect(&spec, "text\ty\ttext\tmore\nB\t1\tA\tC\n", "x.tsv:1: 2 columns are called \"text\": name one alone so");
	expect(&spec, "", "x.tsv:1: no header: the file is empty");
	expect(&spec, "more\ty\ttext\nB\t1\tA\tC\n", "A|B|1;");
	spec.exact = true;
	expect(&spec, "more\ty\ttext\nB\t1\tA\nB\t1\tA\tC\n", "x.tsv:3: 4 cells, where the header names 3 columns");
}

static void test_csv(void **state)
{
	struct sl_records_spec spec = {
		.path = "x.csv", .format = SL_RECORDS_CSV, .a = {NULL, 0}, .b = {NULL, 1}, .label = {NULL, -1}};

	expect(&spec, "a,b\nc,\n", "a|b|-;c||-;");
	expect(&spec, "\"a,\"\"b\"\"\",\"\"\r\n\"c\r\nd\ne\",f\r\n", "a,\"b\"||-;c\r\nd\ne|f|-;");
	expect(&spec, "\"a\"\n", "x.csv:1: 1 column, where at least 2 are needed");
	expect(&spec, "a,b\n\"c\nd,e\n", "x.csv:2: a quote that begins in this row has no end");
	expect(&spec, "a,b\"c\n", "x.csv:1: a quote inside a field that does not begin with one");
	expect(&spec, "\"a\"b,c\n", "x.csv:1: something other than a comma after a closing quote");
	expect(&spec, ",\n", "||-;");
	spec.exact = true; /* without a header that names columns */
	expect(&spec, "a,b,c\n", "a|b|-;");
	spec.header = true;
	expect(&spec, "t,y\nwell, yes,1\n",
	       "x.csv:2: 3 cells, where the header names 2 columns: put a text that has a comma in quotes");
}

static void test_jsonl(void **state)
{
	struct sl_records_spec spec = {
		.path = "x.jsonl", .format = SL_RECORDS_JSONL, .a = {"s", -1}, .b = {NULL, -1}, .label = {"y", -1}};

	expect(&spec, "{\"y\": 1, \"s\": \"a\\n\\u00e9\"}\n\n{\"s\": \"b\", \"y\": 0.5}\n{\"s\": \"c\", \"y\": true}",
	       "a\n\xc3\xa9|-|1;b|-|0.5;c|-|true;");
	expect(&spec, "{\"s\": 1e300, \"y\": 0.1}\n{\"s\": \"b\", \"y\": 0.30000000000000004}\n",
	       "1e+300|-|0.1;b|-|0.30000000000000004;");
	expect(&spec, "{\"s\": \"a\", \"y\": 1}\n{\"s\": \"a\"}\n",
	       "x.jsonl:2: the object has no text or number \"y\"");
	expect(&spec, "[1]\n", "x.jsonl:1: no JSON object");
	assert_non_null(strstr(rows(&spec, "{\"s\": \"a\"", 9), "x.jsonl:1:"));
	spec.a.name = NULL;
	expect(&spec, "", "x.jsonl: for JSON Lines name the member that has the text");
}

static void test_ends(void **state)
{
	assert_int_equal(sl_records_format_of("x/Y.CSV"), SL_RECORDS_CSV);
	assert_int_equal(sl_records_format_of("x.JsonL"), SL_RECORDS_JSONL);
	assert_int_equal(sl_records_format_of("tsv"), SL_RECORDS_TSV);
	assert_int_equal(sl_records_format_of(".csv"), SL_RECORDS_FORMAT_COUNT);
	assert_int_equal(sl_records_format_of("x.json"), SL_RECORDS_FORMAT_COUNT);
}

/* An empty text is at the end of a page before a page without access rights: no byte after it may be read. */
static void test_empty(void **state)
{
	const struct sl_records_spec spec = {.path = "x", .b = {NULL, -1}, .label = {NULL, -1}};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(two != MAP_FAILED);
	assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
	assert_string_equal(rows(&spec, two + page, 0), "");
	munmap(two, 2 * page);
}

/* ---- labels, GLUE */

static void test_labels(void **state)
{
	static const char *const names[] = {"no", "yes", NULL};
	const struct sl_labels by_name = {.name = names, .classes = 2}, by_number = {.classes = 3},
			       value = {.regression = true};
	static const char *const bad[] = {"", "x", "3", "-1", "1.5", "nan", "1x", " 1", "0x1"};
	union sl_label out;
	struct sl_fail fail;

#define READ(labels, text) sl_label_read(&labels, (struct sl_bytes){(const uint8_t *)text, strlen(text)}, &out, &fail)
	assert_int_equal(READ(by_name, "yes"), SL_OK);
	assert_int_equal(out.label, 1);
	assert_int_equal(READ(by_name, "yess"), SL_ERR_DATA);
	assert_string_equal(fail.text, "label \"yess\": one of no, yes");
	assert_int_equal(READ(by_number, "2"), SL_OK);
	assert_int_equal(out.label, 2);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(READ(by_number, bad[i]), SL_ERR_DATA);
	assert_int_equal(READ(value, "3.25"), SL_OK);
	assert_true(out.target == 3.25f);
	assert_int_equal(READ(value, "1e99"), SL_ERR_DATA);
	assert_int_equal(READ(value, "inf"), SL_ERR_DATA);
	assert_int_equal(READ(value, "-0X1p3"), SL_ERR_DATA);
}

/* The header of each task's published files, and one row of them. */
static const struct {
	const char *task, *train, *test;
	int label;
} glue[] = {
	{"cola", "gj04\t0\t*\ta b\n", "index\tsentence\n0\ta b\n", 0},
	{"sst2", "sentence\tlabel\na b\t1\n", "index\tsentence\n0\ta b\n", 1},
	{"mrpc", "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta b\tc\n",
	 "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\ta b\tc\n", 1},
	{"qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta b\tc\t0\n4\t5\t6\tshort\n",
	 "id\tquestion1\tquestion2\n0\ta b\tc\n", 0},
	{"mnli",
	 "index\tpromptID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n0\t1\tx\ta b\tc\tneutral\tneutral\n",
	 "index\tsentence1\tsentence2\n0\ta b\tc\n", 1},
	{"qnli", "index\tquestion\tsentence\tlabel\n0\ta b\tc\tnot_entailment\n",
	 "index\tquestion\tsentence\n0\ta b\tc\n", 1},
	{"rte", "index\tsentence1\tsentence2\tlabel\n0\ta b\tc\tentailment\n",
	 "index\tsentence1\tsentence2\n0\ta b\tc\n", 0},
	{"stsb", "index\tgenre\tsentence1\tsentence2\tscore\n0\tx\ta b\tc\t2.5\n",
	 "index\tsentence1\tsentence2\n0\ta b\tc\n", -1},
	{"wnli", "index\tsentence1\tsentence2\tlabel\n0\ta b\tc\t1\n", "index\tsentence1\tsentence2\n0\ta b\tc\n", 1},
};

static struct sl_token_set *open_glue(const char *name, enum sl_glue_split split)
{
	const struct sl_glue_task *task;
	struct sl_token_set_spec spec = {.tokenizer = tokenizer};
	struct sl_token_set *set;
	struct sl_fail fail = {0};
	static char file[PATH_MAX];

	assert_int_equal(sl_glue_find(&task, name, &fail), SL_OK);
	spec.labels = task->labels;
	if (sl_glue_records(task, split, dir, file, &spec.records, &fail) != SL_OK ||
	    sl_token_set_open(&set, &spec, &fail) != SL_OK)
		fail_msg("%s: %s", name, fail.text);
	return set;
}

static void test_glue(void **state)
{
	const struct sl_glue_task *task;
	struct sl_fail fail;
	char file[PATH_MAX], sub[PATH_MAX + 8];
	struct sl_records_spec spec;

	for (size_t i = 0; i < sizeof glue / sizeof glue[0]; i++) {
		for (int test = 0; test < 2; test++) {
			struct sl_token_sample s;
			struct sl_token_set *set;
			int32_t id[16];

			assert_int_equal(sl_glue_find(&task, glue[i].task, &fail), SL_OK);
			write_text(task->file[test ? SL_GLUE_TEST : SL_GLUE_TRAIN],
				   test ? glue[i].test : glue[i].train);
			set = open_glue(glue[i].task, test ? SL_GLUE_TEST : SL_GLUE_TRAIN);
			assert_int_equal(sl_token_set_count(set), 1);
			s = sl_token_set_sample(set, 0, id);
			assert_int_equal(s.n, task->b ? 6 : 4);
			assert_int_equal(id[1], 3);
			assert_int_equal(id[s.n - 2], task->b ? 5 : 4);
			if (task->labels.regression && !test)
				assert_true(s.value.target == 2.5f);
			else
				assert_int_equal(s.value.label, test ? -1 : glue[i].label);
			sl_token_set_close(set);
		}
	}
	assert_int_equal(sl_glue_find(&task, "colla", &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "task \"colla\": did you mean cola?");
	assert_int_equal(sl_glue_find(&task, "wnli", &fail), SL_OK);
	snprintf(sub, sizeof sub, "%s/none", dir);
	assert_int_equal(sl_glue_records(task, SL_GLUE_DEV, sub, file, &spec, &fail), SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, "neither dev.tsv nor WNLI/dev.tsv exists"));
	assert_int_equal(sl_glue_split_of("dev"), SL_GLUE_DEV);
	assert_int_equal(sl_glue_split_of("x"), SL_GLUE_SPLIT_COUNT);
}

/* ---- sets and caches */

static const struct sl_labels two = {.classes = 2};

static struct sl_token_set_spec spec_of(const char *file, int32_t max_length)
{
	return (struct sl_token_set_spec){.tokenizer = tokenizer,
					  .records = {.path = file,
						      .format = SL_RECORDS_TSV,
						      .a = {NULL, 1},
						      .b = {NULL, -1},
						      .label = {NULL, 0}},
					  .labels = two,
					  .max_length = max_length,
					  .cache = true};
}

/* The inode of the cache: a cache that is made again is a new file. */
static ino_t cache_inode(const char *file)
{
	char name[2 * PATH_MAX];
	struct stat st;

	snprintf(name, sizeof name, "%s.tokens", file);
	return stat(name, &st) == 0 ? st.st_ino : 0;
}

static void open_checked(const struct sl_token_set_spec *spec, bool cached)
{
	struct sl_token_set *set;
	struct sl_token_sample s;
	struct sl_fail fail = {0};
	const ino_t before = cache_inode(spec->records.path);
	int32_t id[16];

	if (sl_token_set_open(&set, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(before && cache_inode(spec->records.path) == before, cached);
	assert_int_equal(sl_token_set_count(set), 2);
	assert_int_equal(sl_token_set_longest(set), spec->max_length ? 4 : 5);
	s = sl_token_set_sample(set, 1, id);
	assert_int_equal(s.n, sl_token_set_length(set, 1));
	assert_int_equal(s.whole, 5);
	assert_int_equal(s.first, s.n);
	assert_int_equal(s.value.label, 1);
	assert_int_equal(id[0], 1);
	assert_int_equal(id[1], 3);
	assert_int_equal(id[s.n - 1], 2);
	sl_token_set_close(set);
}

/* A cache is used only for what it was made from. If any byte of it changes, it is made again. */
static void test_cache(void **state)
{
	static char file[PATH_MAX + 32];
	struct sl_token_set_spec spec;
	uint8_t *image;
	size_t len;
	struct sl_fail fail;
	struct stat st;

	write_text("set.tsv", "0\tb\n1\ta b c\n");
	strcpy(file, path);
	spec = spec_of(file, 0);
	open_checked(&spec, false);
	open_checked(&spec, true);
	spec.max_length = 4;
	open_checked(&spec, false);
	open_checked(&spec, true);
	write_text("set.tsv", "0\tc\n1\ta b c\n");
	open_checked(&spec, false);
	open_checked(&spec, true);
	strcat(path, ".tokens");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(sl_file_read(path, 1 << 20, &image, &len, &fail), SL_OK);
	for (size_t i = 0; i < len; i++) {
		image[i] ^= 1;
		write_file("set.tsv.tokens", (char *)image, len);
		image[i] ^= 1;
		open_checked(&spec, false);
	}
	for (size_t i = 0; i < len; i += 7) {
		write_file("set.tsv.tokens", (char *)image, i);
		open_checked(&spec, false);
	}
	free(image);
	open_checked(&spec, true);
}

static void refuse(const char *text, size_t len, const char *want)
{
	static char file[PATH_MAX + 32];
	struct sl_token_set_spec spec;
	struct sl_token_set *set;
	struct sl_fail fail = {0};
	char whole[2 * PATH_MAX];

	write_file("bad.tsv", text, len);
	strcpy(file, path);
	spec = spec_of(file, 0);
	assert_int_equal(sl_token_set_open(&set, &spec, &fail), SL_ERR_DATA);
	snprintf(whole, sizeof whole, "%s%s", file, want);
	assert_string_equal(fail.text, whole);
	strcat(path, ".tokens");
	assert_int_equal(access(path, F_OK), -1);
}

static void test_bad_rows(void **state)
{
	refuse("0\ta\n1\n", 6, ":2: 1 column, where at least 2 are needed");
	refuse("0\ta\n1\ta\xff\n", 9, ":2: invalid UTF-8 at byte 1 of the text");
	refuse("0\ta\n2\tb\n", 8, ":2: label 2 is not a whole number from 0 to 1");
	refuse("0\ta\n1\t\n", 7, ":2: an empty text");
	refuse("", 0, ": no rows");
}

/* ---- rows for the next token */

/* Returns "ids,first;" of each row. The tokenizer has [CLS] 1, [SEP] 2, a 3, b 4, c 5, d 6. */
static const char *next_rows(const char *text, const char *b, struct sl_token_next how, int most)
{
	static char all[1024];
	struct sl_token_set_spec spec = {.tokenizer = tokenizer, .max_length = most, .next = how};
	struct sl_token_set *set;
	struct sl_fail fail = {0};
	size_t at = 0;

	how.on = true;
	spec.next = how;
	write_text("next.tsv", text);
	spec.records = (struct sl_records_spec){.path = path,
						.format = SL_RECORDS_TSV,
						.header = true,
						.a = {"p", -1},
						.b = {b, -1},
						.label = {NULL, -1}};
	all[0] = '\0';
	if (sl_token_set_open(&set, &spec, &fail) != SL_OK)
		return strcpy(all, fail.text);
	for (int64_t i = 0; i < sl_token_set_count(set); i++) {
		int32_t id[64];
		const struct sl_token_sample row = sl_token_set_sample(set, i, id);

		for (int32_t k = 0; k < row.n; k++)
			at += (size_t)snprintf(all + at, sizeof all - at, "%d ", id[k]);
		at += (size_t)snprintf(all + at, sizeof all - at, "%d;", row.first);
	}
	sl_token_set_close(set);
	return all;
}

static void test_next(void **state)
{
	static const char text[] = "p\tc\na b\t c\n\tno\nd\t a a\n";
	const struct sl_token_next none = {.end = -1}, seven = {.end = 0};
	const struct sl_token_next split = {.end = -1, .pack = SL_TOKEN_PACK_SPLIT},
				   join = {.end = 0, .pack = SL_TOKEN_PACK_JOIN}, all = {.end = -1, .all = true};

	assert_string_equal(next_rows(text, NULL, none, 9), "1 3 4 2 0;1 6 2 0;");
	assert_string_equal(next_rows(text, NULL, seven, 9), "1 3 4 2 0 0;1 6 2 0 0;");
	assert_string_equal(next_rows(text, "c", none, 9), "1 3 4 5 2 3;1 0 2 1;1 6 3 3 2 2;");
	assert_string_equal(next_rows(text, "c", all, 9), "1 3 4 5 2 0;1 0 2 0;1 6 3 3 2 0;");
	/* a row that is cut before its completion has no loss */
	assert_string_equal(next_rows(text, "c", none, 3), "1 0 2 1;1 6 3 2;");
	/* a single token that is left over predicts nothing */
	assert_string_equal(next_rows(text, "c", split, 3), "5 2 0;1 0 2 1;1 6 3 2;3 2 0;");
	assert_string_equal(next_rows(text, NULL, join, 3), "1 3 4 0;2 0 1 0;6 2 0 0;");
	assert_non_null(strstr(next_rows("p\tc\n\t\n", "c", none, 9), "no rows"));
}

/* ---- keys of rows */

static struct sl_token_set *open_next(const char *file, int most, enum sl_token_pack pack, struct sl_token_parts parts)
{
	struct sl_token_set_spec spec = spec_of(file, most);
	struct sl_token_set *set;
	struct sl_fail fail;

	spec.records.label = (struct sl_records_column){NULL, -1};
	spec.next = (struct sl_token_next){.on = true, .end = -1, .pack = pack};
	spec.parts = parts;
	assert_int_equal(sl_token_set_open(&set, &spec, &fail), SL_OK);
	return set;
}

/* Rows that are truncated alike, and all rows of a text, have the key of the whole text. */
static void test_keys(void **state)
{
	static char file[PATH_MAX + 32];
	struct sl_token_set_spec spec;
	struct sl_token_set *set;
	uint64_t key[2];
	struct sl_fail fail;

	write_text("keys.tsv", "0\ta b c\n1\ta b d\n");
	strcpy(file, path);
	for (int most = 3; most < 10; most++) { /* first as made, then from the cache */
		spec = spec_of(file, most / 2 * 2);
		assert_int_equal(sl_token_set_open(&set, &spec, &fail), SL_OK);
		for (int i = 0; i < 2 && most == 3; i++)
			key[i] = sl_token_set_key(set, i);
		assert_true(key[0] != key[1]);
		for (int i = 0; i < 2; i++)
			assert_true(sl_token_set_key(set, i) == key[i]);
		sl_token_set_close(set);
	}
	set = open_next(file, 3, SL_TOKEN_PACK_SPLIT, (struct sl_token_parts){NULL, NULL, 0});
	assert_int_equal(sl_token_set_count(set), 4);
	for (int i = 0; i < 4; i++)
		assert_true(sl_token_set_key(set, i) == key[i / 2]);
	sl_token_set_close(set);
}

static int part_by(const void *arg, uint64_t key)
{
	return (int)(key / *(const uint64_t *)arg % 2);
}

/* With packing no row has texts of two parts, and its key tells the part. This holds for rows from
 * the cache, and if the parts change. */
static void test_joined(void **state)
{
	static const uint64_t divisor[] = {1, 1, 2, 4, 8};
	static char file[PATH_MAX + 32];
	uint64_t letter[7] = {0};
	struct sl_token_set *set;
	int32_t id[8];

	write_text("joined.tsv", "0\ta\n0\tb\n0\tc\n0\td\n0\ta\n0\td\n0\tb\n0\tc\n");
	strcpy(file, path);
	set = open_next(file, 8, SL_TOKEN_PACK_NONE, (struct sl_token_parts){NULL, NULL, 0});
	for (int64_t i = 0; i < 4; i++) {
		sl_token_set_sample(set, i, id);
		letter[id[1]] = sl_token_set_key(set, i);
	}
	sl_token_set_close(set);
	for (size_t d = 0; d < sizeof divisor / sizeof *divisor; d++) {
		int tokens = 0;

		set = open_next(file, 5, SL_TOKEN_PACK_JOIN, (struct sl_token_parts){part_by, &divisor[d], divisor[d]});
		for (int64_t i = 0; i < sl_token_set_count(set); i++) {
			const struct sl_token_sample row = sl_token_set_sample(set, i, id);

			tokens += row.n;
			for (int32_t k = 0; k < row.n; k++)
				assert_true(id[k] < 3 || part_by(&divisor[d], letter[id[k]]) ==
								 part_by(&divisor[d], sl_token_set_key(set, i)));
		}
		assert_true(tokens > 20);
		sl_token_set_close(set);
	}
}

/* The network's token types follow a mark, which must be the token that ends the tokenizer's first text. */
static void test_types(void **state)
{
	const char *const columns[] = {"x", "y"}, *const labels[] = {"z"};
	char vocab[PATH_MAX + 32];

	snprintf(vocab, sizeof vocab, "%s/vocab.txt", dir);
	write_text("train.tsv", "x\ty\tz\na b\tc\tp\nd\tc d\tq\n");
	for (int32_t mark = 1; mark < 7; mark++) {
		const struct sl_set_spec spec = {.source = "text",
						 .split = SL_SPLIT_TRAIN,
						 .dir = dir,
						 .tokenizer = vocab,
						 .types = true,
						 .mark = mark,
						 .column = columns,
						 .ncolumns = 2,
						 .label = labels,
						 .nlabels = 1,
						 .max_tokens = 9};
		struct sl_fail fail = {0};
		struct sl_set set;
		const enum sl_err err = sl_set_open(&set, &spec, &fail);

		assert_int_equal(err, mark == 2 ? SL_OK : SL_ERR_DATA); /* [SEP] */
		if (!err)
			sl_set_close(&set);
		else if (mark == 6)
			assert_non_null(strstr(fail.text, "train.tsv: text 1 does not end with the network's [SEP]"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tsv),   cmocka_unit_test(test_csv),      cmocka_unit_test(test_jsonl),
		cmocka_unit_test(test_empty), cmocka_unit_test(test_labels),   cmocka_unit_test(test_glue),
		cmocka_unit_test(test_cache), cmocka_unit_test(test_bad_rows), cmocka_unit_test(test_next),
		cmocka_unit_test(test_ends),  cmocka_unit_test(test_keys),     cmocka_unit_test(test_joined),
		cmocka_unit_test(test_types),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
