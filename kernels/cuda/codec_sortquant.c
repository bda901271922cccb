/* sortquant: edges from the portable codec's sample, moved as it moves them (common/codec/sortquant.c); the device
 * counts, the host decides: in the usual case, encoding waits for the counts once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/codec_stage.h"

enum { BITS, SPLIT };
enum { RANGE_BYTES = 8, TRIES = 3, BIN_WORDS = CU_SELECT_BINS + 2 };

struct sortquant {
	struct cu_stage stage;
	struct cu_buckets buckets;
	struct cu_bucket_seen *there, *seen; /* device; its copy in locked host memory */
	uint32_t *sample;                    /* device [CU_SAMPLE] */
	uint32_t *bins;                      /* device [BIN_WORDS], zero between calls */
	struct cu_ranks ranks;
	bool ties;
	/* of the running call, of edges 1 … count-1 */
	int64_t below[CU_BUCKETS], upto[CU_BUCKETS];
	float max_below[CU_BUCKETS];
};

static void close_sortquant(void *state)
{
	struct sortquant *q = state;

	cu_stage_free(&q->stage, q->there);
	cu_stage_free(&q->stage, q->sample);
	cu_stage_free(&q->stage, q->bins);
	cu_stage_free(&q->stage, q->buckets.codes);
	if (q->stage.env.be != NULL)
		q->stage.env.be->ops->host_free(q->stage.env.be, q->seen);
	cu_stage_close(&q->stage);
	free(q);
}

static size_t code_bytes(const struct sortquant *q, int64_t n)
{
	return (size_t)sl_packed_bytes(n, q->buckets.bits);
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	const struct sortquant *q = NULL;
	int bits = (int)(env->arg[BITS] + env->arg[SPLIT]);

	(void)pairing;
	cu_stage_memory(env, sizeof *q, need);
	sl_need(&need->host, 1, sizeof *q->seen);
	sl_need(&need->device, 1, sizeof *q->there);
	sl_need(&need->device, CU_SAMPLE + BIN_WORDS, sizeof *q->sample);
	sl_need(&need->device, sl_packed_bytes(sl_shape_count(&env->shape), bits) + CU_CODE_PAD, 1);
}

static enum sl_err open_sortquant(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct sortquant *q = calloc(1, sizeof *q);
	struct cu_stage *s;
	enum sl_err err;

	if (q == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "sortquant: no memory");
	s = &q->stage;
	q->buckets.count = 1 << (int)env->arg[SPLIT];
	q->buckets.code_bits = (int)env->arg[BITS];
	q->buckets.bits = (int)(env->arg[BITS] + env->arg[SPLIT]);
	err = cu_stage_open(s, env, fail);
	if (err == SL_OK)
		err = cu_stage_alloc(s, sizeof *q->there, (void **)&q->there, fail);
	if (err == SL_OK)
		err = cu_stage_alloc(s, CU_SAMPLE * sizeof *q->sample, (void **)&q->sample, fail);
	if (err == SL_OK)
		err = cu_stage_alloc(s, BIN_WORDS * sizeof *q->bins, (void **)&q->bins, fail);
	if (err == SL_OK)
		err = cu_stage_alloc(s, code_bytes(q, sl_shape_count(&env->shape)) + CU_CODE_PAD,
				     (void **)&q->buckets.codes, fail);
	if (err == SL_OK)
		err = env->be->ops->host_alloc(env->be, sizeof *q->seen, (void **)&q->seen, fail);
	if (err != SL_OK) {
		close_sortquant(q);
		return err;
	}
	*state = q;
	return SL_OK;
}

/* ---- edges */

static float value_of(uint32_t key)
{
	uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
	float v;

	memcpy(&v, &bits, sizeof v);
	return v + 0.0f;
}

/* What the device counted by number of edges ≤ x, as the counts of every edge. */
static void read_counts(struct sortquant *q)
{
	struct cu_buckets *b = &q->buckets;
	const struct cu_bucket_seen *seen = q->seen;

	for (int k = 1; k < b->count; k++)
		b->edge[k] = value_of(seen->picked[3 * k - 2]);
	for (int k = 1; k < b->count; k++) {
		int edges = 0;

		q->below[k] = 0;
		q->max_below[k] = -INFINITY;
		for (int j = 1; j < b->count; j++)
			edges += b->edge[j] <= b->edge[k];
		for (int j = 0; j < edges; j++) {
			q->below[k] += seen->count[j];
			if (seen->count[j] != 0)
				q->max_below[k] = fmaxf(q->max_below[k], value_of(seen->most[j]));
		}
		q->upto[k] = q->below[k] + seen->equal[edges];
	}
}

