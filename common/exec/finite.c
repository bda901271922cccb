#include "common/exec/finite.h"

#include <string.h>

enum { BLOCK = 4096 };

static const uint32_t exponent = 0x7f800000u;

/* Has no branch within a block, so that the compiler can use vectors. */
bool sl_finite_host(const float *x, int64_t count)
{
	for (int64_t at = 0; at < count; at += BLOCK) {
		int64_t n = count - at < BLOCK ? count - at : BLOCK;
		uint32_t bad = 0;

		for (int64_t i = 0; i < n; i++) {
			uint32_t bits;

			memcpy(&bits, &x[at + i], sizeof bits);
			bad |= (bits & exponent) == exponent;
		}
		if (bad)
			return false;
	}
	return true;
}

int64_t sl_finite_find(const float *x, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (!sl_finite_host(x + i, 1))
			return i;
	return count;
}

enum sl_err sl_finite(struct sl_backend *be, const float *x, int64_t count, bool *finite)
{
	float block[BLOCK];
	enum sl_err err = SL_OK;

	if (be->ops->finite)
		return be->ops->finite(be, x, count, finite);
	*finite = true;
	for (int64_t at = 0; at < count && *finite && !err; at += BLOCK) {
		int64_t n = count - at < BLOCK ? count - at : BLOCK;

		err = be->ops->download(be, block, x + at, (size_t)n * sizeof *block);
		*finite = err || sl_finite_host(block, n);
	}
	return err;
}

enum sl_err sl_finite_tensor(const struct sl_tensor *x, const char *name, int chunk, struct sl_fail *fail)
{
	bool finite = true;
	enum sl_err err = sl_finite(x->be, x->data, sl_shape_count(&x->shape), &finite);

	if (err)
		return sl_fail_set(fail, err, "%s of chunk %d: %s", name, chunk, sl_err_text(err));
	return finite ? SL_OK : sl_fail_set(fail, SL_ERR_NONFINITE, "NaN or Inf in %s of chunk %d", name, chunk);
}
