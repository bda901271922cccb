#include "common/exec/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/exec/narrow.h"

enum { PARAM_ALIGN = 16 }; /* floats in a cache line */

static int64_t param_room(int64_t count)
{
	return (count + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
}

int sl_plan_chunks_of(const struct sl_plan *plan, int64_t batch_rows)
{
	return (int)((batch_rows + plan->rows - 1) / plan->rows);
}

int sl_plan_chunk_number(const struct sl_plan *plan, int chunk)
{
	return plan->spec.member * plan->spec.chunks + chunk;
}

int64_t sl_plan_chunk_rows(const struct sl_plan *plan, int64_t batch_rows, int chunk)
{
	int64_t left = batch_rows - (int64_t)chunk * plan->rows;

	return left < plan->rows ? left : plan->rows;
}

int sl_plan_split(const struct sl_plan *plan, int64_t batch_rows, int64_t rows[SL_PLAN_MAX_CHUNKS])
{
	const int n = sl_plan_chunks_of(plan, batch_rows);

	for (int i = 0; i < n; i++)
		rows[i] = sl_plan_chunk_rows(plan, batch_rows, i);
	return n;
}

int64_t sl_plan_fetch_count(const struct sl_plan_segment *s)
{
	if (s->moving_count)
		return s->moving_count;
	return s->weight_count < PARAM_ALIGN ? s->weight_count : PARAM_ALIGN;
}

/* Whether the next node is the only reader of node i's value. */
static bool only_next_reads(const struct sl_graph *g, int i)
{
	int value = g->node[i].out, n = 0;

	for (int at = i + 1; at < g->n_node; at++)
		for (int k = 0; k < g->node[at].n_in; k++)
			n += g->link[g->node[at].in + k] == value;
	return n == 1 && i + 1 < g->n_node && g->link[g->node[i + 1].in] == value && !sl_plan_goes_out(g, value);
}

/* Whether node i is a batchnorm that can apply the next node, an activation that is the only reader of its output. */
static bool fuses_act(const struct sl_graph *g, int i)
{
	return g->node[i].kind == SL_OP_BATCHNORM && only_next_reads(g, i) && g->node[i + 1].kind == SL_OP_ACT;
}

/* The largest part of its tokens that a gather of the graph keeps: masked and next-token models compute a loss for
 * these "chosen" tokens alone. A graph whose input is chosen tokens has no gather: the middle's counts. 0: there is
 * none. */
static double share_of(const struct sl_plan *plan, const struct sl_graph *g)
{
	float most = 0;

	if (g->value[g->in[0].value].lead == SL_PER_CHOSEN)
		g = &plan->segment[SL_MIDDLE].graph;
	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_GATHER && g->node[i].u.gather.share > most)
			most = g->node[i].u.gather.share;
	return (double)most;
}

int64_t sl_plan_chosen_of(double share, int64_t tokens)
{
	const int64_t n = (int64_t)(share * (double)tokens + 0.5);

	return n > 0 ? n : 1;
}

int64_t sl_plan_chosen_most(const struct sl_plan *plan, const struct sl_graph *g)
{
	const double share = share_of(plan, g);

	return share > 0 ? (int64_t)(share * (double)plan->spec.chunk_tokens) + plan->rows : 0;
}

/* The most that dimension 0 of a value can be in a chunk. */
static int64_t most_of(const struct sl_plan *plan, const struct sl_graph *g, enum sl_lead lead)
{
	switch (lead) {
	case SL_PER_ROW:
		return plan->rows;
	case SL_PER_TOKEN:
		return plan->spec.chunk_tokens;
	case SL_PER_CHOSEN:
		return sl_plan_chosen_most(plan, g);
	case SL_ONCE:
		break;
	}
	return 1;
}

/* The same for a single row. */
static int64_t most_of_row(const struct sl_plan *plan, const struct sl_graph *g, enum sl_lead lead)
{
	if (lead == SL_PER_CHOSEN)
		return sl_plan_chosen_of(share_of(plan, g), plan->spec.row_tokens);
	return lead == SL_PER_TOKEN ? plan->spec.row_tokens : 1;
}

