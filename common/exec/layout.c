#include "common/exec/layout.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/base/arena.h"
#include "common/base/worker.h"
#include "common/exec/leases.h"

enum { TRIES = 20 };

/* Buffers in scratch, with lifetimes. Node i runs forward at time i. Then each stretch, the last one first, has a time
 * for every node's recomputation, and one for every node's backward. */
struct leases {
	struct sl_lease *item;
	int count;
};

static void lease_add(struct leases *l, struct sl_place *place, size_t bytes, int birth, int death)
{
	place->region = SL_REGION_SCRATCH;
	l->item[l->count++] = (struct sl_lease){sl_align(bytes), 0, birth, death, place};
}

static enum sl_err place_leases(struct leases *l, size_t *scratch_bytes)
{
	enum sl_err err = sl_leases_place(l->item, l->count, scratch_bytes);

	for (int i = 0; i < l->count && !err; i++)
		((struct sl_place *)l->item[i].owner)->offset = l->item[i].offset;
	return err;
}

static void place_in_slot(struct sl_layout *layout, struct sl_place *place, size_t bytes)
{
	*place = (struct sl_place){SL_REGION_SLOT, layout->slot_bytes};
	layout->slot_bytes += sl_align(bytes);
}

/* How the nodes use a value. Nodes are indices; -1: none. */
struct value_use {
	size_t bytes;
	bool there;      /* it is in memory; else only its gradient may be */
	int birth;       /* node that computes it; -1: it is the segment's input */
	int last_read;   /* node that reads it last in forward */
	int first_saver; /* first node whose backward reads it: the last of them to run */
	int grad_first;  /* node whose backward writes its gradient first; -1: none, or it comes in over the cut */
	int grad_last;   /* node whose backward reads its gradient last; -1: none, or it leaves over the cut */
	bool grad_early; /* grad_first writes it in its forward already */
};

struct uses {
	const struct sl_plan_segment *s;
	const struct sl_exec_node *node;
	int n_node, n_value;
	struct value_use *use; /* [n_value] */
	int *redo, *back;      /* [n_node]: the times of a node's recomputation and of its backward */
};

static size_t bytes_of(const struct sl_op *op, const struct sl_shape *shape)
{
	return (size_t)sl_shape_count(shape) * sl_dtype_bytes(sl_precision_dtype(op->precision));
}

static void note_bytes(struct uses *u)
{
	for (int i = 0; i < u->s->n_op; i++) {
		const struct sl_op *op = &u->s->op[i].op;

		for (int k = 0; k < op->n_in; k++)
			u->use[op->in[k]].bytes = bytes_of(op, &op->in_shape[k]);
		u->use[op->out].bytes = bytes_of(op, &op->out_shape);
	}
}

static void note_read(struct value_use *u, bool keeps, int i)
{
	u->there = true;
	u->last_read = i;
	if (keeps && u->first_saver < 0)
		u->first_saver = i;
}

/* The value of a block's logits lives from forward to backward. */
static void note_logits(struct uses *u, const struct sl_exec_node *n, int i)
{
	struct value_use *logits = &u->use[n->logits];

	logits->bytes = logits->bytes / (size_t)u->s->op[n->op].op.in_shape[0].dim[0] * (size_t)n->rows;
	logits->birth = i;
	note_read(logits, true, i);
	if (n->din[0] >= 0)
		u->use[n->din[0]].grad_early = true;
}

