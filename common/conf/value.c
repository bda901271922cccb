/* One value: text to typed field and back. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/real.h"
#include "common/conf/key.h"

static void *field(const struct sl_conf_key *key, const void *conf)
{
	return (char *)conf + key->offset;
}

static const char *bytes_text(int64_t n, char out[32])
{
	static const char *const unit[] = {"", " KiB", " MiB", " GiB"};
	int i = 0;

	while (i < 3 && n > 0 && n % 1024 == 0) {
		n /= 1024;
		i++;
	}
	snprintf(out, 32, "%" PRId64 "%s", n, unit[i]);
	return out;
}

const char *sl_conf_value_wanted(const struct sl_conf_key *key, char out[SL_CONF_WHY])
{
	char lo[32], hi[32];
	int at = 0;

	switch (key->type) {
	case SL_CONF_INT:
	case SL_CONF_INT64:
		snprintf(out, SL_CONF_WHY, "a whole number from %.0f to %.0f%s%s%s", key->min, key->max,
			 key->unit ? " (" : "", key->unit ? key->unit : "", key->unit ? ")" : "");
		break;
	case SL_CONF_BYTES:
		snprintf(out, SL_CONF_WHY, "bytes from %s to %s, such as 1048576 or 1 MiB",
			 bytes_text((int64_t)key->min, lo), bytes_text((int64_t)key->max, hi));
		break;
	case SL_CONF_DOUBLE:
		snprintf(out, SL_CONF_WHY, "a number from %s to %s%s%s%s", sl_real_text(key->min, 6, lo),
			 sl_real_text(key->max, 6, hi), key->unit ? " (" : "", key->unit ? key->unit : "",
			 key->unit ? ")" : "");
		break;
	case SL_CONF_SIZE:
		snprintf(out, SL_CONF_WHY,
			 "height x width such as 40x56, or one number for both, from %.0f to %.0f (%s)", key->min,
			 key->max, key->unit);
		break;
	case SL_CONF_BOOL:
		snprintf(out, SL_CONF_WHY, "true or false");
		break;
	case SL_CONF_STRING:
		snprintf(out, SL_CONF_WHY, "a text of at most %zu bytes", key->size - 1);
		break;
	case SL_CONF_CHOICE:
		for (int i = 0; key->choices[i] && at < SL_CONF_WHY; i++)
			at += snprintf(out + at, (size_t)(SL_CONF_WHY - at), "%s%s",
				       i == 0                ? ""
				       : key->choices[i + 1] ? ", "
							     : " or ",
				       key->choices[i]);
		break;
	case SL_CONF_NAMES:
		snprintf(out, SL_CONF_WHY, "a list of at most %d texts of at most %d bytes", SL_CONF_LIST_MAX,
			 SL_CONF_TEXT - 1);
		break;
	}
	return out;
}

static const char *refuse(const struct sl_conf_key *key, const char *text, char why[SL_CONF_WHY])
{
	char wanted[SL_CONF_WHY];
	int few, all;

	sl_conf_value_wanted(key, wanted);
	if (strcmp(key->path, "share.clients") == 0 && sscanf(text, "%d..%d", &few, &all) == 2)
		return sl_conf_say(why, why,
				   "is one number now: what %d..%d was is share.clients: %d, share.quorum: %d and "
				   "share.least: 0",
				   few, all, all, few);
	if (*text)
		return sl_conf_say(why, why, "must be %.150s, got \"%.60s\"", wanted, text);
	return sl_conf_say(why, why, "must be %.200s, got nothing", wanted);
}

static bool parse_int(const char *text, const char **end, int64_t *out)
{
	char *stop;
	long long v;

	if (!isdigit((unsigned char)text[text[0] == '-' || text[0] == '+']))
		return false;
	errno = 0;
	v = strtoll(text, &stop, 10);
	if (errno)
		return false;
	*end = stop;
	*out = v;
	return true;
}

static bool parse_bytes(const char *text, int64_t *out)
{
	static const struct {
		const char *unit;
		int64_t bytes;
	} units[] = {{"", 1}, {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
	const char *end;
	int64_t n;

	if (!parse_int(text, &end, &n))
		return false;
	while (*end == ' ')
		end++;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (strcmp(end, units[i].unit) == 0)
			return !__builtin_mul_overflow(n, units[i].bytes, out);
	return false;
}

/* Accepts decimal numbers only: no hexadecimal, no infinity, no NaN. */
static bool parse_double(const char *text, double *out)
{
	char *end;

	if (!*text || text[strspn(text, "0123456789+-.eE")])
		return false;
	*out = strtod(text, &end);
	return end != text && !*end && isfinite(*out);
}

