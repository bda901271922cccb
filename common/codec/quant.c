/* quant:b — uniform codes of b bits between the least and the largest value: step = (max − min)/(2^b − 1), code =
 * round((x − min)/step). A range belongs to the tensor, a sample, a channel, or a block of N elements.
 *
 * round=dither (Schuchman, "Dither signals and their effect on quantization noise", 1964): code = ⌈(x − min)/step − u⌉
 * with u uniform in [0, 1), as round=stochastic; and x' = min + (code + u − 1/2)·step, since both sides draw the same
 * u. The error is uniform within half a step, whatever x is. Its mean is zero, as that of stochastic, and its mean
 * square is half of that one's.
 *
 * Payload: for every group {f32 min, f32 max}, then the codes, packed: 8 · groups + ⌈n·w/8⌉ bytes. w is b. Where bytes
 * are compressed afterwards, w is 4 for b = 3, 8 for 5 to 7 and 16 above 8, so that no code lies across two bytes. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/base/worker.h"
#include "common/codec/frame.h"
#include "common/codec/groups.h"

enum { BITS, PER, BLOCK, ROUND, CHANGE, EVAL, PACKED };
enum { PER_TENSOR, PER_SAMPLE, PER_CHANNEL };
enum { ROUND_NEAREST, ROUND_STOCHASTIC, ROUND_DITHER };
enum { COEFFICIENTS = 6, RANGE_BYTES = 8, PERIOD = 512 };

static const char *const per_words[] = {"tensor", "sample", "channel", NULL};
static const char *const round_words[] = {"nearest", "stochastic", "dither", NULL};

static const struct sl_arg args[] = {
	{.key = "bits", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = 16},
	{.key = "per", .type = SL_ARG_CHOICE, .choices = per_words},
	{.key = "block", .type = SL_ARG_INT, .least = 8, .most = 1 << 24},
	{.key = "round", .type = SL_ARG_CHOICE, .choices = round_words},
	{.key = "change", .type = SL_ARG_INT, .least = 2, .most = 16},
	{.key = "eval", .type = SL_ARG_INT, .least = 1, .most = 16},
	{0},
};

struct quant {
	struct sl_tiled t;
	int bits, width; /* of a code; in the payload */
	bool stochastic, dither;
	struct sl_affine *affine; /* [groups] */
	/* per=channel. cols [COEFFICIENTS][period], period a multiple of C; extremes, least and largest,
	 * [tasks][2][C]. */
	int64_t channels, period;
	float *cols, *extremes;
	uint32_t *tops; /* [tasks] */
};

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	if (arg[BLOCK] != 0 && arg[PER] != PER_TENSOR)
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec: quant takes block=N or per=%s, not both",
				   per_words[(int)arg[PER]]);
	if (arg[CHANGE] != 0 && (arg[BLOCK] != 0 || arg[PER] != PER_TENSOR))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: quant with change=b has one range for a tensor: leave block and per out");
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

static int code_width(const double *arg)
{
	return sl_code_width((int)arg[BITS], arg[PACKED] != 0);
}

/* Elements of a group; 0: one group. For samples of one length. */
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

/* A step is at most 2·largest/(2^b − 1). An element's error is at most half a step, stochastic a step. */
static bool contracts(const double *arg, const struct sl_extent *in)
{
	return arg[BITS] > 1;
}

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return (size_t)(group_count(arg, in) * RANGE_BYTES +
			sl_packed_bytes(sl_shape_count(&in->shape), code_width(arg)));
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

	sl_groups_close(&q->t.groups);
	free(q->affine);
	free(q->cols);
	free(q->extremes);
	free(q->tops);
}

static enum sl_err open_channels(struct quant *q)
{
	int64_t n = sl_shape_count(&q->t.env.most.shape), c = q->t.env.most.shape.dim[q->t.env.most.shape.ndim - 1];
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
	struct quant *q = *state;
	enum sl_err err;

	q->t.env = *env;
	q->bits = (int)env->arg[BITS];
	q->width = code_width(env->arg);
	q->stochastic = env->arg[ROUND] != ROUND_NEAREST;
	q->dither = env->arg[ROUND] == ROUND_DITHER;
	err = sl_groups_open(&q->t.groups, sl_shape_count(&env->most.shape), most, fail);
	if (err)
		return err;
	q->affine = calloc((size_t)most, sizeof *q->affine);
	err = q->affine == NULL ? SL_ERR_NOMEM : SL_OK;
	if (!err && env->arg[PER] == PER_CHANNEL)
		err = open_channels(q);
	return !err ? SL_OK : sl_fail_set(fail, err, "quant: no memory for %lld groups", (long long)most);
}

/* ---- ranges */

/* Measures the channels of one task's rows, in steps of SL_CODEC_BLOCK channels. A task of several rows has so few
 * channels that it is one step. */
