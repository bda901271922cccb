/* Error feedback: the residuals, in memory where the tensors are, and their sums.
 *
 * A residual has the layout of the tensor. If rows have different lengths, token t of row r is at r · row_tokens + t
 * instead. So the next step finds its residual, whatever the rows' lengths are then. */
#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/pieces.h"
#include "common/base/pool.h"
#include "common/codec/impl.h"
#include "common/exec/backend.h"

enum sl_err sl_codec_feeds_back(const struct sl_codec_spec *spec, const struct sl_extent *most, struct sl_fail *fail)
{
	struct sl_extent in = *most;

	for (int i = 0; i < spec->n_stage && spec->error_feedback; i++) {
		const struct sl_codec_stage *stage = spec->stage[i].stage;
		const double *arg = spec->stage[i].arg;
		struct sl_extent out = in;

		if (stage->contracts != NULL && !stage->contracts(arg, &in))
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: error feedback would diverge, because %s may lose as much of %lld "
					   "values as it is given: leave ef=true out%s",
					   spec->text, stage->name, (long long)sl_shape_count(&in.shape),
					   stage->instead);
		if (stage->kind == SL_STAGE_TRANSFORM)
			stage->shape(arg, &in, &out, NULL);
		in = out;
	}
	return SL_OK;
}

static size_t tensor_bytes(const struct sl_codec *c)
{
	return sl_align((size_t)sl_shape_count(&c->env.shape) * sizeof(float));
}

size_t sl_feedback_floats(const struct sl_codec *c)
{
	if (c->env.row_tokens != 0)
		return (size_t)(c->env.rows * c->env.row_tokens * sl_shape_row(&c->env.shape));
	return (size_t)sl_shape_count(&c->env.shape);
}

static size_t residual_bytes(const struct sl_codec *c)
{
	return sl_align(sl_feedback_floats(c) * sizeof(float));
}

void sl_feedback_memory(const struct sl_codec *c, struct sl_memory *need)
{
	sl_need(&need->host, c->env.slots, sizeof *c->residual);
	sl_need(c->device ? &need->device : &need->host, 2, tensor_bytes(c));
	sl_need(c->device ? &need->device : &need->host, 2 * (int64_t)c->env.slots, residual_bytes(c));
}

enum sl_err sl_feedback_open(struct sl_codec *c, struct sl_fail *fail)
{
	size_t tensor = tensor_bytes(c) / sizeof(float), each = residual_bytes(c) / sizeof(float);
	size_t bytes = (2 * tensor + 2 * (size_t)c->env.slots * each) * sizeof(float);
	const struct sl_backend_ops *ops = c->env.be == NULL ? NULL : c->env.be->ops;
	enum sl_err err;
	float *at;

	c->residual = calloc((size_t)c->env.slots, sizeof *c->residual);
	if (c->residual == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for %d slots", c->env.slots);
	err = c->device ? ops->alloc(c->env.be, bytes, &c->feedback_there, fail)
			: sl_arena_open(&c->feedback, bytes, fail);
	if (err)
		return err;
	at = c->device ? c->feedback_there : sl_arena_take(&c->feedback, bytes);
	c->sum = at;
	c->back = at + tensor;
	at += 2 * tensor;
	for (int s = 0; s < c->env.slots; s++) {
		c->residual[s].current = at + 2 * (size_t)s * each;
		c->residual[s].pending = at + (2 * (size_t)s + 1) * each;
	}
	return SL_OK;
}

void sl_feedback_close(struct sl_codec *c)
{
	if (c->feedback_there != NULL)
		c->env.be->ops->free(c->env.be, c->feedback_there);
	sl_arena_close(&c->feedback);
	free(c->residual);
}

struct feedback {
	int64_t n;
	const float *a, *b;
	float *out;
	float sign;
};

static void feedback_block(void *arg, int64_t block, int worker)
{
	const struct feedback *f = arg;
	int64_t first = block * SL_CODEC_BLOCK;
	int64_t stop = first + SL_CODEC_BLOCK < f->n ? first + SL_CODEC_BLOCK : f->n;

	for (int64_t i = first; i < stop; i++)
		f->out[i] = f->a[i] + f->sign * f->b[i];
}

static enum sl_err combine(struct sl_codec *c, float *out, const float *a, const float *b, float sign, int64_t n)
{
	struct feedback f = {.n = n, .a = a, .b = b, .out = out, .sign = sign};

