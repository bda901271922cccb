/* Something with arguments, as users type it: "quant:8,per=channel", "conv:20,k=3". Behind the name stands a colon,
 * then the positional arguments joined with '+', then key=value behind commas. Where nothing is positional and the
 * first argument is required, key=value follows the colon. Codecs and inserts are spelled so. Thread-safe. */
#ifndef SL_BASE_ARGS_H
#define SL_BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

enum { SL_ARGS_MAX = 8 };

/* One argument; its place in the table is its place in `value`. Positional ones come first. */
struct sl_arg {
	const char *key; /* NULL ends the table */
	enum { SL_ARG_INT, SL_ARG_REAL, SL_ARG_FLAG, SL_ARG_CHOICE } type;
	bool positional;
	bool required;
	double least, most, otherwise; /* of numbers; REAL: above `least`, or `from_least` */
	bool from_least;
	const char *const *choices; /* CHOICE: ends with NULL; the value is the number of the word */
};

struct sl_args {
	const char *prefix; /* begins every error: "codec: " */
	const char *name;
	const char *usage; /* "quant:b with b = 1…16" */
	const struct sl_arg *table;
	const struct sl_arg *common; /* one key=value that all of this sort take, or NULL: the last of `value` */
};

/* Reads text[0 … len-1], which stands behind the name: empty, or from ':' or ',' on. value [SL_ARGS_MAX] gets every
 * argument of the table, `otherwise` where it is not given. CONFIG: what would be right. */
enum sl_err sl_args_read(const struct sl_args *args, const char *text, size_t len, double *value,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* Writes name and arguments the one shortest way, without those that have their default value. Returns the length as
 * snprintf does. */
size_t sl_args_write(const struct sl_args *args, const double *value, char *out, size_t cap);
/* The next '+' in text[0 … len-1] that joins, and is not part of a number such as 1e+3; `len` where there is none. */
size_t sl_args_plus(const char *text, size_t len);

#endif