static void measure_columns(void *arg, int64_t block, struct sl_pool_step *step)
{
	struct quant *q = arg;
	int64_t c = q->channels, rows = task_rows(c), first = block * rows, all = q->t.groups.n / c, stop;
	float *lo = q->extremes + block * 2 * c, *hi = lo + c;

	for (int64_t from = step->at; from < c; from = stop) {
		uint32_t top;

		stop = c - from < SL_CODEC_BLOCK ? c : from + SL_CODEC_BLOCK;
		for (int64_t j = from; j < stop; j++) {
			lo[j] = INFINITY;
			hi[j] = -INFINITY;
		}
		top = q->t.env.loops->minmax_cols(q->t.x + first * c + from, first + rows < all ? rows : all - first,
						  stop - from, lo + from, hi + from);
		q->tops[block] = from && q->tops[block] > top ? q->tops[block] : top;
		if (stop < c && sl_pool_stop(step, stop))
			return;
	}
}

/* Joins the ranges of channels first … stop-1 of all tasks into those of the first task. */
static void join_columns(struct sl_tiled *t, int64_t first, int64_t stop)
{
	struct quant *q = (struct quant *)t;
	int64_t c = q->channels, rows = task_rows(c), tasks = (t->groups.n / c + rows - 1) / rows;
	float *lo = q->extremes, *hi = lo + c;

	for (int64_t task = 1; task < tasks; task++) {
		const float *l = q->extremes + task * 2 * c, *h = l + c;

		sl_worker_turn();
		for (int64_t j = first; j < stop; j++) {
			lo[j] = l[j] < lo[j] ? l[j] : lo[j];
			hi[j] = h[j] > hi[j] ? h[j] : hi[j];
		}
	}
	for (int64_t j = first; j < stop; j++)
		t->groups.stat[j].range = (struct sl_range){lo[j], hi[j], 0};
}

static enum sl_err measure_channels(struct quant *q)
{
	int64_t c = q->channels, rows = task_rows(c), tasks = (q->t.groups.n / c + rows - 1) / rows;

	sl_pool_run_long(q->t.env.pool, tasks, measure_columns, q);
	for (int64_t t = 0; t < tasks; t++)
		if (q->tops[t] >= SL_F32_INF_BITS)
			return SL_ERR_NONFINITE;
	sl_tiled_in_pieces(&q->t, c, join_columns);
	return SL_OK;
}

/* Sets a group's coefficients from its range; for channels, also in `cols`, repeated over a period. */
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
		return sl_groups_run(&q->t.groups, at, stop);
	end = (at / q->period + 1) * q->period;
	return (end < stop ? end : stop) - at;
}

static void encode_tile(const struct sl_tiled *t, int64_t first, int64_t stop, uint16_t *code, uint32_t *rnd)
{
	const struct quant *q = (const struct quant *)t;
	const struct sl_codec_loops *loops = t->env.loops;
	uint16_t most = (uint16_t)((1u << q->bits) - 1);

	if (q->stochastic)
		loops->random_halves(&t->key, (uint64_t)first, stop - first, rnd);
	for (int64_t at = first, run; at < stop; at += run) {
		const uint32_t *r = q->stochastic ? rnd + (at - first) : NULL;

		run = run_length(q, at, stop);
		if (q->cols != NULL)
			loops->quantize_cols(t->x + at, run, q->cols + at % q->period, q->period, r, most,
					     code + (at - first));
		else
			loops->quantize(t->x + at, run, &q->affine[sl_groups_find(&t->groups, at)], r, most,
					code + (at - first));
	}
	loops->pack(code, stop - first, q->width, t->out + first * q->width / 8);
}

static float between(float v, float least, float most)
{
	return v < least ? least : v < most ? v : most;
}

/* Takes off the dither of n elements, of which the first is element `at`, by the same draws as encode_tile's. */
static void subtract_dither(const struct quant *q, int64_t at, int64_t n, const uint32_t *rnd, float *x)
{
	const float *step = q->cols + 3 * q->period + at % q->period, *post = step + q->period;
	const struct sl_affine *a = q->cols == NULL ? &q->affine[sl_groups_find(&q->t.groups, at)] : NULL;

	for (int64_t i = 0; i < n; i++) {
		const float width = a ? a->step * a->post : step[i] * post[i];

		x[i] = between(x[i] + ((float)(rnd[i] >> 1) * 0x1p-31f - 0.5f) * width, -FLT_MAX, FLT_MAX);
	}
}

static void decode_tile(const struct sl_tiled *t, int64_t first, int64_t stop, uint16_t *code)
{
	const struct quant *q = (const struct quant *)t;
	const struct sl_codec_loops *loops = q->dither ? sl_codec_storing(t->env.loops) : t->env.loops;
	uint32_t rnd[SL_CODEC_TILE];

	if (q->dither)
		loops->random_halves(&t->key, (uint64_t)first, stop - first, rnd);
	loops->unpack(t->in + first * q->width / 8, stop - first, q->width, code);
	for (int64_t at = first, run; at < stop; at += run) {
		run = run_length(q, at, stop);
		if (q->cols != NULL)
			loops->dequantize_cols(code + (at - first), run, q->cols + at % q->period, q->period,
					       t->y + at);
		else
			loops->dequantize(code + (at - first), run, &q->affine[sl_groups_find(&t->groups, at)],
					  t->y + at);
		if (q->dither)
			subtract_dither(q, at, run, rnd + (at - first), t->y + at);
	}
}

