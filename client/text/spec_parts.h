/* Between the readers of a tokenizer's files, for spec_*.c alone. */
#ifndef SL_CLIENT_TEXT_SPEC_PARTS_H
#define SL_CLIENT_TEXT_SPEC_PARTS_H

#include <jansson.h>

#include "client/text/spec.h"

/* A vocabulary while it is read. The texts are not copied. */
struct sl_tok_entries {
	struct sl_vocab_entry *entry;
	int32_t n, cap;
};

/* LIMIT: the id is out of range; DATA: another token has it; NOMEM. The same text again is fine. */
enum sl_err sl_tok_put(struct sl_tok_entries *list, int64_t id, const char *text, size_t len, const char *file,
		       struct sl_fail *fail) SL_MUST_CHECK;
/* spec->vocab from them. */
enum sl_err sl_tok_take(struct sl_tok_spec *spec, const struct sl_tok_entries *list, const char *file,
			struct sl_fail *fail) SL_MUST_CHECK;
/* All ids of an object {text: id}. `root` has to outlive the list. */
enum sl_err sl_tok_put_object(struct sl_tok_entries *list, const json_t *object, const char *file,
			      struct sl_fail *fail) SL_MUST_CHECK;

enum sl_err sl_tok_add(struct sl_tok_spec *spec, const char *text, size_t len, int32_t id, bool lstrip, bool rstrip,
		       const char *file, struct sl_fail *fail) SL_MUST_CHECK;
/* Where a merge stands: file, ":" or another word, number. */
struct sl_tok_where {
	const char *file, *unit;
	size_t number;
};

/* The ids of a merge, appended to spec->merge, which has room for it. */
enum sl_err sl_tok_merge_put(struct sl_tok_spec *spec, const char *left, size_t left_len, const char *right,
			     size_t right_len, struct sl_tok_where at, struct sl_fail *fail) SL_MUST_CHECK;

void sl_tok_form_put(struct sl_tok_form *form, enum sl_tok_part part, int32_t id, int type);
/* <s> A </s>, <s> A </s></s> B </s> */
void sl_tok_forms_roberta(struct sl_tok_spec *spec, int32_t first, int32_t last);
/* [CLS] A [SEP] B [SEP] with types */
void sl_tok_forms_bert(struct sl_tok_spec *spec, int32_t first, int32_t last);
/* A, A B */
void sl_tok_forms_plain(struct sl_tok_spec *spec);

/* The whole of a JSON file. */
enum sl_err sl_tok_json(json_t **root, const struct sl_tok_file *file, size_t flags,
			struct sl_fail *fail) SL_MUST_CHECK;
/* tokenizer.json */
enum sl_err sl_tok_read_json(struct sl_tok_spec *spec, const struct sl_tok_file *file,
			     struct sl_fail *fail) SL_MUST_CHECK;

#endif
