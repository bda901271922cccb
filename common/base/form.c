#include "common/base/form.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/text.h"

static bool ends_cell(uint8_t c)
{
	return c == ',' || c == ';' || c == '\t';
}

/* No blanks: behind a comma of a sentence they keep a word from being taken for a name. */
static bool is_around(uint8_t c)
{
	return c == '"' || c == '\r' || c == '\n';
}

static bool is_cell(const uint8_t *cell, size_t len, const char *name)
{
	while (len && is_around(cell[0])) {
		cell++;
		len--;
	}
	while (len && is_around(cell[len - 1]))
		len--;
	return len == strlen(name) && memcmp(cell, name, len) == 0;
}

static bool has_cell(const uint8_t *text, size_t len, const char *name)
{
	size_t begin = 0;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && !ends_cell(text[i]))
			continue;
		if (is_cell(text + begin, i - begin, name))
			return true;
		begin = i + 1;
	}
	return false;
}

enum sl_form sl_form_of(struct sl_bytes line, const char *const *names, int n, int *named)
{
	const size_t begin = line.data ? sl_text_begin(line.data, line.len) : line.len;
	const uint8_t *text = line.data + begin;
	const size_t len = line.len - begin;
	size_t inner;

	*named = 0;
	if (!len)
		return SL_FORM_EMPTY;
	inner = text[0] == '[' ? 1 + sl_text_begin(text + 1, len - 1) : 0;
	if (inner < len && text[inner] == '{')
		return SL_FORM_JSON;
	for (int i = 0; i < n; i++)
		*named += has_cell(text, len, names[i]);
	return n && *named == n ? SL_FORM_HEADER : SL_FORM_OTHER;
}