/* Writes the ranges of groups first … stop-1, which are measured. */
static void write_ranges(struct sl_tiled *t, int64_t first, int64_t stop)
{
	struct quant *q = (struct quant *)t;
	for (int64_t g = first; g < stop; g++) {
		struct sl_range *r = &t->groups.stat[g].range;

		sl_affine_hold_zero(&r->min, &r->max, (1 << q->bits) - 1);
		memcpy(t->heads_out + g * RANGE_BYTES, &r->min, 4);
		memcpy(t->heads_out + g * RANGE_BYTES + 4, &r->max, 4);
		set_affine(q, g, r->min, r->max);
	}
}

static void read_ranges(struct sl_tiled *t, int64_t first, int64_t stop)
{
	struct quant *q = (struct quant *)t;
	for (int64_t g = first; g < stop; g++) {
		float range[2];

		memcpy(range, t->heads_in + g * RANGE_BYTES, sizeof range);
		set_affine(q, g, range[0], range[1]);
	}
}

static const struct sl_tiled_kind tiled = {
	.head_bytes = RANGE_BYTES,
	.write = write_ranges,
	.read = read_ranges,
	.encode = encode_tile,
	.decode = decode_tile,
};

static void set_groups(struct quant *q, const struct sl_extent *xs)
{
	if (by_sample(q->t.env.arg) && sl_extent_ragged(xs))
		sl_groups_set_samples(&q->t.groups, xs);
	else
		sl_groups_set(&q->t.groups, sl_shape_count(&xs->shape), group_size(q->t.env.arg, &xs->shape));
	q->t.kind = &tiled;
	q->t.heads = group_count(q->t.env.arg, xs);
	q->t.within = q->cols == NULL && sl_groups_within_blocks(&q->t.groups);
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	struct quant *q = state;
	const size_t bytes = bound(q->t.env.arg, false, xs);
	enum sl_err err;

	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	set_groups(q, xs);
	q->t.x = x;
	err = q->cols != NULL ? measure_channels(q) : SL_OK;
	if (call->code_step > 0) /* of changes, which have one group and are within these codes */
		q->t.groups.stat[0].range = sl_codec_change_range(q->bits, call->code_step);
	return err ? err : sl_tiled_encode(&q->t, call, x, q->cols != NULL || call->code_step > 0, out, bytes);
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_extent *xs, struct sl_fail *fail)
{
	struct quant *q = state;
	int used = (int)(sl_shape_count(&xs->shape) * q->width % 8);

	if (in.len != bound(q->t.env.arg, false, xs))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: %zu bytes, expected %zu", in.len,
				   bound(q->t.env.arg, false, xs));
	if (used != 0 && in.data[in.len - 1] >> used != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: bits are set behind the last code");
	set_groups(q, xs);
	for (int64_t g = 0; g < q->t.heads; g++) {
		float range[2];

		if (g % SL_CODEC_BLOCK == 0)
			sl_worker_turn();
		memcpy(range, in.data + g * RANGE_BYTES, sizeof range);
		if (!isfinite(range[0]) || !isfinite(range[1]) || range[0] > range[1])
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: range %g to %g of group %lld",
					   (double)range[0], (double)range[1], (long long)g);
	}
	if (!sl_tiled_check(&q->t, in, q->width, (uint16_t)((1u << q->width) - 1), (uint16_t)((1u << q->bits) - 1)))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "quant: a code is above %d", (1 << q->bits) - 1);
	q->t.key = sl_codec_key(q->t.env.seed, q->t.env.dir, call, SL_STAGE_QUANTIZER);
	sl_tiled_decode(&q->t, in, x);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_quant = {
	.id = SL_STAGE_ID_QUANT,
	.kind = SL_STAGE_QUANTIZER,
	.name = "quant",
	.usage = "quant:b with b = 1…16; options per=tensor|sample|channel, block=8…16777216, "
		 "round=nearest|stochastic|dither, change=2…16, eval=1…16",
	.args = args,
	.check = check,
	.by_sample = by_sample,
	.contracts = contracts,
	.instead = ", or write quant:2 or more bits",
	.by_token = by_token,
	.follows_arg = PACKED,
	.variant_arg = {[SL_CODEC_CHANGE] = CHANGE, [SL_CODEC_EVAL] = EVAL},
	.bound = bound,
	.nominal = nominal,
	.size = sizeof(struct quant),
	.memory = memory,
	.open = open_quant,
	.close = close_quant,
	.encode = encode,
	.decode = decode,
};
