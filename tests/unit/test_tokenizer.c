/* Tokenizers on small vocabularies: merges, pieces, forms, truncation, settings, threads, and
 * invalid files. */
#include <pthread.h>

#include "client/text/bpe.h"
#include "client/text/pattern.h"
#include "client/text/tokenizer.h"
#include "client/text/unicode.h"
#include "tests/support/made_text.h"
#include "tests/support/unit.h"

static struct sl_bytes bytes(const char *text)
{
	return (struct sl_bytes){(const uint8_t *)text, strlen(text)};
}

static const struct sl_bytes none = {NULL, 0};

/* Returns the ids as "1 2 3". */
static const char *ids(struct sl_tokenizer_work *w, const char *a, const char *b, int32_t most)
{
	static char text[4096];
	struct sl_tokens out;
	struct sl_fail fail;
	int at = 0;

	assert_int_equal(sl_tokenizer_encode(w, bytes(a), b ? bytes(b) : none, most, &out, &fail), SL_OK);
	text[0] = '\0';
	for (int32_t i = 0; i < out.n; i++)
		at += snprintf(text + at, sizeof text - (size_t)at, "%s%d%s", i ? " " : "", out.id[i],
			       i >= out.first ? "'" : "");
	return text;
}

static struct sl_tokenizer_work *open_work(const struct sl_tok_files *files, struct sl_tokenizer **t)
{
	struct sl_tok_spec spec;
	struct sl_tokenizer_work *w;
	struct sl_fail fail = {0};

	if (sl_tok_spec_parse(&spec, files, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_tokenizer_make(t, &spec, 0, &fail), SL_OK);
	assert_int_equal(sl_tokenizer_work_open(&w, *t, &fail), SL_OK);
	return w;
}

static void close_work(struct sl_tokenizer_work *w, struct sl_tokenizer *t)
{
	sl_tokenizer_work_close(w);
	sl_tokenizer_close(t);
}

/* ---- merges */

/* A direct, slow implementation of the rule. */
static size_t merge_plainly(const struct sl_tok_merge *merge, int n_merge, int32_t *id, size_t n)
{
	for (;;) {
		int best = n_merge;
		size_t at = 0;

		for (size_t i = 0; i + 1 < n; i++)
			for (int m = 0; m < best; m++)
				if (merge[m].left == id[i] && merge[m].right == id[i + 1]) {
					best = m;
					at = i;
				}
		if (best == n_merge)
			return n;
		id[at] = merge[best].made;
		memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
		n--;
	}
}

/* Random merges over few tokens, on short and on long words, for which the code has separate loops. */
static void test_merges(void **state)
{
	enum { MERGES = 40, LONGEST = 300 };
	struct sl_bpe_room room = {0};
	unsigned random = 1;

	for (int round = 0; round < 300; round++) {
		struct sl_tok_merge merge[MERGES];
		int32_t ours[LONGEST], theirs[LONGEST];
		struct sl_bpe bpe;
		size_t n = 1 + (size_t)rand_r(&random) % (round % 2 ? LONGEST : 48), left;
		int n_merge = 0;

		while (n_merge < MERGES) { /* no pair occurs twice */
			struct sl_tok_merge m = {rand_r(&random) % (4 + n_merge), rand_r(&random) % (4 + n_merge),
						 4 + n_merge};
			int i = 0;

			while (i < n_merge && (merge[i].left != m.left || merge[i].right != m.right))
				i++;
			if (i == n_merge)
				merge[n_merge++] = m;
		}
		for (size_t i = 0; i < n; i++)
			ours[i] = theirs[i] = rand_r(&random) % 4;
		assert_int_equal(sl_bpe_make(&bpe, merge, MERGES), SL_OK);
		left = n;
		assert_int_equal(sl_bpe_merge(&bpe, ours, &left, &room), SL_OK);
		assert_int_equal(left, merge_plainly(merge, MERGES, theirs, n));
		assert_memory_equal(ours, theirs, left * sizeof *ours);
		sl_bpe_free(&bpe);
	}
	free(room.data);
}

/* ---- byte-level BPE */

/* A vocabulary of the 256 letters of bytes, each with its byte as the id: {"…": 0, …}. */
static const char *letters(void)
{
	static char text[8192];
	char letter[SL_UTF8_MOST];
	size_t at = 0;

	for (int b = 0; b < 256; b++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%s%.*s\": %d", b ? ", " : "{",
				       b == '"' || b == '\\' ? "\\" : "", sl_utf8_put(sl_tok_char_of(b), letter),
				       letter, b);
	snprintf(text + at, sizeof text - at, "}");
	return text;
}

static char *vocab_json, *merges_txt;

static struct sl_tok_files made_files(void)
{
	struct sl_tok_files files = {.vocab = {"vocab.json", bytes(vocab_json)},
				     .merges = {"merges.txt", bytes(merges_txt)}};

