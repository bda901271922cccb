#include "client/data/class_name.h"

#include <stdio.h>

#include "common/base/err.h"

const char *sl_class_name(const struct sl_set *set, int label, char out[SL_CLASS_NAME_BYTES])
{
	snprintf(out, SL_CLASS_NAME_BYTES, "%d", label);
	if (!set->source || !set->source->class_name || label >= (set->classes ? set->classes : sl_set_targets(set)))
		return out; /* the network may have more classes than the data */
	snprintf(out, SL_CLASS_NAME_BYTES, "%s", set->source->class_name(set, label));
	sl_text_make_safe(out, '?');
	return out;
}
