#include "common/graph/graph_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/real.h"

static const char first_line[] = "graph 1\n";
static const char lead_word[] = {'R', 'T', 'C'};
static const char *const role_word[] = {
	[SL_LEARNS] = "", [SL_FROZEN] = "frozen", [SL_STATISTIC] = "stat", [SL_TIED] = "tied"};
static const char *const held_word[] = {[SL_F32] = "", [SL_F16] = "f16", [SL_BF16] = "bf16"};
static const char *const init_word[SL_INIT_COUNT] = {"zero", "one", "eye", "file", "normal", "uniform"};

static const char *dtype_word(enum sl_dtype dtype)
{
	return dtype == SL_I32 ? "i32" : "f32";
}

static bool is_random(enum sl_init_kind kind)
{
	return kind == SL_INIT_NORMAL || kind == SL_INIT_UNIFORM;
}

/* ---- writing */

struct writer {
	void (*put)(void *arg, const char *text, size_t len);
	void *arg;
};

static void say(const struct writer *w, const char *fmt, ...) SL_PRINTF(2, 3);

static void say(const struct writer *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	w->put(w->arg, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* Writes the shortest decimal that reads back to the same binary32. */
static void say_real(const struct writer *w, const char *before, float x)
{
	char text[32];

	for (int digits = 1; digits <= 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, (double)x);
		if (strtof(text, NULL) == x)
			break;
	}
	say(w, "%s%s", before, text);
}

/* The same for binary64: the schedule of a decaying insert is computed in it. */
static void say_wide(const struct writer *w, const char *before, double x)
{
	char text[SL_REAL_TEXT];

	say(w, "%s%s", before, sl_real_text(x, 1, text));
}

static void say_dims(const struct writer *w, const struct sl_shape *s, int from)
{
	say(w, "[");
	for (int i = from; i < s->ndim; i++)
		say(w, "%s%" PRId64, i > from ? "," : "", s->dim[i]);
	say(w, "]");
}

static void say_decay(const struct writer *w, const struct sl_decay *d)
{
	if (!d->full)
		return;
	say_wide(w, " decay=", d->rate);
	say(w, ",%" PRId64 ",%d", d->every, d->times);
	say_wide(w, ",", d->l1);
	say(w, ",%" PRId64, d->from);
	if (d->tokens)
		say_wide(w, ",", d->rate2);
}

static void say_in(const struct writer *w, const struct sl_graph *g, const struct sl_field *f)
{
	const struct sl_graph_value *v = &g->value[f->value];

	say(w, "in %s %s %c", f->name, dtype_word(v->dtype), lead_word[v->lead]);
	say_dims(w, &v->shape, 1);
	if (f->most != 1)
		say(w, " most=%d", f->most);
	say_decay(w, &f->decay);
	if (f->still)
		say(w, " still");
	say(w, "\n");
}

static void say_param(const struct writer *w, const struct sl_param *p)
{
	say(w, "param %s ", p->name);
	say_dims(w, &p->shape, 0);
	if (p->role != SL_LEARNS)
		say(w, " %s", role_word[p->role]);
	else if (p->group)
		say(w, " g%d", p->group);
	if (p->held)
		say(w, " %s", held_word[p->held]);
	say(w, " %s", init_word[p->init.kind]);
	if (is_random(p->init.kind)) {
		say_real(w, ":", p->init.scale);
		say(w, ":%u", p->stream);
	}
	say(w, "\n");
}

static void say_attr(const struct writer *w, const struct sl_node *node, const struct sl_attr *a)
{
	const double x = sl_attr_get(node, a, 0), y = a->type == SL_ATTR_PAIR ? sl_attr_get(node, a, 1) : a->standard;
	const bool usual = a->type == SL_ATTR_REAL ? (float)x == (float)a->standard : x == a->standard;

	if (usual && y == a->standard)
		return;
	say(w, " %s=", a->key);
	if (a->type == SL_ATTR_REAL)
		say_real(w, "", (float)x);
	else if (a->type == SL_ATTR_ACT)
		say(w, "%s", sl_act_name((enum sl_act)x));
	else if (a->type == SL_ATTR_PAIR)
		say(w, "%d,%d", (int)x, (int)y);
	else
		say(w, "%d", (int)x);
}

static void say_node(const struct writer *w, const struct sl_graph *g, const struct sl_node *node)
{
	const struct sl_attr *a;

	say(w, "node %s %s", node->name, sl_op_kind_name(node->kind));
	for (int i = 0; i < node->n_in; i++)
		say(w, " %%%d", g->link[node->in + i]);
	for (int i = 0; i < node->n_param; i++)
		say(w, " &%d", g->link[node->param + i]);
	for (int i = 0; (a = sl_op_attr(node->kind, i)); i++)
		say_attr(w, node, a);
	say(w, "\n");
}

void sl_graph_write(const struct sl_graph *g, void (*put)(void *arg, const char *text, size_t len), void *arg)
{
	const struct writer w = {put, arg};

	put(arg, first_line, sizeof first_line - 1);
	for (int i = 0; i < g->n_in; i++)
		say_in(&w, g, &g->in[i]);
	for (int i = 0; i < g->n_param; i++)
		say_param(&w, &g->param[i]);
	for (int i = 0; i < g->n_node; i++)
		say_node(&w, g, &g->node[i]);
	for (int i = 0; i < g->n_out; i++) {
		say(&w, "out %s %%%d", g->out[i].name, g->out[i].value);
		say_decay(&w, &g->out[i].decay);
		say(&w, "\n");
	}
}

/* ---- reading: one line at a time, as words between single blanks */

enum { LINE_MAX_BYTES = 512, SECTIONS = 4 };
static const char *const section_word[SECTIONS] = {"in", "param", "node", "out"};

struct reader {
	struct sl_graph g;
	char line[LINE_MAX_BYTES];
	char *rest; /* the unread rest of the line; NULL: none */
	int number, section;
	struct sl_fail *fail;
};

static enum sl_err misspelled(const struct reader *r, const char *what)
{
	return sl_fail_set(r->fail, SL_ERR_PROTOCOL, "the graph's line %d: no %s where one must stand", r->number,
			   what);
}

static char *next_word(struct reader *r)
{
	return r->rest ? strsep(&r->rest, " ") : NULL;
}

/* Reads a whole number from 0 to `most` at *at, and moves *at behind it; false: there is none. */
static bool take_int(const char **at, int64_t most, int64_t *out)
{
	int64_t n = 0;

	if (!isdigit((unsigned char)**at))
		return false;
	for (; isdigit((unsigned char)**at); ++*at) {
		n = n * 10 + (**at - '0');
		if (n > most)
			return false;
	}
	*out = n;
	return true;
}

static bool take_char(const char **at, char c)
{
	if (**at != c)
		return false;
	++*at;
	return true;
}

/* Reads a decimal number; `wide`: as binary64. sl_graph_read compares the exact spelling later. */
static bool take_real(const char **at, bool wide, double *out)
{
	char text[40], *end;
	size_t len = strspn(*at, "0123456789+-.e");

	if (len == 0 || len >= sizeof text)
		return false;
	memcpy(text, *at, len);
	text[len] = 0;
	*out = wide ? strtod(text, &end) : (double)strtof(text, &end);
	*at += len;
	return !*end;
}

/* Reads dimensions, as "[1,2]", and puts `front` dimensions of 1 in front of them. */
static bool take_dims(const char **at, int front, struct sl_shape *s)
{
	*s = (struct sl_shape){.ndim = front};
	for (int i = 0; i < front; i++)
		s->dim[i] = 1;
	if (!take_char(at, '['))
		return false;
	if (take_char(at, ']'))
		return front > 0;
	do
		if (s->ndim == SL_MAX_DIMS || !take_int(at, SL_GRAPH_MOST_ELEMENTS, &s->dim[s->ndim++]))
			return false;
	while (take_char(at, ','));
	return take_char(at, ']');
}

static bool take_decay(const char *at, const struct sl_shape *shape, struct sl_decay *d)
{
	int64_t times = 0;

	*d = (struct sl_decay){.full = (int)shape->dim[shape->ndim - 1]};
	if (!take_real(&at, true, &d->rate) || !take_char(&at, ',') || !take_int(&at, SL_DECAY_MAX_EVERY, &d->every) ||
	    !take_char(&at, ',') || !take_int(&at, SL_DECAY_MAX_TIMES, &times) || !take_char(&at, ',') ||
	    !take_real(&at, true, &d->l1) || !take_char(&at, ',') || !take_int(&at, INT64_MAX / 16, &d->from))
		return false;
	d->times = (int)times;
	if (!*at)
		return true;
	d->tokens = d->full;
	d->full = shape->ndim == 3 ? (int)shape->dim[1] : 0;
	return d->full && take_char(&at, ',') && take_real(&at, true, &d->rate2) && !*at;
}

static enum sl_err read_in(struct reader *r)
{
	const char *name = next_word(r), *dtype = next_word(r), *at = next_word(r), *word;
	enum sl_lead lead;
	struct sl_decay decay = {0};
	struct sl_shape shape;
	bool still = false;
	int64_t most = 1;
	enum sl_err err;

	if (!name || !dtype || !at || (strcmp(dtype, "f32") != 0 && strcmp(dtype, "i32") != 0))
		return misspelled(r, "NAME f32 or i32 SHAPE");
	lead = *at == 'T' ? SL_PER_TOKEN : *at == 'C' ? SL_PER_CHOSEN : SL_PER_ROW;
	if (!take_char(&at, lead_word[lead]) || !take_dims(&at, 1, &shape) || *at)
		return misspelled(r, "shape");
	while ((word = next_word(r))) {
		if (strncmp(word, "most=", 5) == 0) {
			word += 5;
			if (!take_int(&word, UINT16_MAX, &most) || *word)
				return misspelled(r, "most=TOKENS");
		} else if (strcmp(word, "still") == 0) {
			still = true;
		} else if (strncmp(word, "decay=", 6) != 0 || !take_decay(word + 6, &shape, &decay)) {
			return misspelled(r, "most=, decay=RATE,EVERY,TIMES,L1,FROM[,RATE2] or still");
		}
	}
	err = sl_graph_add_input(&r->g, name, dtype[0] == 'i' ? SL_I32 : SL_F32, lead, shape, (int)most, &decay,
				 r->fail);
	if (!err)
		r->g.in[r->g.n_in - 1].still = still;
	return err;
}

static bool read_init(const char *at, struct sl_param *p)
{
	const size_t len = strcspn(at, ":");
	int64_t stream;
	double scale;
	int kind = 0;

	while (kind < SL_INIT_COUNT && (strlen(init_word[kind]) != len || strncmp(at, init_word[kind], len) != 0))
		kind++;
	if (kind == SL_INIT_COUNT)
		return false;
	p->init.kind = (enum sl_init_kind)kind;
	at += len;
	if (!is_random(p->init.kind))
		return !*at;
	if (!take_char(&at, ':') || !take_real(&at, false, &scale) || !take_char(&at, ':') ||
	    !take_int(&at, UINT32_MAX, &stream))
		return false;
	p->init.scale = (float)scale;
	p->stream = (uint32_t)stream;
	return !*at;
}

static enum sl_err read_param(struct reader *r)
{
	const char *name = next_word(r), *at = next_word(r), *word = next_word(r);
	struct sl_param p = {0};
	int64_t group = 0;

	if (!name || strlen(name) >= sizeof p.name || !at || !take_dims(&at, 0, &p.shape) || *at || !word)
		return misspelled(r, "NAME [SIZES] INITIALISATION");
	memcpy(p.name, name, strlen(name) + 1);
	for (int role = SL_FROZEN; role <= SL_TIED; role++)
		if (strcmp(word, role_word[role]) == 0)
			p.role = (enum sl_role)role;
	if (p.role != SL_LEARNS) {
		word = next_word(r);
		for (int held = SL_F16; held <= SL_BF16 && word; held++)
			if (strcmp(word, held_word[held]) == 0)
				p.held = (enum sl_dtype)held;
		word = p.held ? next_word(r) : word;
	} else if (*word == 'g') {
		word++;
		if (!take_int(&word, INT_MAX, &group) || *word)
			return misspelled(r, "gNUMBER of a group");
		p.group = (int)group;
		word = next_word(r);
	}
	if (!word || !read_init(word, &p) || r->rest)
		return misspelled(r, "initialisation");
	return sl_graph_add_param(&r->g, &p, r->fail);
}

static bool read_value(const struct sl_attr *a, const char *at, double value[2])
{
	int64_t whole[2] = {0, 0};

	if (a->type == SL_ATTR_REAL)
		return take_real(&at, false, &value[0]) && !*at;
	if (a->type == SL_ATTR_ACT) {
		while (whole[0] < SL_ACT_COUNT && strcmp(at, sl_act_name((enum sl_act)whole[0])) != 0)
			whole[0]++;
		value[0] = (double)whole[0];
		return whole[0] < SL_ACT_COUNT;
	}
	if (!take_int(&at, INT_MAX, &whole[0]) ||
	    (a->type == SL_ATTR_PAIR && (!take_char(&at, ',') || !take_int(&at, INT_MAX, &whole[1]))))
		return false;
	value[0] = (double)whole[0];
	value[1] = (double)whole[1];
	return !*at;
}

static enum sl_err read_attr(const struct reader *r, struct sl_node *node, const char *word)
{
	const size_t len = strcspn(word, "=");
	const struct sl_attr *a;
	double value[2] = {0, 0};

	for (int i = 0; (a = sl_op_attr(node->kind, i)); i++)
		if (strlen(a->key) == len && strncmp(a->key, word, len) == 0)
			break;
	if (!a || word[len] != '=')
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "a %s has no '%.60s' here: is the other side newer?",
				   sl_op_kind_name(node->kind), word);
	if (!read_value(a, word + len + 1, value) || !sl_attr_set(node, a, 0, value[0]) ||
	    (a->type == SL_ATTR_PAIR && !sl_attr_set(node, a, 1, value[1])))
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "'%.60s' is out of bounds", word);
	return SL_OK;
}

