#include "common/telemetry/json.h"

#include "common/base/real.h"

/* Copies a text from its quote on, which stands at `from`, to the closing one. Returns its bytes. */
static size_t copy_quoted(char *to, const char *from)
{
	size_t n = 1;

	while (from[n] && from[n] != '"')
		n += from[n] == '\\' ? 2 : 1;
	memmove(to, from, n + 1);
	return n + 1;
}

/* Copies a number of `n` bytes; a real one gets its fewest digits, and stays a real one. Returns the bytes written. */
static size_t copy_number(char *to, const char *from, size_t n)
{
	char text[SL_REAL_TEXT + 2];
	size_t len;

	if (strcspn(from, ".eE") < n) {
		(void)sl_double_text(strtod(from, NULL), text);
		if (!strpbrk(text, ".e"))
			strcat(text, ".0");
		len = strlen(text);
		if (len < n) {
			memcpy(to, text, len);
			return len;
		}
	}
	memmove(to, from, n);
	return n;
}

char *sl_json_dump(const json_t *root, size_t flags)
{
	char *text = root ? json_dumps(root, flags | JSON_REAL_PRECISION(17)) : NULL, *to = text;

	for (const char *from = text; from && *from;) {
		size_t n = *from == '"' ? 0 : strspn(from, "+-.0123456789eE"), put = 1;

		if (*from == '"')
			n = put = copy_quoted(to, from);
		else if (n && *from != 'e') /* that of true */
			put = copy_number(to, from, n);
		else
			memmove(to, from, n = 1);
		from += n;
		to += put;
	}
	if (to)
		*to = 0;
	return text;
}

void sl_json_print(json_t *root, size_t flags, FILE *to)
{
	char *text = sl_json_dump(root, flags);

	fprintf(to, "%s\n", text ? text : "");
	free(text);
	json_decref(root);
}
