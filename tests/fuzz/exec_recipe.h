/* Makes a middle's graph from a fuzzer's bytes: an input, then nodes of any kind over existing values, with parameters
 * whose shapes mostly fit. A node that the graph refuses is left out; so are nodes that do not lead to the output. */
#ifndef SL_FUZZ_EXEC_RECIPE_H
#define SL_FUZZ_EXEC_RECIPE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/graph/graph.h"

enum { RECIPE_NODES = 14, RECIPE_NODE_BYTES = 14, RECIPE_VALUES = RECIPE_NODES + 1 };

struct bytes {
	const uint8_t *at;
	size_t left;
};

static int take_byte(struct bytes *b)
{
	if (!b->left)
		return 0;
	b->left--;
	return *b->at++;
}

/* Splits off a part of n bytes, so that growing one part of an input does not change the meaning of the others. */
static struct bytes take_part(struct bytes *b, size_t n)
{
	struct bytes part = {b->at, n < b->left ? n : b->left};

	b->at += part.left;
	b->left -= part.left;
	return part;
}

struct recipe_node {
	struct sl_node node;
	int in[SL_OP_MAX_IN];
	struct sl_param param[SL_OP_MAX_PARAM];
};

struct recipe {
	enum sl_lead lead;
	struct sl_shape shape;
	int most, row_tokens, groups;
	struct recipe_node node[RECIPE_NODES];
	int n;
	bool shares; /* nodes share parameters of equal shape */
};

static int64_t recipe_size(int byte)
{
	static const int size[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12,  15,
				   16, 17, 24, 31, 32, 33, 40, 48, 64, 65, 100, 130};

	return size[(size_t)byte % (sizeof size / sizeof size[0])];
}

static int recipe_small(int byte)
{
	return 1 + byte % 5;
}

/* Returns a divisor of n. */
static int recipe_divisor(int64_t n, int byte)
{
	int64_t by = 1 + byte % 16;

	while (n % by)
		by--;
	return (int)by;
}

/* ---- attributes */

static double recipe_real(int byte)
{
	static const double real[] = {0, 1e-5, 0.1, 0.25, 0.5, 0.9, 1, 2, -1, 8, 1e4, 1e-12, 1e-30, 1e9, -1e30, 0.99};

	return real[byte % 16];
}

static double recipe_int(int byte)
{
	static const int size[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33, 255, 1 << 20};

	return size[byte % 16];
}

static void draw_attributes(struct sl_node *node, struct bytes *b)
{
	const int mask = take_byte(b);

	for (int i = 0; sl_op_attr(node->kind, i); i++) {
		const struct sl_attr *a = sl_op_attr(node->kind, i);
		const int byte = mask >> i & 1 ? take_byte(b) : 0;

		if (!(mask >> i & 1))
			continue;
		for (int which = 0; which <= (a->type == SL_ATTR_PAIR); which++)
			if (!sl_attr_set(node, a, which,
					 a->type == SL_ATTR_REAL     ? recipe_real(byte)
					 : a->type == SL_ATTR_FLAG   ? byte & 1
					 : a->type == SL_ATTR_ACT    ? 1 + (byte & 1)
					 : a->type == SL_ATTR_STREAM ? byte
								     : recipe_int(which ? byte >> 4 : byte)))
				break;
	}
}

/* Makes a window of the node, or the way back from one, that fits a volume of its slices. */
static void fit_window(struct sl_node *node, int64_t channels, struct bytes *b)
{
	struct sl_window_attr *a = &node->u.window;
	const int way = take_byte(b);

	*a = (struct sl_window_attr){1 + way % 4, 1 + (way >> 2) % 3, (way >> 4) % 3, 1 + (way >> 6) % 2, 0};
	if (take_byte(b) % 3 || !node->slices)
		return;
	while (channels % a->k)
		a->k--;
	a->back = (node->slices - 1) * a->stride - 2 * a->pad + (a->k - 1) * a->dilation + 1;
	a->back = a->back < 0 ? 0 : a->back;
}

/* The slices of a volume are drawn apart for each node: those of a window and of what reads it often differ. */
static void fit_slices(struct sl_node *node, const struct sl_graph_value *x, struct bytes *b)
{
	const int way = x->shape.ndim == 4 ? take_byte(b) : 0;

	if (way & 1 || (way && node->kind == SL_OP_WINDOW))
		node->slices = recipe_divisor(x->shape.dim[1], way >> 1);
	if (node->kind == SL_OP_RESAMPLE && (way & 6) == 6)
		node->u.resample.axis = 0;
	if (node->kind == SL_OP_WINDOW)
		fit_window(node, x->shape.dim[x->shape.ndim - 1], b);
}

