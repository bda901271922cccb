#include "common/base/args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/real.h"

static enum sl_err bad_value(const struct sl_args *args, const char *word, size_t len, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_CONFIG, "%s%s, got '%.*s'", args->prefix, args->usage, (int)len, word);
}

static bool read_number(const struct sl_arg *arg, const char *word, double *out)
{
	char *end;

	/* strtod also takes hexadecimal, "inf", "nan" and leading blanks */
	if (word[strspn(word, "0123456789.eE+-")] != '\0')
		return false;
	*out = strtod(word, &end);
	if (*end != '\0' || !isfinite(*out) || *out > arg->most)
		return false;
	if (arg->type == SL_ARG_INT)
		return *out >= arg->least && *out == floor(*out);
	return *out > arg->least || (arg->from_least && *out == arg->least);
}

static bool read_choice(const struct sl_arg *arg, const char *word, double *out)
{
	for (int i = 0; arg->choices[i] != NULL; i++) {
		if (strcmp(word, arg->choices[i]) == 0) {
			*out = i;
			return true;
		}
	}
	return false;
}

static bool read_value(const struct sl_arg *arg, const char *text, size_t len, double *out)
{
	char word[32];

	if (len == 0 || len >= sizeof word)
		return false;
	memcpy(word, text, len);
	word[len] = '\0';
	switch (arg->type) {
	case SL_ARG_FLAG:
		*out = word[0] == 't';
		return strcmp(word, "true") == 0 || strcmp(word, "false") == 0;
	case SL_ARG_CHOICE:
		return read_choice(arg, word, out);
	case SL_ARG_INT:
	case SL_ARG_REAL:
		break;
	}
	return read_number(arg, word, out);
}

size_t sl_args_plus(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const bool exponent = i > 1 && (text[i - 1] | 32) == 'e' && text[i - 2] >= '.' && text[i - 2] <= '9';

		if (text[i] == '+' && !exponent)
			return i;
	}
	return len;
}

static enum sl_err read_positional(const struct sl_args *args, const char *text, size_t len, double *value,
				   unsigned *given, struct sl_fail *fail)
{
	for (int i = 0;; i++) {
		const size_t plus = sl_args_plus(text, len);

		if (args->table[i].key == NULL || !args->table[i].positional)
			return bad_value(args, text, len, fail);
		if (!read_value(&args->table[i], text, plus, &value[i]))
			return bad_value(args, text, plus, fail);
		*given |= 1u << i;
		if (plus == len)
			return SL_OK;
		text += plus + 1;
		len -= plus + 1;
	}
}

static int table_length(const struct sl_arg *table)
{
	int n = 0;

	while (table[n].key != NULL)
		n++;
	return n;
}

/* Finds the argument that KEY=value names, and its index in `value`. NULL if there is none. */
static const struct sl_arg *find(const struct sl_args *args, const char *key, size_t len, int *place)
{
	const int n = table_length(args->table);

	for (int i = 0; i <= n; i++) {
		const struct sl_arg *arg = i < n ? &args->table[i] : args->common;

		if (arg && !arg->positional && strlen(arg->key) == len && memcmp(arg->key, key, len) == 0) {
			*place = i;
			return arg;
		}
	}
	return NULL;
}

static enum sl_err read_option(const struct sl_args *args, const char *text, size_t len, double *value, unsigned *given,
			       struct sl_fail *fail)
{
	const char *eq = memchr(text, '=', len);
	const size_t key_len = eq == NULL ? len : (size_t)(eq - text);
	int place = 0;
	const struct sl_arg *arg = eq == NULL ? NULL : find(args, text, key_len, &place);

	if (arg == NULL)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s%s has no option '%.*s': %s", args->prefix, args->name,
				   (int)key_len, text, args->usage);
	if (*given >> place & 1)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s'%s' is given twice for %s", args->prefix, arg->key,
				   args->name);
	*given |= 1u << place;
	if (!read_value(arg, eq + 1, len - key_len - 1, &value[place]))
		return bad_value(args, eq + 1, len - key_len - 1, fail);
	return SL_OK;
}

/* As in "decaylinear:rate=0.9,every=300". */
static bool colon_begins_options(const struct sl_arg *table)
{
	return table[0].key != NULL && table[0].required && !table[0].positional;
}

static size_t until_comma(const char *text, size_t len)
{
	const char *comma = memchr(text, ',', len);

	return comma == NULL ? len : (size_t)(comma - text);
}

enum sl_err sl_args_read(const struct sl_args *args, const char *text, size_t len, double *value, struct sl_fail *fail)
{
	const int n = table_length(args->table);
	const char *const stop = text + len;
	bool positional = len > 0 && *text == ':' && !colon_begins_options(args->table);
	unsigned given = 0;

	for (int i = 0; i < n; i++)
		value[i] = args->table[i].otherwise;
	if (args->common)
		value[n] = args->common->otherwise;
	while (text < stop) {
		const char *word = text + 1; /* behind ':' or ',' */
		const size_t word_len = until_comma(word, (size_t)(stop - word));
		const enum sl_err err = positional ? read_positional(args, word, word_len, value, &given, fail)
						   : read_option(args, word, word_len, value, &given, fail);

		if (err)
			return err;
		positional = false;
		text = word + word_len;
	}
	for (int i = 0; i < n; i++)
		if (args->table[i].required && !(given >> i & 1))
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s%s, got '%s%.*s'", args->prefix, args->usage,
					   args->name, (int)len, stop - len);
	return SL_OK;
}

/* ---- arguments to text */

/* The shortest decimal that reads back as the same double. */
static size_t write_number(char *out, size_t cap, double value)
{
	char word[SL_REAL_TEXT];

	return (size_t)snprintf(out, cap, "%s", sl_real_text(value, 1, word));
}

static size_t write_value(char *out, size_t cap, const struct sl_arg *arg, double value)
{
	switch (arg->type) {
	case SL_ARG_FLAG:
		return (size_t)snprintf(out, cap, "%s", value != 0 ? "true" : "false");
	case SL_ARG_CHOICE:
		return (size_t)snprintf(out, cap, "%s", arg->choices[(int)value]);
	case SL_ARG_INT:
		return (size_t)snprintf(out, cap, "%.0f", value);
	case SL_ARG_REAL:
		break;
	}
	return write_number(out, cap, value);
}

size_t sl_args_write(const struct sl_args *args, const double *value, char *out, size_t cap)
{
	const int n = table_length(args->table);
	size_t len = (size_t)snprintf(out, cap, "%s", args->name);
	bool first = true;

	for (int i = 0; i <= n; i++) {
		const struct sl_arg *arg = i < n ? &args->table[i] : args->common;
		const char *joint = ",";

		if (!arg || (value[i] == arg->otherwise && !arg->required))
			continue;
		if (first && (arg->positional || arg->required))
			joint = ":";
		else if (arg->positional)
			joint = "+";
		len += (size_t)snprintf(out + (len < cap ? len : cap), len < cap ? cap - len : 0, "%s%s%s", joint,
					arg->positional ? "" : arg->key, arg->positional ? "" : "=");
		len += write_value(out + (len < cap ? len : cap), len < cap ? cap - len : 0, arg, value[i]);
		first = false;
	}
	return len;
}
