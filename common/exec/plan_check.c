/* Checks whether a graph can be a given segment, beyond what sl_graph_check sees in the graph itself. */
#include <inttypes.h>

#include "common/exec/plan.h"

static const int64_t most_draws = INT64_C(1) << 34;    /* of a chunk: 4 for each 32-bit counter (base/rng.h) */
static const int64_t most_elements = INT64_C(1) << 50; /* of a batch, so that sums of bytes cannot overflow */

/* Whether the op can be computed per chosen token. A dropout draws by the place in a row, which is not known here. */
static bool node_per_chosen(enum sl_op_kind kind)
{
	return kind == SL_OP_LINEAR || (sl_op_is_elementwise(kind) && kind != SL_OP_DROPOUT) || kind == SL_OP_ADD ||
	       kind == SL_OP_MUL || sl_op_is_norm(kind) || kind == SL_OP_XENT;
}

/* The client chooses tokens, since it has the labels. So chosen tokens may occur in the tail, or as the output of a
 * gather that is the middle's last node. */
static enum sl_err check_chosen(const struct sl_graph *g, enum sl_segment which, struct sl_fail *fail)
{
	for (int i = 0; i < g->n_value; i++)
		if (g->value[i].lead == SL_PER_CHOSEN && which != SL_TAIL &&
		    (which == SL_HEAD || i != g->out[0].value || g->value[i].maker < 0 ||
		     g->node[g->value[i].maker].kind != SL_OP_GATHER))
			return sl_fail_at(fail, "tail_begin", SL_ERR_CONFIG,
					  "tokens are chosen in the %s: begin the tail with %.64s or an earlier layer",
					  sl_segment_name(which),
					  g->value[i].maker < 0 ? "the layer that chooses"
								: g->node[g->value[i].maker].name);
	for (int i = 0; i < g->n_node; i++) {
		const enum sl_lead lead = g->value[g->link[g->node[i].in]].lead;

		if (lead == SL_PER_CHOSEN && !node_per_chosen(g->node[i].kind))
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: %s of chosen tokens is not supported",
					   g->node[i].name, sl_op_kind_name(g->node[i].kind));
	}
	return SL_OK;
}

/* Whether the op can be computed per token: it looks at one token at a time, or knows about rows of tokens. */
static bool node_per_token(enum sl_op_kind kind)
{
	return kind == SL_OP_LINEAR || sl_op_is_elementwise(kind) || kind == SL_OP_ADD || kind == SL_OP_MUL ||
	       sl_op_is_norm(kind) || sl_op_reads_rows(kind) || kind == SL_OP_TRANSPOSE || kind == SL_OP_RESAMPLE ||
	       kind == SL_OP_PERMUTE || kind == SL_OP_REPEAT;
}

/* A transpose needs rows that all have the same number of tokens: rows must be padded to `tokens.row`. */
static enum sl_err check_transposes(const struct sl_graph *g, const struct sl_plan_spec *spec, struct sl_fail *fail)
{
	const int64_t rows = (spec->batch + spec->chunks - 1) / spec->chunks;

	for (int i = 0; i < g->n_node; i++) {
		const struct sl_op op = sl_graph_op(g, i);
		int64_t tokens;

		if (op.kind != SL_OP_TRANSPOSE)
			continue;
		tokens = op.u.transpose.tokens ? op.u.transpose.tokens : op.in_shape[0].dim[2];
		if (!spec->padded || tokens != spec->row_tokens || spec->chunk_tokens != rows * spec->row_tokens)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: takes rows that are all padded to %" PRId64 " tokens", op.name, tokens);
	}
	return SL_OK;
}

/* With a cache, later tokens must depend on earlier ones only through the cached keys and values. */
static enum sl_err check_cached(const struct sl_graph *g, struct sl_fail *fail)
{
	for (int i = 0; i < g->n_node; i++) {
		const struct sl_op op = sl_graph_op(g, i);
		const bool sees_back = op.kind == SL_OP_ATTENTION && !(op.u.attention.causal && !op.u.attention.each);
		const bool counts = op.kind == SL_OP_EMBEDDING && op.u.embedding.segment;

		if (sees_back || counts)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: %s cannot go on from what is cached: that is for decoders", op.name,
					   sl_op_kind_name(op.kind));
	}
	return SL_OK;
}

/* Whether an attention's dropout stays below most_draws random numbers, as struct sl_attention_attr counts them. Padded
 * rows of tokens are two pieces each. */