static bool has_slices(enum sl_op_kind kind)
{
	const struct sl_attr *a;

	for (int i = 0; (a = sl_op_attr(kind, i)); i++)
		if (strcmp(a->key, "slices") == 0)
			return true;
	return false;
}

/* Draws attributes that must fit the input's shape. */
static void fit_attributes(const struct recipe *r, struct sl_node *node, const struct sl_graph_value *x,
			   struct bytes *b)
{
	union sl_op_attr *u = &node->u;
	const int64_t last = x->shape.dim[x->shape.ndim - 1];
	int64_t row = sl_shape_row(&x->shape);

	switch (node->kind) {
	case SL_OP_TRANSPOSE:
		u->transpose.tokens = x->lead == SL_PER_TOKEN ? r->row_tokens : 0;
		break;
	case SL_OP_ATTENTION:
		u->attention.heads = recipe_divisor(last, take_byte(b));
		if (u->attention.kv)
			u->attention.kv = recipe_divisor(u->attention.heads, u->attention.kv);
		break;
	case SL_OP_GROUPNORM:
		u->groupnorm.groups = recipe_divisor(last, take_byte(b));
		break;
	case SL_OP_PERMUTE:
		u->permute.outer = recipe_divisor(row, take_byte(b));
		u->permute.b = recipe_divisor(row / u->permute.outer, take_byte(b));
		u->permute.c = recipe_divisor(row / u->permute.outer / u->permute.b, take_byte(b));
		u->permute.h = take_byte(b) % 3 ? recipe_divisor(row, take_byte(b)) : 0;
		row /= u->permute.h ? u->permute.h : 1;
		u->permute.w = u->permute.h && take_byte(b) % 2 ? recipe_divisor(row, take_byte(b)) : 0;
		break;
	case SL_OP_RESAMPLE:
		u->resample.axis = 1 + take_byte(b) % (x->shape.ndim > 1 ? x->shape.ndim - 1 : 1);
		u->resample.size = (int)recipe_size(take_byte(b));
		break;
	case SL_OP_CONV2D:
		u->conv.groups = take_byte(b) % 3 == 0 ? (int)last : recipe_divisor(last, take_byte(b) % 4);
		u->conv.stride = take_byte(b) % 4 ? 1 : 2;
		u->conv.pad = take_byte(b) % 4;
		break;
	case SL_OP_CONVT2D:
		u->convt.groups = u->convt.groups > 1 ? recipe_divisor(last, u->convt.groups) : 1;
		break;
	case SL_OP_MAXPOOL:
	case SL_OP_AVGPOOL:
		u->pool.k = take_byte(b) % 5;
		u->pool.stride = recipe_small(take_byte(b));
		u->pool.pad = take_byte(b) % 3;
		break;
	default:
		break;
	}
	if (has_slices(node->kind))
		fit_slices(node, x, b);
}

/* ---- parameters */

static void put_param(struct recipe_node *n, struct sl_shape shape, enum sl_init_kind init, enum sl_role role)
{
	struct sl_param *p = &n->param[n->node.n_param++];

	*p = (struct sl_param){.shape = shape, .init = {init, 0}, .role = role};
	if (init == SL_INIT_NORMAL || init == SL_INIT_UNIFORM)
		p->init.scale = 0.3f;
}

static void draw_window(struct recipe_node *n, const struct sl_shape *x, struct bytes *b)
{
	const int kh = recipe_small(take_byte(b)), kw = take_byte(b) % 2 ? recipe_small(take_byte(b)) : kh;
	const int64_t in = x->dim[x->ndim - 1], out = recipe_size(take_byte(b));
	const bool turned = n->node.kind == SL_OP_CONVT2D;
	const int groups = turned ? n->node.u.convt.groups : n->node.u.conv.groups;

	if (turned && (groups == 1 || groups != in || out % 2))
		put_param(n, groups == in && groups > 1 ? sl_shape3(kh, kw, in) : sl_shape4(in, kh, kw, out),
			  SL_INIT_NORMAL, SL_LEARNS);
	else if (turned) /* several outputs for each input */
		put_param(n, sl_shape4(in, kh, kw, 2), SL_INIT_NORMAL, SL_LEARNS);
	else if (groups > 1 && groups == in && out % 2)
		put_param(n, sl_shape3(kh, kw, in), SL_INIT_NORMAL, SL_LEARNS);
	else
		put_param(n, sl_shape4(groups > 1 ? groups * (1 + out % 3) : out, kh, kw, in / groups), SL_INIT_NORMAL,
			  SL_LEARNS);
}

