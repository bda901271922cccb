/* Coding of changes (quant's change=b). Both sides keep each token of the data set as it was decoded last. A token that
 * both have crosses as the difference to that, in fewer bits, and both add what they decode. Errors do not add up: each
 * difference is to the true value. After AQ-SGD (Wang et al., "Fine-tuning Language Models over Slow Networks using
 * Activation Quantization with Guarantees", NeurIPS 2022).
 *
 * Codes of changes are as far apart as those of the values would be, however small the changes are. So their error is
 * the same, and most codes are zero, which zstd packs. What lies beyond the codes is cut off, and crosses the next
 * time.
 *
 * What a step decodes is pending until its commit, by slot. So a step that is repeated begins with what was kept before
 * it. A call with a token that is not kept codes all values. */
#include "common/codec/change.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pieces.h"
#include "common/base/pool.h"

struct pending {
	int64_t n;    /* tokens of the call */
	bool done;    /* x has them, as they were decoded */
	uint32_t *to; /* [n] where each is kept */
	float *x;     /* [most, features] */
};

struct sl_change {
	int64_t tokens, most, features; /* kept; of a call, at most; elements of one */
	int slots;
	uint8_t *kept;           /* [tokens] 1: `store` has it */
	float *store, *diff;     /* [tokens, features], [most, features] */
	uint32_t *to;            /* memory of all slots' pending */
	struct pending *pending; /* [slots] */
};

enum { RUN_TOKENS = 64 }; /* of one block of the pool */
static const struct sl_range everything = {-FLT_MAX, FLT_MAX, 0};

/* Rows of floats: what is kept, the differences, and each slot's pending tokens. */
static int64_t rows_of(const struct sl_codec_env *env)
{
	return env->keep_tokens + env->shape.dim[0] * (1 + (int64_t)env->slots);
}

void sl_change_memory(const struct sl_codec_env *env, struct sl_memory *need)
{
	sl_need(&need->host, env->keep_tokens, 1);
	sl_need(&need->host, rows_of(env), (uint64_t)sl_shape_row(&env->shape) * sizeof(float));
	sl_need(&need->host, env->shape.dim[0] * env->slots, sizeof(uint32_t));
	sl_need(&need->host, env->slots, sizeof(struct pending));
	sl_need(&need->host, 1, sizeof(struct sl_change));
}

enum sl_err sl_change_open(struct sl_change **out, const struct sl_codec_env *env)
{
	struct sl_change *k = *out = calloc(1, sizeof *k);
	float *at;

	if (k == NULL)
		return SL_ERR_NOMEM;
	k->tokens = env->keep_tokens;
	k->most = env->shape.dim[0];
	k->features = sl_shape_row(&env->shape);
	k->slots = env->slots;
	k->kept = calloc((size_t)k->tokens, 1);
	k->store = calloc((size_t)rows_of(env), (size_t)k->features * sizeof(float));
	k->to = calloc((size_t)k->most * (size_t)k->slots, sizeof *k->to);
	k->pending = calloc((size_t)k->slots, sizeof *k->pending);
	if (k->kept == NULL || k->store == NULL || k->to == NULL || k->pending == NULL)
		return SL_ERR_NOMEM;
	at = k->diff = k->store + k->tokens * k->features;
	for (int s = 0; s < k->slots; s++)
		k->pending[s] = (struct pending){.to = k->to + s * k->most, .x = at += k->most * k->features};
	return SL_OK;
}

void sl_change_close(struct sl_change *k)
{
	if (k == NULL)
		return;
	free(k->kept);
	free(k->store);
	free(k->to);
	free(k->pending);
	free(k);
}

/* ---- one call */

bool sl_change_find(struct sl_change *k, const struct sl_codec_call *call, const struct sl_tensor *x, bool *all)
{
	const struct sl_dims *d = &call->dims;
	const int64_t n = d->place != NULL ? (int64_t)d->chosen : d->tokens;
	struct pending *p = &k->pending[call->slot < k->slots ? call->slot : 0];
	int64_t row = 0;

	p->done = false;
	*all = false;
	if (!call->training || call->home == NULL || d->begin == NULL || n != x->shape.dim[0] || n > k->most ||
	    call->slot >= k->slots)
		return false;
	*all = true;
	for (int64_t t = 0; t < n; t++) {
		const int64_t at = d->place != NULL ? (int64_t)d->place[t] : t;
		int64_t to;

		while (row + 1 < d->rows && (int64_t)d->begin[row + 1] <= at)
			row++;
		to = (int64_t)call->home[row] - 1 + at - (int64_t)d->begin[row];
		if (call->home[row] == 0 || to < 0 || to >= k->tokens)
			return *all = false;
		p->to[t] = (uint32_t)to;
		*all = *all && k->kept[to];
	}
	p->n = n;
	return true;
}

struct combine {
	const struct sl_change *k;
	const struct pending *p;
	const float *x;
	float *out, sign;
	struct sl_range within;
};

