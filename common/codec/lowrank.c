/* lowrank:r — power iteration per sample (Vogels et al., "PowerSGD", NeurIPS 2019). A sample is the matrix X [M, C],
 * M = H·W positions of C channels (or S·F of a sequence). It is sent as two factors with X ≈ A·Bᵀ, A [M, r] and
 * B [C, r]: r·(M + C) values. The factor on the smaller side is made orthonormal:
 *
 *   C ≤ M: iters × { B = orthonormal(Xᵀ·A), A = X·B }        start: A
 *   M < C: iters × { A = orthonormal(X·B),  B = Xᵀ·A }       start: B
 *
 * The start is uniform in [-1, 1), the same for all samples of a chunk. With warm=true it is the factor that this
 * sample of this chunk had at the last committed step, except for rows of zeros: a tensor of lower rank leaves such
 * rows, and they would stay zero for ever.
 *
 * Each row of Aᵀ is then multiplied by a power of two, and the same row of Bᵀ by its inverse, so that their largest
 * values are alike. A quantizer behind codes both factors in one range; without this, the factor with the smaller
 * values would come back as noise or zeros.
 *
 * If samples have different lengths M, one for which r·(M + C) values are not fewer than M·C is sent as it is. The
 * warm factor is then B, because A would not fit the next sample. If C ≤ M, the iteration starts from A = X·B, and
 * from the random start for rows that are zero in B.
 *
 * Values left: for every sample Bᵀ [r, C], then Aᵀ [r, M]; or X. Side bytes: none. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/sized.h"
#include "common/codec/warm.h"

enum { RANK, ITERS, WARM };

static const struct sl_arg args[] = {
	{.key = "rank", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = 1024},
	{.key = "iters", .type = SL_ARG_INT, .least = 1, .most = 16, .otherwise = 1},
	{.key = "warm", .type = SL_ARG_FLAG},
	{0},
};

struct lowrank {
	struct sl_stage_env env;
	int r, iters;
	bool ragged;
	int64_t m, c;         /* of the largest sample */
	int64_t kept;         /* length of a warm factor's row: the larger side, or c if lengths differ */
	float *start;         /* [r][larger side] of the sample that reads it */
	float *factor;        /* [threads][r · (m + c)] */
	struct sl_warm *warm; /* [slots], or NULL */
	/* of the running call */
	const struct sl_extent *xs, *ys;
	struct sl_warm *use, *save; /* warm factors to start from, and to write; or NULL */
	const float *x;
	float *to;
	sl_f32u *y;
	const sl_f32u *from;
	atomic_bool nonfinite;
};

/* The sides of the largest sample. */
static void sides(const struct sl_extent *e, int64_t *m, int64_t *c)
{
	*c = e->shape.dim[e->shape.ndim - 1];
	*m = sl_extent_ragged(e) ? e->longest : sl_shape_row(&e->shape) / *c;
}

static int64_t larger(int64_t m, int64_t c)
{
	return m < c ? c : m;
}

/* For samples of different lengths: whether one of m positions is sent as it is. */
static bool goes_whole(int64_t r, int64_t m, int64_t c)
{
	return r * (m + c) >= m * c;
}

static int64_t values_of(int64_t r, int64_t m, int64_t c)
{
	return goes_whole(r, m, c) ? m * c : r * (m + c);
}

static void ragged_shape(int64_t r, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	int64_t c = in->shape.dim[in->shape.ndim - 1], n = r * (in->shape.dim[0] + in->rows * c);

	if (begin == NULL) {
		*out = sl_extent_flat(n < in->shape.dim[0] * c ? n : in->shape.dim[0] * c);
	} else {
		begin[0] = 0;
		for (int64_t i = 0; i < in->rows; i++)
			begin[i + 1] = begin[i] + (uint32_t)values_of(r, sl_extent_length(in, i), c);
		*out = sl_extent_flat(begin[in->rows]);
	}
	out->rows = in->rows;
	out->longest = values_of(r, in->longest, c);
	out->begin = begin;
}