	return files;
}

static int make_pairs(void **state)
{
	made_pairs(&vocab_json, &merges_txt);
	return 0;
}

static int free_pairs(void **state)
{
	free(vocab_json);
	free(merges_txt);
	return 0;
}

/* The id of a byte is 4 + byte (made_text.c). */
static void test_bytes_and_forms(void **state)
{
	struct sl_tok_files files = made_files();
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w;
	char want[64];

	files.merges.bytes = bytes("#version: 0.2\n");
	w = open_work(&files, &t);
	assert_string_equal(ids(w, "", NULL, 0), "0 2");
	assert_string_equal(ids(w, "Aa", NULL, 0), "0 69 101 2");
	assert_string_equal(ids(w, "A", "b", 0), "0 69 2 2 102 2");
	assert_string_equal(ids(w, "\xc3\xa9", NULL, 0), "0 199 173 2");
	snprintf(want, sizeof want, "0 69 %d 69 2", sl_tokenizer_mask(t)); /* <mask> absorbs the spaces before it */
	assert_string_equal(ids(w, "A  <mask>A", NULL, 0), want);
	assert_string_equal(ids(w, "<s>A</s>", NULL, 0), "0 0 69 2 2");
	assert_int_equal(sl_tokenizer_pad(t), 1);
	assert_int_equal(sl_tokenizer_specials(t, false), 2);
	assert_int_equal(sl_tokenizer_specials(t, true), 4);
	assert_string_equal(sl_tokenizer_text(t, 69), "A");
	assert_string_equal(sl_tokenizer_text(t, -1), "");
	assert_string_equal(sl_tokenizer_text(t, 1 << 30), "");
	close_work(w, t);
}

/* <|endoftext|> is an added token of GPT-2. RoBERTa's vocabulary has it as well, but a text that spells it does not get
 * it. */
static void test_end_of_text(void **state)
{
	static const char end[] = "\"<|endoftext|>\": 300, \"<s>\": 301";
	char vocab[16384];
	struct sl_tok_files files = {.vocab = {"vocab.json", {0}}, .merges = {"merges.txt", bytes("#version: 0.2\n")}};
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w;

	for (int i = 0; i < 2; i++) {
		snprintf(vocab, sizeof vocab, "{%s%s, %s", end, i ? ", \"</s>\": 302" : "", letters() + 1);
		files.vocab.bytes = bytes(vocab);
		w = open_work(&files, &t);
		assert_string_equal(ids(w, "a<|endoftext|>", NULL, 0),
				    i ? "301 97 60 124 101 110 100 111 102 116 101 120 116 124 62 302" : "97 300");
		close_work(w, t);
	}
}

/* The rule as upstream's source has it: max(n1, m - n1), then halves. */
static void expect_cut(int a, int b, int m, int cut[2])
{
	int n1, n2;

	if (a + b > m) { /* first each text by itself, with room for 4 special tokens */
		a = a < m + 4 ? a : m + 4;
		b = b < m + 4 ? b : m + 4;
	}
	n1 = a < b ? a : b;
	n2 = a < b ? b : a;
	if (n1 + n2 > m) {
		n2 = n1 > m - n1 ? n1 : m - n1;
		if (n1 + n2 > m) {
			n1 = m / 2;
			n2 = n1 + m % 2;
		}
	}
	cut[0] = a <= b ? n1 : n2;
	cut[1] = a <= b ? n2 : n1;
}

static void test_cuts(void **state)
{
	struct sl_tok_files files = made_files();
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w;
	struct sl_tokens out;
	struct sl_fail fail;
	const char *a = "aaaaaaaaaaaa", *b = "bbbbbbbbbbbb";

	files.merges.bytes = bytes("#version: 0.2\n");
	w = open_work(&files, &t);
	for (int n = 0; n < 12 * 12 * 18; n++) {
		int na = n % 12, nb = n / 12 % 12, m = n / 144 + 1, cut[2], seen[2] = {0, 0};

		expect_cut(na, nb, m, cut);
		assert_int_equal(sl_tokenizer_encode(w, (struct sl_bytes){(const uint8_t *)a, (size_t)na},
						     (struct sl_bytes){(const uint8_t *)b, (size_t)nb}, m + 4, &out,
						     &fail),
				 SL_OK);
		for (int i = 0; i < out.n; i++) {
			seen[0] += out.id[i] == 4 + 'a';
			seen[1] += out.id[i] == 4 + 'b';
		}
		assert_int_equal(seen[0], cut[0]);
		assert_int_equal(seen[1], cut[1]);
		assert_int_equal(out.n, cut[0] + cut[1] + 4);
		assert_int_equal(out.whole, na + nb + 4);
	}
	assert_string_equal(ids(w, "aaaa", NULL, 4), "0 101 101 2");
	assert_string_equal(ids(w, "aaaa", NULL, 1), "0 2");
	close_work(w, t);
}

static void test_bad_text(void **state)
{
	static const char *const bad[] = {"a\x80", "a\xc3", "a\xc0\xaf", "a\xed\xa0\x80", "a\xf4\x90\x80\x80", "a\xff"};
	struct sl_tok_files files = made_files();
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(&files, &t);
	struct sl_tokens out;
	struct sl_fail fail;
	char *text = malloc(SL_TEXT_MOST + 1);

	assert_non_null(text);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(sl_tokenizer_encode(w, bytes(bad[i]), none, 0, &out, &fail), SL_ERR_DATA);
		assert_string_equal(fail.text, "invalid UTF-8 at byte 1 of the text");
	}
	memset(text, 'a', SL_TEXT_MOST + 1); /* a single word */
	assert_int_equal(
		sl_tokenizer_encode(w, (struct sl_bytes){(uint8_t *)text, SL_TEXT_MOST + 1}, none, 0, &out, &fail),
		SL_ERR_DATA);
	assert_int_equal(sl_tokenizer_encode(w, (struct sl_bytes){(uint8_t *)text, 1 << 20}, none, 0, &out, &fail),
			 SL_OK);
	memset(text, ' ', 1 << 20);
	assert_int_equal(sl_tokenizer_encode(w, (struct sl_bytes){(uint8_t *)text, 1 << 20}, none, 0, &out, &fail),
			 SL_OK);
	free(text);
	close_work(w, t);
}

