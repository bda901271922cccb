/* Shared by the readers of a tokenizer's files. */
#include "client/text/spec_parts.h"

#include <stdlib.h>
#include <string.h>

#include "client/text/unicode.h"

enum { FIRST_CAP = 1024, SHOWN = 64 };

/* How many bytes of a text a message shows; not every text ends with a NUL. */
static int shown(size_t len)
{
	return len > SHOWN ? SHOWN : (int)len;
}

static bool is_plain(int byte)
{
	return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

/* Printable bytes stand for themselves, the others for 256, 257 … in their order (GPT-2's bytes_to_unicode). */
uint32_t sl_tok_char_of(int byte)
{
	uint32_t c = 256;

	if (is_plain(byte))
		return (uint32_t)byte;
	for (int b = 0; b < byte; b++)
		c += !is_plain(b);
	return c;
}

static enum sl_err grow(struct sl_tok_entries *list, int64_t id, struct sl_fail *fail)
{
	int64_t cap = list->cap ? list->cap : FIRST_CAP;
	struct sl_vocab_entry *grown;

	while (cap <= id)
		cap *= 2;
	if (cap == list->cap)
		return SL_OK;
	grown = realloc(list->entry, (size_t)cap * sizeof *grown);
	if (!grown)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a vocabulary");
	memset(grown + list->cap, 0, (size_t)(cap - list->cap) * sizeof *grown);
	list->entry = grown;
	list->cap = (int32_t)cap;
	return SL_OK;
}

enum sl_err sl_tok_put(struct sl_tok_entries *list, int64_t id, const char *text, size_t len, const char *file,
		       struct sl_fail *fail)
{
	struct sl_vocab_entry *e;
	enum sl_err err;

	if (id < 0 || id >= SL_VOCAB_MOST)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: token \"%.*s\": its id is not a number from 0 to %d", file,
				   shown(len), text, SL_VOCAB_MOST - 1);
	err = grow(list, id, fail);
	if (err)
		return err;
	e = &list->entry[id];
	if (e->text && (e->len != len || memcmp(e->text, text, len) != 0))
		return sl_fail_set(fail, SL_ERR_DATA, "%s: tokens \"%.*s\" and \"%.*s\" have the same id, %lld", file,
				   shown(e->len), e->text, shown(len), text, (long long)id);
	*e = (struct sl_vocab_entry){text, len};
	if (id >= list->n)
		list->n = (int32_t)id + 1;
	return SL_OK;
}

enum sl_err sl_tok_put_object(struct sl_tok_entries *list, const json_t *object, const char *file, struct sl_fail *fail)
{
	void *at = json_object_iter((json_t *)object);
	enum sl_err err = SL_OK;

	if (!json_is_object(object) || json_object_size(object) == 0)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: the vocabulary is not an object {token: id}", file);
	for (; at && !err; at = json_object_iter_next((json_t *)object, at)) {
		const char *text = json_object_iter_key(at);
		const json_t *id = json_object_iter_value(at);

		if (!json_is_integer(id))
			return sl_fail_set(fail, SL_ERR_DATA, "%s: token \"%.64s\": its id is not an integer", file,
					   text);
		err = sl_tok_put(list, json_integer_value(id), text, strlen(text), file, fail);
	}
	return err;
}

enum sl_err sl_tok_take(struct sl_tok_spec *spec, const struct sl_tok_entries *list, const char *file,
			struct sl_fail *fail)
{
	int32_t twice[2] = {0, 0};
	enum sl_err err = sl_vocab_make(&spec->vocab, list->entry, list->n, twice);

	if (err == SL_ERR_DATA)
		return sl_fail_set(fail, err, "%s: token \"%.64s\" has two ids, %d and %d", file,
				   list->entry[twice[0]].text, twice[0], twice[1]);
	return err ? sl_fail_set(fail, err, "%s: the vocabulary is too large", file) : SL_OK;
}