int64_t sl_plan_cut_most_of_row(const struct sl_plan *plan, bool mid)
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];

	return most_of_row(plan, &s->graph, s->graph.value[mid ? s->out_value : s->in_value].lead);
}

static void set_rows(const struct sl_plan *plan, const struct sl_graph *g, struct sl_op *op)
{
	for (int k = 0; k < op->n_in; k++)
		op->in_shape[k].dim[0] = sl_op_parts(op) * most_of(plan, g, g->value[op->in[k]].lead);
	op->out_shape.dim[0] = sl_op_parts(op) * most_of(plan, g, g->value[op->out].lead);
}

/* A decaying field of the graph, and the n nodes that narrow with it (sl_graph_narrowing). */
struct chain {
	const struct sl_field *field;
	int n, node[SL_NARROW_CHAIN];
};

static struct chain chain_of(const struct sl_graph *g, bool out)
{
	struct chain c = {.field = out ? &g->out[0] : &g->in[0]};

	if (c.field->decay.full)
		c.n = sl_graph_narrowing(g, c.field, out, c.node);
	return c;
}

/* If node `at` is one of the chain's, marks its op as narrowing, in the width before the first step. */
static void narrow(struct sl_segment_op *so, const struct chain *c, int at, bool out)
{
	static const enum sl_narrowing how[SL_NARROW_CHAIN] = {
		[SL_NARROW_TOKENS] = SL_NARROWS_TOKENS,
		[SL_NARROW_TRANSPOSE] = SL_NARROWS_TRANSPOSE,
		[SL_NARROW_FEATURES] = SL_NARROWS_FEATURES,
	};
	const struct sl_decay *d = &c->field->decay;

	for (int i = 0; i < c->n; i++) {
		if (c->node[i] != at)
			continue;
		so->narrows = c->n == 1 ? SL_NARROWS_FEATURES : how[i];
		so->narrows_out = out;
		so->op = sl_narrowed(so, d, sl_decay_falls(d, 0));
	}
}

/* sum + macs · times, saturated: an untrusted graph may have more MACs than an int64_t can count. */
static int64_t add_macs(int64_t sum, int64_t macs, int64_t times)
{
	int64_t more;

	return __builtin_mul_overflow(macs, times, &more) || __builtin_add_overflow(sum, more, &sum) ? INT64_MAX : sum;
}

static void plan_ops(const struct sl_plan *plan, struct sl_plan_segment *s)
{
	const struct sl_graph *g = &s->graph;
	const struct chain in = chain_of(g, false), out = chain_of(g, true);

	for (int i = 0; i < g->n_node; i++) {
		struct sl_segment_op *to = &s->op[s->n_op++];

		to->op = sl_graph_op(g, i);
		narrow(to, &in, i, false);
		narrow(to, &out, i, true);
		s->macs = add_macs(s->macs, sl_op_macs(&to->op, 1), most_of_row(plan, g, g->value[to->op.out].lead));
		if (fuses_act(g, i)) {
			to->op.u.bn.act = g->node[i + 1].u.act;
			to->op.out = g->node[i + 1].out;
			i++;
		}
		set_rows(plan, g, &to->op);
		to->op.precision = s->precision;
		if (to->op.kind == SL_OP_XENT)
			s->classes = to->op.u.xent.classes;
	}
}

/* Floats that a parameter takes in the weight range. Held ones of head and tail lie outside. */
static int64_t room_in_range(const struct sl_plan_segment *s, const struct sl_param *p)
{
	const int64_t count = sl_shape_count(&p->shape);

	if (p->held == SL_F32)
		return param_room(count);
	return s->which == SL_MIDDLE ? param_room((count + 1) / 2) : 0;
}

/* Gives offsets to the parameters of one role and group, in order of the ops; one to a parameter that ops share. */
static void place_params(struct sl_plan_segment *s, enum sl_role role, int group, bool held, int *place)
{
	for (int i = 0; i < s->n_op; i++) {
		struct sl_segment_op *so = &s->op[i];

		for (int k = 0; k < so->op.n_param; k++) {
			const int at = so->op.param[k];
			const struct sl_param *p = &s->graph.param[at];
			const int64_t count = sl_shape_count(&p->shape);

			if (p->role != role || p->group != group || (p->held != SL_F32) != held)
				continue;
			if (place[at] < 0) {
				place[at] = s->n_param;
				s->param[s->n_param++] = (struct sl_segment_param){
					at, (int)p->stream, s->weight_count, count, p->held, 0};
				s->weight_count += room_in_range(s, p);
			}
			so->param[k] = place[at];
		}
	}
}