static bool can_draw(const struct sl_op *op, const struct sl_plan_spec *spec)
{
	const int64_t rows = (spec->batch + spec->chunks - 1) / spec->chunks, most = (op->most + 3) / 4 * 4;

	return op->kind != SL_OP_ATTENTION || op->u.attention.p == 0.0f ||
	       rows << (spec->padded && !op->u.attention.each) <= most_draws / (most * most) / op->u.attention.heads;
}

/* How many random numbers a dropout uses. Every row counts with the most tokens, so that a token's numbers do not
 * depend on the length of other rows. */
static int64_t draws(const struct sl_graph *g, int node, const struct sl_plan_spec *spec)
{
	const struct sl_op op = sl_graph_op(g, node);
	const int64_t rows = (spec->batch + spec->chunks - 1) / spec->chunks;

	return op.most * sl_shape_row(&op.out_shape) > most_draws / rows ? INT64_MAX
									 : rows * op.most * sl_shape_row(&op.out_shape);
}

static enum sl_err check_tokens(const struct sl_graph *g, enum sl_segment which, const struct sl_plan_spec *spec,
				struct sl_fail *fail)
{
	for (int i = 0; i < g->n_value; i++)
		if (g->value[i].lead == SL_PER_TOKEN && !spec->chunk_tokens)
			return sl_fail_set(fail, SL_ERR_CONFIG, "the %s computes per token, which is not supported",
					   sl_segment_name(which));
	for (int i = 0; i < g->n_in; i++)
		if (g->value[g->in[i].value].lead == SL_PER_TOKEN && spec->row_tokens > g->in[i].most)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: rows have up to %" PRId64 " tokens, and %d at most", g->in[i].name,
					   spec->row_tokens, g->in[i].most);
	if (g->most && spec->row_tokens > g->most)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the %s: rows have up to %" PRId64 " tokens, and %d at most",
				   sl_segment_name(which), spec->row_tokens, g->most);
	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_DROPOUT && draws(g, i, spec) > most_draws)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: a chunk has more elements than can be drawn for",
					   g->node[i].name);
	for (int i = 0; i < g->n_node; i++)
		if (g->value[g->link[g->node[i].in]].lead == SL_PER_TOKEN && !node_per_token(g->node[i].kind))
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: %s of tokens is not supported", g->node[i].name,
					   sl_op_kind_name(g->node[i].kind));
	for (int i = 0; i < g->n_node; i++) {
		const struct sl_op op = sl_graph_op(g, i);

		if (!can_draw(&op, spec))
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: too many random numbers for the dropout of %d heads over %d tokens; "
					   "more chunks need fewer each",
					   op.name, op.u.attention.heads, op.most);
	}
	return SL_OK;
}

/* The middle takes and gives up to SL_CUT_VALUES tensors, all at an end per row or all per token. */
static enum sl_err check_crossing(const struct sl_graph *g, const struct sl_plan_spec *spec, struct sl_fail *fail)
{
	const struct sl_field *const end[2] = {g->in, g->out};
	const int n[2] = {g->n_in, g->n_out};
	const char *const key = spec->precision != SL_PRECISION_FP32 ? "train.precision"
				: spec->keep_tokens                  ? "train.keep_sent_bytes"
								     : "tokens.cached";
	int still = 0;

	for (int k = 0; k < n[0]; k++)
		still += g->in[k].still;
	if (still && still == n[0])
		return sl_fail_set(fail, SL_ERR_CONFIG, "no input has a gradient: cross.head_grad is false then");
	if (n[0] == 1 && n[1] == 1)
		return SL_OK;
	if (spec->precision != SL_PRECISION_FP32 || spec->keep_tokens || spec->cached)
		return sl_fail_at(fail, key, SL_ERR_CONFIG,
				  "16-bit precision, kept samples and cached tokens need cut_values: 1; "
				  "this cut sends %d values to the server and %d back",
				  n[0], n[1]);
	for (int out = 0; out < 2; out++)
		for (int k = 0; k < n[out]; k++) {
			const struct sl_field *f = &end[out][k];
			const struct sl_graph_value *v = &g->value[f->value];

			if (v->dtype != SL_F32)
				return sl_fail_set(fail, SL_ERR_CONFIG, "%s is i32: only f32 crosses", f->name);
			if (v->lead != g->value[end[out][0].value].lead || v->lead > SL_PER_TOKEN)
				return sl_fail_set(fail, SL_ERR_CONFIG,
						   "%s: it has another number of rows than %s: all values at one cut "
						   "have one per sample, "
						   "or one per token",
						   f->name, end[out][0].name);
			if (f->decay.full)
				return sl_fail_set(fail, SL_ERR_CONFIG,
						   "%s: an insert whose width decays needs cut_values: 1", f->name);
			if (out && v->maker < 0)
				return sl_fail_set(fail, SL_ERR_CONFIG,
						   "%s: the middle returns one of its inputs unchanged", f->name);
			for (int j = 0; j < k; j++)
				if (end[out][j].value == f->value)
					return sl_fail_set(fail, SL_ERR_CONFIG, "%s and %s are one value", f->name,
							   end[out][j].name);
		}
	return SL_OK;
}