static void note_uses(struct uses *u)
{
	for (int v = 0; v < u->n_value; v++)
		u->use[v] = (struct value_use){0, false, -1, -1, -1, -1, -1, false};
	note_bytes(u);
	for (int i = 0; i < u->n_node; i++) {
		const struct sl_exec_node *n = &u->node[i];

		for (int k = 0; k < SL_OP_MAX_IN; k++) {
			if (n->in[k] >= 0)
				note_read(&u->use[n->in[k]], k < n->keeps_in, i);
			if (n->din[k] >= 0)
				u->use[n->din[k]].grad_first = i;
		}
		if (n->out >= 0) {
			u->use[n->out].there = true;
			u->use[n->out].birth = i;
			u->use[n->out].first_saver = n->keeps_out ? i : -1;
		}
		if (n->logits >= 0)
			note_logits(u, n, i);
		/* a convolution and the batchnorm behind it may both read it; the convolution's backward is last */
		if (n->dout >= 0 && u->use[n->dout].grad_last < 0)
			u->use[n->dout].grad_last = i;
	}
}

/* ---- stretches */

static void note_times(const struct uses *u, const struct sl_layout *layout)
{
	int time = u->n_node;

	for (int s = layout->n_stretch - 1; s >= 0; s--) {
		for (int i = layout->stretch[s]; i < layout->stretch[s + 1]; i++)
			u->redo[i] = time++;
		for (int i = layout->stretch[s + 1] - 1; i >= layout->stretch[s]; i--)
			u->back[i] = time++;
	}
}

static int last_read(const struct uses *u, int v)
{
	return sl_plan_goes_out(&u->s->graph, v) ? u->n_node : u->use[v].last_read;
}

/* A tail's backward follows its forward at once, so the values of its last stretch are still there. */
static bool is_kept(const struct uses *u, const struct sl_layout *layout, int stretch)
{
	return u->s->which == SL_TAIL && stretch == layout->n_stretch - 1;
}

/* The stretch that has a value's node and all its readers, if it is computed again. -1: none is. */
static int stretch_of(const struct uses *u, const struct sl_layout *layout, int v)
{
	int s = 0, end = layout->n_stretch;

	if (end == 1 || u->use[v].birth < 0)
		return -1;
	while (end - s > 1) {
		const int half = (s + end) / 2;

		if (layout->stretch[half] <= u->use[v].birth)
			s = half;
		else
			end = half;
	}
	return last_read(u, v) < layout->stretch[s + 1] && !is_kept(u, layout, s) ? s : -1;
}

/* A node is computed again if backward, or another such node, reads its value. */
static void note_repeats(const struct uses *u, struct sl_layout *layout, bool *wanted)
{
	for (int i = u->n_node - 1; i >= 0; i--) {
		const struct sl_exec_node *n = &u->node[i];

		layout->repeats[i] = n->out >= 0 && stretch_of(u, layout, n->out) >= 0 &&
				     (wanted[n->out] || u->use[n->out].first_saver >= 0);
		for (int k = 0; k < SL_OP_MAX_IN; k++)
			if (layout->repeats[i] && n->in[k] >= 0)
				wanted[n->in[k]] = true;
	}
}

static void place_again(struct sl_layout *layout, struct leases *l, const struct uses *u, int v)
{
	const struct value_use *use = &u->use[v];
	const int read = use->last_read > use->birth ? use->last_read : use->birth;

	lease_add(l, &layout->value[v], use->bytes, use->birth, read);
	if (layout->repeats[use->birth])
		lease_add(l, &layout->again[v], use->bytes, u->redo[use->birth],
			  use->first_saver >= 0 ? u->back[use->first_saver] : u->redo[read]);
}

/* ---- places */

/* The time until which a tail's value that is not computed again is needed. Those that read it in a later stretch are
 * computed again before the backward of its own node. */
static int tail_end(const struct uses *u, const struct sl_layout *layout, int v, int read)
{
	const struct value_use *use = &u->use[v];

	if (use->birth >= 0 && use->birth < layout->stretch[layout->n_stretch - 1])
		return u->back[use->birth];
	return use->first_saver >= 0 ? u->back[use->first_saver] : read;
}

