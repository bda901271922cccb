/* Byte pair encoding as SentencePiece has it (Kudo and Richardson 2018; Llama 2, Mistral, Gemma): a space is written as
 * the mark U+2581, the whole text is one word, and merges begin with its characters. A character without a token
 * becomes its bytes, <0xE2> and so on. */
#ifndef SL_CLIENT_TEXT_MARKED_H
#define SL_CLIENT_TEXT_MARKED_H

#include "client/text/spec.h"

enum { SL_MARK = 0x2581 };

/* Writes a stretch of text between added tokens as marked text, at most sl_marked_most(len) bytes; returns how many.
 * `first`: nothing stands before the stretch. */
size_t sl_marked_text(char *out, enum sl_tok_lead lead, bool first, const char *text, size_t len);
static inline size_t sl_marked_most(size_t len)
{
	return 3 * (len + 1);
}

/* Writes the tokens of the characters of marked text, at most one for each byte; returns how many. */
size_t sl_marked_ids(const struct sl_tok_spec *spec, const char *marked, size_t len, int32_t *id);
/* The token of a byte, such as <0xE2>, for characters without a token; -1: there is none. */
int32_t sl_marked_byte(const struct sl_vocab *vocab, int byte);

#endif
