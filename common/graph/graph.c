#include "common/graph/graph.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/graph/slices.h"

enum { FIRST_CAP = 32 };

static enum sl_err grow(void **list, int need, int most, int *cap, size_t size, const char *what, struct sl_fail *fail)
{
	int more = *cap ? *cap : FIRST_CAP;
	void *bigger;

	if (need <= *cap)
		return SL_OK;
	if (need > most)
		return sl_fail_set(fail, SL_ERR_LIMIT, "a graph has at most %d %s", most, what);
	while (more < need)
		more *= 2;
	bigger = realloc(*list, (size_t)more * size);
	if (!bigger)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a graph of %d %s", more, what);
	*list = bigger;
	*cap = more;
	return SL_OK;
}

#define GROW(list, need, most, what) grow((void **)&g->list, need, most, &g->cap_##list, sizeof *g->list, what, fail)
enum { MOST_VALUES = SL_GRAPH_MOST_NODES + SL_GRAPH_MOST_FIELDS, MOST_LINKS = 8 * SL_GRAPH_MOST_NODES };

enum sl_err sl_graph_reserve(struct sl_graph *g, const struct sl_graph_room *room, struct sl_fail *fail)
{
	enum sl_err err = GROW(node, room->nodes, SL_GRAPH_MOST_NODES, "nodes");

	if (!err)
		err = GROW(param, room->params, SL_GRAPH_MOST_PARAMS, "parameters");
	if (!err)
		err = GROW(in, room->in, SL_GRAPH_MOST_FIELDS, "inputs");
	if (!err)
		err = GROW(out, room->out, SL_GRAPH_MOST_FIELDS, "outputs");
	if (!err)
		err = GROW(value, room->in + room->nodes, MOST_VALUES, "values");
	return err ? err : GROW(link, room->links, MOST_LINKS, "links");
}

void sl_graph_close(struct sl_graph *g)
{
	free(g->value);
	free(g->param);
	free(g->node);
	free(g->in);
	free(g->out);
	free(g->link);
	*g = (struct sl_graph){0};
}

/* Names appear in messages, in logs and in the graph's text, where blanks separate words. */
static enum sl_err check_name(const char *name, struct sl_fail *fail)
{
	size_t len = strnlen(name, SL_NAME_MAX), plain = 0;

	if (len == SL_NAME_MAX)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the name %.40s… is longer than %d bytes", name,
				   SL_NAME_MAX - 1);
	if (!len)
		return sl_fail_set(fail, SL_ERR_CONFIG, "a name in a graph is empty");
	while (name[plain] > ' ' && name[plain] < 0x7f)
		plain++;
	return plain == len
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_CONFIG,
				     "a name in a graph, '%.*s…', has %s: letters, digits and signs of ASCII are right",
				     (int)plain, name,
				     name[plain] == ' ' ? "a blank" : "a byte that is not printable ASCII");
}

/* Checks the number of elements of a shape against the bounds, and adds it to *total. */
static enum sl_err count_elements(const char *name, const struct sl_shape *shape, int64_t *total, struct sl_fail *fail)
{
	int64_t count;
	bool fits = shape->ndim >= 1 && shape->ndim <= SL_MAX_DIMS &&
		    sl_shape_count_checked(shape, SL_GRAPH_MOST_ELEMENTS, &count);

	if (!fits || *total + count > SL_GRAPH_MOST_TOTAL)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s: too large a model: a tensor has 1 to 2^31 - 1 elements, all together have 2^40",
				   name);
	*total += count;
	return SL_OK;
}

static enum sl_err add_value(struct sl_graph *g, const char *name, const struct sl_graph_value *value,
			     struct sl_fail *fail)
{
	int64_t total = g->elements[0];
	enum sl_err err = count_elements(name, &value->shape, &total, fail);

	if (!err)
		err = GROW(value, g->n_value + 1, MOST_VALUES, "values");
	if (err)
		return err;
	g->elements[0] = total;
	g->value[g->n_value++] = *value;
	return SL_OK;
}

