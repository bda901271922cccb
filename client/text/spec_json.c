/* Reads tokenizer.json, as Hugging Face's tokenizers write it: version 1.0, models BPE (on bytes, or with
 * byte_fallback), WordPiece and Unigram. A member that changes ids and is not supported is refused. The decoder,
 * padding, and all of truncation but its direction change none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/text/pattern.h"
#include "client/text/spec_parts.h"

struct reader {
	struct sl_tok_spec *spec;
	const char *file;
	struct sl_fail *fail;
	bool replaced;            /* the normalizer makes spaces marks */
	bool normalized, foreign; /* an added token is searched in normalized text; and is not ASCII */
};

static const char mark[] = "\xe2\x96\x81";

static enum sl_err malformed(struct reader *r, const char *what)
{
	return sl_fail_set(r->fail, SL_ERR_DATA, "%s: %s", r->file, what);
}

/* Refuses a member that is not supported, as ids would differ. */
static enum sl_err unsupported(struct reader *r, const char *member, const char *value, const char *known)
{
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s \"%.64s\" is not supported; supported: %s", r->file, member,
			   value, known);
}

static const char *type_of(const json_t *object)
{
	const char *type = json_string_value(json_object_get(object, "type"));

	return type ? type : "";
}

static bool is_type(const json_t *object, const char *type)
{
	return strcmp(type_of(object), type) == 0;
}

static bool is_text(const json_t *value, const char *text)
{
	return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool absent(const json_t *value)
{
	return !value || json_is_null(value);
}

/* Whether a member is missing, null, false, 0 or "", which changes no ids. */
static bool is_off(const json_t *value)
{
	return absent(value) || json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0) ||
	       (json_is_string(value) && json_string_length(value) == 0);
}