struct thread {
	const struct sl_tokenizer *t;
	uint64_t sum;
};

static void *encode_strings(void *arg)
{
	struct thread *me = arg;
	struct sl_tokenizer_work *w;
	struct sl_tokens out;
	struct sl_fail fail;
	char text[MADE_STRING_BYTES];

	if (sl_tokenizer_work_open(&w, me->t, &fail) != SL_OK)
		return NULL;
	for (uint64_t i = 0; i < 500; i++) {
		size_t len = made_string(i, text);

		if (sl_tokenizer_encode(w, (struct sl_bytes){(uint8_t *)text, len}, none, 0, &out, &fail) != SL_OK)
			break;
		for (int k = 0; k < out.n; k++)
			me->sum = me->sum * 31 + (uint64_t)out.id[k];
	}
	sl_tokenizer_work_close(w);
	return NULL;
}

static void test_threads(void **state)
{
	struct sl_tok_files files = made_files();
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(&files, &t);
	struct thread thread[4];
	pthread_t id[4];

	for (int i = 0; i < 4; i++) {
		thread[i] = (struct thread){t, 1};
		assert_int_equal(pthread_create(&id[i], NULL, encode_strings, &thread[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(id[i], NULL);
	for (int i = 1; i < 4; i++)
		assert_true(thread[i].sum == thread[0].sum && thread[0].sum != 1);
	close_work(w, t);
}

/* ---- WordPiece */

static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nhello\n##s\n,\n!\ne\n"
			    "\xe4\xbd\xa0\nHello\n\xc3\xa9\ni\xcc\x87\ni\n";

static struct sl_tok_files word_files(const char *config)
{
	struct sl_tok_files files = {.words = {"vocab.txt", bytes(words)}};

	if (config)
		files.config = (struct sl_tok_file){"tokenizer_config.json", bytes(config)};
	return files;
}

static void test_wordpiece(void **state)
{
	struct sl_tok_files files = word_files(NULL);
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(&files, &t);
	char word[128];

	assert_string_equal(ids(w, "unaffable", NULL, 0), "2 5 6 7 3");
	assert_string_equal(ids(w, "UNAFFABLES, Hello!", NULL, 0), "2 5 6 7 9 10 8 11 3");
	assert_string_equal(ids(w, "unaffx", NULL, 0), "2 1 3"); /* no piece fits: the word is unknown */
	assert_string_equal(ids(w, "h\xc3\xa9llo\xcc\x81", NULL, 0), "2 8 3");
	assert_string_equal(ids(w, "he\x01llo\xef\xbf\xbd", NULL, 0), "2 8 3");
	assert_string_equal(ids(w,
				"e\xe4\xbd\xa0"
				"e",
				NULL, 0),
			    "2 12 13 12 3");
	assert_string_equal(ids(w, "\xc4\xb0", NULL, 0), "2 17 3");
	assert_string_equal(ids(w, "un[MASK]un [mask]", NULL, 0), "2 5 4 5 1 1 1 3");
	assert_string_equal(ids(w, "un", "hello", 0), "2 5 3 8' 3'");
	memset(word, 'e', 101);
	word[101] = '\0';
	assert_string_equal(ids(w, word, NULL, 0), "2 1 3");
	close_work(w, t);
}

/* tokenizer_config.json decides. Its model_max_length may exceed 64 bits. */
static void test_settings(void **state)
{
	struct sl_tok_files files = word_files("{\"do_lower_case\": false, \"model_max_length\": "
					       "1000000000000000019884624838656}");
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(&files, &t);

	assert_string_equal(ids(w, "Hello \xc3\xa9 UN", NULL, 0), "2 14 15 1 3");
	close_work(w, t);
	files = word_files("{\"strip_accents\": false, \"tokenize_chinese_chars\": false, \"model_max_length\": 512}");
	w = open_work(&files, &t);
	assert_string_equal(ids(w, "\xc3\x89 e\xe4\xbd\xa0 \xc4\xb0", NULL, 0), "2 15 1 16 3");
	close_work(w, t);
}

/* ---- files */

static void refuse(const struct sl_tok_files *files, enum sl_err code, const char *text)
{
	struct sl_tok_spec spec = {.n_merge = 7};
	struct sl_fail fail = {0};

	assert_int_equal(sl_tok_spec_parse(&spec, files, &fail), code);
	if (!strstr(fail.text, text))
		fail_msg("\"%s\" lacks \"%s\"", fail.text, text);
	assert_int_equal(spec.n_merge, 7); /* unchanged */
}

/* The files are a tokenizer, or are refused as CONFIG in these words. */
static void expect_opened(const struct sl_tok_files *files, bool read, const char *says)
{
	struct sl_tokenizer *t;

	if (!read) {
		refuse(files, SL_ERR_CONFIG, says);
		return;
	}
	sl_tokenizer_work_close(open_work(files, &t));
	sl_tokenizer_close(t);
}

/* Other classes of tokenizers read the same files in other ways. */
static void test_classes(void **state)
{
	static const struct {
		const char *class;
		bool words, read;
	} want[] = {{"BertTokenizer", true, true},          {"DistilBertTokenizerFast", true, true},
		    {"BertJapaneseTokenizer", true, false}, {"RoFormerTokenizer", true, false},
		    {"RobertaTokenizerFast", false, true},  {"BartTokenizer", false, true},
		    {"Qwen2Tokenizer", false, false},       {"CLIPTokenizer", false, false},
		    {"GPT2Tokenizer", false, false} /* its texts have no <s> */};
	char config[64];

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_tok_files files = want[i].words ? word_files("") : made_files();

		snprintf(config, sizeof config, "{\"tokenizer_class\": \"%s\"}", want[i].class);
		files.config = (struct sl_tok_file){"tokenizer_config.json", bytes(config)};
		expect_opened(&files, want[i].read, "is read from a tokenizer.json alone");
	}
}

/* Tokens that only tokenizer_config.json or added_tokens.json adds would be missed in texts. */
static void test_added_elsewhere(void **state)
{
	static const struct {
		const char *config, *added;
		bool read;
	} want[] = {
		{"{\"added_tokens_decoder\": {\"3\": {\"content\": \"[SEP]\"}}}", "{\"[MASK]\": 4}", true},
		{"{\"added_tokens_decoder\": {\"5\": {\"content\": \"un\"}}}", NULL, false},
		{"{\"added_tokens_decoder\": {\"4\": {\"content\": \"[SEP]\"}}}", NULL, false},
		{"{\"do_lower_case\": true}", "{\"<x>\": 18}", false},
	};

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_tok_files files = word_files(want[i].config);

		if (want[i].added)
			files.added = (struct sl_tok_file){"added_tokens.json", bytes(want[i].added)};
		expect_opened(&files, want[i].read, "no tokenizer.json adds its token");
	}
}

static void test_bad_words(void **state)
{
	static const struct {
		const char *words, *text;
	} bad[] = {
		{"", "vocab.txt:1: no tokens"},
		{"[UNK]\n[CLS]\n\na\n", "vocab.txt:3: an empty line"},
		{"[UNK]\n[CLS]\n[SEP]\na\na\n", "vocab.txt:5: the token repeats that of line 4"},
		{"[UNK]\n[CLS]\na\n", "vocab.txt: the vocabulary lacks [SEP]"},
		{"[UNK]\n\x80\n", "vocab.txt:2: invalid UTF-8"},
	};
	struct sl_tok_files files = {0};

	refuse(&files, SL_ERR_NOINPUT, "no tokenizer");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		files.words = (struct sl_tok_file){"vocab.txt", bytes(bad[i].words)};
		refuse(&files, SL_ERR_DATA, bad[i].text);
	}
	files = word_files("{\"do_lower_case\": false,}");
	refuse(&files, SL_ERR_DATA, "tokenizer_config.json:1:");
}

static void test_bad_pairs(void **state)
{
	static const struct {
		const char *vocab, *merges, *text;
	} bad[] = {
		{"{\"a\": 0", "", "vocab.json:1:"},
		{"[]", "", "vocab.json:1: no JSON object"},
		{"{}", "", "the vocabulary is not an object"},
		{"{\"a\": \"x\"}", "", "token \"a\": its id is not an integer"},
		{"{\"a\": -1}", "", "token \"a\": its id is not a number from 0 to"},
		{"{\"a\": 99999999999}", "", "token \"a\": its id is not a number from 0 to"},
		{"{\"a\": 0, \"b\": 0}", "", "have the same id, 0"},
		{"{\"a\": 0, \"a\": 1}", "", "vocab.json:1:"},
		{"{\"a\": 0}", "a b\n", "merges.txt:1: the merge joins \"b\""},
		{"{\"a\": 0}", "#version: 0.2\na a\n", "merges.txt:2: the merge makes \"aa\""},
		{"{\"a\": 0}", "\naa\n", "merges.txt:2: no two tokens"},
		{"{\"a\": 0}", "a \x80\n", "merges.txt:1: invalid UTF-8"},
		{"{\"a\": 0}", "", "no token for the byte 0x00"},
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const struct sl_tok_files files = {.vocab = {"vocab.json", bytes(bad[i].vocab)},
						   .merges = {"merges.txt", bytes(bad[i].merges)}};

		refuse(&files, SL_ERR_DATA, bad[i].text);
	}
}

/* A tokenizer.json with WordPiece, in which `part` is replaced by `other`. */
static char *json_with(const char *part, const char *other)
{
	static const char good[] =
		"{\"added_tokens\": [{\"id\": 0, \"content\": \"[UNK]\", \"single_word\": false}], "
		"\"normalizer\": {\"type\": \"BertNormalizer\", \"lowercase\": true}, "
		"\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, "
		"\"post_processor\": {\"type\": \"TemplateProcessing\", "
		"\"single\": [{\"SpecialToken\": {\"id\": \"[CLS]\", \"type_id\": 0}}, "
		"{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
		"\"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
		"{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], "
		"\"special_tokens\": {\"[CLS]\": {\"ids\": [1]}}}, "
		"\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"max_input_chars_per_word\": 100, "
		"\"continuing_subword_prefix\": \"##\", \"vocab\": {\"[UNK]\": 0, \"[CLS]\": 1, \"a\": 2}}}";
	const char *at = strstr(good, part);
	char *text = malloc(sizeof good + strlen(other) + 1);

	assert_true(text && at);
	sprintf(text, "%.*s%s%s", (int)(at - good), good, other, at + strlen(part));
	return text;
}

/* truncation_side, or without it the direction in tokenizer.json, says which end of a text is cut. */
static void test_sides(void **state)
{
	static const char left[] = "{\"truncation\": {\"direction\": \"Left\", \"max_length\": 9}, \"added_tokens\"";
	struct sl_tok_files files = word_files("{\"truncation_side\": \"left\"}");
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(&files, &t);
	char *text = json_with("{\"added_tokens\"", left);

	assert_string_equal(ids(w, "un hello , !", NULL, 4), "2 10 11 3");
	assert_string_equal(ids(w, "un hello", "un , !", 6), "2 8 3 10' 11' 3'");
	close_work(w, t);
	for (int i = 0; i < 2; i++) {
		files = (struct sl_tok_files){.json = {"f", bytes(text)}};
		if (i)
			files.config = (struct sl_tok_file){"c", bytes("{\"truncation_side\": \"right\"}")};
		w = open_work(&files, &t);
		assert_string_equal(ids(w, "a b", NULL, 2), i ? "1 2" : "1 0");
		close_work(w, t);
	}
	free(text);
}

static void test_json(void **state)
{
	static const struct {
		const char *part, *other;
		enum sl_err code;
		const char *text;
	} bad[] = {
		{"}}}", "}}", SL_ERR_DATA, "tokenizer.json:1:"},
		{"BertNormalizer", "NFC", SL_ERR_CONFIG, "normalizer \"NFC\" is not supported"},
		{"BertPreTokenizer", "Split", SL_ERR_CONFIG, "pre_tokenizer \"Split\" is not supported"},
		{"TemplateProcessing", "New", SL_ERR_CONFIG, "post_processor \"New\" is not supported"},
		{"WordPiece", "WordLevel", SL_ERR_CONFIG, "model \"WordLevel\" is not supported"},
		{"\"unk_token\": \"[UNK]\"", "\"unk_token\": \"x\"", SL_ERR_DATA,
		 "model.unk_token is not in the vocabulary"},
		{"\"unk_token\": \"[UNK]\",", "", SL_ERR_DATA, "a WordPiece model without unk_token"},
		{"\"single_word\": false", "\"single_word\": true", SL_ERR_CONFIG, "single_word"},
		{"\"single_word\": false", "\"normalized\": true", SL_ERR_CONFIG, "normalized"},
		{"\"ids\": [1]", "\"ids\": [9]", SL_ERR_DATA, "a special token's id is not in the vocabulary"},
		{"\"id\": \"[CLS]\"", "\"id\": \"[X]\"", SL_ERR_DATA, "a token that special_tokens lacks"},
		{"\"id\": \"B\", \"type_id\": 1", "\"id\": \"A\", \"type_id\": 1", SL_ERR_DATA, "texts are not A"},
		{"\"id\": \"B\", \"type_id\": 1", "\"id\": \"B\", \"type_id\": 2", SL_ERR_DATA,
		 "types are not 0, then 1"},
		{"\"max_input_chars_per_word\": 100", "\"max_input_chars_per_word\": 0", SL_ERR_DATA,
		 "a number from 1 to 1000"},
		{"\"##\"", "\"################\"", SL_ERR_DATA, "not a text of at most 15 bytes"},
		{"\"a\": 2", "\"a\": 1", SL_ERR_DATA, "have the same id, 1"},
		{"\"id\": 0", "\"id\": 5", SL_ERR_DATA, "has two ids, 0 and 5"},
	};
	struct sl_tok_files files = {0};
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w;
	char *text = json_with("", "");

	files.json = (struct sl_tok_file){"tokenizer.json", bytes(text)};
	w = open_work(&files, &t);
	assert_string_equal(ids(w, "A b", NULL, 0), "1 2 0");
	assert_string_equal(ids(w, "A", "a", 0), "2 2'");
	close_work(w, t);
	free(text);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		text = json_with(bad[i].part, bad[i].other);
		files.json.bytes = bytes(text);
		refuse(&files, bad[i].code, bad[i].text);
		free(text);
	}
}

