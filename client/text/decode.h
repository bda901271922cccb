/* From tokens back to text. */
#ifndef SL_CLIENT_TEXT_DECODE_H
#define SL_CLIENT_TEXT_DECODE_H

#include "client/text/spec.h"

/* Writes the bytes that a token stands for, at most as many as its text has, and returns how many: none for a special
 * token. In byte-level BPE each character stands for a byte. In marked text (marked.h) a mark stands for a space, and
 * <0xE2> for one byte. Other tokens stand for their text. */
size_t sl_decode_token(const struct sl_tok_spec *spec, int32_t id, char *out);

#endif