enum sl_err sl_tok_add(struct sl_tok_spec *spec, const char *text, size_t len, int32_t id, bool lstrip, bool rstrip,
		       const char *file, struct sl_fail *fail)
{
	struct sl_tok_added *grown;
	char *copy;

	if (spec->n_added == SL_TOK_ADDED_MOST)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d added tokens", file, SL_TOK_ADDED_MOST);
	if (len == 0 || len > SL_TOK_ADDED_BYTES)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: added token %d has %zu bytes, not 1 to %d", file, id, len,
				   SL_TOK_ADDED_BYTES);
	grown = realloc(spec->added, ((size_t)spec->n_added + 1) * sizeof *grown);
	if (grown)
		spec->added = grown;
	copy = grown ? malloc(len + 1) : NULL;
	if (!copy)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for an added token");
	memcpy(copy, text, len);
	copy[len] = '\0';
	spec->added[spec->n_added++] = (struct sl_tok_added){copy, (uint32_t)len, id, lstrip, rstrip, true};
	return SL_OK;
}

static enum sl_err bad_merge(struct sl_tok_where at, const char *what, const char *text, size_t len,
			     struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s%s%zu: the merge %s \"%.*s\", which is not in the vocabulary", at.file,
			   at.unit, at.number, what, shown(len), text);
}

enum sl_err sl_tok_merge_put(struct sl_tok_spec *spec, const char *left, size_t left_len, const char *right,
			     size_t right_len, struct sl_tok_where at, struct sl_fail *fail)
{
	struct sl_tok_merge *m = &spec->merge[spec->n_merge];
	char both[512];

	m->left = sl_vocab_find(&spec->vocab, left, left_len);
	if (m->left < 0)
		return bad_merge(at, "joins", left, left_len, fail);
	m->right = sl_vocab_find(&spec->vocab, right, right_len);
	if (m->right < 0)
		return bad_merge(at, "joins", right, right_len, fail);
	if (left_len + right_len > sizeof both)
		return sl_fail_set(fail, SL_ERR_DATA, "%s%s%zu: the merge makes a token of more than %zu bytes",
				   at.file, at.unit, at.number, sizeof both);
	memcpy(both, left, left_len);
	memcpy(both + left_len, right, right_len);
	m->made = sl_vocab_find(&spec->vocab, both, left_len + right_len);
	if (m->made < 0)
		return bad_merge(at, "makes", both, left_len + right_len, fail);
	spec->n_merge++;
	return SL_OK;
}

void sl_tok_form_put(struct sl_tok_form *form, enum sl_tok_part part, int32_t id, int type)
{
	form->piece[form->n].part = part;
	form->piece[form->n].id = id;
	form->piece[form->n].type = type;
	form->n++;
	form->specials += part == SL_TOK_PART_ID;
}

void sl_tok_forms_plain(struct sl_tok_spec *spec)
{
	spec->single = spec->pair = (struct sl_tok_form){.n = 0};
	sl_tok_form_put(&spec->single, SL_TOK_PART_A, 0, 0);
	sl_tok_form_put(&spec->pair, SL_TOK_PART_A, 0, 0);
	sl_tok_form_put(&spec->pair, SL_TOK_PART_B, 0, 0);
}

static void begin(struct sl_tok_form *form, int32_t first, int32_t last)
{
	*form = (struct sl_tok_form){.n = 0};
	sl_tok_form_put(form, SL_TOK_PART_ID, first, 0);
	sl_tok_form_put(form, SL_TOK_PART_A, 0, 0);
	sl_tok_form_put(form, SL_TOK_PART_ID, last, 0);
}

void sl_tok_forms_roberta(struct sl_tok_spec *spec, int32_t first, int32_t last)
{
	begin(&spec->single, first, last);
	begin(&spec->pair, first, last);
	sl_tok_form_put(&spec->pair, SL_TOK_PART_ID, last, 0);
	sl_tok_form_put(&spec->pair, SL_TOK_PART_B, 0, 0);
	sl_tok_form_put(&spec->pair, SL_TOK_PART_ID, last, 0);
}

void sl_tok_forms_bert(struct sl_tok_spec *spec, int32_t first, int32_t last)
{
	begin(&spec->single, first, last);
	begin(&spec->pair, first, last);
	sl_tok_form_put(&spec->pair, SL_TOK_PART_B, 0, 1);
	sl_tok_form_put(&spec->pair, SL_TOK_PART_ID, last, 1);
}