enum sl_err sl_graph_add_input(struct sl_graph *g, const char *name, enum sl_dtype dtype, enum sl_lead lead,
			       struct sl_shape shape, int most, const struct sl_decay *decay, struct sl_fail *fail)
{
	struct sl_field field = {.value = g->n_value, .most = most, .decay = decay ? *decay : (struct sl_decay){0}};
	enum sl_err err = check_name(name, fail);

	if (!err && (g->n_node || shape.dim[0] != 1 || most < 1 || most > UINT16_MAX ||
		     (lead != SL_PER_ROW && lead != SL_PER_TOKEN && lead != SL_PER_CHOSEN) ||
		     (lead != SL_PER_TOKEN && most != 1)))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s: an input is per row, or per token of 1 to %d", name,
				  UINT16_MAX);
	if (!err && dtype != SL_F32 && dtype != SL_I32)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s: an input is f32 or i32", name);
	if (!err)
		err = GROW(in, g->n_in + 1, SL_GRAPH_MOST_FIELDS, "inputs");
	if (!err)
		err = add_value(g, name, &(struct sl_graph_value){dtype, lead, shape, -1}, fail);
	if (err)
		return err;
	memcpy(field.name, name, strlen(name));
	if (lead == SL_PER_TOKEN && !g->n_in)
		g->most = most;
	g->in[g->n_in++] = field;
	return SL_OK;
}

enum sl_err sl_graph_add_param(struct sl_graph *g, const struct sl_param *param, struct sl_fail *fail)
{
	int64_t total = g->elements[1];
	enum sl_err err = check_name(param->name, fail);

	if (!err)
		err = count_elements(param->name, &param->shape, &total, fail);
	if (!err && ((unsigned)param->init.kind >= SL_INIT_COUNT || (unsigned)param->role > SL_TIED ||
		     param->group < 0 || !(param->init.scale >= 0 && param->init.scale <= 1e6f)))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s: unknown initialisation, role or group", param->name);
	if (!err && param->held != SL_F32 &&
	    ((param->held != SL_BF16 && param->held != SL_F16) || param->role != SL_FROZEN ||
	     param->init.kind != SL_INIT_FILE))
		err = sl_fail_set(fail, SL_ERR_CONFIG,
				  "%s: only a frozen parameter with weights from a file can be held in 16 bits",
				  param->name);
	if (!err)
		err = GROW(param, g->n_param + 1, SL_GRAPH_MOST_PARAMS, "parameters");
	if (err)
		return err;
	g->elements[1] = total;
	g->param[g->n_param++] = *param;
	return SL_OK;
}

static int most_of(const struct sl_graph *g)
{
	return g->most ? g->most : 1;
}

enum sl_err sl_graph_add_output(struct sl_graph *g, const char *name, int value, const struct sl_decay *decay,
				struct sl_fail *fail)
{
	struct sl_field field = {.value = value, .most = 1, .decay = decay ? *decay : (struct sl_decay){0}};
	enum sl_err err = check_name(name, fail);

	if (!err && (value < 0 || value >= g->n_value || g->value[value].maker < 0))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s: no node makes the output's value", name);
	if (!err)
		err = GROW(out, g->n_out + 1, SL_GRAPH_MOST_FIELDS, "outputs");
	if (err)
		return err;
	if (g->value[value].lead == SL_PER_TOKEN)
		field.most = most_of(g);
	memcpy(field.name, name, strlen(name));
	g->out[g->n_out++] = field;
	return SL_OK;
}

/* Whether an input is a loss' labels or targets: kernels do not get these among their inputs. */
static bool is_answer(enum sl_op_kind kind, int input)
{
	return sl_op_is_loss(kind) && input == 1;
}

struct sl_op sl_graph_op(const struct sl_graph *g, int index)
{
	const struct sl_node *node = &g->node[index];
	struct sl_op op = {
		.kind = node->kind, .stream = node->stream, .slices = node->slices, .out = node->out, .u = node->u};

