#include "common/graph/cut.h"

#include <stdio.h>
#include <string.h>

#include "common/base/nearest.h"

enum { MOST_NAMES = 3, MOST_NODES = 400 };
_Static_assert((int)SL_NAME_MAX <= (int)SL_NEAREST_LONGEST, "any name can be compared");

/* Boundary `at` lies before node `at`: it separates the nodes [0, at) from the others. Boundary -1: the input. */
struct values {
	int n;
	int value[SL_CUT_VALUES]; /* the first of them, in order of their nodes */
};

static bool is_read(const struct sl_model *m, int value, int first, int end)
{
	for (int i = first; i < end; i++)
		for (int j = 0; j < m->graph.node[i].n_in; j++)
			if (m->graph.link[m->graph.node[i].in + j] == value)
				return true;
	return false;
}

/* The values of nodes [made, made_end) that nodes [read, read_end) read. Nodes below 0 are the network's inputs, which
 * come first among values. Labels do not count: the client gives them to the tail itself. */
static struct values read_across(const struct sl_model *m, int made, int made_end, int read, int read_end)
{
	struct values v = {0};

	for (int i = made; i < made_end; i++) {
		const int value = i < 0 ? m->graph.n_in + i : m->graph.node[i].out;

		if (value == SL_BUILD_LABEL || !is_read(m, value, read, read_end))
			continue;
		if (v.n < SL_CUT_VALUES)
			v.value[v.n] = value;
		v.n++;
	}
	return v;
}

static bool is_input(const struct sl_model *m, int value)
{
	return m->graph.value[value].maker < 0;
}

/* What crosses at the head's end, or at the tail's start, of a cut at both boundaries. */
static struct values crossing_at(const struct sl_model *m, int head_at, int tail_at, bool head)
{
	return head ? read_across(m, -m->graph.n_in, head_at, head_at, tail_at)
		    : read_across(m, head_at, tail_at, tail_at, m->graph.n_node);
}

/* Boundaries of a cut, how many values may cross at each, and which of the two is looked at. */
struct sought {
	int head_at, tail_at, values;
	bool head;
};

static bool is_legal(const struct sl_model *m, const struct sought *s, int at)
{
	const int head_at = s->head ? at : s->head_at, tail_at = s->head ? s->tail_at : at;
	struct values v;

	if (head_at < 1 || head_at >= tail_at || tail_at >= m->graph.n_node)
		return false;
	v = crossing_at(m, head_at, tail_at, s->head);
	return v.n >= 1 && v.n <= s->values && !is_input(m, v.value[0]);
}

static const char *value_name(const struct sl_model *m, int value)
{
	int maker = m->graph.value[value].maker;

	return maker < 0 ? "the input" : m->graph.node[maker].name;
}

/* The name of a boundary, as the end of the head or the beginning of the tail: a unit's name if the boundary is one of
 * the unit's, else an op's. */
static const char *boundary_name(const struct sl_model *m, int at, bool as_head_end)
{
	for (int i = 0; i < m->n_unit; i++)
		if (at == (as_head_end ? m->unit[i].end_node : m->unit[i].first_node))
			return m->unit[i].name;
	return m->graph.node[as_head_end ? at - 1 : at].name;
}

static bool begins(const char *path, const char *name)
{
	size_t len = strlen(path);

	return len > 0 && !strncmp(path, name, len) && (name[len] == 0 || name[len] == '.');
}

/* Whether op `name` is `path` or lies in it. `path` may leave out the model's prefix. */
static bool path_holds(const struct sl_model *m, const char *path, const char *name)
{
	const size_t len = strlen(m->prefix);

	return begins(path, name) || (len && !strncmp(name, m->prefix, len) && begins(path, name + len));
}

static void keep_nearest(const char *near[MOST_NAMES], int far[MOST_NAMES], const char *name, const char *wanted)
{
	int d = sl_nearest_edits(wanted, strlen(wanted), name);

	for (int i = 0; i < MOST_NAMES; i++) {
		if (near[i] && far[i] < d) /* among equals the later wins: features.18 for features.19 */
			continue;
		memmove(near + i + 1, near + i, (size_t)(MOST_NAMES - 1 - i) * sizeof(*near));
		memmove(far + i + 1, far + i, (size_t)(MOST_NAMES - 1 - i) * sizeof(*far));
		near[i] = name;
		far[i] = d;
		return;
	}
}

static enum sl_err unknown_path(const struct sl_model *m, const char *key, const char *path, struct sl_fail *fail)
{
	const char *near[MOST_NAMES] = {0};
	int far[MOST_NAMES] = {0};
	char names[MOST_NAMES * (SL_NAME_MAX + 2)] = "";
	size_t used = 0;