/* Whether a segment can have so many fields. The tail also takes labels, and what the head gives it at home. */
static bool fields_fit(const struct sl_graph *g, enum sl_segment which)
{
	if (which == SL_TAIL)
		return g->n_in >= 2 && g->n_out == 1;
	if (which == SL_HEAD)
		return g->n_in >= 1 && g->n_in <= SL_CUT_VALUES && g->n_out >= 1;
	return g->n_in >= 1 && g->n_in <= SL_CUT_VALUES && g->n_out >= 1 && g->n_out <= SL_CUT_VALUES;
}

enum sl_err sl_plan_check_part(const struct sl_graph *g, enum sl_segment which, const struct sl_plan_spec *spec,
			       struct sl_fail *fail)
{
	const int64_t longest = spec->row_tokens > g->most ? spec->row_tokens : g->most;
	const int64_t batch = spec->cached                       ? spec->batch * longest
			      : spec->batch > spec->chunk_tokens ? spec->batch
								 : spec->chunk_tokens;
	const bool tail = which == SL_TAIL;
	enum sl_err err = sl_graph_check(g, fail);

	if (err)
		return err;
	if (g->elements[0] > most_elements / batch)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the %s is too large for a batch of %" PRId64,
				   sl_segment_name(which), batch);
	if (!fields_fit(g, which))
		return sl_fail_set(fail, SL_ERR_CONFIG, "the %s cannot have %d inputs and %d outputs",
				   sl_segment_name(which), g->n_in, g->n_out);
	if (g->value[g->in[0].value].dtype != SL_F32 && which != SL_HEAD)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: what comes in must be f32", g->in[0].name);
	err = check_tokens(g, which, spec, fail);
	if (!err)
		err = check_transposes(g, spec, fail);
	if (!err && spec->cached)
		err = check_cached(g, fail);
	if (!err)
		err = check_chosen(g, which, fail);
	if (err)
		return err;
	if (which == SL_MIDDLE && spec->sends >> g->n_in)
		return sl_fail_at(fail, "share.sends", SL_ERR_CONFIG, "the middle has %d inputs", g->n_in);
	err = which == SL_MIDDLE ? check_crossing(g, spec, fail) : SL_OK;
	if (err)
		return err;
	for (int i = 0; i < g->n_node && which == SL_MIDDLE; i++)
		if (g->node[i].kind == SL_OP_LOOKUP)
			return sl_fail_at(fail, "head_end", SL_ERR_CONFIG,
					  "%s (lookup): ids do not cross, since codecs would round them: end the head "
					  "with this layer or a later one",
					  g->node[i].name);
	if (which == SL_MIDDLE && !g->n_param)
		return sl_fail_at(
			fail, "partition", SL_ERR_CONFIG,
			"the middle has no parameters: a server has nothing to train there; take another cut");
	for (int i = 0; i < g->n_node; i++)
		if (sl_op_is_loss(g->node[i].kind) != (tail && i == g->n_node - 1))
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: the loss is the tail's last node, and there alone",
					   g->node[i].name);
	for (int i = 0; i < g->n_param; i++) {
		const struct sl_param *p = &g->param[i];

		if (p->role == SL_TIED && !tail)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: two layers have this parameter, and the cut parts them: the client "
					   "keeps both where the tail begins at the second one or before it",
					   p->name);
		if (p->init.kind == SL_INIT_FILE && !g->param[i].held)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: weights from a file are not supported", p->name);
		if (p->group > spec->n_group || (p->group && p->role != SL_LEARNS))
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: it is of group %d, where %d can be", p->name,
					   p->group, p->role == SL_LEARNS ? spec->n_group : 0);
	}
	return SL_OK;
}