	memcpy(op.name, node->name, sizeof op.name);
	for (int i = 0; i < node->n_in; i++) {
		const struct sl_graph_value *value = &g->value[g->link[node->in + i]];

		if (is_answer(node->kind, i))
			continue;
		op.in[op.n_in] = g->link[node->in + i];
		op.in_shape[op.n_in++] = value->shape;
	}
	for (int i = 0; i < node->n_param; i++)
		op.param[op.n_param++] = g->link[node->param + i];
	op.most = g->value[g->link[node->in]].lead == SL_PER_TOKEN          ? most_of(g)
		  : node->kind == SL_OP_ATTENTION && node->u.attention.each ? node->u.attention.each
									    : 1;
	op.out_shape = node->out < g->n_value ? g->value[node->out].shape : (struct sl_shape){0};
	sl_slices_fold(&op);
	return op;
}

/* Whether there is one label for each row of logits: the shapes agree but for the classes. */
static bool are_labels_of(const struct sl_shape *labels, const struct sl_shape *logits)
{
	bool fit = labels->ndim == logits->ndim - 1;

	for (int i = 1; i < labels->ndim && fit; i++)
		fit = labels->dim[i] == logits->dim[i];
	return fit;
}

static enum sl_err check_links(const struct sl_graph *g, const struct sl_node *node, const int *in, const int *param,
			       struct sl_fail *fail)
{
	const struct sl_op_row row = sl_op_row(node->kind);

	if (node->n_in != row.n_in || node->n_param < row.least_param || node->n_param > row.most_param)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s (%s): takes %d inputs and %d to %d parameters, not %d and %d", node->name,
				   row.word, row.n_in, row.least_param, row.most_param, node->n_in, node->n_param);
	for (int i = 0; i < node->n_in; i++) {
		const struct sl_graph_value *value = in[i] >= 0 && in[i] < g->n_value ? &g->value[in[i]] : NULL;
		bool labels = node->kind == SL_OP_XENT && i == 1, whole = labels || node->kind == SL_OP_EMBEDDING;

		if (!value)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: there is no value %d yet", node->name, in[i]);
		if (value->dtype != (whole ? SL_I32 : SL_F32) || value->lead != g->value[in[0]].lead ||
		    value->lead == SL_ONCE || (labels && !are_labels_of(&value->shape, &g->value[in[0]].shape)) ||
		    (node->kind == SL_OP_MSE && !sl_shape_equal(&value->shape, &g->value[in[0]].shape)))
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s (%s): input %d is of another kind than it takes",
					   node->name, row.word, i + 1);
	}
	for (int i = 0; i < node->n_param; i++) {
		bool statistic = node->kind == SL_OP_BATCHNORM && i >= 2;

		if (param[i] < 0 || param[i] >= g->n_param)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: there is no parameter %d yet", node->name,
					   param[i]);
		if ((g->param[param[i]].role == SL_STATISTIC) != statistic)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: %s %s a running statistic", node->name,
					   g->param[param[i]].name, statistic ? "must be" : "cannot be");
	}
	return SL_OK;
}

/* Derives a convolution's attributes from the weight's shape; false: the shape does not fit. */
static bool derive_window(union sl_op_attr *u, enum sl_op_kind kind, const struct sl_shape *w, bool bias)
{
	const int64_t *d = w->dim;

	if (kind == SL_OP_CONVT2D) { /* as of the convolution whose adjoint it is */
		struct sl_convt_attr *t = &u->convt;
		union sl_op_attr of = {.conv = {.groups = t->groups}};
		const bool fits = derive_window(&of, SL_OP_CONV2D, w, bias);

		t->in_c = of.conv.out_c, t->kh = of.conv.kh, t->kw = of.conv.kw, t->out_c = of.conv.in_c;
		t->bias = bias;
		return fits;
	}
	u->conv.bias = bias;
	if (w->ndim == 3) { /* depthwise */
		u->conv.kh = (int)d[0], u->conv.kw = (int)d[1], u->conv.in_c = u->conv.out_c = (int)d[2];
		return u->conv.groups == u->conv.in_c && u->conv.groups > 1;
	}
	if (w->ndim != 4 || d[3] > INT_MAX / u->conv.groups)
		return false;
	u->conv.out_c = (int)d[0], u->conv.kh = (int)d[1], u->conv.kw = (int)d[2];
	u->conv.in_c = (int)d[3] * u->conv.groups;
	/* a depthwise weight must have 3 dimensions, so that there is one spelling */
	return u->conv.groups == 1 || u->conv.groups != u->conv.in_c || u->conv.in_c != u->conv.out_c;
}

