#include "common/exec/rewrite.h"

#include <stdlib.h>

/* How an op is fused with its neighbours. */
struct choice {
	struct sl_exec_form form;
	int pre, post;
	bool absorbed; /* neighbouring nodes do all of its work */
};

/* The op that makes a value, and the only op that reads it. -1: no op of this segment; -2: several read it. */
struct ends {
	int maker, reader;
};

struct rewrite {
	const struct sl_plan_segment *part;
	const struct sl_backend *be;
	struct choice *choice; /* [part->n_op] */
	struct ends *ends;     /* [values] */
};

static bool takes(const struct rewrite *r, int i, struct sl_exec_form form)
{
	const struct sl_op *op = &r->part->op[i].op;
	const struct sl_kernel *kernel = r->be->ops->kernel[op->kind];

	return kernel && kernel->takes && kernel->takes(op, form);
}

/* Whether op i is of this kind and may be fused. One that narrows may not be: a form that its kernel supports at one
 * width may be unsupported at the next. */
static bool is_wide(const struct rewrite *r, int i, enum sl_op_kind kind)
{
	return i >= 0 && r->part->op[i].op.kind == kind && !r->part->op[i].narrows;
}

static bool takes_pre(const struct rewrite *r, int i, enum sl_op_kind kind, enum sl_pre pre)
{
	struct sl_exec_form form;

	if (!is_wide(r, i, kind))
		return false;
	form = r->choice[i].form;
	form.pre = pre;
	return takes(r, i, form);
}

static bool takes_post(const struct rewrite *r, int i, enum sl_op_kind kind, enum sl_post post)
{
	struct sl_exec_form form;

	if (!is_wide(r, i, kind))
		return false;
	form = r->choice[i].form;
	form.post = post;
	return takes(r, i, form);
}

/* Ops can become one node only if both have a backward, or neither. */
static bool alike(const struct rewrite *r, int a, int b)
{
	return a < 0 || b < 0 || r->part->op[a].backward == r->part->op[b].backward;
}

static bool takes_half(const struct rewrite *r, int norm, enum sl_half half)
{
	return takes(r, norm, (struct sl_exec_form){.half = half});
}

/* One pass over the ops, because an untrusted graph may have thousands. The segment's outputs count as read by several
 * ops, so that they stay in memory. */
static enum sl_err find_ends(struct rewrite *r)
{
	const struct sl_plan_segment *s = r->part;
	int values = s->graph.n_value;

	for (int i = 0; i < s->n_op; i++) {
		values = s->op[i].op.out >= values ? s->op[i].op.out + 1 : values;
		for (int k = 0; k < s->op[i].op.n_in; k++)
			values = s->op[i].op.in[k] >= values ? s->op[i].op.in[k] + 1 : values;
	}
	r->ends = malloc((size_t)values * sizeof *r->ends);
	if (!r->ends)
		return SL_ERR_NOMEM;
	for (int v = 0; v < values; v++)
		r->ends[v] = (struct ends){-1, -1};
	for (int i = 0; i < s->n_op; i++) {
		r->ends[s->op[i].op.out].maker = i;
		for (int k = 0; k < s->op[i].op.n_in; k++) {
			struct ends *e = &r->ends[s->op[i].op.in[k]];

			e->reader = e->reader == -1 ? i : -2;
		}
	}
	for (int i = 0; i < s->graph.n_out; i++)
		r->ends[s->graph.out[i].value].reader = -2;
	return SL_OK;
}

/* Fuses an activation with the convolution behind it, which applies it to its input, and its derivative in backward;
 * else with the addition in front, if no other op reads the sum. */
static void choose_act(struct rewrite *r, int act)
{
	const struct sl_segment_op *so = &r->part->op[act];
	const int consumer = r->ends[so->op.out].reader, sum = r->ends[so->op.in[0]].maker;

	if (so->din_add[0]) /* the convolution cannot add the activation's input gradient to another one */
		return;
	if (alike(r, act, consumer) && takes_pre(r, consumer, SL_OP_CONV2D, SL_PRE_ACT)) {
		r->choice[consumer].form.pre = SL_PRE_ACT;
		r->choice[consumer].pre = act;
		r->choice[act].absorbed = true;
	} else if (r->ends[so->op.in[0]].reader == act && alike(r, act, sum) &&
		   takes_post(r, sum, SL_OP_ADD, SL_POST_ACT)) {
		r->choice[sum].form.post = SL_POST_ACT;
		r->choice[sum].post = act;
		r->choice[act].absorbed = true;
	}
}