/* Reads a reference, as "%3" or "&3", into list[(*n)++]; false: misspelled, or the list already has `most`. */
static bool read_link(const char *word, char mark, int *list, int most, int *n)
{
	int64_t number;

	if (!take_char(&word, mark) || *n == most || !take_int(&word, INT_MAX, &number) || *word)
		return false;
	list[(*n)++] = (int)number;
	return true;
}

static enum sl_err read_kind(const struct reader *r, const char *word, struct sl_node *node)
{
	for (int kind = 0; kind < SL_OP_COUNT; kind++)
		if (strcmp(word, sl_op_kind_name((enum sl_op_kind)kind)) == 0) {
			*node = sl_node_of((enum sl_op_kind)kind);
			return SL_OK;
		}
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "no op '%.40s' is known here: is the other side newer?", word);
}

static enum sl_err read_links(struct reader *r, const char *kind, const char *name)
{
	int in[SL_OP_MAX_IN], param[SL_OP_MAX_PARAM];
	struct sl_node node;
	const char *word;
	enum sl_err err = read_kind(r, kind, &node);

	if (err)
		return err;
	memcpy(node.name, name, strlen(name) + 1);
	for (word = next_word(r); word && *word == '%'; word = next_word(r))
		if (!read_link(word, '%', in, SL_OP_MAX_IN, &node.n_in))
			return misspelled(r, "value that an op takes");
	for (; word && *word == '&'; word = next_word(r))
		if (!read_link(word, '&', param, SL_OP_MAX_PARAM, &node.n_param))
			return misspelled(r, "parameter that an op takes");
	for (; word && !err; word = next_word(r))
		err = read_attr(r, &node, word);
	return err ? err : sl_graph_add_node(&r->g, &node, in, param, NULL, r->fail);
}

