/* quant:b — uniform codes of b bits between the least and the largest value (FACTS: per tensor min,
 * step = (max − min)/(2^b − 1), code = round((x − min)/step)); per tensor, sample, channel, or block of N elements.
 *
 * Payload: for every group {f32 min, f32 max}, then the codes, packed: 8 · groups + ⌈n·b/8⌉ bytes. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/base/worker.h"
#include "common/codec/frame.h"
#include "common/codec/groups.h"

enum { BITS, PER, BLOCK, ROUND };
enum { PER_TENSOR, PER_SAMPLE, PER_CHANNEL };
enum { ROUND_NEAREST, ROUND_STOCHASTIC };
enum { COEFFICIENTS = 6, RANGE_BYTES = 8, PERIOD = 512 };

static const char *const per_words[] = {"tensor", "sample", "channel", NULL};
static const char *const round_words[] = {"nearest", "stochastic", NULL};

static const struct sl_arg args[] = {
	{.key = "bits", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = 16},
	{.key = "per", .type = SL_ARG_CHOICE, .choices = per_words},
	{.key = "block", .type = SL_ARG_INT, .least = 8, .most = 1 << 24},
	{.key = "round", .type = SL_ARG_CHOICE, .choices = round_words},
	{0},
};

struct quant {
	struct sl_stage_env env;
	int bits;
	bool stochastic;
	struct sl_groups groups;
	struct sl_affine *affine; /* [groups] */
	/* per=channel: [COEFFICIENTS][period], period a multiple of C; least, largest [tasks][2][C] */
	int64_t channels, period;
	float *cols, *extremes;
	uint32_t *tops; /* [tasks] */
	/* of the running call */
	bool within; /* sl_groups_within_blocks: ranges come with the blocks, not before */
	atomic_bool nonfinite;
	struct sl_rng_key key;
	const float *x;
	float *y;
	uint8_t *ranges_out, *out;
	const uint8_t *ranges_in, *in;
};

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	if (arg[BLOCK] != 0 && arg[PER] != PER_TENSOR)
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec: quant takes block=N or per=%s, not both",
				   per_words[(int)arg[PER]]);
	if (arg[PER] == PER_CHANNEL && !channels)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: quant per=channel needs the tensor's channels, and the stage "
				   "before it does not keep them");
	if (arg[PER] == PER_SAMPLE && !samples)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: quant per=sample needs the tensor's samples, and the stage "
				   "before it does not keep them");
	return SL_OK;
}

static bool by_sample(const double *arg)
{
	return arg[PER] == PER_SAMPLE;
}

static bool by_token(const double *arg, int64_t features)
{
	return arg[BLOCK] != 0 && features % (int64_t)arg[BLOCK] == 0 && arg[ROUND] == ROUND_NEAREST;
}

/* Elements of a group; 0: all in one. Where samples have one length. */
static int64_t group_size(const double *arg, const struct sl_shape *s)
{
	return by_sample(arg) ? sl_shape_row(s) : (int64_t)arg[BLOCK];
}

static int64_t group_count(const double *arg, const struct sl_extent *e)
{
	if (arg[PER] == PER_CHANNEL)
		return e->shape.dim[e->shape.ndim - 1];
	if (by_sample(arg))
		return e->rows;
	return sl_groups_count(sl_shape_count(&e->shape), group_size(arg, &e->shape));
}

/* An element's error is at most half a step, stochastic a step, of 2·largest/(2^b − 1). */
static bool contracts(const double *arg, int64_t n)
{
	return arg[BITS] > 1;
}

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return (size_t)(group_count(arg, in) * RANGE_BYTES +
			sl_packed_bytes(sl_shape_count(&in->shape), (int)arg[BITS]));
}

static double nominal(const double *arg, const struct sl_extent *in)
{
	return (double)sl_shape_count(&in->shape) * arg[BITS] / 8;
}

static int64_t task_rows(int64_t channels)
{
	return channels < SL_CODEC_BLOCK ? SL_CODEC_BLOCK / channels : 1;
}

static int64_t channel_period(int64_t channels)
{
	return (PERIOD + channels - 1) / channels * channels;
}

static void close_quant(void *state)
{
	struct quant *q = state;

	sl_groups_close(&q->groups);
	free(q->affine);
	free(q->cols);
	free(q->extremes);
	free(q->tops);
	free(q);
}

static enum sl_err open_channels(struct quant *q)
{
	int64_t n = sl_shape_count(&q->env.most.shape), c = q->env.most.shape.dim[q->env.most.shape.ndim - 1];
	int64_t rows = task_rows(c), tasks = (n / c + rows - 1) / rows;

