#include "client/cmd/data_name.h"

#include <jansson.h>
#include <stdio.h>

#include "common/base/err.h"

const char *sl_data_class_name(const struct sl_set *set, int label, char out[SL_DATA_NAME_BYTES])
{
	json_t *text;

	snprintf(out, SL_DATA_NAME_BYTES, "%d", label);
	if (!set->source->class_name)
		return out;
	snprintf(out, SL_DATA_NAME_BYTES, "%s", set->source->class_name(set, label));
	for (size_t i = 0; out[i]; i++)
		if (sl_text_controls(out, i))
			out[i] = '?';
	text = json_string(out);
	for (char *c = out; !text && *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	json_decref(text);
	return out;
}
