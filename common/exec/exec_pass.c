/* One pass of a segment over a chunk: forward, backward, or the update of running statistics. */
#include "common/base/worker.h"
#include "common/exec/exec_blocks.h"
#include "common/exec/exec_impl.h"

static void *address(struct sl_exec *e, const struct sl_place *place, int slot)
{
	switch (place->region) {
	case SL_REGION_SLOT:
		return e->slot_area + (size_t)slot * e->layout.slot_bytes + place->offset;
	case SL_REGION_SCRATCH:
		return e->scratch + place->offset;
	default:
		return NULL;
	}
}

static struct sl_tensor tensor_at(struct sl_exec *e, const struct sl_place *place, int slot, struct sl_shape shape)
{
	return (struct sl_tensor){sl_precision_dtype(e->segment->precision), shape, address(e, place, slot), e->be};
}

/* A tensor at a segment's end, which is fp32: the segment's own value `own`, or in a 16-bit segment the copy. */
static struct sl_tensor edge_at(struct sl_exec *e, enum sl_edge edge, const struct sl_place *own, int slot,
				struct sl_shape shape)
{
	struct sl_tensor t = tensor_at(e, sl_exec_mixed(e) ? &e->layout.edge[edge] : own, slot, shape);

	t.dtype = edge == SL_EDGE_IN ? e->segment->graph.value[e->segment->in_value].dtype : SL_F32;
	return t;
}

/* Dimension 0 of a value in a chunk. */
static int64_t count_of(const struct sl_exec *e, int value, const struct sl_dims *dims)
{
	switch (e->segment->graph.value[value].lead) {
	case SL_PER_ROW:
		return dims->rows;
	case SL_PER_TOKEN:
		return dims->tokens;
	case SL_PER_CHOSEN:
		return dims->chosen;
	case SL_ONCE:
		break;
	}
	return 1;
}

int64_t sl_exec_in_count(const struct sl_exec *e, const struct sl_dims *dims)
{
	return count_of(e, e->segment->in_value, dims);
}

int64_t sl_exec_out_count(const struct sl_exec *e, const struct sl_dims *dims)
{
	return count_of(e, e->segment->out_value, dims);
}

/* A tensor of the segment's input or output. At a cut it has the width that decaying inserts give it now. */
static struct sl_tensor at_end(struct sl_exec *e, enum sl_edge edge, const struct sl_place *place, int slot,
			       int64_t rows)
{
	const struct sl_plan_segment *s = e->segment;
	bool output = edge == SL_EDGE_OUT || edge == SL_EDGE_DOUT;
	bool cut = output ? s->which != SL_TAIL : s->which != SL_HEAD, mid = (s->which == SL_MIDDLE) == output;
	struct sl_shape shape = cut ? sl_plan_cut_shape_after(e->plan, mid, rows, e->done)
				    : sl_shape_rows(output ? s->out_shape : s->in_shape, rows);

	return edge_at(e, edge, place, slot, shape);
}

struct sl_tensor sl_exec_input(struct sl_exec *e, int slot, int64_t rows)
{
	return at_end(e, SL_EDGE_IN, &e->layout.value[e->segment->in_value], slot, rows);
}

struct sl_tensor sl_exec_output(struct sl_exec *e, int slot, int64_t rows)
{
	return at_end(e, SL_EDGE_OUT, &e->layout.value[e->segment->out_value], slot, rows);
}

struct sl_tensor sl_exec_dout(struct sl_exec *e, int slot, int64_t rows)
{
	return at_end(e, SL_EDGE_DOUT, &e->layout.grad[e->segment->out_value], slot, rows);
}

struct sl_tensor sl_exec_din(struct sl_exec *e, int slot, int64_t rows)
{
	return at_end(e, SL_EDGE_DIN, &e->layout.grad[e->segment->in_value], slot, rows);
}

struct sl_tensor sl_exec_field(struct sl_exec *e, enum sl_exec_end end, int field, int slot, const struct sl_dims *dims)
{
	const struct sl_graph *g = &e->segment->graph;
	const bool output = end == SL_END_OUT || end == SL_END_DOUT, value = end == SL_END_IN || end == SL_END_OUT;
	const int v = output ? g->out[field].value : g->in[field].value;

	return tensor_at(e, value ? &e->layout.value[v] : &e->layout.grad[v], slot,
			 sl_shape_rows(g->value[v].shape, count_of(e, v, dims)));
}