	q->channels = c;
	q->period = channel_period(c);
	q->cols = calloc((size_t)q->period * COEFFICIENTS, sizeof *q->cols);
	q->extremes = calloc((size_t)(tasks * 2 * c), sizeof *q->extremes);
	q->tops = calloc((size_t)tasks, sizeof *q->tops);
	return q->cols == NULL || q->extremes == NULL || q->tops == NULL ? SL_ERR_NOMEM : SL_OK;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	int64_t n = sl_shape_count(&env->most.shape), most = group_count(env->arg, &env->most);
	const struct quant *q = NULL;

	sl_need(&need->host, 1, sizeof *q);
	sl_groups_memory(n, most, need);
	sl_need(&need->host, most, sizeof *q->affine);
	if (env->arg[PER] == PER_CHANNEL) {
		int64_t tasks = (n / most + task_rows(most) - 1) / task_rows(most);

		sl_need(&need->host, channel_period(most), COEFFICIENTS * sizeof *q->cols);
		sl_need(&need->host, tasks * 2 * most, sizeof *q->extremes);
		sl_need(&need->host, tasks, sizeof *q->tops);
	}
}

static enum sl_err open_quant(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	int64_t most = group_count(env->arg, &env->most);
	struct quant *q = calloc(1, sizeof *q);
	enum sl_err err;

	if (q == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "quant: no memory");
	q->env = *env;
	q->bits = (int)env->arg[BITS];
	q->stochastic = env->arg[ROUND] == ROUND_STOCHASTIC;
	err = sl_groups_open(&q->groups, sl_shape_count(&env->most.shape), most, fail);
	if (err != SL_OK)
		goto fail;
	q->affine = calloc((size_t)most, sizeof *q->affine);
	err = q->affine == NULL ? SL_ERR_NOMEM : SL_OK;
	if (err == SL_OK && env->arg[PER] == PER_CHANNEL)
		err = open_channels(q);
	if (err != SL_OK) {
		sl_fail_set(fail, err, "quant: no memory for %lld groups", (long long)most);
		goto fail;
	}
	*state = q;
	return SL_OK;
fail:
	close_quant(q);
	return err;
}

/* ---- ranges */

/* A task of more than one row has all of them in one go: then there are few channels. */
static void measure_columns(void *arg, int64_t block, struct sl_pool_step *step)
{
	struct quant *q = arg;
	int64_t c = q->channels, rows = task_rows(c), first = block * rows, all = q->groups.n / c, stop;
	float *lo = q->extremes + block * 2 * c, *hi = lo + c;

	for (int64_t from = step->at; from < c; from = stop) {
		uint32_t top;

		stop = c - from < SL_CODEC_BLOCK ? c : from + SL_CODEC_BLOCK;
		for (int64_t j = from; j < stop; j++) {
			lo[j] = INFINITY;
			hi[j] = -INFINITY;
		}
		top = q->env.loops->minmax_cols(q->x + first * c + from, first + rows < all ? rows : all - first,
						stop - from, lo + from, hi + from);
		q->tops[block] = from && q->tops[block] > top ? q->tops[block] : top;
		if (stop < c && sl_pool_stop(step, stop))
			return;
	}
}

/* What follows is one thread's: for `count` of them, in pieces. */
static void in_pieces(struct quant *q, int64_t count, void (*fn)(struct quant *q, int64_t first, int64_t stop))
{
	for (int64_t at = 0; at < count; at += SL_CODEC_BLOCK) {
		sl_worker_turn();
		fn(q, at, count - at < SL_CODEC_BLOCK ? count : at + SL_CODEC_BLOCK);
	}
}

/* Channels of all tasks together; the first one's have them. */
static void join_columns(struct quant *q, int64_t first, int64_t stop)
{
	int64_t c = q->channels, rows = task_rows(c), tasks = (q->groups.n / c + rows - 1) / rows;
	float *lo = q->extremes, *hi = lo + c;

	for (int64_t t = 1; t < tasks; t++) {
		const float *l = q->extremes + t * 2 * c, *h = l + c;

		sl_worker_turn();
		for (int64_t j = first; j < stop; j++) {
			lo[j] = l[j] < lo[j] ? l[j] : lo[j];
			hi[j] = h[j] > hi[j] ? h[j] : hi[j];
		}
	}
	for (int64_t j = first; j < stop; j++)
		q->groups.stat[j].range = (struct sl_range){lo[j], hi[j], 0};
}

