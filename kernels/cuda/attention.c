/* Multi-head attention of packed rows. Saved, for each token and head: the largest score, and 1 over the
 * softmax's sum. With rotary positions, q and k are first rotated into the workspace, in fp32. Their
 * gradients are computed there and rotated back. */
#include "kernels/cuda/cuda.h"

/* Offsets of the workspace's parts, in bytes. */
struct places {
	size_t delta, q, k, dq, dk, total;
};

static size_t take(size_t *at, int64_t floats)
{
	const size_t from = *at;

	*at += cu_align((size_t)floats * sizeof(float));
	return from;
}

static struct places places_of(const struct sl_op *op)
{
	const struct sl_attention_attr *a = &op->u.attention;
	const int64_t q = sl_shape_count(&op->in_shape[0]), k = sl_shape_count(&op->in_shape[1]);
	struct places p = {0};

	p.delta = take(&p.total, q / cu_channels(&op->in_shape[0]) * a->heads);
	if (a->rope > 0) {
		p.q = take(&p.total, q);
		p.k = take(&p.total, k);
		p.dq = take(&p.total, q);
		p.dk = take(&p.total, k);
	}
	return p;
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_op *op = p->op;
	const int64_t tokens = sl_shape_count(&op->in_shape[0]) / cu_channels(&op->in_shape[0]);

	p->sizes = (struct sl_op_sizes){.workspace_bytes = places_of(op).total,
					.saved_bytes = (size_t)(tokens * op->u.attention.heads * 2) * sizeof(float)};
	return SL_OK;
}

static void *part(const struct sl_op_call *call, size_t at)
{
	return (char *)call->workspace + at;
}

static struct cu_attention attention_of(struct cuda *cu, const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	const struct sl_attention_attr *a = &op->u.attention;
	const bool drops = call->training && a->p > 0;

	return (struct cu_attention){
		.rows = {call->dims.rows, a->each ? call->dims.rows * a->each : call->dims.tokens, 0, call->dims.begin},
		.each = a->each,
		.type = cu_op_type(op),
		.turned = a->rope > 0 ? CU_F32 : cu_op_type(op),
		.heads = a->heads,
		.kv = sl_attention_kv(a),
		.d = (int)cu_channels(&op->out_shape) / a->heads,
		.most = op->most,
		.causal = a->causal,
		.window = a->window,
		.cap = a->cap,
		.p = drops ? a->p : 0,
		.key = {.seed = call->rng.seed,
			.step = call->rng.step,
			.chunk_tensor = (uint32_t)call->rng.chunk << 16 | call->rng.tensor},
		.step = drops && cu_graphs_take_step(&cu->graphs) ? cu->step : NULL,
		.q = call->in[0].data,
		.k = call->in[1].data,
		.v = call->in[2].data,
		.stat = call->saved,
		.delta = part(call, places_of(op).delta),
	};
}

static struct cu_rope rope_of(const struct sl_op *op)
{
	const struct sl_attention_attr *a = &op->u.attention;

	return (struct cu_rope){a->rope,
				a->rope_factor,
				a->rope_low,
				a->rope_high,
				a->rope_old,
				(int)sl_rope_features(a, cu_channels(&op->out_shape) / a->heads),
				a->rope_gain > 0 ? a->rope_gain : 1};
}

/* Rotates q and k, if there are rotary positions. */
static enum sl_err turn_inputs(struct cuda *cu, const struct sl_op_call *call, struct cu_attention *a)
{
	const struct places at = places_of(call->op);
	const struct cu_rope rope = rope_of(call->op);
	enum sl_err err;

	if (rope.theta == 0)
		return SL_OK;
	err = cu_check(cu,
		       cu_turn(cu->stream, part(call, at.q), CU_F32, false, a->q, a->type, &a->rows, a->heads, a->d,
			       rope, false),
		       call->op->name);
	if (!err)
		err = cu_check(cu,
			       cu_turn(cu->stream, part(call, at.k), CU_F32, false, a->k, a->type, &a->rows, a->kv,
				       a->d, rope, false),
			       call->op->name);
	a->q = part(call, at.q);
	a->k = part(call, at.k);
	return err;
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct cu_attention a;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err)
		return err;
	a = attention_of(cu, call);
	err = turn_inputs(cu, call, &a);
	return err ? err : cu_check(cu, cu_attention_forward(cu->stream, call->out.data, &a), call->op->name);
}

/* din[which] from the gradient of the rotated input. */
static enum sl_err turn_back(struct cuda *cu, const struct sl_op_call *call, const struct cu_attention *a, int which,
			     const void *from)
{
	if (call->op->u.attention.rope == 0 || !call->din[which].data)
		return SL_OK;
	return cu_check(cu,
			cu_turn(cu->stream, call->din[which].data, a->type, call->din_add[which], from, CU_F32,
				&a->rows, which ? a->kv : a->heads, a->d, rope_of(call->op), true),
			call->op->name);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const struct places at = places_of(call->op);
	const bool turned = call->op->u.attention.rope > 0;
	const struct sl_tensor *din = call->din;
	void *dq = turned && din[0].data ? part(call, at.dq) : din[0].data;
	void *dk = turned && din[1].data ? part(call, at.dk) : din[1].data;
	struct cu_attention a;
	struct cuda *cu;
	enum sl_err err = cu_enter(call->be, &cu);

	if (err || (!din[0].data && !din[1].data && !din[2].data))
		return err;
	a = attention_of(cu, call);
	err = turn_inputs(cu, call, &a);
	if (!err)
		err = cu_check(cu, cu_attention_dq(cu->stream, dq, !turned && call->din_add[0], call->dout.data, &a),
			       call->op->name);
	if (!err && (dk || din[2].data))
		err = cu_check(cu,
			       cu_attention_dkv(cu->stream, dk, !turned && call->din_add[1], din[2].data,
						call->din_add[2], call->dout.data, &a),
			       call->op->name);
	if (!err)
		err = turn_back(cu, call, &a, 0, part(call, at.dq));
	return err ? err : turn_back(cu, call, &a, 1, part(call, at.dk));
}

const struct sl_kernel cu_op_attention = {.prepare = prepare, .forward = forward, .backward = backward};