static bool has_learning_param(const struct sl_plan_segment *s, const struct sl_op *op)
{
	for (int k = 0; k < op->n_param; k++)
		if (s->graph.param[op->param[k]].role == SL_LEARNS)
			return true;
	for (int i = 0; i < s->n_tied; i++)
		for (int k = 0; k < op->n_param; k++)
			if (s->tied[i].graph_param == op->param[k] && s->tied[i].learns)
				return true;
	return false;
}

/* wanted[v] = whether value v needs a gradient: something learns at or before its maker, or in an earlier segment.
 * Inputs that cross the cut need one if s->grad_in, unless they are `still`. The tail's input 1 is the labels. Values
 * that bypass the middle (sl_plan_homes) come behind these, and need one if the head learns. */
static void mark_backward(const struct sl_plan *plan, struct sl_plan_segment *s, bool *wanted)
{
	const struct sl_homes homes = sl_plan_homes(plan);

	for (int k = 0; k < (s->which == SL_TAIL ? homes.tail_field : s->graph.n_in); k++)
		wanted[s->graph.in[k].value] = s->grad_in && !s->graph.in[k].still && !(s->which == SL_TAIL && k == 1);
	for (int k = homes.input; k < homes.n && s->which == SL_TAIL; k++)
		wanted[s->graph.in[homes.tail_field + k].value] = !plan->spec.no_grad[0];
	for (int i = 0; i < s->n_op; i++) {
		struct sl_segment_op *so = &s->op[i];

		so->backward = so->learns = has_learning_param(s, &so->op);
		for (int k = 0; k < so->op.n_in; k++) {
			so->din_want[k] = wanted[so->op.in[k]];
			so->backward = so->backward || so->din_want[k];
		}
		wanted[so->op.out] = so->backward;
	}
}

/* Visits the ops in the order of backward, to find where an op must add to a gradient that a later op has written. */
static enum sl_err mark_gradients(const struct sl_plan *plan, struct sl_plan_segment *s, int n_value)
{
	bool *written = calloc(2 * (size_t)n_value, sizeof *written);

	if (!written)
		return SL_ERR_NOMEM;
	mark_backward(plan, s, written + n_value);
	for (int k = 0; k < s->graph.n_out && s->grad_out; k++) /* it comes in, before anything here is computed */
		written[s->graph.out[k].value] = true;
	for (int i = s->n_op - 1; i >= 0; i--) {
		struct sl_segment_op *so = &s->op[i];

		for (int k = 0; k < so->op.n_in; k++) {
			int v = so->op.in[k];

			so->din_add[k] = written[v];
			written[v] = written[v] || so->din_want[k];
		}
	}
	free(written);
	return SL_OK;
}

/* The head's parameter of p's name, stream and shape; NULL: there is none. */
static const struct sl_segment_param *of_head(const struct sl_plan_segment *head, const struct sl_param *p)
{
	for (int i = 0; i < head->n_param; i++) {
		const struct sl_param *own = &head->graph.param[head->param[i].graph_param];

		if (own->stream == p->stream && strcmp(own->name, p->name) == 0 && own->role != SL_STATISTIC &&
		    sl_shape_equal(&own->shape, &p->shape))
			return &head->param[i];
	}
	return NULL;
}

static enum sl_err tie(const struct sl_plan *plan, struct sl_plan_segment *s, struct sl_fail *fail)
{
	const struct sl_plan_segment *head = &plan->segment[SL_HEAD];

