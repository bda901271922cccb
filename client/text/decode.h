/* From tokens back to text. */
#ifndef SL_CLIENT_TEXT_DECODE_H
#define SL_CLIENT_TEXT_DECODE_H

#include "client/text/spec.h"

/* The bytes that one token stands for, at most as many as its text has: of byte-level BPE the byte of each character;
 * of marked text (marked.h) spaces for marks, and a byte for <0xE2>; of others the text itself. */
size_t sl_decode_token(const struct sl_tok_spec *spec, int32_t id, char *out);

#endif
