/* Token ids against those of independent tokenizers: digests in tests/golden/tokens/digests.txt,
 * which make.sh there wrote. Made vocabularies are always tested; those of RoBERTa and BERT, with
 * CoLA and RTE, if SPLIT_TEXT_DATA names a folder with them (see make.sh). */
#include <sys/stat.h>

#include <sodium.h>

#include "client/data/source.h"
#include "client/text/records.h"
#include "client/text/tokenizer.h"
#include "tests/support/made_text.h"
#include "tests/support/unit.h"

enum { SEP = 102 }; /* BERT's [SEP] */
static const char digests[] = "tests/golden/tokens/digests.txt", hard[] = "tests/golden/tokens/hard.jsonl";

struct digest {
	uint8_t *data;
	size_t len, cap;
	long rows, tokens;
};

static void put(struct digest *d, uint32_t value)
{
	if (d->len + 4 > d->cap) {
		d->cap = 2 * d->cap + 4096;
		d->data = realloc(d->data, d->cap);
		assert_non_null(d->data);
	}
	memcpy(d->data + d->len, &value, 4);
	d->len += 4;
}

static void add_ids(struct digest *d, const int32_t *id, int64_t n, int64_t first)
{
	put(d, (uint32_t)n);
	put(d, (uint32_t)first);
	for (int64_t i = 0; i < n; i++)
		put(d, (uint32_t)id[i]);
	d->rows++;
	d->tokens += n;
}

static void add(struct digest *d, struct sl_tokenizer_work *w, struct sl_bytes a, struct sl_bytes b)
{
	struct sl_tokens out;
	struct sl_fail fail;

	assert_int_equal(sl_tokenizer_encode(w, a, b, 0, &out, &fail), SL_OK);
	add_ids(d, out.id, out.n, out.first);
}

/* The number of ids of type 0 in a network of BERT's family: all up to and including the first mark. */
static int64_t first_type(const int32_t *id, int64_t n, int32_t mark)
{
	for (int64_t i = 0; i < n; i++)
		if (id[i] == mark)
			return i + 1;
	return n;
}

