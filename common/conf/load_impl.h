/* Private to the reader of configs: load.c has sections and values, load_list.c has lists. */
#ifndef SL_CONF_LOAD_IMPL_H
#define SL_CONF_LOAD_IMPL_H

#include <yaml.h>

#include "common/conf/key.h"

struct loader {
	const struct sl_conf_schema *schema;
	void *conf;
	const char *name; /* of the file, for errors */
	struct sl_fail *fail;
	yaml_parser_t parser;
	yaml_event_t event; /* the current one; owned while have_event */
	bool have_event;
	bool seen[SL_CONF_MAX_KEYS];
	char *rows; /* of a file that is a list */
	int n_row, most_rows;
};

/* CONFIG; *l->fail becomes "file:line:column: text". */
enum sl_err sl_load_fail(struct loader *l, yaml_mark_t mark, const char *fmt, ...) SL_PRINTF(3, 4);
const char *sl_load_kind(const yaml_event_t *event); /* "a list", for errors */
/* Reads the next event. CONFIG: the file is not YAML, or has what is refused. */
enum sl_err sl_load_next(struct loader *l) SL_MUST_CHECK;
/* The text of the current scalar; CONFIG if it holds a NUL. `plain`: whether it was not quoted; NULL is fine. */
enum sl_err sl_load_text(struct loader *l, const char **out, bool *plain) SL_MUST_CHECK;
/* The current event begins the list, or the mapping, that is the value of `key`. */
enum sl_err sl_load_list(struct loader *l, const struct sl_conf_key *key) SL_MUST_CHECK;

#endif
