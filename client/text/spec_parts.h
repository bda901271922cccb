/* Shared by the readers of a tokenizer's files; only for spec*.c. */
#ifndef SL_CLIENT_TEXT_SPEC_PARTS_H
#define SL_CLIENT_TEXT_SPEC_PARTS_H

#include <jansson.h>

#include "client/text/spec.h"

/* A vocabulary that is being read. Its texts are borrowed. */
struct sl_tok_entries {
	struct sl_vocab_entry *entry;
	int32_t n, cap;
};

/* Adds a token. DATA: the id is out of range, or another token has it; NOMEM. The same text again is fine. */
enum sl_err sl_tok_put(struct sl_tok_entries *list, int64_t id, const char *text, size_t len, const char *file,
		       struct sl_fail *fail) SL_MUST_CHECK;
/* Makes spec->vocab from the list. DATA: a text has two ids, or there are too many; NOMEM. */
enum sl_err sl_tok_take(struct sl_tok_spec *spec, const struct sl_tok_entries *list, const char *file,
			struct sl_fail *fail) SL_MUST_CHECK;
/* Adds all tokens of an object {text: id}, which has to outlive the list. */
enum sl_err sl_tok_put_object(struct sl_tok_entries *list, const json_t *object, const char *file,
			      struct sl_fail *fail) SL_MUST_CHECK;

/* Adds an added token, as a special one; the text is copied. */
enum sl_err sl_tok_add(struct sl_tok_spec *spec, const char *text, size_t len, int32_t id, bool lstrip, bool rstrip,
		       const char *file, struct sl_fail *fail) SL_MUST_CHECK;
/* The place of a merge, for errors: the file, ":" or another word, and the number of the line or entry. */
struct sl_tok_where {
	const char *file, *unit;
	size_t number;
};

/* Appends a merge to spec->merge, which must have room for it. DATA: a token is not in the vocabulary, or too long. */
enum sl_err sl_tok_merge_put(struct sl_tok_spec *spec, const char *left, size_t left_len, const char *right,
			     size_t right_len, struct sl_tok_where at, struct sl_fail *fail) SL_MUST_CHECK;

void sl_tok_form_put(struct sl_tok_form *form, enum sl_tok_part part, int32_t id, int type);
/* <s> A </s>, <s> A </s></s> B </s> */
void sl_tok_forms_roberta(struct sl_tok_spec *spec, int32_t first, int32_t last);
/* [CLS] A [SEP] B [SEP] with types */
void sl_tok_forms_bert(struct sl_tok_spec *spec, int32_t first, int32_t last);
/* A, A B */
void sl_tok_forms_plain(struct sl_tok_spec *spec);

/* Parses a JSON file, which must be an object. DATA. */
enum sl_err sl_tok_json(json_t **root, const struct sl_tok_file *file, size_t flags,
			struct sl_fail *fail) SL_MUST_CHECK;
/* Reads tokenizer.json. */
enum sl_err sl_tok_read_json(struct sl_tok_spec *spec, const struct sl_tok_file *file,
			     struct sl_fail *fail) SL_MUST_CHECK;

#endif
