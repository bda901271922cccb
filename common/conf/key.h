/* Inside of common/conf: what a table's rows say, and the steps that work on one row. */
#ifndef SL_CONF_KEY_H
#define SL_CONF_KEY_H

#include <stddef.h>

#include "common/conf/conf.h"

enum sl_conf_type {
	SL_CONF_INT,    /* int */
	SL_CONF_INT64,  /* int64_t */
	SL_CONF_BYTES,  /* int64_t; "64 MiB" may be written */
	SL_CONF_DOUBLE, /* double */
	SL_CONF_SPAN,   /* two int, the most and the least: "2..8"; one number alone: the least is 0 */
	SL_CONF_SIZE,   /* struct sl_conf_size; "40x56", or one number for both */
	SL_CONF_BOOL,   /* bool */
	SL_CONF_STRING, /* char[size] */
	SL_CONF_CHOICE, /* an enum that counts up with `choices` */
	SL_CONF_NAMES   /* struct sl_conf_list */
};

enum { SL_CONF_WHY = 320 };

struct sl_conf_key {
	const char *path; /* "train.optimizer.lr" */
	enum sl_conf_type type;
	size_t offset, size;
	double min, max;        /* of numbers */
	const char *preset;     /* the default as text; NULL: required */
	const char *instead[2]; /* of what is required: keys that may stand instead; NULL: none */
	const char *unit;       /* of numbers; NULL: none */
	const char *help;       /* one line */
	const char *const *choices;
	const char *beside; /* of a choice: where what is none of them belongs; NULL: nowhere */
	bool or_one;        /* of NAMES: a single value is a list of one, and is printed so */
	bool records; /* of NAMES: an item may be a mapping, with "match" and other members, which are joined into a
			 text */
	/* Looks at a value that is in bounds; NULL: fine, else `why` with a sentence that says what would be right. */
	const char *(*check)(const void *value, char why[SL_CONF_WHY]);
};

struct sl_conf_schema {
	const struct sl_conf_key *key;
	int n_key;
	size_t size, origin_offset;
	/* The program whose config may have been taken for this one, and what of its first level this one lacks, up to
	 * a NULL. Words alone: a program that refuses them need not hold the other's table. NULL: none. */
	const char *other;
	const char *const *of_other;
	const char *spread[2];  /* sections that may be one scalar, meant for each of their keys; NULL: none */
	const char *not_spread; /* keys that begin with this are left out of `spread`; NULL: none */
	/* Whether nothing reads the key, given the other values: it is printed as a remark, and `finish` refuses it
	 * where it was set, but for what --set has put aside. NULL: there are none. */
	bool (*idle)(const void *conf, const char *path);
	/* After all values are in: fills what depends on the environment, then looks at values together. Returns the
	 * path of the key to blame, with a sentence in `why`; NULL: fine. */
	const char *(*finish)(void *conf, char why[SL_CONF_WHY]);
};

static inline struct sl_conf_origin *sl_conf_origin(const struct sl_conf_schema *schema, const void *conf)
{
	return (struct sl_conf_origin *)((char *)conf + schema->origin_offset);
}

/* The key's place in schema->key; -1: there is none. */
int sl_conf_find(const struct sl_conf_schema *schema, const char *path);
/* Stores `text` in `conf`, or leaves it and returns a sentence in `why`. `plain`: not quoted in the file, so it may be
 * a number, a bool or null. Lists: `text` holds items separated by commas. */
const char *sl_conf_value_set(const struct sl_conf_key *key, void *conf, const char *text, bool plain,
			      char why[SL_CONF_WHY]);
/* Appends one item to a list; the list is to be emptied before the first. */
const char *sl_conf_value_append(const struct sl_conf_key *key, void *conf, const char *text, char why[SL_CONF_WHY]);
/* How many more brackets, round or square, the text opens than it closes. */
int sl_conf_open_brackets(const char *text);
/* Whether keys begin with `path` and a dot; whether one scalar may stand for all keys of the section; whether it is
 * then meant for this key. */
bool sl_conf_is_section(const struct sl_conf_schema *schema, const char *path);
bool sl_conf_is_spread(const struct sl_conf_schema *schema, const char *section);
bool sl_conf_is_within(const struct sl_conf_schema *schema, int key, const char *section);
/* "a whole number from 1 to 65536 (samples)" */
const char *sl_conf_value_wanted(const struct sl_conf_key *key, char out[SL_CONF_WHY]);
void sl_conf_value_print(const struct sl_conf_key *key, const void *conf, FILE *file);

/* The path whose last part is `name`, or NULL. */
const char *sl_conf_elsewhere(const struct sl_conf_schema *schema, const char *name);
/* What to write instead of `name`, which is not valid below `section` ("" is the top): 'did you mean "batch"?', 'it
 * belongs to train.optimizer', or the list of what is. */
const char *sl_conf_suggest(const struct sl_conf_schema *schema, const char *section, const char *name,
			    char out[SL_CONF_WHY]);

/* Writes the sentence to `why` and returns `key`, so that a check refuses in one statement. */
const char *sl_conf_say(char why[SL_CONF_WHY], const char *key, const char *fmt, ...) SL_PRINTF(3, 4);

/* file.c: a config's text, which free() gives back. CONFIG: longer than SL_CONF_MAX_BYTES; else as sl_file_read. */
enum sl_err sl_conf_read(const char *path, uint8_t **text, size_t *len, struct sl_fail *fail) SL_MUST_CHECK;

#endif
