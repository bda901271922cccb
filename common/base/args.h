/* Parses and prints a name with arguments, as users write codecs and inserts: "quant:8,per=channel", "conv:20,k=3".
 * A colon follows the name, then the positional arguments, joined with '+', then a comma before each key=value. If
 * the table has no positional argument and its first one is required, key=value follows the colon. Thread-safe. */
#ifndef SL_BASE_ARGS_H
#define SL_BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

enum { SL_ARGS_MAX = 8 };

/* One argument. Its index in the table is its index in `value`. Positional arguments come first. */
struct sl_arg {
	const char *key; /* NULL ends the table */
	enum { SL_ARG_INT, SL_ARG_REAL, SL_ARG_FLAG, SL_ARG_CHOICE } type;
	bool positional;
	bool required;
	double least, most, otherwise; /* numbers: bounds (REAL: above `least`, or from_least); any type: default */
	bool from_least;
	const char *const *choices; /* CHOICE: the words, then NULL; the value is the index of the word */
};

struct sl_args {
	const char *prefix; /* begins every error: "codec: " */
	const char *name;
	const char *usage; /* "quant:b with b = 1…16" */
	const struct sl_arg *table;
	const struct sl_arg *common; /* a key=value that all names of this kind take, last in `value`; or NULL */
};

/* Reads text[0 … len-1], which follows the name: it is empty, or begins with ':' or ','. value [SL_ARGS_MAX] gets
 * every argument of the table; one that is not given gets its default. CONFIG, with a sentence that says what is
 * allowed. */
enum sl_err sl_args_read(const struct sl_args *args, const char *text, size_t len, double *value,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* Writes the canonical text: the name, the required arguments, and those that differ from their default. Returns
 * the length as snprintf does. */
size_t sl_args_write(const struct sl_args *args, const double *value, char *out, size_t cap);
/* Returns the index of the first '+' in text[0 … len-1] that separates two arguments and is not part of a number
 * such as 1e+3; `len` if there is none. */
size_t sl_args_plus(const char *text, size_t len);

#endif
