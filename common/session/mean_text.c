/* What a group's members say of their heads and tails, so that the trunk can add up what changes there: a text behind
 * the graph of the middle.
 *
 *   ends 1
 *   statistics 64
 *   parameter 432
 *   parameter 16
 *
 * There is one spelling: what is read is the very bytes that writing it again gives. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/session/mean.h"

static const char first_line[] = "ends 1\n";

enum { LINE = 48 };
static const int64_t elements_most = SL_END_MAX_FLOATS; /* of all together */

void sl_end_layout_write(const struct sl_end_layout *l, void (*put)(void *arg, const char *text, size_t len), void *arg)
{
	char line[LINE];

	put(arg, first_line, sizeof first_line - 1);
	put(arg, line, (size_t)snprintf(line, sizeof line, "statistics %" PRId64 "\n", l->stats));
	for (int i = 0; i < l->n; i++)
		put(arg, line, (size_t)snprintf(line, sizeof line, "parameter %" PRId64 "\n", l->count[i]));
}

/* The number of a line "WORD NUMBER", and *text behind it; -1: it is none. */
static int64_t take_line(struct sl_bytes *text, const char *word)
{
	const char *at = (const char *)text->data;
	const char *end = text->len ? memchr(at, '\n', text->len) : NULL;
	const size_t len = end ? (size_t)(end - at) : 0, front = strlen(word);
	int64_t number = 0;

	if (!end || len >= LINE || len < front + 2 || memcmp(at, word, front) != 0 || at[front] != ' ' ||
	    (at[front + 1] == '0' && len > front + 2))
		return -1;
	for (size_t i = front + 1; i < len; i++) {
		if (at[i] < '0' || at[i] > '9' || number > elements_most)
			return -1;
		number = 10 * number + (at[i] - '0');
	}
	text->data += len + 1;
	text->len -= len + 1;
	return number;
}

static enum sl_err refuse(struct sl_fail *fail, const char *why)
{
	return sl_fail_set(fail, SL_ERR_PROTOCOL, "the list of the head's and tail's parameters %s", why);
}

static int count_lines(struct sl_bytes text)
{
	int n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += text.data[i] == '\n';
	return n;
}

enum sl_err sl_end_layout_read(struct sl_end_layout *out, struct sl_bytes text, struct sl_fail *fail)
{
	const size_t first = sizeof first_line - 1;
	struct sl_end_layout l = {0};

	if (text.len < first || memcmp(text.data, first_line, first) != 0)
		return refuse(fail, "does not begin with 'ends 1'");
	text.data += first;
	text.len -= first;
	l.stats = take_line(&text, "statistics");
	l.n = count_lines(text);
	if (l.stats < 0)
		return refuse(fail, "has no line 'statistics NUMBER'");
	if (l.n > SL_END_MAX_PARAMS)
		return sl_fail_set(fail, SL_ERR_LIMIT, "head and tail have %d parameters, where %d are the most", l.n,
				   SL_END_MAX_PARAMS);
	l.count = calloc((size_t)l.n + 1, sizeof *l.count);
	if (!l.count)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the head's and tail's parameters");
	for (int i = 0; i < l.n; i++) {
		l.count[i] = take_line(&text, "parameter");
		if (l.count[i] < 1 || l.grads > elements_most) {
			sl_end_layout_close(&l);
			return refuse(fail, "has a line that is not 'parameter NUMBER'");
		}
		l.grads += l.count[i];
	}
	l.floats = l.grads + 2 * l.stats;
	if (text.len || !l.floats || l.floats > elements_most) {
		sl_end_layout_close(&l);
		return text.len ? refuse(fail, "does not end with a line")
				: sl_fail_set(fail, SL_ERR_LIMIT,
					      "head and tail have more elements than a group can share, or none");
	}
	*out = l;
	return SL_OK;
}

bool sl_end_layout_same(const struct sl_end_layout *a, const struct sl_end_layout *b)
{
	return a->n == b->n && a->stats == b->stats && memcmp(a->count, b->count, (size_t)a->n * sizeof *a->count) == 0;
}