int sl_exec_crossing(struct sl_exec *e, enum sl_exec_end end, int slot, const struct sl_dims *dims,
		     struct sl_tensor x[SL_CUT_VALUES])
{
	const bool tail = e->segment->which == SL_TAIL, output = end == SL_END_OUT || end == SL_END_DOUT;
	const int n = sl_plan_cut_values(e->plan, (e->segment->which == SL_MIDDLE) == output);
	const int64_t count = output ? sl_exec_out_count(e, dims) : sl_exec_in_count(e, dims);

	x[0] = end == SL_END_IN    ? sl_exec_input(e, slot, count)
	       : end == SL_END_OUT ? sl_exec_output(e, slot, count)
	       : end == SL_END_DIN ? sl_exec_din(e, slot, count)
				   : sl_exec_dout(e, slot, count);
	for (int v = 1; v < n; v++)
		x[v] = sl_exec_field(e, end, v + tail, slot, dims); /* a tail's field 1 has labels */
	return n;
}

/* A slot's sl_dims_numbers and, behind them, its chosen tokens, in the backend's memory. */
static uint32_t *begin_at(const struct sl_exec *e, int slot)
{
	return e->begin + (size_t)slot * sl_exec_begin_numbers(e);
}

static uint32_t *place_at(const struct sl_exec *e, int slot)
{
	return begin_at(e, slot) + sl_dims_numbers(e->plan->rows, sl_plan_pairs(&e->plan->spec));
}

/* The dims that an op's kernel gets. Attention over tokens gets a row's padding as a row of its own: so real tokens do
 * not attend to it, and kernels need not know about padding. Attention inside per-row values gets rows as they are. */
static struct sl_dims dims_of(const struct sl_exec *e, const struct sl_exec_call *call, const struct sl_op *op)
{
	struct sl_dims dims = call->dims;

	if (dims.begin && e->begin) {
		dims.begin = begin_at(e, call->slot);
		if (dims.pieces)
			dims.pieces = sl_dims_pairs(begin_at(e, call->slot), e->plan->rows);
		if (dims.place && sl_plan_chosen_most(e->plan, &e->segment->graph))
			dims.place = place_at(e, call->slot);
	}
	if (dims.pieces && op->kind == SL_OP_ATTENTION && !op->u.attention.each)
		dims = (struct sl_dims){.rows = 2 * dims.rows, .tokens = dims.tokens, .begin = dims.pieces};
	return dims;
}

/* Uploads a chunk's numbers, if the backend's kernels cannot read the caller's memory. */
static enum sl_err send_dims(struct sl_exec *e, const struct sl_exec_call *call)
{
	const struct sl_dims *dims = &call->dims;
	uint32_t *to = e->begin ? begin_at(e, call->slot) : NULL;
	enum sl_err err = SL_OK;

	if (!dims->begin || !to)
		return SL_OK;
	err = e->be->ops->upload(e->be, to, dims->begin, ((size_t)dims->rows + 1) * sizeof *to);
	if (!err && dims->pieces)
		err = e->be->ops->upload(e->be, sl_dims_pairs(to, e->plan->rows), dims->pieces,
					 (2 * (size_t)dims->rows + 1) * sizeof *to);
	if (!err && dims->chosen && sl_plan_chosen_most(e->plan, &e->segment->graph))
		err = e->be->ops->upload(e->be, place_at(e, call->slot), dims->place,
					 (size_t)dims->chosen * sizeof *to);
	return err;
}

enum sl_err sl_exec_cache_take(struct sl_exec *e, const struct sl_dims *dims, struct sl_fail *fail)
{
	for (int64_t i = 0; i < dims->rows && dims->cached; i++) {
		const uint32_t row = dims->cached[2 * i], past = dims->cached[2 * i + 1];

		if (row >= e->plan->spec.batch)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "row %u of a cache that has %lld", row,
					   (long long)e->plan->spec.batch);
		if (past > e->filled[row])
			return sl_fail_set(fail, SL_ERR_PAYLOAD,
					   "row %u goes on behind %u tokens, of which the cache has %u", row, past,
					   e->filled[row]);
		e->filled[row] = past + dims->begin[i + 1] - dims->begin[i];
	}
	return SL_OK;
}