/* Both spellings of merges. Settings that would change a BPE model's ids are refused if they are set. */
static void test_json_bpe(void **state)
{
	static const char form[] = "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true}, "
				   "\"model\": {\"type\": \"BPE\", %s, \"vocab\": %s, \"merges\": %s}}";
	static const char *const merges[] = {"[\"\xc4\xa0 a\"]", "[[\"\xc4\xa0\", \"a\"]]"};
	char vocab[8192], text[16384], letter[SL_UTF8_MOST];
	struct sl_tok_files files = {0};
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w;
	int at = snprintf(vocab, sizeof vocab,
			  "{\"\xc4\xa0"
			  "a\": 256");

	for (int b = 0; b < 256; b++) {
		int n = sl_utf8_put(sl_tok_char_of(b), letter);

		at += snprintf(vocab + at, sizeof vocab - (size_t)at, ", \"%s%.*s\": %d",
			       b == '"' || b == '\\' ? "\\" : "", n, letter, b);
	}
	snprintf(vocab + at, sizeof vocab - (size_t)at, "}");
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof text, form, "\"dropout\": null", vocab, merges[i]);
		files.json = (struct sl_tok_file){"tokenizer.json", bytes(text)};
		w = open_work(&files, &t);
		assert_string_equal(ids(w, "aa a", NULL, 0), "256 97 256");
		close_work(w, t);
	}
	snprintf(text, sizeof text, form, "\"dropout\": 0.1", vocab, merges[0]);
	files.json.bytes = bytes(text);
	refuse(&files, SL_ERR_CONFIG, "dropout");
	snprintf(text, sizeof text, form, "\"dropout\": null", vocab, "[\"a b\", \"ab\"]");
	files.json.bytes = bytes(text);
	refuse(&files, SL_ERR_DATA, "tokenizer.json, model.merges, entry 0: the merge makes \"ab\"");
	snprintf(text, sizeof text, form, "\"dropout\": null", vocab, "[[\"a\"]]");
	files.json.bytes = bytes(text);
	refuse(&files, SL_ERR_DATA, "model.merges, entry 0: it is not a pair of tokens");
}

