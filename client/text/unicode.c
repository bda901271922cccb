#include "client/text/unicode.h"

#include <string.h>
#include <utf8proc.h>

/* The length of the valid sequence that begins at s; 0: there is none. */
static size_t sequence(const unsigned char *s, size_t left)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

	if (n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

size_t sl_utf8_valid(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t at = 0;

	while (at < len) {
		size_t n = s[at] < 0x80 ? 1 : sequence(s + at, len - at);

		if (!n)
			return at;
		at += n;
	}
	return len;
}

int sl_utf8_put(uint32_t c, char out[SL_UTF8_MOST])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	return (int)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

bool sl_is_space(uint32_t c)
{
	if (c < 0x80)
		return c == ' ' || (c >= 9 && c <= 13);
	return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

char *sl_utf8_plain(const char *text)
{
	utf8proc_uint8_t *out = NULL;
	size_t to = 0, at = 0;
	bool blank = false;

	if (utf8proc_map((const utf8proc_uint8_t *)text, 0, &out,
			 UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD) <
	    0)
		return NULL;
	while (out[at]) {
		const size_t from = at;
		const bool is = sl_is_space(sl_utf8_next((const char *)out, &at));

		if (is) {
			blank = to > 0;
			continue;
		}
		if (blank)
			out[to++] = ' ';
		blank = false;
		memmove(out + to, out + from, at - from);
		to += at - from;
	}
	out[to] = 0;
	return (char *)out;
}

char *sl_utf8_compose(const char *text, size_t *len)
{
	utf8proc_uint8_t *out = NULL;
	const utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)*len, &out,
						UTF8PROC_STABLE | UTF8PROC_COMPOSE);

	if (n < 0)
		return NULL;
	*len = (size_t)n;
	return (char *)out;
}

static utf8proc_category_t category(uint32_t c)
{
	return utf8proc_category((utf8proc_int32_t)c);
}

bool sl_is_other(uint32_t c)
{
	if (c < 0x80)
		return c < 0x20 || c == 0x7f;
	switch (category(c)) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CO:
		return true;
	default:
		return false;
	}
}

bool sl_is_punct(uint32_t c)
{
	if (c < 0x80)
		return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
		       (c >= '{' && c <= '~');
	utf8proc_category_t k = category(c);

	return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool sl_is_accent(uint32_t c)
{
	return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_MN;
}

bool sl_is_han(uint32_t c)
{
	return c >= 0x3400 &&
	       ((c >= 0x4e00 && c <= 0x9fff) || c <= 0x4dbf || (c >= 0x20000 && c <= 0x2a6df) ||
		(c >= 0x2a700 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f));
}