static bool flag(const json_t *object, const char *key, bool otherwise)
{
	const json_t *value = json_object_get(object, key);

	return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static enum sl_err read_merges(struct reader *r, const json_t *merges)
{
	size_t n = json_array_size(merges);
	enum sl_err err = SL_OK;

	if (!json_is_array(merges))
		return malformed(r, "model.merges is not a list");
	r->spec->merge = malloc((n + 1) * sizeof *r->spec->merge);
	if (!r->spec->merge)
		return sl_fail_set(r->fail, SL_ERR_NOMEM, "no memory for merges");
	for (size_t i = 0; i < n && !err; i++) {
		const json_t *m = json_array_get(merges, i);
		const char *left = json_string_value(m), *right = left ? strchr(left, ' ') : NULL;
		const struct sl_tok_where at = {r->file, ", model.merges, entry ", i};

		if (right) {
			err = sl_tok_merge_put(r->spec, left, (size_t)(right - left), right + 1, strlen(right + 1), at,
					       r->fail);
			continue;
		}
		left = json_string_value(json_array_get(m, 0));
		right = json_string_value(json_array_get(m, 1));
		if (!left || !right || json_array_size(m) != 2)
			return sl_fail_set(r->fail, SL_ERR_DATA,
					   "%s: model.merges, entry %zu: it is not a pair of tokens", r->file, i);
		err = sl_tok_merge_put(r->spec, left, strlen(left), right, strlen(right), at, r->fail);
	}
	return err;
}

static enum sl_err read_bpe(struct reader *r, const json_t *model)
{
	static const char *const none[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix", NULL};

	for (const char *const *key = none; *key; key++)
		if (!is_off(json_object_get(model, *key)))
			return unsupported(r, "a BPE model with", *key, "none");
	r->spec->kind = flag(model, "byte_fallback", false) ? SL_TOK_MARKED : SL_TOK_BPE;
	r->spec->whole_words = flag(model, "ignore_merges", false);
	if (r->spec->kind == SL_TOK_MARKED && r->spec->whole_words)
		return unsupported(r, "a BPE model with byte_fallback and", "ignore_merges", "one of them");
	return read_merges(r, json_object_get(model, "merges"));
}

static enum sl_err read_wordpiece(struct reader *r, const json_t *model)
{
	const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
	const json_t *chars = json_object_get(model, "max_input_chars_per_word");
	struct sl_tok_spec *s = r->spec;

	if (prefix && (!json_is_string(prefix) || json_string_length(prefix) >= sizeof s->prefix))
		return malformed(r, "model.continuing_subword_prefix is not a text of at most 15 bytes");
	if (prefix)
		memcpy(s->prefix, json_string_value(prefix), json_string_length(prefix) + 1);
	if (chars && (!json_is_integer(chars) || json_integer_value(chars) < 1 ||
		      json_integer_value(chars) > SL_TOK_WORD_CHARS_MOST))
		return malformed(r, "model.max_input_chars_per_word is not a number from 1 to 1000");
	if (chars)
		s->word_chars = (int)json_integer_value(chars);
	return SL_OK;
}

/* Pieces are [text, log-probability]; their ids are their places. */
static enum sl_err read_unigram(struct reader *r, const json_t *model)
{
	const json_t *pieces = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
	struct sl_unigram *u = &r->spec->unigram;
	const size_t n = json_array_size(pieces);
	double least = INFINITY;

	if (flag(model, "byte_fallback", false))
		return unsupported(r, "a Unigram model with", "byte_fallback", "none");
	if (!json_is_integer(unk) || json_integer_value(unk) < 0 || (size_t)json_integer_value(unk) >= n)
		return malformed(r, "model.unk_id is no place in model.vocab");
	r->spec->unk = (int32_t)json_integer_value(unk);
	u->score = malloc(n * sizeof *u->score);
	if (!u->score)
		return sl_fail_set(r->fail, SL_ERR_NOMEM, "no memory for a vocabulary");
	for (; (size_t)u->n < n; u->n++) {
		const double score = json_number_value(json_array_get(json_array_get(pieces, (size_t)u->n), 1));
		const size_t len = sl_vocab_len(&r->spec->vocab, u->n);

		u->score[u->n] = score;
		least = score < least ? score : least;
		u->longest = len > u->longest ? len : u->longest;
	}
	u->unknown = least - 10; /* as SentencePiece has it */
	return u->longest <= SL_UNIGRAM_PIECE_MOST ? SL_OK
						   : malformed(r, "model.vocab has a piece of more than 1024 bytes");
}

static enum sl_err put_pieces(struct reader *r, const json_t *pieces, struct sl_tok_entries *list)
{
	enum sl_err err = SL_OK;

	for (size_t i = 0; i < json_array_size(pieces) && !err; i++) {
		const json_t *p = json_array_get(pieces, i), *text = json_array_get(p, 0);

		if (!json_is_string(text) || !json_is_number(json_array_get(p, 1)))
			return sl_fail_set(r->fail, SL_ERR_DATA, "%s: model.vocab, entry %zu: it is no [token, number]",
					   r->file, i);
		err = sl_tok_put(list, (int64_t)i, json_string_value(text), json_string_length(text), r->file, r->fail);
	}
	return err || list->n ? err : malformed(r, "model.vocab is no list of [token, number]");
}

static enum sl_err read_added(struct reader *r, const json_t *added, struct sl_tok_entries *list)
{
	for (size_t i = 0; i < json_array_size(added); i++) {
		const json_t *a = json_array_get(added, i), *text = json_object_get(a, "content");
		const json_t *id = json_object_get(a, "id");
		enum sl_err err;

		if (!json_is_string(text) || !json_is_integer(id))
			return malformed(r, "an added token is not an object {id, content, …}");
		if (flag(a, "single_word", false))
			return unsupported(r, "an added token with", "single_word", "lstrip, rstrip");
		r->normalized |= flag(a, "normalized", false);
		for (const char *c = json_string_value(text); *c && flag(a, "normalized", false); c++)
			r->foreign |= (unsigned char)*c >= 0x80;
		err = sl_tok_put(list, json_integer_value(id), json_string_value(text), json_string_length(text),
				 r->file, r->fail);
		if (!err)
			err = sl_tok_add(r->spec, json_string_value(text), json_string_length(text),
					 (int32_t)json_integer_value(id), flag(a, "lstrip", false),
					 flag(a, "rstrip", false), r->file, r->fail);
		if (err)
			return err;
		r->spec->added[r->spec->n_added - 1].special = flag(a, "special", false);
	}
	return SL_OK;
}

/* The normalizer of marked text: Prepend of a mark, and Replace of each space by one; Replace alone; or nothing, if the
 * pre-tokenizer is a Metaspace. */
static enum sl_err read_marks(struct reader *r, const json_t *n)
{
	const json_t *list = json_object_get(n, "normalizers");

	if (is_type(n, "Sequence")) {
		enum sl_err err = SL_OK;

		for (size_t i = 0; i < json_array_size(list) && !err; i++)
			err = read_marks(r, json_array_get(list, i));
		return err;
	}
	if (is_type(n, "Prepend") && is_text(json_object_get(n, "prepend"), mark)) {
		r->spec->lead = SL_TOK_LEAD_EACH;
		return SL_OK;
	}
	if (is_type(n, "Replace") && is_text(json_object_get(n, "content"), mark) &&
	    is_text(json_object_get(json_object_get(n, "pattern"), "String"), " ")) {
		r->replaced = true;
		return SL_OK;
	}
	return absent(n) ? SL_OK
			 : unsupported(r, "normalizer", type_of(n), "Prepend, Replace of a space (with byte_fallback)");
}

/* The normalizers of Unigram. All of them together make one space of several, and the table comes first. */
static enum sl_err read_cleaning(struct reader *r, const json_t *n)
{
	const json_t *list = json_object_get(n, "normalizers"), *table = json_object_get(n, "precompiled_charsmap");
	const json_t *to = json_object_get(n, "content");
	struct sl_unigram *u = &r->spec->unigram;
	enum sl_err err = SL_OK;

	for (size_t i = 0; is_type(n, "Sequence") && i < json_array_size(list) && !err; i++)
		err = read_cleaning(r, json_array_get(list, i));
	if (err || absent(n) || is_type(n, "Sequence"))
		return err;
	if (is_type(n, "Precompiled") && !u->trie && !u->no_end && !u->no_run) {
		err = json_is_string(table) ? sl_unigram_table(u, json_string_value(table), json_string_length(table))
					    : SL_ERR_DATA;
		return err ? malformed(r, "normalizer: precompiled_charsmap is no table of SentencePiece") : SL_OK;
	}
	if (is_type(n, "Strip") && !flag(n, "strip_left", true) && flag(n, "strip_right", true)) {
		u->no_end = true;
		return SL_OK;
	}
	u->no_run = is_type(n, "Replace") && (is_text(to, mark) || is_text(to, " ")) &&
		    is_text(json_object_get(json_object_get(n, "pattern"), "Regex"), " {2,}");
	return u->no_run ? SL_OK
			 : unsupported(r, "normalizer", type_of(n),
				       "Precompiled, Strip on the right, Replace of \" {2,}\" (with Unigram)");
}

static enum sl_err read_normalizer(struct reader *r, const json_t *n)
{
	struct sl_tok_spec *s = r->spec;
	const json_t *strip = json_object_get(n, "strip_accents");

	if (r->normalized && !absent(n) && ((s->kind != SL_TOK_BPE && s->kind != SL_TOK_UNIGRAM) || r->foreign))
		return unsupported(r, "an added token with", "normalized",
				   "lstrip, rstrip; if no text spells the token, set it to false");
	if (s->kind == SL_TOK_MARKED)
		return read_marks(r, n);
	if (s->kind == SL_TOK_UNIGRAM)
		return read_cleaning(r, n);
	s->nfc = s->kind == SL_TOK_BPE && is_type(n, "NFC");
	if (s->kind == SL_TOK_BPE)
		return absent(n) || s->nfc ? SL_OK : unsupported(r, "normalizer", type_of(n), "NFC, null (with BPE)");
	if (!is_type(n, "BertNormalizer"))
		return unsupported(r, "normalizer", type_of(n), "BertNormalizer (with WordPiece)");
	s->clean = flag(n, "clean_text", true);
	s->han = flag(n, "handle_chinese_chars", true);
	s->lower = flag(n, "lowercase", true);
	s->strip = json_is_boolean(strip) ? json_is_true(strip) : s->lower;
	return SL_OK;
}

/* The pre-tokenizer of marked text: a Metaspace; or, if the normalizer replaces spaces, none or a Split at spaces,
 * which finds none. */
static enum sl_err read_metaspace(struct reader *r, const json_t *p)
{
	const bool splits = r->spec->kind == SL_TOK_UNIGRAM;
	const char *scheme = json_string_value(json_object_get(p, "prepend_scheme"));
	const json_t *replacement = json_object_get(p, "replacement");
	const bool never =
		is_type(p, "Split") && is_text(json_object_get(json_object_get(p, "pattern"), "String"), " ");

	if ((absent(p) || never) && r->replaced)
		return SL_OK;
	if (!is_type(p, "Metaspace") || flag(p, "split", true) != splits ||
	    (replacement && !is_text(replacement, mark)))
		return unsupported(r, "pre_tokenizer", type_of(p),
				   splits ? "Metaspace of ▁ that splits, also behind WhitespaceSplit (with Unigram)"
					  : "Metaspace of ▁ that does not split, or null behind a Replace of spaces "
					    "by it");
	if (r->spec->lead == SL_TOK_LEAD_EACH) /* Prepend's mark is there already */
		return SL_OK;
	if (!scheme && !flag(p, "add_prefix_space", true)) /* files from before version 0.15 */
		scheme = "never";
	r->spec->lead = !scheme || strcmp(scheme, "always") == 0 ? SL_TOK_LEAD_LACKING
			: strcmp(scheme, "first") == 0           ? SL_TOK_LEAD_FIRST
								 : SL_TOK_LEAD_NONE;
	return SL_OK;
}

/* A Sequence: a Split by a known pattern, or Digits, and then ByteLevel. */
static enum sl_err read_words(struct reader *r, const json_t *list)
{
	const json_t *first = json_array_get(list, 0), *last = json_array_get(list, 1);
	const bool digits = is_type(first, "Digits") && flag(first, "individual_digits", false);
	const char *regex = json_string_value(json_object_get(json_object_get(first, "pattern"), "Regex"));
	const bool invert =
		flag(first, "invert", false); /* the patterns leave nothing out, so both spellings are the same */
	const bool split =
		is_type(first, "Split") && is_text(json_object_get(first, "behavior"), invert ? "Removed" : "Isolated");
	struct sl_tok_spec *s = r->spec;

	s->words = digits ? SL_TOK_WORDS_DIGITS : split && regex ? sl_pattern_find(regex) : SL_TOK_WORDS_COUNT;
	if (json_array_size(list) != 2 || !is_type(last, "ByteLevel") || s->words == SL_TOK_WORDS_COUNT ||
	    flag(last, "use_regex", true) != digits || flag(last, "add_prefix_space", true))
		return unsupported(r, "pre_tokenizer", "Sequence",
				   "of ByteLevel behind Digits, or behind the Split of Llama 3, Qwen2 or Phi-4-mini");
	return SL_OK;
}

static enum sl_err read_pre_tokenizer(struct reader *r, const json_t *p)
{
	const json_t *list = json_object_get(p, "pretokenizers");

	if (r->spec->kind == SL_TOK_UNIGRAM) {
		r->spec->unigram.spaces =
			json_array_size(list) == 2 && is_type(json_array_get(list, 0), "WhitespaceSplit");
		return read_metaspace(r, r->spec->unigram.spaces ? json_array_get(list, 1) : p);
	}
	if (r->spec->kind == SL_TOK_MARKED)
		return read_metaspace(r, p);
	if (r->spec->kind == SL_TOK_WORDPIECE)
		return is_type(p, "BertPreTokenizer")
			       ? SL_OK
			       : unsupported(r, "pre_tokenizer", type_of(p), "BertPreTokenizer (with WordPiece)");
	if (is_type(p, "Sequence"))
		return read_words(r, list);
	if (!is_type(p, "ByteLevel") || !flag(p, "use_regex", true))
		return unsupported(r, "pre_tokenizer", type_of(p), "ByteLevel with its own pattern (with BPE)");
	r->spec->prefix_space = flag(p, "add_prefix_space", true);
	return SL_OK;
}

/* The id of a pair such as ["</s>", 2]; -1: it is no pair, or not in the vocabulary. */
static int32_t named_token(struct reader *r, const json_t *pair)
{
	const json_t *id = json_array_get(pair, 1);

	if (json_array_size(pair) != 2 || !json_is_integer(id) || json_integer_value(id) < 0 ||
	    json_integer_value(id) >= r->spec->vocab.n)
		return -1;
	return (int32_t)json_integer_value(id);
}

/* Adds a special token of a template, which stands for one id or several. */
static enum sl_err put_special(struct reader *r, struct sl_tok_form *form, const json_t *tokens, const char *name,
			       int type)
{
	const json_t *ids = json_object_get(json_object_get(tokens, name), "ids");

	if (json_array_size(ids) == 0)
		return malformed(r, "post_processor: a template names a token that special_tokens lacks");
	for (size_t i = 0; i < json_array_size(ids); i++) {
		const json_t *id = json_array_get(ids, i);

		if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= r->spec->vocab.n)
			return malformed(r, "post_processor: a special token's id is not in the vocabulary");
		if (form->n == SL_TOK_FORM_MOST)
			return malformed(r, "post_processor: a template has more than 16 pieces");
		sl_tok_form_put(form, SL_TOK_PART_ID, (int32_t)json_integer_value(id), type);
	}
	return SL_OK;
}

/* Reads [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, …]. Each text must
 * come once, A first; types are 0, then perhaps 1. */
static enum sl_err read_template(struct reader *r, struct sl_tok_form *form, const json_t *pieces, const json_t *tokens,
				 int texts)
{
	int type = 0, seen = 0;

	*form = (struct sl_tok_form){.n = 0};
	for (size_t i = 0; i < json_array_size(pieces); i++) {
		const json_t *p = json_array_get(pieces, i), *special = json_object_get(p, "SpecialToken");
		const json_t *what = special ? special : json_object_get(p, "Sequence");
		const char *id = json_string_value(json_object_get(what, "id"));
		json_int_t t = json_integer_value(json_object_get(what, "type_id"));
		enum sl_err err = SL_OK;

		if (!id || t < type || t > 1)
			return malformed(r, "post_processor: a template's types are not 0, then 1");
		type = (int)t;
		if (special)
			err = put_special(r, form, tokens, id, type);
		else if (seen == texts || strcmp(id, seen ? "B" : "A") != 0 || form->n == SL_TOK_FORM_MOST)
			err = malformed(r, "post_processor: a template's texts are not A (then B), once each");
		else
			sl_tok_form_put(form, seen++ ? SL_TOK_PART_B : SL_TOK_PART_A, 0, type);
		if (err)
			return err;
	}
	return seen == texts ? SL_OK : malformed(r, "post_processor: a template lacks a text");
}

static enum sl_err read_post_processor(struct reader *r, const json_t *p)
{
	static const char known[] = "TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel, null";
	int32_t first = named_token(r, json_object_get(p, "cls")), last = named_token(r, json_object_get(p, "sep"));
	bool roberta = is_type(p, "RobertaProcessing");
	const json_t *tokens = json_object_get(p, "special_tokens");
	const json_t *list = json_object_get(p, "processors");
	enum sl_err err;

	if (is_type(p, "Sequence") && json_array_size(list) == 2 && is_type(json_array_get(list, 0), "ByteLevel"))
		return read_post_processor(r, json_array_get(list, 1));
	if (absent(p) || is_type(p, "ByteLevel")) {
		sl_tok_forms_plain(r->spec);
		return SL_OK;
	}
	if (roberta || is_type(p, "BertProcessing")) {
		if (first < 0 || last < 0)
			return malformed(r, "post_processor: cls or sep is not a [token, id] of the vocabulary");
		(roberta ? sl_tok_forms_roberta : sl_tok_forms_bert)(r->spec, first, last);
		return SL_OK;
	}
	if (!is_type(p, "TemplateProcessing"))
		return unsupported(r, "post_processor", type_of(p), known);
	err = read_template(r, &r->spec->single, json_object_get(p, "single"), tokens, 1);
	return err ? err : read_template(r, &r->spec->pair, json_object_get(p, "pair"), tokens, 2);
}

/* Files from before version 0.10 do not name the model's type; its members show it. */
static enum sl_err choose_kind(struct reader *r, const json_t *model)
{
	const json_t *type = json_object_get(model, "type");
	bool bpe = type ? is_type(model, "BPE") : json_object_get(model, "merges") != NULL;
	const bool unigram = is_type(model, "Unigram");

	if (!json_is_object(model))
		return malformed(r, "it has no member \"model\"");
	if (!bpe && !unigram &&
	    (type ? !is_type(model, "WordPiece") : !json_object_get(model, "max_input_chars_per_word")))
		return unsupported(r, "model", type_of(model), "BPE, WordPiece, Unigram");
	r->spec->kind = bpe ? SL_TOK_BPE : unigram ? SL_TOK_UNIGRAM : SL_TOK_WORDPIECE;
	return SL_OK;
}

static enum sl_err read_model(struct reader *r, const json_t *model)
{
	return r->spec->kind == SL_TOK_BPE       ? read_bpe(r, model)
	       : r->spec->kind == SL_TOK_UNIGRAM ? read_unigram(r, model)
						 : read_wordpiece(r, model);
}

static enum sl_err read_vocab(struct reader *r, const json_t *root, const json_t *model)
{
	struct sl_tok_entries list = {0};
	const char *unk = json_string_value(json_object_get(model, "unk_token"));
	const json_t *vocab = json_object_get(model, "vocab");
	enum sl_err err = r->spec->kind == SL_TOK_UNIGRAM ? put_pieces(r, vocab, &list)
							  : sl_tok_put_object(&list, vocab, r->file, r->fail);

	if (!err)
		err = read_added(r, json_object_get(root, "added_tokens"), &list);
	if (!err)
		err = sl_tok_take(r->spec, &list, r->file, r->fail);
	free(list.entry);
	if (err)
		return err;
	r->spec->unk = unk ? sl_vocab_find(&r->spec->vocab, unk, strlen(unk)) : -1;
	return unk && r->spec->unk < 0 ? malformed(r, "model.unk_token is not in the vocabulary") : SL_OK;
}

enum sl_err sl_tok_read_json(struct sl_tok_spec *spec, const struct sl_tok_file *file, struct sl_fail *fail)
{
	struct reader r = {.spec = spec, .file = file->name, .fail = fail};
	json_t *root = NULL;
	const json_t *model;
	enum sl_err err = sl_tok_json(&root, file, 0, fail);

	if (err)
		return err;
	model = json_object_get(root, "model");
	spec->cut_front = is_text(json_object_get(json_object_get(root, "truncation"), "direction"), "Left");
	err = choose_kind(&r, model);
	if (!err)
		err = read_vocab(&r, root, model);
	if (!err)
		err = read_model(&r, model);
	if (!err)
		err = read_normalizer(&r, json_object_get(root, "normalizer"));
	if (!err)
		err = read_pre_tokenizer(&r, json_object_get(root, "pre_tokenizer"));
	if (!err)
		err = read_post_processor(&r, json_object_get(root, "post_processor"));
	json_decref(root);
	return err;
}