/* The arguments of one op's call, without tensors. */
static struct sl_op_call op_call(struct sl_exec *e, int i, const struct sl_exec_call *call)
{
	const struct sl_segment_op *so = &e->segment->op[i];
	struct sl_op_call c = {
		.be = e->be,
		.op = e->op[i],
		.state = e->state[i],
		.dims = dims_of(e, call, &so->op),
		.rng = {e->plan->spec.seed, call->step, (uint16_t)call->chunk, so->op.stream},
		.training = call->training,
		.saved = e->saved_area + (size_t)call->slot * e->layout.saved_bytes + e->layout.saved_offset[i],
		.workspace = e->workspace,
		.cache = e->cache ? e->cache + (size_t)e->plan->spec.batch * e->layout.cache_offset[i] : NULL,
	};

	sl_exec_params(e, i, &c);
	return c;
}

/* A node's call, and those of the ops that are fused with it. It has pointers into itself, so do not copy it. */
struct node_call {
	struct sl_op_call call, pre, post;
};

static void open_node(struct node_call *c, struct sl_exec *e, const struct sl_exec_node *n,
		      const struct sl_exec_call *call)
{
	c->call = op_call(e, n->op, call);
	c->call.form = n->form;
	if (n->pre >= 0) {
		c->pre = op_call(e, n->pre, call);
		c->call.pre = &c->pre;
	}
	if (n->post >= 0) {
		c->post = op_call(e, n->post, call);
		c->call.post = &c->post;
	}
}

/* The tensor of a value; its data is NULL if `value` is -1. */
static struct sl_tensor of_value(struct sl_exec *e, const struct sl_place *places, int value, int slot,
				 struct sl_shape shape)
{
	static const struct sl_place none;

	return tensor_at(e, value >= 0 ? &places[value] : &none, slot, shape);
}

static struct sl_shape in_shape(const struct sl_exec *e, const struct sl_op *op, int k, const struct sl_dims *dims)
{
	return sl_shape_rows(op->in_shape[k], sl_op_parts(op) * count_of(e, op->in[k], dims));
}

static struct sl_shape out_shape(const struct sl_exec *e, const struct sl_op *op, const struct sl_dims *dims)
{
	return sl_shape_rows(op->out_shape, sl_op_parts(op) * count_of(e, op->out, dims));
}

enum sl_err sl_exec_begin(struct sl_exec *e)
{
	const struct sl_plan_segment *s = e->segment;
	struct sl_range r = {0};
	enum sl_err err = SL_OK;

	sl_exec_order_begin(e);
	e->tried = e->finite = false;
	err = sl_exec_show_average(e, false);
	while (!err && sl_exec_range(e, &r))
		err = e->be->ops->zero(e->be, e->grad + r.from, (size_t)r.count * sizeof(float));
	sl_exec_table_begin(e);
	if (!err)
		err = sl_exec_load_sum(e);
	if (!err && s->tied_count)
		err = e->be->ops->zero(e->be, e->grad + s->trainable_count, (size_t)s->tied_count * sizeof(float));
	for (int i = 0; i < e->n_narrow && !err; i++)
		err = sl_narrow_pull(&e->narrow[i], e->be, e->weight, e->grad, e->loss_scale.scale,
				     sl_exec_falls(e, i));
	return err;
}

/* Number of labels, or of targets, of a chunk. */
static int64_t labels_of(const struct sl_exec *e, const struct sl_dims *dims)
{
	const int value = e->segment->graph.in[1].value;

	return count_of(e, value, dims) * sl_shape_row(&e->segment->graph.value[value].shape);
}

static enum sl_err check_labels(const struct sl_exec *e, const struct sl_exec_loss *loss, int64_t rows)
{
	if (!e->segment->classes) /* targets */
		return SL_OK;
	for (int64_t i = 0; i < rows; i++) {
		if (loss->ignores && loss->labels[i] == loss->ignored)
			continue;
		if (loss->labels[i] < 0 || loss->labels[i] >= e->segment->classes)
			return SL_ERR_DATA;
		if (loss->other && (loss->other[i] < 0 || loss->other[i] >= e->segment->classes))
			return SL_ERR_DATA;
	}
	return SL_OK;
}

static struct sl_xent_rule rule_of(const struct sl_op *op, const struct sl_exec_call *call,
				   const struct sl_exec_loss *loss)
{
	const bool learns = op->kind == SL_OP_XENT && call->training;

	return (struct sl_xent_rule){.smoothing = learns ? op->u.xent.smoothing : 0,
				     .ignores = loss->ignores,
				     .ignored = loss->ignored,
				     .other = learns ? loss->other : NULL,
				     .share = learns ? loss->share : NULL,
				     .dice = loss->dice,
				     .weight = call->training ? loss->weight : NULL};
}

