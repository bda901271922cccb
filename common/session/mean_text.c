/* The list of a member's shared head and tail, in the payload of its Hello after the middle's graph. It tells the trunk
 * which parameters' changes it adds up.
 *
 *   ends 2
 *   graphs 0b8e51d3f4a6c297
 *   statistics 64
 *   parameter 432
 *   parameter 16
 *   table 50265 768
 *
 * A table is the parameter of an embedding: its rows, and the elements of a row. There is one spelling: a text that is
 * read must be the very bytes that writing it again gives. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/session/mean.h"

const char *sl_end_name(enum sl_ends_run end)
{
	return end == SL_END_GRAD ? "end_grad" : "end_mean";
}

const char *sl_cross_name(int cross)
{
	return cross < SL_DIR_COUNT ? sl_dir_name((enum sl_dir)cross)
				    : sl_end_name((enum sl_ends_run)(cross - SL_DIR_COUNT));
}

static const char first_line[] = "ends 2\n";

enum { LINE = 48 };
static const int64_t elements_most = SL_END_MAX_FLOATS; /* of all parameters together */

void sl_end_layout_write(const struct sl_end_layout *l, void (*put)(void *arg, const char *text, size_t len), void *arg)
{
	char line[LINE];

	put(arg, first_line, sizeof first_line - 1);
	put(arg, line, (size_t)snprintf(line, sizeof line, "graphs %016" PRIx64 "\n", l->graphs));
	put(arg, line, (size_t)snprintf(line, sizeof line, "statistics %" PRId64 "\n", l->stats));
	for (int i = 0; i < l->n; i++)
		put(arg, line,
		    (size_t)(l->row[i] ? snprintf(line, sizeof line, "table %" PRId64 " %" PRId64 "\n",
						  l->count[i] / l->row[i], l->row[i])
				       : snprintf(line, sizeof line, "parameter %" PRId64 "\n", l->count[i])));
}

/* The number whose digits are the `len` bytes at `at`; -1: these are no number in its only spelling. */
static int64_t number_of(const char *at, size_t len)
{
	int64_t number = 0;

	if (!len || (at[0] == '0' && len > 1))
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (at[i] < '0' || at[i] > '9' || number > elements_most)
			return -1;
		number = 10 * number + (at[i] - '0');
	}
	return number;
}

/* Takes a line "WORD NUMBER" or "WORD NUMBER NUMBER" off the front of *text; false: it is no such line. */
static bool take_line(struct sl_bytes *text, const char *word, int64_t *number, int n)
{
	const char *at = (const char *)text->data;
	const char *end = text->len ? memchr(at, '\n', text->len) : NULL;
	const size_t len = end ? (size_t)(end - at) : 0, front = strlen(word);

	if (!end || len >= LINE || len < front || memcmp(at, word, front) != 0)
		return false;
	at += front;
	for (int i = 0; i < n; i++) {
		const char *space =
			at < end && *at == ' ' && i < n - 1 ? memchr(at + 1, ' ', (size_t)(end - at - 1)) : end;

		if (at == end || *at != ' ' || !space)
			return false;
		number[i] = number_of(at + 1, (size_t)(space - at - 1));
		if (number[i] < 0)
			return false;
		at = space;
	}
	text->data += len + 1;
	text->len -= len + 1;
	return true;
}

/* Takes the line of the graphs' hash: 16 hexadecimal digits. */
static bool take_graphs(struct sl_bytes *text, uint64_t *hash)
{
	static const char word[] = "graphs ", digits[] = "0123456789abcdef";
	const size_t front = sizeof word - 1, len = front + 16 + 1;

	if (text->len < len || memcmp(text->data, word, front) != 0 || text->data[len - 1] != '\n')
		return false;
	*hash = 0;
	for (size_t i = front; i < len - 1; i++) {
		const char *digit = text->data[i] ? strchr(digits, text->data[i]) : NULL;

		if (!digit)
			return false;
		*hash = *hash << 4 | (uint64_t)(digit - digits);
	}
	text->data += len;
	text->len -= len;
	return true;
}

/* Takes a parameter's or a table's line. */
static bool take_parameter(struct sl_bytes *text, int64_t *count, int64_t *row)
{
	int64_t table[2];

	*row = 0;
	if (take_line(text, "parameter", count, 1))
		return *count > 0;
	if (!take_line(text, "table", table, 2) || table[0] < 1 || table[1] < 1 || table[0] > elements_most / table[1])
		return false;
	*count = table[0] * table[1];
	*row = table[1];
	return true;
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
		return refuse(fail, "does not begin with 'ends 2': is the other side older or newer?");
	text.data += first;
	text.len -= first;
	if (!take_graphs(&text, &l.graphs))
		return refuse(fail, "has no line 'graphs' with 16 hexadecimal digits");
	if (!take_line(&text, "statistics", &l.stats, 1))
		l.stats = -1;
	l.n = count_lines(text);
	if (l.stats < 0)
		return refuse(fail, "has no line 'statistics NUMBER'");
	if (l.n > SL_END_MAX_PARAMS)
		return sl_fail_set(fail, SL_ERR_LIMIT, "head and tail have %d parameters, where %d are the most", l.n,
				   SL_END_MAX_PARAMS);
	l.count = calloc(2 * (size_t)l.n + 1, sizeof *l.count);
	if (!l.count)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the head's and tail's parameters");
	l.row = l.count + l.n;
	for (int i = 0; i < l.n; i++) {
		if (!take_parameter(&text, &l.count[i], &l.row[i]) || l.grads > elements_most) {
			sl_end_layout_close(&l);
			return refuse(fail, "has a line that is neither 'parameter NUMBER' nor 'table ROWS FEATURES'");
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
	return a->graphs == b->graphs && a->n == b->n && a->stats == b->stats &&
	       memcmp(a->count, b->count, (size_t)a->n * sizeof *a->count) == 0 &&
	       memcmp(a->row, b->row, (size_t)a->n * sizeof *a->row) == 0;
}