static void place_values(struct sl_layout *layout, struct leases *l, const struct uses *uses)
{
	const struct sl_plan_segment *s = uses->s;
	const bool mixed = sl_precision_mixed(s->precision);

	for (int v = 0; v < uses->n_value; v++) {
		const struct value_use *u = &uses->use[v];
		const bool goes_out = s->which != SL_TAIL && sl_plan_goes_out(&s->graph, v);
		const bool at_cut = !mixed && (sl_plan_comes_in(&s->graph, v) || goes_out);
		int read = u->last_read > u->birth ? u->last_read : u->birth;

		/* the fp32 copy of the output is made after the last node */
		if (v == s->out_value && mixed)
			read = uses->n_node - 1;
		if (!u->there)
			continue;
		if (stretch_of(uses, layout, v) >= 0)
			place_again(layout, l, uses, v);
		else if (at_cut || (s->which != SL_TAIL && (layout->n_stretch > 1 || u->first_saver >= 0)))
			place_in_slot(layout, &layout->value[v], u->bytes);
		else
			lease_add(l, &layout->value[v], u->bytes, u->birth,
				  s->which == SL_TAIL ? tail_end(uses, layout, v, read) : read);
	}
}

/* The time of a node's backward; -1 means after all nodes. */
static int back(const struct uses *u, int node)
{
	return node >= 0 ? u->back[node] : 3 * u->n_node;
}

/* A gradient lives from its first writer in backward (the value's last reader) to the node that reads it. */
static void place_gradients(struct sl_layout *layout, struct leases *l, const struct uses *uses)
{
	const struct sl_plan_segment *s = uses->s;
	const bool mixed = sl_precision_mixed(s->precision);

	for (int v = 0; v < uses->n_value; v++) {
		const struct value_use *u = &uses->use[v];

		if (sl_plan_goes_out(&s->graph, v) ? !s->grad_out : u->grad_first < 0 && u->grad_last < 0)
			continue;
		if (!mixed && (sl_plan_comes_in(&s->graph, v) || sl_plan_goes_out(&s->graph, v)))
			place_in_slot(layout, &layout->grad[v], u->bytes);
		else if (v == s->out_value) /* it is written before the first node's backward */
			lease_add(l, &layout->grad[v], u->bytes, uses->n_node, back(uses, u->grad_last));
		else
			lease_add(l, &layout->grad[v], u->bytes,
				  u->grad_early ? u->grad_first : back(uses, u->grad_first), back(uses, u->grad_last));
	}
}

static void place_edges(struct sl_layout *layout, const struct sl_plan_segment *s)
{
	for (int i = 0; i < SL_EDGES && sl_precision_mixed(s->precision); i++) {
		const struct sl_shape *shape = i == SL_EDGE_IN || i == SL_EDGE_DIN ? &s->in_shape : &s->out_shape;

		if ((i == SL_EDGE_DIN && !s->grad_in) || (i == SL_EDGE_DOUT && !s->grad_out))
			continue;
		if (layout->forward && (i == SL_EDGE_DIN || i == SL_EDGE_DOUT))
			continue;
		place_in_slot(layout, &layout->edge[i], (size_t)sl_shape_count(shape) * sizeof(float));
	}
}

static void uses_close(struct uses *u)
{
	free(u->use);
	free(u->redo);
}

static enum sl_err uses_open(struct uses *u, const struct sl_plan_segment *segment, const struct sl_exec_node *node,
			     int n_node)
{
	const int n_value = segment->graph.n_value;

	*u = (struct uses){segment,
			   node,
			   n_node,
			   n_value,
			   calloc((size_t)n_value, sizeof *u->use),
			   calloc(2 * (size_t)n_node + 1, sizeof *u->redo),
			   NULL};
	if (!u->use || !u->redo) {
		uses_close(u);
		return SL_ERR_NOMEM;
	}
	u->back = u->redo + n_node;
	note_uses(u);
	return SL_OK;
}