/* A token that is searched in normalized text is refused where the normalizer could change what it looks for. */
static void test_normalized_tokens(void **state)
{
	static const char form[] =
		"{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, "
		"\"added_tokens\": [{\"id\": 1, \"content\": \"%s\", \"normalized\": %s}], \"model\": "
		"{\"type\": \"BPE\", \"unk_token\": \"a\", \"vocab\": {\"a\": 0}, \"merges\": []}}";
	static const struct {
		const char *token, *normalized;
		bool read;
	} of[] = {{"<new>", "true", true}, {"é", "false", true}, {"é", "true", false}};
	char text[512];

	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
		snprintf(text, sizeof text, form, of[i].token, of[i].normalized);
		expect_opened(&(struct sl_tok_files){.json = {"f", bytes(text)}}, of[i].read, "\"normalized\"");
	}
}

/* ---- decoders' tokenizers */

/* Ids 0 … 255 are the bytes; then come the mark and some pieces of "a" and "b". */
static const char *marked_json(const char *normalizer, const char *pre_tokenizer)
{
	static char text[16384];
	int at = snprintf(
		text, sizeof text,
		"{\"added_tokens\": [{\"id\": 262, \"content\": \"<s>\", \"normalized\": false, \"special\": true}], "
		"\"normalizer\": %s, \"pre_tokenizer\": %s, \"post_processor\": {\"type\": \"Sequence\", "
		"\"processors\": [{\"type\": \"ByteLevel\"}, {\"type\": \"TemplateProcessing\", \"single\": "
		"[{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", "
		"\"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
		"{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {\"<s>\": {\"ids\": "
		"[262]}}}]}, \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"merges\": "
		"[\"a b\", \"▁ a\", \"▁ ab\"], \"vocab\": {",
		normalizer, pre_tokenizer);

	for (int b = 0; b < 256; b++)
		at += snprintf(text + at, sizeof text - (size_t)at, "\"<0x%02X>\": %d, ", b, b);
	snprintf(text + at, sizeof text - (size_t)at,
		 "\"▁\": 256, \"a\": 257, \"b\": 258, \"ab\": 259, \"▁a\": 260, \"▁ab\": 261}}}");
	return text;
}

