#include "client/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/text/bpe.h"
#include "client/text/decode.h"
#include "client/text/marked.h"
#include "client/text/pattern.h"
#include "client/text/unicode.h"
#include "client/text/wordpiece.h"
#include "common/base/grow.h"

/* Words of a text repeat, so their ids are cached, in slots by hash. A slot fills a cache line. */
enum { CACHED_BYTES = 22, CACHED_IDS = 8, CACHE_PLACES = 8192 };

struct cached {
	uint64_t hash;
	uint8_t len, n; /* len 0: free */
	char word[CACHED_BYTES];
	int32_t id[CACHED_IDS];
};

struct sl_tokenizer {
	struct sl_tok_spec spec;
	struct sl_bpe bpe;
	struct sl_pattern *pattern; /* NULL with WordPiece */
	int begins_added[257];      /* added tokens that begin with byte b: indices [b] up to [b + 1] */
	uint64_t hash;
};

struct ids {
	int32_t *id;
	size_t n, cap;
};

struct sl_tokenizer_work {
	const struct sl_tokenizer *t;
	struct cached *cache;
	struct sl_pattern_work *match;
	struct sl_bpe_room bpe;
	struct sl_wordpiece_room wordpiece;
	struct ids text[2], out;
	char *spaced; /* a text with a space in front, or with marks */
	void *best;   /* ways through a word */
	size_t spaced_cap, best_cap;
	char word[SL_TOK_WORD_CHARS_MOST * SL_UTF8_MOST];
};

/* Orders added tokens by their first byte, then the longest first, so that the first match is the longest. */
static int by_length(const void *a, const void *b)
{
	const struct sl_tok_added *x = a, *y = b;
	const int first = (unsigned char)x->text[0] - (unsigned char)y->text[0];

	return first ? first : x->len != y->len ? (x->len < y->len ? 1 : -1) : x->id - y->id;
}

enum sl_err sl_tokenizer_make(struct sl_tokenizer **out, struct sl_tok_spec *spec, uint64_t hash, struct sl_fail *fail)
{
	struct sl_tokenizer *t = calloc(1, sizeof *t);
	enum sl_err err = t ? SL_OK : SL_ERR_NOMEM;

	if (err) {
		sl_tok_spec_free(spec);
		return sl_fail_set(fail, err, "no memory for a tokenizer");
	}
	t->spec = *spec;
	t->hash = hash;
	*spec = (struct sl_tok_spec){0};
	if (t->spec.n_added)
		qsort(t->spec.added, (size_t)t->spec.n_added, sizeof *t->spec.added, by_length);
	for (int i = 0; i < t->spec.n_added; i++)
		t->begins_added[(unsigned char)t->spec.added[i].text[0] + 1] = i + 1;
	for (int b = 0; b < 256; b++)
		if (t->begins_added[b + 1] < t->begins_added[b])
			t->begins_added[b + 1] = t->begins_added[b];
	if (t->spec.kind == SL_TOK_BPE || t->spec.kind == SL_TOK_MARKED) {
		err = sl_bpe_make(&t->bpe, t->spec.merge, t->spec.n_merge);
		if (!err)
			err = sl_pattern_open(&t->pattern, t->spec.words);
		free(t->spec.merge);
		t->spec.merge = NULL;
	}
	if (err) {
		sl_tokenizer_close(t);
		return sl_fail_set(fail, err, "no memory for a tokenizer");
	}
	*out = t;
	return SL_OK;
}

enum sl_err sl_tokenizer_open(struct sl_tokenizer **out, const char *path, struct sl_fail *fail)
{
	struct sl_tok_spec spec;
	uint64_t hash;
	enum sl_err err = sl_tok_spec_read(&spec, path, &hash, fail);

	return err ? err : sl_tokenizer_make(out, &spec, hash, fail);
}

void sl_tokenizer_close(struct sl_tokenizer *t)
{
	if (!t)
		return;
	sl_bpe_free(&t->bpe);
	sl_pattern_close(t->pattern);
	sl_tok_spec_free(&t->spec);
	free(t);
}

enum sl_tok_kind sl_tokenizer_kind(const struct sl_tokenizer *t)
{
	return t->spec.kind;
}

int32_t sl_tokenizer_size(const struct sl_tokenizer *t)
{
	return t->spec.vocab.n;
}