	if (c->device)
		return c->env.be->ops->combine(c->env.be, out, a, b, sign, n);
	sl_pool_run(c->pool, sl_codec_blocks(n), feedback_block, &f);
	return SL_OK;
}

/* The same, row by row, for rows of different lengths. The argument in the residual's layout is b if `adds`, else
 * out. */
static enum sl_err combine_rows(struct sl_codec *c, float *out, const float *a, const float *b, float sign,
				const struct sl_extent *e, bool adds)
{
	int64_t stride = c->env.row_tokens * sl_shape_row(&e->shape);
	enum sl_err err = SL_OK;

	for (int64_t row = 0; row < e->rows && !err; row++) {
		int64_t at = sl_extent_at(e, row), n = sl_extent_at(e, row + 1) - at, there = row * stride;

		err = adds ? combine(c, out + at, a + at, b + there, sign, n)
			   : combine(c, out + there, a + at, b + at, sign, n);
	}
	return err;
}

/* The mean square of a sample of x. The sample is all elements if they are few, else the first ones on a device, and
 * elements far apart on the host. */
static enum sl_err mean_square(const struct sl_codec *c, const float *x, int64_t n, double *out)
{
	enum { SAMPLE = 1024 };
	int64_t k = n < SAMPLE ? n : SAMPLE, stride = c->device ? 1 : n / k;
	float there[SAMPLE];
	double sum = 0;

	if (c->device) {
		enum sl_err err = c->env.be->ops->download(c->env.be, there, x, (size_t)k * sizeof *x);

		if (err)
			return err;
		x = there;
	}
	for (int64_t i = 0; i < k; i++)
		sum += (double)x[i * stride] * (double)x[i * stride];
	*out = sum / (double)k;
	return SL_OK;
}

/* Warns once if a residual has outgrown its tensors. If a codec contracts and sends one of m values, the residual
 * stays below 2·m times the largest tensor. The limit is 100 times max(m, 10). */
static enum sl_err watch_growth(struct sl_codec *c, const struct residual *r, const float *x, const struct sl_extent *e)
{
	enum { ALLOWED = 100, LEAST = 10 };
	struct sl_extent sent = sl_codec_most_after(c, c->n_transform, e->shape.dim[0]);
	double n = (double)sl_shape_count(&e->shape), m = n / (double)sl_shape_count(&sent.shape), tensor, residual;
	enum sl_err err = mean_square(c, x, sl_shape_count(&e->shape), &tensor);

	if (!err)
		err = mean_square(c, r->current, (int64_t)sl_feedback_floats(c), &residual);
	if (err)
		return err;
	c->largest = tensor > c->largest ? tensor : c->largest;
	m = ALLOWED * (m > LEAST ? m : LEAST);
	if (residual > m * m * c->largest && c->largest > 0 && !c->grows) {
		c->grows = true;
		sl_log_limited(SL_LOG_WARN, "feedback-grows",
			       "codec %s of %s: error feedback holds back %.0f times what a tensor has, and "
			       "diverges: leave ef=true out",
			       c->spec.text, sl_dir_name(c->env.dir), sqrt(residual / c->largest));
	}
	return SL_OK;
}

enum sl_err sl_feedback_add(struct sl_codec *c, const struct residual *r, const struct sl_codec_call *call,
			    const float **x, const struct sl_extent *e)
{
	enum { WATCH_STEPS = 16 };
	enum sl_err err = SL_OK;

	if (r->has_current && call->step % WATCH_STEPS == 0)
		err = watch_growth(c, r, *x, e);
	if (r->has_current && !err) {
		err = sl_extent_ragged(e) ? combine_rows(c, c->sum, *x, r->current, 1, e, true)
					  : combine(c, c->sum, *x, r->current, 1, sl_shape_count(&e->shape));
		*x = c->sum;
	}
	return err;
}

/* Zeroes the pending residual from float n on. */
static enum sl_err clear_pending(struct sl_codec *c, struct residual *r, int64_t n)
{
	size_t rest = residual_bytes(c) - (size_t)n * sizeof(float);

	if (c->device)
		return rest > 0 ? c->env.be->ops->zero(c->env.be, r->pending + n, rest) : SL_OK;
	sl_clear(r->pending + n, rest);
	return SL_OK;
}

enum sl_err sl_feedback_keep(struct sl_codec *c, struct residual *r, const float *x, const struct sl_extent *e)
{
	int64_t n = sl_extent_ragged(e) ? 0 : sl_shape_count(&e->shape);
	/* rows and tokens that this chunk lacks have lost nothing */
	enum sl_err err = clear_pending(c, r, n);

	if (!err)
		err = sl_extent_ragged(e) ? combine_rows(c, r->pending, x, c->back, -1, e, false)
					  : combine(c, r->pending, x, c->back, -1, n);
	r->has_pending = !err;
	return err;
}

enum sl_err sl_feedback_save(const struct sl_codec *c, const struct residual *r, struct sl_buf *out)
{
	size_t bytes = sl_feedback_floats(c) * sizeof(float);
	enum sl_err err;

	if (!c->device)
		return sl_buf_put(out, r->current, bytes);
	if (bytes > out->cap - out->len)
		return SL_ERR_LIMIT;
	err = c->env.be->ops->download(c->env.be, out->data + out->len, r->current, bytes);
	out->len += !err ? bytes : 0;
	return err;
}

enum sl_err sl_feedback_load(struct sl_codec *c, struct residual *r, struct sl_bytes in)
{
	if (c->device)
		return c->env.be->ops->upload(c->env.be, r->current, in.data, in.len);
	sl_copy(r->current, in.data, in.len);
	return SL_OK;
}
