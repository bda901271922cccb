/* What the user may have meant by a key that does not exist. */
#include <string.h>

#include "common/conf/key.h"

enum { NAME_MAX_LEN = 48 };

static int min3(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits between two names: insert, delete, change, swap neighbours (optimal string alignment). */
static int distance(const char *a, const char *b)
{
	int row[3][NAME_MAX_LEN + 1], *before = row[0], *prev = row[1], *cur = row[2];
	int la = (int)strlen(a), lb = (int)strlen(b);

	if (la > NAME_MAX_LEN || lb > NAME_MAX_LEN)
		return NAME_MAX_LEN;
	for (int j = 0; j <= lb; j++)
		prev[j] = j;
	for (int i = 1; i <= la; i++) {
		int *spare = before;

		cur[0] = i;
		for (int j = 1; j <= lb; j++) {
			cur[j] = min3(prev[j] + 1, cur[j - 1] + 1, prev[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < cur[j])
				cur[j] = before[j - 2] + 1;
		}
		before = prev;
		prev = cur;
		cur = spare;
	}
	return prev[lb];
}

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

static const char *nearest(const struct sl_conf_schema *schema, const char *section, const char *name,
			   char best[NAME_MAX_LEN])
{
	int limit = (int)strlen(name) / 3 + 1, best_distance = limit < 3 ? limit + 1 : 4;
	const char *found = NULL;

	for (int i = 0; i < schema->n_key; i++) {
		char child[NAME_MAX_LEN];
		int d;

		if (!child_name(section, schema->key[i].path, child))
			continue;
		d = distance(name, child);
		if (d < best_distance) {
			best_distance = d;
			found = strcpy(best, child);
		}
	}
	return found;
}

/* The path whose last part is `name`: a key in the wrong section. */
static const char *elsewhere(const struct sl_conf_schema *schema, const char *name)
{
	for (int i = 0; i < schema->n_key; i++) {
		const char *dot = strrchr(schema->key[i].path, '.');

		if (strcmp(dot ? dot + 1 : schema->key[i].path, name) == 0)
			return schema->key[i].path;
	}
	return NULL;
}

static void list_children(const struct sl_conf_schema *schema, const char *section, char out[SL_CONF_WHY])
{
	char last[NAME_MAX_LEN] = "", child[NAME_MAX_LEN];
	int at = snprintf(out, SL_CONF_WHY, "valid here:");

	for (int i = 0; i < schema->n_key && at < SL_CONF_WHY; i++) {
		if (!child_name(section, schema->key[i].path, child) || strcmp(child, last) == 0)
			continue;
		at += snprintf(out + at, (size_t)(SL_CONF_WHY - at), "%s %s", *last ? "," : "", child);
		strcpy(last, child);
	}
}

const char *sl_conf_suggest(const struct sl_conf_schema *schema, const char *section, const char *name,
			    char out[SL_CONF_WHY])
{
	char best[NAME_MAX_LEN];
	const char *path;

	if (nearest(schema, section, name, best))
		snprintf(out, SL_CONF_WHY, "did you mean \"%s\"?", best);
	else if ((path = elsewhere(schema, name)))
		snprintf(out, SL_CONF_WHY, "did you mean %s?", path);
	else
		list_children(schema, section, out);
	return out;
}
