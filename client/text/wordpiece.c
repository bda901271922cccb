#include "client/text/wordpiece.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "client/text/unicode.h"
#include "common/base/grow.h"

enum { DECOMPOSED_MOST = 18, DOTTED_I = 0x130, DOT_ABOVE = 0x307 };

/* Makes room for `more` code points behind n. */
static enum sl_err need(struct sl_wordpiece_room *room, size_t n, size_t more)
{
	return sl_grow(&room->point, &room->cap, n + more, sizeof *room->point) ? SL_OK : SL_ERR_NOMEM;
}

static uint32_t lower(uint32_t c)
{
	if (c < 0x80)
		return c >= 'A' && c <= 'Z' ? c + 32 : c;
	return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

/* Decomposes a code point, without its accents. The parts have their canonical order, but marks of different code
 * points may not: see order_marks. */
static size_t stripped(uint32_t c, uint32_t out[DECOMPOSED_MOST])
{
	utf8proc_int32_t part[DECOMPOSED_MOST];
	utf8proc_ssize_t n;
	int bound = 0;
	size_t kept = 0;

	if (c < 0x80) {
		out[0] = c;
		return 1;
	}
	n = utf8proc_decompose_char((utf8proc_int32_t)c, part, DECOMPOSED_MOST, UTF8PROC_DECOMPOSE, &bound);
	for (utf8proc_ssize_t i = 0; i < n && n <= DECOMPOSED_MOST; i++)
		if (!sl_is_accent((uint32_t)part[i]))
			out[kept++] = (uint32_t)part[i];
	return kept;
}

static int mark_class(uint32_t c)
{
	return c < 0x300 ? 0 : utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

/* Sorts each run of marks that are no accents (category Mc) by their combining classes. It is a counting sort, as a run
 * may be as long as the text. */
static enum sl_err order_marks(struct sl_wordpiece_room *room, size_t n)
{
	for (size_t i = 0, end; i < n; i = end + 1) {
		size_t first[257] = {0}, run;
		uint32_t *copy;

		for (end = i; end < n && mark_class(room->point[end]); end++)
			first[mark_class(room->point[end]) + 1]++;
		run = end - i;
		if (run < 2)
			continue;
		copy = malloc(run * sizeof *copy);
		if (!copy)
			return SL_ERR_NOMEM;
		memcpy(copy, room->point + i, run * sizeof *copy);
		for (int k = 0; k < 256; k++)
			first[k + 1] += first[k];
		for (size_t k = 0; k < run; k++)
			room->point[i + first[mark_class(copy[k])]++] = copy[k];
		free(copy);
	}
	return SL_OK;
}

static size_t lowered(uint32_t *out, size_t n)
{
	if (n == 1 && out[0] == DOTTED_I) { /* the only letter whose lower case has two code points */
		out[0] = 'i';
		out[1] = DOT_ABOVE;
		return 2;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = lower(out[i]);
	return n;
}

/* Cleans one character of the text by upstream's steps, in their order: clean-up, Chinese, accents, lower case. Returns
 * the number of code points. */
static size_t clean_one(const struct sl_tok_spec *spec, uint32_t c, uint32_t *out)
{
	bool han = spec->han && sl_is_han(c);
	size_t n = 1;

	if (spec->clean && c != '\t' && c != '\n' && c != '\r' && (c == 0xfffd || sl_is_other(c)))
		return 0;
	if (han)
		*out++ = ' ';
	out[0] = spec->clean && sl_is_space(c) ? ' ' : c;
	if (spec->strip)
		n = stripped(out[0], out);
	if (spec->lower)
		n = lowered(out, n);
	if (han)
		out[n] = ' ';
	return n + (han ? 2 : 0);
}

enum sl_err sl_wordpiece_clean(const struct sl_tok_spec *spec, const char *text, size_t len,
			       struct sl_wordpiece_room *room, size_t *n)
{
	size_t count = 0;
	enum sl_err err = SL_OK;

	for (size_t at = 0; at < len && !err;) {
		err = need(room, count, DECOMPOSED_MOST + 2);
		if (!err)
			count += clean_one(spec, sl_utf8_next(text, &at), room->point + count);
	}
	if (!err && spec->strip)
		err = order_marks(room, count);
	if (!err)
		*n = count;
	return err;
}

bool sl_wordpiece_word(const struct sl_tok_spec *spec, const uint32_t *point, size_t n, size_t *at, char *word,
		       size_t *len)
{
	size_t i = *at, chars = 0, bytes = 0;

	while (i < n && sl_is_space(point[i]))
		i++;
	*at = i;
	if (i == n)
		return false;
	do {
		if (chars++ < (size_t)spec->word_chars)
			bytes += (size_t)sl_utf8_put(point[i], word + bytes);
		i++;
	} while (i < n && !sl_is_punct(point[i - 1]) && !sl_is_punct(point[i]) && !sl_is_space(point[i]));
	*at = i;
	*len = chars > (size_t)spec->word_chars ? 0 : bytes;
	return true;
}

/* Finds the longest piece with which text begins. Its first `prefix` bytes are the prefix of pieces inside a word, and
 * *len more follow; *len becomes the piece's length behind the prefix. -1: there is none. */
static int32_t longest(const struct sl_tok_spec *spec, const char *text, size_t prefix, size_t *len)
{
	size_t n = *len;

	if (prefix + n > spec->vocab.longest)
		n = spec->vocab.longest > prefix ? spec->vocab.longest - prefix : 0;
	for (; n > 0; n--) {
		int32_t id;

		if (n < *len && sl_utf8_continues(text[prefix + n]))
			continue;
		id = sl_vocab_find(&spec->vocab, text, prefix + n);
		if (id >= 0) {
			*len = n;
			return id;
		}
	}
	return -1;
}

size_t sl_wordpiece_pieces(const struct sl_tok_spec *spec, const char *word, size_t len, int32_t *id)
{
	char rest[SL_TOK_PREFIX_BYTES + SL_TOK_WORD_CHARS_MOST * SL_UTF8_MOST];
	size_t mark = strlen(spec->prefix), n = 0;

	for (size_t at = 0, taken; at < len; at += taken) {
		size_t prefix = at ? mark : 0;

		memcpy(rest, spec->prefix, prefix);
		memcpy(rest + prefix, word + at, len - at);
		taken = len - at;
		id[n] = longest(spec, rest, prefix, &taken);
		if (id[n++] < 0) {
			id[0] = spec->unk;
			return 1;
		}
	}
	return n;
}