	if (strlen(path) < SL_NAME_MAX) {
		for (int i = 0; i < m->n_unit; i++)
			keep_nearest(near, far, m->unit[i].name, path);
		for (int i = 0; i < m->graph.n_node; i++)
			keep_nearest(near, far, m->graph.node[i].name, path);
	}
	for (int i = 0; i < MOST_NAMES && near[i]; i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "; near it: ", near[i]);
	return sl_fail_at(fail, key, SL_ERR_CONFIG, "%s has no \"%.*s\"; units are %s … %s%s", m->name, SL_NAME_MAX,
			  path, m->unit[0].name, m->unit[m->n_unit - 1].name, names);
}

static int boundary_of(const struct sought *s)
{
	return s->head ? s->head_at : s->tail_at;
}

/* Writes the nearest legal boundaries before and behind the one that is sought; the cut's other one stays. "": there
 * are none. */
static void name_near(const struct sl_model *m, const struct sought *s, char near[2 * SL_NAME_MAX + 8])
{
	const int at = boundary_of(s), n = m->graph.n_node;
	int before = at - 1, after = at + 1;

	while (before > 0 && !is_legal(m, s, before))
		before--;
	while (after < n && !is_legal(m, s, after))
		after++;
	snprintf(near, 2 * SL_NAME_MAX + 8, "%s%s%s", before > 0 ? boundary_name(m, before, s->head) : "",
		 before > 0 && after < n ? " or " : "", after < n ? boundary_name(m, after, s->head) : "");
}

static enum sl_err illegal_boundary(const struct sl_model *m, const char *key, const struct sought *s,
				    struct sl_fail *fail)
{
	const char *where = boundary_name(m, boundary_of(s), s->head);
	const struct values v = crossing_at(m, s->head_at, s->tail_at, s->head);
	char near[2 * SL_NAME_MAX + 8], set[32] = "";

	name_near(m, s, near);
	if (v.n && is_input(m, v.value[0]))
		return sl_fail_at(fail, key, SL_ERR_CONFIG,
				  "the input %s would cross as it is at %s: end the head behind all layers that read "
				  "it; valid near it: %s",
				  m->graph.in[v.value[0]].name, where, near);
	if (v.n < 2)
		return sl_fail_at(fail, key, SL_ERR_CONFIG, "nothing crosses the cut at %s; valid near it: %s", where,
				  near);
	if (v.n <= SL_CUT_VALUES)
		snprintf(set, sizeof set, "set cut_values: %d, or ", v.n);
	return sl_fail_at(fail, key, SL_ERR_CONFIG,
			  "%d values cross the cut at %s (%s, %s%s%s%s), where cut_values allows %d: %scut at %s", v.n,
			  where, value_name(m, v.value[0]), value_name(m, v.value[1]), v.n > 2 ? ", " : "",
			  v.n > 2 ? value_name(m, v.value[2]) : "", v.n > 3 ? " …" : "", s->values, set, near);
}

/* A head's end behind the last node, or a tail's start at the first one, leaves nothing beyond it. */
static enum sl_err check_beyond(const struct sl_model *m, const char *key, const struct sought *s, struct sl_fail *fail)
{
	const int at = boundary_of(s);
	char near[2 * SL_NAME_MAX + 8];

	if (at >= 1 && at < m->graph.n_node)
		return SL_OK;
	name_near(m, s, near);
	return sl_fail_at(fail, key, SL_ERR_CONFIG, "nothing would be left beyond %s; valid near it: %s",
			  boundary_name(m, at, s->head), near);
}

/* The boundary that `path` names. */
static enum sl_err find_path(const struct sl_model *m, const char *key, const char *path, bool as_head_end, int *at,
			     struct sl_fail *fail)
{
	int first = -1, last = -1;

	/* Units come first, because not every network's ops have names that begin with their unit's. */
	for (int i = 0; i < m->n_unit; i++)
		if (strcmp(path, m->unit[i].name) == 0) {
			*at = as_head_end ? m->unit[i].end_node : m->unit[i].first_node;
			return SL_OK;
		}
	for (int i = 0; i < m->graph.n_node; i++) {
		if (!path_holds(m, path, m->graph.node[i].name))
			continue;
		if (first < 0)
			first = i;
		last = i;
	}
	if (first < 0)
		return unknown_path(m, key, path, fail);
	*at = as_head_end ? last + 1 : first;
	return SL_OK;
}

/* Reads a number, 1 … 9999, of digits only, and moves *text behind it. */
static bool parse_count(const char **text, int *out)
{
	int n = 0, digits = 0;

	for (; **text >= '0' && **text <= '9' && digits < 4; ++*text, digits++)
		n = n * 10 + (**text - '0');
	*out = n;
	return digits > 0 && n > 0;
}