/* Puts labels, targets and rule into a loss' call. */
static void ask_loss(struct sl_op_call *c, const struct sl_exec_call *call, const struct sl_exec_loss *loss)
{
	c->rule = rule_of(c->op, call, loss);
	c->labels = loss->labels;
	c->targets = loss->targets;
	c->loss_scale = loss->scale;
}

/* The calls of a node that computes logits in blocks of rows. */
static struct sl_blocks open_blocks(struct node_call *c, struct sl_exec *e, const struct sl_exec_node *n,
				    const struct sl_exec_call *call)
{
	const struct sl_op *linear = e->op[n->pre];
	const struct sl_shape shape = in_shape(e, linear, 0, &call->dims);

	c->pre.in[0] = of_value(e, e->at, n->in[0], call->slot, shape);
	c->pre.din[0] = of_value(e, e->layout.grad, n->din[0], call->slot, shape);
	c->pre.out = of_value(e, e->at, n->logits, call->slot, sl_shape_rows(linear->out_shape, n->rows));
	return (struct sl_blocks){&c->pre, &c->call, n->rows, e->segment->op[n->pre].learns};
}

static enum sl_err forward_node(struct sl_exec *e, const struct sl_exec_node *n, const struct sl_exec_call *call,
				struct sl_exec_loss *loss)
{
	const struct sl_op *op = e->op[n->op];
	struct node_call c;
	enum sl_err err;

	open_node(&c, e, n, call);
	for (int k = 0; k < op->n_in; k++)
		c.call.in[k] = of_value(e, e->at, n->in[k], call->slot, in_shape(e, op, k, &call->dims));
	c.call.out = of_value(e, e->at, n->out, call->slot, out_shape(e, op, &call->dims));
	if (sl_op_is_loss(op->kind)) {
		ask_loss(&c.call, call, loss);
		loss->dice_sum = 0;
		c.call.loss_sum = &loss->sum;
		c.call.dice_sum = &loss->dice_sum;
		c.call.correct = &loss->correct;
	}
	if (n->logits >= 0) {
		const struct sl_blocks blocks = open_blocks(&c, e, n, call);

		return sl_blocks_forward(&blocks, loss->logits);
	}
	err = sl_exec_kernel(e, n->op)->forward(&c.call);
	if (!err && sl_op_is_loss(op->kind) && loss->logits)
		err = e->be->ops->download(e->be, loss->logits, c.call.in[0].data,
					   (size_t)sl_shape_count(&c.call.in[0].shape) * sizeof *loss->logits);
	return err;
}

static enum sl_err forward_nodes(struct sl_exec *e, const struct sl_exec_call *call, struct sl_exec_loss *loss)
{
	enum sl_err err = SL_OK;

	e->at = e->layout.value;
	for (int i = 0; i < e->n_node && !err; i++)
		err = sl_worker_unwanted() ? SL_ERR_PEER_LOST : forward_node(e, &e->node[i], call, loss);
	return err;
}

static enum sl_err backward_node(struct sl_exec *e, const struct sl_exec_node *n, const struct sl_exec_call *call,
				 const struct sl_exec_loss *loss)
{
	const struct sl_op *op = e->op[n->op];
	const struct sl_shape made = out_shape(e, op, &call->dims);
	struct node_call c;

	open_node(&c, e, n, call);
	for (int k = 0; k < op->n_in; k++) {
		struct sl_shape shape = in_shape(e, op, k, &call->dims);

		c.call.in[k] = of_value(e, e->at, k < n->keeps_in ? n->in[k] : -1, call->slot, shape);
		c.call.din[k] = of_value(e, e->layout.grad, n->din[k], call->slot, shape);
		c.call.din_add[k] = n->din_add[k];
	}
	c.call.out = of_value(e, e->at, n->keeps_out ? n->out : -1, call->slot, made);
	c.call.dout = of_value(e, e->layout.grad, n->dout, call->slot, made);
	if (sl_op_is_loss(op->kind))
		ask_loss(&c.call, call, loss);
	if (n->logits >= 0) {
		const struct sl_blocks blocks = open_blocks(&c, e, n, call);

		return sl_blocks_backward(&blocks);
	}
	return sl_exec_kernel(e, n->op)->backward(&c.call);
}