static void expect_marked(const char *normalizer, const char *pre_tokenizer, const char *text, const char *want)
{
	const struct sl_tok_files files = {.json = {"f", bytes(marked_json(normalizer, pre_tokenizer))}};
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(&files, &t);

	assert_string_equal(ids(w, text, NULL, 0), want);
	close_work(w, t);
}

/* Spaces become marks, the file decides whether a mark is prepended, and unknown characters become bytes. */
static void test_marked(void **state)
{
	static const char replace[] = "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}";
	static const char both[] = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": "
				   "\"▁\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
				   "\"content\": \"▁\"}]}";
	static const char always[] = "{\"type\": \"Metaspace\", \"prepend_scheme\": \"always\", \"split\": false}";
	static const char split[] = "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": "
				    "\"MergedWithPrevious\", \"invert\": false}";
	static const char first[] = "{\"type\": \"Metaspace\", \"prepend_scheme\": \"first\", \"split\": false}";
	static const char other[] = "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"split\": false}";

	expect_marked(replace, "null", "ab b", "262 259 256 258");
	/* as Gemma: a Split at spaces, none of which is left, and no mark is prepended */
	expect_marked(replace, split, "ab b", "262 259 256 258");
	expect_marked(replace, split, " ab<s> é", "262 261 262 256 195 169");
	expect_marked(both, "null", "ab b", "262 261 256 258");
	expect_marked(both, "null", " ab", "262 256 261");
	expect_marked(both, "null", "é", "262 256 195 169");
	expect_marked(both, "null", "a<s>b", "262 260 262 256 258");
	expect_marked("null", always, " ab", "262 261");
	expect_marked("null", always, "a<s>b", "262 260 262 256 258");
	expect_marked("null", first, "a<s>b", "262 260 262 258");
	expect_marked(both, always, " ab", "262 256 261"); /* Metaspace finds the mark that Prepend has put */
	expect_marked("null", "{\"type\": \"Metaspace\", \"add_prefix_space\": false, \"split\": false}", "ab",
		      "262 259");
	/* Without a Replace and a Metaspace spaces would stay spaces; "_" would be another mark. */
	refuse(&(struct sl_tok_files){.json = {"f", bytes(marked_json("null", "null"))}}, SL_ERR_CONFIG,
	       "null behind a Replace of spaces");
	refuse(&(struct sl_tok_files){.json = {"f", bytes(marked_json("null", split))}}, SL_ERR_CONFIG,
	       "pre_tokenizer \"Split\"");
	refuse(&(struct sl_tok_files){.json = {"f", bytes(marked_json("null", other))}}, SL_ERR_CONFIG,
	       "pre_tokenizer \"Metaspace\"");
	refuse(&(struct sl_tok_files){.json = {"f", bytes(marked_json("{\"type\": \"NFKC\"}", "null"))}}, SL_ERR_CONFIG,
	       "normalizer \"NFKC\"");
	refuse(&(struct sl_tok_files){.json = {"f", bytes(marked_json("null", "{\"type\": \"Whitespace\"}"))}},
	       SL_ERR_CONFIG, "pre_tokenizer \"Whitespace\"");
}

