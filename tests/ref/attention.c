/* Multi-head attention (Vaswani et al., "Attention is all you need", 2017) of each row by itself. For a head of D
 * features, query i and key j, j ≤ i where it is causal:
 *   s[i,j] = q[i]·k[j] / √D      p[i] = softmax(s[i])      p̃ = dropout(p)      out[i] = Σ_j p̃[i,j]·v[j]
 * and with g = dout:
 *   dv[j] = Σ_i p̃[i,j]·g[i]      dp[i,j] = g[i]·v[j] through the dropout      δ[i] = Σ_j p[i,j]·dp[i,j]
 *   ds[i,j] = p[i,j]·(dp[i,j] − δ[i]) / √D      dq[i] = Σ_j ds[i,j]·k[j]      dk[j] = Σ_i ds[i,j]·q[i]
 * Heads may share keys and values (Ainslie et al., "GQA", 2023). Rotary positions (Su et al., "RoFormer", 2021) turn
 * features c and c + D/2 of the q and k of token t by t·θ^(−2c/D); their gradients are turned back. With a part r of D
 * they turn c and c + r/2 by t·θ^(−2c/r), times a gain, and leave the rest. A cap makes s into cap·tanh(s/cap), and ds
 * is multiplied by 1 − tanh²(s/cap). Of keys that are not within the window p is 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ref/kernels.h"

/* One row, and one head of keys and values. */
struct span {
	const struct sl_op_call *call;
	const struct sl_attention_attr *a;
	int64_t row, from, n; /* tokens [from, from + n) of the chunk */
	int64_t past;         /* tokens of the row in the cache, before these */
	int64_t d, kv, most;
	double *p, *kept, *dp;   /* [most], for one query: p, p̃, and dp, which becomes ds */
	double *k, *v, *dk, *dv; /* [most, D] */
	double *q, *dq;          /* [D] */
};

static int64_t scratch(const struct sl_op *op)
{
	int64_t d = op->out_shape.dim[op->out_shape.ndim - 1] / op->u.attention.heads;

	return op->most * (3 + 4 * d) + 2 * d;
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct sl_attention_attr *a = &p->op->u.attention;
	const int64_t d = p->op->out_shape.dim[p->op->out_shape.ndim - 1] / a->heads;

	p->sizes.workspace_bytes = (size_t)scratch(p->op) * sizeof(double);
	p->sizes.cache_bytes = (size_t)(2 * sl_attention_kv(a) * p->op->most * d) * sizeof(double);
	return SL_OK;
}

/* Rotates x [D] of token t by its position; `by` -1: backwards. */
static void turn(const struct span *s, double *x, int64_t t, int by)
{
	const int64_t d = s->a->rope_part ? s->a->rope_part : s->d;
	const double gain = s->a->rope_gain > 0 ? (double)s->a->rope_gain : 1;

	for (int64_t c = 0; c < d / 2 && s->a->rope > 0; c++) {
		double angle = (double)(by * t) * sl_rope_frequency(s->a, c, d), a = gain * x[c],
		       b = gain * x[c + d / 2];

		x[c] = a * cos(angle) - b * sin(angle);
		x[c + d / 2] = a * sin(angle) + b * cos(angle);
	}
}

/* Copies head h (of `heads`) of token t of the span to `to` [D]. */
static void load(double *to, const struct span *s, const float *x, int64_t heads, int64_t h, int64_t t)
{
	for (int64_t c = 0; c < s->d; c++)
		to[c] = x[(s->from + t) * heads * s->d + h * s->d + c];
}

static void store(const struct span *s, int which, int64_t heads, int64_t h, int64_t t, const double *from)
{
	float *to = s->call->din[which].data;

	for (int64_t c = 0; c < s->d && to; c++)
		sl_ref_store(&to[(s->from + t) * heads * s->d + h * s->d + c], s->call->din_add[which], from[c]);
}

static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;

	for (int64_t c = 0; c < n; c++)
		sum += a[c] * b[c];
	return sum;
}

static int64_t keys_of(const struct span *s, int64_t i)
{
	return s->a->causal ? s->past + i + 1 : s->n;
}

static double dropped(const struct span *s, int64_t h, int64_t i, int64_t j, double p)
{
	const double rate = (double)s->a->p;
	const int64_t most = (s->most + 3) / 4 * 4;
	const uint64_t element = (uint64_t)(((s->row * s->a->heads + h) * most + i) * most + j);

	if (!s->call->training || rate == 0)
		return p;
	return sl_rng_unit(sl_rng_u32(&s->call->rng, element)) < rate ? 0 : p / (1 - rate);
}

/* Whether query i is at most window − 1 tokens from key j. */
static bool is_near(const struct span *s, int64_t i, int64_t j)
{
	return s->a->window == 0 || llabs(s->past + i - j) < s->a->window;
}

/* The tanh of the score of q with key j; 0 without a cap. */
static double bent(const struct span *s, int64_t j)
{
	const double cap = (double)s->a->cap;

	return cap > 0 ? tanh(dot(s->q, s->k + j * s->d, s->d) / sqrt((double)s->d) / cap) : 0;
}