static enum sl_err read_node(struct reader *r)
{
	const char *name = next_word(r), *kind = next_word(r), *text;
	char key[SL_FAIL_KEY];
	struct sl_fail why;
	enum sl_err err;

	if (!name || strlen(name) >= SL_NAME_MAX || !kind)
		return misspelled(r, "NAME KIND");
	err = read_links(r, kind, name);
	if (!err)
		return SL_OK;
	why = *r->fail;
	text = why.text;
	if (strncmp(text, name, strlen(name)) == 0 && strncmp(text + strlen(name), ": ", 2) == 0)
		text += strlen(name) + 2; /* the key has the name already */
	snprintf(key, sizeof key, "node %s", name);
	return sl_fail_at(r->fail, key, err, "%s", text);
}

static enum sl_err read_out(struct reader *r)
{
	const char *name = next_word(r), *at = next_word(r), *word = next_word(r);
	struct sl_decay decay = {0};
	int64_t value;

	if (!name || !at || !take_char(&at, '%') || !take_int(&at, INT_MAX, &value) || *at)
		return misspelled(r, "NAME %VALUE");
	if (word && (value >= r->g.n_value || strncmp(word, "decay=", 6) != 0 ||
		     !take_decay(word + 6, &r->g.value[value].shape, &decay) || r->rest))
		return misspelled(r, "decay=RATE,EVERY,TIMES,L1,FROM[,RATE2]");
	return sl_graph_add_output(&r->g, name, (int)value, &decay, r->fail);
}