/* The normalizer may put a mark in front of a token, or replace its spaces. */
static void test_marked_normalized(void **state)
{
	static const char replace[] = "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}";
	static const char never[] = "{\"type\": \"Metaspace\", \"prepend_scheme\": \"never\", \"split\": false}";
	static const char no[] = "\"normalized\": false", yes[] = "\"normalized\": true ";

	for (int i = 0; i < 2; i++) {
		char *text = strdup(marked_json(i ? "null" : replace, never));

		memcpy(strstr(text, no), yes, strlen(yes));
		expect_opened(&(struct sl_tok_files){.json = {"f", bytes(text)}}, i, "\"normalized\"");
		free(text);
	}
}

/* Opens `json` with `config` as its tokenizer_config.json. */
static void expect_configured(const char *json, const char *config, const char *text, const char *want)
{
	const struct sl_tok_files files = {.json = {"f", bytes(json)}, .config = {"c", bytes(config)}};
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(&files, &t);

	assert_string_equal(ids(w, text, NULL, 0), want);
	close_work(w, t);
}

/* add_prefix_space decides for ByteLevel alone and for Llama's classes. A Sequence has its own in tokenizer.json. */
static void test_prefix_space(void **state)
{
	static const char both[] = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": "
				   "\"▁\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
				   "\"content\": \"▁\"}]}";
	static const char digits[] = "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
				     "\"Digits\", \"individual_digits\": true}, {\"type\": \"ByteLevel\", "
				     "\"add_prefix_space\": false}]}, \"model\": {\"type\": \"BPE\", \"merges\": [], "
				     "\"vocab\": %s}}";
	static const char alone[] = "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
				    "\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": %s}}";
	char text[16384];

	snprintf(text, sizeof text, digits, letters());
	expect_configured(text, "{\"add_prefix_space\": true}", "ab", "97 98");
	snprintf(text, sizeof text, alone, letters());
	expect_configured(text, "{\"add_prefix_space\": true}", "ab", "32 97 98");
	expect_configured(marked_json(both, "null"),
			  "{\"add_prefix_space\": false, \"tokenizer_class\": \"LlamaTokenizerFast\"}", "ab",
			  "262 259");
	expect_configured(marked_json(both, "null"), "{\"tokenizer_class\": \"LlamaTokenizerFast\"}", "ab", "262 261");
}

/* Of a template with <s> in front of texts and nothing behind them. */
static void test_ends(void **state)
{
	static const char always[] = "{\"type\": \"Metaspace\", \"prepend_scheme\": \"always\", \"split\": false}";
	static const struct {
		const char *class, *ends;
		bool read;
	} want[] = {{"LlamaTokenizer", "\"add_bos_token\": true, \"add_eos_token\": false", true},
		    {"LlamaTokenizerFast", "\"add_bos_token\": null", true},
		    {"LlamaTokenizer", "\"add_eos_token\": true", false},
		    {"LlamaTokenizerFast", "\"add_bos_token\": false", false},
		    {"PreTrainedTokenizerFast", "\"add_eos_token\": true", true}};
	char config[128];

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		snprintf(config, sizeof config, "{\"tokenizer_class\": \"%s\", %s}", want[i].class, want[i].ends);
		if (want[i].read)
			expect_configured(marked_json("null", always), config, "ab", "262 261");
		else
			refuse(&(struct sl_tok_files){.json = {"f", bytes(marked_json("null", always))},
						      .config = {"c", bytes(config)}},
			       SL_ERR_CONFIG, "_token is not what tokenizer.json does");
	}
}