static void combine_run(void *arg, int64_t block, int worker)
{
	const struct combine *w = arg;
	const int64_t first = block * RUN_TOKENS, f = w->k->features;

	for (int64_t t = first; t < first + RUN_TOKENS && t < w->p->n; t++) {
		const float *kept = w->k->store + (int64_t)w->p->to[t] * f;

		for (int64_t i = t * f; i < (t + 1) * f; i++) {
			const float v = w->x[i] + w->sign * kept[i - t * f];

			w->out[i] = v < w->within.min ? w->within.min : v > w->within.max ? w->within.max : v;
		}
	}
}

/* out = x + sign · what is kept, cut to a range. */
static void combine(const struct sl_change *k, int slot, struct sl_pool *pool, const float *x, float sign,
		    struct sl_range within, float *out)
{
	struct combine w = {.k = k, .p = &k->pending[slot], .x = x, .out = out, .sign = sign, .within = within};

	sl_pool_run(pool, (w.p->n + RUN_TOKENS - 1) / RUN_TOKENS, combine_run, &w);
}

float *sl_change_subtract(struct sl_change *k, const struct sl_codec_call *call, const struct sl_codec_loops *loops,
			  struct sl_pool *pool, const float *x, int bits, int change_bits, float *code_step)
{
	const int64_t n = k->pending[call->slot].n * k->features;
	struct sl_range r = SL_RANGE_EMPTY;

	for (int64_t at = 0; at < n; at += SL_CODEC_BLOCK)
		loops->minmax(x + at, n - at < SL_CODEC_BLOCK ? n - at : SL_CODEC_BLOCK, &r);
	if (r.top >= SL_F32_INF_BITS)
		return NULL;
	*code_step = (r.max - r.min) / (float)((1 << bits) - 1);
	r = *code_step > 0 ? sl_codec_change_range(change_bits, *code_step) : everything;
	if (!isfinite(r.min) || !isfinite(r.max))
		return NULL;
	combine(k, call->slot, pool, x, -1, r, k->diff);
	return k->diff;
}

void sl_change_add(struct sl_change *k, const struct sl_codec_call *call, struct sl_pool *pool, float *x)
{
	combine(k, call->slot, pool, x, 1, everything, x);
}

float *sl_change_room(struct sl_change *k, const struct sl_codec_call *call)
{
	return k->pending[call->slot].x;
}

void sl_change_keep(struct sl_change *k, const struct sl_codec_call *call, const float *x)
{
	struct pending *p = &k->pending[call->slot];

	p->done = true;
	if (x != p->x)
		sl_copy(p->x, x, (size_t)(p->n * k->features) * sizeof(float));
}

/* ---- the step */

void sl_change_end(struct sl_change *k, bool commit)
{
	for (int s = 0; k != NULL && s < k->slots; s++) {
		struct pending *p = &k->pending[s];

		for (int64_t t = 0; commit && p->done && t < p->n; t++) {
			k->kept[p->to[t]] = 1;
			memcpy(k->store + p->to[t] * k->features, p->x + t * k->features,
			       (size_t)k->features * sizeof(float));
		}
		p->done = false;
	}
}

void sl_change_forget(struct sl_change *k)
{
	if (k != NULL)
		memset(k->kept, 0, (size_t)k->tokens);
}

/* ---- its state: for each token a byte, 1 if it is kept; then the floats of these */

static size_t state_bytes(int64_t tokens, int64_t features)
{
	return (size_t)tokens * (1 + (size_t)features * sizeof(float));
}

size_t sl_change_state_most(const struct sl_codec_env *env)
{
	return state_bytes(env->keep_tokens, sl_shape_row(&env->shape));
}

size_t sl_change_state_bytes(const struct sl_change *k)
{
	return k == NULL ? 0 : state_bytes(k->tokens, k->features);
}

enum sl_err sl_change_save(const struct sl_change *k, struct sl_buf *out)
{
	enum sl_err err = k == NULL ? SL_OK : sl_buf_put(out, k->kept, (size_t)k->tokens);

	for (int64_t t = 0; k != NULL && t < k->tokens && !err; t++)
		if (k->kept[t])
			err = sl_buf_put(out, k->store + t * k->features, (size_t)k->features * sizeof(float));
	return err;
}

enum sl_err sl_change_load(struct sl_change *k, struct sl_bytes *in)
{
	struct sl_bytes kept, floats;
	enum sl_err err = k == NULL ? SL_OK : sl_bytes_take(in, (size_t)k->tokens, &kept);

	for (int64_t t = 0; k != NULL && t < k->tokens && !err; t++) {
		k->kept[t] = kept.data[t];
		err = kept.data[t] > 1 ? SL_ERR_DATA : SL_OK;
		if (err || !kept.data[t])
			continue;
		err = sl_bytes_take(in, (size_t)k->features * sizeof(float), &floats);
		if (!err)
			memcpy(k->store + t * k->features, floats.data, floats.len);
	}
	return err;
}
