#include "client/text/label.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64 };

static int shown(struct sl_bytes text)
{
	return text.len > NUMBER_BYTES ? NUMBER_BYTES : (int)text.len;
}

static enum sl_err by_name(const struct sl_labels *l, struct sl_bytes text, union sl_label *out, struct sl_fail *fail)
{
	char all[256] = "";
	size_t at = 0;

	for (int i = 0; l->name[i]; i++) {
		if (strlen(l->name[i]) == text.len && memcmp(l->name[i], text.data, text.len) == 0) {
			out->label = i;
			return SL_OK;
		}
		if (at < sizeof all)
			at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", l->name[i]);
	}
	return sl_fail_set(fail, SL_ERR_DATA, "label \"%.*s\": one of %s", shown(text), (const char *)text.data, all);
}

bool sl_label_number(struct sl_bytes text, double *out)
{
	char copy[NUMBER_BYTES], *end;

	if (text.len == 0 || text.len >= sizeof copy || memchr(text.data, '\0', text.len))
		return false;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	if (strpbrk(copy, "xX")) /* strtod would read 0x10 as 16 */
		return false;
	*out = strtod(copy, &end);
	return !*end && (copy[0] == '-' || copy[0] == '.' || (copy[0] >= '0' && copy[0] <= '9')) && isfinite(*out);
}

enum sl_err sl_label_read(const struct sl_labels *l, struct sl_bytes text, union sl_label *out, struct sl_fail *fail)
{
	double value;

	if (!l->regression && l->name)
		return by_name(l, text, out, fail);
	if (!sl_label_number(text, &value) ||
	    (l->regression && !(isfinite((float)value) && isfinite((float)(value - l->centre)))))
		return sl_fail_set(fail, SL_ERR_DATA, "label \"%.*s\" is not a number", shown(text),
				   (const char *)text.data);
	if (l->regression) {
		out->target = (float)(value - l->centre);
		return SL_OK;
	}
	if (value != floor(value) || value < 0 || value >= l->classes)
		return sl_fail_set(fail, SL_ERR_DATA, "label %.*s is not a whole number from 0 to %d", shown(text),
				   (const char *)text.data, l->classes - 1);
	out->label = (int32_t)value;
	return SL_OK;
}