static bool derive(const struct sl_graph *g, struct sl_node *node, const int *in, const int *param)
{
	const struct sl_shape *x = &g->value[in[0]].shape;
	const struct sl_shape *w = node->n_param ? &g->param[param[0]].shape : NULL;
	const bool bias = node->n_param > 1;
	struct sl_linear_attr *linear = &node->u.linear;

	switch (node->kind) {
	case SL_OP_CONV2D:
	case SL_OP_CONVT2D:
		return derive_window(&node->u, node->kind, w, bias);
	case SL_OP_LINEAR:
		linear->out_f = (int)w->dim[linear->transposed];
		linear->in_f = (int)w->dim[!linear->transposed];
		linear->bias = bias;
		return w->ndim == 2;
	case SL_OP_EMBEDDING:
		node->u.embedding.rows = (int)w->dim[0];
		node->u.embedding.features = (int)w->dim[1];
		return w->ndim == 2;
	case SL_OP_LOOKUP:
		node->u.lookup.rows = (int)w->dim[0];
		node->u.lookup.features = (int)w->dim[1];
		return w->ndim == 2;
	case SL_OP_BATCHNORM:
		node->u.bn.c = (int)x->dim[x->ndim - 1];
		node->u.bn.act = SL_ACT_NONE;
		return true;
	case SL_OP_XENT:
		node->u.xent.classes = (int)x->dim[x->ndim - 1];
		return true;
	case SL_OP_ATTENTION:
		node->u.attention.each = g->value[in[0]].lead == SL_PER_ROW && x->ndim == 3 && x->dim[1] <= UINT16_MAX
						 ? (int)x->dim[1]
						 : 0;
		return true;
	case SL_OP_GROUPNORM:
		return node->n_param != 1;
	case SL_OP_RMSNORM:
		node->u.norm.parts = (int)(x->dim[x->ndim - 1] / w->dim[0]);
		return w->ndim == 1 && x->dim[x->ndim - 1] % w->dim[0] == 0;
	case SL_OP_REPEAT:
		node->u.repeat.ndim = w->ndim;
		for (int i = 0; i < w->ndim && i < 3; i++)
			node->u.repeat.dim[i] = (int)w->dim[i];
		return w->ndim <= 3;
	default:
		return true;
	}
}

/* Whether parameters have one number for each output channel: all of a batchnorm, groupnorm or layernorm, else all but
 * the weight. */
static bool vectors_fit(const struct sl_graph *g, const struct sl_node *node, const int *param,
			const struct sl_shape *out)
{
	const bool all =
		node->kind == SL_OP_BATCHNORM || node->kind == SL_OP_GROUPNORM || node->kind == SL_OP_LAYERNORM;

	for (int i = all ? 0 : 1; i < node->n_param; i++) {
		const struct sl_shape *s = &g->param[param[i]].shape;

		if (s->ndim != 1 || s->dim[0] != out->dim[out->ndim - 1])
			return false;
	}
	return true;
}

/* Whether the table of a position embedding has a row for every position. */
static bool positions_fit(const struct sl_graph *g, const struct sl_node *node)
{
	const struct sl_embedding_attr *a = &node->u.embedding;

	return !a->position || most_of(g) <= a->rows - a->first;
}

/* The graph's `most` after a transpose of rows to tokens. */
static int most_behind(const struct sl_graph *g, const struct sl_node *node, int in)
{
	const int64_t tokens = g->value[in].shape.dim[2];

	return node->u.transpose.most > tokens ? node->u.transpose.most : (int)tokens;
}

/* Whether a transpose's input is per token or per row as its attributes require. */
static bool turns(const struct sl_graph *g, const struct sl_node *node, enum sl_lead lead, struct sl_fail *fail)
{
	const bool to_rows = node->u.transpose.tokens > 0;

	if (lead == (to_rows ? SL_PER_TOKEN : SL_PER_ROW) && (!to_rows || node->u.transpose.tokens <= g->most))
		return true;
	(void)!sl_fail_set(fail, SL_ERR_CONFIG,
			   "%s (transpose): takes tokens, of as many in each row as it says, or rows", node->name);
	return false;
}

