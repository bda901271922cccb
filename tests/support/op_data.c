/* The input data of the cases in op_case.c: pure functions of (seed, array number, chunk). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "tests/support/op_case.h"

enum array {
	ARRAY_IN = 0,
	ARRAY_DIN = 2,
	ARRAY_DOUT = 4,
	ARRAY_LABELS,
	ARRAY_PARAM = 8,
	ARRAY_GRAD = 16,
	ARRAY_THIRD = 24
};
_Static_assert(SL_OP_MAX_IN == 3, "the third input's arrays stand behind the others");

void *op_xalloc(size_t bytes)
{
	void *ptr = calloc(1, bytes ? bytes : 1);

	if (!ptr) {
		fprintf(stderr, "test harness: %zu bytes of memory refused\n", bytes);
		exit(1);
	}
	return ptr;
}

double op_relative_error(const float *got, const float *want, int64_t count)
{
	double square = 0, error = 0;

	for (int64_t i = 0; i < count; i++) {
		square += (double)want[i] * want[i];
		error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
	}
	return sqrt(error / square);
}

static struct sl_rng_key key_of(uint64_t seed, int array, uint16_t chunk)
{
	return (struct sl_rng_key){.seed = seed, .step = (uint64_t)array, .chunk = chunk, .tensor = SL_RNG_TEST};
}

static float *uniform(int64_t count, struct sl_rng_key key, float low, float high)
{
	float *v = op_xalloc((size_t)count * sizeof(*v));

	for (int64_t i = 0; i < count; i += 4) {
		uint32_t word[4];

		sl_rng_quad(&key, (uint32_t)(i / 4), word);
		for (int64_t k = i; k < i + 4 && k < count; k++)
			v[k] = low + (high - low) * sl_rng_unit(word[k - i]);
	}
	return v;
}

static float *spread(int64_t count, struct sl_rng_key key, float mean, float deviation)
{
	const float half = deviation * 1.7320508f;

	return uniform(count, key, mean - half, mean + half);
}

static float *input(const struct op_case *c, int64_t count, struct sl_rng_key key)
{
	float *v;

	switch (c->data) {
	case DATA_OFFSET:
		return spread(count, key, 30, 1);
	case DATA_LARGE:
		return spread(count, key, 0, 3000);
	case DATA_TIES:
		v = uniform(count, key, -2, 8);
		for (int64_t i = 0; i < count; i++)
			v[i] = roundf(v[i] * 2) / 2;
		return v;
	case DATA_PLAIN:
		break;
	}
	if (c->kind == SL_OP_MATH) /* above 0, where a numeric gradient's step meets little curvature */
		return uniform(count, key, 2, 5);
	return spread(count, key, 0, c->kind == SL_OP_ACT || op_is_hard(c->kind) ? 4 : 1);
}

/* Rows of the table whose ids the op takes; 0: it takes none. */
static int ids_of(const struct sl_op *op)
{
	return op->kind == SL_OP_EMBEDDING ? op->u.embedding.rows : op->kind == SL_OP_LOOKUP ? op->u.lookup.rows : 0;
}