const char *sl_tokenizer_text(const struct sl_tokenizer *t, int32_t id)
{
	return sl_vocab_text(&t->spec.vocab, id);
}

size_t sl_tokenizer_decoded(const struct sl_tokenizer *t, int32_t n)
{
	return (size_t)n * t->spec.vocab.longest + 1;
}

size_t sl_tokenizer_decode(const struct sl_tokenizer *t, const int32_t *id, int32_t n, char *out)
{
	size_t len = 0;

	for (int32_t i = 0; i < n; i++)
		len += sl_decode_token(&t->spec, id[i], out + len);
	return len;
}

static int32_t find_either(const struct sl_tokenizer *t, const char *roberta, const char *bert)
{
	int32_t id = sl_vocab_find(&t->spec.vocab, roberta, strlen(roberta));

	return id >= 0 ? id : sl_vocab_find(&t->spec.vocab, bert, strlen(bert));
}

int32_t sl_tokenizer_pad(const struct sl_tokenizer *t)
{
	return find_either(t, "<pad>", "[PAD]");
}

int32_t sl_tokenizer_mask(const struct sl_tokenizer *t)
{
	return find_either(t, "<mask>", "[MASK]");
}

static int add_id(int32_t *id, int n, int most, int32_t one)
{
	for (int i = 0; i < n; i++)
		if (id[i] == one)
			return n;
	if (one >= 0 && n < most)
		id[n++] = one;
	return n;
}

int sl_tokenizer_special_ids(const struct sl_tokenizer *t, int32_t *id, int most)
{
	const struct sl_tok_form *form[] = {&t->spec.single, &t->spec.pair};
	int n = add_id(id, 0, most, sl_tokenizer_pad(t));

	n = add_id(id, n, most, sl_tokenizer_mask(t));
	for (int f = 0; f < 2; f++)
		for (int i = 0; i < form[f]->n; i++)
			if (form[f]->piece[i].part == SL_TOK_PART_ID)
				n = add_id(id, n, most, form[f]->piece[i].id);
	return n;
}

int sl_tokenizer_specials(const struct sl_tokenizer *t, bool pair)
{
	return pair ? t->spec.pair.specials : t->spec.single.specials;
}

int sl_tokenizer_ending(const struct sl_tokenizer *t)
{
	const struct sl_tok_form *form = &t->spec.single;
	int n = 0;

	while (n < form->n && form->piece[form->n - 1 - n].part == SL_TOK_PART_ID)
		n++;
	return n;
}

uint64_t sl_tokenizer_hash(const struct sl_tokenizer *t)
{
	return t->hash;
}

enum sl_err sl_tokenizer_work_open(struct sl_tokenizer_work **out, const struct sl_tokenizer *t, struct sl_fail *fail)
{
	struct sl_tokenizer_work *w = calloc(1, sizeof *w);
	enum sl_err err = w ? SL_OK : SL_ERR_NOMEM;

	if (w) {
		w->t = t;
		w->cache = calloc(CACHE_PLACES, sizeof *w->cache);
		err = w->cache ? SL_OK : SL_ERR_NOMEM;
	}
	if (!err && t->pattern)
		err = sl_pattern_work_open(&w->match, t->pattern);
	if (err) {
		sl_tokenizer_work_close(w);
		return sl_fail_set(fail, err, "no memory for a tokenizer");
	}
	*out = w;
	return SL_OK;
}

void sl_tokenizer_work_close(struct sl_tokenizer_work *w)
{
	if (!w)
		return;
	sl_pattern_work_close(w->match);
	free(w->cache);
	free(w->bpe.data);
	free(w->wordpiece.point);
	free(w->text[0].id);
	free(w->text[1].id);
	free(w->out.id);
	free(w->spaced);
	free(w->best);
	free(w);
}

static enum sl_err need(struct ids *to, size_t more)
{
	return sl_grow(&to->id, &to->cap, to->n + more, sizeof *to->id) ? SL_OK : SL_ERR_NOMEM;
}

/* The token that is the whole word, as byte-level BPE writes it; -1: there is none. */
static int32_t find_word(struct sl_tokenizer_work *w, const char *word, size_t len)
{
	size_t n = 0;

	if (2 * len > sizeof w->word)
		return -1;
	for (size_t i = 0; i < len; i++)
		n += (size_t)sl_utf8_put(sl_tok_char_of((unsigned char)word[i]), w->word + n);
	return sl_vocab_find(&w->t->spec.vocab, w->word, n);
}

