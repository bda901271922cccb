/* From tokens back to text. */
#ifndef SL_CLIENT_TEXT_DECODE_H
#define SL_CLIENT_TEXT_DECODE_H

#include "client/text/spec.h"

/* The bytes that one token stands for, at most as many as its text has. In byte-level BPE each character is a byte. In
 * marked text (marked.h) a mark is a space, and <0xE2> one byte. Else they are the text itself. */
size_t sl_decode_token(const struct sl_tok_spec *spec, int32_t id, char *out);

#endif
