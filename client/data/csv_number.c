#include "client/data/csv_number.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/csv_column.h"

static const char minus[] = "\xe2\x88\x92"; /* U+2212 */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The bytes of a no-break blank, U+00A0 or U+202F, at p; 0: there is none. */
static size_t no_break(const char *p)
{
	return strncmp(p, "\xc2\xa0", 2) == 0 ? 2 : strncmp(p, "\xe2\x80\xaf", 3) == 0 ? 3 : 0;
}

static const char *skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t' || no_break(p))
		p += no_break(p) ? no_break(p) : 1;
	return p;
}

/* The bytes of what parts three digits at p from those in front of them; 0: nothing does. */
static size_t group_mark(const char *p, char other)
{
	const size_t n = *p == other ? 1 : no_break(p);

	return n && is_digit(p[n]) && is_digit(p[n + 1]) && is_digit(p[n + 2]) && !is_digit(p[n + 3]) ? n : 0;
}

/* Copies a sign to *to, and returns what follows it. */
static const char *take_sign(const char *p, char **to)
{
	if (strncmp(p, minus, 3) == 0) {
		*(*to)++ = '-';
		return p + 3;
	}
	if (*p == '-' || *p == '+')
		*(*to)++ = *p++;
	return p;
}

static const char *take_digits(const char *p, char **to, const char *end)
{
	while (is_digit(*p) && *to < end)
		*(*to)++ = *p++;
	return p;
}

/* Takes the text as a unit, without the blanks around it. A date's or range's second number is none. */
static bool take_unit(const char *p, char unit[SL_CSV_UNIT])
{
	const char *const begin = skip_blanks(p), *end = begin;
	size_t n;

	for (p = begin; *p; p = skip_blanks(p))
		end = ++p;
	n = (size_t)(end - begin);
	if (n >= SL_CSV_UNIT || memchr(begin, '.', n) || memchr(begin, ',', n) || strncmp(begin, minus, 3) == 0 ||
	    strncmp(begin, "\xe2\x80", 2) == 0 || /* a dash */
	    (n && (unsigned char)*begin < 0x80 && !isalpha((unsigned char)*begin) && *begin != '%' && *begin != '$'))
		return false;
	memcpy(unit, begin, n);
	unit[n] = '\0';
	return true;
}

bool sl_csv_number(const char *cell, char mark, struct sl_csv_number *out)
{
	const char other = mark == '.' ? ',' : '.';
	char *to = out->plain, *const end = out->plain + sizeof out->plain - 8;
	const char *q, *p = take_sign(skip_blanks(cell), &to);
	const char *const begin = to;
	bool others = false;
	size_t n;

	p = take_digits(p, &to, end);
	for (n = to > begin && to - begin <= 3 ? group_mark(p, other) : 0; n; n = group_mark(p, other)) {
		others |= *p == other;
		p = take_digits(p + n, &to, end);
	}
	out->fraction = *p == mark;
	if (others && !out->fraction)
		return false;
	if (out->fraction) {
		*to++ = '.';
		p = take_digits(p + 1, &to, end);
	}
	if (to - begin == (out->fraction ? 1 : 0))
		return false;
	if (*p == 'e' || *p == 'E') {
		char *const at = to;

		*to++ = 'e';
		q = take_sign(p + 1, &to);
		to = is_digit(*q) ? to : at;
		p = is_digit(*q) ? take_digits(q, &to, end + 4) : p;
	}
	*to = '\0';
	out->rest = p;
	return !is_digit(*p) && take_unit(p, out->unit);
}

bool sl_csv_measures(const struct sl_csv *s, int column, char mark, char unit[SL_CSV_UNIT])
{
	struct sl_csv_number n;
	bool any = false;

	for (int64_t r = 0; r < s->rows; r++) {
		const char *cell = sl_csv_cell(s, r, column);

		if (sl_csv_is_missing(cell))
			continue;
		if (!sl_csv_number(cell, mark, &n) || (any && strcmp(n.unit, unit) != 0))
			return false;
		strcpy(unit, n.unit);
		any = true;
	}
	return any;
}

const char *sl_csv_advice(const char *cell)
{
	struct sl_csv_number n;

	if (sl_csv_number(cell, '.', &n))
		return *n.unit ? "write the numbers alone, or all of them with one unit" : NULL;
	return sl_csv_number(cell, ',', &n) ? "if 1,5 means 1.5 in this file, set data.decimal: comma; else write "
					      "1500 in place of 1,500"
					    : NULL;
}

/* Whether "1,500", read with a decimal comma, may also mean 1500. */
static bool may_be_group(const struct sl_csv_number *n)
{
	const char *const first = n->plain + strspn(n->plain, "+-"), *const point = strchr(n->plain, '.');

	return *first != '0' && point - first <= 3 && strspn(point + 1, "0123456789") == 3 && !point[4];
}

/* Whether some cells can only be numbers with a decimal comma, and none has a decimal point. */
static bool has_commas(const struct sl_csv *s)
{
	bool commas = false;

	for (int64_t i = 0; i < s->cell.n; i++) {
		struct sl_csv_number n;

		if (sl_csv_number(sl_name(&s->cell, i), '.', &n)) {
			if (n.fraction)
				return false;
		} else if (sl_csv_number(sl_name(&s->cell, i), ',', &n)) {
			commas |= n.fraction && !may_be_group(&n);
		}
	}
	return commas;
}

void sl_csv_notice(struct sl_csv *s)
{
	int best = 1;

	for (const char *separator = ",;\t"; *separator; separator++) {
		struct sl_csv *as = calloc(1, sizeof *as);
		struct sl_fail why;

		if (!as)
			return;
		strcpy(as->path, s->path);
		as->form.separator = *separator;
		if (sl_csv_read(as, &why) == SL_OK && as->columns > best) {
			best = as->columns;
			s->form = as->form;
			s->form.comma = has_commas(as);
		}
		sl_csv_close(as);
		free(as);
	}
}