/* Computes the ids of a word. There must be room for `len` ids behind to->id[to->n]. */
static enum sl_err compute_word(struct sl_tokenizer_work *w, const char *word, size_t len, struct ids *to)
{
	const struct sl_tok_spec *spec = &w->t->spec;
	int32_t *id = to->id + to->n;
	size_t n = len;
	enum sl_err err = SL_OK;

	if (spec->kind == SL_TOK_WORDPIECE) {
		n = sl_wordpiece_pieces(spec, word, len, id);
	} else if (spec->kind == SL_TOK_UNIGRAM) {
		if (!sl_grow(&w->best, &w->best_cap, sl_unigram_room(len), 1))
			return SL_ERR_NOMEM;
		n = sl_unigram_pieces(&spec->unigram, &spec->vocab, spec->unk, word, len, id, w->best);
	} else if (spec->whole_words && (id[0] = find_word(w, word, len)) >= 0) {
		n = 1;
	} else {
		for (size_t i = 0; i < len; i++)
			id[i] = spec->byte_id[(unsigned char)word[i]];
		err = sl_bpe_merge(&w->t->bpe, id, &n, &w->bpe);
	}
	to->n += err ? 0 : n;
	return err;
}

static enum sl_err put_word(struct sl_tokenizer_work *w, const char *word, size_t len, struct ids *to)
{
	uint64_t hash;
	struct cached *c;
	size_t before = to->n;
	enum sl_err err = need(to, len + CACHED_IDS);

	if (err || len > CACHED_BYTES)
		return err ? err : compute_word(w, word, len, to);
	hash = XXH3_64bits(word, len);
	c = &w->cache[hash % CACHE_PLACES];
	if (c->hash == hash && c->len == len && memcmp(c->word, word, len) == 0) {
		memcpy(to->id + to->n, c->id, sizeof c->id);
		to->n += c->n;
		return SL_OK;
	}
	err = compute_word(w, word, len, to);
	if (!err && to->n - before <= CACHED_IDS) {
		c->hash = hash;
		c->len = (uint8_t)len;
		c->n = (uint8_t)(to->n - before);
		memcpy(c->word, word, len);
		memcpy(c->id, to->id + before, c->n * sizeof *c->id);
	}
	return err;
}

static char *spaced_room(struct sl_tokenizer_work *w, size_t bytes)
{
	if (bytes > w->spaced_cap) {
		free(w->spaced);
		w->spaced = malloc(2 * bytes);
		w->spaced_cap = w->spaced ? 2 * bytes : 0;
	}
	return w->spaced;
}

/* Makes *text a copy with a space in front. */
static enum sl_err add_space(struct sl_tokenizer_work *w, const char **text, size_t *len)
{
	if (!spaced_room(w, *len + 1))
		return SL_ERR_NOMEM;
	w->spaced[0] = ' ';
	memcpy(w->spaced + 1, *text, *len);
	*text = w->spaced;
	++*len;
	return SL_OK;
}

/* Encodes a stretch of text as one word of marked text. */
static enum sl_err put_marked(struct sl_tokenizer_work *w, const char *text, size_t len, bool first, struct ids *to)
{
	size_t n;
	enum sl_err err = spaced_room(w, sl_marked_most(len)) ? SL_OK : SL_ERR_NOMEM;

	if (err)
		return err;
	n = sl_marked_text(w->spaced, w->t->spec.lead, first, text, len);
	err = need(to, n);
	if (err)
		return err;
	n = sl_marked_ids(&w->t->spec, w->spaced, n, to->id + to->n);
	err = sl_bpe_merge(&w->t->bpe, to->id + to->n, &n, &w->bpe);
	to->n += err ? 0 : n;
	return err;
}

/* The beginning of the white space that ends at `end`, not before `start`. */
static size_t space_before(const char *text, size_t start, size_t end)
{
	while (end > start) {
		size_t at = end - 1, next;

		while (at > start && sl_utf8_continues(text[at]))
			at--;
		next = at;
		if (!sl_is_space(sl_utf8_next(text, &next)))
			break;
		end = at;
	}
	return end;
}

static size_t space_behind(const char *text, size_t at, size_t len)
{
	for (size_t next = at; at < len; at = next)
		if (!sl_is_space(sl_utf8_next(text, &next)))
			break;
	return at;
}

