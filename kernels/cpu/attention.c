/* Multi-head attention. A task is one row and one head of keys and values, with the query heads that share
 * it. It packs its keys and values into its worker's scratch and goes through blocks of queries, one per
 * step. A block holds the scores of its queries against all keys, so there is neither an online softmax nor
 * an S × S matrix. Backward recomputes the probabilities. Sums over queries run in the order of queries: the
 * same bits for any number of threads. Saved, for each token and head: the largest score, and 1 over the
 * softmax's sum.
 *
 * Causal attention sums a token's values in chains of CHAIN keys, wherever its row ends. So a row's first
 * tokens have the same bits without the later ones, and a row may continue from cached (rotated) keys and
 * values. A row's keys outside the window have the probability 0; no sum leaves them out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/worker.h"
#include "kernels/cpu/gemm.h"

enum { BLOCK = 56 /* queries: four tiles of 14 */, CHAIN = 128, TURNS = 4096 /* between two yields */ };

/* Floats of a worker's scratch, and the offsets of its parts. */
struct places {
	int64_t kt, vt;      /* kᵀ and vᵀ, packed [D, S] */
	int64_t k, v;        /* packed [S, D] */
	int64_t turned;      /* keys, rotated by their positions (RoPE) [S, D] */
	int64_t dk, dv;      /* [S, D] */
	int64_t q, dq;       /* [BLOCK, D], rotated */
	int64_t p, kept, ds; /* [BLOCK, ld] */
	int64_t bent;        /* [BLOCK, ld]: tanh of scores, if they have a cap */
	int64_t total;
};

struct job {
	const struct sl_op_call *call;
	const struct sl_cpu_simd *simd;
	const float *turns; /* RoPE: [most tokens of a row, part/2, 2]: cos, sin, times the gain; NULL: none */
	int64_t heads, kv, d, most, ld, each;
	int64_t part, window; /* rotated features of a head; see struct sl_attention_attr */
	struct places at;
	float scale, cap;
	bool drops, pairs; /* pairs: factors are rounded to bfloat16 */
};

/* One row of the chunk and one head of keys and values. */
struct task {
	const struct job *j;
	int64_t row, head, from, n; /* tokens [from, from + n) of the chunk */
	int64_t past, keys;         /* cached tokens; those and the n new ones */
	float *scratch;
	struct sl_gemm_weights kt, vt, k, v;
	struct sl_prefetch none;
};

static int64_t block_of(int64_t most)
{
	return most >= 4096 ? BLOCK / 4 : most >= 2048 ? BLOCK / 2 : BLOCK;
}

static int64_t take(int64_t *at, int64_t floats)
{
	int64_t from = *at;

	*at += sl_cpu_line(floats);
	return from;
}

static struct places places_of(int64_t most, int64_t d, int64_t ld, bool bends)
{
	const int64_t block = block_of(most), each = most * d;
	struct places p = {0};

	p.kt = take(&p.total, sl_gemm_packed_floats(d, most));
	p.vt = take(&p.total, sl_gemm_packed_floats(d, most));
	p.k = take(&p.total, sl_gemm_packed_floats(most, d));
	p.v = take(&p.total, sl_gemm_packed_floats(most, d));
	p.turned = take(&p.total, each);
	p.dk = take(&p.total, each);
	p.dv = take(&p.total, each);
	p.q = take(&p.total, block * d);
	p.dq = take(&p.total, block * d);
	p.p = take(&p.total, block * ld);
	p.kept = take(&p.total, block * ld);
	p.ds = take(&p.total, block * ld);
	p.bent = take(&p.total, bends ? block * ld : 0);
	return p;
}

static struct job shapes_of(const struct sl_op *op)
{
	const struct sl_attention_attr *a = &op->u.attention;
	struct job j = {.heads = a->heads, .kv = sl_attention_kv(a)};

	j.d = op->out_shape.dim[op->out_shape.ndim - 1] / a->heads;
	j.most = op->most;
	j.each = a->each;
	j.ld = sl_cpu_line(op->most);
	j.part = sl_rope_features(a, j.d);
	j.window = a->window ? a->window : INT64_MAX / 2;
	j.cap = a->cap;
	j.at = places_of(op->most, j.d, j.ld, a->cap > 0);
	j.scale = 1.0f / sqrtf((float)j.d);
	return j;
}

