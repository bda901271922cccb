/* Lists of a config, and mappings that are items of one. */
#include <stdarg.h>
#include <string.h>

#include "common/conf/load_impl.h"

/* Text of an item that is a mapping, as the item would be written in one line: "match: [A, B], lr: 2" is "A B lr=2". */
struct record {
	char text[SL_CONF_TEXT];
	size_t len;
};

static enum sl_err SL_PRINTF(3, 4) add(struct loader *l, struct record *r, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	r->len += (size_t)vsnprintf(r->text + r->len, sizeof r->text - r->len, fmt, args);
	va_end(args);
	return r->len < sizeof r->text ? SL_OK : sl_load_fail(l, l->event.start_mark, "the item is too long");
}

static enum sl_err add_word(struct loader *l, struct record *r, const char *name)
{
	const char *value;
	enum sl_err err = sl_load_text(l, &value, NULL);
	const bool match = strcmp(name, "match") == 0;

	return err ? err : add(l, r, "%s%s%s%s", r->len ? " " : "", match ? "" : name, match ? "" : "=", value);
}

static enum sl_err load_item(struct loader *l, struct record *item);

/* The current event is the value of `name`. The list of another name than "match" is [A, B] in the text, too. */
static enum sl_err load_member(struct loader *l, struct record *r, const struct sl_conf_key *key, const char *name)
{
	const bool match = strcmp(name, "match") == 0;
	struct record item;
	enum sl_err err;

	if (l->event.type == YAML_SCALAR_EVENT)
		return add_word(l, r, name);
	if (l->event.type != YAML_SEQUENCE_START_EVENT || !(match || key->sections))
		return sl_load_fail(l, l->event.start_mark, "%.40s must be a single value, got %s", name,
				    sl_load_kind(&l->event));
	err = match ? SL_OK : add(l, r, "%s%s=[", r->len ? " " : "", name);
	for (const char *comma = ""; !err; comma = ", ") {
		err = sl_load_next(l);
		if (err || l->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		if (l->event.type != YAML_SCALAR_EVENT)
			return sl_load_fail(l, l->event.start_mark, "%.40s must be single values, got %s", name,
					    sl_load_kind(&l->event));
		err = match ? add_word(l, r, name) : load_item(l, &item);
		if (!err && !match)
			err = add(l, r, "%s\"%s\"", comma, item.text);
	}
	return err || match ? err : add(l, r, "]");
}

static enum sl_err append(struct loader *l, const struct sl_conf_key *key, const char *text, yaml_mark_t mark)
{
	char why[SL_CONF_WHY];

	return sl_conf_value_append(key, l->conf, text, why) ? sl_load_fail(l, mark, "%s %s", key->path, why) : SL_OK;
}

/* The current event begins a mapping. It becomes one item or, with key->sections, one for each of its keys. */
static enum sl_err load_record(struct loader *l, const struct sl_conf_key *key)
{
	const yaml_mark_t mark = l->event.start_mark;
	struct record r = {.text = "-", .len = key->sections};
	enum sl_err err;

	while ((err = sl_load_next(l)) == SL_OK && l->event.type != YAML_MAPPING_END_EVENT) {
		char name[48];
		const char *text;

		if (l->event.type != YAML_SCALAR_EVENT)
			return sl_load_fail(l, l->event.start_mark, "a key must be a word, got %s",
					    sl_load_kind(&l->event));
		err = sl_load_text(l, &text, NULL);
		if (err)
			return err;
		snprintf(name, sizeof name, "%s", text);
		err = sl_load_next(l);
		if (!err)
			err = load_member(l, &r, key, name);
		if (!err && key->sections) {
			err = append(l, key, r.text, mark);
			r.len = 0;
		}
		if (err)
			return err;
	}
	return err || key->sections ? err : append(l, key, r.text, mark);
}

/* The current event is an item, which YAML cuts at commas: while its brackets are open, the next scalars are joined
 * to it. [RandomCrop(32, padding=4), …] begins with one item. */
static enum sl_err load_item(struct loader *l, struct record *item)
{
	const yaml_mark_t mark = l->event.start_mark;
	const char *text;
	enum sl_err err = sl_load_text(l, &text, NULL);

	*item = (struct record){0};
	while (!err) {
		err = add(l, item, "%s%s", item->len ? ", " : "", text);
		if (err)
			return err;
		if (sl_conf_open_brackets(item->text) <= 0)
			return SL_OK;
		err = sl_load_next(l);
		if (!err && l->event.type != YAML_SCALAR_EVENT)
			return sl_load_fail(l, mark, "a bracket of \"%.60s\" is not closed", item->text);
		if (!err)
			err = sl_load_text(l, &text, NULL);
	}
	return err;
}

enum sl_err sl_load_list(struct loader *l, const struct sl_conf_key *key)
{
	struct record item;
	char why[SL_CONF_WHY];
	enum sl_err err;

	if (sl_conf_value_set(key, l->conf, "", true, why))
		return sl_load_fail(l, l->event.start_mark, "%s %s", key->path, why);
	if (l->event.type == YAML_MAPPING_START_EVENT)
		return load_record(l, key);
	while ((err = sl_load_next(l)) == SL_OK && l->event.type != YAML_SEQUENCE_END_EVENT) {
		const yaml_mark_t mark = l->event.start_mark;

		if (key->records && l->event.type == YAML_MAPPING_START_EVENT) {
			err = load_record(l, key);
		} else if (l->event.type == YAML_SCALAR_EVENT) {
			err = load_item(l, &item);
			if (!err)
				err = append(l, key, item.text, mark);
		} else {
			return sl_load_fail(l, mark, "%s: an item must be a single value, got %s", key->path,
					    sl_load_kind(&l->event));
		}
		if (err)
			return err;
	}
	return err;
}