/* Encodes a stretch of cleaned text, whose words begin with marks. */
static enum sl_err put_marked_words(struct sl_tokenizer_work *w, const char *text, size_t len, bool first,
				    struct ids *to)
{
	enum sl_err err = spaced_room(w, sl_marked_most(len)) ? SL_OK : SL_ERR_NOMEM;
	const size_t n = err ? 0 : sl_marked_text(w->spaced, w->t->spec.lead, first, text, len);

	for (size_t at = 0, end = 0; at < n && !err; at = end) {
		size_t next = at;

		(void)sl_utf8_next(w->spaced, &next);
		for (end = next; end < n && sl_utf8_next(w->spaced, &next) != SL_MARK;)
			end = next;
		err = put_word(w, w->spaced + at, end - at, to);
	}
	return err;
}

static enum sl_err put_unigram(struct sl_tokenizer_work *w, const char *text, size_t len, bool first, struct ids *to)
{
	const struct sl_unigram *u = &w->t->spec.unigram;
	char *clean = sl_unigram_clean(u, text, &len);
	enum sl_err err = clean ? SL_OK : SL_ERR_NOMEM;

	len = !err && u->no_end ? space_before(clean, 0, len) : len;
	for (size_t at = 0, end; !err; at = end) {
		at = u->spaces ? space_behind(clean, at, len) : at;
		if (at == len)
			break;
		for (end = u->spaces ? at : len; end < len && space_behind(clean, end, len) == end;)
			(void)sl_utf8_next(clean, &end);
		err = put_marked_words(w, clean + at, end - at, first && at == 0, to);
	}
	free(clean);
	return err;
}

static enum sl_err put_bpe(struct sl_tokenizer_work *w, const char *text, size_t len, struct ids *to)
{
	char *composed = NULL;
	enum sl_err err = SL_OK;

	if (w->t->spec.nfc) {
		composed = sl_utf8_compose(text, &len);
		if (!composed)
			return SL_ERR_NOMEM;
		text = composed;
	}
	if (w->t->spec.prefix_space && text[0] != ' ')
		err = add_space(w, &text, &len);
	for (size_t at = 0, end = 0; at < len && !err; at = end) {
		err = sl_pattern_next(w->match, text, len, at, &end);
		if (!err)
			err = put_word(w, text + at, end - at, to);
	}
	free(composed);
	return err;
}

static enum sl_err put_wordpiece(struct sl_tokenizer_work *w, const char *text, size_t len, struct ids *to)
{
	const struct sl_tok_spec *spec = &w->t->spec;
	size_t n = 0, word_len;
	enum sl_err err = sl_wordpiece_clean(spec, text, len, &w->wordpiece, &n);

	for (size_t at = 0; !err && sl_wordpiece_word(spec, w->wordpiece.point, n, &at, w->word, &word_len);) {
		if (word_len) {
			err = put_word(w, w->word, word_len, to);
			continue;
		}
		err = need(to, 1);
		if (!err)
			to->id[to->n++] = spec->unk;
	}
	return err;
}

/* Encodes a stretch of text without added tokens; `first`: the text begins with it. */
static enum sl_err put_plain(struct sl_tokenizer_work *w, const char *text, size_t len, bool first, struct ids *to)
{
	if (len == 0)
		return SL_OK;
	if (w->t->spec.kind == SL_TOK_MARKED)
		return put_marked(w, text, len, first, to);
	if (w->t->spec.kind == SL_TOK_UNIGRAM)
		return put_unigram(w, text, len, first, to);
	return w->t->spec.kind == SL_TOK_BPE ? put_bpe(w, text, len, to) : put_wordpiece(w, text, len, to);
}

/* Finds the first added token in text[start … len), the longest of those that begin there: text[*from … *to). */
static const struct sl_tok_added *find_added(const struct sl_tokenizer *t, const char *text, size_t len, size_t start,
					     size_t *from, size_t *to)
{
	for (size_t i = start; i < len; i++) {
		const int *run = &t->begins_added[(unsigned char)text[i]];

		for (int k = run[0]; k < run[1]; k++) {
			const struct sl_tok_added *a = &t->spec.added[k];

			if (a->len > len - i || memcmp(text + i, a->text, a->len) != 0)
				continue;
			*from = a->lstrip ? space_before(text, start, i) : i;
			*to = a->rstrip ? space_behind(text, i + a->len, len) : i + a->len;
			return a;
		}
	}
	return NULL;
}