/* Places all values and gradients in slots and scratch, for the layout's stretches. NOMEM. */
static enum sl_err place_all(struct sl_layout *layout, const struct uses *u)
{
	struct leases leases = {calloc(3 * (size_t)u->n_value, sizeof *leases.item), 0};
	bool *wanted = calloc((size_t)u->n_value, sizeof *wanted);
	enum sl_err err = leases.item && wanted ? SL_OK : SL_ERR_NOMEM;

	layout->slot_bytes = 0;
	for (int v = 0; v < u->n_value; v++)
		layout->value[v] = layout->again[v] = layout->grad[v] = (struct sl_place){SL_REGION_NONE, 0};
	if (!err) {
		note_times(u, layout);
		note_repeats(u, layout, wanted);
		place_values(layout, &leases, u);
		if (!layout->forward)
			place_gradients(layout, &leases, u);
		place_edges(layout, u->s);
		err = place_leases(&leases, &layout->scratch_bytes);
	}
	for (int v = 0; v < u->n_value; v++)
		if (layout->again[v].region == SL_REGION_NONE)
			layout->again[v] = layout->value[v];
	free(leases.item);
	free(wanted);
	return err;
}

enum sl_err sl_layout_open(struct sl_layout *layout, const struct sl_plan_segment *segment,
			   const struct sl_exec_node *node, int n_node, const struct sl_op_sizes *sizes)
{
	const int n_value = segment->graph.n_value;
	struct uses uses;
	enum sl_err err = uses_open(&uses, segment, node, n_node);

	if (err)
		return err;
	*layout = (struct sl_layout){.value = calloc((size_t)n_value, sizeof *layout->value),
				     .again = calloc((size_t)n_value, sizeof *layout->again),
				     .grad = calloc((size_t)n_value, sizeof *layout->grad),
				     .stretch = calloc((size_t)n_node + 2, sizeof *layout->stretch),
				     .n_stretch = 1,
				     .repeats = calloc((size_t)n_node + 1, sizeof *layout->repeats),
				     .saved_offset = calloc((size_t)segment->n_op, sizeof *layout->saved_offset),
				     .cache_offset = calloc((size_t)segment->n_op, sizeof *layout->cache_offset)};
	err = SL_ERR_NOMEM;
	if (!layout->value || !layout->again || !layout->grad || !layout->stretch || !layout->repeats ||
	    !layout->saved_offset || !layout->cache_offset)
		goto out;
	layout->stretch[1] = n_node;
	for (int i = 0; i < segment->n_op; i++) {
		layout->saved_offset[i] = layout->saved_bytes;
		layout->saved_bytes += sl_align(sizes[i].saved_bytes);
		layout->cache_offset[i] = layout->cache_bytes;
		layout->cache_bytes += sizes[i].cache_bytes;
		if (sizes[i].workspace_bytes > layout->workspace_bytes)
			layout->workspace_bytes = sizes[i].workspace_bytes;
	}
	err = place_all(layout, &uses);
out:
	uses_close(&uses);
	if (err)
		sl_layout_close(layout);
	return err;
}

/* ---- recompute
 *
 * Each try takes time quadratic in the number of nodes, which a peer chooses. So the outer loops let other jobs run
 * (sl_worker_turn). */

/* A possible border between stretches, in front of node i. [n_node + 1] bytes: of the value that lives across it; 0:
 * not exactly one does, so there can be no border. Further values that come in or go out do not count, because they are
 * kept anyway. kept: bytes of the values of earlier nodes that backward reads. */
struct border {
	size_t bytes, kept;
	double cost; /* least sum of `bytes` of the borders up to this one */
	int from;    /* the border before this one */
};

