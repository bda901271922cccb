#include "common/link/gate.h"

#include <ctype.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

enum { LIST_BYTES = 1 << 20, LINE_BYTES_MIN = SL_KEY_TEXT + 1 };

enum { GROUPS = 256 }; /* bytes for the names of a client's groups, with NUL */

struct client {
	struct sl_key key;
	char name[SL_KEY_NAME];
	int line;
	char groups[GROUPS]; /* separated by commas */
};

struct sl_allow {
	int n;
	struct client client[]; /* sorted by key */
};

struct sl_gate {
	_Atomic(struct sl_allow *) list;
	_Atomic(struct sl_allow *) reading; /* the list that the handler reads, which must not be freed; NULL: none */
	_Atomic uint64_t refusals;          /* since the last sl_gate_take_refusal */
	atomic_bool full;                   /* who may use `last`: true: the loop's thread, false: the handler */
	struct sl_refusal last;
};

/* ---- lists */

static int by_key(const void *a, const void *b)
{
	const struct client *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof x->key);
}

static int by_name(const void *a, const void *b)
{
	const struct client *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Sorts the list by `order`; DATA: two neighbours are equal. */
static enum sl_err refuse_twice(struct sl_allow *allow, const char *file, const char *what,
				int (*order)(const void *a, const void *b), struct sl_fail *fail)
{
	struct client *c = allow->client;

	qsort(c, (size_t)allow->n, sizeof *c, order);
	for (int i = 1; i < allow->n; i++)
		if (order(&c[i - 1], &c[i]) == 0)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: lines %d and %d have the same %s", file,
					   c[i - 1].line < c[i].line ? c[i - 1].line : c[i].line,
					   c[i - 1].line < c[i].line ? c[i].line : c[i - 1].line, what);
	return SL_OK;
}

/* Where a line's remark begins; without one, the line's end. Only a "#" that begins a word begins a remark, since "#"
 * is a digit of Z85, too. */
static const char *remark_of(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == '#' && (i == 0 || isspace((unsigned char)text[i - 1])))
			return text + i;
	return text + len;
}

static const char label[] = "group=";

/* The first word that begins with the label, other than the line's first word; NULL: there is none. */
static const char *find_label(const char *text, const char *end)
{
	for (const char *at = text + 1; end - at >= (ptrdiff_t)sizeof label - 1; at++)
		if (isspace((unsigned char)at[-1]) && memcmp(at, label, sizeof label - 1) == 0)
			return at;
	return NULL;
}

/* Reads the word group=… behind a name into `groups`, and shortens *len to the text before it, KEY NAME. Returns what
 * is wrong with the line; NULL: nothing. */
static const char *take_groups(const char *text, size_t *len, char groups[GROUPS])
{
	const char *end = remark_of(text, *len), *at = find_label(text, end);
	const char *from = at ? at + sizeof label - 1 : NULL, *stop = from;
	size_t n;

	groups[0] = 0;
	if (!at)
		return NULL;
	while (stop < end && !isspace((unsigned char)*stop))
		stop++;
	n = (size_t)(stop - from);
	while (stop < end && isspace((unsigned char)*stop))
		stop++;
	if (stop < end)
		return "must be KEY NAME group=GROUP,…, and no word behind that";
	if (n < 1 || n >= GROUPS)
		return "names no group behind group=, or more than there is room for";
	memcpy(groups, from, n);
	groups[n] = 0;
	*len = (size_t)(at - text);
	return NULL;
}

static enum sl_err read_line(struct sl_allow *allow, const char *file, int line, const char *text, size_t len,
			     struct sl_fail *fail)
{
	struct client *c = &allow->client[allow->n];
	const char *why = NULL, *groups = take_groups(text, &len, c->groups);
	enum sl_key_line kind = sl_key_read_line(text, len, &c->key, c->name, &why);

	if (groups)
		why = groups;
	if (kind == SL_KEY_LINE_KEY && !c->name[0])
		why = "has no name after the key";
	if (why)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%d: line %s", file, line, why);
	c->line = line;
	allow->n += kind == SL_KEY_LINE_KEY;
	return SL_OK;
}

enum sl_err sl_allow_parse(struct sl_allow **out, const char *file, const char *text, size_t len, struct sl_fail *fail)
{
	/* one more than the lines with a key: each line is read into the next entry before it counts */
	struct sl_allow *allow = calloc(1, sizeof *allow + (len / LINE_BYTES_MIN + 2) * sizeof *allow->client);
	enum sl_err err = SL_OK;
	int line = 0;