static enum sl_err read_line(struct reader *r)
{
	static enum sl_err (*const read[SECTIONS])(struct reader * r) = {read_in, read_param, read_node, read_out};
	const char *word;

	r->rest = r->line;
	word = next_word(r);
	while (r->section < SECTIONS && strcmp(word, section_word[r->section]) != 0)
		r->section++;
	return r->section < SECTIONS ? read[r->section](r) : misspelled(r, "in, param, node or out, in this order,");
}

/* ---- the whole text */

/* Checks that the text is lines of printable ASCII, each ended, and counts them by their first words. */
static enum sl_err count_lines(const char *text, size_t len, struct sl_graph_room *room, struct sl_fail *fail)
{
	int *const count[SECTIONS] = {&room->in, &room->params, &room->nodes, &room->out};

	if (len > SL_GRAPH_TEXT_MAX)
		return sl_fail_set(fail, SL_ERR_LIMIT, "a graph of %zu bytes where %d are the most", len,
				   SL_GRAPH_TEXT_MAX);
	if (len < sizeof first_line || memcmp(text, first_line, sizeof first_line - 1) != 0 || text[len - 1] != '\n')
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "a graph begins with 'graph 1' and ends with a line's end");
	for (size_t i = 0; i < len; i++)
		if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
			return sl_fail_set(fail, SL_ERR_PROTOCOL, "the graph's byte %zu is not printable ASCII", i);
	for (size_t at = sizeof first_line - 1; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		const size_t bytes = (size_t)(end - text) - at;

		if (bytes >= LINE_MAX_BYTES)
			return sl_fail_set(fail, SL_ERR_LIMIT,
					   "the graph has a line of %zu bytes where %d are the most", bytes,
					   LINE_MAX_BYTES - 1);
		for (int s = 0; s < SECTIONS; s++)
			*count[s] += bytes > strlen(section_word[s]) &&
				     strncmp(text + at, section_word[s], strlen(section_word[s])) == 0 &&
				     text[at + strlen(section_word[s])] == ' ';
		at += bytes + 1;
	}
	room->links = room->nodes * 2 + room->params;
	return SL_OK;
}