static void shape(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin)
{
	int64_t m, c, r = (int64_t)arg[RANK];

	if (sl_extent_ragged(in)) {
		ragged_shape(r, in, out, begin);
		return;
	}
	sides(in, &m, &c);
	*out = sl_extent_of(sl_shape2(in->shape.dim[0], r * (m + c)));
}

static enum sl_err check(const double *arg, bool channels, bool samples, struct sl_fail *fail)
{
	if (!channels || !samples)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: lowrank needs the tensor's samples and channels, and the stage "
				   "before it does not keep them");
	return SL_OK;
}

static void close_lowrank(void *state)
{
	struct lowrank *l = state;

	for (int s = 0; l->warm != NULL && s < l->env.slots; s++) {
		free(l->warm[s].current);
		free(l->warm[s].pending);
	}
	free(l->warm);
	free(l->start);
	free(l->factor);
}

static enum sl_err open_warm(struct lowrank *l)
{
	size_t count = (size_t)(l->env.most.rows * l->r * l->kept);

	l->warm = calloc((size_t)l->env.slots, sizeof *l->warm);
	if (l->warm == NULL)
		return SL_ERR_NOMEM;
	for (int s = 0; s < l->env.slots; s++) {
		l->warm[s].current = calloc(count, sizeof(float));
		l->warm[s].pending = calloc(count, sizeof(float));
		if (l->warm[s].current == NULL || l->warm[s].pending == NULL)
			return SL_ERR_NOMEM;
	}
	return SL_OK;
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	int64_t m, c, r = (int64_t)env->arg[RANK];

	sides(&env->most, &m, &c);
	sl_need(&need->host, r * larger(m, c), sizeof(float));
	sl_need(&need->host, sl_stage_threads(env) * r * (m + c), sizeof(float));
	if (env->arg[WARM] != 0) {
		uint64_t slot = sizeof(struct sl_warm);

		sl_need(&slot, env->most.rows * r * (sl_extent_ragged(&env->most) ? c : larger(m, c)),
			2 * sizeof(float));
		sl_need(&need->host, env->slots, slot);
	}
}

static enum sl_err open_lowrank(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	size_t threads = (size_t)sl_stage_threads(env);
	const struct sl_shape *s = &env->most.shape;
	bool ragged = sl_extent_ragged(&env->most);
	char text[SL_SHAPE_TEXT];
	struct lowrank *l = *state;
	int64_t m, c;

	sides(&env->most, &m, &c);
	/* of samples of different lengths, those shorter than the rank are sent as they are */
	if ((ragged ? s->ndim != 2 : s->ndim < 3) || env->arg[RANK] > (double)(m < c && !ragged ? m : c))
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"codec: lowrank:%g needs samples of at least that many positions and channels, not %s",
			env->arg[RANK], sl_shape_text(s, text));
	l->env = *env;
	l->r = (int)env->arg[RANK];
	l->iters = (int)env->arg[ITERS];
	l->ragged = ragged;
	l->m = m;
	l->c = c;
	l->kept = ragged ? c : larger(m, c);
	l->start = malloc((size_t)(l->r * larger(m, c)) * sizeof *l->start);
	l->factor = malloc(threads * (size_t)(l->r * (m + c)) * sizeof *l->factor);
	if (l->start == NULL || l->factor == NULL || (env->arg[WARM] != 0 && open_warm(l) != SL_OK))
		return sl_fail_set(fail, SL_ERR_NOMEM, "lowrank: no memory for %s", sl_shape_text(s, text));
	return SL_OK;
}

/* ---- encoding */

