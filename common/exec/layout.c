#include "common/exec/layout.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/exec/leases.h"

/* Ranges of scratch are in use from a time of a pass to another one. Node i runs forward at time i and backward at time
 * 2·n_node - 1 - i. */
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

/* Nodes are named by their numbers; -1: none. */
struct value_use {
	size_t bytes;
	bool there;      /* in memory; else its gradient alone may be */
	int birth;       /* makes it; -1: the segment's input */
	int last_read;   /* reads it last in forward */
	int first_saver; /* the first that keeps it for backward */
	int grad_first;  /* whose backward writes its gradient first; -1: what comes in over the cut, or nobody */
	int grad_last;   /* whose backward reads its gradient last; -1: what leaves over the cut, or nobody */
	bool grad_early; /* forward of grad_first writes it already */
};

struct uses {
	const struct sl_plan_segment *s;
	const struct sl_exec_node *node;
	int n_node, n_value;
	struct value_use *use; /* [n_value] */
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

/* Logits of some rows at a time lie there from forward to backward. */
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
		/* a convolution and the batchnorm behind it may both read it: the one in front is last */
		if (n->dout >= 0 && u->use[n->dout].grad_last < 0)
			u->use[n->dout].grad_last = i;
	}
}

static void place_values(struct sl_layout *layout, struct leases *l, const struct uses *uses)
{
	const struct sl_plan_segment *s = uses->s;
	const bool mixed = sl_precision_mixed(s->precision);

	for (int v = 0; v < uses->n_value; v++) {
		const struct value_use *u = &uses->use[v];
		bool at_cut = !mixed && (v == s->in_value || (v == s->out_value && s->which != SL_TAIL));
		int read = u->last_read > u->birth ? u->last_read : u->birth;

		/* its copy as fp32 is made behind the last node */
		if (v == s->out_value && mixed)
			read = uses->n_node - 1;
		if (!u->there)
			continue;
		if (at_cut || (u->first_saver >= 0 && s->which != SL_TAIL))
			place_in_slot(layout, &layout->value[v], u->bytes);
		else
			lease_add(l, &layout->value[v], u->bytes, u->birth,
				  u->first_saver >= 0 ? 2 * uses->n_node - 1 - u->first_saver : read);
	}
}

/* A gradient lives from its first writer in backward (the value's last reader) to the node that reads it. */
static void place_gradients(struct sl_layout *layout, struct leases *l, const struct uses *uses)
{
	const struct sl_plan_segment *s = uses->s;
	const int end = 2 * uses->n_node - 1;
	const bool mixed = sl_precision_mixed(s->precision);

	for (int v = 0; v < uses->n_value; v++) {
		const struct value_use *u = &uses->use[v];

		if (v == s->out_value ? !s->grad_out : u->grad_first < 0 && u->grad_last < 0)
			continue;
		if (!mixed && (v == s->in_value || v == s->out_value))
			place_in_slot(layout, &layout->grad[v], u->bytes);
		else if (v == s->out_value) /* made in front of backward's first node */
			lease_add(l, &layout->grad[v], u->bytes, uses->n_node, end - u->grad_last);
		else
			lease_add(l, &layout->grad[v], u->bytes, u->grad_early ? u->grad_first : end - u->grad_first,
				  end - u->grad_last);
	}
}

static void place_edges(struct sl_layout *layout, const struct sl_plan_segment *s)
{
	for (int i = 0; i < SL_EDGES && sl_precision_mixed(s->precision); i++) {
		const struct sl_shape *shape = i == SL_EDGE_IN || i == SL_EDGE_DIN ? &s->in_shape : &s->out_shape;

		if ((i == SL_EDGE_DIN && !s->grad_in) || (i == SL_EDGE_DOUT && !s->grad_out))
			continue;
		place_in_slot(layout, &layout->edge[i], (size_t)sl_shape_count(shape) * sizeof(float));
	}
}

enum sl_err sl_layout_open(struct sl_layout *layout, const struct sl_plan_segment *segment,
			   const struct sl_exec_node *node, int n_node, const struct sl_op_sizes *sizes)
{
	const int n_value = segment->graph.n_value;
	struct uses uses = {segment, node, n_node, n_value, calloc((size_t)n_value, sizeof *uses.use)};
	struct leases leases = {calloc(2 * (size_t)n_value, sizeof *leases.item), 0};
	enum sl_err err = SL_ERR_NOMEM;

	*layout = (struct sl_layout){.value = calloc((size_t)n_value, sizeof *layout->value),
				     .grad = calloc((size_t)n_value, sizeof *layout->grad),
				     .saved_offset = calloc((size_t)segment->n_op, sizeof *layout->saved_offset),
				     .cache_offset = calloc((size_t)segment->n_op, sizeof *layout->cache_offset)};
	if (!uses.use || !leases.item || !layout->value || !layout->grad || !layout->saved_offset ||
	    !layout->cache_offset)
		goto out;
	for (int i = 0; i < segment->n_op; i++) {
		layout->saved_offset[i] = layout->saved_bytes;
		layout->saved_bytes += sl_align(sizes[i].saved_bytes);
		layout->cache_offset[i] = layout->cache_bytes;
		layout->cache_bytes += sizes[i].cache_bytes;
		if (sizes[i].workspace_bytes > layout->workspace_bytes)
			layout->workspace_bytes = sizes[i].workspace_bytes;
	}
	note_uses(&uses);
	place_values(layout, &leases, &uses);
	place_gradients(layout, &leases, &uses);
	place_edges(layout, segment);
	err = place_leases(&leases, &layout->scratch_bytes);
out:
	free(uses.use);
	free(leases.item);
	if (err)
		sl_layout_close(layout);
	return err;
}

void sl_layout_close(struct sl_layout *layout)
{
	free(layout->value);
	free(layout->grad);
	free(layout->saved_offset);
	free(layout->cache_offset);
	*layout = (struct sl_layout){0};
}