static enum sl_err find_partition(const struct sl_model *m, const char *partition, int *head_at, int *tail_at,
				  struct sl_fail *fail)
{
	const char *p = partition;
	int first, last;
	bool ok = parse_count(&p, &first) && *p++ == ':' && *p++ == '-' && parse_count(&p, &last) && *p == 0;

	if (!ok)
		return sl_fail_at(fail, "partition", SL_ERR_CONFIG,
				  "\"%.40s\" is not A:-B (first A units | middle | last B units), as 1:-1 is",
				  partition);
	if (m->n_unit < 3)
		return sl_fail_at(
			fail, "partition", SL_ERR_CONFIG,
			"%s has %d unit%s, since more than one value crosses elsewhere, as between two towers: a "
			"middle needs a place behind the first unit where one value crosses. Else name head_end behind "
			"all "
			"layers that read the input, and tail_begin",
			m->name, m->n_unit, sl_plural(m->n_unit));
	if (first + last >= m->n_unit)
		return sl_fail_at(fail, "partition", SL_ERR_CONFIG,
				  "\"%s\" leaves no middle: %s has %d unit%s, %s … %s, and %d are taken", partition,
				  m->name, m->n_unit, sl_plural(m->n_unit), m->unit[0].name,
				  m->unit[m->n_unit - 1].name, first + last);
	*head_at = m->unit[first - 1].end_node;
	*tail_at = m->unit[m->n_unit - last].first_node;
	return SL_OK;
}

static void cut_tail(struct sl_cut *cut, const struct sl_model *model, int at)
{
	const struct values down = crossing_at(model, cut->head_end + 1, at, false);

	cut->tail_begin = at;
	cut->tail_value = down.value[0];
	cut->n_down = down.n;
	memcpy(cut->down, down.value, sizeof cut->down);
	snprintf(cut->text, sizeof cut->text, "head_end=%s tail_begin=%s",
		 boundary_name(model, cut->head_end + 1, true), boundary_name(model, at, false));
}

static enum sl_err find_homes(struct sl_cut *cut, const struct sl_model *m, const char *key, int head_at, int tail_at,
			      struct sl_fail *fail)
{
	const struct values v = read_across(m, -m->graph.n_in, head_at, tail_at, m->graph.n_node);

	if (v.n && m->graph.n_in > 2 && is_input(m, v.value[0]))
		return sl_fail_at(
			fail, key, SL_ERR_CONFIG,
			"the tail reads %s, and of several inputs none can stay at home: begin the tail later",
			m->graph.in[v.value[0]].name);
	if (v.n > SL_CUT_HOMES)
		return sl_fail_at(fail, key, SL_ERR_CONFIG,
				  "%d values of the head are read by the tail, and %d can be: end the head earlier, or "
				  "begin the tail later",
				  v.n, SL_CUT_HOMES);
	for (int i = 0; i < v.n; i++)
		if (m->graph.value[v.value[i]].dtype != SL_F32)
			return sl_fail_at(fail, key, SL_ERR_CONFIG,
					  "the tail reads %s, which is i32, and only f32 can stay at home: begin the "
					  "tail later",
					  value_name(m, v.value[i]));
	cut->n_home = v.n;
	memcpy(cut->home, v.value, sizeof cut->home);
	return SL_OK;
}

enum sl_err sl_cut_find(struct sl_cut *out, const struct sl_model *model, const char *partition, const char *head_end,
			const char *tail_begin, int values, struct sl_fail *fail)
{
	const char *head_key = head_end ? "head_end" : "partition", *tail_key = tail_begin ? "tail_begin" : "partition";
	struct sought head = {.values = values, .head = true}, tail;
	struct values up;
	enum sl_err err = SL_OK;

	if (!head_end || !tail_begin)
		err = find_partition(model, partition ? partition : "1:-1", &head.head_at, &head.tail_at, fail);
	if (!err && head_end)
		err = find_path(model, head_key, head_end, true, &head.head_at, fail);
	if (!err && tail_begin)
		err = find_path(model, tail_key, tail_begin, false, &head.tail_at, fail);
	tail = head;
	tail.head = false;
	if (!err)
		err = check_beyond(model, head_key, &head, fail);
	if (!err)
		err = check_beyond(model, tail_key, &tail, fail);
	if (err)
		return err;
	if (head.head_at >= head.tail_at)
		return sl_fail_at(fail, tail_begin ? tail_key : head_key, SL_ERR_CONFIG,
				  "no middle: the head ends after %s, and the tail begins at %s, which is no later op",
				  model->graph.node[head.head_at - 1].name, model->graph.node[head.tail_at].name);
	if (!is_legal(model, &head, head.head_at))
		return illegal_boundary(model, head_key, &head, fail);
	if (!is_legal(model, &tail, tail.tail_at))
		return illegal_boundary(model, tail_key, &tail, fail);
	err = find_homes(out, model, tail_key, head.head_at, head.tail_at, fail);
	if (err)
		return err;
	up = crossing_at(model, head.head_at, head.tail_at, true);
	out->head_end = head.head_at - 1;
	out->head_value = up.value[0];
	out->n_up = up.n;
	memcpy(out->up, up.value, sizeof out->up);
	cut_tail(out, model, head.tail_at);
	return SL_OK;
}

