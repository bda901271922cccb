#include "tests/support/made_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/text/spec.h"
#include "client/text/unicode.h"

enum {
	PIECES = 60,
	TRAINED_ON = 300,
	MERGES = 400,
	BYTE_IDS = 4,
	TOKENS_MOST = BYTE_IDS + 256 + MERGES + 1,
	TOKEN_BYTES = 256
};

/* Long runs of code points that Unicode 14 assigns. Code points that the independent tokenizer treats differently
 * are left out. U+0085 and U+FEFF: JavaScript's \s is not White_Space. U+03A3: its lower case depends on its
 * neighbours. U+1171E: no accent in newer Unicode. From U+20000 on: not recognized as Chinese. */
static const uint32_t ranges[][2] = {
	{0x86, 0x377},      {0x3a4, 0x52f},     {0x559, 0x58a},     {0x591, 0x5c7},     {0x600, 0x70d},
	{0x70f, 0x74a},     {0x74d, 0x7b1},     {0x7c0, 0x7fa},     {0x7fd, 0x82d},     {0x898, 0x983},
	{0xd12, 0xd44},     {0xe01, 0xe3a},     {0xf00, 0xf47},     {0x1000, 0x10c5},   {0x10d0, 0x1248},
	{0x1260, 0x1288},   {0x12d8, 0x1310},   {0x1318, 0x135a},   {0x13a0, 0x13f5},   {0x1400, 0x169c},
	{0x16a0, 0x16f8},   {0x1780, 0x17dd},   {0x1820, 0x1878},   {0x1880, 0x18aa},   {0x18b0, 0x18f5},
	{0x1944, 0x196d},   {0x1980, 0x19ab},   {0x19de, 0x1a1b},   {0x1a1e, 0x1a5e},   {0x1b00, 0x1b4c},
	{0x1b50, 0x1b7e},   {0x1b80, 0x1bf3},   {0x1bfc, 0x1c37},   {0x1c4d, 0x1c88},   {0x1c90, 0x1cba},
	{0x1cd0, 0x1cfa},   {0x1d00, 0x1f15},   {0x1f80, 0x1fb4},   {0x2000, 0x2064},   {0x2100, 0x218b},
	{0x2190, 0x2426},   {0x2460, 0x2b73},   {0x2b97, 0x2cf3},   {0x2cf9, 0x2d25},   {0x2d30, 0x2d67},
	{0x2de0, 0x2e5d},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3000, 0x303f},   {0x3041, 0x3096},
	{0x3099, 0x30ff},   {0x3105, 0x312f},   {0x3131, 0x318e},   {0x3190, 0x31e3},   {0x31f0, 0x321e},
	{0x3220, 0xa48c},   {0xa490, 0xa4c6},   {0xa4d0, 0xa62b},   {0xa640, 0xa6f7},   {0xa700, 0xa7ca},
	{0xa7f2, 0xa82c},   {0xa840, 0xa877},   {0xa880, 0xa8c5},   {0xa8e0, 0xa953},   {0xa980, 0xa9cd},
	{0xaa00, 0xaa36},   {0xaa5c, 0xaac2},   {0xab30, 0xab6b},   {0xab70, 0xabed},   {0xac00, 0xd7a3},
	{0xd7cb, 0xd7fb},   {0xf900, 0xfa6d},   {0xfa70, 0xfad9},   {0xfb46, 0xfbc2},   {0xfbd3, 0xfd8f},
	{0xfd92, 0xfdc7},   {0xfdf0, 0xfe19},   {0xfe20, 0xfe52},   {0xfe76, 0xfefc},   {0xff01, 0xffbe},
	{0x10080, 0x100fa}, {0x10107, 0x10133}, {0x10137, 0x1018e}, {0x101d0, 0x101fd}, {0x102a0, 0x102d0},
	{0x10350, 0x1037a}, {0x10400, 0x1049d}, {0x10500, 0x10527}, {0x10530, 0x10563}, {0x10600, 0x10736},
	{0x10787, 0x107b0}, {0x1080a, 0x10835}, {0x10857, 0x1089e}, {0x10980, 0x109b7}, {0x109d2, 0x10a03},
	{0x10a60, 0x10a9f}, {0x10b00, 0x10b35}, {0x10c00, 0x10c48}, {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2},
	{0x10cfa, 0x10d27}, {0x10e80, 0x10ea9}, {0x10f00, 0x10f27}, {0x10f30, 0x10f59}, {0x11000, 0x1104d},
	{0x1107f, 0x110c2}, {0x11100, 0x11134}, {0x11180, 0x111df}, {0x11213, 0x1123e}, {0x112b0, 0x112ea},
	{0x11400, 0x1145b}, {0x11480, 0x114c7}, {0x11580, 0x115b5}, {0x11600, 0x11644}, {0x11680, 0x116b9},
	{0x11800, 0x1183b}, {0x118a0, 0x118f2}, {0x119aa, 0x119d7}, {0x11a00, 0x11a47}, {0x11a50, 0x11aa2},
	{0x11ab0, 0x11af8}, {0x11c0a, 0x11c36}, {0x11d0b, 0x11d36}, {0x11fc0, 0x11ff1}, {0x11fff, 0x12399},
	{0x12400, 0x1246e}, {0x12480, 0x12543}, {0x12f90, 0x12ff2}, {0x13000, 0x1342e}, {0x14400, 0x14646},
	{0x16800, 0x16a38}, {0x16a6e, 0x16abe}, {0x16b00, 0x16b45}, {0x16e40, 0x16e9a}, {0x16f00, 0x16f4a},
	{0x16f4f, 0x16f87}, {0x17000, 0x187f7}, {0x18800, 0x18cd5}, {0x1b000, 0x1b122}, {0x1b170, 0x1b2fb},
	{0x1bc00, 0x1bc6a}, {0x1cf00, 0x1cf2d}, {0x1cf50, 0x1cfc3}, {0x1d000, 0x1d0f5}, {0x1d129, 0x1d1ea},
	{0x1d200, 0x1d245}, {0x1d300, 0x1d356}, {0x1d400, 0x1d454}, {0x1d456, 0x1d49c}, {0x1d4c5, 0x1d505},
	{0x1d552, 0x1d6a5}, {0x1d6a8, 0x1d7cb}, {0x1d7ce, 0x1da8b}, {0x1e100, 0x1e12c}, {0x1e2c0, 0x1e2f9},
	{0x1e800, 0x1e8c4}, {0x1e900, 0x1e94b}, {0x1ec71, 0x1ecb4}, {0x1ed01, 0x1ed3d}, {0x1f000, 0x1f02b},
	{0x1f030, 0x1f093}, {0x1f100, 0x1f1ad}, {0x1f210, 0x1f23b}, {0x1f300, 0x1f6d7}, {0x1f700, 0x1f773},
	{0x1f780, 0x1f7d8}, {0x1f810, 0x1f847}, {0x1f860, 0x1f887}, {0x1f900, 0x1fa53}, {0x1fb00, 0x1fb92},
	{0x1fb94, 0x1fbca},
};

