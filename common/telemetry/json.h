/* JSON values. JSON has neither NaN nor Inf, and its texts are UTF-8. A number has the fewest digits that read back as
 * the same double. */
#ifndef SL_TELEMETRY_JSON_H
#define SL_TELEMETRY_JSON_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

/* The document, malloc'ed. NULL: no memory, or `root` is NULL. `flags`: jansson's. */
char *sl_json_dump(const json_t *root, size_t flags);
/* Writes it with a line break, and drops `root`. */
void sl_json_print(json_t *root, size_t flags, FILE *to);

/* A new reference to x, or to null if x is not finite. NULL: no memory. */
static inline json_t *sl_json_real(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

/* A member's number; NaN: it is null, or not there. */
static inline double sl_json_number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* A member's text; NULL: it is none, or not there. */
static inline const char *sl_json_string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* A new reference to the text; if it is not UTF-8, '?' replaces what is not. NULL: no memory. */
static inline json_t *sl_json_text(const char *text)
{
	json_t *name = json_string(text);
	char *safe = name ? NULL : strdup(text);

	if (!safe)
		return name;
	sl_text_make_safe(safe, '?');
	name = json_string(safe);
	free(safe);
	return name;
}

#endif
