/* What the user may have meant by a key that does not exist. */
#include <string.h>

#include "common/base/nearest.h"
#include "common/conf/key.h"

enum { NAME_MAX_LEN = 48 };

/* The name right below `section` on the way to `path`; false where `path` does not lie in it. */
static bool child_name(const char *section, const char *path, char out[NAME_MAX_LEN])
{
	size_t skip = strlen(section), len;

	if (skip > 0) {
		if (strncmp(path, section, skip) != 0 || path[skip] != '.')
			return false;
		path += skip + 1;
	}
	len = strcspn(path, ".");
	if (len >= NAME_MAX_LEN)
		return false;
	memcpy(out, path, len);
	out[len] = 0;
	return true;
}

static bool nearest(const struct sl_conf_schema *schema, const char *section, const char *name, char out[NAME_MAX_LEN])
{
	struct sl_nearest best = {NULL, 0};

	for (int i = 0; i < schema->n_key; i++) {
		char child[NAME_MAX_LEN];
		const char *before = best.name;

		if (child_name(section, schema->key[i].path, child))
			sl_nearest_offer(&best, name, strlen(name), child);
		if (best.name != before)
			best.name = strcpy(out, child);
	}
	return best.name != NULL;
}

/* The key of any section whose last word is nearest; NULL: none is near. */
static const char *nearest_anywhere(const struct sl_conf_schema *schema, const char *name)
{
	struct sl_nearest best = {NULL, 0};
	const char *path = NULL;

	for (int i = 0; i < schema->n_key; i++) {
		const char *dot = strrchr(schema->key[i].path, '.'), *before = best.name;

		sl_nearest_offer(&best, name, strlen(name), dot ? dot + 1 : schema->key[i].path);
		path = best.name != before ? schema->key[i].path : path;
	}
	return path;
}

/* Whether `name` is a top-level key of the other program's config. */
static bool of_other(const struct sl_conf_schema *schema, const char *name)
{
	for (const char *const *word = schema->of_other; word && *word; word++)
		if (strcmp(*word, name) == 0)
			return true;
	return false;
}

const char *sl_conf_elsewhere(const struct sl_conf_schema *schema, const char *name)
{
	for (int i = 0; i < schema->n_key; i++) {
		const char *dot = strrchr(schema->key[i].path, '.');

		if (strcmp(dot ? dot + 1 : schema->key[i].path, name) == 0)
			return schema->key[i].path;
	}
	return NULL;
}

/* Appends the names in `section` to the first `at` characters of out. */
static void list_children(const struct sl_conf_schema *schema, const char *section, char out[SL_CONF_WHY], int at)
{
	static const char more[] = " and others, which --print-config lists";
	char last[NAME_MAX_LEN] = "", child[NAME_MAX_LEN];

	at += snprintf(out + at, (size_t)(SL_CONF_WHY - at), "valid here:");
	for (int i = 0; i < schema->n_key; i++) {
		if (!child_name(section, schema->key[i].path, child) || strcmp(child, last) == 0)
			continue;
		if (at + 2 + strlen(child) + sizeof more > SL_CONF_WHY) {
			strcpy(out + at, more);
			return;
		}
		at += snprintf(out + at, (size_t)(SL_CONF_WHY - at), "%s %s", *last ? "," : "", child);
		strcpy(last, child);
	}
}

/* Keys of earlier versions, and what is right now. */
static const struct {
	const char *path, *now;
} retired[] = {
	{"share.straggler_s",
	 "share.patience_s says how long a step waits for a member; share.straggler_s: 0 is share.least: 1 now"}};

static const char *find_retired(const char *section, const char *name)
{
	char path[2 * NAME_MAX_LEN];

	snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", name);
	for (size_t i = 0; i < sizeof retired / sizeof retired[0]; i++)
		if (strcmp(path, retired[i].path) == 0)
			return retired[i].now;
	return NULL;
}

const char *sl_conf_suggest(const struct sl_conf_schema *schema, const char *section, const char *name,
			    char out[SL_CONF_WHY])
{
	char best[NAME_MAX_LEN];
	const char *path;

	if (find_retired(section, name))
		snprintf(out, SL_CONF_WHY, "%s", find_retired(section, name));
	else if (!*section && of_other(schema, name))
		snprintf(out, SL_CONF_WHY, "it is of %s's config", schema->other);
	else if ((path = sl_conf_elsewhere(schema, name)) && !*section)
		snprintf(out, SL_CONF_WHY, "did you mean %s?", path);
	else if (path)
		list_children(schema, section, out, snprintf(out, SL_CONF_WHY, "did you mean %s? ", path));
	else if (nearest(schema, section, name, best))
		snprintf(out, SL_CONF_WHY, "did you mean \"%s\"?", best);
	else if ((path = nearest_anywhere(schema, name)) != NULL)
		list_children(schema, section, out, snprintf(out, SL_CONF_WHY, "did you mean %s? ", path));
	else
		list_children(schema, section, out, 0);
	return out;
}