void op_host_fill(struct op_host *host, const struct op_case *c, const struct sl_op *op, int64_t rows, uint64_t seed,
		  uint16_t chunk)
{
	struct sl_rng_key label_key = key_of(seed, ARRAY_LABELS, chunk);
	const int64_t labels = op->kind == SL_OP_XENT ? rows * sl_shape_row(&op->in_shape[0]) / c->c : rows;

	*host = (struct op_host){
		.rows = rows,
		.out_count = sl_op_is_loss(op->kind) ? 0 : rows * sl_shape_row(&op->out_shape),
	};
	for (int i = 0; i < op->n_in; i++) {
		int64_t count = rows * sl_shape_row(&op->in_shape[i]);

		host->in_count[i] = count;
		host->in[i] = input(c, count, key_of(seed, i < 2 ? ARRAY_IN + i : ARRAY_THIRD, chunk));
		host->din_start[i] = spread(count, key_of(seed, i < 2 ? ARRAY_DIN + i : ARRAY_THIRD + 1, chunk), 0, 1);
	}
	for (int64_t i = 0; i < (ids_of(op) ? host->in_count[0] : 0); i++)
		host->in[0][i] = (float)sl_rng_below(sl_rng_u32(&label_key, (uint64_t)i), (uint32_t)ids_of(op));
	if (c->one_nan && op->kind != SL_OP_EMBEDDING)
		host->in[0][host->in_count[0] / 2] = NAN;
	if (c->one_large)
		host->in[0][host->in_count[0] / 2] *= 1000;
	host->dout = spread(host->out_count, key_of(seed, ARRAY_DOUT, chunk), 0, 1);
	if (op->kind != SL_OP_MSE || c->c != 130) /* without targets, they count as 0 */
		host->targets = spread(rows * c->c, key_of(seed, ARRAY_LABELS, chunk), 0, 1);
	for (int64_t i = 0; c->u.mse.fn == SL_MSE_BCE && op->kind == SL_OP_MSE && i < rows * c->c; i++)
		host->targets[i] = host->targets[i] > 0;
	host->weight = op_xalloc((size_t)c->c * sizeof *host->weight);
	for (int64_t k = 0; k < c->c; k++)
		host->weight[k] = 0.25f + (float)(k * 7 % 5);
	host->labels = op_xalloc((size_t)labels * sizeof(*host->labels));
	for (int64_t i = 0; i < labels; i++)
		host->labels[i] = (int32_t)sl_rng_below(sl_rng_u32(&label_key, (uint64_t)i), (uint32_t)c->c);
	host->other = op_xalloc((size_t)labels * sizeof *host->other);
	host->share = op_xalloc((size_t)labels * sizeof *host->share);
	for (int64_t i = 0; i < labels; i++) { /* with few classes, `other` may equal the label */
		host->other[i] = (int32_t)sl_rng_below(sl_rng_u32(&label_key, (uint64_t)(labels + i)), (uint32_t)c->c);
		host->share[i] = 0.5f + 0.5f * sl_rng_unit(sl_rng_u32(&label_key, (uint64_t)(2 * labels + i)));
	}
	host->labels[0] = 0;
	if (labels > 1)
		host->labels[1] = c->c - 1;
	for (int64_t i = 2; i < labels && c->rule.ignores; i += 3)
		host->labels[i] = c->rule.ignored;
}

void op_host_free(struct op_host *host)
{
	for (int i = 0; i < SL_OP_MAX_IN; i++) {
		free(host->in[i]);
		free(host->din_start[i]);
	}
	free(host->dout);
	free(host->labels);
	free(host->other);
	free(host->share);
	free(host->targets);
	free(host->weight);
	*host = (struct op_host){0};
}

void op_host_params_fill(struct op_host_params *p, const struct sl_op *op, uint64_t seed)
{
	/* Ranges for weight and bias; for batchnorm: scale, shift, running mean, running variance.
	 * Outputs go beyond 0 and 6. */
	static const float low[] = {-3, -2, -1, 0.5f}, high[] = {3, 4, 1, 2};

	*p = (struct op_host_params){0};
	for (int i = 0; i < op->n_param; i++) {
		int64_t count = op_param_count(op, i);
		struct sl_rng_key key = key_of(seed, ARRAY_PARAM + i, 0);

		p->param[i] =
			op->kind == SL_OP_BATCHNORM ? uniform(count, key, low[i], high[i]) : uniform(count, key, -1, 1);
		p->grad_start[i] = spread(count, key_of(seed, ARRAY_GRAD + i, 0), 0, 1);
	}
}

void op_host_params_free(struct op_host_params *p)
{
	for (int i = 0; i < SL_OP_MAX_PARAM; i++) {
		free(p->param[i]);
		free(p->grad_start[i]);
	}
	*p = (struct op_host_params){0};
}