	for (int i = 0; i < s->graph.n_param; i++) {
		const struct sl_param *p = &s->graph.param[i];
		const struct sl_segment_param *own = p->role == SL_TIED ? of_head(head, p) : NULL;

		if (p->role != SL_TIED)
			continue;
		if (!own)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: two layers have this parameter, and the cut parts them: take one with "
					   "both in the middle, or with neither there",
					   p->name);
		s->tied[s->n_tied] = (struct sl_tied_param){i,
							    own->offset,
							    own->count,
							    s->tied_count,
							    own->offset < head->trainable_count,
							    (int)(own - head->param)};
		if (s->tied[s->n_tied].learns)
			s->tied_count += param_room(own->count);
		for (int k = 0; k < s->n_op; k++)
			for (int at = 0; at < s->op[k].op.n_param; at++)
				if (s->op[k].op.param[at] == i)
					s->op[k].param[at] = SL_TIED_AT + s->n_tied;
		s->n_tied++;
	}
	return SL_OK;
}

bool sl_plan_is_tied(const struct sl_plan *plan, int64_t offset)
{
	const struct sl_plan_segment *tail = &plan->segment[SL_TAIL];

	for (int i = 0; i < tail->n_tied; i++)
		if (tail->tied[i].offset == offset)
			return true;
	return false;
}

static enum sl_err plan_params(const struct sl_plan *plan, struct sl_plan_segment *s)
{
	int *place = malloc(((size_t)s->graph.n_param + 1) * sizeof *place);

	if (!place)
		return SL_ERR_NOMEM;
	for (int i = 0; i < s->graph.n_param; i++)
		place[i] = -1;
	for (int group = 0; group <= SL_PLAN_GROUPS; group++) {
		place_params(s, SL_LEARNS, group, false, place);
		s->group_end[group] = s->weight_count;
	}
	s->trainable_count = s->weight_count;
	place_params(s, SL_STATISTIC, 0, false, place);
	s->moving_count = s->weight_count;
	place_params(s, SL_FROZEN, 0, false, place);
	s->float_count = s->weight_count;
	place_params(s, SL_FROZEN, 0, true, place);
	free(place);
	return mark_gradients(plan, s, s->graph.n_value);
}

static void free_segment(struct sl_plan_segment *s)
{
	free(s->op);
	free(s->param);
	free(s->tied);
	sl_graph_close(&s->graph);
	*s = (struct sl_plan_segment){0};
}

/* The shape `s` of an op as the graph has it, where one row is `row` (slices.h). */
static struct sl_shape unfolded(const struct sl_op *op, struct sl_shape s, struct sl_shape row)
{
	if (sl_op_parts(op) == 1 && op->kind != SL_OP_RESAMPLE)
		return s;
	row.dim[row.ndim - 1] = s.dim[s.ndim - 1]; /* the op may narrow */
	return sl_shape_rows(row, s.dim[0] / sl_op_parts(op));
}

static void note_shapes(struct sl_plan_segment *s)
{
	for (int i = 0; i < s->n_op; i++) {
		const struct sl_op *op = &s->op[i].op;

		for (int k = 0; k < op->n_in; k++)
			if (op->in[k] == s->in_value)
				s->in_shape = unfolded(op, op->in_shape[k], s->graph.value[s->in_value].shape);
		if (op->out == s->out_value)
			s->out_shape = unfolded(op, op->out_shape, s->graph.value[s->out_value].shape);
	}
}

enum sl_err sl_plan_add(struct sl_plan *plan, enum sl_segment which, struct sl_graph *graph, struct sl_fail *fail)
{
	struct sl_plan_segment *s = &plan->segment[which];
	enum sl_err err = sl_plan_check_part(graph, which, &plan->spec, fail);