/* The length of one character that YAML can carry unescaped and a log line can show; 0 for any other. */
static size_t printable(const char *s)
{
	/* the separators that YAML reads as line ends, the byte order mark, non-characters */
	static const char *const refused[] = {"\u2028", "\u2029", "\ufeff", "\xef\xbf\xbe", "\xef\xbf\xbf"};

	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
		if (strncmp(s, refused[i], 3) == 0)
			return 0;
	return sl_text_character(s, strnlen(s, 4));
}

static const char *check_text(const char *text, size_t size, char why[SL_CONF_WHY])
{
	if (strlen(text) >= size)
		return sl_conf_say(why, why, "must have at most %zu bytes, got %zu", size - 1, strlen(text));
	for (const char *p = text; *p;) {
		const size_t n = printable(p);

		if (n == 0)
			return sl_conf_say(why, why, "must be UTF-8 without control characters (byte %zu)",
					   (size_t)(p - text) + 1);
		p += n;
	}
	return NULL;
}

static bool is_null(const char *text)
{
	return strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

static const char *set_string(const struct sl_conf_key *key, void *conf, const char *text, char why[SL_CONF_WHY])
{
	if (check_text(text, key->size, why) || (key->check && key->check(text, why)))
		return why;
	memset(field(key, conf), 0, key->size);
	memcpy(field(key, conf), text, strlen(text));
	return NULL;
}

const char *sl_conf_value_append(const struct sl_conf_key *key, void *conf, const char *text, char why[SL_CONF_WHY])
{
	struct sl_conf_list *list = field(key, conf);

	if (list->n == SL_CONF_LIST_MAX)
		return sl_conf_say(why, why, "must have at most %d items", SL_CONF_LIST_MAX);
	if (check_text(text, SL_CONF_TEXT, why) || (key->check && key->check(text, why)))
		return why;
	memcpy(list->item[list->n++], text, strlen(text) + 1);
	return NULL;
}

/* The length up to the next comma that stands neither in brackets, RandomCrop(32, padding=4), nor in quotes, "name,
 * first". */
static size_t item_length(const char *text)
{
	const size_t blanks = strspn(text, " ");
	const char quote = text[blanks];
	size_t len = 0;
	int depth = 0;

	if (quote == '"' || quote == '\'') {
		const char *closes = strchr(text + blanks + 1, quote);
		const size_t behind = closes ? (size_t)(closes - text) + 1 + strspn(closes + 1, " ") : 0;

		if (closes && (!text[behind] || text[behind] == ','))
			return behind;
	}
	for (; text[len] && (depth > 0 || text[len] != ','); len++) {
		depth += text[len] == '(' || text[len] == '[';
		depth -= text[len] == ')' || text[len] == ']';
	}
	return len;
}

int sl_conf_open_brackets(const char *text)
{
	int depth = 0;

	for (; *text; text++) {
		depth += *text == '(' || *text == '[';
		depth -= *text == ')' || *text == ']';
	}
	return depth;
}

/* Removes the blanks around an item, and quotes as a list of YAML may have them. */
static void strip(const char **text, size_t *len)
{
	for (; *len && **text == ' '; ++*text)
		--*len;
	while (*len && (*text)[*len - 1] == ' ')
		--*len;
	if (*len >= 2 && (**text == '"' || **text == '\'') && (*text)[*len - 1] == **text) {
		++*text;
		*len -= 2;
	}
}

/* Reads "A, B", or as YAML has it [A, "B"]. */
static const char *set_names(const struct sl_conf_key *key, void *conf, const char *text, char why[SL_CONF_WHY])
{
	struct sl_conf_list *list = field(key, conf);
	const char *end = text + strlen(text);

	memset(list, 0, sizeof *list);
	if (*text == '[' && end[-1] == ']') {
		text++;
		end--;
	}
	while (text < end) {
		size_t len = item_length(text), of_item;
		const char *from = text;
		char item[SL_CONF_TEXT + 1];

		len = (size_t)(end - text) < len ? (size_t)(end - text) : len;
		of_item = len;
		strip(&from, &of_item);
		snprintf(item, sizeof item, "%.*s", (int)(of_item < sizeof item ? of_item : sizeof item - 1), from);
		if (sl_conf_value_append(key, conf, item, why))
			return why;
		text += len + 1;
	}
	return NULL;
}

static const char *set_number(const struct sl_conf_key *key, void *conf, const char *text, char why[SL_CONF_WHY])
{
	const char *end = "";
	double value = 0;
	int64_t whole = 0;
	bool ok;

	switch (key->type) {
	case SL_CONF_DOUBLE:
		ok = parse_double(text, &value);
		break;
	case SL_CONF_BYTES:
		ok = parse_bytes(text, &whole);
		value = (double)whole;
		break;
	default:
		ok = parse_int(text, &end, &whole) && !*end;
		value = (double)whole;
	}
	if (!ok || !(value >= key->min && value <= key->max))
		return refuse(key, text, why);
	if (key->type == SL_CONF_DOUBLE)
		*(double *)field(key, conf) = value;
	else if (key->type == SL_CONF_INT)
		*(int *)field(key, conf) = (int)whole;
	else
		*(int64_t *)field(key, conf) = whole;
	return NULL;
}

static const char *set_size(const struct sl_conf_key *key, void *conf, const char *text, char why[SL_CONF_WHY])
{
	const char *end = text;
	int64_t h, w;
	bool ok = parse_int(text, &end, &h);

	w = ok ? h : 0;
	if (ok && *end == 'x')
		ok = parse_int(end + 1, &end, &w);
	if (!ok || *end || (double)h < key->min || (double)h > key->max || (double)w < key->min || (double)w > key->max)
		return refuse(key, text, why);
	*(struct sl_conf_size *)field(key, conf) = (struct sl_conf_size){(int)h, (int)w};
	return NULL;
}

const char *sl_conf_value_set(const struct sl_conf_key *key, void *conf, const char *text, bool plain,
			      char why[SL_CONF_WHY])
{
	if (plain && is_null(text))
		text = "";
	switch (key->type) {
	case SL_CONF_STRING:
		return set_string(key, conf, text, why);
	case SL_CONF_NAMES:
		return set_names(key, conf, text, why);
	case SL_CONF_CHOICE:
		for (int i = 0; key->choices[i]; i++) {
			if (strcmp(text, key->choices[i]) == 0) {
				*(int *)field(key, conf) = i;
				return NULL;
			}
		}
		(void)refuse(key, text, why);
		if (key->beside)
			snprintf(why + strlen(why), SL_CONF_WHY - strlen(why), "; %s", key->beside);
		return why;
	case SL_CONF_SIZE:
		return set_size(key, conf, text, why);
	case SL_CONF_BOOL:
		if (!plain || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
			return refuse(key, text, why);
		*(bool *)field(key, conf) = text[0] == 't';
		return NULL;
	default:
		return plain || key->type == SL_CONF_BYTES ? set_number(key, conf, text, why) : refuse(key, text, why);
	}
}

/* Always quoted, so that no text is read back as a number, a bool or null. */
static void print_text(const char *text, FILE *file)
{
	fputc('"', file);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', file);
		fputc(*text, file);
	}
	fputc('"', file);
}

void sl_conf_value_print(const struct sl_conf_key *key, const void *conf, FILE *file)
{
	const void *value = field(key, conf);
	const struct sl_conf_list *list = value;
	const struct sl_conf_size *size = value;
	char text[32];

	switch (key->type) {
	case SL_CONF_INT:
		fprintf(file, "%d", *(const int *)value);
		break;
	case SL_CONF_INT64:
		fprintf(file, "%" PRId64, *(const int64_t *)value);
		break;
	case SL_CONF_BYTES:
		fputs(bytes_text(*(const int64_t *)value, text), file);
		break;
	case SL_CONF_DOUBLE:
		fputs(sl_real_text(*(const double *)value, 6, text), file);
		break;
	case SL_CONF_SIZE:
		fprintf(file, size->h == size->w ? "%d" : "%dx%d", size->h, size->w);
		break;
	case SL_CONF_BOOL:
		fputs(*(const bool *)value ? "true" : "false", file);
		break;
	case SL_CONF_STRING:
		print_text(value, file);
		break;
	case SL_CONF_CHOICE:
		fputs(key->choices[*(const int *)value], file);
		break;
	case SL_CONF_NAMES:
		if (key->or_one && list->n == 1) {
			print_text(list->item[0], file);
			break;
		}
		fputc('[', file);
		for (int i = 0; i < list->n; i++) {
			fputs(i ? ", " : "", file);
			print_text(list->item[i], file);
		}
		fputc(']', file);
		break;
	}
}

/* ---- sections */

bool sl_conf_is_section(const struct sl_conf_schema *schema, const char *path)
{
	size_t len = strlen(path);

	for (int i = 0; i < schema->n_key; i++)
		if (strncmp(schema->key[i].path, path, len) == 0 && schema->key[i].path[len] == '.')
			return true;
	return false;
}

bool sl_conf_is_spread(const struct sl_conf_schema *schema, const char *section)
{
	for (size_t i = 0; i < sizeof schema->spread / sizeof schema->spread[0]; i++)
		if (schema->spread[i] && strcmp(section, schema->spread[i]) == 0)
			return true;
	return false;
}

bool sl_conf_is_within(const struct sl_conf_schema *schema, int key, const char *section)
{
	const char *path = schema->key[key].path, *not = schema->not_spread;
	const size_t len = strlen(section);

	return strncmp(path, section, len) == 0 && path[len] == '.' && !(not &&strncmp(path, not, strlen(not )) == 0);
}