/* Fuses a window along the depth with the convolution behind it, if that sees its output slice by slice. */
static void choose_window(struct rewrite *r, int window)
{
	const struct sl_op *op = &r->part->op[window].op;
	const int64_t height = op->in_shape[0].dim[1] / op->slices;
	const int conv = r->ends[op->out].reader;
	struct sl_exec_form form = {.pre = SL_PRE_WINDOW, .window = op, .window_din = r->part->op[window].din_want[0]};

	if (op->u.window.back || !alike(r, window, conv) || !is_wide(r, conv, SL_OP_CONV2D) ||
	    r->part->op[conv].op.in_shape[0].dim[1] != height || !takes(r, conv, form))
		return;
	r->choice[conv].form = form;
	r->choice[conv].pre = window;
	r->choice[window].absorbed = true;
}

/* Whether op i, which reads the batchnorm's output, can apply its statistics. An addition can, to its first input. */
static bool applies(const struct rewrite *r, int norm, int i)
{
	const struct sl_op *op = &r->part->op[norm].op;

	return takes_pre(r, i, SL_OP_CONV2D, SL_PRE_NORM) ||
	       (op->u.bn.act == SL_ACT_NONE && takes_pre(r, i, SL_OP_ADD, SL_PRE_NORM) &&
		r->part->op[i].op.in[0] == op->out);
}

/* Fuses a batchnorm: the convolution in front computes its statistics, or does all of its work; if it does not do all,
 * the convolution or addition behind applies them. */
static void choose_norm(struct rewrite *r, int norm)
{
	const struct sl_op *op = &r->part->op[norm].op;
	int producer = r->ends[op->in[0]].maker, consumer = r->ends[op->out].reader;
	bool front = r->ends[op->in[0]].reader == norm && alike(r, norm, producer) &&
		     takes_post(r, producer, SL_OP_CONV2D, SL_POST_STATS) && takes_half(r, norm, SL_HALF_APPLY);

	if (front) {
		r->choice[producer].post = norm;
		if (!r->part->op[producer].din_want[0] && takes_post(r, producer, SL_OP_CONV2D, SL_POST_WHOLE)) {
			r->choice[producer].form.post = SL_POST_WHOLE;
			r->choice[norm].absorbed = true;
			return;
		}
		r->choice[producer].form.post = SL_POST_STATS;
		r->choice[norm].form.half = SL_HALF_APPLY;
	}
	if (!alike(r, norm, consumer) || !applies(r, norm, consumer) || !takes_half(r, norm, SL_HALF_STATS))
		return;
	r->choice[consumer].form.pre = SL_PRE_NORM;
	r->choice[consumer].pre = norm;
	if (front)
		r->choice[norm].absorbed = true;
	else
		r->choice[norm].form.half = SL_HALF_STATS;
}

/* Rows of logits in a block, if the loss computes in blocks; 0: it does not. */
static int64_t rows_at_a_time(const struct rewrite *r, const struct sl_op *loss)
{
	const int64_t classes = sl_shape_row(&loss->in_shape[0]), most = loss->in_shape[0].dim[0];
	const size_t bytes = r->be->logit_bytes ? r->be->logit_bytes : SL_LOGIT_BYTES;
	const int64_t fit = (int64_t)(bytes / sizeof(float)) / classes;

	if (!r->be->logit_bytes && classes <= SL_LOGITS_FEW)
		return 0;
	return fit < 1 ? 1 : fit < most ? fit : most;
}

