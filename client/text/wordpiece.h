/* BERT's WordPiece: text is cleaned, divided into words at white space and punctuation, and each word into the longest
 * pieces that the vocabulary has, from the left (Devlin et al. 2018; Hugging Face's BertNormalizer, BertPreTokenizer).
 */
#ifndef SL_CLIENT_TEXT_WORDPIECE_H
#define SL_CLIENT_TEXT_WORDPIECE_H

#include <stddef.h>
#include <stdint.h>

#include "client/text/spec.h"
#include "common/base/err.h"

/* One thread's memory. It begins zeroed; the caller frees `point`. */
struct sl_wordpiece_room {
	uint32_t *point; /* code points of the text, cleaned */
	size_t cap;
};

/* Cleans `text` (valid UTF-8) into room->point[0 … *n). NOMEM. */
enum sl_err sl_wordpiece_clean(const struct sl_tok_spec *spec, const char *text, size_t len,
			       struct sl_wordpiece_room *room, size_t *n) SL_MUST_CHECK;
/* Writes the next word of point[*at … n) as UTF-8 to word[0 … *len), and moves *at behind it. False: there is no
 * further word. *len 0: it has more than spec->word_chars characters. `word` holds SL_TOK_WORD_CHARS_MOST * 4 bytes. */
bool sl_wordpiece_word(const struct sl_tok_spec *spec, const uint32_t *point, size_t n, size_t *at, char *word,
		       size_t *len);
/* Writes the ids of the pieces of a word of `len` > 0 bytes, at most `len` of them, and returns how many. A word that
 * cannot be divided into pieces becomes spec->unk alone. */
size_t sl_wordpiece_pieces(const struct sl_tok_spec *spec, const char *word, size_t len, int32_t *id);

#endif
