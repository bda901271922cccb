#include "client/text/unigram.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "client/text/unicode.h"
#include "common/base/grow.h"

enum { CLUSTER = 6 };

/* Parts of a unit of the double array, of which the table says no more (darts.h, by Susumu Yata). */
static uint32_t offset_of(uint32_t unit)
{
	return unit >> 10 << ((unit & 1U << 9) >> 6);
}

static uint32_t label_of(uint32_t unit)
{
	return unit & (1U << 31 | 0xff);
}

static bool has_value(uint32_t unit)
{
	return unit >> 8 & 1;
}

static uint32_t number_at(const unsigned char *b)
{
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Decodes base64 (RFC 4648); returns the number of bytes, 0 if the text is none. */
static size_t decode(unsigned char *out, const char *text, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	size_t n = 0;

	if (len % 4)
		return 0;
	for (int padding = 0; padding < 2 && len && text[len - 1] == '='; padding++)
		len--;
	for (size_t i = 0; i < len; i++) {
		const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

		if (!digit)
			return 0;
		bits = bits << 6 | (uint32_t)(digit - digits);
		if (i % 4)
			out[n++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
	}
	return n;
}

/* Whether the replacements are texts of at most SL_UNIGRAM_MAPPED_MOST bytes. */
static bool is_map(const char *map, size_t len)
{
	for (size_t at = 0, n; at < len; at += n + 1) {
		n = strnlen(map + at, len - at);
		if (n > SL_UNIGRAM_MAPPED_MOST)
			return false;
	}
	return sl_utf8_valid(map, len) == len;
}

enum sl_err sl_unigram_table(struct sl_unigram *u, const char *base64, size_t len)
{
	unsigned char *data = malloc(len + 1);
	size_t n = 0, bytes;

	if (!data)
		return SL_ERR_NOMEM;
	n = decode(data, base64, len);
	n = n < 8 ? 0 : n;
	bytes = n ? number_at(data) : 0;
	if (!n || bytes % 4 || bytes < 4 || bytes > n - 4 || !is_map((const char *)data + 4 + bytes, n - 4 - bytes)) {
		free(data);
		return SL_ERR_DATA;
	}
	sl_unigram_free(&(struct sl_unigram){.trie = u->trie, .map = u->map});
	u->units = bytes / 4;
	u->map_len = n - 4 - bytes;
	u->trie = malloc(bytes);
	u->map = calloc(1, u->map_len + 1);
	for (size_t i = 0; u->trie && i < u->units; i++)
		u->trie[i] = number_at(data + 4 + 4 * i);
	if (u->map)
		memcpy(u->map, data + 4 + bytes, u->map_len);
	free(data);
	return u->trie && u->map ? SL_OK : SL_ERR_NOMEM;
}

void sl_unigram_free(struct sl_unigram *u)
{
	free(u->score);
	free(u->trie);
	free(u->map);
	*u = (struct sl_unigram){0};
}

/* The replacement of the shortest part with which text[len] begins, if the table has one; NULL: it has none. */
static const char *mapped(const struct sl_unigram *u, const char *text, size_t len)
{
	size_t at = u->trie ? offset_of(u->trie[0]) : 0;

	for (size_t i = 0; u->trie && i < len && text[i]; i++) {
		const unsigned char byte = (unsigned char)text[i];
		uint32_t unit, place;

		at ^= byte;
		unit = at < u->units ? u->trie[at] : 0;
		if (label_of(unit) != byte)
			return NULL;
		at ^= offset_of(unit);
		if (!has_value(unit))
			continue;
		place = at < u->units ? u->trie[at] & 0x7fffffff : UINT32_MAX;
		return place < u->map_len && !sl_utf8_continues(u->map[place]) ? u->map + place : NULL;
	}
	return NULL;
}

/* The end of the cluster that begins at `at` (UAX #29, extended grapheme clusters). */
static size_t cluster_end(const char *text, size_t len, size_t at)
{
	utf8proc_int32_t state = 0;
	uint32_t before = sl_utf8_next(text, &at);

	for (size_t next = at; at < len; at = next) {
		const uint32_t c = sl_utf8_next(text, &next);

		if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state))
			break;
		before = c;
	}
	return at;
}

char *sl_unigram_clean(const struct sl_unigram *u, const char *text, size_t *len)
{
	char *out = calloc(1, 1);
	size_t cap = 1, n = 0, kept = 0;
	bool whole = false;

	for (size_t at = 0, end = 0, next = 0; out && at < *len; at = next) {
		const char *to;

		if (at == end) {
			end = cluster_end(text, *len, at);
			whole = end - at < CLUSTER && mapped(u, text + at, end - at);
		}
		next = at;
		(void)sl_utf8_next(text, &next);
		next = whole ? end : next;
		to = mapped(u, text + at, next - at);
		if (!sl_grow(&out, &cap, n + SL_UNIGRAM_MAPPED_MOST, 1)) {
			free(out);
			return NULL;
		}
		memcpy(out + n, to ? to : text + at, to ? strlen(to) : next - at);
		n += to ? strlen(to) : next - at;
	}
	for (size_t i = 0; out && i < n; i++)
		if (!u->no_run || out[i] != ' ' || !kept || out[kept - 1] != ' ')
			out[kept++] = out[i];
	*len = kept;
	return out;
}

/* How the best way to a place in the word ends: with piece `id`, which begins at `from`. */
struct node {
	double score;
	uint32_t from;
	int32_t id; /* -1: no way leads here yet */
};

size_t sl_unigram_room(size_t len)
{
	return (len + 1) * sizeof(struct node);
}

static void reach(struct node *to, double score, size_t from, int32_t id)
{
	if (to->id < 0 || score > to->score)
		*to = (struct node){score, (uint32_t)from, id};
}

size_t sl_unigram_pieces(const struct sl_unigram *u, const struct sl_vocab *vocab, int32_t unk, const char *word,
			 size_t len, int32_t *id, void *room)
{
	struct node *node = room;
	size_t n = 0;

	for (size_t i = 0; i <= len; i++)
		node[i] = (struct node){0, 0, -1};
	for (size_t at = 0, next = 0; at < len; at = next) {
		bool alone = false;

		(void)sl_utf8_next(word, &next);
		for (size_t end = at; end < len && end - at < u->longest;) {
			int32_t piece;

			(void)sl_utf8_next(word, &end);
			piece = sl_vocab_find(vocab, word + at, end - at);
			if (piece < 0 || piece >= u->n)
				continue;
			reach(&node[end], node[at].score + u->score[piece], at, piece);
			alone |= end == next;
		}
		if (!alone)
			reach(&node[next], node[at].score + u->unknown, at, unk);
	}
	for (size_t at = len; at > 0; at = node[at].from)
		if (!n || node[at].id != unk || id[n - 1] != unk)
			id[n++] = node[at].id;
	for (size_t i = 0; i < n / 2; i++) {
		const int32_t last = id[n - 1 - i];

		id[n - 1 - i] = id[i];
		id[i] = last;
	}
	return n;
}
