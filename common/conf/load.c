/* Reads YAML events into values. Events, not documents: a hostile file cannot make anything large be built, aliases
 * never expand, and every event has its place. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/text.h"
#include "common/conf/load_impl.h"

enum { PATH_TEXT = 160 };

enum sl_err sl_load_fail(struct loader *l, yaml_mark_t mark, const char *fmt, ...)
{
	char text[SL_FAIL_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	return sl_fail_set(l->fail, SL_ERR_CONFIG, "%s:%zu:%zu: %s", l->name, mark.line + 1, mark.column + 1, text);
}

static const struct {
	yaml_event_type_t type;
	const char *what;
} kinds[] = {{YAML_SCALAR_EVENT, "a single value"},
	     {YAML_SEQUENCE_START_EVENT, "a list"},
	     {YAML_MAPPING_START_EVENT, "a section of keys"}};

const char *sl_load_kind(const yaml_event_t *event)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (kinds[i].type == event->type)
			return kinds[i].what;
	return "nothing";
}

/* Anchors would be harmless alone, but they are of no use without the aliases that are refused. */
static enum sl_err refuse_extras(struct loader *l)
{
	const yaml_event_t *e = &l->event;
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (e->type == YAML_SCALAR_EVENT) {
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
	} else if (e->type == YAML_ALIAS_EVENT) {
		anchor = e->data.alias.anchor;
	}
	if (anchor)
		return sl_load_fail(l, e->start_mark,
				    "YAML anchors and aliases are not supported: write the value out");
	if (tag)
		return sl_load_fail(l, e->start_mark, "YAML tags are not supported: write the plain value");
	return SL_OK;
}

/* Adds the usual cause to libyaml's words. */
static void explain(const struct loader *l, char out[SL_CONF_WHY])
{
	static const struct {
		const char *problem, *why;
	} usual[] = {
		{"mapping values are not allowed",
		 "keys of one section stand in one column, and text with \": \" in quotes"},
		{"did not find expected key", "keys of one section stand in one column"},
		{"could not find expected ':'", "a key ends with a colon and a space"},
	};
	const yaml_parser_t *p = &l->parser;
	const char *problem = p->problem;
	int at;

	if (strncmp(problem, "found character that cannot start", 33) == 0) {
		at = p->buffer.pointer < p->buffer.last ? *p->buffer.pointer : 0;
		if (at == '\t')
			snprintf(out, SL_CONF_WHY, "a tab; YAML is indented with spaces");
		else if (at > ' ' && at < 0x7f)
			snprintf(out, SL_CONF_WHY, "%c cannot begin a value: put it in quotes", at);
		else
			snprintf(out, SL_CONF_WHY, "%s", problem);
		return;
	}
	snprintf(out, SL_CONF_WHY, "%s", problem);
	for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
		if (strncmp(problem, usual[i].problem, strlen(usual[i].problem)) == 0)
			snprintf(out, SL_CONF_WHY, "%s: %s", problem, usual[i].why);
}

enum sl_err sl_load_next(struct loader *l)
{
	char why[SL_CONF_WHY] = "no memory";

	if (l->have_event)
		yaml_event_delete(&l->event);
	l->have_event = false;
	if (!yaml_parser_parse(&l->parser, &l->event)) {
		const char *problem = l->parser.problem;

		if (problem)
			explain(l, why);
		if (l->parser.error == YAML_READER_ERROR)
			return sl_fail_set(l->fail, SL_ERR_CONFIG, "%s: byte %zu: %s: the file must be UTF-8 text",
					   l->name, l->parser.problem_offset + 1, why);
		return sl_load_fail(l, l->parser.problem_mark, "not YAML: %s", why);
	}
	l->have_event = true;
	return refuse_extras(l);
}

enum sl_err sl_load_text(struct loader *l, const char **out, bool *plain)
{
	const char *text = (const char *)l->event.data.scalar.value;

	if (strlen(text) != l->event.data.scalar.length) {
		(void)sl_load_fail(l, l->event.start_mark, "must not contain a NUL character");
		return SL_ERR_CONFIG; /* a constant, for the compiler's analysis */
	}
	*out = text;
	if (plain)
		*plain = l->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	return SL_OK;
}