static void draw_weight(struct recipe_node *n, const struct sl_graph_value *v, struct bytes *b)
{
	const struct sl_shape *x = &v->shape;
	const int64_t last = x->dim[x->ndim - 1], size = recipe_size(take_byte(b));
	struct sl_shape repeated = *x;

	switch (n->node.kind) {
	case SL_OP_CONV2D:
	case SL_OP_CONVT2D:
		draw_window(n, x, b);
		break;
	case SL_OP_LINEAR:
		put_param(n, n->node.u.linear.transposed ? sl_shape2(last, size) : sl_shape2(size, last),
			  SL_INIT_NORMAL, SL_LEARNS);
		break;
	case SL_OP_BATCHNORM:
	case SL_OP_LAYERNORM:
	case SL_OP_GROUPNORM:
		if (n->node.kind != SL_OP_GROUPNORM || size > 5)
			put_param(n, sl_shape1(last), SL_INIT_ONE, SL_LEARNS);
		break;
	case SL_OP_RMSNORM:
		put_param(n, sl_shape1(last / recipe_divisor(last, (int)size)), SL_INIT_ONE, SL_LEARNS);
		break;
	case SL_OP_EMBEDDING:
	case SL_OP_LOOKUP:
		put_param(n, sl_shape2(size, 8), SL_INIT_NORMAL, SL_LEARNS);
		break;
	case SL_OP_REPEAT: /* the input's shape, or another one */
		repeated = size > 5 && x->ndim > 1 ? (struct sl_shape){x->ndim - 1, {0}} : sl_shape2(2, size);
		for (int i = 1; size > 5 && i < x->ndim; i++)
			repeated.dim[i - 1] = x->dim[i];
		put_param(n, repeated, SL_INIT_UNIFORM, SL_LEARNS);
		break;
	default:
		break;
	}
}

/* Adds the parameters after the weight, and sets how all are held. */
static void draw_params(const struct recipe *r, struct recipe_node *n, const struct sl_graph_value *v, struct bytes *b)
{
	const struct sl_shape *x = &v->shape;
	const int flags = take_byte(b);
	int64_t channels;

	draw_weight(n, v, b);
	if (!n->node.n_param)
		return;
	channels = n->node.kind == SL_OP_LINEAR   ? n->param[0].shape.dim[n->node.u.linear.transposed]
		   : n->node.kind == SL_OP_CONV2D ? n->param[0].shape.dim[n->param[0].shape.ndim == 3 ? 2 : 0]
		   : n->node.kind == SL_OP_CONVT2D
			   ? (n->param[0].shape.ndim == 3 ? n->param[0].shape.dim[2]
							  : n->param[0].shape.dim[3] * n->node.u.convt.groups)
			   : x->dim[x->ndim - 1];
	if (n->node.kind == SL_OP_BATCHNORM || n->node.kind == SL_OP_GROUPNORM ||
	    (sl_op_row(n->node.kind).most_param > 1 && flags & 1))
		put_param(n, sl_shape1(channels), flags & 2 ? SL_INIT_UNIFORM : SL_INIT_ZERO, SL_LEARNS);
	for (int i = 0; i < n->node.n_param; i++) {
		if ((flags & 12) == 12)
			n->param[i].role = SL_FROZEN;
		if ((flags & 60) == 60 && i == 0) {
			n->param[i].init = (struct sl_init){SL_INIT_FILE, 0};
			n->param[i].held = flags & 64 ? SL_F16 : SL_BF16;
		}
		if (r->groups && (flags & 24) == 16)
			n->param[i].group = 1;
		if (flags == 255)
			n->param[i].shape.dim[0]++;
	}
	if (n->node.kind == SL_OP_BATCHNORM) {
		put_param(n, sl_shape1(channels), SL_INIT_ZERO, SL_STATISTIC);
		put_param(n, sl_shape1(channels), SL_INIT_ONE, SL_STATISTIC);
	}
}

/* ---- nodes */

static bool goes_with(enum sl_op_kind kind, const struct sl_graph_value *a, const struct sl_graph_value *b)
{
	const int last = a->shape.ndim - 1;
	bool fits = a->lead == b->lead && a->dtype == b->dtype && a->shape.ndim == b->shape.ndim;

	if (kind == SL_OP_GATE) {
		fits = fits && last >= 2 && b->shape.dim[last] == a->shape.dim[last];
		for (int i = 1; fits && i < last; i++)
			fits = b->shape.dim[i] == 1;
		return fits;
	}
	for (int i = 1; fits && i <= last; i++)
		fits = a->shape.dim[i] == b->shape.dim[i] || (kind == SL_OP_CONCAT && i == last);
	return fits;
}

/* Searches from a drawn place for a value that fits the first input. */
static int draw_partner(const struct sl_graph *g, enum sl_op_kind kind, int first, int byte)
{
	for (int i = 0; i < g->n_value; i++) {
		const int at = (byte + i) % g->n_value;

		if (goes_with(kind, &g->value[first], &g->value[at]))
			return at;
	}
	return first;
}

