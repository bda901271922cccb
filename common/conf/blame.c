/* Where a key's value came from, and errors that say so: a line of the file, --set, or the default. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/conf/key.h"

int sl_conf_find(const struct sl_conf_schema *schema, const char *path)
{
	for (int i = 0; i < schema->n_key; i++)
		if (strcmp(schema->key[i].path, path) == 0)
			return i;
	return -1;
}

const char *sl_conf_say(char why[SL_CONF_WHY], const char *key, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, SL_CONF_WHY, fmt, args);
	va_end(args);
	return key;
}

bool sl_conf_is_default(const struct sl_conf_schema *schema, const void *conf, const char *key)
{
	int index = sl_conf_find(schema, key);

	return index >= 0 && sl_conf_origin(schema, conf)->mark[index].line == 0;
}

enum sl_err sl_conf_fail(const struct sl_conf_schema *schema, const void *conf, const char *key, struct sl_fail *fail,
			 const char *fmt, ...)
{
	const struct sl_conf_origin *origin = sl_conf_origin(schema, conf);
	int index = sl_conf_find(schema, key);
	struct sl_conf_mark mark = index >= 0 ? origin->mark[index] : (struct sl_conf_mark){0, 0};
	char text[SL_FAIL_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (mark.line > 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s:%d:%d: %s%s: %s", origin->path, mark.line, mark.column,
				   origin->part, key, text);
	if (mark.line < 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "--set %s%s: %s", origin->part, key, text);
	return sl_fail_set(fail, SL_ERR_CONFIG, "%s: %s%s (default): %s", origin->path, origin->part, key, text);
}

enum sl_err sl_conf_blame(const struct sl_conf_schema *schema, const void *conf, const char *key, enum sl_err err,
			  struct sl_fail *fail)
{
	if (err && sl_conf_find(schema, key) >= 0) {
		sl_conf_fail(schema, conf, key, fail, "%s",
			     strcmp(key, fail->key) == 0 ? sl_fail_sentence(fail) : fail->text);
		fail->code = err;
	}
	return err;
}