static bool is_none(const char *text, bool plain)
{
	return plain && (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static void remember(struct loader *l, int key, yaml_mark_t mark)
{
	l->seen[key] = true;
	sl_conf_origin(l->schema, l->conf)->mark[key] = (struct sl_conf_mark){(int)mark.line + 1, (int)mark.column + 1};
}

/* The current event is the value of `key`. */
static enum sl_err load_value(struct loader *l, int index)
{
	const struct sl_conf_key *key = &l->schema->key[index];
	char why[SL_CONF_WHY];
	const char *text;
	enum sl_err err;
	bool plain;

	remember(l, index, l->event.start_mark);
	if ((key->type == SL_CONF_NAMES && l->event.type == YAML_SEQUENCE_START_EVENT) ||
	    (key->sections && l->event.type == YAML_MAPPING_START_EVENT))
		return sl_load_list(l, key);
	if (l->event.type != YAML_SCALAR_EVENT)
		return sl_load_fail(l, l->event.start_mark, "%s must be %s, got %s", key->path,
				    sl_conf_value_wanted(key, why), sl_load_kind(&l->event));
	err = sl_load_text(l, &text, &plain);
	if (err)
		return err;
	if (key->or_one && !is_none(text, plain)) { /* a comma in it separates nothing */
		if (sl_conf_value_set(key, l->conf, "", true, why) || sl_conf_value_append(key, l->conf, text, why))
			return sl_load_fail(l, l->event.start_mark, "%s %s", key->path, why);
		return SL_OK;
	}
	if (key->type == SL_CONF_NAMES && *text && !is_none(text, plain))
		return sl_load_fail(l, l->event.start_mark, "%s must be %s, such as [%s]", key->path,
				    sl_conf_value_wanted(key, why), text);
	if (sl_conf_value_set(key, l->conf, text, plain, why))
		return sl_load_fail(l, l->event.start_mark, "%s %s", key->path, why);
	return SL_OK;
}

/* Sets every key of the section to one scalar. */
static enum sl_err load_spread(struct loader *l, const char *section)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < l->schema->n_key && !err; i++)
		if (sl_conf_is_within(l->schema, i, section))
			err = load_value(l, i);
	return err;
}

static enum sl_err load_section(struct loader *l, const char *section);

/* The current event follows the key `path`. */
static enum sl_err load_entry(struct loader *l, const char *path)
{
	int index = sl_conf_find(l->schema, path);
	const char *text;
	enum sl_err err;
	bool plain;

	if (index >= 0)
		return load_value(l, index);
	if (l->event.type == YAML_MAPPING_START_EVENT)
		return load_section(l, path);
	if (l->event.type == YAML_SCALAR_EVENT) {
		err = sl_load_text(l, &text, &plain);
		if (err)
			return err;
		if (is_none(text, plain))
			return SL_OK; /* all its keys are commented out */
		if (sl_conf_is_spread(l->schema, path))
			return load_spread(l, path);
		if (plain && strchr(text, ':'))
			return sl_load_fail(l, l->event.start_mark,
					    "%s must be a section of keys, each with a colon and a space", path);
	}
	return sl_load_fail(l, l->event.start_mark, "%s must be a section of keys, got %s", path,
			    sl_load_kind(&l->event));
}

/* The current event starts the mapping of `section` ("": the whole file). Sections nest no deeper than the keys of
 * the schema: any other name is refused before what follows it is read. */
static enum sl_err load_section(struct loader *l, const char *section)
{
	char names[64][48], path[PATH_TEXT], hint[SL_CONF_WHY];
	enum sl_err err;
	int n_name = 0;

	while ((err = sl_load_next(l)) == SL_OK && l->event.type != YAML_MAPPING_END_EVENT) {
		yaml_mark_t mark = l->event.start_mark;
		const char *name;

		if (l->event.type != YAML_SCALAR_EVENT)
			return sl_load_fail(l, mark, "a key must be a word, got %s", sl_load_kind(&l->event));
		err = sl_load_text(l, &name, NULL);
		if (err)
			return err;
		snprintf(path, sizeof path, "%s%s%.60s", section, *section ? "." : "", name);
		/* a dot in a key would reach another section, past the check for duplicates */
		if (strlen(name) >= sizeof names[0] || strchr(name, '.') ||
		    (sl_conf_find(l->schema, path) < 0 && !sl_conf_is_section(l->schema, path)))
			return sl_load_fail(l, mark, "unknown key \"%.60s\"%s%s: %s", name, *section ? " in " : "",
					    section, sl_conf_suggest(l->schema, section, name, hint));
		for (int i = 0; i < n_name; i++)
			if (strcmp(names[i], name) == 0)
				return sl_load_fail(l, mark, "key %s is given twice: remove one", path);
		if (n_name == (int)(sizeof names / sizeof names[0]))
			return sl_load_fail(l, mark, "too many keys");
		strcpy(names[n_name++], name);
		err = sl_load_next(l);
		if (!err)
			err = load_entry(l, path);
		if (err)
			return err;
	}
	return err;
}