/* Floats of the RoPE table. A row has no more tokens than the plan says, even if the graph would allow more. */
static int64_t turns_of(const struct sl_op_prepare *p, const struct job *j)
{
	const int64_t row = p->row_tokens, positions = row && row < j->most ? row : j->most;

	return p->op->u.attention.rope > 0 ? positions * j->part : 0;
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	const struct job j = shapes_of(p->op);
	const int64_t tokens = sl_shape_count(&p->op->in_shape[0]) / (j.heads * j.d);

	p->sizes.saved_bytes = (size_t)(tokens * j.heads * 2) * sizeof(float);
	p->sizes.workspace_bytes = (size_t)(sl_cpu_threads(p->be) * j.at.total) * sizeof(float);
	p->sizes.cache_bytes = (size_t)(2 * j.kv * j.most * j.d) * sizeof(float);
	p->sizes.state_bytes = (size_t)turns_of(p, &j) * sizeof(float);
	return SL_OK;
}

/* Makes the RoPE table. server/trunk/cost_op.c estimates its cost. */
static enum sl_err start(struct sl_op_prepare *p)
{
	const struct job j = shapes_of(p->op);
	const int64_t floats = turns_of(p, &j), positions = floats / j.part;
	const double gain = p->op->u.attention.rope_gain > 0 ? (double)p->op->u.attention.rope_gain : 1;
	float *turns;

	if (!floats)
		return SL_OK;
	turns = malloc((size_t)floats * sizeof *turns);
	if (!turns)
		return sl_fail_set(p->fail, SL_ERR_NOMEM, "%s: no memory for rotary positions", p->op->name);
	for (int64_t c = 0; c < j.part / 2; c++) {
		const double frequency = sl_rope_frequency(&p->op->u.attention, c, j.part);

		for (int64_t t = 0; t < positions; t++) {
			float *turn = turns + t * j.part + 2 * c;

			if ((c * positions + t) % TURNS == 0)
				sl_worker_turn();
			turn[0] = (float)(gain * cos((double)t * frequency));
			turn[1] = (float)(gain * sin((double)t * frequency));
		}
	}
	p->state = turns;
	return SL_OK;
}

static struct job job_of(const struct sl_op_call *call)
{
	struct job j = shapes_of(call->op);

	j.call = call;
	j.simd = sl_cpu_simd_of(call->be);
	j.pairs = call->op->precision == SL_PRECISION_BF16_FACTORS;
	j.turns = call->state;
	j.drops = call->training && call->op->u.attention.p > 0;
	return j;
}

static struct task open_task(const struct job *j, int64_t number, int worker)
{
	const uint32_t *begin = j->call->dims.begin;
	struct task t = {.j = j, .row = number / j->kv, .head = number % j->kv};

	t.n = j->each ? j->each : begin ? (int64_t)begin[t.row + 1] - begin[t.row] : 1;
	t.from = j->each ? t.row * t.n : begin ? begin[t.row] : t.row;
	t.past = sl_dims_past(&j->call->dims, t.row);
	t.keys = t.past + t.n;
	t.scratch = (float *)j->call->workspace + worker * j->at.total;
	return t;
}

/* to [n, D] = or += x, rows ldx floats apart, rotated by the positions of the row's tokens from `first` on.
 * by = −1 rotates back. */
static void turn(const struct job *j, float *to, int64_t ldto, const float *x, int64_t ldx, int64_t first, int64_t n,
		 float by, bool add)
{
	const int64_t half = j->part / 2;

	for (int64_t t = 0; t < n; t++, to += ldto, x += ldx) {
		const float *turns = j->turns + (first + t) * j->part;

		for (int64_t c = 0; c < half; c++) {
			float a = x[c], b = x[c + half], cosine = turns[2 * c], sine = by * turns[2 * c + 1];
			float u = a * cosine - b * sine, v = a * sine + b * cosine;

			to[c] = add ? to[c] + u : u;
			to[c + half] = add ? to[c + half] + v : v;
		}
		for (int64_t c = j->part; c < j->d; c++)
			to[c] = add ? to[c] + x[c] : x[c];
	}
}

/* The head's features of the row's first token, in a tensor of `heads` heads. */
static float *features(const struct task *t, void *data, int64_t heads, int64_t head)
{
	return data ? (float *)data + (t->from * heads + head) * t->j->d : NULL;
}

