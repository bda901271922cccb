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
#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) &sl_ref_##word,
#include "common/graph/ops.def"
		},
	.close = ref_close,
};

enum sl_err sl_ref_backend_open(struct sl_backend *be, struct sl_fail *fail)
{
	*be = (struct sl_backend){.ops = &ref_ops, .host_memory = true};
	return SL_OK;
}