/* Adds the rows of a task as training reads them, truncated to `most` ids; 0: whole. */
static void add_samples(struct digest *d, const char *task, const char *split, const char *data, const char *tokenizer,
			int most)
{
	const bool bert = strstr(tokenizer, "bert_") != NULL;
	char glue[4096], path[4096];
	const struct sl_set_spec spec = {.source = task,
					 .split = strcmp(split, "train") == 0 ? SL_SPLIT_TRAIN : SL_SPLIT_TEST,
					 .dir = glue,
					 .tokenizer = path,
					 .types = bert,
					 .mark = SEP,
					 .max_tokens = most ? most : UINT16_MAX};
	struct sl_room room = {0};
	struct sl_fail fail = {0};
	struct sl_set set;

	snprintf(glue, sizeof glue, "%s/glue", data);
	snprintf(path, sizeof path, "%s/%s", data, tokenizer);
	if (sl_set_open(&set, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int64_t i = 0; i < set.count; i++) {
		struct sl_value value[SL_FIELD_COUNT];
		const int64_t n = set.source->extent(&set, i);

		assert_int_equal(set.source->sample(&set, i, &room, value, &fail), SL_OK);
		add_ids(d, value[SL_FIELD_INPUT].data, n, bert ? first_type(value[SL_FIELD_INPUT].data, n, SEP) : n);
	}
	sl_room_close(&room);
	sl_set_close(&set);
}

static void add_strings(struct digest *d, struct sl_tokenizer_work *w)
{
	static char text[MADE_STRING_BYTES];

	for (uint64_t i = 0; i < MADE_STRINGS; i++) {
		size_t len = made_string(i, text);

		add(d, w, (struct sl_bytes){(const uint8_t *)text, len}, (struct sl_bytes){NULL, 0});
	}
}

static void add_records(struct digest *d, struct sl_tokenizer_work *w, const struct sl_records_spec *spec)
{
	struct sl_records *records;
	struct sl_record row;
	struct sl_fail fail = {0};

	assert_int_equal(sl_records_open(&records, spec, &fail), SL_OK);
	for (;;) {
		assert_int_equal(sl_records_next(records, &row, &fail), SL_OK);
		if (!row.a.data)
			break;
		add(d, w, row.a, row.b);
	}
	sl_records_close(records);
}

static void add_set(struct digest *d, struct sl_tokenizer_work *w, const char *set, const char *data)
{
	struct sl_records_spec spec = {
		.path = hard, .format = SL_RECORDS_JSONL, .a = {"text", -1}, .b = {NULL, -1}, .label = {NULL, -1}};
	char path[4096];
	const char *split = strchr(set, '-');
	bool cola = strncmp(set, "cola", 4) == 0;

	if (strcmp(set, "strings") == 0) {
		add_strings(d, w);
		return;
	}
	if (split) {
		snprintf(path, sizeof path, "%s/glue/%s/%s.tsv", data, cola ? "CoLA" : "RTE", split + 1);
		spec.path = path;
		spec.format = SL_RECORDS_TSV;
		spec.header = !cola || strcmp(split, "-test") == 0;
		spec.a = (struct sl_records_column){spec.header ? (cola ? "sentence" : "sentence1") : NULL, 3};
		spec.b = (struct sl_records_column){cola ? NULL : "sentence2", -1};
	}
	add_records(d, w, &spec);
}

static void check_digest(struct digest *d, const char *set, long rows, long tokens, const char *sha256)
{
	uint8_t hash[crypto_hash_sha256_BYTES];
	char hex[2 * crypto_hash_sha256_BYTES + 1];

	crypto_hash_sha256(hash, (const unsigned char *)d->data, d->len);
	for (size_t i = 0; i < crypto_hash_sha256_BYTES; i++)
		sprintf(hex + 2 * i, "%02x", hash[i]);
	if (d->rows != rows || d->tokens != tokens || strcmp(hex, sha256) != 0)
		fail_msg("%s: %ld rows, %ld tokens, %s", set, d->rows, d->tokens, hex);
	free(d->data);
}

/* Compares a task's rows as training reads them. `set` is TASK-SPLIT, or TASK-SPLIT/IDS for
 * truncated rows. Returns false if training does not read that split. */
static bool check_samples(const char *tokenizer, const char *set, const char *data, long rows, long tokens,
			  const char *sha256)
{
	char task[32], split[32];
	int most = 0;
	struct digest d = {0};

	if (sscanf(set, "%31[a-z]-%31[a-z]/%d", task, split, &most) < 2 || strcmp(split, "test") == 0)
		return false;
	add_samples(&d, task, split, data, tokenizer, most);
	check_digest(&d, set, rows, tokens, sha256);
	return true;
}

static void check(struct sl_tokenizer *t, const char *set, const char *data, long rows, long tokens, const char *sha256)
{
	struct sl_tokenizer_work *w;
	struct digest d = {0};
	struct sl_fail fail;

	assert_int_equal(sl_tokenizer_work_open(&w, t, &fail), SL_OK);
	add_set(&d, w, set, data);
	check_digest(&d, set, rows, tokens, sha256);
	sl_tokenizer_work_close(w);
}

static struct sl_bytes bytes(const char *text)
{
	return (struct sl_bytes){(const uint8_t *)text, strlen(text)};
}

static struct sl_tokenizer *made(bool words)
{
	struct sl_tok_files files = {0};
	struct sl_tok_spec spec;
	struct sl_tokenizer *t;
	struct sl_fail fail = {0};
	char *vocab = NULL, *merges = NULL;

	if (words) {
		vocab = made_words();
		files.words = (struct sl_tok_file){"vocab.txt", bytes(vocab)};
	} else {
		made_pairs(&vocab, &merges);
		files.vocab = (struct sl_tok_file){"vocab.json", bytes(vocab)};
		files.merges = (struct sl_tok_file){"merges.txt", bytes(merges)};
	}
	if (sl_tok_spec_parse(&spec, &files, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_tokenizer_make(&t, &spec, 0, &fail), SL_OK);
	free(vocab);
	free(merges);
	return t;
}

/* Returns how many sets of digests.txt the tokenizer `name` was compared with. Each line is read by
 * exactly one test. `file`: its name in `data`; NULL: it is made. */
static int compare(const char *name, struct sl_tokenizer *t, const char *data, const char *file)
{
	FILE *from = fopen(digests, "re");
	char line[256], set[32], tokenizer[32], sha256[80];
	long rows, tokens;
	int sets = 0;

	assert_non_null(from);
	while (fgets(line, sizeof line, from)) {
		if (line[0] == '#')
			continue;
		assert_int_equal(sscanf(line, "%31s %31s %ld %ld %79s", set, tokenizer, &rows, &tokens, sha256), 5);
		if (strcmp(tokenizer, name) != 0)
			continue;
		if (!strchr(set, '/'))
			check(t, set, data, rows, tokens, sha256);
		sets += (file && check_samples(file, set, data, rows, tokens, sha256)) || !strchr(set, '/');
	}
	fclose(from);
	return sets;
}

static void test_made_bpe(void **state)
{
	struct sl_tokenizer *t = made(false);

	assert_int_equal(compare("made-bpe", t, NULL, NULL), 2);
	sl_tokenizer_close(t);
}

static void test_made_wordpiece(void **state)
{
	struct sl_tokenizer *t = made(true);

	assert_int_equal(compare("made-wordpiece", t, NULL, NULL), 2);
	sl_tokenizer_close(t);
}

/* Opens a tokenizer of SPLIT_TEXT_DATA; NULL if that is not set. */
static struct sl_tokenizer *real(const char *name)
{
	const char *data = getenv("SPLIT_TEXT_DATA");
	struct sl_tokenizer *t;
	struct sl_fail fail = {0};
	char path[4096];

	if (!data) {
		printf("SKIP: SPLIT_TEXT_DATA does not name a folder with %s\n", name);
		return NULL;
	}
	snprintf(path, sizeof path, "%s/%s", data, name);
	if (sl_tokenizer_open(&t, path, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return t;
}

static void test_roberta(void **state)
{
	struct sl_tokenizer *t = real("roberta_tokenizer");

	if (!t)
		skip();
	assert_true(compare("roberta", t, getenv("SPLIT_TEXT_DATA"), "roberta_tokenizer") >= 10);
	sl_tokenizer_close(t);
}

static void test_bert(void **state)
{
	struct sl_tokenizer *t = real("bert_uncased_vocab.txt");

	if (!t)
		skip();
	assert_true(compare("bert", t, getenv("SPLIT_TEXT_DATA"), "bert_uncased_vocab.txt") >= 10);
	sl_tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_bpe),
		cmocka_unit_test(test_made_wordpiece),
		cmocka_unit_test(test_roberta),
		cmocka_unit_test(test_bert),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