enum { RANGES = sizeof ranges / sizeof ranges[0] };

/* splitmix64 */
static uint64_t number(uint64_t *state, uint64_t below)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (z ^ (z >> 31)) % below;
}

static uint32_t letter(uint64_t *state)
{
	const uint32_t *r = ranges[number(state, RANGES)];

	return r[0] + (uint32_t)number(state, r[1] - r[0] + 1);
}

/* One piece of a string: a word, a space, a mark and so on, often several times. */
static size_t piece_of(uint64_t *state, char *out)
{
	static const char *const words[] = {
		"the",          " The",         " of",      "'s",
		"'ll",          "'LL",          "don't",    " 2026",
		"un",           "able",         "ffa",      " HELLO",
		"\n\n",         "  ",           "\t",       "\xc2\xa0",
		"<mask>",       "</s>",         "[MASK]",   "[SEP]",
		"...",          "\xe3\x80\x80", " x",       "\r\n",
		"[UNK]",        "<s>",          "#",        "##ing",
		"\xe2\x80\x83", "e\xcc\x81",    "\xc4\xb0", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7"};
	size_t kind = number(state, 10), len;

	if (kind < 3) {
		const char *w = words[number(state, sizeof words / sizeof words[0])];

		memcpy(out, w, strlen(w));
		return strlen(w);
	}
	if (kind < 6) {
		out[0] = (char)(' ' + number(state, 95));
		return 1;
	}
	if (kind == 6)
		return (size_t)sl_utf8_put(0x300 + (uint32_t)number(state, 0x70), out);
	len = (size_t)sl_utf8_put(letter(state), out);
	return len;
}

size_t made_string(uint64_t index, char out[MADE_STRING_BYTES])
{
	uint64_t state = index * 0x2545f4914f6cdd1du + 17;
	size_t pieces = number(&state, PIECES), len = 0;

	for (size_t i = 0; i < pieces; i++) {
		char piece[32];
		size_t n = piece_of(&state, piece), times = number(&state, 8) ? 1 : 1 + number(&state, 12);

		for (; times > 0 && len + n < MADE_STRING_BYTES; times--, len += n)
			memcpy(out + len, piece, n);
	}
	return len;
}

static FILE *memory(char **text, size_t *len)
{
	FILE *to = open_memstream(text, len);

	if (!to)
		abort();
	return to;
}

/* Special tokens, ASCII characters, some words, and every third letter, both alone and as a continuation. */
char *made_words(void)
{
	static const char *const words[] = {"[PAD]", "[UNK]", "[CLS]",  "[SEP]", "[MASK]", "the",  "of",   "don",
					    "un",    "##ffa", "##able", "hello", "##ing",  "2026", "##26", "20"};
	char *text, out[SL_UTF8_MOST];
	size_t len;
	FILE *to = memory(&text, &len);

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		fprintf(to, "%s\n", words[i]);
	for (int c = '!'; c <= '~'; c++)
		fprintf(to, "%c\n##%c\n", c, c);
	for (size_t r = 0; r < RANGES; r++)
		for (uint32_t c = ranges[r][0]; c <= ranges[r][1]; c += 3)
			if (!sl_is_space(c))
				fprintf(to, "%.*s\n##%.*s\n", sl_utf8_put(c, out), out, sl_utf8_put(c, out), out);
	if (fclose(to) != 0)
		abort();
	return text;
}

struct token {
	uint8_t byte[TOKEN_BYTES];
	int len;
};

/* A token as it is spelled in the vocabulary. */
static void write_token(FILE *to, const struct token *t, bool json)
{
	for (int i = 0; i < t->len; i++) {
		char out[SL_UTF8_MOST];
		int n = sl_utf8_put(sl_tok_char_of(t->byte[i]), out);

		fprintf(to, "%s%.*s", json && (out[0] == '"' || out[0] == '\\') ? "\\" : "", n, out);
	}
}

/* Finds the most frequent pair of neighbours; of equally frequent ones, the lowest. */
static bool best_pair(const int *text, size_t n, uint32_t *count, int best[2])
{
	uint32_t most = 1;

	memset(count, 0, (size_t)TOKENS_MOST * TOKENS_MOST * sizeof *count);
	for (size_t i = 0; i + 1 < n; i++)
		if (text[i] >= 0 && text[i + 1] >= 0)
			count[text[i] * TOKENS_MOST + text[i + 1]]++;
	for (int i = 0; i < TOKENS_MOST * TOKENS_MOST; i++)
		if (count[i] > most) {
			most = count[i];
			best[0] = i / TOKENS_MOST;
			best[1] = i % TOKENS_MOST;
		}
	return most > 1;
}

static size_t join(int *text, size_t n, const int pair[2], int made)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool both = i + 1 < n && text[i] == pair[0] && text[i + 1] == pair[1];

		text[kept++] = both ? made : text[i];
		i += both;
	}
	return kept;
}