/* Recomputes the values of nodes [from, to) that the forward pass did not keep. */
static enum sl_err repeat_nodes(struct sl_exec *e, int from, int to, const struct sl_exec_call *call)
{
	enum sl_err err = SL_OK;

	for (int i = from; i < to && !err; i++)
		if (e->layout.repeats[i])
			err = sl_worker_unwanted() ? SL_ERR_PEER_LOST : forward_node(e, &e->node[i], call, NULL);
	return err;
}

static enum sl_err backward_nodes(struct sl_exec *e, const struct sl_exec_call *call, const struct sl_exec_loss *loss)
{
	const int *stretch = e->layout.stretch;
	enum sl_err err = SL_OK;

	e->at = e->layout.again;
	for (int s = e->layout.n_stretch - 1; s >= 0 && !err; s--) {
		err = repeat_nodes(e, stretch[s], stretch[s + 1], call);
		for (int i = stretch[s + 1] - 1; i >= stretch[s] && !err; i--)
			if (e->node[i].backward)
				err = sl_worker_unwanted() ? SL_ERR_PEER_LOST
							   : backward_node(e, &e->node[i], call, loss);
	}
	return err;
}

static bool is_statistic(const struct sl_plan_segment *s, int param)
{
	return param < SL_TIED_AT && s->graph.param[s->param[param].graph_param].role == SL_STATISTIC;
}

static enum sl_err commit_ops(struct sl_exec *e, const struct sl_exec_call *call)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < e->segment->n_op && !err; i++) {
		const struct sl_kernel *kernel = sl_exec_kernel(e, i);
		struct sl_op_call c;

		if (!kernel->commit)
			continue;
		c = op_call(e, i, call);
		for (int k = 0; k < c.op->n_param; k++)
			if (is_statistic(e->segment, e->segment->op[i].param[k]))
				c.param[k] = e->trial + (c.param[k] - (e->weight + e->segment->trainable_count));
		for (int k = 0; k < c.op->n_in; k++)
			c.in[k].shape = in_shape(e, c.op, k, &call->dims);
		c.out.shape = out_shape(e, c.op, &call->dims);
		err = kernel->commit(&c);
	}
	return err;
}

/* ---- passes without a loss, which the backend may have recorded */

/* Converts between the fp32 tensor at a cut and the segment's own 16-bit value or gradient; `in`: to the latter. */
static enum sl_err convert(struct sl_exec *e, struct sl_tensor crossing, const struct sl_place *own, int slot, bool in,
			   const float *scale)
{
	enum sl_dtype low = sl_precision_dtype(e->segment->precision);
	void *there = address(e, own, slot);
	int64_t count = sl_shape_count(&crossing.shape);

	return in ? e->be->ops->convert(e->be, there, low, crossing.data, SL_F32, scale, count)
		  : e->be->ops->convert(e->be, crossing.data, SL_F32, there, low, scale, count);
}

static enum sl_err forward_mixed(struct sl_exec *e, const struct sl_exec_call *call)
{
	const struct sl_plan_segment *s = e->segment;
	enum sl_err err = convert(e, sl_exec_input(e, call->slot, sl_exec_in_count(e, &call->dims)),
				  &e->layout.value[s->in_value], call->slot, true, NULL);

	if (!err)
		err = forward_nodes(e, call, NULL);
	return err ? err
		   : convert(e, sl_exec_output(e, call->slot, sl_exec_out_count(e, &call->dims)),
			     &e->layout.value[s->out_value], call->slot, false, NULL);
}

static enum sl_err backward_mixed(struct sl_exec *e, const struct sl_exec_call *call)
{
	const struct sl_plan_segment *s = e->segment;
	enum sl_err err = convert(e, sl_exec_dout(e, call->slot, sl_exec_out_count(e, &call->dims)),
				  &e->layout.grad[s->out_value], call->slot, true, e->scale);

	if (!err)
		err = backward_nodes(e, call, NULL);
	return err || !s->grad_in
		       ? err
		       : convert(e, sl_exec_din(e, call->slot, sl_exec_in_count(e, &call->dims)),
				 &e->layout.grad[s->in_value], call->slot, false, e->scale ? e->scale + 1 : NULL);
}

static enum sl_err compute(struct sl_exec *e, enum sl_pass_kind kind, const struct sl_exec_call *call)
{
	const bool mixed = sl_exec_mixed(e);

	return kind == SL_PASS_FORWARD    ? (mixed ? forward_mixed(e, call) : forward_nodes(e, call, NULL))
	       : kind == SL_PASS_BACKWARD ? (mixed ? backward_mixed(e, call) : backward_nodes(e, call, NULL))
					  : commit_ops(e, call);
}

