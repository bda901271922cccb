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

enum sl_err sl_fail_set(struct sl_fail *fail, enum sl_err code, const char *fmt, ...)
{
	char text[SL_FAIL_TEXT]; /* the arguments may point into fail->text: a caller that adds where it happened */
	va_list args;

	if (!fail)
		return code;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	for (size_t i = 0; text[i]; i++)
		if (sl_text_controls(text, i))
			text[i] = ' ';
	fail->code = code;
	memcpy(fail->text, text, sizeof text);
	return code;
}