static double dot(const float *a, const float *b, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

static void subtract(float *a, const float *b, double factor, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		a[i] = (float)((double)a[i] - factor * (double)b[i]);
}

/* Orthonormalises the rows of a [r][n] by modified Gram-Schmidt, in double. A row that earlier rows span becomes
 * zero. False: NaN or Inf. */
static bool orthonormalise(float *a, int r, int64_t n)
{
	for (int j = 0; j < r; j++) {
		float *row = a + j * n;
		double before = dot(row, row, n), after;

		if (!isfinite(before))
			return false;
		for (int k = 0; k < j; k++)
			subtract(row, a + k * n, dot(row, a + k * n, n), n);
		after = dot(row, row, n);
		/* only rounding errors are left, or nothing */
		if (after <= before * 1e-12) {
			memset(row, 0, (size_t)n * sizeof *row);
			continue;
		}
		after = 1 / sqrt(after);
		for (int64_t i = 0; i < n; i++)
			row[i] = (float)((double)row[i] * after);
	}
	return true;
}

/* The largest |bits|. */
static uint32_t top_of(const struct sl_codec_loops *loops, const float *a, int64_t n)
{
	struct sl_range range = SL_RANGE_EMPTY;

	loops->minmax(a, n, &range);
	return range.top;
}

static void put_scaled(sl_f32u *restrict to, const float *restrict a, int64_t n, int exponent)
{
	const float by = ldexpf(1, exponent);

	for (int64_t i = 0; i < n; i++)
		to[i] = a[i] * by;
}

/* The exponent by which a row of Aᵀ grows and one of Bᵀ shrinks, given their largest |bits|: a·b stays what it is.
 * One of these rows has norm 1, so the exponent is far from the ends of fp32. */
static int balance(uint32_t top_a, uint32_t top_b)
{
	return top_a == 0 || top_b == 0 ? 0 : ((int)(top_b >> 23) - (int)(top_a >> 23)) / 2;
}

/* Writes Bᵀ [r][c], Aᵀ [r][m], balanced, to y; a and b stay as they are, for a warm start. False: NaN or Inf. */
static bool send_factors(const struct sl_codec_loops *loops, const float *a, int64_t m, const float *b, int64_t c,
			 int r, sl_f32u *y)
{
	for (int j = 0; j < r; j++) {
		uint32_t top_a = top_of(loops, a + j * m, m), top_b = top_of(loops, b + j * c, c);
		int up = balance(top_a, top_b);

		if (top_a >= SL_F32_INF_BITS || top_b >= SL_F32_INF_BITS)
			return false;
		put_scaled(y + j * c, b + j * c, c, -up);
		put_scaled(y + r * c + j * m, a + j * m, m, up);
	}
	return true;
}

static bool all_zero(const float *a, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		if (a[i] != 0)
			return false;
	}
	return true;
}

/* One sample at work: x [m][c], a [r][m], b [r][c]. */
struct sample {
	const float *x;
	int64_t m;
	float *a, *b;
};

/* The factor on the larger side that the iteration starts from: l->start or, for a warm sample, one that is put into
 * a or b. */
static const float *start_of(const struct lowrank *l, const struct sample *s, int64_t row)
{
	int64_t large = larger(s->m, l->c);
	bool through_x = l->ragged && l->c <= s->m;
	float *to = l->c <= s->m ? s->a : s->b;
	const float *warm;

	if (l->use == NULL || row >= l->use->current_rows)
		return l->start;
	warm = l->use->current + row * l->r * l->kept;
	if (through_x)
		l->env.loops->mul_x(s->x, s->m, l->c, warm, l->r, to);
	for (int64_t j = 0; j < l->r; j++) {
		const float *from = warm + j * l->kept;

		if (all_zero(from, l->kept))
			from = l->start + j * large;
		else if (through_x)
			continue;
		memcpy(to + j * large, from, (size_t)large * sizeof *to);
	}
	return to;
}

/* False: NaN or Inf. */
static bool iterate(const struct lowrank *l, const struct sample *s, const float *start)
{
	const struct sl_codec_loops *loops = l->env.loops;
	bool good = true;

	for (int i = 0; good && i < l->iters; i++) {
		if (l->c <= s->m) {
			loops->mul_xt(s->x, s->m, l->c, i == 0 ? start : s->a, l->r, s->b);
			good = orthonormalise(s->b, l->r, l->c);
			loops->mul_x(s->x, s->m, l->c, s->b, l->r, s->a);
		} else {
			loops->mul_x(s->x, s->m, l->c, i == 0 ? start : s->b, l->r, s->a);
			good = orthonormalise(s->a, l->r, s->m);
			loops->mul_xt(s->x, s->m, l->c, s->a, l->r, s->b);
		}
	}
	return good;
}

