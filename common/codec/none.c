/* none — the values as they are: 4 n bytes. Carries any bits, NaN too. */
#include <string.h>

#include "common/base/pool.h"
#include "common/codec/sized.h"

static const struct sl_arg args[] = {{0}};

struct copy {
	struct sl_pool *pool;
	uint8_t *dst;
	const uint8_t *src;
	size_t bytes;
};

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return (size_t)sl_shape_count(&in->shape) * sizeof(float);
}

static double nominal(const double *arg, const struct sl_extent *in)
{
	return (double)bound(arg, false, in);
}

static enum sl_err open_none(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct copy *copy = *state;

	copy->pool = env->pool;
	return SL_OK;
}

enum { COPY_BYTES = 4 * SL_CODEC_BLOCK };

static void copy_block(void *arg, int64_t block, int worker)
{
	const struct copy *c = arg;
	size_t at = (size_t)block * COPY_BYTES, left = c->bytes - at;

	memcpy(c->dst + at, c->src + at, left < COPY_BYTES ? left : COPY_BYTES);
}

static void copy_all(struct copy *c, void *dst, const void *src, size_t bytes)
{
	c->dst = dst;
	c->src = src;
	c->bytes = bytes;
	sl_pool_run(c->pool, (int64_t)((bytes + COPY_BYTES - 1) / COPY_BYTES), copy_block, c);
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	size_t bytes = (size_t)sl_shape_count(&xs->shape) * sizeof *x;

	if (out->cap - out->len < bytes)
		return SL_ERR_LIMIT;
	copy_all(state, out->data + out->len, x, bytes);
	out->len += bytes;
	return SL_OK;
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_extent *xs, struct sl_fail *fail)
{
	size_t bytes = (size_t)sl_shape_count(&xs->shape) * sizeof *x;

	if (in.len != bytes)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "none: %zu bytes, expected %zu", in.len, bytes);
	copy_all(state, x, in.data, bytes);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_none = {
	.id = SL_STAGE_ID_NONE,
	.kind = SL_STAGE_QUANTIZER,
	.name = "none",
	.usage = "none takes no argument",
	.args = args,
	.by_token = sl_token_always,
	.bound = bound,
	.nominal = nominal,
	.size = sizeof(struct copy),
	.open = open_none,
	.encode = encode,
	.decode = decode,
};