/* The task's cached keys (rotated) and values, [most, D] each. Appends the new tokens to the cache. */
static void keep(const struct task *t, const float **k, const float **v)
{
	const struct job *j = t->j;
	const int64_t ld = j->kv * j->d, each = j->most * j->d;
	const int64_t row = j->call->dims.cached[2 * t->row];
	float *keys = (float *)j->call->cache + 2 * (row * j->kv + t->head) * each, *values = keys + each;
	const float *new_k = features(t, j->call->in[1].data, j->kv, t->head);
	const float *new_v = features(t, j->call->in[2].data, j->kv, t->head);

	*k = keys;
	*v = values;
	keys += t->past * j->d;
	values += t->past * j->d;
	if (j->turns)
		turn(j, keys, j->d, new_k, ld, t->past, t->n, 1, false);
	for (int64_t i = 0; i < t->n; i++) {
		if (!j->turns)
			memcpy(keys + i * j->d, new_k + i * ld, (size_t)j->d * sizeof *keys);
		memcpy(values + i * j->d, new_v + i * ld, (size_t)j->d * sizeof *values);
	}
}

/* The row's keys, rotated if there is RoPE; *ld: their row stride. */
static const float *keys_of(struct task *t, int64_t *ld)
{
	const struct job *j = t->j;
	const float *k = features(t, j->call->in[1].data, j->kv, t->head);
	float *turned = t->scratch + j->at.turned;

	*ld = j->kv * j->d;
	if (!j->turns)
		return k;
	turn(j, turned, j->d, k, *ld, 0, t->n, 1, false);
	*ld = j->d;
	return turned;
}

/* The queries [i, i + n) of head h, rotated if there is RoPE; *ld: their row stride. */
static const float *queries_of(struct task *t, int64_t h, int64_t i, int64_t n, int64_t *ld)
{
	const struct job *j = t->j;
	const float *q = features(t, j->call->in[0].data, j->heads, h) + i * j->heads * j->d;
	float *turned = t->scratch + j->at.q;

	*ld = j->heads * j->d;
	if (!j->turns)
		return q;
	turn(j, turned, j->d, q, *ld, t->past + i, n, 1, false);
	*ld = j->d;
	return turned;
}

/* A block of queries. */
struct block {
	int64_t h, i, n; /* head, first query, queries */
	int64_t columns; /* keys that any of these queries sees, rounded up to whole panels */
	const float *q;
	int64_t ldq;
	float *p, *kept; /* [n, ld]: probabilities, and those after dropout; without dropout both are the same memory */
	float *stat;     /* of the first query; the next query's is 2·heads floats further */
};

/* A query sees the keys [unseen, seen) of its row. */
static int64_t seen(const struct task *t, int64_t query)
{
	return t->j->call->op->u.attention.causal ? t->past + query + 1 : sl_cpu_min(t->n, query + t->j->window);
}

static int64_t unseen(const struct task *t, int64_t query)
{
	const int64_t first = t->past + query + 1 - t->j->window;

	return first > 0 ? first : 0;
}

/* x[from, to) = 0 */
static void clear(float *x, int64_t from, int64_t to)
{
	if (from < to)
		memset(x + from, 0, (size_t)(to - from) * sizeof *x);
}

static void drop(const struct task *t, const struct block *b)
{
	const struct job *j = t->j;
	const int64_t most = (j->most + 3) & ~(int64_t)3;
	const bool causal = j->call->op->u.attention.causal;

	j->simd->dropout_rows(b->kept, b->p, j->ld, &j->call->rng, ((t->row * j->heads + b->h) * most + b->i) * most,
			      most, b->n, causal ? seen(t, b->i) : b->columns, causal, j->call->op->u.attention.p);
	for (int64_t r = 0; r < b->n; r++)
		clear(b->kept + r * j->ld, seen(t, b->i + r), b->columns);
}

/* s[i] = cap·tanh(s[i]·scale/cap); the tanh goes to bent, too. */
static void bend(const struct job *j, float *s, float *bent, int64_t n)
{
	j->simd->scale(s, s, j->scale / j->cap, 0, n, false);
	j->simd->smooth_forward(bent, s, n, SL_SMOOTH_TANH);
	j->simd->scale(s, bent, j->cap, 0, n, false);
}