static int64_t row_of(struct sl_tensor t)
{
	return sl_shape_row(&t.shape);
}

static enum sl_err run_pass(struct sl_exec *e, enum sl_pass_kind kind, const struct sl_exec_call *call)
{
	const struct sl_backend_ops *ops = e->be->ops;
	enum sl_pass_way way = SL_PASS_PLAIN;
	enum sl_err err = SL_OK;

	/* Passes over rows of tokens are not recorded: lengths differ from chunk to chunk, so none would be reused. */
	if (ops->pass_begin && !call->dims.begin) {
		const struct sl_pass pass = {
			.owner = e,
			.kind = kind,
			.slot = call->slot,
			.training = call->training,
			.rows = call->dims.rows,
			.width_in = row_of(sl_exec_input(e, call->slot, sl_exec_in_count(e, &call->dims))),
			.width_out = row_of(sl_exec_output(e, call->slot, sl_exec_out_count(e, &call->dims))),
			.step = call->step};

		err = ops->pass_begin(e->be, &pass, &way);
	}
	if (err || way == SL_PASS_DONE)
		return err;
	err = compute(e, kind, call);
	if (way == SL_PASS_PLAIN)
		return err;
	err = ops->pass_end(e->be, err, &way);
	return err || way == SL_PASS_DONE ? err : compute(e, kind, call);
}

enum sl_err sl_exec_forward(struct sl_exec *e, const struct sl_exec_call *call, struct sl_exec_loss *loss)
{
	enum sl_err err;

	sl_exec_order_forward(e, call);
	err = send_dims(e, call);
	if (!err && e->segment->n_tied && !e->owner)
		return SL_ERR_BUG;
	if (!err && !call->training)
		err = sl_exec_show_average(e, true);
	if (!err && e->table.rows)
		err = sl_exec_table_read(e, sl_exec_input(e, call->slot, sl_exec_in_count(e, &call->dims)).data,
					 sl_exec_in_count(e, &call->dims), call->training);
	if (!err)
		err = loss ? check_labels(e, loss, labels_of(e, &call->dims)) : run_pass(e, SL_PASS_FORWARD, call);
	return err || !loss ? err : forward_nodes(e, call, loss);
}

static enum sl_err backward_pass(struct sl_exec *e, const struct sl_exec_call *call, const struct sl_exec_loss *loss)
{
	return loss ? backward_nodes(e, call, loss) : run_pass(e, SL_PASS_BACKWARD, call);
}

static enum sl_err clear_part(struct sl_exec *e)
{
	enum sl_err err = SL_OK;

	for (struct sl_range r = {0}; !err && sl_exec_range(e, &r);)
		err = e->be->ops->zero(e->be, e->part + r.from, (size_t)r.count * sizeof *e->part);
	return err;
}

/* Computes grad += part. */
static enum sl_err add_part(struct sl_exec *e)
{
	enum sl_err err = SL_OK;

	for (struct sl_range r = {0}; !err && sl_exec_range(e, &r);) {
		float *sum = e->grad + r.from;
		const float *x = e->part + r.from;

		if (!e->be->host_memory)
			err = e->be->ops->add(e->be, sum, x, r.count);
		for (int64_t i = 0; i < r.count && e->be->host_memory; i++)
			sum[i] += x[i];
	}
	return err;
}

/* Kernels add a chunk's gradient piece by piece, so the sum of earlier chunks would affect its rounding. If the plan
 * excludes that (chunk_sums), the chunks after the first are summed in `part`. */
enum sl_err sl_exec_backward(struct sl_exec *e, const struct sl_exec_call *call, const struct sl_exec_loss *loss)
{
	enum sl_err err;

	sl_exec_order_backward(e, call);
	e->finite = false;
	if (!e->part || call->slot == 0)
		return backward_pass(e, call, loss);
	err = clear_part(e);
	e->to = e->part;
	if (!err)
		err = backward_pass(e, call, loss);
	e->to = e->grad;
	return err ? err : add_part(e);
}

enum sl_err sl_exec_try_chunk(struct sl_exec *e, int chunk, int64_t rows)
{
	const struct sl_exec_call call = {.slot = chunk, .chunk = chunk, .dims = sl_dims_rows(rows), .training = true};

	return run_pass(e, SL_PASS_COMMIT, &call);
}
