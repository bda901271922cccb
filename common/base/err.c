#include "common/base/err.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int exit_status;
	const char *text;
} map[SL_ERR_COUNT] = {
#define X(name, exit_status, text) [SL_ERR_##name] = {#name, exit_status, text},
	SL_ERR_MAP(X)
#undef X
};

const char *sl_err_name(enum sl_err err)
{
	return (unsigned)err < SL_ERR_COUNT ? map[err].name : "?";
}

const char *sl_err_text(enum sl_err err)
{
	return (unsigned)err < SL_ERR_COUNT ? map[err].text : "unknown error";
}

int sl_err_exit_status(enum sl_err err)
{
	return (unsigned)err < SL_ERR_COUNT ? map[err].exit_status : map[SL_ERR_BUG].exit_status;
}

/* UTF-8 (https://www.rfc-editor.org/rfc/rfc3629): the shortest form, no surrogates, nothing above U+10FFFF. */
size_t sl_text_character(const char *text, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char first = len ? (unsigned char)text[0] : 0;
	const size_t n = first < 0x80                    ? 1
			 : first >= 0xc2 && first < 0xe0 ? 2
			 : first >= 0xe0 && first < 0xf0 ? 3
			 : first >= 0xf0 && first < 0xf5 ? 4
							 : 0;
	uint32_t code = n > 1 ? first & (0x7fu >> n) : first;

	if (!n || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	}
	if (code < least[n] || code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000) ||
	    code > 0x10ffff)
		return 0;
	return n;
}

bool sl_text_is_safe(const char *text, size_t len)
{
	while (len) {
		const size_t n = sl_text_character(text, len);

		if (!n)
			return false;
		text += n;
		len -= n;
	}
	return true;
}

void sl_text_make_safe(char *text, char instead)
{
	size_t len = strlen(text);

	while (len) {
		const size_t n = sl_text_character(text, len);

		if (!n)
			*text = instead;
		text += n ? n : 1;
		len -= n ? n : 1;
	}
}

/* Writes to buffers of its own first: the arguments may point into *fail, if a caller adds where it happened. */
static enum sl_err fill(struct sl_fail *fail, const char *key, enum sl_err code, const char *fmt, va_list args)
{
	char text[SL_FAIL_TEXT], kept[SL_FAIL_KEY];
	size_t at;

	if (!fail)
		return code;
	snprintf(kept, sizeof kept, "%s", key);
	at = kept[0] ? (size_t)snprintf(text, sizeof text, "%s: ", kept) : 0;
	vsnprintf(text + at, sizeof text - at, fmt, args);
	sl_text_make_safe(text, ' ');
	fail->code = code;
	memcpy(fail->key, kept, sizeof kept);
	memcpy(fail->text, text, sizeof text);
	return code;
}

enum sl_err sl_fail_set(struct sl_fail *fail, enum sl_err code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fill(fail, "", code, fmt, args);
	va_end(args);
	return code;
}

enum sl_err sl_fail_at(struct sl_fail *fail, const char *key, enum sl_err code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fill(fail, key, code, fmt, args);
	va_end(args);
	return code;
}

const char *sl_fail_sentence(const struct sl_fail *fail)
{
	return fail->key[0] ? fail->text + strlen(fail->key) + 2 : fail->text;
}
