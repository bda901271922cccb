/* Code points: UTF-8 in and out, and the classes by which tokenizers divide text. Sequences of UTF-8 are those of
 * RFC 3629: no surrogates, nothing above U+10FFFF, no overlong forms. Pure functions. */
#ifndef SL_CLIENT_TEXT_UNICODE_H
#define SL_CLIENT_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SL_UTF8_MOST = 4 };

/* The number of bytes at the beginning of `text` that are valid UTF-8; `len` if all are. */
size_t sl_utf8_valid(const char *text, size_t len);

/* The code point at *at of valid text; *at moves behind it. */
static inline uint32_t sl_utf8_next(const char *text, size_t *at)
{
	const unsigned char *s = (const unsigned char *)text + *at;

	if (s[0] < 0x80) {
		*at += 1;
		return s[0];
	}
	if (s[0] < 0xe0) {
		*at += 2;
		return (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3f);
	}
	if (s[0] < 0xf0) {
		*at += 3;
		return (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
	}
	*at += 4;
	return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 | (uint32_t)(s[2] & 0x3f) << 6 |
	       (s[3] & 0x3f);
}

/* Whether the byte is not the first of its code point. */
static inline bool sl_utf8_continues(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Writes a code point; returns the number of bytes. */
int sl_utf8_put(uint32_t c, char out[SL_UTF8_MOST]);

/* What a text is to a reader's eye: composed with compatible characters (NFKC), in folded case, each run of blanks one
 * space, and none at its ends. The caller frees it. NULL: no memory, or no UTF-8. */
char *sl_utf8_plain(const char *text);

/* A copy of a text, composed (NFC); *len becomes its length. The caller frees it. NULL: no memory. */
char *sl_utf8_compose(const char *text, size_t *len);

bool sl_is_space(uint32_t c);  /* the property White_Space */
bool sl_is_other(uint32_t c);  /* categories Cc, Cf, Co */
bool sl_is_punct(uint32_t c);  /* categories P…, and all printable ASCII but letters, digits and space */
bool sl_is_accent(uint32_t c); /* category Mn: nonspacing marks */
bool sl_is_han(uint32_t c);    /* the blocks of Chinese characters that BERT's tokenizer sets apart */

#endif