static void note_borders(const struct uses *u, struct border *b)
{
	for (int i = 1; i <= u->n_node; i++) {
		int across = 0;

		sl_worker_turn();
		for (int v = 0; v < u->n_value; v++) {
			const bool before = u->use[v].birth < i && (u->use[v].there || v == u->s->out_value);
			const bool home = (v != u->s->out_value && sl_plan_goes_out(&u->s->graph, v)) ||
					  (v != u->s->in_value && sl_plan_comes_in(&u->s->graph, v));

			if (!before || home || last_read(u, v) < i)
				continue;
			across++;
			b[i].bytes = u->use[v].bytes;
		}
		b[i].bytes = across == 1 || i == u->n_node ? b[i].bytes : 0;
		b[i].kept = b[i - 1].kept;
		if (u->node[i - 1].out >= 0 && u->use[u->node[i - 1].out].first_saver >= 0)
			b[i].kept += u->use[u->node[i - 1].out].bytes;
	}
}

/* Chooses the borders whose values take the least memory. No stretch has more than `most` bytes of values that backward
 * reads, unless no border divides it. */
static void choose_borders(struct sl_layout *layout, struct border *b, int n_node, size_t most)
{
	int n = 0;

	for (int i = 1; i <= n_node; i++) {
		if (!b[i].bytes)
			continue;
		sl_worker_turn();
		b[i].from = -1;
		for (int k = i - 1; k >= 0; k--) {
			if (k && !b[k].bytes)
				continue;
			if (b[i].from >= 0 && b[i].kept - b[k].kept > most)
				break;
			if (b[i].from < 0 || b[k].cost + (double)b[i].bytes < b[i].cost) {
				b[i].cost = b[k].cost + (double)b[i].bytes;
				b[i].from = k;
			}
		}
	}
	for (int i = n_node; i > 0; i = b[i].from)
		n++;
	layout->n_stretch = n;
	for (int i = n_node; i >= 0 && n >= 0; i = b[i].from)
		layout->stretch[n--] = i;
}

static double total_bytes(const struct sl_layout *layout, int slots)
{
	return (double)slots * (double)layout->slot_bytes + (double)layout->scratch_bytes;
}

enum sl_err sl_layout_recompute(struct sl_layout *layout, const struct sl_plan_segment *segment,
				const struct sl_exec_node *node, int n_node, int slots)
{
	struct border *b = calloc((size_t)n_node + 1, sizeof *b);
	double least = total_bytes(layout, slots);
	size_t best = SIZE_MAX, most;
	struct uses uses;
	enum sl_err err = b ? uses_open(&uses, segment, node, n_node) : SL_ERR_NOMEM;

	if (err) {
		free(b);
		return err;
	}
	note_borders(&uses, b);
	most = b[n_node].kept;
	for (int i = 0; i < TRIES && !err && b[n_node].bytes; i++) {
		most = most / 4 * 3;
		choose_borders(layout, b, n_node, most);
		err = place_all(layout, &uses);
		if (err || total_bytes(layout, slots) >= least)
			continue;
		least = total_bytes(layout, slots);
		best = most;
	}
	if (best < SIZE_MAX)
		choose_borders(layout, b, n_node, best);
	else {
		layout->n_stretch = 1;
		layout->stretch[1] = n_node;
	}
	if (!err)
		err = place_all(layout, &uses);
	uses_close(&uses);
	free(b);
	return err;
}

enum sl_err sl_layout_forward(struct sl_layout *layout, const struct sl_plan_segment *segment,
			      const struct sl_exec_node *node, int n_node)
{
	struct uses uses;
	enum sl_err err = uses_open(&uses, segment, node, n_node);

	if (err)
		return err;
	for (int v = 0; v < uses.n_value; v++)
		uses.use[v].first_saver = -1;
	layout->forward = true;
	err = place_all(layout, &uses);
	uses_close(&uses);
	return err;
}

void sl_layout_close(struct sl_layout *layout)
{
	free(layout->value);
	free(layout->again);
	free(layout->grad);
	free(layout->stretch);
	free(layout->repeats);
	free(layout->saved_offset);
	free(layout->cache_offset);
	*layout = (struct sl_layout){0};
}
