/* BERT's WordPiece: text is cleaned, divided into words at white space and punctuation, and each word into the longest
 * pieces that the vocabulary has, from the left (Devlin et al. 2018; Hugging Face's BertNormalizer, BertPreTokenizer).
 */
#ifndef SL_CLIENT_TEXT_WORDPIECE_H
#define SL_CLIENT_TEXT_WORDPIECE_H

#include <stddef.h>
#include <stdint.h>

#include "client/text/spec.h"
#include "common/base/err.h"

/* Memory of one thread. Begins zeroed. */
struct sl_wordpiece_room {
	uint32_t *point; /* code points of the text, cleaned */
	size_t cap;
};

/* Cleans `text` (valid UTF-8): room->point[0 … *n). NOMEM. */
enum sl_err sl_wordpiece_clean(const struct sl_tok_spec *spec, const char *text, size_t len,
			       struct sl_wordpiece_room *room, size_t *n) SL_MUST_CHECK;
/* The next word in point[*at … n), as UTF-8 in word[0 … *len), or false; *len is 0 for one with more characters than
 * spec->word_chars. `word` holds SL_TOK_WORD_CHARS_MOST * 4 bytes. */
bool sl_wordpiece_word(const struct sl_tok_spec *spec, const uint32_t *point, size_t n, size_t *at, char *word,
		       size_t *len);
/* Pieces of a word of `len` > 0 bytes, at most `len` of them; returns how many: spec->unk alone where it has no
 * pieces. */
size_t sl_wordpiece_pieces(const struct sl_tok_spec *spec, const char *word, size_t len, int32_t *id);

#endif