/* The text of decoded tokens: special tokens yield nothing. */
static void expect_decoded(const struct sl_tok_files *files, const char *text, const char *want)
{
	struct sl_tokenizer *t;
	struct sl_tokenizer_work *w = open_work(files, &t);
	struct sl_tokens out;
	struct sl_fail fail;
	char got[256];
	size_t n;

	assert_int_equal(sl_tokenizer_encode(w, bytes(text), none, 0, &out, &fail), SL_OK);
	assert_true(sl_tokenizer_decoded(t, out.n) < sizeof got);
	n = sl_tokenizer_decode(t, out.id, out.n, got);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(got, want, n);
	close_work(w, t);
}

static void test_decoding(void **state)
{
	static const char replace[] = "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}";
	static const char always[] = "{\"type\": \"Metaspace\", \"prepend_scheme\": \"always\", \"split\": false}";

	expect_decoded(&(struct sl_tok_files){.json = {"f", bytes(marked_json(replace, "null"))}}, "ab  é b\n<0x41>",
		       "ab  é b\n<0x41>");
	expect_decoded(&(struct sl_tok_files){.json = {"f", bytes(marked_json("null", always))}}, "ab b", " ab b");
}

/* Returns the words as "a|b". */
static const char *words_of(enum sl_tok_words which, const char *text)
{
	static char out[256];
	struct sl_pattern *p;
	struct sl_pattern_work *w;
	size_t n = 0;

	assert_int_equal(sl_pattern_open(&p, which), SL_OK);
	assert_int_equal(sl_pattern_work_open(&w, p), SL_OK);
	for (size_t at = 0, end; at < strlen(text); at = end) {
		assert_int_equal(sl_pattern_next(w, text, strlen(text), at, &end), SL_OK);
		n += (size_t)snprintf(out + n, sizeof out - n, "%s%.*s", at ? "|" : "", (int)(end - at), text + at);
	}
	sl_pattern_work_close(w);
	sl_pattern_close(p);
	return out;
}

/* Expected words by hand, from the patterns as files spell them. */
static void test_patterns(void **state)
{
	static const char text[] = "I'LL pay  12345 (é)\n\n x.\n";

	assert_string_equal(words_of(SL_TOK_WORDS_GPT2, text), "I|'|LL| pay| | 12345| (|é|)|\n\n| x|.|\n");
	assert_string_equal(words_of(SL_TOK_WORDS_LLAMA3, text), "I|'LL| pay| | |123|45| (|é|)\n\n| x|.\n");
	assert_string_equal(words_of(SL_TOK_WORDS_QWEN2, text), "I|'LL| pay| | |1|2|3|4|5| (|é|)\n\n| x|.\n");
	assert_string_equal(words_of(SL_TOK_WORDS_DIGITS, text), "I|'|LL| pay|  |1|2|3|4|5| (|é|)|\n\n| x|.|\n");
	assert_int_equal(sl_pattern_find("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
					 "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
			 SL_TOK_WORDS_LLAMA3);
	assert_string_equal(words_of(SL_TOK_WORDS_PHI4, text), "I'LL| pay| | |123|45| (|é|)\n\n| x|.\n");
	assert_string_equal(words_of(SL_TOK_WORDS_PHI4, "HTTPServer's camelCase x.\n/y a/b 是É1"),
			    "HTTPServer's| camel|Case| x|.\n/|y| a|/b| 是|É|1");
	assert_int_equal(
		sl_pattern_find("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}"
				"\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}"
				"\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m"
				"|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!"
				"\\S)|\\s+"),
		SL_TOK_WORDS_PHI4);
	assert_int_equal(sl_pattern_find(".*"), SL_TOK_WORDS_COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merges),       cmocka_unit_test(test_bytes_and_forms),
		cmocka_unit_test(test_end_of_text),  cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_bad_text),     cmocka_unit_test(test_threads),
		cmocka_unit_test(test_wordpiece),    cmocka_unit_test(test_settings),
		cmocka_unit_test(test_classes),      cmocka_unit_test(test_added_elsewhere),
		cmocka_unit_test(test_bad_words),    cmocka_unit_test(test_bad_pairs),
		cmocka_unit_test(test_json),         cmocka_unit_test(test_sides),
		cmocka_unit_test(test_json_bpe),     cmocka_unit_test(test_normalized_tokens),
		cmocka_unit_test(test_marked),       cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_prefix_space), cmocka_unit_test(test_ends),
		cmocka_unit_test(test_decoding),     cmocka_unit_test(test_marked_normalized),
	};

	return cmocka_run_group_tests(tests, make_pairs, free_pairs);
}