/* An edge that the sample has twice is one that many elements may be equal to. */
static void find_ties(struct sortquant *q, int64_t samples)
{
	q->ties = q->buckets.n <= CU_SAMPLE;
	for (int k = 1; k < q->buckets.count; k++) {
		const uint32_t *at = &q->seen->picked[3 * k - 2];
		int64_t rank = q->ranks.rank[k];

		q->ties = q->ties || (rank > 0 && at[-1] == at[0]) || (rank + 1 < samples && at[1] == at[0]);
	}
}

static int64_t target(const struct sortquant *q, int k)
{
	return q->buckets.n * k / q->buckets.count;
}

/* Within 1 % of n of its share; equal values may stand on either side. */
static bool balanced(const struct sortquant *q, int k)
{
	int64_t slack = q->buckets.n / 100, upto = q->ties ? q->upto[k] : q->below[k];

	return q->below[k] <= target(q, k) + slack && upto >= target(q, k) - slack;
}

static bool all_balanced(const struct sortquant *q)
{
	for (int k = 1; k < q->buckets.count; k++)
		if (!balanced(q, k))
			return false;
	return true;
}

/* Sample ranks are taken as linear between neighbouring edges. */
static void move_ranks(struct sortquant *q, int64_t samples)
{
	int count = q->buckets.count;
	int64_t known_rank[CU_BUCKETS + 1], known_below[CU_BUCKETS + 1];

	for (int k = 0; k <= count; k++) {
		known_rank[k] = k == 0 ? 0 : k == count ? samples : q->ranks.rank[k];
		known_below[k] = k == 0 ? 0 : k == count ? q->buckets.n : q->below[k];
	}
	for (int k = 1; k < count; k++) {
		int64_t rank;
		double part;
		int at = 0;

		if (balanced(q, k))
			continue;
		while (at < count - 1 && known_below[at + 1] <= target(q, k))
			at++;
		part = (double)(target(q, k) - known_below[at]) /
		       fmax(1, (double)(known_below[at + 1] - known_below[at]));
		rank = known_rank[at] + (int64_t)(part * (double)(known_rank[at + 1] - known_rank[at]));
		q->ranks.rank[k] = (uint32_t)(rank < 0 ? 0 : rank >= samples ? samples - 1 : rank);
	}
}

/* Counts what lies between the edges that the ranks say; waits. */
static enum sl_err look(struct sortquant *q, int slot, const float *x, bool sample, bool exact)
{
	struct cu_stage *s = &q->stage;
	int64_t n = q->buckets.n, samples = n < CU_SAMPLE ? n : CU_SAMPLE;
	int count = q->buckets.count;
	cudaError_t queued = sample ? cu_bucket_sample(s->stream, q->sample, x, n) : cudaSuccess;
	enum sl_err err;

	if (queued == cudaSuccess)
		queued = exact ? cu_bucket_exact(s->stream, q->there, q->bins, x, n, &q->ranks, count)
			       : cu_bucket_pick(s->stream, q->there, q->sample, samples, &q->ranks, count);
	if (queued == cudaSuccess)
		queued = cu_bucket_measure(s->stream, q->there, s->status, x, n, count);
	err = cu_stage_look(s, slot, queued, q->seen, q->there, sizeof *q->seen);
	if (err == SL_OK)
		read_counts(q);
	return err;
}

static enum sl_err find_edges(struct sortquant *q, int slot, const float *x)
{
	int64_t n = q->buckets.n, samples = n < CU_SAMPLE ? n : CU_SAMPLE;
	enum sl_err err;

	for (int k = 0; k < q->buckets.count; k++)
		q->ranks.rank[k] = (uint32_t)(samples * k / q->buckets.count);
	err = look(q, slot, x, true, false);
	if (err != SL_OK)
		return err;
	find_ties(q, samples);
	for (int tries = 0; err == SL_OK && !all_balanced(q); tries++) {
		q->ties = true;
		if (tries == TRIES) {
			for (int k = 1; k < q->buckets.count; k++)
				q->ranks.rank[k] = (uint32_t)target(q, k);
			return look(q, slot, x, false, true);
		}
		move_ranks(q, samples);
		err = look(q, slot, x, false, false);
	}
	return err;
}

/* ---- codes */

/* `low`: the word LOW of the status. */
static void set_ranges(struct sortquant *q, uint32_t low)
{
	struct cu_buckets *b = &q->buckets;
	float most = -INFINITY;

	for (int j = 0; j < CU_BUCKETS; j++)
		if (q->seen->count[j] != 0)
			most = fmaxf(most, value_of(q->seen->most[j]));
	for (int k = 0; k < b->count; k++) {
		float max = k == b->count - 1 ? most : q->max_below[k + 1];

		b->min[k] = k == 0 ? value_of(~low) : b->edge[k];
		/* an empty bucket: nothing lies between two equal edges, or below the first one */
		b->max[k] = max < b->min[k] ? b->min[k] : max;
	}
}

