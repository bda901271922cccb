#include "client/setup/setup_numbers.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The number that config.json gives a class; -1: none. */
static json_int_t number_of(const json_t *config, const char *class)
{
	json_t *value;
	const char *key;

	json_object_foreach(json_object_get(config, "label2id"), key, value)
	{
		if (strcasecmp(key, class) == 0)
			return json_integer_value(value);
	}
	json_object_foreach(json_object_get(config, "id2label"), key, value)
	{
		if (json_is_string(value) && strcasecmp(json_string_value(value), class) == 0)
			return atoll(key);
	}
	return -1;
}

enum sl_err sl_setup_check_numbers(const struct sl_conf_client *c, const struct sl_set *set, struct sl_fail *fail)
{
	const int classes = set->source->class_name && sl_set_has_classes(set) ? set->classes : 0;
	char path[PATH_MAX];
	json_t *root = NULL;
	int known = 0, odd = -1;

	if (c->model.huggingface[0] && snprintf(path, sizeof path, "%s/config.json", c->model.huggingface) < PATH_MAX)
		root = json_load_file(path, 0, NULL);
	for (int i = 0; i < classes; i++) {
		const json_int_t number = number_of(root, set->source->class_name(set, i));

		known += number >= 0;
		odd = odd >= 0 || number < 0 || number == i ? odd : i;
	}
	json_decref(root);
	if (odd < 0 || known < classes)
		return SL_OK;
	return sl_conf_client_fail(
		c, "model.huggingface", fail,
		"id2label or label2id of its config.json does not give \"%.60s\" the number %d, as these data do: "
		"name the classes by the numbers of that map, or take both maps and the classifier out",
		set->source->class_name(set, odd), odd);
}