static enum sl_err put_text(struct sl_tokenizer_work *w, struct sl_bytes bytes, struct ids *to, struct sl_fail *fail)
{
	const char *text = (const char *)bytes.data;
	const struct sl_tok_added *added;
	size_t start = 0, from, end, valid;
	enum sl_err err = SL_OK;

	to->n = 0;
	if (bytes.len > SL_TEXT_MOST)
		return sl_fail_set(fail, SL_ERR_DATA, "a text of %zu bytes: at most %d", bytes.len, SL_TEXT_MOST);
	valid = sl_utf8_valid(text, bytes.len);
	if (valid != bytes.len)
		return sl_fail_set(fail, SL_ERR_DATA, "invalid UTF-8 at byte %zu of the text", valid);
	while (!err && (added = find_added(w->t, text, bytes.len, start, &from, &end)) != NULL) {
		err = put_plain(w, text + start, from - start, start == 0, to);
		if (!err)
			err = need(to, 1);
		if (!err)
			to->id[to->n++] = added->id;
		start = end;
	}
	if (!err)
		err = put_plain(w, text + start, bytes.len - start, start == 0, to);
	return err ? sl_fail_set(fail, err, "a text of %zu bytes: %s", bytes.len, sl_err_text(err)) : SL_OK;
}

/* Cuts a pair to m tokens in all, like longest_first of upstream's fast tokenizers. Those cut each text to max_length
 * first, which makes two long texts equally long. If m is odd the second text then has one token more. */
static void cut_pair(size_t *a, size_t *b, size_t m, size_t max_length)
{
	size_t *shorter, *longer;

	if (*a + *b <= m)
		return;
	*a = *a < max_length ? *a : max_length;
	*b = *b < max_length ? *b : max_length;
	shorter = *a <= *b ? a : b;
	longer = *a <= *b ? b : a;
	*longer = *shorter > m || m - *shorter < *shorter ? *shorter : m - *shorter;
	if (*shorter + *longer > m) {
		*shorter = m / 2;
		*longer = *shorter + m % 2;
	}
}

static void put_form(struct sl_tokenizer_work *w, const struct sl_tok_form *form, const size_t n[2],
		     struct sl_tokens *out)
{
	struct ids *to = &w->out;

	out->first = 0;
	for (int i = 0; i < form->n; i++) {
		enum sl_tok_part part = form->piece[i].part;

		if (part == SL_TOK_PART_ID) {
			to->id[to->n++] = form->piece[i].id;
		} else if (n[part - SL_TOK_PART_A] > 0) {
			const struct ids *text = &w->text[part - SL_TOK_PART_A];
			const size_t kept = n[part - SL_TOK_PART_A];

			memcpy(to->id + to->n, text->id + (w->t->spec.cut_front ? text->n - kept : 0),
			       kept * sizeof *text->id);
			to->n += kept;
		}
		if (form->piece[i].type == 0)
			out->first = (int32_t)to->n;
	}
	out->id = to->id;
	out->n = (int32_t)to->n;
}

enum sl_err sl_tokenizer_encode(struct sl_tokenizer_work *w, struct sl_bytes a, struct sl_bytes b, int32_t max_length,
				struct sl_tokens *out, struct sl_fail *fail)
{
	const struct sl_tok_form *form = b.data ? &w->t->spec.pair : &w->t->spec.single;
	size_t specials = (size_t)form->specials, n[2];
	enum sl_err err = put_text(w, a, &w->text[0], fail);

	w->text[1].n = 0;
	if (!err && b.data)
		err = put_text(w, b, &w->text[1], fail);
	if (err)
		return err;
	n[0] = w->text[0].n;
	n[1] = w->text[1].n;
	out->whole = (int32_t)(n[0] + n[1] + specials);
	if (max_length > 0) {
		size_t m = (size_t)max_length > specials ? (size_t)max_length - specials : 0;

		if (b.data)
			cut_pair(&n[0], &n[1], m, (size_t)max_length);
		else if (n[0] > m)
			n[0] = m;
	}
	w->out.n = 0;
	err = need(&w->out, n[0] + n[1] + specials + 1);
	if (err)
		return sl_fail_set(fail, err, "no memory for tokens");
	put_form(w, form, n, out);
	return SL_OK;
}
