/* What the members of a group must have in common of their data (about.h). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/setup/about.h"
#include "client/setup/setup_pictures.h"
#include "common/telemetry/json.h"

/* What the members of a group must have in common of one source of data. */
static json_t *agreed_of(const struct sl_setup *s)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	json_t *about = json_object(), *column;
	char text[SL_CONF_TEXT];
	float mean[3], std[3];
	struct sl_fail fail;
	size_t i;

	sl_about_classes(about, set);
	if (set->source->describe)
		set->source->describe(set, about);
	json_object_del(about, "missing");
	json_array_foreach(json_object_get(about, "columns"), i, column)
	{
		const char *ids = json_string_value(json_object_get(column, "ids"));

		if (ids && strcmp(ids, "numbers") == 0) /* they are the same in all members, whoever has the largest */
			json_object_del(column, "rows");
	}
	if (set->tokenizer)
		json_object_set_new(about, "tokenizer", json_integer((json_int_t)set->tokenizer));
	if (strcmp(set->field[SL_FIELD_INPUT].name, "image") == 0 && sl_setup_norm(s, mean, std, &fail) == SL_OK) {
		sl_about_norm(text, mean, std, set->field[SL_FIELD_INPUT].dim[2] == 1);
		json_object_set_new(about, "normalize", json_string(text));
	}
	return about;
}

int64_t sl_about_agreed(const struct sl_setup *s)
{
	json_t *all = json_pack("[o]", agreed_of(s));
	uint64_t hash = 0;
	char *text;

	for (int k = 0; k < s->n_features && s->further; k++)
		json_array_append_new(all, agreed_of(&s->further[k]));
	text = sl_json_dump(all, JSON_COMPACT);
	json_decref(all);
	if (text)
		hash = XXH3_64bits(text, strlen(text));
	free(text);
	return (int64_t)(hash % 0xffff) + 1;
}
