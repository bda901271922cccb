/* A row of the list that `splitc sweep` takes. */
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/row.h"

typedef struct sl_conf_sweep_row T;

/* The name is written to a CSV and, in quotes, to a gnuplot script. */
static const char *check_name(const void *value, char why[SL_CONF_WHY])
{
	const char *name = value;

	if (*name && !strpbrk(name, "\"\\,`"))
		return NULL;
	return sl_conf_say(why, why,
			   "must be a name without quotes, commas and backslashes, such as quant 8, got \"%.60s\"",
			   name);
}

static const char *check_codec(const void *value, char why[SL_CONF_WHY])
{
	return *(const char *)value ? sl_conf_check_codec(value, why) : NULL;
}

/* Checks the form alone. Whether the config has this key and value is checked when both are read together. */
static const char *check_setting(const void *value, char why[SL_CONF_WHY])
{
	const char *text = value, *equals = strchr(text, '=');

	if (equals && equals > text)
		return NULL;
	return sl_conf_say(why, why, "must be KEY=VALUE, such as train.optimizer.lr=0.01, got \"%.60s\"", text);
}

/* clang-format off */
static const struct sl_conf_key keys[] = {
	SL_STRING(T, "name", name, check_name, NULL, "of the method, as pictures name it"),
	SL_STRING(T, "codec.head_act", codec[0], check_codec, "", "codec of the head's activations; empty: the config's"),
	SL_STRING(T, "codec.mid_act", codec[1], check_codec, "", "codec of the middle's activations; empty: the config's"),
	SL_STRING(T, "codec.mid_grad", codec[2], check_codec, "", "codec of their gradients; empty: the config's"),
	SL_STRING(T, "codec.head_grad", codec[3], check_codec, "", "codec of the head's gradients; empty: the config's"),
	SL_STRING(T, "insert.head", insert.head, sl_conf_check_insert, "", "learned layers at the head's end; empty: the config's; none: not even those"),
	SL_STRING(T, "insert.tail", insert.tail, sl_conf_check_insert, "", "learned layers where the tail begins, likewise"),
	SL_NAMES(T, "set", set, check_setting, "", "any other keys of the config, as --set takes them"),
	SL_INT(T, "chunks", chunks, 0, SL_CONF_MAX_CHUNKS, "0", "0: the config's", "parts of a batch in the pipeline"),
};
/* clang-format on */

static const char *finish(void *conf, char why[SL_CONF_WHY])
{
	return NULL;
}

const struct sl_conf_schema sl_conf_sweep_schema = {
	.key = keys,
	.n_key = sizeof keys / sizeof keys[0],
	.size = sizeof(T),
	.origin_offset = offsetof(T, origin),
	.spread = {"codec", "insert"},
	.finish = finish,
};