	if (!allow)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for the list", file);
	for (const char *at = text, *end = text + len; !err && at < end;) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));

		if (!eol)
			eol = end;
		err = read_line(allow, file, ++line, at, (size_t)(eol - at), fail);
		at = eol + 1;
	}
	if (!err)
		err = refuse_twice(allow, file, "name", by_name, fail);
	if (!err)
		err = refuse_twice(allow, file, "key", by_key, fail);
	if (err)
		free(allow);
	else
		*out = allow;
	return err;
}

enum sl_err sl_allow_load(struct sl_allow **out, const char *path, struct sl_fail *fail)
{
	uint8_t *text;
	size_t len;
	enum sl_err err = sl_file_read_guarded(path, LIST_BYTES, &text, &len, fail);

	if (err)
		return err;
	err = sl_allow_parse(out, path, (const char *)text, len, fail);
	free(text);
	return err;
}

void sl_allow_free(struct sl_allow *allow)
{
	free(allow);
}

int sl_allow_count(const struct sl_allow *allow)
{
	return allow->n;
}

const char *sl_allow_name(const struct sl_allow *allow, const struct sl_key *key)
{
	const struct client wanted = {.key = *key};
	const struct client *c = bsearch(&wanted, allow->client, (size_t)allow->n, sizeof *allow->client, by_key);

	return c ? c->name : NULL;
}

bool sl_allow_in_group(const struct sl_allow *allow, const struct sl_key *key, const char *group)
{
	const struct client wanted = {.key = *key};
	const struct client *c = bsearch(&wanted, allow->client, (size_t)allow->n, sizeof *allow->client, by_key);
	const size_t len = strlen(group);

	for (const char *at = c ? c->groups : ""; *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == len && memcmp(at, group, len) == 0)
			return true;
	return false;
}

/* ---- the gate */

enum sl_err sl_gate_open(struct sl_gate **out, struct sl_allow *allow, struct sl_fail *fail)
{
	struct sl_gate *gate = calloc(1, sizeof *gate);

	if (!gate)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a gate");
	atomic_init(&gate->list, allow);
	*out = gate;
	return SL_OK;
}

void sl_gate_close(struct sl_gate *gate)
{
	if (!gate)
		return;
	sl_allow_free(atomic_load(&gate->list));
	free(gate);
}

const struct sl_allow *sl_gate_list(const struct sl_gate *gate)
{
	return atomic_load(&gate->list);
}

struct sl_allow *sl_gate_swap(struct sl_gate *gate, struct sl_allow *allow)
{
	struct sl_allow *old = atomic_exchange(&gate->list, allow);

	/* waits for one lookup at most: the handler's next one finds the new list */
	while (atomic_load(&gate->reading) == old)
		sched_yield();
	return old;
}

static bool is_listed(struct sl_gate *gate, const struct sl_key *key)
{
	struct sl_allow *list = atomic_load(&gate->list);
	bool listed;

	for (;;) {
		struct sl_allow *now;

		atomic_store(&gate->reading, list);
		now = atomic_load(&gate->list);
		if (now == list)
			break; /* the list was still current after it was marked: sl_gate_swap waits before giving it
				  back */
		list = now;
	}
	listed = sl_allow_name(list, key) != NULL;
	atomic_store(&gate->reading, NULL);
	return listed;
}

bool sl_gate_admit(struct sl_gate *gate, const struct sl_key *key, const char *address, size_t address_len)
{
	if (is_listed(gate, key))
		return true;
	atomic_fetch_add(&gate->refusals, 1);
	if (!atomic_load(&gate->full)) {
		gate->last.key = *key;
		snprintf(gate->last.address, sizeof gate->last.address, "%.*s",
			 (int)(address_len < SL_GATE_ADDRESS ? address_len : SL_GATE_ADDRESS), address);
		atomic_store(&gate->full, true);
	}
	return false;
}

bool sl_gate_take_refusal(struct sl_gate *gate, struct sl_refusal *out)
{
	if (!atomic_load(&gate->full))
		return false;
	*out = gate->last;
	out->count = atomic_exchange(&gate->refusals, 0);
	atomic_store(&gate->full, false);
	return true;
}