static struct sample sample_at(const struct lowrank *l, int64_t row, int worker)
{
	int64_t m = l->ragged ? sl_extent_length(l->xs, row) : l->m;
	float *b = l->factor + worker * l->r * (l->m + l->c);

	return (struct sample){.x = l->x + sl_extent_at(l->xs, row), .m = m, .a = b + l->r * l->c, .b = b};
}

/* Sends a sample as it is. Its warm factor becomes zero, which is none. False: NaN or Inf. */
static bool send_whole(const struct lowrank *l, const struct sample *s, int64_t row, sl_f32u *y)
{
	int64_t n = s->m * l->c, kept = l->r * l->kept;

	memcpy((void *)y, s->x, (size_t)n * sizeof *s->x);
	if (l->save != NULL)
		memset(l->save->pending + row * kept, 0, (size_t)kept * sizeof(float));
	return top_of(l->env.loops, s->x, n) < SL_F32_INF_BITS;
}

static bool send_sample(const struct lowrank *l, const struct sample *s, int64_t row, sl_f32u *y)
{
	const float *keep = l->ragged || s->m < l->c ? s->b : s->a;
	int64_t kept = l->r * l->kept;

	if (l->ragged && goes_whole(l->r, s->m, l->c))
		return send_whole(l, s, row, y);
	if (!iterate(l, s, start_of(l, s, row)) || !send_factors(l->env.loops, s->a, s->m, s->b, l->c, l->r, y))
		return false;
	if (l->save != NULL)
		memcpy(l->save->pending + row * kept, keep, (size_t)kept * sizeof *keep);
	return true;
}

static void factor_sample(void *arg, int64_t row, int worker)
{
	struct lowrank *l = arg;
	const struct sample s = sample_at(l, row, worker);

	if (!send_sample(l, &s, row, l->y + sl_extent_at(l->ys, row)))
		atomic_store_explicit(&l->nonfinite, true, memory_order_relaxed);
}

static enum sl_err forward(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			   sl_f32u *y, struct sl_extent *ys, struct sl_buf *side)
{
	struct lowrank *l = state;
	struct sl_rng_key key = sl_codec_key(l->env.seed, l->env.dir, call, SL_STAGE_TRANSFORM);
	int64_t large = l->r * larger(l->m, l->c);

	for (int64_t first = 0; first < large; first += SL_CODEC_TILE) {
		int64_t n = large - first < SL_CODEC_TILE ? large - first : SL_CODEC_TILE;
		uint32_t word[SL_CODEC_TILE];

		l->env.loops->random32(&key, (uint64_t)first, n, word);
		for (int64_t i = 0; i < n; i++)
			l->start[first + i] = sl_rng_unit(word[i]) * 2 - 1;
	}
	l->use = l->save = l->warm != NULL && call->training ? &l->warm[call->chunk % l->env.slots] : NULL;
	l->x = x;
	l->y = y;
	l->xs = xs;
	l->ys = ys;
	l->nonfinite = false;
	sl_pool_run(l->env.pool, xs->rows, factor_sample, l);
	if (l->save != NULL)
		l->save->pending_rows = l->nonfinite ? 0 : xs->rows;
	return l->nonfinite ? SL_ERR_NONFINITE : SL_OK;
}

static void commit(void *state)
{
	struct lowrank *l = state;

	sl_warm_commit(l->warm, l->env.slots);
}

static void rollback(void *state)
{
	struct lowrank *l = state;

	sl_warm_rollback(l->warm, l->env.slots);
}

/* The state has for each slot: u32 rows of the committed factor (0: none), then its floats, rows · r · kept. */
static size_t warm_floats(const struct lowrank *l, int64_t rows)
{
	return (size_t)(rows * l->r * l->kept);
}

