/* Helpers for strings. */
#ifndef SL_BASE_TEXT_H
#define SL_BASE_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool sl_ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* The bytes of a byte order mark of UTF-8 at the begin of a text; 0: there is none. */
static inline size_t sl_text_mark(const void *text, size_t len)
{
	return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Where the first data of a text are: behind a byte order mark, blanks and empty lines. `len`: there are none. What
 * decides the form of a text by its first character asks this. */
static inline size_t sl_text_begin(const void *text, size_t len)
{
	size_t at = sl_text_mark(text, len);

	while (at < len && strchr(" \t\r\n", ((const char *)text)[at]) && ((const char *)text)[at])
		at++;
	return at;
}

#endif
