/* Private to common/conf: the rows of a table, and the operations on one row. */
#ifndef SL_CONF_KEY_H
#define SL_CONF_KEY_H

#include <stddef.h>

#include "common/conf/conf.h"

enum sl_conf_type {
	SL_CONF_INT,    /* int */
	SL_CONF_INT64,  /* int64_t */
	SL_CONF_BYTES,  /* int64_t; "64 MiB" may be written */
	SL_CONF_DOUBLE, /* double */
	SL_CONF_SIZE,   /* struct sl_conf_size; "40x56", or one number for both */
	SL_CONF_BOOL,   /* bool */
	SL_CONF_STRING, /* char[size] */
	SL_CONF_CHOICE, /* an enum that counts up with `choices` */
	SL_CONF_NAMES   /* struct sl_conf_list */
};

struct sl_conf_key {
	const char *path; /* "train.optimizer.lr" */
	enum sl_conf_type type;
	size_t offset, size;
	double min, max;        /* of numbers */
	const char *preset;     /* the default as text; NULL: required */
	const char *instead[3]; /* required keys: others that may be given instead; NULL: none */
	const char *unit;       /* of numbers; NULL: none */
	const char *help;       /* one line */
	const char *const *choices;
	const char *beside; /* choices: ends the error for another word, and says where that belongs; NULL: nothing */
	bool or_one;        /* NAMES: a single value is a list of one, and is printed so */
	bool records;       /* NAMES: an item may be a mapping of "match" and others, which are joined into a text */
	/* With `records`: each key of a mapping is an item "KEY=VALUE", "- KEY=VALUE" of the first, and one mapping may
	 * stand in place of the list. */
	bool sections;
	/* Checks a value that is in bounds. NULL: fine, else `why` with a sentence that says what would be right. */
	const char *(*check)(const void *value, char why[SL_CONF_WHY]);
};

struct sl_conf_schema {
	const struct sl_conf_key *key;
	int n_key;
	size_t size, origin_offset;
	/* The other program, whose config may be given by mistake, and its top-level keys that this schema lacks, up
	 * to a NULL. They are plain words, so that a program need not contain the other's table. NULL: none. */
	const char *other;
	const char *const *of_other;
	const char *spread[2];  /* sections for which one scalar may set each of their keys; NULL: none */
	const char *not_spread; /* keys that begin with this are left out of `spread`; NULL: none */
	/* Whether the key has no effect beside the other values. Such a key is printed as a comment. If it was set,
	 * `finish` refuses it, unless --set has chosen something else than the file. NULL: there are none. */
	bool (*idle)(const void *conf, const char *path);
	/* Called after all values are set: fills what depends on the environment, then checks values against each
	 * other. Returns the path of the key to blame, with a sentence in `why`; NULL: fine. */
	const char *(*finish)(void *conf, char why[SL_CONF_WHY]);
};

static inline struct sl_conf_origin *sl_conf_origin(const struct sl_conf_schema *schema, const void *conf)
{
	return (struct sl_conf_origin *)((char *)conf + schema->origin_offset);
}

/* The key's index in schema->key; -1: there is none. */
int sl_conf_find(const struct sl_conf_schema *schema, const char *path);
/* Prints the keys that are set, each with the beginning of its help. IO where `file` fails. */
enum sl_err sl_conf_print_set(const struct sl_conf_schema *schema, const void *conf, FILE *file) SL_MUST_CHECK;
/* Stores `text` in `conf` and returns NULL, or returns a sentence in `why`. `plain`: not quoted in the file, so it
 * may be a number, a bool or null. Lists: `text` holds items separated by commas. */
const char *sl_conf_value_set(const struct sl_conf_key *key, void *conf, const char *text, bool plain,
			      char why[SL_CONF_WHY]);
/* Appends one item to a list, which the caller empties before the first. */
const char *sl_conf_value_append(const struct sl_conf_key *key, void *conf, const char *text, char why[SL_CONF_WHY]);
/* How many more brackets, round or square, the text opens than it closes. */
int sl_conf_open_brackets(const char *text);
/* is_section: keys begin with `path` and a dot. is_spread: one scalar may stand for all keys of the section.
 * is_within: that scalar sets this key. */
bool sl_conf_is_section(const struct sl_conf_schema *schema, const char *path);
bool sl_conf_is_spread(const struct sl_conf_schema *schema, const char *section);
bool sl_conf_is_within(const struct sl_conf_schema *schema, int key, const char *section);
/* What a value of the key must be: "a whole number from 1 to 65536 (samples)". */
const char *sl_conf_value_wanted(const struct sl_conf_key *key, char out[SL_CONF_WHY]);
void sl_conf_value_print(const struct sl_conf_key *key, const void *conf, FILE *file);

/* The first path whose last part is `name`, or NULL. */
const char *sl_conf_elsewhere(const struct sl_conf_schema *schema, const char *name);
/* What to write instead of `name`, which is not valid below `section` ("" is the top): 'did you mean train.batch?',
 * 'it is of splits's config', or the list of valid names. */
const char *sl_conf_suggest(const struct sl_conf_schema *schema, const char *section, const char *name,
			    char out[SL_CONF_WHY]);

/* Writes the sentence to `why` and returns `key`, so that a check refuses in one statement. */
const char *sl_conf_say(char why[SL_CONF_WHY], const char *key, const char *fmt, ...) SL_PRINTF(3, 4);

/* file.c: reads a config's text, which the caller frees. CONFIG: longer than SL_CONF_MAX_BYTES; else as
 * sl_file_read. */
enum sl_err sl_conf_read(const char *path, uint8_t **text, size_t *len, struct sl_fail *fail) SL_MUST_CHECK;

#endif