	if (err)
		return err;
	*s = (struct sl_plan_segment){
		.which = which,
		.graph = *graph,
		.precision = which == SL_MIDDLE ? plan->spec.precision : plan->spec.ends,
		.moments = sl_optimizer_moments(plan->spec.optimizer.kind) + (plan->spec.accumulate > 1) +
			   (plan->spec.ema > 0),
		.grad_in = which != SL_HEAD && !plan->spec.no_grad[which == SL_TAIL],
		.grad_out = which != SL_TAIL && !plan->spec.no_grad[which == SL_MIDDLE],
		.op = calloc((size_t)graph->n_node, sizeof *s->op),
		.param = calloc((size_t)graph->n_param + 1, sizeof *s->param),
		.tied = calloc((size_t)graph->n_param + 1, sizeof *s->tied),
	};
	if (s->op && s->param && s->tied) {
		plan_ops(plan, s);
		err = tie(plan, s, fail);
		if (!err && plan_params(plan, s))
			err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan");
	} else {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan");
	}
	if (err) {
		s->graph = (struct sl_graph){0}; /* the caller still owns it */
		free_segment(s);
		return err;
	}
	*graph = (struct sl_graph){0};
	s->in_value = s->graph.in[0].value;
	s->out_value = s->graph.out[0].value;
	note_shapes(s);
	plan->whole_rows = plan->whole_rows || sl_graph_takes_whole_rows(&s->graph);
	if (which == SL_MIDDLE) {
		plan->decay[0] = s->graph.in[0].decay;
		plan->decay[1] = s->graph.out[0].decay;
	}
	return SL_OK;
}

static enum sl_err check_spec(const struct sl_plan_spec *spec, struct sl_fail *fail)
{
	if (spec->batch < 1 || spec->batch > SL_PLAN_MAX_BATCH)
		return sl_fail_at(fail, "train.batch", SL_ERR_CONFIG, "batch must be 1 to %d, not %" PRId64,
				  SL_PLAN_MAX_BATCH, spec->batch);
	if (spec->chunks < 1 || spec->chunks > SL_PLAN_MAX_CHUNKS || spec->chunks > spec->batch)
		return sl_fail_at(fail, "train.chunks", SL_ERR_CONFIG,
				  "chunks must be 1 to %" PRId64 " (the batch is %" PRId64 ", the most is %d), not %d",
				  spec->batch < SL_PLAN_MAX_CHUNKS ? spec->batch : (int64_t)SL_PLAN_MAX_CHUNKS,
				  spec->batch, SL_PLAN_MAX_CHUNKS, spec->chunks);
	if ((unsigned)spec->precision >= SL_PRECISION_COUNT)
		return sl_fail_at(fail, "train.precision", SL_ERR_CONFIG, "no precision has the number %d",
				  (int)spec->precision);
	return sl_optimizer_check(&spec->optimizer, fail);
}

static enum sl_err check_token_counts(const struct sl_plan *plan, struct sl_fail *fail)
{
	const int64_t row = plan->spec.row_tokens, chunk = plan->spec.chunk_tokens;

	if (!row && !chunk)
		return SL_OK;
	if (row < 1 || row > UINT16_MAX || chunk < plan->rows || chunk > plan->rows * row)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%" PRId64 " tokens are not those of %" PRId64 " rows of 1 to %" PRId64
				   ", or these are above %d",
				   chunk, plan->rows, row, UINT16_MAX);
	return SL_OK;
}

enum sl_err sl_plan_begin(struct sl_plan **out, const struct sl_plan_spec *spec, struct sl_fail *fail)
{
	struct sl_plan *plan;
	enum sl_err err = check_spec(spec, fail);

	if (err)
		return err;
	plan = calloc(1, sizeof *plan);
	if (!plan)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan");
	plan->spec = *spec;
	plan->rows = (spec->batch + spec->chunks - 1) / spec->chunks;
	err = check_token_counts(plan, fail);
	if (err) {
		free(plan);
		return err;
	}
	*out = plan;
	return SL_OK;
}

enum sl_err sl_plan_open_part(struct sl_plan **out, const struct sl_plan_spec *spec, enum sl_segment which,
			      struct sl_graph *graph, struct sl_fail *fail)
{
	struct sl_plan *plan;
	enum sl_err err = sl_plan_begin(&plan, spec, fail);

	if (err)
		return err;
	sl_plan_settle(plan, graph);
	err = sl_plan_add(plan, which, graph, fail);
	if (!err) {
		err = sl_plan_seal(plan, fail);
		if (err) {
			*graph = plan->segment[which].graph;
			plan->segment[which].graph = (struct sl_graph){0};
		}
	}
	if (err) {
		sl_plan_close(plan);
		return err;
	}
	*out = plan;
	return SL_OK;
}

void sl_plan_close(struct sl_plan *plan)
{
	if (!plan)
		return;
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		free_segment(&plan->segment[i]);
	sl_model_close(plan->model);
	free(plan);
}