static enum sl_op_kind draw_kind(int byte)
{
	static const enum sl_op_kind often[] = {SL_OP_LINEAR,    SL_OP_LINEAR,    SL_OP_CONV2D,
						SL_OP_CONV2D,    SL_OP_ATTENTION, SL_OP_BATCHNORM,
						SL_OP_TRANSPOSE, SL_OP_ACT,       SL_OP_WINDOW};
	const int most = SL_OP_COUNT + (int)(sizeof often / sizeof often[0]), at = byte % most;

	return at < SL_OP_COUNT ? (enum sl_op_kind)at : often[at - SL_OP_COUNT];
}

static struct recipe_node draw_node(const struct recipe *r, const struct sl_graph *g, struct bytes *b)
{
	const int kind = take_byte(b), from = take_byte(b), with = take_byte(b);
	struct recipe_node n = {.node = sl_node_of(draw_kind(kind))};

	n.in[0] = from < 160 ? g->n_value - 1 : from % g->n_value;
	n.node.n_in = sl_op_row(n.node.kind).n_in;
	for (int k = 1; k < n.node.n_in; k++)
		n.in[k] = draw_partner(g, n.node.kind, n.in[0], with >> (k == 1 ? 0 : 4));
	draw_attributes(&n.node, b);
	fit_attributes(r, &n.node, &g->value[n.in[0]], b);
	draw_params(r, &n, &g->value[n.in[0]], b);
	return n;
}

/* ---- the graph */

static enum sl_err add_node(const struct recipe *r, struct sl_graph *g, const struct recipe_node *n,
			    struct sl_fail *fail)
{
	struct sl_node node = n->node;
	int param[SL_OP_MAX_PARAM], out;
	enum sl_err err = SL_OK;

	snprintf(node.name, sizeof node.name, "n%d", g->n_node);
	for (int k = 0; k < node.n_param && !err; k++) {
		struct sl_param p = n->param[k];

		param[k] = g->n_param;
		for (int i = 0; r->shares && i < g->n_param; i++)
			if (g->param[i].role == p.role && sl_shape_equal(&g->param[i].shape, &p.shape))
				param[k] = i;
		snprintf(p.name, sizeof p.name, "p%d", g->n_param);
		if (p.init.kind == SL_INIT_NORMAL || p.init.kind == SL_INIT_UNIFORM)
			p.stream = (uint32_t)g->n_param;
		if (param[k] == g->n_param)
			err = sl_graph_add_param(g, &p, fail);
	}
	return err ? err : sl_graph_add_node(g, &node, n->in, param, &out, fail);
}

static bool build(const struct recipe *r, struct sl_graph *g, struct sl_fail *fail)
{
	enum sl_err err;

	*g = (struct sl_graph){0};
	err = sl_graph_add_input(g, "head_act", SL_F32, r->lead, r->shape, r->most, NULL, fail);
	for (int i = 0; i < r->n && !err; i++)
		err = add_node(r, g, &r->node[i], fail);
	if (err && !fail->text[0])
		abort();
	if (err)
		sl_graph_close(g);
	return !err;
}

/* Removes nodes that do not lead to the last value. */
static void prune(struct recipe *r)
{
	bool used[RECIPE_VALUES] = {false};
	int now[RECIPE_VALUES] = {0}, n = 0;

	used[r->n] = true;
	for (int i = r->n - 1; i >= 0; i--)
		for (int k = 0; k < r->node[i].node.n_in && used[i + 1]; k++)
			used[r->node[i].in[k]] = true;
	for (int i = 0; i < r->n; i++) {
		if (!used[i + 1])
			continue;
		r->node[n] = r->node[i];
		for (int k = 0; k < r->node[n].node.n_in; k++)
			r->node[n].in[k] = now[r->node[n].in[k]];
		now[i + 1] = ++n;
	}
	r->n = n;
}

/* Returns false if no node is left. */
static bool draw_graph(struct recipe *r, struct sl_graph *g, struct bytes *b)
{
	struct sl_fail fail = {0};

	if (!build(r, g, &fail))
		return false;
	while (b->left && r->n < RECIPE_NODES) {
		struct bytes part = take_part(b, RECIPE_NODE_BYTES);

		fail.text[0] = 0;
		r->node[r->n] = draw_node(r, g, &part);
		if (add_node(r, g, &r->node[r->n], &fail) == SL_OK) {
			r->n++;
			continue;
		}
		if (!fail.text[0])
			abort();
		sl_graph_close(g);
		if (!build(r, g, &fail))
			abort(); /* the first build accepted it */
	}
	sl_graph_close(g);
	prune(r);
	return r->n && build(r, g, &fail) && sl_graph_add_output(g, "mid_act", g->n_value - 1, NULL, &fail) == SL_OK;
}

#endif
