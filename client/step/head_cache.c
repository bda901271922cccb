#include "client/step/head_cache.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

struct sl_head_cache {
	int64_t samples, features;
	int64_t *at; /* [samples + 1] offset of each sample, in tokens */
	bool *there; /* [samples] */
	float *x;    /* [tokens, features] */
	int64_t taken, put;
};

/* Whether an op's result for a sample depends only on the sample's row and on weights. */
static bool is_fixed(const struct sl_op *op)
{
	switch (op->kind) {
	case SL_OP_EMBEDDING:
	case SL_OP_LINEAR:
	case SL_OP_ADD:
	case SL_OP_MUL:
	case SL_OP_SCALE:
	case SL_OP_ACT:
	case SL_OP_LEAKYRELU:
	case SL_OP_GELU:
	case SL_OP_SILU:
	case SL_OP_TANH:
	case SL_OP_MATH:
	case SL_OP_LAYERNORM:
	case SL_OP_RMSNORM:
	case SL_OP_RESAMPLE:
		return true;
	case SL_OP_ATTENTION:
		return op->u.attention.p == 0;
	case SL_OP_DROPOUT:
		return op->u.dropout.p == 0;
	default:
		return false;
	}
}

enum sl_err sl_head_cache_check(const struct sl_plan *plan, struct sl_fail *fail)
{
	const struct sl_plan_segment *head = &plan->segment[SL_HEAD];

	if (!plan->spec.no_grad[0])
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"needs a head in which nothing learns: freeze it with train.freeze, or end it before the "
			"first adapter");
	if (sl_plan_homes(plan).n)
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"goes with what crosses alone, and the tail reads %d further values of the head: cut "
			"between two blocks",
			sl_plan_homes(plan).n);
	if (!plan->spec.chunk_tokens || !sl_plan_cut_per_token(plan, false))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "needs a network of tokens, cut where what crosses is per token");
	for (int i = 0; i < head->n_op; i++)
		if (!is_fixed(&head->op[i].op))
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "needs a head without dropout: %.64s gives something else in every step",
					   head->op[i].op.name);
	return SL_OK;
}

static enum sl_err place_samples(struct sl_head_cache *k, const struct sl_set *set, int64_t most, struct sl_fail *fail)
{
	int64_t bytes;

	k->at = calloc((size_t)k->samples + 1, sizeof *k->at);
	k->there = calloc((size_t)k->samples + 1, sizeof *k->there);
	if (!k->at || !k->there)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to keep activations");
	for (int64_t i = 0; i < k->samples; i++)
		k->at[i + 1] = k->at[i] + set->source->extent(set, i);
	bytes = sl_head_cache_bytes(k);
	if (bytes > most)
		return sl_fail_set(fail, SL_ERR_LIMIT,
				   "the activations of %" PRId64 " samples take %" PRId64 " bytes, and %" PRId64
				   " are allowed",
				   k->samples, bytes, most);
	k->x = malloc((size_t)bytes + 1);
	return k->x ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %" PRId64 " bytes of activations", bytes);
}

enum sl_err sl_head_cache_open(struct sl_head_cache **out, const struct sl_plan *plan, const struct sl_set *set,
			       int64_t most, struct sl_fail *fail)
{
	struct sl_head_cache *k;
	enum sl_err err = sl_head_cache_check(plan, fail);

	if (err)
		return err;
	k = calloc(1, sizeof *k);
	if (!k)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to keep activations");
	k->samples = set->count;
	k->features = sl_shape_row(&plan->segment[SL_HEAD].out_shape);
	err = place_samples(k, set, most, fail);
	if (err)
		sl_head_cache_close(k);
	else
		*out = k;
	return err;
}

void sl_head_cache_close(struct sl_head_cache *k)
{
	if (!k)
		return;
	free(k->at);
	free(k->there);
	free(k->x);
	free(k);
}

int64_t sl_head_cache_bytes(const struct sl_head_cache *k)
{
	return k->at[k->samples] * k->features * (int64_t)sizeof *k->x;
}

void sl_head_cache_count(const struct sl_head_cache *k, int64_t *taken, int64_t *put)
{
	*taken = k->taken;
	*put = k->put;
}

/* Floats of a sample. */
static int64_t count_of(const struct sl_head_cache *k, int32_t sample)
{
	sl_assert(sample >= 0 && sample < k->samples);
	sl_assert_int(k->at[sample], <=, k->at[sample + 1]);
	return (k->at[sample + 1] - k->at[sample]) * k->features;
}

bool sl_head_cache_take(struct sl_head_cache *k, const int32_t *sample, int64_t rows, float *out)
{
	for (int64_t r = 0; r < rows; r++)
		if (!k->there[sample[r]])
			return false;
	for (int64_t r = 0; r < rows; r++) {
		memcpy(out, k->x + k->at[sample[r]] * k->features, (size_t)count_of(k, sample[r]) * sizeof *out);
		out += count_of(k, sample[r]);
	}
	k->taken += rows;
	return true;
}

void sl_head_cache_put(struct sl_head_cache *k, const int32_t *sample, int64_t rows, const float *x)
{
	for (int64_t r = 0; r < rows; r++) {
		memcpy(k->x + k->at[sample[r]] * k->features, x, (size_t)count_of(k, sample[r]) * sizeof *x);
		k->there[sample[r]] = true;
		x += count_of(k, sample[r]);
	}
	k->put += rows;
}

void sl_head_cache_forget(struct sl_head_cache *k)
{
	memset(k->there, 0, (size_t)k->samples * sizeof *k->there);
}