/* After the only document. */
static enum sl_err load_end(struct loader *l)
{
	enum sl_err err = sl_load_next(l); /* document end */

	if (!err)
		err = sl_load_next(l);
	if (!err && l->event.type != YAML_STREAM_END_EVENT)
		err = sl_load_fail(l, l->event.start_mark, "one document per file: remove what follows \"---\"");
	return err;
}

static enum sl_err load_stream(struct loader *l)
{
	enum sl_err err = sl_load_next(l); /* stream start */

	if (!err)
		err = sl_load_next(l);
	if (err || l->event.type == YAML_STREAM_END_EVENT)
		return err; /* an empty file: all defaults */
	err = sl_load_next(l);
	if (err)
		return err;
	if (l->event.type == YAML_MAPPING_START_EVENT)
		err = load_section(l, "");
	else if (l->event.type != YAML_SCALAR_EVENT || l->event.data.scalar.length > 0)
		err = sl_load_fail(l, l->event.start_mark, "the file must be a section of keys, got %s",
				   sl_load_kind(&l->event));
	return err ? err : load_end(l);
}

static enum sl_err load_yaml(struct loader *l, const char *text, size_t len, enum sl_err (*load)(struct loader *l))
{
	enum sl_err err;
	size_t mark;

	if (!yaml_parser_initialize(&l->parser))
		return sl_fail_set(l->fail, SL_ERR_NOMEM, "%s: no memory for the YAML parser", l->name);
	yaml_parser_set_encoding(&l->parser, YAML_UTF8_ENCODING);
	mark = sl_text_mark(text, len); /* libyaml counts it as indent */
	yaml_parser_set_input_string(&l->parser, (const unsigned char *)text + mark, len - mark);
	err = load(l);
	if (l->have_event)
		yaml_event_delete(&l->event);
	yaml_parser_delete(&l->parser);
	return err;
}

static enum sl_err apply_one(struct loader *l, int index, const char *value)
{
	const struct sl_conf_key *key = &l->schema->key[index];
	char why[SL_CONF_WHY];

	if (sl_conf_value_set(key, l->conf, value, true, why))
		return sl_fail_set(l->fail, SL_ERR_CONFIG, "--set %s: %s", key->path, why);
	l->seen[index] = true;
	sl_conf_origin(l->schema, l->conf)->mark[index] = (struct sl_conf_mark){-1, 0};
	return SL_OK;
}

static enum sl_err apply_set(struct loader *l, const char *set)
{
	const char *equals = strchr(set, '='), *dot, *name;
	char path[PATH_TEXT], section[PATH_TEXT] = "", word[PATH_TEXT], hint[SL_CONF_WHY];
	enum sl_err err = SL_OK;
	int index;

	if (!equals || equals == set || equals - set >= PATH_TEXT)
		return sl_fail_set(l->fail, SL_ERR_CONFIG, "--set %.60s: must be KEY=VALUE, such as threads=2", set);
	snprintf(path, sizeof path, "%.*s", (int)(equals - set), set);
	index = sl_conf_find(l->schema, path);
	if (index >= 0)
		return apply_one(l, index, equals + 1);
	if (sl_conf_is_spread(l->schema, path)) {
		for (int i = 0; i < l->schema->n_key && !err; i++)
			if (sl_conf_is_within(l->schema, i, path))
				err = apply_one(l, i, equals + 1);
		return err;
	}
	if (sl_conf_is_section(l->schema, path))
		return sl_fail_set(l->fail, SL_ERR_CONFIG, "--set %s: is a section: %s", path,
				   sl_conf_suggest(l->schema, path, "", hint));
	/* the first word that is not in the section before it */
	for (dot = strchr(path, '.'), name = path; dot; name = dot + 1, dot = strchr(name, '.')) {
		snprintf(word, sizeof word, "%.*s", (int)(dot - path), path);
		if (!sl_conf_is_section(l->schema, word))
			break;
		strcpy(section, word);
	}
	snprintf(word, sizeof word, "%.*s", dot ? (int)(dot - name) : PATH_TEXT, name);
	return sl_fail_set(l->fail, SL_ERR_CONFIG, "--set %.100s: unknown key: %s", path,
			   sl_conf_suggest(l->schema, section, word, hint));
}

static enum sl_err apply_presets(struct loader *l)
{
	char why[SL_CONF_WHY];

	for (int i = 0; i < l->schema->n_key; i++) {
		const struct sl_conf_key *key = &l->schema->key[i];

		if (key->preset && sl_conf_value_set(key, l->conf, key->preset, true, why))
			return sl_fail_set(l->fail, SL_ERR_BUG, "default of %s %s", key->path, why);
	}
	return SL_OK;
}