/* Whether nodes [first, end) have parameters: a middle without any is refused. */
static bool has_params(const struct sl_model *m, int first, int end)
{
	for (int i = first; i < end; i++)
		if (m->graph.node[i].n_param)
			return true;
	return false;
}

/* Floats of a row that cross at a cut with these boundaries; -1: it is not legal. */
static int64_t floats_at(const struct sl_model *m, struct sought s)
{
	int64_t floats = 0;

	for (int end = 0; end < 2; end++) {
		s.head = end == 0;
		if (!is_legal(m, &s, boundary_of(&s)))
			return -1;
		for (int i = 0; i < crossing_at(m, s.head_at, s.tail_at, s.head).n; i++)
			floats += sl_shape_row(
				&m->graph.value[crossing_at(m, s.head_at, s.tail_at, s.head).value[i]].shape);
	}
	return floats;
}

static int64_t macs_of(const struct sl_model *m, int first, int end)
{
	int64_t macs = 0;

	for (int i = first; i < end; i++) {
		const struct sl_op op = sl_graph_op(&m->graph, i);

		macs += sl_op_macs(&op, 1);
	}
	return macs;
}

bool sl_cut_cheaper(const struct sl_cut *cut, const struct sl_model *m, int values, struct sl_cut *out, double *part)
{
	const struct sought now = {.head_at = cut->head_end + 1, .tail_at = cut->tail_begin, .values = values};
	const int64_t sent = floats_at(m, now), spare = macs_of(m, 0, m->graph.n_node) / 20;
	struct sought best = now;
	int64_t least = sent / 2 + 1;
	struct sl_fail fail;

	if (m->graph.n_node > MOST_NODES || m->graph.most)
		return false;
	for (int head = now.head_at; head < now.tail_at && macs_of(m, now.head_at, head) <= spare; head++)
		for (int tail = now.tail_at; tail > head && macs_of(m, tail, now.tail_at) <= spare; tail--) {
			const struct sought s = {.head_at = head, .tail_at = tail, .values = values};
			const int64_t floats = floats_at(m, s);

			if (floats < 0 || floats >= least || !has_params(m, head, tail))
				continue;
			least = floats;
			best = s;
		}
	*part = (double)least / (double)sent;
	return least <= sent / 2 &&
	       !sl_cut_find(out, m, NULL, boundary_name(m, best.head_at, true), boundary_name(m, best.tail_at, false),
			    values, &fail) &&
	       out->head_end == best.head_at - 1 && out->tail_begin == best.tail_at && out->n_home > 0;
}

enum sl_err sl_cut_behind_gather(struct sl_cut *cut, const struct sl_model *model, struct sl_fail *fail)
{
	const struct sl_graph *g = &model->graph;
	const struct sl_node *node = &g->node[cut->tail_begin];

	if (model->task->kind != SL_LEARN_NEXT)
		return sl_fail_at(fail, "tail_tokens", SL_ERR_CONFIG, "loss is for model.head: causal_lm");
	if (node->kind != SL_OP_GATHER)
		return sl_fail_at(fail, "tail_tokens", SL_ERR_CONFIG,
				  "loss needs a tail in which no token sees another one: it begins at %s; take "
				  "partition \"A:-2\", with which it begins at norm",
				  boundary_name(model, cut->tail_begin, false));
	if (cut->n_home || cut->n_up > 1 || cut->n_down > 1)
		return sl_fail_at(fail, "tail_tokens", SL_ERR_CONFIG,
				  "loss goes with one value up, one down and none that stays at the client: cut "
				  "between two blocks");
	cut_tail(cut, model, cut->tail_begin + 1);
	return SL_OK;
}

void sl_cut_nodes(const struct sl_cut *cut, const struct sl_model *model, enum sl_segment segment, int *first, int *end)
{
	const int boundary[SL_SEGMENT_COUNT + 1] = {0, cut->head_end + 1, cut->tail_begin, model->graph.n_node};

	*first = boundary[segment];
	*end = boundary[segment + 1];
}

const char *sl_segment_name(enum sl_segment segment)
{
	static const char *const names[SL_SEGMENT_COUNT] = {"head", "middle", "tail"};

	return (unsigned)segment < SL_SEGMENT_COUNT ? names[segment] : "?";
}