static enum sl_err queue_encode(void *state, const struct sl_codec_call *call, const float *x,
				const struct sl_shape *xs, bool finite, struct sl_buf *out)
{
	struct sortquant *q = state;
	struct cu_buckets *b = &q->buckets;
	struct cu_stage *s = &q->stage;
	size_t head = (size_t)b->count * RANGE_BYTES, bytes;
	uint8_t *to = out->data + out->len;
	cudaError_t queued;
	enum sl_err err;

	(void)finite; /* the ranges are */
	b->n = sl_shape_count(xs);
	bytes = code_bytes(q, b->n);
	if (out->cap - out->len < head + bytes)
		return SL_ERR_LIMIT;
	if (b->n == 0) {
		memset(to, 0, head);
		out->len += head;
		return SL_OK;
	}
	err = cu_stage_begin(s);
	if (err == SL_OK)
		err = find_edges(q, call->slot, x);
	if (err != SL_OK)
		return err;
	set_ranges(q, cu_stage_seen(s, call->slot)[CU_STATUS_LOW]);
	for (int k = 0; k < b->count; k++) {
		memcpy(to + k * RANGE_BYTES, &b->min[k], 4);
		memcpy(to + k * RANGE_BYTES + 4, &b->max[k], 4);
	}
	queued = cu_bucket_encode(s->stream, b, x);
	if (queued == cudaSuccess)
		queued = cu_stage_send(s, call->slot, to + head, b->codes, bytes);
	out->len += head + bytes;
	return cu_codec_check(s->env.be, queued);
}

static enum sl_err check_bytes(struct sortquant *q, struct sl_bytes in, struct sl_fail *fail)
{
	struct cu_buckets *b = &q->buckets;
	size_t expect = (size_t)b->count * RANGE_BYTES + code_bytes(q, b->n);
	int used = (int)(b->n * b->bits % 8);

	if (in.len != expect)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: %zu bytes, expected %zu", in.len, expect);
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: bits are set behind the last code");
	for (int k = 0; k < b->count; k++) {
		memcpy(&b->min[k], in.data + k * RANGE_BYTES, 4);
		memcpy(&b->max[k], in.data + k * RANGE_BYTES + 4, 4);
		if (!isfinite(b->min[k]) || !isfinite(b->max[k]) || b->min[k] > b->max[k])
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "sortquant: range %g to %g of bucket %d",
					   (double)b->min[k], (double)b->max[k], k);
	}
	return SL_OK;
}

/* Any code is one of a bucket: what could be wrong is seen on the host. */
static enum sl_err queue_decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				const struct sl_shape *xs, struct sl_fail *fail)
{
	struct sortquant *q = state;
	struct cu_buckets *b = &q->buckets;
	struct cu_stage *s = &q->stage;
	size_t head = (size_t)b->count * RANGE_BYTES;
	cudaError_t queued;
	enum sl_err err;

	b->n = sl_shape_count(xs);
	err = check_bytes(q, in, fail);
	if (err != SL_OK || b->n == 0)
		return err;
	err = cu_stage_enter(s);
	if (err != SL_OK)
		return sl_fail_set(fail, err, "the device has failed");
	queued = cu_stage_bring(s, b->codes, in.data + head, in.len - head);
	if (queued == cudaSuccess)
		queued = cu_bucket_decode(s->stream, x, b);
	if (queued == cudaSuccess)
		queued = cu_stage_take(s, call->slot, false);
	return cu_stage_said(cu_codec_check(s->env.be, queued), fail);
}

static enum sl_err collect(void *state, const struct sl_codec_call *call, struct sl_buf *side, struct sl_fail *fail)
{
	struct sortquant *q = state;

	(void)side;
	return cu_stage_said(cu_stage_collect(&q->stage, call->slot), fail);
}

static enum sl_err echo(void *state, float *x, const struct sl_shape *xs)
{
	struct sortquant *q = state;

	(void)xs;
	if (q->buckets.n == 0)
		return SL_OK;
	return cu_codec_check(q->stage.env.be, cu_bucket_decode(q->stage.stream, x, &q->buckets));
}

const struct sl_codec_stage cu_stage_sortquant = {.id = SL_STAGE_ID_SORTQUANT,
						  .memory = memory,
						  .open = open_sortquant,
						  .close = close_sortquant,
						  .queue_encode = queue_encode,
						  .queue_decode = queue_decode,
						  .collect = collect,
						  .echo = echo};
