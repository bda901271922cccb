#include "tests/ref/ref.h"

#include <stdlib.h>
#include <string.h>

#include "tests/ref/kernels.h"

enum { ALIGN = 64 };

static enum sl_err ref_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	size_t padded = (bytes / ALIGN + 1) * ALIGN; /* never 0 */
	void *ptr = padded > bytes ? aligned_alloc(ALIGN, padded) : NULL;

	if (!ptr)
		return sl_fail_set(fail, SL_ERR_NOMEM, "reference backend: %zu bytes of memory refused", bytes);
	memset(ptr, 0, padded);
	*out = ptr;
	return SL_OK;
}

static void ref_free(struct sl_backend *be, void *ptr)
{
	free(ptr);
}

static enum sl_err ref_copy(struct sl_backend *be, void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
	return SL_OK;
}

static enum sl_err ref_zero(struct sl_backend *be, void *dst, size_t bytes)
{
	memset(dst, 0, bytes);
	return SL_OK;
}

static enum sl_err ref_fence(struct sl_backend *be, void (*done)(void *arg), void *arg)
{
	done(arg);
	return SL_OK;
}

static void ref_close(struct sl_backend *be)
{
	*be = (struct sl_backend){0};
}

static const struct sl_backend_ops ref_ops = {
	.name = "ref",
	.alloc = ref_alloc,
	.free = ref_free,
	.upload = ref_copy,
	.download = ref_copy,
	.zero = ref_zero,
	.fence = ref_fence,
	.update = sl_ref_update,
	.kernel =
		{
			[SL_OP_CONV2D] = &sl_ref_conv2d,
			[SL_OP_CONVT2D] = &sl_ref_convt2d,
			[SL_OP_BATCHNORM] = &sl_ref_batchnorm,
			[SL_OP_ACT] = &sl_ref_act,
			[SL_OP_ADD] = &sl_ref_add,
			[SL_OP_MAXPOOL] = &sl_ref_maxpool,
			[SL_OP_AVGPOOL] = &sl_ref_avgpool,
			[SL_OP_LINEAR] = &sl_ref_linear,
			[SL_OP_DROPOUT] = &sl_ref_dropout,
			[SL_OP_FLATTEN] = &sl_ref_flatten,
			[SL_OP_XENT] = &sl_ref_xent,
			[SL_OP_MSE] = &sl_ref_mse,
			[SL_OP_SCALE] = &sl_ref_scale,
			[SL_OP_GELU] = &sl_ref_gelu,
			[SL_OP_ATTENTION] = &sl_ref_attention,
			[SL_OP_SELECT] = &sl_ref_select,
			[SL_OP_GATHER] = &sl_ref_gather,
			[SL_OP_SILU] = &sl_ref_silu,
			[SL_OP_TANH] = &sl_ref_tanh,
			[SL_OP_SIGMOID] = &sl_ref_sigmoid,
			[SL_OP_HARDSIGMOID] = &sl_ref_hardsigmoid,
			[SL_OP_HARDSWISH] = &sl_ref_hardswish,
			[SL_OP_GATE] = &sl_ref_gate,
			[SL_OP_CONCAT] = &sl_ref_concat,
			[SL_OP_MUL] = &sl_ref_mul,
			[SL_OP_LAYERNORM] = &sl_ref_layernorm,
			[SL_OP_RMSNORM] = &sl_ref_rmsnorm,
			[SL_OP_TRANSPOSE] = &sl_ref_transpose,
			[SL_OP_EMBEDDING] = &sl_ref_embedding,
			[SL_OP_ELU] = &sl_ref_elu,
			[SL_OP_SOFTPLUS] = &sl_ref_softplus,
			[SL_OP_MATH] = &sl_ref_math,
			[SL_OP_PERMUTE] = &sl_ref_permute,
			[SL_OP_RESAMPLE] = &sl_ref_resample,
			[SL_OP_GROUPNORM] = &sl_ref_groupnorm,
			[SL_OP_REPEAT] = &sl_ref_repeat,
		},
	.close = ref_close,
};

enum sl_err sl_ref_backend_open(struct sl_backend *be, struct sl_fail *fail)
{
	*be = (struct sl_backend){.ops = &ref_ops, .host_memory = true};
	return SL_OK;
}
