#include "client/data/name_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/grow.h"

bool sl_names_add(struct sl_names *l, const char *text)
{
	const size_t n = strlen(text) + 1;

	if (!sl_grow(&l->text, &l->cap, l->bytes + n, 1) ||
	    !sl_grow(&l->at, &l->n_cap, (size_t)l->n + 1, sizeof *l->at))
		return false;
	memcpy(l->text + l->bytes, text, n);
	l->at[l->n++] = l->bytes;
	l->bytes += n;
	return true;
}

void sl_names_close(struct sl_names *l)
{
	free(l->text);
	free(l->at);
	*l = (struct sl_names){0};
}

static int by_text(const void *a, const void *b, void *text)
{
	return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

void sl_names_sort(struct sl_names *l)
{
	if (l->n > 1)
		qsort_r(l->at, (size_t)l->n, sizeof *l->at, by_text, l->text);
}

bool sl_names_twice(const struct sl_names *l, int64_t twice[2])
{
	struct sl_names sorted = {.text = l->text, .n = l->n, .at = malloc((size_t)l->n * sizeof *l->at + 1)};
	const char *text = NULL;
	int found = 0;

	twice[0] = twice[1] = -1;
	if (!sorted.at)
		return false;
	for (int64_t i = 0; i < l->n; i++)
		sorted.at[i] = l->at[i];
	sl_names_sort(&sorted);
	for (int64_t i = 1; i < l->n && !text; i++)
		text = strcmp(sl_name(&sorted, i), sl_name(&sorted, i - 1)) == 0 ? sl_name(&sorted, i) : NULL;
	for (int64_t i = 0; i < l->n && text && found < 2; i++)
		if (strcmp(sl_name(l, i), text) == 0)
			twice[found++] = i;
	free(sorted.at);
	return true;
}

bool sl_text_number(const char *text, double *out)
{
	static const char blanks[] = " \t";
	char *end;

	text += strspn(text, blanks);
	if (text[strspn(text, "0123456789+-.eE \t")])
		return false;
	*out = strtod(text, &end);
	return end != text && !end[strspn(end, blanks)] && isfinite(*out);
}

static int by_number(const void *a, const void *b, void *text)
{
	const double x = strtod((const char *)text + *(const size_t *)a, NULL);
	const double y = strtod((const char *)text + *(const size_t *)b, NULL);

	return (x > y) - (x < y);
}

bool sl_names_different(struct sl_names *out, struct sl_names *all)
{
	bool numbers = true;
	double unused;

	sl_names_sort(all);
	for (int64_t i = 0; i < all->n; i++) {
		if (i && strcmp(sl_name(all, i), sl_name(all, i - 1)) == 0)
			continue;
		if (!sl_names_add(out, sl_name(all, i)))
			return false;
		numbers = numbers && sl_text_number(sl_name(all, i), &unused);
	}
	if (numbers && out->n > 1)
		qsort_r(out->at, (size_t)out->n, sizeof *out->at, by_number, out->text);
	return true;
}