/* Fuses the loss with the linear layer in front, if no other op reads the logits. */
static void choose_loss(struct rewrite *r, int loss)
{
	const struct sl_op *op = &r->part->op[loss].op;
	const int linear = r->ends[op->in[0]].maker;
	const struct sl_exec_form form = {.pre = SL_PRE_LINEAR};

	if (linear < 0 || r->ends[op->in[0]].reader != loss || r->part->op[linear].op.kind != SL_OP_LINEAR ||
	    r->part->op[linear].narrows || r->part->op[linear].din_add[0])
		return;
	if (op->in_shape[0].ndim != 2 || !rows_at_a_time(r, op) || !takes(r, loss, form))
		return;
	r->choice[loss].form = form;
	r->choice[loss].pre = linear;
	r->choice[linear].absorbed = true;
}

static struct sl_exec_node node_of(const struct rewrite *r, int i)
{
	const struct choice *c = &r->choice[i];
	const struct sl_segment_op *op = r->part->op, *so = &op[i];
	const bool whole = c->form.post == SL_POST_WHOLE, normalises = c->form.pre == SL_PRE_NORM;
	/* from: the op whose input is read; to: the op whose input's gradient is written */
	const struct sl_op *from = &op[c->pre >= 0 ? c->pre : i].op;
	const bool logits = c->form.pre == SL_PRE_LINEAR;
	const bool in_place = c->form.pre == SL_PRE_WINDOW;
	const struct sl_segment_op *to = c->form.pre == SL_PRE_ACT || in_place || logits ? &op[c->pre] : so;
	const bool learns = logits ? to->learns : so->learns || (c->form.pre && !in_place) || whole;
	struct sl_exec_node n = {
		.op = i,
		.pre = c->pre,
		.post = c->post,
		.form = c->form,
		.out = whole || c->form.post == SL_POST_ACT ? op[c->post].op.out
		       : c->form.half == SL_HALF_STATS      ? -1
							    : so->op.out,
		.backward = so->backward,
		.dout = sl_op_is_loss(so->op.kind) || !so->backward ? -1 : op[c->post >= 0 ? c->post : i].op.out,
		.keeps_in = so->backward ? sl_op_saves_inputs(logits ? &to->op : &so->op, learns) : 0,
		.keeps_out = so->backward && c->post >= 0,
		.logits = logits ? so->op.in[0] : -1,
		.rows = logits ? rows_at_a_time(r, &so->op) : 0,
	};

	if (n.backward && normalises && !n.keeps_in) /* an addition reads its input for the batchnorm alone */
		n.keeps_in = 1;
	for (int k = 0; k < SL_OP_MAX_IN; k++) {
		bool has = k < so->op.n_in, wanted = has && to->din_want[k] && c->form.half != SL_HALF_APPLY;

		n.in[k] = !has ? -1 : k ? so->op.in[k] : from->in[0];
		n.din[k] = wanted ? to->op.in[k] : -1;
		n.din_add[k] = wanted && to->din_add[k];
	}
	return n;
}

enum sl_err sl_rewrite(struct sl_exec_node *node, int *n, const struct sl_plan_segment *part,
		       const struct sl_backend *be)
{
	struct rewrite r = {part, be, calloc((size_t)part->n_op, sizeof *r.choice), NULL};
	enum sl_err err = r.choice ? find_ends(&r) : SL_ERR_NOMEM;

	if (err) {
		free(r.choice);
		return err;
	}
	for (int i = 0; i < part->n_op; i++)
		r.choice[i].pre = r.choice[i].post = -1;
	for (int i = 0; i < part->n_op; i++) {
		if (part->op[i].op.kind == SL_OP_BATCHNORM)
			choose_norm(&r, i);
		else if (part->op[i].op.kind == SL_OP_ACT)
			choose_act(&r, i);
		else if (part->op[i].op.kind == SL_OP_WINDOW)
			choose_window(&r, i);
		else if (part->op[i].op.kind == SL_OP_XENT)
			choose_loss(&r, i);
	}
	*n = 0;
	for (int i = 0; i < part->n_op; i++)
		if (!r.choice[i].absorbed)
			node[(*n)++] = node_of(&r, i);
	free(r.choice);
	free(r.ends);
	return SL_OK;
}