static enum sl_err measure_channels(struct quant *q)
{
	int64_t c = q->channels, rows = task_rows(c), tasks = (q->groups.n / c + rows - 1) / rows;

	sl_pool_run_long(q->env.pool, tasks, measure_columns, q);
	for (int64_t t = 0; t < tasks; t++)
		if (q->tops[t] >= SL_F32_INF_BITS)
			return SL_ERR_NONFINITE;
	in_pieces(q, c, join_columns);
	return SL_OK;
}

/* Coefficients of every group from its range; for channels, also one after the other over a period. */
static void set_affine(struct quant *q, int64_t group, float min, float max)
{
	q->affine[group] = sl_affine_of(min, max, (1 << q->bits) - 1);
	for (int64_t at = group; q->cols != NULL && at < q->period; at += q->channels) {
		const struct sl_affine *a = &q->affine[group];
		const float value[COEFFICIENTS] = {a->pre, a->lo, a->inv, a->step, a->post, a->max};

		for (int k = 0; k < COEFFICIENTS; k++)
			q->cols[k * q->period + at] = value[k];
	}
}

/* ---- codes */

/* Elements from `at` that one call of a loop can take. */
static int64_t run_length(const struct quant *q, int64_t at, int64_t stop)
{
	int64_t end;

	if (q->cols == NULL)
		return sl_groups_run(&q->groups, at, stop);
	end = (at / q->period + 1) * q->period;
	return (end < stop ? end : stop) - at;
}

static void encode_tile(const struct quant *q, int64_t first, int64_t stop, uint16_t *code, uint16_t *rnd)
{
	const struct sl_codec_loops *loops = q->env.loops;
	uint16_t most = (uint16_t)((1u << q->bits) - 1);

	if (q->stochastic)
		loops->random16(&q->key, (uint64_t)first, stop - first, rnd);
	for (int64_t at = first, run; at < stop; at += run) {
		const uint16_t *r = q->stochastic ? rnd + (at - first) : NULL;

		run = run_length(q, at, stop);
		if (q->cols != NULL)
			loops->quantize_cols(q->x + at, run, q->cols + at % q->period, q->period, r, most,
					     code + (at - first));
		else
			loops->quantize(q->x + at, run, &q->affine[sl_groups_find(&q->groups, at)], r, most,
					code + (at - first));
	}
	loops->pack(code, stop - first, q->bits, q->out + first * q->bits / 8);
}

static void decode_tile(const struct quant *q, int64_t first, int64_t stop, uint16_t *code)
{
	const struct sl_codec_loops *loops = q->env.loops;

	loops->unpack(q->in + first * q->bits / 8, stop - first, q->bits, code);
	for (int64_t at = first, run; at < stop; at += run) {
		run = run_length(q, at, stop);
		if (q->cols != NULL)
			loops->dequantize_cols(code + (at - first), run, q->cols + at % q->period, q->period,
					       q->y + at);
		else
			loops->dequantize(code + (at - first), run, &q->affine[sl_groups_find(&q->groups, at)],
					  q->y + at);
	}
}

/* Ranges of groups first … stop-1, measured, to the payload. */
static void write_ranges(struct quant *q, int64_t first, int64_t stop)
{
	for (int64_t g = first; g < stop; g++) {
		struct sl_range *r = &q->groups.stat[g].range;

		sl_affine_hold_zero(&r->min, &r->max, (1 << q->bits) - 1);
		memcpy(q->ranges_out + g * RANGE_BYTES, &r->min, 4);
		memcpy(q->ranges_out + g * RANGE_BYTES + 4, &r->max, 4);
		set_affine(q, g, r->min, r->max);
	}
}

static void read_ranges(struct quant *q, int64_t first, int64_t stop)
{
	for (int64_t g = first; g < stop; g++) {
		float range[2];

		memcpy(range, q->ranges_in + g * RANGE_BYTES, sizeof range);
		set_affine(q, g, range[0], range[1]);
	}
}

/* Ranges of the groups from element `first` on that are measured at once. False: NaN or Inf. */
static bool measure_stretch(struct quant *q, int64_t first)
{
	int64_t stretch = sl_groups_stretch(&q->groups), group = first / q->groups.size;
	int64_t stop = group + stretch / q->groups.size;

	if (stop > q->groups.count)
		stop = q->groups.count;
	if (!sl_groups_measure_some(&q->groups, q->env.loops, q->x, false, group, stop))
		return false;
	write_ranges(q, group, stop);
	return true;
}