static enum sl_err infer(struct sl_graph *g, const struct sl_node *node, const int *in, const int *param,
			 struct sl_graph_value *made, struct sl_fail *fail)
{
	struct sl_op op = {.kind = node->kind, .slices = node->slices, .u = node->u};
	enum sl_lead lead = g->value[in[0]].lead;
	enum sl_err err;

	memcpy(op.name, node->name, sizeof op.name);
	if (node->kind == SL_OP_TRANSPOSE && !turns(g, node, lead, fail))
		return SL_ERR_CONFIG;
	if (sl_op_reads_rows(node->kind) && lead != SL_PER_TOKEN &&
	    !(node->kind == SL_OP_ATTENTION && node->u.attention.each))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: %s takes what is per token", node->name,
				   sl_op_kind_name(node->kind));
	if (node->kind == SL_OP_EMBEDDING && !positions_fit(g, node))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s: places %d to %d of a row are looked up in a table of %d rows", node->name,
				   node->u.embedding.first, node->u.embedding.first + most_of(g) - 1,
				   node->u.embedding.rows);
	for (int i = 0; i < node->n_in; i++)
		if (!is_answer(node->kind, i))
			op.in_shape[op.n_in++] = g->value[in[i]].shape;
	err = sl_slices_infer(&op, fail);
	if (!err && !vectors_fit(g, node, param, &op.out_shape))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s: a parameter is not one number for each channel",
				  node->name);
	*made = (struct sl_graph_value){.dtype = SL_F32,
					.lead = sl_op_is_loss(node->kind)    ? SL_ONCE
						: node->kind == SL_OP_SELECT ? SL_PER_ROW
						: node->kind == SL_OP_GATHER ? SL_PER_CHOSEN
						: node->kind == SL_OP_TRANSPOSE
							? (lead == SL_PER_ROW ? SL_PER_TOKEN : SL_PER_ROW)
							: lead,
					.shape = op.out_shape,
					.maker = g->n_node};
	return err;
}

struct sl_node sl_node_like(const struct sl_node *from)
{
	struct sl_node node = *from;

	memset(node.name, 0, sizeof node.name);
	node.in = node.n_in = node.param = node.n_param = node.out = 0;
	node.stream = 0;
	return node;
}

enum sl_err sl_graph_add_node(struct sl_graph *g, const struct sl_node *from, const int *in, const int *param, int *out,
			      struct sl_fail *fail)
{
	struct sl_node node = *from;
	struct sl_graph_value made;
	enum sl_err err = check_name(node.name, fail);

	if (!err && (unsigned)node.kind >= SL_OP_COUNT)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s: there is no op of kind %d", node.name, (int)node.kind);
	if (!err)
		err = check_links(g, &node, in, param, fail);
	if (!err && !derive(g, &node, in, param))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s (%s): %s has another number of dimensions", node.name,
				  sl_op_kind_name(node.kind), g->param[param[0]].name);
	if (!err)
		err = infer(g, &node, in, param, &made, fail);
	if (!err)
		err = GROW(node, g->n_node + 1, SL_GRAPH_MOST_NODES, "nodes");
	if (!err)
		err = GROW(link, g->n_link + node.n_in + node.n_param, MOST_LINKS, "links");
	if (!err)
		err = add_value(g, node.name, &made, fail);
	if (err)
		return err;
	if (node.kind == SL_OP_TRANSPOSE && made.lead == SL_PER_TOKEN) {
		const int most = most_behind(g, &node, in[0]);

		if (g->most && g->most != most)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s (transpose): rows have up to %d tokens, elsewhere up to %d", node.name,
					   most, g->most);
		g->most = most;
	}
	node.out = g->n_value - 1;
	node.in = g->n_link;
	node.param = g->n_link + node.n_in;
	for (int i = 0; i < node.n_in; i++)
		g->link[g->n_link++] = in[i];
	for (int i = 0; i < node.n_param; i++)
		g->link[g->n_link++] = param[i];
	g->node[g->n_node++] = node;
	if (out)
		*out = node.out;
	return SL_OK;
}

bool sl_graph_takes_whole_rows(const struct sl_graph *g)
{
	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_TRANSPOSE)
			return true;
	return false;
}
