/* The effective config as YAML. */
#include <string.h>

#include "common/base/wrap.h"
#include "common/conf/key.h"

enum { MOST_REMARK = 90 }; /* characters behind a value */

/* Writes the section headers on the way to `path` that `last` was not already in; returns the depth of the key. */
static int open_sections(const char *path, const char *last, FILE *file)
{
	int depth = 0;
	size_t at = 0;

	for (const char *dot; (dot = strchr(path + at, '.')); at = (size_t)(dot - path) + 1, depth++) {
		size_t len = (size_t)(dot - path) + 1;

		if (strncmp(path, last, len) != 0)
			fprintf(file, "%*s%.*s:\n", depth * 2, "", (int)(len - 1 - at), path + at);
	}
	return depth;
}

/* Prints "# help; bounds", in as many lines as that takes. */
static void print_help(const struct sl_conf_key *key, int column, FILE *file)
{
	const bool bounded = key->type != SL_CONF_STRING && key->type != SL_CONF_NAMES && key->type != SL_CONF_BOOL;
	char wanted[SL_CONF_WHY], text[2 * SL_CONF_WHY];

	snprintf(text, sizeof text, "%s%s%s", key->help, bounded ? "; " : "",
		 bounded ? sl_conf_value_wanted(key, wanted) : "");
	fprintf(file, "%*s# ", column, "");
	sl_print_remark(file, "# ", text, column + 2, SL_WRAP_WIDTH);
}

enum sl_err sl_conf_print(const struct sl_conf_schema *schema, const void *conf, FILE *file)
{
	const char *last = "";

	for (int i = 0; i < schema->n_key; i++) {
		const struct sl_conf_key *key = &schema->key[i];
		int depth = open_sections(key->path, last, file);
		const char *dot = strrchr(key->path, '.');

		print_help(key, depth * 2, file);
		fprintf(file, "%*s%s%s: ", depth * 2, "", schema->idle && schema->idle(conf, key->path) ? "#" : "",
			dot ? dot + 1 : key->path);
		sl_conf_value_print(key, conf, file);
		fputc('\n', file);
		last = key->path;
	}
	return fflush(file) == 0 && !ferror(file) ? SL_OK : SL_ERR_IO;
}

/* How many keys from `i` on are a section that one value may stand for, as in `codec: small`, and have that value; 0:
 * it takes several. */
static int one_value(const struct sl_conf_schema *schema, const void *conf, int i)
{
	char section[SL_CONF_CODEC_TEXT], first[SL_CONF_CODEC_TEXT], text[SL_CONF_CODEC_TEXT];
	const char *path = schema->key[i].path;
	int n = 0;

	snprintf(section, sizeof section, "%.*s", (int)strcspn(path, "."), path);
	if (!sl_conf_is_spread(schema, section) || !sl_conf_is_within(schema, i, section) ||
	    (i && sl_conf_is_within(schema, i - 1, section)))
		return 0;
	for (int k = 0; k < schema->n_key; k++) {
		const char *of = schema->key[k].path;
		const bool set = sl_conf_origin(schema, conf)->mark[k].line;

		if (!sl_conf_is_within(schema, k, section)) {
			if (set && strncmp(of, section, strlen(section)) == 0 && of[strlen(section)] == '.')
				return 0; /* codec.end_grad stands beside it */
			continue;
		}
		if (!set || sl_conf_value_text(schema, conf, of, n ? text : first, sizeof text) ||
		    (n && strcmp(text, first) != 0))
			return 0;
		n++;
	}
	return n;
}

enum sl_err sl_conf_print_set(const struct sl_conf_schema *schema, const void *conf, FILE *file)
{
	const char *last = "";

	for (int i = 0; i < schema->n_key; i++) {
		const struct sl_conf_key *key = &schema->key[i];
		const char *dot = strrchr(key->path, '.');
		/* the first part alone, unless others say what it is elsewhere, such as "; of mlp: …" */
		const size_t begin = strcspn(key->help, strstr(key->help, "; of ") ? "" : ";");

		const int n = one_value(schema, conf, i);

		if (n) {
			fprintf(file, "%.*s: ", (int)strcspn(key->path, "."), key->path);
			sl_conf_value_print(key, conf, file);
			fputc('\n', file);
			last = key->path;
			i += n - 1;
			continue;
		}
		if (!sl_conf_origin(schema, conf)->mark[i].line)
			continue;
		fprintf(file, "%*s%s: ", open_sections(key->path, last, file) * 2, "", dot ? dot + 1 : key->path);
		sl_conf_value_print(key, conf, file);
		if (begin <= MOST_REMARK)
			fprintf(file, "   # %.*s", (int)begin, key->help);
		fputc('\n', file);
		last = key->path;
	}
	return ferror(file) ? SL_ERR_IO : SL_OK;
}

enum sl_err sl_conf_value_text(const struct sl_conf_schema *schema, const void *conf, const char *path, char *out,
			       size_t size)
{
	FILE *file;

	out[0] = 0;
	for (int i = 0; i < schema->n_key; i++) {
		if (strcmp(schema->key[i].path, path) != 0)
			continue;
		file = fmemopen(out, size, "w");
		if (!file)
			return SL_ERR_NOMEM;
		sl_conf_value_print(&schema->key[i], conf, file);
		fclose(file); /* fails if the value is too long: `out` has what fits */
		out[size - 1] = 0;
		return SL_OK;
	}
	return SL_ERR_BUG;
}
