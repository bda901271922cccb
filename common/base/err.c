#include "common/base/err.h"

#include <stdarg.h>
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

/* The arguments may point into fail: a caller that adds where it happened. */
static enum sl_err fill(struct sl_fail *fail, const char *key, enum sl_err code, const char *fmt, va_list args)
{
	char text[SL_FAIL_TEXT], kept[SL_FAIL_KEY];
	size_t at;

	if (!fail)
		return code;
	snprintf(kept, sizeof kept, "%s", key);
	at = kept[0] ? (size_t)snprintf(text, sizeof text, "%s: ", kept) : 0;
	vsnprintf(text + at, sizeof text - at, fmt, args);
	for (size_t i = 0; text[i]; i++)
		if (sl_text_controls(text, i))
			text[i] = ' ';
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