/* Returns the id of the token with these bytes; adds it if there is none. */
static int id_of(struct token *token, int *n, const struct token *wanted)
{
	for (int i = BYTE_IDS; i < *n; i++)
		if (token[i].len == wanted->len && memcmp(token[i].byte, wanted->byte, (size_t)wanted->len) == 0)
			return i;
	token[*n] = *wanted;
	return (*n)++;
}

/* Bytes of the first strings as ids. -1 stands between strings and before spaces, which no merge
 * crosses, and for '<', so that no merge makes a special token. */
static size_t training_text(int *text)
{
	char string[MADE_STRING_BYTES];
	size_t n = 0;

	for (uint64_t i = 0; i < TRAINED_ON; i++) {
		size_t len = made_string(i, string);

		for (size_t k = 0; k < len; k++) {
			if (k == 0 || string[k] == ' ')
				text[n++] = -1;
			text[n++] = string[k] == '<' ? -1 : BYTE_IDS + (unsigned char)string[k];
		}
	}
	return n;
}

void made_pairs(char **vocab_json, char **merges_txt)
{
	int *text = malloc(2 * TRAINED_ON * MADE_STRING_BYTES * sizeof *text), n_token = BYTE_IDS + 256;
	uint32_t *count = malloc((size_t)TOKENS_MOST * TOKENS_MOST * sizeof *count);
	struct token *token = calloc(TOKENS_MOST, sizeof *token);
	size_t n, len;
	FILE *vocab = memory(vocab_json, &len), *merges = memory(merges_txt, &len);

	if (!text || !count || !token)
		abort();
	n = training_text(text);
	for (int b = 0; b < 256; b++)
		token[BYTE_IDS + b] = (struct token){{(uint8_t)b}, 1};
	fprintf(merges, "#version: 0.2\n");
	for (int m = 0, pair[2]; m < MERGES && best_pair(text, n, count, pair); m++) {
		struct token both = token[pair[0]];

		if (both.len + token[pair[1]].len > TOKEN_BYTES)
			break;
		memcpy(both.byte + both.len, token[pair[1]].byte, (size_t)token[pair[1]].len);
		both.len += token[pair[1]].len;
		write_token(merges, &token[pair[0]], false);
		fputc(' ', merges);
		write_token(merges, &token[pair[1]], false);
		fputc('\n', merges);
		n = join(text, n, pair, id_of(token, &n_token, &both));
	}
	fprintf(vocab, "{\"<s>\": 0, \"<pad>\": 1, \"</s>\": 2, \"<unk>\": 3, \"<mask>\": %d", n_token);
	for (int i = BYTE_IDS; i < n_token; i++) {
		fprintf(vocab, ", \"");
		write_token(vocab, &token[i], true);
		fprintf(vocab, "\": %d", i);
	}
	fprintf(vocab, "}\n");
	if (fclose(vocab) != 0 || fclose(merges) != 0)
		abort();
	free(text);
	free(count);
	free(token);
}