/* Scores and probabilities of a block; `again`: with the statistics that forward saved. */
static void look(struct task *t, struct block *b, bool again)
{
	const struct job *j = t->j;
	const float scale = j->cap > 0 ? 1 : j->scale;

	const struct sl_gemm_weights keys = sl_gemm_columns(&t->kt, 0, b->columns);

	sl_gemm_float_rows(&keys, 0, j->d, b->p, j->ld, b->q, b->ldq, b->n, false, &t->none);
	for (int64_t r = 0; r < b->n; r++) {
		const int64_t end = seen(t, b->i + r), first = unseen(t, b->i + r);
		float *s = b->p + r * j->ld, *stat = b->stat + r * 2 * j->heads;

		if (j->cap > 0)
			bend(j, s, t->scratch + j->at.bent + r * j->ld, end);
		if (again)
			j->simd->softmax_again(s + first, end - first, scale, stat);
		else
			j->simd->softmax(s + first, end - first, scale, stat);
		clear(s, 0, first);
		clear(s, end, b->columns);
	}
	if (j->drops)
		drop(t, b);
}

static struct block open_block(struct task *t, int64_t h, int64_t i)
{
	const struct job *j = t->j;
	const int64_t panel = j->simd->panel;
	struct block b = {.h = h, .i = i, .n = sl_cpu_min(block_of(j->most), t->n - i)};

	b.columns = sl_cpu_min(t->keys, sl_cpu_blocks(seen(t, i + b.n - 1), panel) * panel);
	b.q = queries_of(t, h, i, b.n, &b.ldq);
	b.p = t->scratch + j->at.p;
	b.kept = j->drops ? t->scratch + j->at.kept : b.p;
	b.stat = (float *)j->call->saved + ((t->from + i) * j->heads + h) * 2;
	return b;
}

/* Weights that the task's first step packed into its worker's scratch. */
static struct sl_gemm_weights packed(const struct task *t, int64_t at, int64_t depth, int64_t n)
{
	return (struct sl_gemm_weights){t->j->simd, t->scratch + at, sl_gemm_depth(depth, t->j->pairs), n, t->j->pairs};
}

static void forward_block(struct task *t, struct block *b)
{
	const struct job *j = t->j;
	const int64_t ld = j->heads * j->d, chain = j->call->op->u.attention.causal ? CHAIN : b->columns;
	float *y = features(t, j->call->out.data, j->heads, b->h) + b->i * ld;

	look(t, b, false);
	for (int64_t k = 0; k < b->columns; k += chain)
		sl_gemm_float_rows(&t->v, k, sl_cpu_min(chain, b->columns - k), y, ld, b->kept + k, j->ld, b->n, k > 0,
				   &t->none);
}

/* The gradient of bent scores, ds, becomes that of the scores in front of the cap. Where p is 0, ds is. */
static void unbend(const struct task *t, const struct block *b, float *ds)
{
	const struct job *j = t->j;

	for (int64_t r = 0; r < b->n; r++) {
		const float *bent = t->scratch + j->at.bent + r * j->ld;

		for (int64_t k = 0; k < seen(t, b->i + r); k++)
			ds[r * j->ld + k] *= 1 - bent[k] * bent[k];
	}
}

/* Runs fn for blocks of queries of all heads of the task, from step s->at on. False: it stopped before the
 * last one. */
static bool blocks(struct task *t, struct sl_pool_step *s, void (*fn)(struct task *t, struct block *b))
{
	const struct job *j = t->j;
	const int64_t group = j->heads / j->kv, high = block_of(j->most), steps = sl_cpu_blocks(t->n, high);

	for (int64_t at = s->at; at < group * steps;) {
		struct block b = open_block(t, t->head * group + at / steps, at % steps * high);

		fn(t, &b);
		if (++at < group * steps && sl_pool_stop(s, at))
			return false;
	}
	return true;
}

static void forward_task(void *arg, int64_t number, struct sl_pool_step *s)
{
	const struct job *j = arg;
	const struct sl_op_call *c = j->call;
	struct task t = open_task(j, number, s->worker);

	t.kt = packed(&t, j->at.kt, j->d, t.keys);
	t.v = packed(&t, j->at.v, t.keys, j->d);
	if (s->at == 0) {
		int64_t ldk = j->d, ldv = j->d;
		const float *k, *v;

		if (c->dims.cached) {
			keep(&t, &k, &v);
		} else {
			k = keys_of(&t, &ldk);
			v = features(&t, c->in[2].data, j->kv, t.head);
			ldv = j->kv * j->d;
		}
		sl_gemm_pack_here(j->simd, t.kt.packed, k, j->d, t.keys, 1, ldk, j->pairs);
		sl_gemm_pack_here(j->simd, t.v.packed, v, t.keys, j->d, ldv, 1, j->pairs);
	}
	(void)blocks(&t, s, forward_block);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	sl_pool_run_long(call->be->pool, call->dims.rows * j.kv, forward_task, &j);
	return SL_OK;
}