static size_t state_most(const struct sl_stage_env *env)
{
	int64_t m, c, kept;

	if (env->arg[WARM] == 0)
		return 0;
	sides(&env->most, &m, &c);
	kept = sl_extent_ragged(&env->most) ? c : larger(m, c);
	return (size_t)env->slots * (4 + (size_t)(env->most.rows * (int64_t)env->arg[RANK] * kept) * sizeof(float));
}

static size_t state_bytes(const void *state)
{
	const struct lowrank *l = state;

	return l->warm == NULL ? 0 : (size_t)l->env.slots * (4 + warm_floats(l, l->env.most.rows) * sizeof(float));
}

static enum sl_err save(const void *state, struct sl_buf *out)
{
	const struct lowrank *l = state;
	enum sl_err err = SL_OK;

	for (int s = 0; l->warm != NULL && s < l->env.slots && !err; s++) {
		uint32_t rows = (uint32_t)l->warm[s].current_rows;

		err = sl_buf_put(out, &rows, sizeof rows);
		if (!err)
			err = sl_buf_put(out, l->warm[s].current, warm_floats(l, rows) * sizeof(float));
	}
	return err;
}

static enum sl_err load(void *state, struct sl_bytes *in)
{
	struct lowrank *l = state;
	enum sl_err err = SL_OK;

	for (int s = 0; l->warm != NULL && s < l->env.slots; s++) {
		struct sl_bytes four, floats;
		uint32_t rows = 0;

		if (!err)
			err = sl_bytes_take(in, sizeof rows, &four);
		if (!err)
			memcpy(&rows, four.data, sizeof rows);
		if (!err && rows > l->env.most.rows)
			err = SL_ERR_DATA;
		if (!err)
			err = sl_bytes_take(in, warm_floats(l, rows) * sizeof(float), &floats);
		if (!err)
			memcpy(l->warm[s].current, floats.data, floats.len);
		l->warm[s].current_rows = !err ? rows : 0;
	}
	return err;
}

/* ---- decoding */

static enum sl_err parse(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			 const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail)
{
	return sl_sized_parse("lowrank", ys, side, count, fail);
}

static void restore_sample(void *arg, int64_t row, int worker)
{
	struct lowrank *l = arg;
	const sl_f32u *from = l->from + sl_extent_at(l->ys, row);
	int64_t m = l->ragged ? sl_extent_length(l->xs, row) : l->m;
	float *b = l->factor + worker * l->r * (l->m + l->c), *to = l->to + sl_extent_at(l->xs, row);

	if (l->ragged && goes_whole(l->r, m, l->c)) {
		memcpy(to, (const void *)from, (size_t)(m * l->c) * sizeof *to);
		return;
	}
	/* a copy, because values in a payload are not aligned */
	memcpy(b, (const void *)from, (size_t)(l->r * (m + l->c)) * sizeof *b);
	l->env.loops->outer(b + l->r * l->c, b, m, l->c, l->r, to);
}

static enum sl_err inverse(void *state, const struct sl_codec_call *call, const sl_f32u *y, const struct sl_extent *ys,
			   float *x, const struct sl_extent *xs)
{
	struct lowrank *l = state;

	l->from = y;
	l->to = x;
	l->xs = xs;
	l->ys = ys;
	sl_pool_run(l->env.pool, xs->rows, restore_sample, l);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_lowrank = {
	.id = SL_STAGE_ID_LOWRANK,
	.kind = SL_STAGE_TRANSFORM,
	.name = "lowrank",
	.usage = "lowrank:r with r = 1…1024; options iters=1…16, warm=true|false",
	.args = args,
	.check = check,
	.by_sample = sl_sized_always,
	.keeps_samples = true,
	.shape = shape,
	.bound = sl_sized_bound,
	.size = sizeof(struct lowrank),
	.memory = memory,
	.open = open_lowrank,
	.close = close_lowrank,
	.commit = commit,
	.rollback = rollback,
	.state_most = state_most,
	.state_bytes = state_bytes,
	.save = save,
	.load = load,
	.forward = forward,
	.parse = parse,
	.inverse = inverse,
};
