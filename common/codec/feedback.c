/* Error feedback: memory of the residuals, where the tensors are, and the sums. */
#include <stdlib.h>
#include <string.h>

#include "common/base/pieces.h"
#include "common/base/pool.h"
#include "common/codec/impl.h"
#include "common/nn/backend.h"

static size_t tensor_bytes(const struct sl_codec *c)
{
	return sl_align((size_t)sl_shape_count(&c->env.shape) * sizeof(float));
}

void sl_feedback_memory(const struct sl_codec *c, struct sl_memory *need)
{
	sl_need(&need->host, c->env.slots, sizeof *c->residual);
	sl_need(c->device ? &need->device : &need->host, 2 + 2 * (int64_t)c->env.slots, tensor_bytes(c));
}

enum sl_err sl_feedback_open(struct sl_codec *c, struct sl_fail *fail)
{
	size_t each = tensor_bytes(c) / sizeof(float), bytes = tensor_bytes(c) * (2 + 2 * (size_t)c->env.slots);
	const struct sl_backend_ops *ops = c->env.be == NULL ? NULL : c->env.be->ops;
	enum sl_err err;
	float *at;

	c->residual = calloc((size_t)c->env.slots, sizeof *c->residual);
	if (c->residual == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for %d slots", c->env.slots);
	err = c->device ? ops->alloc(c->env.be, bytes, &c->feedback_there, fail)
			: sl_arena_open(&c->feedback, bytes, fail);
	if (err != SL_OK)
		return err;
	at = c->device ? c->feedback_there : sl_arena_take(&c->feedback, bytes);
	c->sum = at;
	c->back = at + each;
	for (int s = 0; s < c->env.slots; s++) {
		c->residual[s].current = at + (2 + 2 * (size_t)s) * each;
		c->residual[s].pending = at + (3 + 2 * (size_t)s) * each;
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

	(void)worker;
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

enum sl_err sl_feedback_add(struct sl_codec *c, const struct residual *r, const float **x, int64_t n)
{
	enum sl_err err = SL_OK;

	if (r->has_current) {
		err = combine(c, c->sum, *x, r->current, 1, n);
		*x = c->sum;
	}
	return err;
}

enum sl_err sl_feedback_keep(struct sl_codec *c, struct residual *r, const float *x, int64_t n)
{
	size_t rest = tensor_bytes(c) - (size_t)n * sizeof(float);
	enum sl_err err = SL_OK;

	/* rows that this chunk does not have */
	if (!c->device)
		sl_clear(r->pending + n, rest);
	else if (rest > 0)
		err = c->env.be->ops->zero(c->env.be, r->pending + n, rest);
	if (err == SL_OK)
		err = combine(c, r->pending, x, c->back, -1, n);
	r->has_pending = err == SL_OK;
	return err;
}

enum sl_err sl_feedback_save(const struct sl_codec *c, const struct residual *r, struct sl_buf *out)
{
	size_t bytes = (size_t)sl_shape_count(&c->env.shape) * sizeof(float);
	enum sl_err err;

	if (!c->device)
		return sl_buf_put(out, r->current, bytes);
	if (bytes > out->cap - out->len)
		return SL_ERR_LIMIT;
	err = c->env.be->ops->download(c->env.be, out->data + out->len, r->current, bytes);
	out->len += err == SL_OK ? bytes : 0;
	return err;
}

enum sl_err sl_feedback_load(struct sl_codec *c, struct residual *r, struct sl_bytes in)
{
	if (c->device)
		return c->env.be->ops->upload(c->env.be, r->current, in.data, in.len);
	sl_copy(r->current, in.data, in.len);
	return SL_OK;
}