static int64_t block_end(const struct quant *q, int64_t first)
{
	return first + SL_CODEC_BLOCK < q->groups.n ? first + SL_CODEC_BLOCK : q->groups.n;
}

static void encode_block(void *arg, int64_t block, int worker)
{
	struct quant *q = arg;
	int64_t first = block * SL_CODEC_BLOCK, stop = block_end(q, first), end;
	uint16_t code[SL_CODEC_TILE], rnd[SL_CODEC_TILE];

	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		if (q->within && first % sl_groups_stretch(&q->groups) == 0 && !measure_stretch(q, first)) {
			atomic_store_explicit(&q->nonfinite, true, memory_order_relaxed);
			return;
		}
		encode_tile(q, first, end, code, rnd);
	}
}

static void decode_block(void *arg, int64_t block, int worker)
{
	struct quant *q = arg;
	int64_t first = block * SL_CODEC_BLOCK, stop = block_end(q, first), end;
	uint16_t code[SL_CODEC_TILE];

	if (q->within)
		read_ranges(q, first / q->groups.size, sl_groups_count(stop, q->groups.size));
	for (; first < stop; first = end) {
		end = first + SL_CODEC_TILE < stop ? first + SL_CODEC_TILE : stop;
		decode_tile(q, first, end, code);
	}
	sl_codec_settle(q->env.loops);
}

static void set_groups(struct quant *q, const struct sl_extent *xs)
{
	if (by_sample(q->env.arg) && sl_extent_ragged(xs))
		sl_groups_set_samples(&q->groups, xs);
	else
		sl_groups_set(&q->groups, sl_shape_count(&xs->shape), group_size(q->env.arg, &xs->shape));
	q->within = q->cols == NULL && sl_groups_within_blocks(&q->groups);
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	struct quant *q = state;
	int64_t count = group_count(q->env.arg, xs);
	enum sl_err err = SL_OK;

	if (out->cap - out->len < bound(q->env.arg, false, xs))
		return SL_ERR_LIMIT;
	q->x = x;
	q->key = sl_codec_key(q->env.seed, q->env.dir, call, SL_STAGE_QUANTIZER);
	q->ranges_out = out->data + out->len;
	q->out = q->ranges_out + count * RANGE_BYTES;
	q->nonfinite = false;
	set_groups(q, xs);
	if (q->cols != NULL)
		err = measure_channels(q);
	else if (!q->within)
		err = sl_groups_measure(&q->groups, q->env.loops, q->env.pool, x, false);
	if (err != SL_OK)
		return err;
	if (!q->within)
		in_pieces(q, count, write_ranges);
	sl_pool_run(q->env.pool, sl_codec_blocks(q->groups.n), encode_block, q);
	if (q->nonfinite)
		return SL_ERR_NONFINITE;
	out->len += bound(q->env.arg, false, xs);
	return SL_OK;
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_extent *xs, struct sl_fail *fail)
{
	struct quant *q = state;
	int64_t count = group_count(q->env.arg, xs), n = sl_shape_count(&xs->shape);
	int used = (int)(n * q->bits % 8);

	if (in.len != bound(q->env.arg, false, xs))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: %zu bytes, expected %zu", in.len,
				   bound(q->env.arg, false, xs));
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: bits are set behind the last code");
	for (int64_t g = 0; g < count; g++) {
		float range[2];

		if (g % SL_CODEC_BLOCK == 0)
			sl_worker_turn();
		memcpy(range, in.data + g * RANGE_BYTES, sizeof range);
		if (!isfinite(range[0]) || !isfinite(range[1]) || range[0] > range[1])
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: range %g to %g of group %lld",
					   (double)range[0], (double)range[1], (long long)g);
	}
	q->ranges_in = in.data;
	q->in = in.data + count * RANGE_BYTES;
	q->y = x;
	set_groups(q, xs);
	if (!q->within)
		in_pieces(q, count, read_ranges);
	sl_pool_run(q->env.pool, sl_codec_blocks(n), decode_block, q);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_quant = {
	.id = SL_STAGE_ID_QUANT,
	.kind = SL_STAGE_QUANTIZER,
	.name = "quant",
	.usage = "quant:b with b = 1…16; options per=tensor|sample|channel, block=8…16777216, round=nearest|stochastic",
	.args = args,
	.check = check,
	.by_sample = by_sample,
	.contracts = contracts,
	.instead = ", or write quant:2 or more bits",
	.by_token = by_token,
	.bound = bound,
	.nominal = nominal,
	.memory = memory,
	.open = open_quant,
	.close = close_quant,
	.encode = encode,
	.decode = decode,
};