/* Fills q, p and kept for query i of head h. */
static void look(struct span *s, int64_t h, int64_t i)
{
	double top = -INFINITY, sum = 0;
	int64_t keys = keys_of(s, i);

	load(s->q, s, s->call->in[0].data, s->a->heads, h, i);
	turn(s, s->q, s->past + i, 1);
	for (int64_t j = 0; j < keys; j++) {
		s->p[j] = s->a->cap > 0 ? (double)s->a->cap * bent(s, j)
					: dot(s->q, s->k + j * s->d, s->d) / sqrt((double)s->d);
		s->p[j] = is_near(s, i, j) ? s->p[j] : -INFINITY;
		top = fmax(top, s->p[j]);
	}
	for (int64_t j = 0; j < keys; j++) {
		s->p[j] = exp(s->p[j] - top);
		sum += s->p[j];
	}
	for (int64_t j = 0; j < keys; j++) {
		s->p[j] /= sum;
		s->kept[j] = dropped(s, h, i, j, s->p[j]);
	}
}

static void forward_span(struct span *s, int64_t h)
{
	float *out = s->call->out.data;

	for (int64_t i = 0; i < s->n; i++) {
		look(s, h, i);
		for (int64_t c = 0; c < s->d; c++) {
			double sum = 0;

			for (int64_t j = 0; j < keys_of(s, i); j++)
				sum += s->kept[j] * s->v[j * s->d + c];
			out[(s->from + i) * s->a->heads * s->d + h * s->d + c] = (float)sum;
		}
	}
}

static void backward_query(struct span *s, int64_t h, int64_t i)
{
	double *g = s->dq, delta = 0;
	const int64_t keys = keys_of(s, i);

	look(s, h, i);
	load(g, s, s->call->dout.data, s->a->heads, h, i);
	for (int64_t j = 0; j < keys; j++) {
		for (int64_t c = 0; c < s->d; c++)
			s->dv[j * s->d + c] += s->kept[j] * g[c];
		s->dp[j] = dropped(s, h, i, j, dot(g, s->v + j * s->d, s->d));
		delta += s->p[j] * s->dp[j];
	}
	memset(s->dq, 0, (size_t)s->d * sizeof *s->dq); /* overwrites g, which is no longer needed */
	for (int64_t j = 0; j < keys; j++) {
		const double slope = 1 - bent(s, j) * bent(s, j);
		double ds = s->p[j] * (s->dp[j] - delta) * slope / sqrt((double)s->d);

		for (int64_t c = 0; c < s->d; c++) {
			s->dq[c] += ds * s->k[j * s->d + c];
			s->dk[j * s->d + c] += ds * s->q[c];
		}
	}
	turn(s, s->dq, i, -1);
	store(s, 0, s->a->heads, h, i, s->dq);
}

static struct span span_of(const struct sl_op_call *call, int64_t row)
{
	const struct sl_op *op = call->op;
	const uint32_t *begin = call->dims.begin;
	struct span s = {.call = call, .a = &op->u.attention, .row = row, .most = op->most};

	s.n = s.a->each ? s.a->each : begin ? (int64_t)begin[row + 1] - begin[row] : 1;
	s.past = sl_dims_past(&call->dims, row);
	s.from = s.a->each ? row * s.n : begin ? begin[row] : row;
	s.d = op->out_shape.dim[op->out_shape.ndim - 1] / s.a->heads;
	s.kv = sl_attention_kv(s.a);
	s.p = call->workspace;
	s.kept = s.p + s.most;
	s.dp = s.kept + s.most;
	s.k = s.dp + s.most;
	s.v = s.k + s.most * s.d;
	s.dk = s.v + s.most * s.d;
	s.dv = s.dk + s.most * s.d;
	s.q = s.dv + s.most * s.d;
	s.dq = s.q + s.d;
	return s;
}

/* Loads the head's keys and values, including those of earlier tokens of the row. With a cache, new
 * ones are stored in it. */
static void load_keys(struct span *s, int64_t head)
{
	const int64_t each = s->most * s->d;
	const uint32_t *cached = s->call->dims.cached;

	if (cached) {
		s->k = (double *)s->call->cache + 2 * (cached[2 * s->row] * s->kv + head) * each;
		s->v = s->k + each;
	}
	for (int64_t j = 0; j < s->n; j++) {
		double *k = s->k + (s->past + j) * s->d;

		load(k, s, s->call->in[1].data, s->kv, head, j);
		turn(s, k, s->past + j, 1);
		load(s->v + (s->past + j) * s->d, s, s->call->in[2].data, s->kv, head, j);
	}
}

static enum sl_err forward(const struct sl_op_call *call)
{
	for (int64_t row = 0; row < call->dims.rows; row++) {
		struct span s = span_of(call, row);
		const int64_t group = s.a->heads / s.kv;

		for (int64_t head = 0; head < s.kv; head++) {
			load_keys(&s, head);
			for (int64_t h = head * group; h < (head + 1) * group; h++)
				forward_span(&s, h);
		}
	}
	return SL_OK;
}

static void backward_head(struct span *s, int64_t head)
{
	const int64_t group = s->a->heads / s->kv;

	load_keys(s, head);
	memset(s->dk, 0, (size_t)(s->most * s->d) * 2 * sizeof *s->dk); /* dv lies behind dk */
	for (int64_t h = head * group; h < (head + 1) * group; h++)
		for (int64_t i = 0; i < s->n; i++)
			backward_query(s, h, i);
	for (int64_t j = 0; j < s->n; j++) {
		turn(s, s->dk + j * s->d, j, -1);
		store(s, 1, s->kv, head, j, s->dk + j * s->d);
		store(s, 2, s->kv, head, j, s->dv + j * s->d);
	}
}

static enum sl_err backward(const struct sl_op_call *call)
{
	for (int64_t row = 0; row < call->dims.rows; row++) {
		struct span s = span_of(call, row);

		for (int64_t head = 0; head < s.kv; head++)
			backward_head(&s, head);
	}
	return SL_OK;
}

const struct sl_kernel sl_ref_attention = {.prepare = prepare, .forward = forward, .backward = backward};
