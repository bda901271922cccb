#include "client/predict/doubt.h"

#include <string.h>

#include "common/base/log.h"
#include "common/telemetry/json.h"

/* The ids of warnings, each once. */
static json_t *warned(void)
{
	json_t *all = json_array();
	struct sl_log_warning w;

	for (int i = 0; sl_log_warning(i, &w); i++) {
		const json_t *last = json_array_get(all, json_array_size(all) - 1);

		if (!json_is_string(last) || strcmp(json_string_value(last), w.id) != 0)
			json_array_append_new(all, json_string(w.id));
	}
	return all;
}

json_t *sl_doubt(bool local)
{
	json_t *said = json_object(), *warnings = warned();

	if (!local) {
		sl_log(SL_LOG_INFO, "servers-word",
		       "the server computes the middle of these predictions, and nothing checks it: --local does "
		       "without its word");
		json_object_set_new(said, "servers_word", json_pack("[s]", "middle"));
	}
	if (json_array_size(warnings))
		json_object_set(said, "warnings", warnings);
	json_decref(warnings);
	return said;
}

char *sl_doubt_text(json_t *doubt)
{
	char *text = sl_json_dump(doubt, JSON_COMPACT); /* "{}" or "{members}" */
	const size_t len = text ? strlen(text) : 0;

	json_decref(doubt);
	if (len) {
		text[0] = ',';
		text[len > 2 ? len - 1 : 0] = '\0';
	}
	return text;
}