static enum sl_err read_lines(struct reader *r, const char *text, size_t len)
{
	enum sl_err err = SL_OK;

	r->number = 1;
	for (size_t at = sizeof first_line - 1; at < len && !err;) {
		const size_t bytes = (size_t)((const char *)memchr(text + at, '\n', len - at) - text) - at;

		memcpy(r->line, text + at, bytes);
		r->line[bytes] = 0;
		r->number++;
		err = read_line(r);
		at += bytes + 1;
	}
	return err;
}

struct comparison {
	const char *text;
	size_t left;
	bool same;
};

static void compare(void *arg, const char *text, size_t len)
{
	struct comparison *c = arg;

	c->same = c->same && len <= c->left && memcmp(c->text, text, len) == 0;
	if (!c->same)
		return;
	c->text += len;
	c->left -= len;
}

enum sl_err sl_graph_read(struct sl_graph *g, const char *text, size_t len, struct sl_fail *fail)
{
	struct comparison again = {text, len, true};
	struct reader r = {.fail = fail};
	struct sl_graph_room room = {0};
	enum sl_err err = count_lines(text, len, &room, fail);

	if (err)
		return err;
	err = sl_graph_reserve(&r.g, &room, fail);
	if (!err)
		err = read_lines(&r, text, len);
	if (!err) {
		sl_graph_write(&r.g, compare, &again);
		if (!again.same || again.left)
			err = sl_fail_set(
				fail, SL_ERR_PROTOCOL,
				"the graph is not spelled as it must be: from byte %zu on it is written otherwise",
				len - again.left);
	}
	if (!err)
		err = sl_graph_check(&r.g, fail);
	if (err)
		sl_graph_close(&r.g);
	else
		*g = r.g;
	return err;
}