static void backward_block(struct task *t, struct block *b)
{
	const struct job *j = t->j;
	const struct sl_op_call *c = j->call;
	const int64_t ld = j->heads * j->d;
	const float *dy = features(t, c->dout.data, j->heads, b->h) + b->i * ld;
	float *dq = features(t, c->din[0].data, j->heads, b->h), *ds = t->scratch + j->at.ds;
	float *turned = t->scratch + j->at.dq;
	struct sl_gemm_weights values;

	look(t, b, true);
	if (c->din[2].data)
		sl_gemm_outer(j->simd, j->pairs, t->scratch + j->at.dv, j->d, b->kept, j->ld, b->columns, dy, ld, j->d,
			      b->n, &t->none);
	if (!dq && !c->din[1].data)
		return;
	values = sl_gemm_columns(&t->vt, 0, b->columns);
	sl_gemm_float_rows(&values, 0, j->d, ds, j->ld, dy, ld, b->n, false, &t->none);
	for (int64_t r = 0; r < b->n; r++)
		j->simd->softmax_back(ds + r * j->ld, b->p + r * j->ld, b->kept + r * j->ld, b->columns, j->scale);
	if (j->cap > 0)
		unbend(t, b, ds);
	if (c->din[1].data)
		sl_gemm_outer(j->simd, j->pairs, t->scratch + j->at.dk, j->d, ds, j->ld, b->columns, b->q, b->ldq, j->d,
			      b->n, &t->none);
	if (!dq)
		return;
	dq += b->i * ld;
	sl_gemm_float_rows(&t->k, 0, b->columns, j->turns ? turned : dq, j->turns ? j->d : ld, ds, j->ld, b->n,
			   !j->turns && c->din_add[0], &t->none);
	if (j->turns)
		turn(j, dq, ld, turned, j->d, b->i, b->n, -1, c->din_add[0]);
}

/* Writes dk or dv to the input's gradient. */
static void place(struct task *t, int which, const float *from, bool turns)
{
	const struct job *j = t->j;
	const int64_t ld = j->kv * j->d;
	const bool add = j->call->din_add[which];
	float *to = features(t, j->call->din[which].data, j->kv, t->head);

	if (!to)
		return;
	if (turns) {
		turn(j, to, ld, from, j->d, 0, t->n, -1, add);
		return;
	}
	for (int64_t i = 0; i < t->n; i++, to += ld, from += j->d)
		if (add)
			j->simd->sum(to, to, from, j->d);
		else
			memcpy(to, from, (size_t)j->d * sizeof *to);
}

static void open_backward(struct task *t)
{
	const struct job *j = t->j;
	int64_t ldk;
	const float *k = keys_of(t, &ldk), *v = features(t, j->call->in[2].data, j->kv, t->head);

	sl_gemm_pack_here(j->simd, t->kt.packed, k, j->d, t->n, 1, ldk, j->pairs);
	sl_gemm_pack_here(j->simd, t->vt.packed, v, j->d, t->n, 1, j->kv * j->d, j->pairs);
	sl_gemm_pack_here(j->simd, t->k.packed, k, t->n, j->d, ldk, 1, j->pairs);
	memset(t->scratch + j->at.dk, 0, (size_t)(t->n * j->d) * sizeof(float));
	memset(t->scratch + j->at.dv, 0, (size_t)(t->n * j->d) * sizeof(float));
}

static void backward_task(void *arg, int64_t number, struct sl_pool_step *s)
{
	const struct job *j = arg;
	struct task t = open_task(j, number, s->worker);

	t.kt = packed(&t, j->at.kt, j->d, t.n);
	t.vt = packed(&t, j->at.vt, j->d, t.n);
	t.k = packed(&t, j->at.k, t.n, j->d);
	if (s->at == 0)
		open_backward(&t);
	if (!blocks(&t, s, backward_block))
		return;
	place(&t, 1, t.scratch + j->at.dk, j->turns != NULL);
	place(&t, 2, t.scratch + j->at.dv, false);
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	if (call->din[0].data || call->din[1].data || call->din[2].data)
		sl_pool_run_long(call->be->pool, call->dims.rows * j.kv, backward_task, &j);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_attention = {
	.prepare = prepare, .start = start, .release = free, .forward = forward, .backward = backward};
