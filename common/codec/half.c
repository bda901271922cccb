/* f16, bf16 — IEEE half and bfloat16: 2 n bytes. Values are rounded to nearest even, and clamped to the largest
 * finite value (65504 for f16). */
#include <stdatomic.h>

#include "common/base/pool.h"
#include "common/codec/sized.h"

static const struct sl_arg args[] = {{0}};

struct half {
	struct sl_pool *pool;
	uint32_t (*to)(const float *x, int64_t n, uint8_t *out);
	void (*from)(const uint8_t *in, int64_t n, float *x);
	/* of the running call */
	int64_t n;
	const float *x;
	float *y;
	uint8_t *out;
	const uint8_t *in;
	atomic_bool nonfinite;
};

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return (size_t)sl_shape_count(&in->shape) * 2;
}

static double nominal(const double *arg, const struct sl_extent *in)
{
	return (double)bound(arg, false, in);
}

static enum sl_err open_f16(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct half *h = *state;

	*h = (struct half){.pool = env->pool, .to = env->loops->to_f16, .from = env->loops->from_f16};
	return SL_OK;
}

static enum sl_err open_bf16(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	struct half *h = *state;

	*h = (struct half){.pool = env->pool, .to = env->loops->to_bf16, .from = env->loops->from_bf16};
	return SL_OK;
}

static int64_t block_length(const struct half *h, int64_t block)
{
	int64_t left = h->n - block * SL_CODEC_BLOCK;

	return left < SL_CODEC_BLOCK ? left : SL_CODEC_BLOCK;
}

static void encode_block(void *arg, int64_t block, int worker)
{
	struct half *h = arg;
	int64_t first = block * SL_CODEC_BLOCK;

	if (h->to(h->x + first, block_length(h, block), h->out + 2 * first) >= SL_F32_INF_BITS)
		atomic_store_explicit(&h->nonfinite, true, memory_order_relaxed);
}

static void decode_block(void *arg, int64_t block, int worker)
{
	struct half *h = arg;
	int64_t first = block * SL_CODEC_BLOCK;

	h->from(h->in + 2 * first, block_length(h, block), h->y + first);
}

static enum sl_err encode(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			  struct sl_buf *out)
{
	struct half *h = state;

	h->n = sl_shape_count(&xs->shape);
	if (out->cap - out->len < (size_t)h->n * 2)
		return SL_ERR_LIMIT;
	h->x = x;
	h->out = out->data + out->len;
	h->nonfinite = false;
	sl_pool_run(h->pool, sl_codec_blocks(h->n), encode_block, h);
	if (h->nonfinite)
		return SL_ERR_NONFINITE;
	out->len += (size_t)h->n * 2;
	return SL_OK;
}

static enum sl_err decode(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			  const struct sl_extent *xs, struct sl_fail *fail)
{
	struct half *h = state;

	h->n = sl_shape_count(&xs->shape);
	if (in.len != (size_t)h->n * 2)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "16-bit floats: %zu bytes, expected %lld", in.len,
				   (long long)h->n * 2);
	h->in = in.data;
	h->y = x;
	sl_pool_run(h->pool, sl_codec_blocks(h->n), decode_block, h);
	return SL_OK;
}

const struct sl_codec_stage sl_stage_f16 = {
	.id = SL_STAGE_ID_F16,
	.kind = SL_STAGE_QUANTIZER,
	.name = "f16",
	.usage = "f16 takes no argument",
	.args = args,
	.by_token = sl_token_always,
	.bound = bound,
	.nominal = nominal,
	.size = sizeof(struct half),
	.open = open_f16,
	.encode = encode,
	.decode = decode,
};

const struct sl_codec_stage sl_stage_bf16 = {
	.id = SL_STAGE_ID_BF16,
	.kind = SL_STAGE_QUANTIZER,
	.name = "bf16",
	.usage = "bf16 takes no argument",
	.args = args,
	.by_token = sl_token_always,
	.bound = bound,
	.nominal = nominal,
	.size = sizeof(struct half),
	.open = open_bf16,
	.encode = encode,
	.decode = decode,
};
