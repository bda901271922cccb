/* Makes what an unknown client may choose, a plan's settings and a graph, from a fuzzer's bytes. */
#ifndef SL_FUZZ_EXEC_SETTINGS_H
#define SL_FUZZ_EXEC_SETTINGS_H

#include <math.h>

#include "common/exec/plan.h"
#include "common/graph/graph_text.h"
#include "tests/fuzz/exec_recipe.h"

enum { SETTINGS = 16, ACTIONS = 16, MOST_BATCH = 6, MOST_FLOATS = 1 << 20, MOST_OPS = 32 };
/* Bounds of the price of a batch, and of all that an input does; an input may take at most 10 s. */
static const double most_price = 2e6, most_spent = 8e6;

/* ---- settings */

enum { FIRST, SECOND, REFERENCE, NOISY, SIDES };

struct settings {
	struct sl_plan_spec spec;
	int level[2], threads[2]; /* both of FIRST and SECOND */
	bool on[SIDES], recompute;
	bool hostile; /* values may be anything, NaN and Inf included */
	bool text, shares;
	uint32_t random;
};

static uint32_t draw(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

static uint32_t draw_below(uint32_t *random, uint32_t n)
{
	return n ? draw(random) % n : 0;
}

static struct sl_optimizer optimizer_of(int byte)
{
	struct sl_optimizer o = {.kind = (enum sl_optimizer_kind)(byte % SL_OPTIMIZER_COUNT)};

	if (byte & 64)
		o.weight_decay = 0.01;
	if (o.kind == SL_OPTIMIZER_SGD) {
		o.momentum = byte & 16 ? 0.9 : 0;
		o.nesterov = byte & 16 && byte & 32;
	} else {
		o.beta1 = byte & 16 ? 0.9 : 0;
		o.beta2 = 0.99;
		o.eps = 1e-8;
	}
	return o;
}

/* Removes combinations that sl_agreed_check refuses and that no plan has to handle. */
static void settle(struct sl_plan_spec *s)
{
	s->no_grad[0] = s->no_grad[0] || s->no_grad[1];
	s->cached = s->cached && !s->padded && s->row_tokens && !s->shared;
	if (s->free_calls && (s->clip_norm > 0 || s->chunk_sums || s->shared || s->padded || s->no_grad[1]))
		s->free_calls = false;
	if (s->shared || s->precision == SL_PRECISION_FP16)
		s->accumulate = 0;
	if (s->shared)
		s->ema = 0;
}

static struct settings settings_of(struct bytes b)
{
	static const int row_tokens[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 20, 33, 60, 70, 130};
	const int size = take_byte(&b), tokens = take_byte(&b), fewer = take_byte(&b), flags = take_byte(&b);
	const int optimizer = take_byte(&b), sums = take_byte(&b), precision = take_byte(&b), sides = take_byte(&b);
	const int random = take_byte(&b);
	struct settings s = {.text = size & 128, .hostile = sides & 8, .shares = sides & 16, .recompute = sides & 32};
	struct sl_plan_spec *p = &s.spec;

	*p = (struct sl_plan_spec){.batch = 1 + size % 8 % MOST_BATCH,
				   .row_tokens = row_tokens[tokens % 16],
				   .padded = flags & 1,
				   .cached = (flags & 18) == 18,
				   .free_calls = flags & 4,
				   .shared = (flags & 8) && (tokens & 64),
				   .chunk_sums = flags & 16,
				   .no_grad = {(flags & 32) && (tokens & 32), (flags & 32) && (tokens & 16)},
				   .n_group = flags & 64 ? 1 : 0,
				   .group = {{2, 0.1}},
				   .seed = (uint64_t)random,
				   .optimizer = optimizer_of(optimizer),
				   .accumulate = sums & 3,
				   .ema = sums & 4 ? 0.9 : 0,
				   .clip_norm = sums & 8 ? 0.5 : 0,
				   .precision = precision < 224 ? SL_PRECISION_FP32
								: (enum sl_precision)(precision % SL_PRECISION_COUNT)};
	p->chunks = 1 + (size >> 3) % 8 % (int)p->batch;
	p->chunk_tokens = (p->batch + p->chunks - 1) / p->chunks * p->row_tokens;
	if (p->chunk_tokens && fewer > 160)
		p->chunk_tokens -= fewer % p->chunk_tokens;
	settle(p);
	s.level[0] = sides & 1;
	s.level[1] = sides & 64 ? !s.level[0] : s.level[0];
	s.threads[0] = sides & 128 ? 2 : 1;
	s.threads[1] = 3 - s.threads[0];
	s.on[FIRST] = true;
	s.on[SECOND] = sides & 2;
	s.on[REFERENCE] = s.on[NOISY] = sides & 4 && !s.hostile && p->accumulate < 2 && p->ema == 0;
	s.random = (uint32_t)random * 2654435761u + 1;
	return s;
}

/* ---- the plan */

struct text {
	char *at;
	size_t len, room;
};

static void put_text(void *arg, const char *text, size_t len)
{
	struct text *t = arg;

	if (t->len + len > t->room) {
		t->room = 2 * (t->len + len);
		t->at = realloc(t->at, t->room);
	}
	if (!t->at)
		abort();
	memcpy(t->at + t->len, text, len);
	t->len += len;
}

/* Passes the graph through its text, as a server gets it. The text of a valid graph must be readable. */
static bool pass_on(struct sl_graph *g)
{
	struct text t = {0};
	struct sl_graph heard;
	struct sl_fail fail = {0};
	enum sl_err err;

	if (sl_graph_check(g, &fail)) {
		if (!fail.text[0])
			abort();
		return false;
	}
	sl_graph_write(g, put_text, &t);
	err = sl_graph_read(&heard, t.at, t.len, &fail);
	if (err) {
		fprintf(stderr, "%.*s%s\n", (int)t.len, t.at, fail.text);
		abort();
	}
	if (getenv("FUZZ_PRINT"))
		fprintf(stderr, "%.*s", (int)t.len, t.at);
	free(t.at);
	sl_graph_close(g);
	*g = heard;
	return true;
}

static bool read_text(struct sl_graph *g, struct bytes b)
{
	char *text = malloc(b.left + 1);
	struct sl_fail fail = {0};
	enum sl_err err;

	if (!text)
		abort();
	memcpy(text, b.at, b.left);
	err = sl_graph_read(g, text, b.left, &fail);
	if (err && !fail.text[0])
		abort();
	if (getenv("FUZZ_PRINT"))
		fprintf(stderr, "%.*s", (int)b.left, text);
	free(text);
	return !err;
}

static bool graph_of(struct sl_graph *g, const struct settings *s, struct bytes b)
{
	struct recipe r = {.row_tokens = (int)s->spec.row_tokens, .groups = s->spec.n_group, .shares = s->shares};
	int way;

	if (s->text)
		return read_text(g, b);
	way = take_byte(&b);
	r.lead = s->spec.row_tokens && way & 16 ? SL_PER_TOKEN : SL_PER_ROW;
	r.most = r.lead == SL_PER_TOKEN ? (int)s->spec.row_tokens + (way & 32 ? 3 : 0) : 1;
	r.shape = (struct sl_shape){r.lead == SL_PER_TOKEN && way & 64 ? 2 : 2 + way % 3, {1}};
	for (int i = 1; i < SL_MAX_DIMS; i++) {
		const int64_t size = recipe_size(take_byte(&b));

		if (i < r.shape.ndim)
			r.shape.dim[i] = size;
	}
	if (r.shape.ndim == 3 && way & 128) /* rows of features and tokens */
		r.shape.dim[2] = s->spec.row_tokens ? s->spec.row_tokens : r.shape.dim[2];
	if (!draw_graph(&r, g, &b)) {
		sl_graph_close(g);
		return false;
	}
	if (pass_on(g))
		return true;
	sl_graph_close(g);
	return false;
}

/* The multiplications of an op, or operations of similar cost. */
static double price_of(const struct sl_op *op)
{
	const double n = (double)sl_shape_count(&op->out_shape);
	const double k = op->kind == SL_OP_MAXPOOL || op->kind == SL_OP_AVGPOOL ? op->u.pool.k
			 : op->kind == SL_OP_RESAMPLE                           ? sqrt(op->u.resample.window)
			 : op->kind == SL_OP_CONV2D || op->kind == SL_OP_CONVT2D
				 ? sqrt((double)sl_op_macs(op, 1) / (double)sl_shape_row(&op->out_shape))
			 : op->kind == SL_OP_LINEAR    ? sqrt(op->u.linear.in_f)
			 : op->kind == SL_OP_ATTENTION ? sqrt(2.0 * op->most)
						       : 1;

	return n * (k > 1 ? k * k : 1) + (double)sl_shape_count(&op->in_shape[0]);
}

/* The reference backend searches each window that contains an element for its maximum; k 0: the whole plane. */
static double reference_price(const struct sl_op *op)
{
	const double plane = (double)(op->in_shape[0].dim[1] * op->in_shape[0].dim[2]);
	const double k = op->kind == SL_OP_MAXPOOL ? op->u.pool.k : 1;

	return price_of(op) * (k > 0 ? k * k : plane);
}

/* The price of a batch's forward pass. */
static double price_of_all(const struct sl_plan *plan, double (*price)(const struct sl_op *op))
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	double sum = 0;

	for (int i = 0; i < s->n_op; i++)
		sum += price(&s->op[i].op);
	return sum * plan->spec.chunks;
}

static bool is_small(const struct sl_plan *plan)
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	double floats = (double)s->weight_count;

	for (int i = 0; i < s->n_op; i++)
		floats += (double)sl_shape_count(&s->op[i].op.out_shape) +
			  (double)sl_shape_count(&s->op[i].op.in_shape[0]);
	return s->n_op <= MOST_OPS && price_of_all(plan, price_of) < most_price &&
	       floats * plan->spec.chunks < MOST_FLOATS;
}

#endif