/* Whether another key was given instead of this one. */
static bool has_other(const struct loader *l, const struct sl_conf_key *key)
{
	for (size_t i = 0; i < sizeof key->instead / sizeof key->instead[0]; i++)
		if (key->instead[i] && l->seen[sl_conf_find(l->schema, key->instead[i])])
			return true;
	return false;
}

/* `mark`: where the section that should hold them begins. */
static enum sl_err check_required(struct loader *l, yaml_mark_t mark)
{
	for (int i = 0; i < l->schema->n_key; i++)
		if (!l->schema->key[i].preset && !l->seen[i] && !has_other(l, &l->schema->key[i]))
			return sl_load_fail(l, mark, "%s is missing: %s", l->schema->key[i].path,
					    l->schema->key[i].help);
	return SL_OK;
}

enum sl_err sl_conf_parse(const struct sl_conf_schema *schema, void *out, const char *name, const char *text,
			  size_t len, const char *const *set, int n_set, struct sl_fail *fail)
{
	struct loader l = {.schema = schema, .name = name, .fail = fail};
	char why[SL_CONF_WHY];
	const char *blame;
	enum sl_err err;

	if (len > SL_CONF_MAX_BYTES)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: a config has at most %d bytes, got %zu", name,
				   SL_CONF_MAX_BYTES, len);
	l.conf = calloc(1, schema->size);
	if (!l.conf)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for the config", name);
	snprintf(sl_conf_origin(schema, l.conf)->path, PATH_MAX, "%s", name);
	err = apply_presets(&l);
	if (!err && text)
		err = load_yaml(&l, text, len, load_stream);
	for (int i = 0; i < n_set && !err; i++)
		err = apply_set(&l, set[i]);
	if (!err && text)
		err = check_required(&l, (yaml_mark_t){0});
	if (!err && text && (blame = schema->finish(l.conf, why)))
		err = sl_conf_fail(schema, l.conf, blame, fail, "%s", why);
	if (!err)
		memcpy(out, l.conf, schema->size);
	free(l.conf);
	return err;
}

/* The current event starts the section of the next row. */
static enum sl_err load_row(struct loader *l)
{
	yaml_mark_t mark = l->event.start_mark;
	char why[SL_CONF_WHY];
	const char *blame;
	enum sl_err err;

	if (l->event.type != YAML_MAPPING_START_EVENT)
		return sl_load_fail(l, mark, "a row must be a section of keys, got %s", sl_load_kind(&l->event));
	if (l->n_row == l->most_rows)
		return sl_load_fail(l, mark, "the list has more than %d rows", l->most_rows);
	l->conf = l->rows + (size_t)l->n_row * l->schema->size;
	memset(l->conf, 0, l->schema->size);
	memset(l->seen, 0, sizeof l->seen);
	snprintf(sl_conf_origin(l->schema, l->conf)->path, PATH_MAX, "%s", l->name);
	err = apply_presets(l);
	if (!err)
		err = load_section(l, "");
	if (!err)
		err = check_required(l, mark);
	if (!err && (blame = l->schema->finish(l->conf, why)))
		err = sl_conf_fail(l->schema, l->conf, blame, l->fail, "%s", why);
	l->n_row++;
	return err;
}

static enum sl_err load_rows(struct loader *l)
{
	enum sl_err err = sl_load_next(l); /* stream start */

	if (!err)
		err = sl_load_next(l); /* document start */
	if (!err && l->event.type != YAML_STREAM_END_EVENT)
		err = sl_load_next(l);
	if (!err && l->event.type != YAML_SEQUENCE_START_EVENT)
		return sl_load_fail(l, l->event.start_mark, "the file must be a list of rows, got %s",
				    sl_load_kind(&l->event));
	while (!err && (err = sl_load_next(l)) == SL_OK && l->event.type != YAML_SEQUENCE_END_EVENT)
		err = load_row(l);
	if (!err && !l->n_row)
		return sl_load_fail(l, l->event.start_mark, "the list has no rows");
	return err ? err : load_end(l);
}

enum sl_err sl_conf_load_list(const struct sl_conf_schema *schema, void *rows, int most, int *n, const char *path,
			      struct sl_fail *fail)
{
	struct loader l = {.schema = schema, .name = path, .fail = fail, .rows = rows, .most_rows = most};
	uint8_t *text;
	size_t len;
	enum sl_err err = sl_conf_read(path, &text, &len, fail);

	if (err)
		return err;
	err = load_yaml(&l, (const char *)text, len, load_rows);
	free(text);
	if (!err)
		*n = l.n_row;
	return err;
}
